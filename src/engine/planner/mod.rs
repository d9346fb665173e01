//! A planner asks the model what to do next. It runs nothing and has no other effect.

pub mod react;

use super::Run;
use super::policy::Decision;
use crate::error::Result;

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

    /// Asks the model once. Its reply joins the transcript, cut after the decision.
    fn plan(&mut self, run: &mut Run) -> Result<Plan>;
}

/// What a reply comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// What the model thought, if it said so.
    pub thought: Option<String>,
    /// What it decided.
    pub next: Next,
}

/// What the model decided, or why that cannot be told.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// It decided.
    Decided(Decision),
    /// It wrote prose, whole, without any marker.
    Prose(String),
    /// The reply is not in any form that is understood; the reason is for the model.
    Malformed(String),
    /// It named a tool that does not exist, or arguments that do not fit; the reason is for the model.
    Rejected(String),
}
