//! What the model sees: every message so far.
//!
//! It is a fold over the messages in the record, and nothing else; so it can be rebuilt from the
//! record alone, exactly.

use crate::error::Result;
use crate::session::Session;
use crate::session::event::{Fact, Message, Role, ToolCall};

/// The messages in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Transcript {
    messages: Vec<Message>,
}

impl Transcript {
    /// The messages, oldest first.
    pub fn messages(&self) -> &[Message] {
        &self.messages
    }

    /// Records a message, then adds it: what is not on record is never sent.
    pub fn say(&mut self, session: &mut Session, message: Message) -> Result<()> {
        session.record(Fact::Message(message.clone()))?;
        self.messages.push(message);
        Ok(())
    }

    /// Shortens observations, the oldest first, until all has `most` tokens, about. The last message stays
    /// whole. The person is told.
    pub fn fit(&mut self, session: &mut Session, most: u64) -> Result<()> {
        let mut size: u64 = self.messages.iter().map(size).sum();
        let mut shortened = 0;
        for at in 0..self.messages.len().saturating_sub(1) {
            if size <= most {
                break;
            }
            let Some(message) = self.messages[at].shortened() else {
                continue;
            };
            size = size.saturating_sub(self::size(&self.messages[at])) + self::size(&message);
            self.replace(session, at, message)?;
            shortened += 1;
        }
        if shortened > 0 {
            let text = format!(
                "the conversation has more than {most} tokens: {shortened} of the oldest observations are shortened"
            );
            session.record(Fact::Notice { text })?;
        }
        Ok(())
    }

    /// Another message in the place of one, counted from 0.
    pub fn replace(&mut self, session: &mut Session, at: usize, message: Message) -> Result<()> {
        session.record(Fact::Replaced {
            at,
            message: message.clone(),
        })?;
        if let Some(place) = self.messages.get_mut(at) {
            *place = message;
        }
        Ok(())
    }

    /// Begins anew. Gives what the model has seen so far.
    pub fn anew(&mut self, session: &mut Session) -> Result<Vec<Message>> {
        session.record(Fact::Anew)?;
        Ok(std::mem::take(&mut self.messages))
    }

    /// The calls in the endpoint's own form, of the last turn of the model, that have no result.
    pub fn unanswered(&self) -> Vec<ToolCall> {
        let last = self
            .messages
            .iter()
            .rposition(|message| !message.calls.is_empty());
        let Some(last) = last else {
            return Vec::new();
        };
        let answered = |call: &&ToolCall| {
            let mut after = self.messages[last..].iter();
            after.any(|message| message.answers.as_ref().is_some_and(|of| of.id == call.id))
        };
        let calls = self.messages[last].calls.iter();
        calls.filter(|call| !answered(call)).cloned().collect()
    }

    /// Whether the model spoke last.
    pub fn ends_with_the_model(&self) -> bool {
        self.messages
            .last()
            .is_some_and(|message| message.role == Role::Assistant)
    }

    /// The transcript that a recorded session had.
    pub fn of(session: &Session) -> Self {
        let mut transcript = Self::default();
        for event in session.events() {
            match &event.fact {
                Fact::Message(message) => transcript.messages.push(message.clone()),
                Fact::Anew => transcript.messages.clear(),
                Fact::Replaced { at, message } => {
                    if let Some(place) = transcript.messages.get_mut(*at) {
                        place.clone_from(message);
                    }
                }
                _ => {}
            }
        }
        transcript
    }
}

/// The tokens of a message, about: a quarter of its bytes.
fn size(message: &Message) -> u64 {
    let calls: usize = message.calls.iter().map(|call| call.args.len()).sum();
    (message.content.len() + calls) as u64 / 4
}
