//! The answer only; and what went wrong, if there is none.

use super::printer::failure;
use super::screen::Screen;
use super::text::clean;
use crate::error::Result;
use crate::session::Sink;
use crate::session::event::{Event, Fact};

/// Prints the answer and nothing on the way to it.
pub struct Quiet {
    screen: Screen,
}

impl Quiet {
    /// Prints on this screen.
    pub fn new(screen: Screen) -> Self {
        Self { screen }
    }
}

impl Sink for Quiet {
    fn see(&mut self, event: &Event) -> Result<()> {
        match &event.fact {
            Fact::Answer { text } => return self.screen.put(&format!("{}\n", clean(text))),
            Fact::Error { status, text, hint } => {
                failure(&self.screen, *status, text, hint.as_deref());
            }
            _ => {}
        }
        Ok(())
    }
}
