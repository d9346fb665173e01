//! How far a query may go, and how far it has gone.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::interrupt::{self, Deadline};
use crate::session::Session;
use crate::session::event::{Event, Fact, Usage};
use crate::tool::call::Call;
use crate::tool::text_of;

/// Replies in a row that cannot be used before the query ends as failed.
const BAD_REPLIES: u32 = 3;
/// Times that the same action may give the same observation.
const REPEATS: u32 = 3;

/// The longest result that is listed, with its action.
const SHORT: usize = 100;
/// How many results are listed.
const LISTED: usize = 6;

/// How far a query may go.
pub struct Limits {
    /// Model calls, replies that cannot be used included.
    pub ttl: NonZeroU32,
    /// What happens after the last of them.
    pub on_limit: OnLimit,
    /// Whether an unknown tool or wrong arguments end the query at once.
    pub strict_tools: bool,
    /// The longest time from the first model call on. Waiting for the person does not count.
    pub max_time: Option<Duration>,
    /// The tokens that all model calls together may take, as far as endpoints count them.
    pub max_total_tokens: Option<u64>,
    /// The bytes that all tools together may give, whole.
    pub max_total_bytes: Option<u64>,
    /// The tokens, about, that the model is sent at once. Above that the oldest observations are
    /// shortened.
    pub max_context: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            ttl: const { NonZeroU32::new(10).unwrap() },
            on_limit: OnLimit::Stop,
            strict_tools: false,
            max_time: None,
            max_total_tokens: None,
            max_total_bytes: None,
            max_context: None,
        }
    }
}

/// Asks whether a query may take as much again of what is used up, such as `10 model calls`.
pub type GoOn = Box<dyn FnMut(&str) -> bool>;

/// What happens when a limit is reached and there is no answer.
pub enum OnLimit {
    /// The query ends.
    Stop,
    /// One more call is spent, which may only answer.
    Answer,
    /// Somebody is asked whether to allow as many again.
    Ask(GoOn),
}

/// What the limits say to the next model call.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// It may be made.
    Granted,
    /// It may be made, but only to answer.
    OnlyToAnswer,
}

/// What a query has used up so far.
#[derive(Debug, Default)]
pub struct Tally {
    /// Model calls.
    pub steps: u32,
    /// Actions that were run.
    pub tool_calls: u32,
    /// The bytes that they gave.
    pub bytes: u64,
    /// Why an action was not run, if one was denied for want of approval.
    pub unapproved: Option<String>,
    /// When the time is over.
    pub(super) deadline: Option<Deadline>,
    begun: bool,
    extra: u32,
    extra_tokens: u64,
    extra_bytes: u64,
    last_call: bool,
    bad_replies: u32,
    reminded: bool,
    seen: HashMap<String, Seen>,
    results: Vec<String>,
    hasher: RandomState,
}

/// What an action gave the last time, and how often in a row.
#[derive(Debug)]
struct Seen {
    observation: u64,
    times: u32,
}

impl Limits {
    /// Counts the next model call, or ends the query. `used` are the tokens so far.
    pub fn admit(&mut self, tally: &mut Tally, used: Usage) -> Result<Admission> {
        if !std::mem::replace(&mut tally.begun, true) {
            tally.deadline = self.max_time.map(Deadline::after);
            interrupt::deadline(tally.deadline);
        }
        let used = used.input_tokens.unwrap_or(0) + used.output_tokens.unwrap_or(0);
        if let Some((what, error)) = self.reached(tally, used) {
            let more = match &mut self.on_limit {
                OnLimit::Answer if !tally.last_call => {
                    tally.last_call = true;
                    tally.steps += 1;
                    return Ok(Admission::OnlyToAnswer);
                }
                OnLimit::Ask(ask) => ask(&what),
                _ => false,
            };
            if !more {
                // To be interrupted is no answer.
                interrupt::check()?;
                return Err(error);
            }
            tally.extra = tally.steps;
            tally.extra_tokens = used;
            tally.extra_bytes = tally.bytes;
        }
        tally.steps += 1;
        Ok(Admission::Granted)
    }

