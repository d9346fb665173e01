//! What the model decided is judged before it happens: an action, and the answer as well.

use std::rc::Rc;

use serde_json::Value;

use super::Answer;
use crate::tool::call::Call;
use crate::tool::{Approval, Toolchain};

/// What the model decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// To run a tool.
    Act(Call),
    /// To end with this answer.
    Finish(Answer),
}

/// What a policy says to a decision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may happen.
    Allow,
    /// It may not, for this reason. The model is told.
    Deny(String),
    /// It may not, as somebody would have to approve of it and nobody is there to ask.
    Unapproved(String),
}

/// Judges decisions.
pub trait Policy {
    /// The verdict on a decision. It has no effect of its own.
    fn judge(&self, decision: &Decision, circumstances: &Circumstances) -> Verdict;
}

/// What a decision comes with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Circumstances {
    /// How sure the model says it is, if it says so, and as it says so.
    pub confidence: Option<Value>,
}

/// Goes by what each tool declares: `approval = "allow"`, `"ask"` or `"deny"`. Every answer passes.
pub struct ByTool {
    tools: Rc<Toolchain>,
    yes: bool,
    min_confidence: f64,
}

/// How sure a model that says so has to be.
const MIN_CONFIDENCE: f64 = 0.5;

impl ByTool {
    /// With `yes`, what would be asked is allowed; without, there is nobody to ask, and it is denied.
    pub fn new(tools: Rc<Toolchain>, yes: bool) -> Self {
        Self {
            tools,
            yes,
            min_confidence: MIN_CONFIDENCE,
        }
    }

    /// What is wrong with a confidence: one that is none, or too little of it. Where none is given, all
    /// is well.
    fn doubt(&self, confidence: Option<&Value>) -> Option<String> {
        let confidence = confidence?;
        let number = confidence
            .as_f64()
            .filter(|number| (0.0..=1.0).contains(number));
        match number {
            None => Some(format!(
                "confidence is a number from 0 to 1, not {confidence}"
            )),
            Some(number) if number < self.min_confidence => Some(format!(
                "confidence {confidence} is below {}",
                self.min_confidence
            )),
            Some(_) => None,
        }
    }
}

impl Policy for ByTool {
    fn judge(&self, decision: &Decision, circumstances: &Circumstances) -> Verdict {
        if let Some(doubt) = self.doubt(circumstances.confidence.as_ref()) {
            return Verdict::Deny(doubt);
        }
        let Decision::Act(call) = decision else {
            return Verdict::Allow;
        };
        match self.tools.find(&call.tool).map(|tool| tool.spec().approval) {
            Some(Approval::Allow) => Verdict::Allow,
            Some(Approval::Ask) if self.yes => Verdict::Allow,
            Some(Approval::Ask) => {
                Verdict::Unapproved(format!("`{}` needs approval, which nobody gave", call.tool))
            }
            Some(Approval::Deny) => Verdict::Deny(format!("`{}` is not allowed to run", call.tool)),
            None => Verdict::Deny(format!("there is no tool `{}`", call.tool)),
        }
    }
}
