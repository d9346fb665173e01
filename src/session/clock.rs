//! Every time and every piece of chance that a record shows. They can be kept, to be given once more.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::time::Instant;

use serde_json::Value;

thread_local! {
    static CLOCK: RefCell<Clock> = const { RefCell::new(Clock::Real) };
}

/// Where times come from.
enum Clock {
    /// They are what they are.
    Real,
    /// The same, and they are kept.
    Kept(Vec<Value>),
    /// They are what they were.
    Again(VecDeque<Value>),
}

/// From here on what is told is kept.
pub(crate) fn keep() {
    CLOCK.set(Clock::Kept(Vec::new()));
}

/// What has been told since [`keep`]. From here on nothing is kept.
pub(crate) fn kept() -> Vec<Value> {
    match CLOCK.replace(Clock::Real) {
        Clock::Kept(told) => told,
        Clock::Real | Clock::Again(_) => Vec::new(),
    }
}

/// From here on this is told again, in its order; when there is no more of it, the truth.
pub(crate) fn again(told: Vec<Value>) {
    CLOCK.set(Clock::Again(told.into()));
}

fn tell(truth: impl FnOnce() -> Value) -> Value {
    CLOCK.with_borrow_mut(|clock| match clock {
        Clock::Real => truth(),
        Clock::Kept(told) => {
            let value = truth();
            told.push(value.clone());
            value
        }
        Clock::Again(told) => told.pop_front().unwrap_or_else(truth),
    })
}

fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

/// Milliseconds since `begun`, by a clock that cannot be set.
pub fn millis(begun: Instant) -> u64 {
    let millis = tell(|| {
        u64::try_from(begun.elapsed().as_millis())
            .unwrap_or(u64::MAX)
            .into()
    });
    millis.as_u64().unwrap_or_default()
}

/// The time of day, RFC 3339 in UTC, to the millisecond.
pub(super) fn now() -> String {
    text(tell(|| stamp(jiff::Timestamp::now()).into()))
}

/// A time as text. Many events happen within one millisecond, and writing it is not for nothing.
fn stamp(now: jiff::Timestamp) -> String {
    thread_local! {
        static LAST: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
    }
    LAST.with_borrow_mut(|(millis, text)| {
        if *millis != now.as_millisecond() {
            *millis = now.as_millisecond();
            *text = format!("{now:.3}");
        }
        text.clone()
    })
}

/// An id: time first, so that ids sort as they were made; then chance, so that two programs cannot meet.
pub(super) fn id() -> String {
    text(tell(|| {
        let chance = RandomState::new().hash_one(std::process::id()) & 0xf_ffff;
        let now = jiff::Timestamp::now();
        let millis = now.subsec_millisecond();
        format!("{}-{millis:03}{chance:05x}", now.strftime("%Y%m%d-%H%M%S")).into()
    }))
}
