//! `time.now`: the clock.

use serde_json::Value;

use super::function::{Body, Function};

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "time.now",
    description: "The current date and time, with the day of the week and the time zone.",
    body: Body::Call(|_, _| Ok(Value::from(now()))),
    ..Function::PURE
}];

fn now() -> String {
    jiff::ZonedDateTime::now()
        .strftime("%A, %-d %B %Y, %H:%M:%S %Z (UTC%:z)")
        .to_string()
}
