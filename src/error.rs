//! Everything that can end a query without an answer, as one type.
//!
//! The model's own mistakes (a malformed reply, an unknown tool, a tool that fails) are not errors:
//! they are told to the model as observations, and become an error only when they do not stop.

use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};

use crate::duration;
use crate::interrupt::Interrupted;
use crate::session::event::Status;

/// The result of anything that can end a query.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a query, or the program, ended without an answer.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The task is empty or blank. Nothing was recorded and no model was asked.
    EmptyTask,
    /// A setting, a flag or a file cannot be used as it is. Found before anything is sent.
    Config {
        /// What is wrong, without a full stop.
        what: String,
        /// What to do about it, if there is something to say.
        hint: Option<String>,
    },
    /// The built-in `demo` cannot answer this question; a real model has to be connected.
    Declined(String),
    /// There was no answer in the time, or with the tokens, that were allowed.
    LimitReached {
        /// Which of the two, with its value, as a flag.
        limit: String,
    },
    /// The model was called as often as allowed and gave no answer.
    MaxIterationsExceeded {
        /// How many calls were allowed.
        limit: u32,
    },
    /// The model's replies could not be used, several times in a row.
    BadReplies {
        /// How many there were.
        count: u32,
        /// What was wrong with the last one.
        last: String,
    },
    /// With strict tools: the model named a tool that does not exist, or arguments that do not fit.
    ToolNotFound(String),
    /// The model repeats an action that changes nothing.
    Stalled {
        /// The action as the model wrote it.
        action: String,
    },
    /// Policy refused to let the query end the way it was about to.
    PolicyViolation(String),
    /// The endpoint rejected the key (401, 403).
    Auth {
        /// The address that was asked.
        url: String,
        /// The server's own words.
        message: String,
    },
    /// The endpoint could not be reached, kept failing, or refused the request.
    Endpoint {
        /// What kind of failure it was.
        class: Class,
        /// The address that was asked.
        url: String,
        /// The server's own words, or what went wrong on the way.
        message: String,
        /// What to do about it, if there is something to say.
        hint: Option<String>,
    },
    /// The person pressed Ctrl-C, or the program was told to end; the number of the signal.
    Interrupted(i32),
    /// What is to be asked now is not what was recorded: where the two differ, and how.
    Miss(String),
    /// Data came on standard input after the question had been asked without it.
    LateInput,
    /// A session that has ended was asked to record something more.
    InactiveSession,
    /// The record or the output could not be written.
    Write(io::Error),
}

/// What an endpoint's failure was about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Class {
    /// No connection came about: refused, reset, no such host, a certificate that is not trusted.
    Connect,
    /// It took longer than is allowed.
    Timeout,
    /// The server failed, or is overloaded.
    Server,
    /// It was asked too often.
    RateLimit,
    /// The account's credit or its share for the day is used up.
    Quota,
    /// The key was rejected; ends the query as [`Error::Auth`].
    Auth,
    /// The request was not accepted.
    BadRequest,
    /// Functions were offered, and the endpoint or the model takes none.
    Functions,
    /// There is no such model, or nothing at this address.
    NotFound,
    /// The conversation is longer than the model can read.
    Context,
    /// The server points to another address.
    Redirect,
    /// The reply was withheld by a filter.
    Blocked,
    /// The model refuses to answer.
    Refusal,
    /// All tokens that were allowed went into reasoning.
    Length,
    /// A reply with nothing in it.
    Empty,
    /// A reply that cannot be read.
    Decode,
}

impl Error {
    /// A configuration error without a hint.
    pub fn config(what: impl Into<String>) -> Self {
        Self::Config {
            what: what.into(),
            hint: None,
        }
    }

    /// A configuration error that says what to do.
    pub fn config_hint(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Config {
            what: what.into(),
            hint: Some(hint.into()),
        }
    }

