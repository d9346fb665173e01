//! The engine `native`: the model calls functions in its endpoint's own form, one or several at a time,
//! and answers in plain text.
//!
//! The assistant's turn is kept with its calls, each result under its call's id, errors as results. Where
//! an endpoint takes no functions, the planner of `react` takes over, for this question and the ones
//! after. The instructions are `prompts/native.md`.

use std::rc::Rc;

use serde_json::Value;

use super::prompt::{Style, instructions};
use super::react::React;
use super::{Asked, Heard, Next, Outcome, Plan, Planner, Words};
use crate::engine::parse::{self, Parsed};
use crate::engine::policy::Decision;
use crate::engine::{Answer, Run};
use crate::error::{Class, Error, Result};
use crate::json;
use crate::llm::{Finish, Function, Reply, Request};
use crate::session::event::{Fact, Message, Role, SpanKind, ToolCall};
use crate::tool::call::{Args, Proposal};
use crate::tool::params::schema;
use crate::tool::{Spec, Toolchain};

/// The instructions that come with the program.
pub const PROMPT: &str = include_str!("../../../prompts/native.md");

const WORDS: Words = Words {
    wanted: "Call one of the functions, or write the answer.",
    another: "Call one of the functions.",
    last_call: "No more calls are possible. Write the best answer from what you know now; say what is \
        missing.",
    action: None,
    enough: "",
};

/// The planner of the engine `native`.
pub struct Native {
    /// The one that takes over, and owns the model.
    react: React,
    tools: Rc<Toolchain>,
    functions: Vec<Function>,
    instructions: String,
    refused: bool,
}

impl Native {
    /// Offers the tools of `react`, which takes over where no functions are taken. Fails if the template
    /// has a placeholder that nothing stands for.
    pub fn new(react: React, style: Style<'_>) -> Result<Self> {
        let tools = react.tools.clone();
        let function = |(at, spec): (usize, &Spec)| Function {
            name: offered(at, &spec.name),
            description: match &spec.example {
                Some(example) => format!("{} Example: {example}", spec.description),
                None => spec.description.clone(),
            },
            parameters: schema(&spec.params),
        };
        Ok(Self {
            functions: tools.specs().enumerate().map(function).collect(),
            instructions: instructions(&tools, style)?,
            tools,
            react,
            refused: false,
        })
    }

    /// The action that a call asks for, or one line for the model.
    fn bind(&self, call: &ToolCall) -> std::result::Result<Decision, String> {
        let mut specs = self.tools.specs().enumerate();
        let own = specs.find(|(at, spec)| offered(*at, &spec.name) == call.name);
        let args = match call.args.trim() {
            "" => Args::none(),
            text => match json::parse(text.as_bytes()) {
                Ok(Value::Object(args)) => Args::named(args),
                Ok(Value::Null) => Args::none(),
                Ok(_) => return Err("the arguments are not a JSON object".to_owned()),
                Err(why) => return Err(format!("the arguments are not JSON: {why}")),
            },
        };
        let tool = own.map_or(call.name.as_str(), |(_, spec)| &spec.name);
        let proposal = Proposal {
            tool: tool.to_owned(),
            args,
        };
        let call = self.tools.bind(&proposal);
        call.map(Decision::Act).map_err(|rejection| rejection.0)
    }

    /// What a reply without calls comes to: a call that is written as text, else the answer.
    fn written(&self, reply: &Reply) -> (String, Plan) {
        let Parsed {
            thought,
            next,
            kept,
        } = parse::parse(&reply.text, reply.finish);
        let answer = |text: String, truncated| {
            Next::Decided(Decision::Finish(Answer {
                text,
                truncated,
                unformatted: false,
            }))
        };
        let (kept, thought, next) = match next {
            parse::Next::Action(proposal) => {
                let next = match self.tools.bind(&proposal) {
                    Ok(call) => Next::Decided(Decision::Act(call)),
                    Err(rejection) => Next::Rejected(rejection.0),
                };
                (kept, thought, next)
            }
            parse::Next::Answer { text, truncated } => (kept, thought, answer(text, truncated)),
            // Without a marker, all of it is the answer, unless a call broke off.
            _ => match parse::text_of(&reply.text) {
                Ok(text) if self.is_half_a_call(&text) => {
                    let why = "the call is no whole JSON object".to_owned();
                    (kept, None, Next::Malformed(why))
                }
                Ok(text) if !text.is_empty() => (
                    text.clone(),
                    None,
                    answer(text, reply.finish == Finish::Length),
                ),
                Ok(_) => (kept, None, Next::Malformed("the reply is empty".to_owned())),
                Err(why) => (kept, None, Next::Malformed(why.to_owned())),
            },
        };
        let plan = Plan {
            thought,
            confidence: None,
            next,
        };
        (kept, plan)
    }

