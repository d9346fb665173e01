//! What is asked: the words of the command line, and what comes on standard input.
//!
//! A pipe may be silent because nobody will ever write to it, or because somebody has not written
//! yet. It is waited for, then left alone; and if data comes after all, that is said.

use std::io::{self, IsTerminal, Read};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::config::{Config, attachment};
use crate::error::{Error, Result};
use crate::session::Sink;
use crate::session::event::{Event, Fact};

/// How long a pipe may be silent before the person is told.
const PATIENCE: Duration = Duration::from_millis(500);
/// The most that is read.
const LIMIT: u64 = 2 << 20;

/// What is asked.
pub struct Input {
    /// The question; empty if there is none.
    pub question: String,
    /// Data that came with it, framed.
    pub data: String,
    /// Whether standard input was left alone while nothing had come yet.
    pub left_alone: bool,
}

/// How long to wait for the first byte.
enum Patience {
    Forever,
    For(Duration),
}

impl Input {
    /// Takes the words, and reads standard input if it is no terminal. `-` among the words waits for
    /// it as long as it takes, and is no word of the question.
    pub fn gather(mut words: Vec<String>, config: &Config) -> Result<Self> {
        let before = words.len();
        words.retain(|word| word != "-");
        let patience = match words.len() < before {
            true => Patience::Forever,
            false => Patience::For(config.stdin_wait),
        };
        let question = words.join(" ");
        if io::stdin().is_terminal() && matches!(patience, Patience::For(_)) {
            return Ok(Self {
                question,
                data: String::new(),
                left_alone: false,
            });
        }
        Ok(match read(&patience, config)? {
            None => Self {
                question,
                data: String::new(),
                left_alone: true,
            },
            Some(text) if question.trim().is_empty() => Self {
                question: text.trim().to_owned(),
                data: String::new(),
                left_alone: false,
            },
            Some(text) if text.trim().is_empty() => Self {
                question,
                data: String::new(),
                left_alone: false,
            },
            Some(text) => Self {
                question,
                data: attachment("standard input", &text),
                left_alone: false,
            },
        })
    }
}

/// All of standard input once its first byte is there; nothing if it stays silent.
fn read(patience: &Patience, config: &Config) -> Result<Option<String>> {
    if let Patience::For(time) = patience {
        let first = PATIENCE.min(*time);
        if !is_ready(first) {
            let rest = time.saturating_sub(first);
            if !rest.is_zero() {
                config
                    .screen
                    .notice("waiting for standard input; `</dev/null` says that there is none");
            }
            if rest.is_zero() || !is_ready(rest) {
                return Ok(None);
            }
        }
    }
    let mut bytes = Vec::new();
    let cannot = |why: String| Error::config(format!("cannot read standard input: {why}"));
    io::stdin()
        .lock()
        .take(LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| cannot(error.to_string()))?;
    if bytes.len() as u64 > LIMIT {
        return Err(cannot(format!("it is larger than {LIMIT} bytes")));
    }
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Whether something can be read, an end included, within this time.
fn is_ready(time: Duration) -> bool {
    let stdin = io::stdin();
    let mut fds = [PollFd::new(&stdin, PollFlags::IN)];
    let time = Timespec::try_from(time).ok();
    // What cannot be waited for is read at once: that says what is wrong with it.
    poll(&mut fds, time.as_ref()).map_or(true, |ready| ready > 0)
}

/// Refuses an answer that was found while data came on a standard input that had been left alone.
pub struct LateInput;

impl Sink for LateInput {
    fn see(&mut self, event: &Event) -> Result<()> {
        let answered = matches!(event.fact, Fact::Answer { .. });
        if answered
            && is_ready(Duration::ZERO)
            && io::stdin().lock().read(&mut [0]).unwrap_or(0) > 0
        {
            return Err(Error::LateInput);
        }
        Ok(())
    }
}
