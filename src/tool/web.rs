//! One HTTP client for every tool that reads the web. It is made when first used, and keeps its
//! connections.

use std::io::Read;
use std::sync::LazyLock;

use serde_json::Value;
use ureq::Agent;
use ureq::http::Uri;

use super::function::{Escape, Limits, Slot};
use super::template::percent_encode;
use crate::json;
use crate::transport::{self, Patience};

/// The largest body that is read.
const BODY_LIMIT: u64 = 1 << 20;

/// How much of an error is read.
const ERROR_LIMIT: u64 = 64 << 10;

/// A tool may send a function to another address that answers like the service: a mirror, a test.
pub(super) const BASE_URL: &[Slot] = &[Slot {
    name: "base_url",
    required: false,
    escape: Escape::Url,
}];

/// Nothing is followed and no proxy is used: what is reached is what the address says.
static PLAIN: LazyLock<Agent> =
    LazyLock::new(|| transport::agent(Patience::default(), false, false));
/// The same for https, which needs certificates.
static TLS: LazyLock<Agent> = LazyLock::new(|| transport::agent(Patience::default(), true, false));

/// An address with a query, made of names and values; the values are percent-encoded.
pub(super) fn address(base: &str, path: &str, query: &[(&str, &str)]) -> String {
    let mut url = format!("{}{path}", base.trim_end_matches('/'));
    for (at, (name, value)) in query.iter().enumerate() {
        url += if at == 0 { "?" } else { "&" };
        url += name;
        url.push('=');
        percent_encode(value, &mut url);
    }
    url
}

/// The JSON at an address. All of it must come in time, and a status that is no success is an error
/// that names the host.
pub(super) fn json(url: &str, limits: &Limits) -> Result<Value, String> {
    let host = host(url);
    let body = get(url, limits).map_err(|why| format!("{host}: {why}"))?;
    json::parse(&body).map_err(|why| format!("{host} gave no JSON: {why}"))
}

/// The host that an address names.
pub(super) fn host(url: &str) -> String {
    let uri = url.parse::<Uri>().ok();
    uri.and_then(|uri| uri.host().map(str::to_owned))
        .unwrap_or_default()
}

fn get(url: &str, limits: &Limits) -> Result<Vec<u8>, String> {
    let agent = match url.starts_with("http:") {
        true => &PLAIN,
        false => &TLS,
    };
    let request = agent
        .get(url)
        .config()
        .timeout_global(Some(limits.timeout))
        .build();
    let response = request.call().map_err(|error| match error {
        ureq::Error::Io(error) => error.to_string(),
        ureq::Error::Timeout(_) => format!("no reply within {:?}", limits.timeout),
        other => other.to_string(),
    })?;
    let status = response.status();
    if !status.is_success() {
        let mut body = Vec::new();
        let read = response
            .into_body()
            .into_with_config()
            .limit(BODY_LIMIT)
            .reader()
            .take(ERROR_LIMIT)
            .read_to_end(&mut body);
        let said = read
            .ok()
            .and_then(|_| json::error_text(&json::parse(&body).ok()?));
        let said = said.map_or(String::new(), |said| format!(": {said}"));
        return Err(match status.as_u16() {
            300..=399 => "it points elsewhere, which is not followed".to_owned(),
            429 => format!("it was asked too often{said}; try again later"),
            _ => format!("HTTP status {status}{said}"),
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
