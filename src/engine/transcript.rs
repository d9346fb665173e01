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

    /// The transcript that a recorded session had.
    pub fn of(session: &Session) -> Self {
        Self {
            messages: session.messages().cloned().collect(),
        }
    }
}
