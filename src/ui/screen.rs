//! The two streams that the program writes to, and what each of them is.
//!
//! Standard output carries the answer, standard error everything else. Every text from outside is
//! cleaned before it comes here; keys are taken out here.

use std::io::{self, IsTerminal, Write};

use rustix::fs::fstat;

use super::markdown::Flow;
use super::status::{self, width};
use super::text::{clean, indented, strict};
use super::theme::Theme;
use super::wrap::columns;
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

/// How far an answer's lines are indented, all but the first.
const INDENT: usize = 2;

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
    /// The styles where colours are wanted.
    styles: Theme,
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
            styles: Theme::dark(),
        }
    }

    /// The same with other styles.
    pub fn styled(self, styles: Theme) -> Self {
        Self { styles, ..self }
    }

    /// The theme for standard error.
    pub fn theme(&self) -> Theme {
        self.theme_if(self.err.color)
    }

    fn theme_if(&self, color: bool) -> Theme {
        match color {
            true => self.styles,
            false => Theme::bare(),
        }
    }

    /// The theme for the answer: plain unless a person looks at it.
    pub fn answer_theme(&self) -> Theme {
        self.theme_if(self.out.color && self.out.terminal)
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
        self.say(label);
        let used = columns_shown(label);
        if !self.joined {
            let shown = match self.err.terminal {
                true => {
                    let mut flow = Flow::new(self.theme(), INDENT, used);
                    flow.resize(width(io::stderr()));
                    flow.push(text) + &flow.finish()
                }
                false => self
                    .theme()
                    .answer
                    .style(indented(&clean(text)))
                    .to_string(),
            };
            self.say(&format!("{shown}\n"));
        }
        // For a person, its lines must not look like lines of the trace; for a program, it is as it is.
        if !self.out.terminal {
            return self.put(&format!("{}\n", clean(text)));
        }
        let mut flow = match self.joined {
            true => self.flow(used),
            false => Flow::new(self.answer_theme(), 0, 0),
        };
        let shown = self.flown(&mut flow, text) + &flow.finish();
        self.put(&format!("{shown}\n"))
    }

    /// For an answer that is shown behind a label of so many columns.
    pub fn flow(&self, label: usize) -> Flow {
        Flow::new(self.answer_theme(), INDENT, label)
    }

    /// What is shown of the next piece of an answer, at the terminal's width.
    pub fn flown(&self, flow: &mut Flow, piece: &str) -> String {
        flow.resize(width(io::stdout()));
        flow.push(piece)
    }

    /// Whether the answer may be shown piece by piece.
    pub fn streams_answers(&self) -> bool {
        self.out.terminal && self.joined
    }
}

/// How many columns a styled text takes.
fn columns_shown(text: &str) -> usize {
    let mut shown = String::new();
    for (number, part) in text.split('\u{1b}').enumerate() {
        let part = match number {
            0 => part,
            _ => part.split_once('m').map_or(part, |(_, part)| part),
        };
        shown.push_str(part);
    }
    columns(&shown)
}
