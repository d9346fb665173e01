//! ReAct: the model writes a thought and then an action or the answer, as text.
//!
//! After Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models" (2022). The
//! instructions are `prompts/react.md`.

use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use super::{Next, Plan, Planner};
use crate::engine::parse::Parsed;
use crate::engine::parse::live::Live;
use crate::engine::policy::Decision;
use crate::engine::{Answer, Run, parse};
use crate::error::{Error, Result};
use crate::llm::{Finish, Listener, Llm, Request};
use crate::session::Span;
use crate::session::event::{Fact, Message, Part, SpanKind};
use crate::tool::Toolchain;

/// The instructions that come with the program.
pub const PROMPT: &str = include_str!("../../../prompts/react.md");
/// Where the model is to stop: what follows would be an observation of its own invention.
const STOP: &[&str] = &["\nObservation"];

/// The planner of the engine `react`.
pub struct React {
    llm: Box<dyn Llm>,
    tools: Rc<Toolchain>,
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

/// What the instructions are made with, besides the tools.
#[derive(Debug, Clone, Copy)]
pub struct Style<'a> {
    /// The template; [`PROMPT`] unless the person has one of their own.
    pub prompt: &'a str,
    /// What the person wants the model to know or be.
    pub context: &'a str,
    /// Whether the answer is followed by the steps that led to it.
    pub steps: bool,
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

    fn plan(&mut self, run: &mut Run) -> Result<Plan> {
        let request = Request {
            messages: run.transcript.messages(),
            stop: STOP,
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
        let instead = self.tools.instead(&parsed.kept);
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
            next,
        })
    }
}

/// The instructions with the tools in them.
fn instructions(tools: &Toolchain, style: Style<'_>) -> Result<String> {
    let mut list = String::new();
    for spec in tools.specs() {
        list += &format!("- {}: {}", spec.usage(), spec.description);
        for param in spec
            .params
            .iter()
            .filter(|param| !param.description.is_empty())
        {
            list += &format!(
                " `{}`: {}.",
                param.name,
                param.description.trim_end_matches('.')
            );
        }
        if let Some(example) = &spec.example {
            list += &format!(" Example: {example}");
        }
        list.push('\n');
    }
    if list.is_empty() {
        list = "(none)\n".to_owned();
    }
    let steps = match style.steps {
        true => {
            " If it took more than one action, list the steps under the answer as a numbered list."
        }
        false => " Give the answer only, in one line if you can.",
    };
    let context = match style.context.trim() {
        "" => String::new(),
        context => format!("\n{context}\n"),
    };
    let text = fill(
        style.prompt,
        &[
            ("tools", list.trim_end()),
            ("steps", steps),
            ("context", &context),
        ],
    )?;
    Ok(text.trim_end().to_owned())
}

/// Puts values in the place of `{name}`. A brace with anything else behind it is a brace, and the
/// values themselves are not looked at again.
fn fill(template: &str, values: &[(&str, &str)]) -> Result<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text += before;
        let end = after
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        let known = values.iter().find(|(known, _)| *known == name);
        rest = match (behind.strip_prefix('}').filter(|_| end > 0), known) {
            (None, _) => {
                text.push('{');
                after
            }
            (Some(behind), Some((_, value))) => {
                text += value;
                behind
            }
            (Some(_), None) => {
                let what = format!("the prompt has an unknown placeholder `{{{name}}}`");
                return Err(Error::config(what));
            }
        };
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tool::manifest;

    #[test]
    fn placeholders_are_named_and_values_are_not_templates() {
        assert_eq!(fill("a {x} b", &[("x", "{y}")]).unwrap(), "a {y} b");
        assert!(fill("a {z} b", &[("x", "1")]).is_err());
        assert_eq!(
            fill("a { b {} {\"t\": {x}}", &[("x", "1")]).unwrap(),
            "a { b {} {\"t\": 1}"
        );
    }

    #[test]
    fn the_prompt_with_the_default_tools_is_as_it_was_tried() {
        let tools =
            Toolchain::new(manifest::load(manifest::DEFAULT, "tools.toml").unwrap()).unwrap();
        let style = Style {
            prompt: PROMPT,
            context: "You are a clerk.",
            steps: true,
        };
        let golden = include_str!("../../../tests/data/prompt.txt");
        assert_eq!(instructions(&tools, style).unwrap(), golden.trim_end());
    }
}
