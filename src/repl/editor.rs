//! Where lines come from: a terminal with editing and history, or a pipe.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Read};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Context, Helper, Highlighter, Hinter, Validator};

use super::LINE_LIMIT;
use super::command;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::secret;

/// How many lines of history are kept.
const HISTORY: usize = 10_000;
/// Has a terminal mark pastes no more, as it does while a line is edited.
pub(super) const UNMARKED: &str = "\x1b[?2004l";

/// What was read.
pub(super) enum Line {
    Text(String),
    /// Ctrl-C: the line was thrown away.
    Interrupted,
    End,
}

/// Where lines come from.
pub(super) enum Editor {
    Terminal {
        editor: Box<rustyline::Editor<Commands, FileHistory>>,
        history: Option<PathBuf>,
    },
    Pipe,
}

/// Completes the names of commands.
#[derive(Helper, Highlighter, Hinter, Validator)]
pub(super) struct Commands;

impl Completer for Commands {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..at).and_then(|typed| typed.strip_prefix('/'));
        let names = typed.into_iter().flat_map(|typed| {
            command::names()
                .filter(move |name| name.starts_with(typed))
                .map(|name| format!("/{name}"))
        });
        Ok((0, names.collect()))
    }
}

impl Editor {
    /// A terminal is edited on; from anything else, lines are taken as they come, and no prompt is
    /// printed.
    pub(super) fn open(config: &Config) -> Result<Self> {
        if !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(Self::Pipe);
        }
        let settings = rustyline::Config::builder()
            .max_history_size(HISTORY)
            .and_then(|builder| builder.history_ignore_dups(true))
            .map_err(|error| failed(&error))?
            .history_ignore_space(true)
            .build();
        let mut editor =
            rustyline::Editor::with_config(settings).map_err(|error| failed(&error))?;
        editor.set_helper(Some(Commands));
        let history = config
            .state
            .as_deref()
            .and_then(|folder| private_file(folder).ok());
        match &history {
            // A history that cannot be read is an empty one.
            Some(path) => drop(editor.load_history(path)),
            None => config
                .screen
                .notice("the history cannot be used: it is neither shown nor kept"),
        }
        Ok(Self::Terminal {
            editor: Box::new(editor),
            history,
        })
    }

    pub(super) fn is_terminal(&self) -> bool {
        matches!(self, Self::Terminal { .. })
    }

    /// Reads the next line. Each line is kept in the history at once.
    pub(super) fn read(&mut self) -> Result<Line> {
        match self {
            Self::Pipe => {
                let mut line = String::new();
                let mut bytes = Vec::new();
                let read = io::stdin()
                    .lock()
                    .take(LINE_LIMIT)
                    .read_until(b'\n', &mut bytes);
                if read.map_err(|error| {
                    Error::config(format!("cannot read standard input: {error}"))
                })? == 0
                {
                    return Ok(Line::End);
                }
                line.push_str(&String::from_utf8_lossy(&bytes));
                Ok(Line::Text(line))
            }
            Self::Terminal { editor, history } => match editor.readline("> ") {
                Ok(line) => {
                    // The history is shown as it is, so nothing that a terminal obeys goes into it.
                    let plain = !line.contains(|c: char| c.is_control() && c != '\n');
                    let kept = secret::scrub(&line);
                    let added = plain && editor.add_history_entry(&*kept).unwrap_or(false);
                    if let (true, Some(path)) = (added, history) {
                        // What cannot be kept is only missing the next time.
                        drop(editor.append_history(path));
                    }
                    Ok(Line::Text(line))
                }
                Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
                Err(ReadlineError::Eof) => Ok(Line::End),
                Err(error) => Err(failed(&error)),
            },
        }
    }
}

fn failed(error: &ReadlineError) -> Error {
    Error::config(format!("the terminal cannot be read: {error}"))
}

/// The history file, which nobody else may read. A link in its place is not followed.
fn private_file(folder: &Path) -> io::Result<PathBuf> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let path = folder.join("history");
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(no_follow)
        .open(&path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a file"));
    }
    let kept = fs::read_to_string(&path)?;
    if kept.contains(|c: char| c.is_control() && c != '\n') {
        return Err(io::Error::other("control characters in it"));
    }
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    Ok(path)
}