    /// Whether a text begins as a JSON object that names a tool, and is none.
    fn is_half_a_call(&self, text: &str) -> bool {
        let names = |name: &str| text.contains(&format!("\"{name}\""));
        text.starts_with('{')
            && json::parse(text.as_bytes()).is_err()
            && self.tools.specs().any(|spec| names(&spec.name))
    }

    /// From here on the model writes its actions as text. What has been said is put in that form.
    fn give_way(&mut self, run: &mut Run) -> Result<()> {
        self.refused = true;
        let text = "the endpoint takes no functions: the engine `react` goes on".to_owned();
        run.session.record(Fact::Notice { text })?;
        let said = run.transcript.anew(&mut run.session)?;
        for message in said {
            let message = match message.role {
                Role::System => Message::system(self.react.instructions()),
                Role::User => Message::user(self.react.pose(&message.content)),
                _ => message,
            };
            run.transcript.say(&mut run.session, message)?;
        }
        Ok(())
    }
}

impl Planner for Native {
    fn name(&self) -> &'static str {
        match self.refused {
            true => self.react.name(),
            false => "native",
        }
    }

    fn model(&self) -> &str {
        self.react.model()
    }

    fn instructions(&self) -> &str {
        match self.refused {
            true => self.react.instructions(),
            false => &self.instructions,
        }
    }

    fn pose(&self, question: &str) -> String {
        match self.refused {
            true => self.react.pose(question),
            false => question.to_owned(),
        }
    }

    fn recall(&self, answer: &str) -> String {
        match self.refused {
            true => self.react.recall(answer),
            false => answer.to_owned(),
        }
    }

    fn plan(&mut self, run: &mut Run) -> Result<Plan> {
        if self.refused {
            return self.react.plan(run);
        }
        let request = Request {
            messages: run.transcript.messages(),
            functions: &self.functions,
            ..Request::default()
        };
        let model = self.react.model().to_owned();
        let reply = run.session.span(SpanKind::Llm, &model, |span| {
            let mut heard = Heard::new(span);
            let reply = self.react.llm.ask(&request, &mut heard);
            let reply = heard.told.and(reply)?;
            let calls = reply
                .calls
                .iter()
                .map(|call| format!("\n{}({})", call.name, call.args));
            span.output(format!("{}{}", reply.text, calls.collect::<String>()));
            span.used(reply.usage);
            Ok(reply)
        });
        let reply = match reply {
            Err(Error::Endpoint {
                class: Class::Functions,
                ..
            }) => {
                self.give_way(run)?;
                return self.react.plan(run);
            }
            reply => reply?,
        };
        if reply.calls.is_empty() {
            let (kept, plan) = self.written(&reply);
            if !kept.is_empty() {
                run.transcript
                    .say(&mut run.session, Message::assistant(kept))?;
            }
            return Ok(plan);
        }
        let text = parse::text_of(&reply.text).unwrap_or_default();
        let asked = |call: ToolCall| Asked {
            decision: self.bind(&call),
            call: ToolCall {
                name: sendable(&call.name),
                ..call
            },
        };
        let asked: Vec<Asked> = reply.calls.into_iter().map(asked).collect();
        let calls = asked.iter().map(|asked| asked.call.clone()).collect();
        run.transcript
            .say(&mut run.session, Message::calls(text.as_str(), calls))?;
        Ok(Plan {
            thought: Some(text).filter(|text| !text.is_empty()),
            confidence: None,
            next: Next::Called(asked),
        })
    }

    fn words(&self) -> &'static Words {
        match self.refused {
            true => self.react.words(),
            false => &WORDS,
        }
    }

    fn observation(&mut self, outcome: &Outcome<'_>) -> Message {
        match outcome.call {
            Some(call) => Message::result(call, outcome.text),
            None => self.react.observation(outcome),
        }
    }
}

/// The name under which a tool is offered: its own where every endpoint takes that.
fn offered(at: usize, name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    match name.chars().all(plain) {
        true => name.to_owned(),
        false => format!("tool_{}", at + 1),
    }
}

/// The name of a call as an endpoint takes it back: what the model made up may be none, or no name at all,
/// and then the whole conversation would be refused.
fn sendable(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain = |c: char| if plain(c) { c } else { '_' };
    let name: String = name.trim().chars().take(64).map(plain).collect();
    match name.is_empty() {
        true => "unnamed".to_owned(),
        false => name,
    }
}
