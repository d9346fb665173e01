//! What the model decided is judged before it happens: an action, and the answer as well.

use std::rc::Rc;

use serde_json::Value;

use super::Answer;
use super::state::State;
use crate::tool::call::Call;
use crate::tool::rule::{Rule, Rules};
use crate::tool::{Approval, Toolchain};

/// How sure a model that says so has to be, unless the person says otherwise.
const MIN_CONFIDENCE: f64 = 0.5;

/// What the model decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    /// To run a tool.
    Act(Call),
    /// To end with this answer.
    Finish(Answer),
}

/// What a decision comes with.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Circumstances {
    /// How sure the model says it is, if it says so, and as it says so.
    pub confidence: Option<Value>,
    /// Whether the model has seen something from outside, which may have told it what to do.
    pub tainted: bool,
    /// The state of the run so far.
    pub state: State,
}

/// What a policy says to a decision, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may happen.
    Allow,
    /// It may happen if the person says so. With `again`, also where the person has said that the tool
    /// may always run.
    Ask {
        /// Why the person is asked.
        why: String,
        /// Whether an earlier `always` does not count.
        again: bool,
    },
    /// It may not. The model is told.
    Deny(String),
}

/// Judges decisions.
pub trait Policy {
    /// The verdict on a decision. It has no effect of its own.
    fn judge(&self, decision: &Decision, circumstances: &Circumstances) -> Verdict;
}

/// Goes by the rules of the person, by those that came with the tools, and, where none fits, by what each
/// tool declares. Every answer passes, if the model is sure enough of it.
pub struct ByRules {
    tools: Rc<Toolchain>,
    own: Rules,
    yes: bool,
}

impl ByRules {
    /// `own` are the rules of the person. With `yes`, what would be asked is allowed.
    pub fn new(tools: Rc<Toolchain>, own: Rules, yes: bool) -> Self {
        Self { tools, own, yes }
    }

    /// What is wrong with a confidence: one that is none, or too little of it. Where none is given, all
    /// is well.
    fn doubt(&self, confidence: Option<&Value>) -> Option<String> {
        let confidence = confidence?;
        let least = [self.own.min_confidence, self.tools.rules().min_confidence];
        let least = least.into_iter().flatten().reduce(f64::max);
        let least = least.unwrap_or(MIN_CONFIDENCE);
        let number = confidence.as_f64();
        match number.filter(|number| (0.0..=1.0).contains(number)) {
            None => Some(format!(
                "confidence is a number from 0 to 1, not {confidence}"
            )),
            Some(number) if number < least => {
                Some(format!("confidence {confidence} is below {least}"))
            }
            Some(_) => None,
        }
    }
}

impl Policy for ByRules {
    fn judge(&self, decision: &Decision, circumstances: &Circumstances) -> Verdict {
        if let Some(doubt) = self.doubt(circumstances.confidence.as_ref()) {
            return Verdict::Deny(doubt);
        }
        let Decision::Act(call) = decision else {
            return Verdict::Allow;
        };
        let name = &call.tool;
        let Some(tool) = self.tools.find(name) else {
            return Verdict::Deny(format!("there is no tool `{name}`"));
        };
        let spec = tool.spec();
        let strictest = |rules: &'_ Rules| -> Option<Rule> {
            let fitting = rules
                .rules
                .iter()
                .filter(|rule| rule.fits(tool, &call.args));
            fitting.max_by_key(|rule| rule.then).cloned()
        };
        let (own, theirs) = (strictest(&self.own), strictest(self.tools.rules()));
        // The person's rules stand in the place of what a tool declares; those that came with the tools
        // can make either stricter.
        let declared = format!("the tool `{name}` wants it so");
        let base = own.map_or((spec.approval, declared), |rule| (rule.then, rule.because));
        let (then, why) = match theirs {
            Some(rule) if rule.then > base.0 => (rule.then, rule.because),
            _ => base,
        };
        let risky = circumstances.tainted && spec.has_effect();
        match then {
            Approval::Deny => Verdict::Deny(format!("`{name}`: {why}")),
            _ if self.yes => Verdict::Allow,
            Approval::Ask => Verdict::Ask { why, again: risky },
            Approval::Allow if risky => Verdict::Ask {
                why: "the model has read something from outside, and this has an effect there"
                    .to_owned(),
                again: true,
            },
            Approval::Allow => Verdict::Allow,
        }
    }
}
