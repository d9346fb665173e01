//! `http.*`: reading from the web, at addresses that the tool's author fixed.

use std::io::Read;
use std::time::Duration;

use serde_json::{Map, Value};
use ureq::Agent;
use ureq::http::Uri;

use super::Effect;
use super::function::{Body, Escape, Function, Limits, Slot};
use crate::json;

/// The largest body that is read.
const BODY_LIMIT: u64 = 1 << 20;

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "http.get_json",
    description: "Get JSON from an address, or the part of it that a JSON pointer selects.",
    slots: &[
        Slot {
            name: "url",
            required: true,
            escape: Escape::Url,
        },
        Slot {
            name: "select",
            required: false,
            escape: Escape::Pointer,
        },
    ],
    effect: Effect::ReadsWorld,
    body: Body::Call(get_json),
    ..Function::PURE
}];

fn get_json(args: &Map<String, Value>, limits: &Limits) -> Result<Value, String> {
    let text = |name: &str| args.get(name).and_then(Value::as_str);
    let url = text("url").unwrap_or_default();
    let host = url
        .parse::<Uri>()
        .ok()
        .and_then(|uri| uri.host().map(str::to_owned))
        .unwrap_or_default();
    let body = get(url, limits.timeout).map_err(|why| format!("{host}: {why}"))?;
    let body = json::parse(&body).map_err(|why| format!("{host} gave no JSON: {why}"))?;
    match text("select") {
        None => Ok(body),
        Some(pointer) => match body.pointer(pointer) {
            Some(part) => Ok(part.clone()),
            None => Err(format!(
                "{host} has nothing under {pointer}; check the arguments"
            )),
        },
    }
}

/// The body of a good response. Nothing is followed, no proxy is used, and all of it must come in time.
fn get(url: &str, timeout: Duration) -> Result<Vec<u8>, String> {
    let config = Agent::config_builder()
        .timeout_global(Some(timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent(concat!("reagent/", env!("CARGO_PKG_VERSION")))
        .build();
    let response = config
        .new_agent()
        .get(url)
        .call()
        .map_err(|error| error.to_string())?;
    let status = response.status();
    if !status.is_success() {
        return Err(match status.is_redirection() {
            true => "it points elsewhere, which is not followed".to_owned(),
            false => format!("HTTP status {status}"),
        });
    }
    let mut body = Vec::new();
    let mut reader = response
        .into_body()
        .into_with_config()
        .limit(BODY_LIMIT)
        .reader();
    reader
        .read_to_end(&mut body)
        .map_err(|error| error.to_string())?;
    Ok(body)
}
