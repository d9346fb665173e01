//! One HTTP client for everything that is asked over the network: limits, retries, error bodies.
//!
//! What a server says is hostile: it is read up to a limit, parsed totally, and its key never shown.

use std::io::Read;
use std::time::Duration;

use serde_json::Value;
use ureq::http::{Uri, header};
use ureq::{Agent, Body};

use super::transport;
use crate::error::{Error, Result};
use crate::json;
use crate::secret::Secret;

/// The largest body that is read whole.
pub(crate) const BODY_LIMIT: u64 = 4 << 20;
/// The longest wait that a server may ask for before the next try.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// A client for one endpoint. It keeps its connection between calls.
pub(crate) struct Client {
    agent: Agent,
    url: String,
    key: Option<Secret>,
    retries: u32,
}

/// A response whose status has been looked at and whose body has not.
pub(crate) struct Response {
    /// Whether the body is a stream of events.
    pub(crate) streams: bool,
    html: bool,
    body: Body,
}

/// Why one attempt came to nothing.
pub(crate) enum Trouble {
    /// It may go better the next time; the server may have said when.
    Passing {
        message: String,
        wait: Option<Duration>,
    },
    /// A good status with nothing usable in it: worth one more try.
    Hollow(String),
    /// It will not go better.
    Final(Error),
}

impl Client {
    /// A client for this address. Nothing is sent yet.
    pub(crate) fn new(url: String, key: Option<Secret>, timeout: Duration, retries: u32) -> Self {
        let agent = transport::agent(timeout, is_on_this_machine(&url));
        Self {
            agent,
            url,
            key,
            retries,
        }
    }

    /// Posts `body` and has the response read by `read`. What fails on the way is tried again, after
    /// a pause, up to the number of retries; `read` decides the same about what it finds.
    pub(crate) fn post<T>(
        &self,
        body: &[u8],
        mut read: impl FnMut(Response) -> std::result::Result<T, Trouble>,
    ) -> Result<T> {
        let mut hollow = false;
        let mut attempt = 0;
        loop {
            let trouble = match self.send(body).and_then(&mut read) {
                Ok(value) => return Ok(value),
                Err(trouble) => trouble,
            };
            let (message, wait) = match trouble {
                Trouble::Final(error) => return Err(error),
                Trouble::Hollow(message) if hollow => return Err(self.unreachable(message)),
                Trouble::Hollow(message) => {
                    hollow = true;
                    (message, None)
                }
                Trouble::Passing { message, wait } => (message, wait),
            };
            let wait = wait.unwrap_or_else(|| pause(attempt));
            if attempt >= self.retries || wait > LONGEST_WAIT {
                return Err(self.unreachable(message));
            }
            attempt += 1;
            std::thread::sleep(wait);
        }
    }

    fn send(&self, body: &[u8]) -> std::result::Result<Response, Trouble> {
        let mut request = self.agent.post(&self.url).content_type("application/json");
        if let Some(key) = &self.key {
            request = request.header(header::AUTHORIZATION, format!("Bearer {}", key.reveal()));
        }
        let response = request.send(body).map_err(|error| self.failed(&error))?;
        let status = response.status().as_u16();
        let head = response.headers();
        let kind = head
            .get(header::CONTENT_TYPE)
            .and_then(|v| v.to_str().ok())
            .unwrap_or_default();
        let (streams, html) = (kind.contains("event-stream"), kind.contains("html"));
        let wait = head
            .get(header::RETRY_AFTER)
            .and_then(|value| value.to_str().ok()?.trim().parse().ok())
            .map(Duration::from_secs);
        let response = Response {
            streams,
            html,
            body: response.into_body(),
        };
        if (200..300).contains(&status) {
            return Ok(response);
        }
        let message = response
            .error_text()
            .unwrap_or_else(|| format!("HTTP status {status}"));
        Err(self.rejected(status, message, wait))
    }

    /// What a status that is not a success comes to; also for one that hides in a good response.
    pub(crate) fn rejected(&self, status: u16, message: String, wait: Option<Duration>) -> Trouble {
        let message = self.scrub(message);
        match status {
            401 | 403 => Trouble::Final(Error::Auth {
                url: self.url.clone(),
                message,
            }),
            408 | 429 | 500..=599 => Trouble::Passing { message, wait },
            300..=399 => Trouble::Final(self.refused(
                format!("it points elsewhere (HTTP status {status}), which is not followed"),
                Some("give the final address with --base-url"),
            )),
            404 => Trouble::Final(self.refused(
                message,
                Some("check the model's name (-m) and the address (--base-url)"),
            )),
            _ => Trouble::Final(self.refused(message, None)),
        }
    }

    /// A read that broke off: the connection may hold the next time, a limit will not.
    pub(crate) fn failed(&self, error: &ureq::Error) -> Trouble {
        use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        let message = match error {
            ureq::Error::Timeout(_) => format!("no complete reply in time ({error})"),
            ureq::Error::BodyExceedsLimit(limit) => {
                format!("the reply is larger than {limit} bytes")
            }
            ureq::Error::Io(error) => error.to_string(),
            other => other.to_string(),
        };
        let hint = match error {
            ureq::Error::Timeout(_) => "allow more time with --timeout 10m",
            _ => "is the server running? check --base-url",
        };
        match error {
            ureq::Error::Io(e)
                if matches!(
                    e.kind(),
                    ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof
                ) =>
            {
                Trouble::Passing {
                    message,
                    wait: None,
                }
            }
            ureq::Error::Protocol(_) => Trouble::Passing {
                message,
                wait: None,
            },
            _ => Trouble::Final(self.refused(message, Some(hint))),
        }
    }