    /// The limit that is reached, if one is, and the error that it ends the query with.
    fn reached(&self, tally: &Tally, used: u64) -> Option<(String, Error)> {
        let limit = self.ttl.get().saturating_add(tally.extra);
        if tally.steps >= limit {
            let what = format!("{limit} model calls");
            return Some((what, Error::MaxIterationsExceeded { limit }));
        }
        let over = |most: Option<u64>, used: u64, extra: u64, what: &str| {
            let most = most.filter(|most| used >= most.saturating_add(extra))?;
            let limit = format!("--max-total-{what} {most}");
            Some((format!("{used} {what}"), Error::LimitReached { limit }))
        };
        let tokens = over(self.max_total_tokens, used, tally.extra_tokens, "tokens");
        tokens.or_else(|| {
            over(
                self.max_total_bytes,
                tally.bytes,
                tally.extra_bytes,
                "bytes",
            )
        })
    }

    /// Counts a reply that cannot be used; one too many in a row ends the query.
    pub fn bad_reply(&self, tally: &mut Tally, why: &str) -> Result<()> {
        tally.bad_replies += 1;
        match tally.bad_replies >= BAD_REPLIES {
            true => Err(Error::BadReplies {
                count: tally.bad_replies,
                last: why.to_owned(),
            }),
            false => Ok(()),
        }
    }
}

impl Tally {
    /// What a recorded session has used up.
    pub fn of(session: &Session) -> Self {
        let events = || session.events().iter();
        let allowed = |event: &&Event| matches!(&event.fact, Fact::Verdict(said) if said.allowed);
        Self {
            steps: events().filter_map(|event| event.step).max().unwrap_or(0),
            tool_calls: u32::try_from(events().filter(allowed).count()).unwrap_or(u32::MAX),
            ..Self::default()
        }
    }

    /// A reply that can be used starts the count of those that cannot anew.
    pub fn good_reply(&mut self) {
        self.bad_replies = 0;
        self.reminded = false;
    }

    /// Whether more than one reply in a row could not be used.
    pub fn is_lost(&self) -> bool {
        self.bad_replies > 1
    }

    /// Whether this is the first reply in prose since the last one that could be used.
    pub fn first_prose(&mut self) -> bool {
        !std::mem::replace(&mut self.reminded, true)
    }

    /// Remembers a result that is short enough to be listed.
    pub fn result(&mut self, action: &str, observation: &str) {
        let line = format!("{action} = {observation}");
        if line.len() <= SHORT && !line.contains('\n') && !self.results.contains(&line) {
            self.results.push(line);
        }
    }

    /// The latest short results, for a model that has lost its way.
    pub fn results(&self) -> String {
        self.results[self.results.len().saturating_sub(LISTED)..].join(", ")
    }

    /// Ends the query if the action has given the same observation too often already.
    pub fn check_repeats(&self, call: &Call, shown: &str) -> Result<()> {
        match self.seen.get(&key(call)) {
            Some(seen) if seen.times >= REPEATS => Err(Error::Stalled {
                action: shown.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// Notes what an action gave; says how often it has given just that.
    pub fn note(&mut self, call: &Call, observation: &str) -> u32 {
        let observation = self.hasher.hash_one(observation);
        let seen = self.seen.entry(key(call)).or_insert(Seen {
            observation,
            times: 0,
        });
        seen.times = if seen.observation == observation {
            seen.times + 1
        } else {
            1
        };
        seen.observation = observation;
        seen.times
    }
}

/// The call with its numbers as a person writes them: `3` and `3.0` are one argument.
fn key(call: &Call) -> String {
    let args = call
        .args
        .iter()
        .map(|(name, value)| format!("{name}={}", text_of(value)));
    format!("{}({})", call.tool, args.collect::<Vec<_>>().join(","))
}
