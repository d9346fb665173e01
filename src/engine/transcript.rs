//! What the model sees: every message so far.
//!
//! It is a fold over the messages in the record, and nothing else; so it can be rebuilt from the
//! record alone, exactly.

use crate::error::Result;
use crate::session::Session;
use crate::session::event::{Fact, Message};

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

    /// Begins anew. Gives what the model has seen so far.
    pub fn anew(&mut self, session: &mut Session) -> Result<Vec<Message>> {
        session.record(Fact::Anew)?;
        Ok(std::mem::take(&mut self.messages))
    }

    /// The transcript that a recorded session had.
    pub fn of(session: &Session) -> Self {
        let mut transcript = Self::default();
        for event in session.events() {
            match &event.fact {
                Fact::Message(message) => transcript.messages.push(message.clone()),
                Fact::Anew => transcript.messages.clear(),
                _ => {}
            }
        }
        transcript
    }
}
