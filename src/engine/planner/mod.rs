//! A planner asks the model what to do next. It runs nothing and has no other effect.

pub mod native;
pub mod plan;
mod prompt;
pub mod react;

pub use prompt::Style;

use std::ops::ControlFlow;
use std::time::Duration;

use serde_json::Value;

use super::Run;
use super::policy::Decision;
use crate::error::Result;
use crate::llm::Listener;
use crate::session::Span;
use crate::session::event::{Fact, Message, ToolCall};

/// Turns what has been said so far into the next decision.
pub trait Planner {
    /// What an engine with this planner is called.
    fn name(&self) -> &'static str;

    /// The model that is asked.
    fn model(&self) -> &str;

    /// The instructions that a conversation begins with.
    fn instructions(&self) -> &str;

    /// The question in the form that the instructions speak of.
    fn pose(&self, question: &str) -> String {
        question.to_owned()
    }

    /// An earlier answer in the form that the instructions want.
    fn recall(&self, answer: &str) -> String {
        answer.to_owned()
    }

    /// Asks the model once. Its reply joins the transcript, cut after the decision.
    fn plan(&mut self, run: &mut Run) -> Result<Plan>;

    /// What the model is told besides results, in the terms of the instructions.
    fn words(&self) -> &'static Words {
        &Words::NONE
    }

    /// What an action came to, or what was wrong with a reply, as the model is told.
    fn observation(&mut self, outcome: &Outcome<'_>) -> Message;
}

/// What the model is told besides results.
#[derive(Debug)]
pub struct Words {
    /// What to write, after what was wrong with a reply.
    pub wanted: &'static str,
    /// The same where a call was tried.
    pub another: &'static str,
    /// That only an answer is left to it.
    pub last_call: &'static str,
    /// What stands before a call in a reply, where calls are written as text: a model that does not see
    /// what it was meant to write is given the line.
    pub action: Option<&'static str>,
    /// That it may know enough, after its results so far; empty where models know that.
    pub enough: &'static str,
}

impl Words {
    /// No words at all.
    pub const NONE: Self = Self {
        wanted: "",
        another: "",
        last_call: "",
        action: None,
        enough: "",
    };
}

/// What an action came to.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    /// The number of the model call.
    pub step: u32,
    /// The call in the endpoint's own form that it belongs to.
    pub call: Option<&'a ToolCall>,
    /// The result, if there is one and not only a text about it.
    pub value: Option<&'a Value>,
    /// The result, or what went wrong, as text.
    pub text: &'a str,
}

/// What a reply comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What the model thought, if it said so.
    pub thought: Option<String>,
    /// How sure it says it is, as it says so; judged by the policy.
    pub confidence: Option<Value>,
    /// What it decided.
    pub next: Next,
}

/// What the model decided, or why that cannot be told.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// It decided.
    Decided(Decision),
    /// It made calls in its endpoint's own form, to be run in order.
    Called(Vec<Asked>),
    /// It wrote prose, whole, without any marker.
    Prose(String),
    /// The reply is not in any form that is understood; the reason is for the model.
    Malformed(String),
    /// It named a tool that does not exist, or arguments that do not fit; the reason is for the model.
    Rejected(String),
}

/// A call in the endpoint's own form, and what it comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// As it was made.
    pub call: ToolCall,
    /// The action, or why it is none.
    pub decision: std::result::Result<Decision, String>,
}

/// Hears a reply of which nothing is shown before it is whole.
struct Heard<'a, 'b> {
    span: &'a mut Span<'b>,
    /// Whether what happened on the way could be recorded.
    told: Result<()>,
}

impl<'a, 'b> Heard<'a, 'b> {
    fn new(span: &'a mut Span<'b>) -> Self {
        Self { span, told: Ok(()) }
    }
}

impl Listener for Heard<'_, '_> {
    fn hear(&mut self, _: &str) -> ControlFlow<()> {
        match self.told {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn again(&mut self) -> bool {
        self.told.is_ok()
    }

    fn failed(&mut self, attempt: &str, why: &str, after: Duration) {
        if self.told.is_ok() {
            self.told = self.span.attempt(attempt, why, after);
        }
    }

    fn note(&mut self, text: &str) {
        if self.told.is_ok() {
            let text = text.to_owned();
            self.told = self.span.record(Fact::Notice { text });
        }
    }
}
