//! The two streams that the program writes to, and what each of them is.
//!
//! Standard output carries the answer, standard error everything else. Every text from outside is
//! cleaned before it comes here; keys are taken out here.

use std::io::{self, IsTerminal, Write};

use rustix::fs::fstat;

use super::status;
use super::text::{clean, indented, strict};
use super::theme::Theme;
use crate::error::Result;
use crate::secret::scrub;

/// What one stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stream {
    /// A person looks at it.
    pub terminal: bool,
    /// Colours are wanted on it.
    pub color: bool,
}

/// When colours are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Color {
    /// On a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    /// On every stream but those that carry the answer to another program.
    Always,
    /// Nowhere.
    Never,
}

/// Both streams.
#[derive(Debug, Clone, Copy)]
pub struct Screen {
    /// Standard output.
    pub out: Stream,
    /// Standard error.
    pub err: Stream,
    /// Whether both end up in the same place, one after the other.
    joined: bool,
    /// Standard error is a terminal on which a line can be taken away again.
    pub live: bool,
}

impl Screen {
    /// Looks at the streams once. `environment` is what the environment says about colours, if it does.
    /// `dumb` says that a terminal only knows how to append.
    pub fn look(color: Color, environment: Option<bool>, dumb: bool) -> Self {
        let stream = |terminal| Stream {
            terminal,
            color: match color {
                Color::Always => true,
                Color::Never => false,
                Color::Auto => environment.unwrap_or(terminal),
            },
        };
        let joined = match (fstat(io::stdout()), fstat(io::stderr())) {
            (Ok(out), Ok(err)) => (out.st_dev, out.st_ino) == (err.st_dev, err.st_ino),
            _ => false,
        };
        Self {
            out: stream(io::stdout().is_terminal()),
            err: stream(io::stderr().is_terminal()),
            joined,
            live: io::stderr().is_terminal() && !dumb,
        }
    }

    /// The theme for standard error.
    pub fn theme(&self) -> Theme {
        Theme::new(self.err.color)
    }

    /// The theme for the answer: plain unless a person looks at it.
    pub fn answer_theme(&self) -> Theme {
        Theme::new(self.out.color && self.out.terminal)
    }

    /// Writes to standard error. That nobody reads it any more is no reason to withhold the answer.
    pub fn say(&self, text: &str) {
        status::hide();
        let _ = io::stderr().lock().write_all(scrub(text).as_bytes());
    }

    /// Writes to standard output at once.
    pub fn put(&self, text: &str) -> Result<()> {
        status::hide();
        let mut out = io::stdout().lock();
        out.write_all(scrub(text).as_bytes())?;
        Ok(out.flush()?)
    }

    /// A dim line for the person.
    pub fn notice(&self, text: &str) {
        let line = format!("notice: {}", strict(text));
        self.say(&format!("{}\n", self.theme().notice.style(line)));
    }

    /// The answer. Where both streams are one, `label` (on standard error) and the text (on standard
    /// output) make up its lines; else each stream has the answer whole.
    pub fn answer(&self, label: &str, text: &str) -> Result<()> {
        let text = clean(text);
        self.say(label);
        if !self.joined {
            self.say(&format!("{}\n", self.theme().answer.style(indented(&text))));
        }
        // For a person, its lines must not look like lines of the trace; for a program, it is as it is.
        let shown = if self.streams_answers() {
            indented(&text)
        } else {
            text.into_owned()
        };
        self.put(&format!("{}\n", self.answer_theme().answer.style(shown)))
    }

    /// Whether the answer may be shown piece by piece.
    pub fn streams_answers(&self) -> bool {
        self.out.terminal && self.joined
    }
}