    /// The endpoint's last word, as far as a person reads it.
    pub(crate) fn refused(&self, message: impl Into<String>, hint: Option<&str>) -> Error {
        Error::Endpoint {
            url: self.url.clone(),
            message: self.scrub(message.into()),
            hint: hint.map(str::to_owned),
        }
    }

    fn unreachable(&self, message: String) -> Error {
        self.refused(message, Some("ask again later, or another model with -m"))
    }

    /// How many bytes at the end of `text` may be the beginning of the key.
    pub(crate) fn begun(&self, text: &str) -> usize {
        self.key.as_ref().map_or(0, |key| key.begun(text))
    }

    /// `text` without the key, should the server have put it there.
    pub(crate) fn scrub(&self, text: String) -> String {
        match &self.key {
            Some(key) if text.contains(key.reveal()) => key.scrub(&text),
            _ => text,
        }
    }
}

impl Response {
    /// The body as JSON, read whole up to the limit.
    pub(crate) fn json(self, client: &Client) -> std::result::Result<Value, Trouble> {
        let html = self.html;
        let mut bytes = Vec::new();
        self.reader(BODY_LIMIT)
            .read_to_end(&mut bytes)
            .map_err(|e| client.failed(&e.into()))?;
        json::parse(&bytes).map_err(|why| match html {
            true => Trouble::Final(client.refused(
                "a web page came instead of a reply",
                Some("the base URL of an API often ends in /v1"),
            )),
            false => Trouble::Hollow(format!("the reply is not JSON: {why}")),
        })
    }

    /// The body as it comes, up to `limit` bytes.
    pub(crate) fn reader(self, limit: u64) -> impl Read {
        self.body.into_with_config().limit(limit).reader()
    }

    /// What a server says about its own failure, in any of the shapes that servers use.
    fn error_text(self) -> Option<String> {
        let mut bytes = Vec::new();
        let read = self
            .reader(BODY_LIMIT)
            .take(64 << 10)
            .read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        let said = json::parse(&bytes).ok().as_ref().and_then(json::error_text);
        said.or_else(|| Some(json::excerpt(&text)).filter(|line| !line.is_empty() && read.is_ok()))
    }
}

/// An address as people write it, made whole: no trailing slash or endpoint, `/v1` when there is no
/// path. Plain http goes only to this machine, since the key would be readable on the way.
pub(crate) fn base_url(given: &str) -> Result<String> {
    let wrong = |why: &str| {
        let hint = "a base URL looks like https://api.example.com/v1";
        // What stands around the address proper may be a key.
        let shown = if given.contains(['@', '?']) {
            "…"
        } else {
            given
        };
        Error::config_hint(format!("base URL `{shown}`: {why}"), hint)
    };
    let trimmed = given
        .trim()
        .trim_end_matches('/')
        .trim_end_matches("/chat/completions");
    let uri: Uri = trimmed.parse().map_err(|_| wrong("not an address"))?;
    let authority = uri.authority().ok_or_else(|| wrong("no host"))?;
    if authority.as_str().contains('@') {
        return Err(wrong("a key does not belong in it"));
    }
    if uri.query().is_some() {
        return Err(wrong("it must not have a query"));
    }
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if is_on_this_machine(trimmed) => {}
        Some("http") => return Err(wrong("plain http is for servers on this machine")),
        _ => return Err(wrong("neither https nor http")),
    }
    let path = if matches!(uri.path(), "" | "/") {
        "/v1"
    } else {
        ""
    };
    Ok(format!("{trimmed}{path}"))
}

/// Whether an address names this machine itself.
pub(crate) fn is_on_this_machine(url: &str) -> bool {
    let uri = url.parse::<Uri>();
    let host = uri.as_ref().ok().and_then(Uri::host).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

/// How long to wait before the next try: any time up to half a second, doubled with each try.
/// By chance, so that many clients do not come back at once.
fn pause(attempt: u32) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let longest = (500_u64 << attempt.min(4)).min(8000);
    Duration::from_millis(RandomState::new().hash_one(attempt) % longest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_made_whole() {
        for (given, wanted) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1"),
            ("http://localhost:8080/v1/", "http://localhost:8080/v1"),
            ("http://[::1]:1/v1", "http://[::1]:1/v1"),
            (
                "https://x.example/v1/chat/completions",
                "https://x.example/v1",
            ),
            ("https://x.example/api//", "https://x.example/api"),
        ] {
            assert_eq!(base_url(given).unwrap(), wanted);
        }
        for wrong in [
            "",
            "x",
            "ftp://x/v1",
            "http://example.org/v1",
            "https://k@x/v1",
            "https://x/v1?key=k",
            "http://127.0.0.1.evil/v1",
        ] {
            assert!(base_url(wrong).is_err(), "{wrong}");
        }
    }
}
