//! One HTTP client for each endpoint: limits, statuses, error bodies.
//!
//! What a server says is hostile: it is read up to a limit, parsed totally, and its key never shown.
//! No redirect is followed: a key goes to the address that was named and nowhere else.

use std::io::Read;
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;
use ureq::http::header::HeaderMap;
use ureq::{Agent, Body};

use super::address::is_on_this_machine;
use super::wire::Wire;
use super::{Endpoint, Options, quirks};
use crate::error::{Class, Error};
use crate::interrupt;
use crate::json;
use crate::route::Fault;
use crate::secret::{Secret, scrub};
use crate::transport::{self, Enough, Patience};

/// The largest body that is read whole.
pub(crate) const BODY_LIMIT: u64 = 4 << 20;
/// How much of an error's body is read.
const ERROR_LIMIT: u64 = 64 << 10;

/// A client for one endpoint. It keeps its connection between calls.
pub(crate) struct Client {
    agent: Agent,
    /// The address of a call, for the person to know what was asked.
    call: String,
    wire: Wire,
    key: Option<Secret>,
    /// To be told when no more of a response is wanted.
    pub(crate) enough: Enough,
}

/// A response whose status has been looked at and whose body has not.
pub(crate) struct Response {
    /// What kind of body it says it has, in lower case.
    pub(crate) kind: String,
    body: Body,
}

/// Why one attempt came to nothing.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub(crate) class: Class,
    /// For the person: the server's own words, or what went wrong on the way.
    pub(crate) message: String,
    /// What else the server said, to learn from.
    pub(crate) detail: String,
    /// When to try again, if the server said so.
    pub(crate) wait: Option<Duration>,
    /// What to do about it.
    pub(crate) hint: Option<String>,
    /// It will not go better the next time.
    pub(crate) last: bool,
    /// A person has seen a part of the reply.
    pub(crate) shown: bool,
    /// A web page came, not an endpoint's answer.
    pub(crate) page: bool,
}

impl Class {
    /// Whether it may go better the next time.
    pub(crate) fn passes(self) -> bool {
        matches!(
            self,
            Self::Connect | Self::Timeout | Self::Server | Self::RateLimit
        )
    }
}

impl Trouble {
    /// What to do about it.
    pub(crate) fn hint(mut self, hint: &str) -> Self {
        self.hint = Some(hint.to_owned());
        self
    }

    /// It will not go better.
    pub(crate) fn last(mut self) -> Self {
        self.last = true;
        self
    }

    /// The wait was ended by a signal.
    pub(crate) fn interrupted() -> Self {
        Self {
            class: Class::Timeout,
            message: "interrupted".to_owned(),
            detail: String::new(),
            wait: None,
            hint: None,
            last: true,
            shown: false,
            page: false,
        }
    }
}

impl Client {
    /// A client for this endpoint. Nothing is sent yet.
    pub(crate) fn new(endpoint: &Endpoint, options: &Options) -> Self {
        let enough = Enough::default();
        let patience = Patience {
            connect: Some(options.connect_timeout.min(options.timeout)),
            first_byte: options.first_byte_timeout,
            idle: options.idle_timeout,
            enough: enough.clone(),
        };
        Self {
            agent: transport::agent(
                patience,
                endpoint.base_url.starts_with("https:"),
                !is_on_this_machine(&endpoint.base_url),
            ),
            call: endpoint.url(false),
            wire: endpoint.wire,
            key: endpoint.key.clone(),
            enough,
        }
    }

    /// Sends a request and waits for the head of its response.
    fn ask(
        &self,
        url: &str,
        body: Option<&[u8]>,
        until: Instant,
    ) -> Result<ureq::http::Response<Body>, Trouble> {
        let left = until
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        let (name, before) = self.wire.key_header();
        let key = self
            .key
            .as_ref()
            .map(|key| format!("{before}{}", key.reveal()));
        let mut headers: Vec<(&str, &str)> = self.wire.headers().to_vec();
        headers.extend(key.as_deref().map(|key| (name, key)));
        let response = match body {
            Some(body) => {
                let mut request = self.agent.post(url).content_type("application/json");
                for (name, value) in headers {
                    request = request.header(name, value);
                }
                request
                    .config()
                    .timeout_global(Some(left))
                    .build()
                    .send(body)
            }
            None => {
                let mut request = self.agent.get(url);
                for (name, value) in headers {
                    request = request.header(name, value);
                }
                request.config().timeout_global(Some(left)).build().call()
            }
        };
        response.map_err(|error| self.failed(&error))
    }

