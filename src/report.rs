//! An error that happened outside a session, as the person reads it.

use crate::error::Error;
use crate::session::event::Status;
use crate::ui::printer::failure;
use crate::ui::screen::Screen;

/// Says what went wrong and what to do about it; gives the exit code. When nobody reads our output
/// any more, nothing is said.
pub fn tell(error: &Error, screen: &Screen) -> u8 {
    if !error.is_closed_pipe() {
        let hint = error.hint();
        failure(screen, Status::Failed, &error.to_string(), hint.as_deref());
    }
    error.exit_code()
}
