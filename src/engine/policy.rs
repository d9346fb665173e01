//! What the model decided is judged before it happens: an action, and the answer as well.

use std::rc::Rc;

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
    fn judge(&self, decision: &Decision) -> Verdict;
}

/// Goes by what each tool declares: `approval = "allow"`, `"ask"` or `"deny"`. Every answer passes.
pub struct ByTool {
    tools: Rc<Toolchain>,
    yes: bool,
}

impl ByTool {
    /// With `yes`, what would be asked is allowed; without, there is nobody to ask, and it is denied.
    pub fn new(tools: Rc<Toolchain>, yes: bool) -> Self {
        Self { tools, yes }
    }
}

impl Policy for ByTool {
    fn judge(&self, decision: &Decision) -> Verdict {
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
