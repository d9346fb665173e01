//! A hand on the wheel: before an action and after it, somebody may look, change it, or stop. What they did is
//! on record.

use serde_json::Value;

use super::Run;
use super::cycle::Loop;
use super::executor::Observation;
use super::fence::fence;
use crate::error::{Error, Result};
use crate::interrupt::CTRL_C;
use crate::session::event::{Fact, Message, Role};
use crate::tool::Toolchain;
use crate::tool::call::Call;

/// Somebody who steers.
pub trait Hand {
    /// Before an action: what is to become of it. Policy judges what comes of that, as ever.
    fn before(&mut self, moment: &Moment<'_>) -> Steer;

    /// After an action: what the model is to be told in the place of this, if something else.
    fn after(&mut self, observation: &str) -> Option<String>;
}

/// What is about to happen.
#[derive(Clone, Copy)]
pub struct Moment<'a> {
    /// The number of the model call.
    pub step: u32,
    /// What the model thought, if it said so.
    pub thought: Option<&'a str>,
    /// The action.
    pub call: &'a Call,
    /// The same as one line of text.
    pub shown: &'a str,
    /// All that was said; what comes of the action will be added to it and sent.
    pub messages: &'a [Message],
    /// What could be called as well.
    pub tools: &'a Toolchain,
}

/// What is to become of an action.
#[derive(Debug, Clone, PartialEq)]
pub enum Steer {
    /// It is run.
    Run,
    /// Another one is run in its place.
    Change(Call),
    /// The model thought this. Its action is asked about again.
    Think(String),
    /// It is not run, for this reason, which the model is told.
    Skip(String),
    /// It is not run; this is what it gave.
    Answer(String),
    /// The question ends here.
    Stop,
}

/// What became of it.
pub(super) enum Steered {
    /// This is run.
    Run(Call),
    /// Nothing is run, and this came of it.
    Gave(Observation),
}

impl Loop {
    /// Lets the hand steer, if there is one.
    pub(super) fn steer(&mut self, call: &Call, run: &mut Run) -> Result<Steered> {
        let mut thought = run.session.thought().map(str::to_owned);
        let shown = self.tools.display(call);
        loop {
            let Some(hand) = &mut self.hand else {
                return Ok(Steered::Run(call.clone()));
            };
            let steer = hand.before(&Moment {
                step: run.tally.steps,
                thought: thought.as_deref(),
                call,
                shown: &shown,
                messages: run.transcript.messages(),
                tools: &self.tools,
            });
            let mut record = |what: &str, text: &str| {
                run.session.record(Fact::Intervened {
                    what: what.to_owned(),
                    text: text.to_owned(),
                })
            };
            match steer {
                Steer::Run => return Ok(Steered::Run(call.clone())),
                Steer::Change(other) => {
                    let shown = self.tools.display(&other);
                    record("another action", &shown)?;
                    run.session.record(Fact::Action {
                        tool: other.tool.clone(),
                        args: other.args.clone(),
                        call: shown,
                    })?;
                    return Ok(Steered::Run(other));
                }
                Steer::Think(other) => {
                    record("another thought", &other)?;
                    think(thought.as_deref(), &other, run)?;
                    thought = Some(other);
                }
                Steer::Skip(reason) => {
                    record("skipped", &reason)?;
                    let text = format!("Error: the person did not let this run: {reason}");
                    return Ok(Steered::Gave(gave(None, text)));
                }
                Steer::Answer(text) => {
                    record("answered for the tool", &text)?;
                    let value = Some(Value::from(text.as_str()));
                    return Ok(Steered::Gave(gave(value, text)));
                }
                Steer::Stop => {
                    record("stopped", "")?;
                    return Err(Error::Interrupted(CTRL_C));
                }
            }
        }
    }

    /// Lets the hand change what came of an action, before the model sees it.
    pub(super) fn look_over(
        &mut self,
        text: &mut String,
        told: &mut String,
        run: &mut Run,
    ) -> Result<()> {
        let changed = self.hand.as_mut().and_then(|hand| hand.after(text));
        let Some(changed) = changed else {
            return Ok(());
        };
        run.session.record(Fact::Intervened {
            what: "another observation".to_owned(),
            text: changed.clone(),
        })?;
        *told = fence(&changed, None);
        *text = changed;
        Ok(())
    }
}

fn gave(value: Option<Value>, text: String) -> Observation {
    Observation {
        value,
        size: text.len(),
        told: fence(&text, None),
        text,
        ms: 0,
    }
}

/// Puts another thought into what the model said last.
fn think(before: Option<&str>, after: &str, run: &mut Run) -> Result<()> {
    let messages = run.transcript.messages();
    let at = messages
        .iter()
        .rposition(|message| message.role == Role::Assistant);
    let Some(at) = at else {
        return Ok(());
    };
    let mut message = messages[at].clone();
    message.content = match before {
        Some(before) => message.content.replacen(before, after, 1),
        None => format!("{after}\n{}", message.content),
    };
    run.transcript.replace(&mut run.session, at, message)
}