    /// Sends one request: a post if there is a body to send. It is over, to the last byte of the
    /// response, at `until`.
    pub(crate) fn send(
        &self,
        url: &str,
        body: Option<&[u8]>,
        until: Instant,
    ) -> Result<Response, Trouble> {
        let response = self.ask(url, body, until).or_else(|trouble| {
            // The other side may have closed a connection that was kept just as this was sent. That is no
            // failure of anybody.
            match trouble.class == Class::Connect && self.enough.is_used() {
                true => self.ask(url, body, until),
                false => Err(trouble),
            }
        })?;
        let status = response.status().as_u16();
        if matches!(status, 204 | 304) {
            // A body that does not belong to it may come late, and is not the next response.
            self.enough.leave();
        }
        let head = response.headers().clone();
        let kind = text(&head, "content-type")
            .unwrap_or_default()
            .to_lowercase();
        let response = Response {
            kind,
            body: response.into_body(),
        };
        if (200..300).contains(&status) {
            return Ok(response);
        }
        let page = response.is_page();
        let (message, detail) = response.error_text();
        let message = message.unwrap_or_else(|| format!("HTTP status {status}"));
        let wait = retry_after(&head, SystemTime::now()).or_else(|| retry_delay(&detail));
        let mut trouble = self.rejected(status, message, detail, wait);
        trouble.page = page;
        trouble.last |= text(&head, "x-should-retry") == Some("false");
        match (page, status) {
            (true, 404) => {
                Err(trouble.hint("check the base URL: that of an API often ends in /v1"))
            }
            _ => Err(trouble),
        }
    }

    /// What a status that is not a success comes to; also for one that hides in a good response.
    pub(crate) fn rejected(
        &self,
        status: u16,
        message: String,
        detail: String,
        wait: Option<Duration>,
    ) -> Trouble {
        let said = format!("{message} {detail}").to_lowercase();
        let any = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let class = match status {
            401 | 403 => Class::Auth,
            400 if any(&["api key not valid", "api_key_invalid", "invalid api key"]) => Class::Auth,
            402 => Class::Quota,
            429 if any(&["insufficient_quota", "perday", "per day", "credit balance"]) => {
                Class::Quota
            }
            429 if wait.is_none() && any(&["billing"]) => Class::Quota,
            429 => Class::RateLimit,
            413 => Class::Context,
            408 | 409 | 500.. => Class::Server,
            300..=399 => Class::Redirect,
            404 => Class::NotFound,
            _ if quirks::too_long(&said) => Class::Context,
            _ => Class::BadRequest,
        };
        let mut trouble = self.trouble(class, message);
        trouble.detail = detail;
        trouble.wait = wait;
        match class {
            Class::Redirect => {
                trouble.message =
                    format!("it points elsewhere (HTTP status {status}), which is not followed");
                trouble.hint("give the final address with --base-url")
            }
            Class::Quota => {
                trouble.hint("look at the account's plan and billing, or ask another model with -m")
            }
            Class::Context => trouble.hint("ask with less data, or a model that reads more"),
            _ => trouble,
        }
    }

    /// A read that broke off: the connection may hold the next time, a limit will not.
    pub(crate) fn failed(&self, error: &ureq::Error) -> Trouble {
        use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
        if interrupt::reason().is_some() {
            return Trouble::interrupted();
        }
        if let Some(fault) = Fault::of(error) {
            let hint = fault.hint;
            return self
                .trouble(Class::Connect, fault.to_string())
                .hint(hint)
                .last();
        }
        let running = "is the server running? check --base-url";
        match error {
            ureq::Error::Timeout(ureq::Timeout::Global) => self
                .trouble(
                    Class::Timeout,
                    "no complete reply in the time that is allowed",
                )
                .hint("allow more time with --timeout 10m")
                .last(),
            ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) => self
                .trouble(Class::Timeout, "no connection in time")
                .hint(running),
            ureq::Error::Timeout(_) => self
                .trouble(Class::Timeout, "nothing came for too long")
                .hint("allow more time with --first-byte-timeout and --idle-timeout"),
            ureq::Error::BodyExceedsLimit(limit) => self
                .trouble(
                    Class::Decode,
                    format!("the reply is larger than {limit} bytes"),
                )
                .last(),
            ureq::Error::Protocol(error) => self.trouble(Class::Connect, error.to_string()),
            ureq::Error::Io(error)
                if matches!(
                    error.kind(),
                    ConnectionReset | ConnectionAborted | BrokenPipe | UnexpectedEof
                ) =>
            {
                self.trouble(Class::Connect, error.to_string())
            }
            ureq::Error::Io(error)
                if error.kind() == std::io::ErrorKind::InvalidInput
                    || error.kind() == std::io::ErrorKind::InvalidData =>
            {
                self.trouble(Class::Decode, format!("the reply cannot be read: {error}"))
            }
            ureq::Error::Io(error) => self
                .trouble(Class::Connect, error.to_string())
                .hint(running)
                .last(),
            ureq::Error::Decompress(_, error) => self.trouble(
                Class::Decode,
                format!("the reply cannot be unpacked: {error}"),
            ),
            other => self
                .trouble(Class::Connect, other.to_string())
                .hint(running)
                .last(),
        }
    }

    /// The same within a body: what came of it is no reply.
    pub(crate) fn broken(&self, error: std::io::Error) -> Trouble {
        let mut trouble = self.failed(&error.into());
        if trouble.class == Class::Connect {
            trouble.class = Class::Decode;
        }
        trouble
    }

    /// A trouble of this kind, with the key taken out of its words.
    pub(crate) fn trouble(&self, class: Class, message: impl Into<String>) -> Trouble {
        Trouble {
            class,
            message: scrub(&message.into()).into_owned(),
            detail: String::new(),
            wait: None,
            hint: None,
            last: false,
            shown: false,
            page: false,
        }
    }

    /// The endpoint's last word, as far as a person reads it.
    pub(crate) fn error(&self, trouble: Trouble) -> Error {
        let Trouble {
            class,
            message,
            hint,
            ..
        } = trouble;
        let url = self.call.clone();
        // Whatever the trouble was, a signal since then is why nothing more is tried.
        match (interrupt::reason(), class) {
            (Some(reason), _) => reason.into(),
            (None, Class::Auth) => Error::Auth { url, message },
            (None, class) => {
                let usual = match class {
                    Class::NotFound => {
                        Some("check the model's name (-m) and the address (--base-url)")
                    }
                    Class::Server
                    | Class::RateLimit
                    | Class::Connect
                    | Class::Empty
                    | Class::Decode => Some("ask again later, or another model with -m"),
                    _ => None,
                };
                let hint = hint.or_else(|| usual.map(str::to_owned));
                Error::Endpoint {
                    class,
                    url,
                    message,
                    hint: hint.map(|hint| scrub(&hint).into_owned()),
                }
            }
        }
    }
}

