//! Asking the person about an action, and remembering what they said.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::policy::Verdict;
use crate::session::event;
use crate::tool::{Effect, Spec};

/// What the person is asked.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The call, whole. What runs is exactly this.
    pub call: &'a str,
    /// Why it is asked about.
    pub why: &'a str,
    /// Whether it can be answered for good: what has an effect is asked about each time, once the model has
    /// read something, and its own result is such.
    pub for_good: bool,
}

/// What the person says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// This once.
    Yes,
    /// Any call of this tool, for the rest of the conversation.
    Always,
    /// No; the reason is told to the model, if there is one.
    No(Option<String>),
    /// Nothing: there is nobody to ask, or no way to.
    Nothing,
}

/// Asks the person.
pub type Ask = Box<dyn FnMut(&Question<'_>) -> Said>;

/// What becomes of a decision: what the executor goes by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clearance {
    /// It runs, by the word of the policy, of the person, or of both.
    Cleared {
        /// Who allowed it: `policy`, `person`, or `person, always`.
        by: &'static str,
    },
    /// It does not run, for this reason.
    Denied(String),
    /// It does not run, as somebody would have to approve of it and nobody did.
    Unapproved(String),
}

impl Clearance {
    /// The same for the record.
    pub fn on_record(&self, spec: &Spec) -> event::Verdict {
        let (by, why) = match self {
            Self::Cleared { by } => (*by, None),
            Self::Denied(why) | Self::Unapproved(why) => ("policy", Some(why.clone())),
        };
        event::Verdict {
            allowed: why.is_none(),
            by: by.to_owned(),
            why,
            effect: spec.has_effect(),
            reads: spec.effect > Effect::Pure,
        }
    }
}

/// Turns verdicts into clearances. It lives as long as the conversation.
#[derive(Default)]
pub struct Desk {
    ask: Option<Ask>,
    always: HashSet<String>,
    /// Why nothing with an effect may run, if so.
    no_effects: Option<String>,
}

impl Desk {
    /// Asks by this, if there is somebody to ask.
    pub fn new(ask: Option<Ask>) -> Self {
        Self {
            ask,
            ..Self::default()
        }
    }

    /// Lets nothing with an effect run, for this reason, whatever policy and person say.
    pub fn without_effects(mut self, why: impl Into<String>) -> Self {
        self.no_effects = Some(why.into());
        self
    }

    /// Asks if the verdict says so.
    pub fn clear(&mut self, verdict: Verdict, spec: &Spec, call: &str) -> Clearance {
        let tool = spec.name.as_str();
        if let Some(why) = self.no_effects.as_ref().filter(|_| spec.has_effect()) {
            return Clearance::Denied(why.clone());
        }
        let (why, again) = match verdict {
            Verdict::Allow => return Clearance::Cleared { by: "policy" },
            Verdict::Deny(why) => return Clearance::Denied(why),
            Verdict::Ask { why, again } => (why, again),
        };
        if !again && self.always.contains(tool) {
            return Clearance::Cleared {
                by: "person, always",
            };
        }
        let said = match &mut self.ask {
            Some(ask) => ask(&Question {
                tool,
                call,
                why: &why,
                for_good: !again && !spec.has_effect(),
            }),
            None => Said::Nothing,
        };
        match said {
            Said::Yes => Clearance::Cleared { by: "person" },
            Said::Always => {
                self.always.insert(tool.to_owned());
                Clearance::Cleared {
                    by: "person, always",
                }
            }
            Said::No(None) => Clearance::Denied("the person said no".to_owned()),
            Said::No(Some(reason)) => Clearance::Denied(format!("the person said no: {reason}")),
            Said::Nothing => {
                let why = format!("`{tool}` needs approval, which nobody gave ({why})");
                Clearance::Unapproved(why)
            }
        }
    }
}