    /// The status that a session ends with when this error ends it.
    pub fn status(&self) -> Status {
        match self {
            Self::MaxIterationsExceeded { .. } | Self::LimitReached { .. } => Status::Limit,
            Self::PolicyViolation(_) => Status::Denied,
            Self::Auth { .. } => Status::Auth,
            Self::Endpoint { .. } => Status::Unreachable,
            Self::Interrupted(_) => Status::Interrupted,
            _ => Status::Failed,
        }
    }

    /// The exit code of the program when this error ends it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::EmptyTask | Self::Config { .. } | Self::Declined(_) => 2,
            Self::MaxIterationsExceeded { .. } | Self::LimitReached { .. } => 3,
            Self::PolicyViolation(_) => 4,
            Self::Auth { .. } => 5,
            Self::Endpoint { .. } => 6,
            Self::Interrupted(signal) => u8::try_from(128 + signal).unwrap_or(130),
            Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe => 0,
            _ => 1,
        }
    }

    /// What the person can do about it, as a line that can be pasted where there is one.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::EmptyTask => Some("reagent \"What is 10 * 3 + 10?\"".to_owned()),
            Self::Config { hint, .. } | Self::Endpoint { hint, .. } => hint.clone(),
            Self::Miss(_) => Some("--record FILE, in the place of --rerun, records it anew".to_owned()),
            Self::Declined(_) => Some(
                "connect a model: export OPENAI_API_KEY=..., or --base-url http://127.0.0.1:8080/v1 -m NAME"
                    .to_owned(),
            ),
            Self::MaxIterationsExceeded { limit } => {
                Some(format!("allow more with --ttl {}", limit.saturating_mul(2)))
            }
            Self::LimitReached { limit } => {
                let flag = limit.split(' ').next().unwrap_or_default();
                Some(format!("allow more with {flag}, or end without any limit of that kind"))
            }
            Self::PolicyViolation(_) => Some("-y allows what would be asked".to_owned()),
            Self::Auth { .. } => Some("check the key in the environment or in .env".to_owned()),
            Self::LateInput => {
                Some("add `-` to wait for standard input as long as it takes".to_owned())
            }
            _ => None,
        }
    }

    /// Whether the reader of our output has gone: nothing is left to say, and nobody to say it to.
    pub fn is_closed_pipe(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EmptyTask => write!(f, "nothing to ask: the question is empty"),
            Self::Config { what, .. } => write!(f, "{what}"),
            Self::Declined(why) => write!(f, "`demo` cannot answer this: {why}"),
            Self::MaxIterationsExceeded { limit } => {
                write!(
                    f,
                    "no answer after {limit} model {}",
                    if *limit == 1 { "call" } else { "calls" }
                )
            }
            Self::LimitReached { limit } => write!(f, "no answer within {limit}"),
            Self::BadReplies { count, last } => {
                write!(
                    f,
                    "{count} replies in a row could not be used: the last one: {last}"
                )
            }
            Self::ToolNotFound(why) => write!(f, "the action cannot be run: {why}"),
            Self::Stalled { action } => {
                write!(
                    f,
                    "the model goes round in circles: `{action}` again, with the same result each time"
                )
            }
            Self::PolicyViolation(why) => write!(f, "not allowed: {why}"),
            Self::Auth { url, message } => write!(f, "{url} rejected the key: {message}"),
            Self::Endpoint { url, message, .. } => write!(f, "no reply from {url}: {message}"),
            Self::Interrupted(_) => write!(f, "interrupted"),
            Self::Miss(what) => write!(f, "this is not what was recorded: {what}"),
            Self::LateInput => {
                write!(
                    f,
                    "data came on standard input too late: the answer does not take it into account"
                )
            }
            Self::InactiveSession => write!(f, "the session has ended"),
            Self::Write(error) => write!(f, "writing: {error}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Interrupted> for Error {
    fn from(interrupted: Interrupted) -> Self {
        match interrupted {
            Interrupted::Signal(signal) => Self::Interrupted(signal),
            Interrupted::Time(limit) => Self::LimitReached {
                limit: format!("--max-time {}", duration::text(limit)),
            },
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}
