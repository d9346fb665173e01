//! The engine `plan`: the model decides on one action at a time, as a JSON object, until it decides to
//! finish.
//!
//! After AgentRuntime: a decision has an action, its parameters and a confidence, which the policy judges;
//! `finish` carries the answer; what the model is told after an action can be built by the caller. Unlike
//! there, the model keeps the task and its earlier decisions in view. The instructions are
//! `prompts/plan.md`.

use std::rc::Rc;

use serde_json::{Value, json};

use super::prompt::{Style, instructions};
use super::{Heard, Next, Outcome, Plan, Planner, Words};
use crate::engine::parse::decision::{self, Written};
use crate::engine::policy::Decision;
use crate::engine::{Answer, Run};
use crate::error::Result;
use crate::llm::{Finish, Llm, Request};
use crate::session::event::{Message, SpanKind};
use crate::tool::call::{Args, Proposal};
use crate::tool::{Toolchain, text_of};

/// The instructions that come with the program.
pub const PROMPT: &str = include_str!("../../../prompts/plan.md");
/// The action that ends the task.
const FINISH: &str = "finish";
/// Where the model is to stop: what follows would be an observation of its own invention.
const STOP: &[&str] = &["\nObservation"];

const WORDS: Words = Words {
    wanted: "Write one JSON object with `action`, `params` and `confidence`.",
    another: "Write one JSON object with one of the tools as `action`, or `finish`.",
    last_call: "No more actions are possible. Decide to `finish` with the best answer from what you know \
        now; say what is missing.",
    action: None,
    enough: "",
};

/// Builds what the model is told after an action, from its result and the number of the step.
pub type InputBuilder = Box<dyn Fn(&Value, u32) -> String>;

/// The planner of the engine `plan`.
pub struct Planned {
    llm: Box<dyn Llm>,
    tools: Rc<Toolchain>,
    instructions: String,
    schema: Value,
    input: Option<InputBuilder>,
}

impl Planned {
    /// Fails if the template has a placeholder that nothing stands for.
    pub fn new(llm: Box<dyn Llm>, tools: Rc<Toolchain>, style: Style<'_>) -> Result<Self> {
        Ok(Self {
            llm,
            instructions: instructions(&tools, style)?,
            schema: schema(&tools),
            tools,
            input: None,
        })
    }

    /// With this in the place of `ObservationN: …` after each action that gave a result.
    pub fn with_input_builder(mut self, build: impl Fn(&Value, u32) -> String + 'static) -> Self {
        self.input = Some(Box::new(build));
        self
    }

    fn decide(&self, written: Written) -> (Option<Value>, Next) {
        let Written {
            action,
            params,
            confidence,
            ..
        } = written;
        if action.is_empty() {
            return (confidence, Next::Malformed("`action` is empty".to_owned()));
        }
        if action.eq_ignore_ascii_case(FINISH) && self.tools.find(FINISH).is_none() {
            let answer = match &params {
                Value::Object(params) => params.get("answer").map(text_of),
                Value::String(answer) => Some(answer.clone()),
                _ => None,
            };
            let next = match answer.filter(|answer| !answer.trim().is_empty()) {
                Some(text) => Next::Decided(Decision::Finish(Answer {
                    text: text.trim().to_owned(),
                    truncated: false,
                    unformatted: false,
                })),
                None => Next::Malformed("`finish` needs an `answer` in its `params`".to_owned()),
            };
            return (confidence, next);
        }
        let args = match params {
            Value::Null => Args::none(),
            Value::Object(params) => Args::named(params),
            Value::Array(values) => Args::positional(values),
            _ => {
                let why = "`params` is not an object";
                return (confidence, Next::Malformed(why.to_owned()));
            }
        };
        let proposal = Proposal { tool: action, args };
        let next = match self.tools.bind(&proposal) {
            Ok(call) => Next::Decided(Decision::Act(call)),
            Err(rejection) => Next::Rejected(rejection.0),
        };
        (confidence, next)
    }
}

impl Planner for Planned {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn model(&self) -> &str {
        self.llm.name()
    }

    fn instructions(&self) -> &str {
        &self.instructions
    }

    fn pose(&self, question: &str) -> String {
        format!("Task: {question}")
    }

    fn recall(&self, answer: &str) -> String {
        json!({ "action": FINISH, "params": { "answer": answer } }).to_string()
    }

    fn plan(&mut self, run: &mut Run) -> Result<Plan> {
        let request = Request {
            messages: run.transcript.messages(),
            stop: STOP,
            schema: Some(&self.schema),
            ..Request::default()
        };
        let model = self.llm.name().to_owned();
        let reply = run.session.span(SpanKind::Llm, &model, |span| {
            let mut heard = Heard::new(span);
            let reply = self.llm.ask(&request, &mut heard);
            let reply = heard.told.and(reply)?;
            span.output(reply.text.as_str());
            span.used(reply.usage);
            Ok(reply)
        })?;
        let written = decision::read(&reply.text);
        let kept = match &written {
            Ok(written) => written.text.clone(),
            Err(_) => reply.text.trim().to_owned(),
        };
        if !kept.is_empty() {
            let message = Message::assistant(kept);
            run.transcript.say(&mut run.session, message)?;
        }
        let (thought, (confidence, next)) = match written {
            Ok(written) => (written.thought.clone(), self.decide(written)),
            Err(_) if reply.finish == Finish::Length => {
                let why = "the reply was cut off".to_owned();
                (None, (None, Next::Malformed(why)))
            }
            Err(why) => (None, (None, Next::Malformed(why))),
        };
        Ok(Plan {
            thought,
            confidence,
            next,
        })
    }

    fn words(&self) -> &'static Words {
        &WORDS
    }

    fn observation(&mut self, outcome: &Outcome<'_>) -> Message {
        match (&self.input, outcome.value) {
            (Some(build), Some(value)) => Message::user(build(value, outcome.step)),
            _ => Message::user(format!("Observation{}: {}", outcome.step, outcome.text)),
        }
    }
}

/// The schema of a decision: the actions are the tools and `finish`.
fn schema(tools: &Toolchain) -> Value {
    let names = tools.specs().map(|spec| spec.name.as_str());
    let actions: Vec<&str> = names.chain([FINISH]).collect();
    json!({
        "type": "object",
        "properties": {
            "thought": { "type": "string" },
            "action": { "type": "string", "enum": actions },
            "params": { "type": "object" },
            "confidence": { "type": "number", "minimum": 0, "maximum": 1 },
        },
        "required": ["action", "params", "confidence"],
    })
}
