//! ReAct: the model writes a thought and then an action or the answer, as text.
//!
//! After Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (2022). The
//! instructions are `prompts/react.md`.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use super::prompt::{Style, instructions};
use super::{Next, Outcome, Plan, Planner, Words};
use crate::engine::parse::Parsed;
use crate::engine::parse::live::Live;
use crate::engine::policy::Decision;
use crate::engine::{Answer, Run, parse};
use crate::error::Result;
use crate::llm::{Finish, Listener, Llm, Request};
use crate::session::Span;
use crate::session::event::{Fact, Message, Part, SpanKind};
use crate::tool::Toolchain;

/// The instructions that come with the program.
pub const PROMPT: &str = include_str!("../../../prompts/react.md");
/// Where the model is to stop: what follows would be an observation of its own invention.
const STOP: &[&str] = &["\nObservation"];

/// Small models call whatever looks like a call, so there is none in it; and without the second one they
/// explain the error.
const WORDS: Words = Words {
    wanted: "Write an `Action:` line with one of the tools and its arguments, or `Answer:` and the answer.",
    another: "Write an `Action:` line with one of the tools.",
    last_call: "No more actions are possible. Write `Answer:` and the best answer from what you know now; \
        say what is missing.",
    action: Some("Action"),
    enough: "If this answers the question, write `Answer:` and the answer.",
};

/// The planner of the engine `react`.
pub struct React {
    pub(super) llm: Box<dyn Llm>,
    pub(super) tools: Rc<Toolchain>,
    instructions: String,
    watched: bool,
}

/// Shows a reply while it comes, and notices when the rest of it cannot matter.
struct View<'a, 'b> {
    span: &'a mut Span<'b>,
    live: Live,
    watched: bool,
    /// Whether something has been shown, unless showing it failed.
    told: Result<bool>,
}

impl View<'_, '_> {
    fn finish(self, parsed: &Parsed) -> Result<()> {
        let Self {
            span,
            live,
            watched,
            mut told,
        } = self;
        live.finish(parsed, &mut show(span, watched, &mut told));
        told.map(|_| ())
    }
}

/// Records pieces of a reply as they are shown, unless nobody watches or one could not be shown.
fn show(span: &mut Span<'_>, watched: bool, told: &mut Result<bool>) -> impl FnMut(Part, &str) {
    move |part, text| {
        if watched && told.is_ok() {
            *told = span
                .record(Fact::Text {
                    part,
                    text: text.to_owned(),
                })
                .map(|()| true);
        }
    }
}

impl Listener for View<'_, '_> {
    fn hear(&mut self, piece: &str) -> ControlFlow<()> {
        self.live
            .push(piece, &mut show(self.span, self.watched, &mut self.told));
        match self.told.is_err() || self.live.is_over() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn again(&mut self) -> bool {
        self.live = Live::new();
        matches!(self.told, Ok(false))
    }

    fn failed(&mut self, attempt: &str, why: &str, after: Duration) {
        if let Err(error) = self.span.attempt(attempt, why, after) {
            self.told = Err(error);
        }
    }

    fn note(&mut self, text: &str) {
        let text = text.to_owned();
        if let Err(error) = self.span.record(Fact::Notice { text }) {
            self.told = Err(error);
        }
    }
}

impl React {
    /// Fails if the template has a placeholder that nothing stands for. `watched` says that somebody
    /// looks at replies while they come; only then are the pieces of them events.
    pub fn new(
        llm: Box<dyn Llm>,
        tools: Rc<Toolchain>,
        style: Style<'_>,
        watched: bool,
    ) -> Result<Self> {
        let instructions = instructions(&tools, style)?;
        Ok(Self {
            llm,
            tools,
            instructions,
            watched,
        })
    }
}

impl Planner for React {
    fn name(&self) -> &'static str {
        "react"
    }

    fn model(&self) -> &str {
        self.llm.name()
    }

    fn instructions(&self) -> &str {
        &self.instructions
    }

    fn pose(&self, question: &str) -> String {
        format!("Question: {question}")
    }

    fn recall(&self, answer: &str) -> String {
        format!("Answer: {answer}")
    }

    fn plan(&mut self, run: &mut Run) -> Result<Plan> {
        let request = Request {
            messages: run.transcript.messages(),
            stop: STOP,
            ..Request::default()
        };
        let model = self.llm.name().to_owned();
        let (parsed, finish) = run.session.span(SpanKind::Llm, &model, |span| {
            let mut view = View {
                span,
                live: Live::new(),
                watched: self.watched,
                told: Ok(false),
            };
            let reply = self.llm.ask(&request, &mut view);
            // What could not be shown comes before what it broke off.
            let reply = std::mem::replace(&mut view.told, Ok(true)).and(reply)?;
            let parsed = parse::parse(&reply.text, reply.finish);
            view.finish(&parsed)?;
            span.output(reply.text.as_str());
            span.used(reply.usage);
            Ok((parsed, reply.finish))
        })?;
        let instead = self.tools.instead(run.session.query(), &parsed.kept);
        let pointing = |why: String| match &instead {
            Some(call) if !why.ends_with('?') => format!("{why}; did you mean `{call}`?"),
            _ => why,
        };
        if !parsed.kept.is_empty() {
            run.transcript
                .say(&mut run.session, Message::assistant(parsed.kept))?;
        }
        let next = match parsed.next {
            parse::Next::Action(proposal) => match self.tools.bind(&proposal) {
                Ok(call) => Next::Decided(Decision::Act(call)),
                Err(rejection) => Next::Rejected(pointing(rejection.0)),
            },
            parse::Next::Answer { text, truncated } => Next::Decided(Decision::Finish(Answer {
                text,
                truncated,
                unformatted: false,
            })),
            parse::Next::Prose(text) if finish != Finish::Length => Next::Prose(text),
            parse::Next::Prose(_) => Next::Malformed("the reply was cut off".to_owned()),
            parse::Next::Malformed(why) => Next::Malformed(pointing(why)),
        };
        Ok(Plan {
            thought: parsed.thought,
            confidence: None,
            next,
        })
    }

    fn words(&self) -> &'static Words {
        &WORDS
    }

    fn observation(&mut self, outcome: &Outcome<'_>) -> Message {
        Message::user(format!("Observation{}: {}", outcome.step, outcome.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::manifest;

    #[test]
    fn the_prompt_with_the_default_tools_is_as_it_was_tried() {
        let tools = Toolchain::new(
            manifest::load(manifest::DEFAULT, "tools.toml")
                .unwrap()
                .tools,
        )
        .unwrap();
        let style = Style {
            prompt: PROMPT,
            context: "You are a clerk.",
            steps: true,
        };
        let golden = include_str!("../../../tests/data/prompt.txt");
        assert_eq!(instructions(&tools, style).unwrap(), golden.trim_end());
    }
}