impl Response {
    /// Whether the body is a web page.
    pub(crate) fn is_page(&self) -> bool {
        self.kind.contains("html")
    }

    /// The body as it comes, up to `limit` bytes.
    pub(crate) fn reader(self, limit: u64) -> impl Read {
        self.body.into_with_config().limit(limit).reader()
    }

    /// What a server says about its own failure, in any of the shapes that servers use, and all of it.
    fn error_text(self) -> (Option<String>, String) {
        let mut bytes = Vec::new();
        let read = self
            .reader(BODY_LIMIT)
            .take(ERROR_LIMIT)
            .read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let said = json::parse(&bytes).ok().as_ref().and_then(json::error_text);
        let said = said
            .or_else(|| Some(json::excerpt(&text)).filter(|line| !line.is_empty() && read.is_ok()));
        (said, text)
    }
}

fn text<'a>(head: &'a HeaderMap, name: &str) -> Option<&'a str> {
    head.get(name)?.to_str().ok().map(str::trim)
}

/// When a server wants to be asked again: in milliseconds, in seconds, or at a time of day.
/// What is no time to come is left out.
fn retry_after(head: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let number = |name: &str, unit: f64| {
        let number: f64 = text(head, name)?.parse().ok()?;
        Duration::try_from_secs_f64(number * unit).ok()
    };
    let date = || {
        let date = jiff::fmt::rfc2822::parse(text(head, "retry-after")?).ok()?;
        let at = Duration::from_millis(date.timestamp().as_millisecond().try_into().ok()?);
        at.checked_sub(now.duration_since(SystemTime::UNIX_EPOCH).ok()?)
    };
    number("retry-after-ms", 0.001)
        .or_else(|| number("retry-after", 1.0))
        .or_else(date)
}

/// The delay that Google's services put into the body of a refusal, such as `"3.5s"`.
fn retry_delay(body: &str) -> Option<Duration> {
    let body = json::parse(body.as_bytes()).ok()?;
    let body = body.get(0).unwrap_or(&body);
    let details = body["error"]["details"].as_array()?;
    let delay = details
        .iter()
        .find_map(|detail: &Value| detail["retryDelay"].as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_read_in_every_form() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(784_111_777);
        for (name, value, wanted) in [
            ("retry-after", "2", Some(2000)),
            ("retry-after", "0.5", Some(500)),
            ("retry-after-ms", "800", Some(800)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:47 GMT", Some(10_000)),
            ("retry-after", "Sun, 06 Nov 1994 08:49:27 GMT", None),
            ("retry-after", "-5", None),
            ("retry-after", "NaN", None),
            ("retry-after", "1e400", None),
            ("retry-after", "soon", None),
        ] {
            let mut head = HeaderMap::new();
            head.insert(name, value.parse().unwrap());
            let wait = retry_after(&head, now);
            assert_eq!(wait.map(|wait| wait.as_millis()), wanted, "{name}: {value}");
        }
        let body = r#"[{"error": {"details": [{}, {"retryDelay": "3.5s"}]}}]"#;
        assert_eq!(retry_delay(body), Some(Duration::from_millis(3500)));
    }
}
