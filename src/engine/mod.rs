//! The engine reasons, acts and observes until there is an answer.
//!
//! There is one loop ([`cycle`]); what differs between engines is the planner, which turns what has
//! been said so far into the next decision. A whole other loop can take its place by [`Engine`].

pub mod approval;
#[path = "loop.rs"]
pub mod cycle;
pub mod executor;
mod fence;
pub mod limits;
pub mod parse;
pub mod planner;
pub mod policy;
pub mod state;
pub mod steer;
pub mod transcript;

use crate::error::Result;
use crate::session::Session;
use limits::Tally;
use serde_json::Value;
use state::State;
use transcript::Transcript;

/// A way of getting from a question to an answer.
pub trait Engine {
    /// What the engine is called, such as `react`.
    fn name(&self) -> &'static str;

    /// The model that it asks.
    fn model(&self) -> &str;

    /// How many model calls a query may take.
    fn ttl(&self) -> u32;

    /// The instructions that a conversation begins with.
    fn instructions(&self) -> &str;

    /// The question as this engine puts it to the model.
    fn pose(&self, question: &str) -> String;

    /// An earlier answer as the model would have written it in this engine.
    fn recall(&self, answer: &str) -> String {
        answer.to_owned()
    }

    /// Takes one step: one model call, and what follows from it.
    fn step(&mut self, run: &mut Run) -> Result<Step>;

    /// Goes on with a run whose record was cut off. Of an action that was under way it is not known
    /// whether it happened: it is done again, or else the model is told.
    fn resume(&mut self, run: &mut Run, again: bool) -> Result<Step> {
        let _ = (run, again);
        Ok(Step::Continue(None))
    }

    /// Takes steps until there is an answer, or an error that ends the query.
    fn reason(&mut self, run: &mut Run) -> Result<Answer> {
        loop {
            if let Step::Finished(answer) = self.step(run)? {
                return Ok(answer);
            }
        }
    }
}

/// The three ways of reasoning that come with the program. All of them go round in the one loop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reasoning {
    /// A thought and then an action or the answer, as text: [`planner::react`].
    #[default]
    React,
    /// Functions, called in the endpoint's own form: [`planner::native`].
    Native,
    /// One decision at a time as a JSON object: [`planner::plan`].
    Plan,
}

impl Reasoning {
    /// The template of its instructions.
    pub fn prompt(self) -> &'static str {
        match self {
            Self::React => planner::react::PROMPT,
            Self::Native => planner::native::PROMPT,
            Self::Plan => planner::plan::PROMPT,
        }
    }
}

/// One query on its way.
pub struct Run {
    /// The record.
    pub session: Session,
    /// What the model sees.
    pub transcript: Transcript,
    /// What tools that keep something have put there.
    pub state: State,
    /// What has been used up.
    pub tally: Tally,
    /// Whether the model has seen something from outside.
    pub tainted: bool,
}

/// What a step came to.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// The query goes on. Holds the result of the step's action, if one was run and succeeded: the last
    /// one where the model asked for several.
    Continue(Option<Value>),
    /// There is an answer.
    Finished(Answer),
}

/// The end of a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The text, without its marker.
    pub text: String,
    /// Whether it was cut off by a limit of length.
    pub truncated: bool,
    /// Whether it came as plain prose, without the marker of an answer.
    pub unformatted: bool,
}
