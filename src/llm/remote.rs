//! A model behind an endpoint: requests in a wire format, sent until there is a reply or a reason why
//! there is none.
//!
//! Retries follow `Retry-After` and otherwise wait a random time that doubles. A refusal that is about
//! one parameter is answered by leaving it out ([`super::quirks`]). After a person has seen a part of
//! a reply nothing is sent again in silence.

use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::draft::{Draft, TEXT_LIMIT, written_out};
use super::http::{BODY_LIMIT, Client, Response, Trouble};
use super::quirks::Quirks;
use super::wire::{Framing, Settings, Wire, Written, sse};
use super::{Endpoint, Finish, Listener, Llm, Options, Reply, Request, about, window};
use crate::error::{Class, Error, Result};
use crate::interrupt;
use crate::json;
use crate::secret;

/// How much a stream may hold in all; it is read in pieces.
const STREAM_LIMIT: u64 = 64 << 20;
/// The longest wait that a server may ask for before the next try.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// How long listing the models may take, to help with an unknown one.
const LISTING: Duration = Duration::from_secs(5);
/// A conversation of fewer tokens is sent to any server unasked.
const SMALL: u64 = 3000;
/// Room for a reply, in tokens.
const ROOM: u64 = 256;

/// A model behind an endpoint.
pub(crate) struct Remote {
    endpoint: Endpoint,
    options: Options,
    client: Client,
    written: Written,
    quirks: Quirks,
    /// How much the model reads at once, once it has been asked for.
    window: Option<Option<u64>>,
}

impl Remote {
    /// Nothing is sent yet.
    pub(crate) fn new(endpoint: Endpoint, options: Options) -> Self {
        let client = Client::new(&endpoint, &options);
        Self {
            endpoint,
            options,
            client,
            written: Written::default(),
            quirks: Quirks::default(),
            window: None,
        }
    }

    /// Sends one request as often as it takes.
    fn attempts(
        &mut self,
        request: &Request<'_>,
        until: Instant,
        listener: &mut dyn Listener,
    ) -> std::result::Result<Reply, Trouble> {
        let wire = self.endpoint.wire;
        let settings = Settings {
            model: &self.endpoint.model,
            stop: request.stop,
            options: &self.options,
            quirks: &self.quirks,
        };
        let messages = self.quirks.shape(request.messages, wire.alternates());
        let body = self.written.body(wire, &messages, &settings);
        let size = messages.iter().map(|message| about(&message.content)).sum();
        self.fits(size)?;
        let url = self.endpoint.url(self.options.stream);
        let (mut attempt, mut hollow) = (0, false);
        loop {
            let begun = Instant::now();
            let reply = self.client.send(&url, Some(&body), until);
            let reply = reply.and_then(|response| self.read(response, listener));
            if self.options.verbose {
                let came = reply
                    .as_ref()
                    .map_or_else(|trouble| &trouble.message, |reply| &reply.text);
                listener.note(&format!(
                    "{} bytes to {url}; after {:?}: {came}",
                    body.len(),
                    begun.elapsed()
                ));
            }
            let mut trouble = match reply {
                Ok(reply) => return Ok(reply),
                Err(trouble) => trouble,
            };
            // Asked in any case: the listener drops what it has heard.
            let again = listener.again();
            let more = match trouble.class {
                _ if !again || trouble.last || interrupt::signal().is_some() => false,
                Class::Empty | Class::Decode => !std::mem::replace(&mut hollow, true),
                class => class.passes(),
            };
            let wait = trouble.wait.unwrap_or_else(|| pause(attempt));
            let left = until.saturating_duration_since(Instant::now());
            if !again {
                trouble.shown = true;
            }
            if !more || attempt >= self.options.retries || wait > LONGEST_WAIT.min(left) {
                return Err(trouble);
            }
            attempt += 1;
            listener.failed(
                &format!("{} (attempt {attempt})", self.endpoint.name),
                &trouble.message,
                begun.elapsed(),
            );
            if interrupt::sleep(wait).is_err() {
                return Err(trouble);
            }
        }
    }

    /// A server that cuts what is too long for it cuts the instructions first: so it is asked how much
    /// it reads before it is sent much.
    fn fits(&mut self, size: u64) -> std::result::Result<(), Trouble> {
        if size < SMALL || !window::is_cut_silently(&self.endpoint) {
            return Ok(());
        }
        let ask = || window::ask(&self.client, &self.endpoint);
        match *self.window.get_or_insert_with(ask) {
            Some(window) if size + ROOM > window => {
                let message = format!(
                    "the conversation has at least {size} tokens, but the context window of the server is {window}"
                );
                Err(self.client.trouble(Class::Context, message).last().hint(
                    "ask with less data, or give the server more context (OLLAMA_CONTEXT_LENGTH=16384, or in the settings of LM Studio)",
                ))
            }
            _ => Ok(()),
        }
    }

    /// Reads a response, whatever its form: whole, or streamed.
    fn read(
        &self,
        response: Response,
        listener: &mut dyn Listener,
    ) -> std::result::Result<Reply, Trouble> {
        let (kind, page) = (response.kind.clone(), response.is_page());
        let mut reader = BufReader::new(response.reader(STREAM_LIMIT));
        let head = reader
            .fill_buf()
            .map_err(|error| self.client.broken(error))?;
        let start = head.trim_ascii_start();
        let events = kind.contains("event-stream")
            || ["data:", "event:", ":", "id:"]
                .iter()
                .any(|field| start.starts_with(field.as_bytes()));
        let draft = if events {
            self.streamed(reader, Framing::Events, listener)?
        } else if kind.contains("ndjson")
            || self.options.stream && self.endpoint.wire.framing() == Framing::Lines
        {
            self.streamed(reader, Framing::Lines, listener)?
        } else {
            self.whole(reader, page, listener)?
        };
        let unheard = draft.text.trim().is_empty();
        let reply = self.reply(draft)?;
        if unheard {
            let _ = listener.hear(&reply.text);
        }
        Ok(reply)
    }

    fn whole(
        &self,
        reader: impl BufRead,
        page: bool,
        listener: &mut dyn Listener,
    ) -> std::result::Result<Draft, Trouble> {
        let mut bytes = Vec::new();
        let read = reader.take(BODY_LIMIT + 1).read_to_end(&mut bytes);
        read.map_err(|error| self.client.broken(error))?;
        if bytes.len() as u64 > BODY_LIMIT {
            return Err(self
                .client
                .trouble(
                    Class::Decode,
                    format!("the reply is larger than {BODY_LIMIT} bytes"),
                )
                .last());
        }
        let body = json::parse(&bytes).map_err(|why| match page {
            true => self
                .client
                .trouble(Class::Decode, "a web page came instead of a reply")
                .hint("the base URL of an API often ends in /v1")
                .last(),
            false => self
                .client
                .trouble(Class::Decode, format!("the reply is not JSON: {why}")),
        })?;
        let mut draft = Draft::default();
        let said = self.endpoint.wire.whole(&body);
        if let Some(trouble) = self.hidden(&body, said.known) {
            return Err(trouble);
        }
        draft.add(said);
        if !draft.over {
            return Err(self.client.trouble(Class::Decode, "the reply is not whole"));
        }
        draft.text = secret::scrub(&draft.text).into_owned();
        if draft.text.len() > TEXT_LIMIT {
            draft
                .text
                .truncate(draft.text.floor_char_boundary(TEXT_LIMIT));
            draft.reason = Some("length".to_owned());
        }
        let _ = listener.hear(&draft.text);
        Ok(draft)
    }

    fn streamed(
        &self,
        reader: impl BufRead,
        framing: Framing,
        listener: &mut dyn Listener,
    ) -> std::result::Result<Draft, Trouble> {
        let wire = self.endpoint.wire;
        let mut draft = Draft::default();
        let ended = |draft: &Draft| draft.over || draft.reason.is_some() && wire.ends_by_reason();
        let (mut done, mut heard) = (false, 0);
        let mut trouble = None;
        let take = |data: &str| {
            // Read on to the end of the body: a connection with a rest in it cannot be used again.
            if done || data.trim() == "[DONE]" {
                done = true;
                self.client.enough.say();
                return ControlFlow::Continue(());
            }
            let Ok(piece) = json::parse(data.as_bytes()) else {
                let what = "a piece of the stream is not JSON";
                trouble = Some(self.client.trouble(Class::Decode, what));
                return ControlFlow::Break(());
            };
            let said = wire.piece(&piece);
            trouble = self.hidden(&piece, said.known);
            if trouble.is_some() {
                return ControlFlow::Break(());
            }
            draft.add(said);
            done |= draft.over;
            if ended(&draft) {
                self.client.enough.say();
            }
            if draft.text.len() > TEXT_LIMIT {
                draft.reason = Some("length".to_owned());
                done = true;
                return ControlFlow::Break(());
            }
            // What may be the beginning of the key waits for what comes after it.
            let sure = draft.text.len() - secret::begun(&draft.text);
            if sure <= heard {
                return ControlFlow::Continue(());
            }
            let wanted = listener.hear(&secret::scrub(&draft.text[heard..sure]));
            heard = sure;
            done |= wanted.is_break();
            wanted
        };
        let read = match framing {
            Framing::Events => sse::events(reader, take),
            Framing::Lines => sse::lines(reader, take),
        };
        let whole = done || ended(&draft);
        match (trouble, read) {
            (Some(trouble), _) => return Err(trouble),
            (None, Err(error)) if !whole => return Err(self.client.broken(error)),
            (None, Ok(())) if !whole => {
                return Err(self
                    .client
                    .trouble(Class::Decode, "the stream broke off before its end"));
            }
            _ => {}
        }
        if let Some(signal) = interrupt::signal().filter(|_| !done) {
            return Err(Trouble::interrupted(signal));
        }
        let _ = listener.hear(&secret::scrub(&draft.text[heard..]));
        draft.text = secret::scrub(&draft.text).into_owned();
        Ok(draft)
    }

    /// A failure that the server wrote into a good response.
    fn hidden(&self, body: &Value, known: bool) -> Option<Trouble> {
        let empty = |error: &&Value| {
            matches!(error, Value::Null | Value::Bool(false) | Value::Number(_)) || **error == ""
        };
        let body = match body {
            Value::Array(items) => items.first()?,
            body => body,
        };
        if let Some(error) = body.get("error").filter(|error| !empty(error)) {
            let message =
                json::error_text(error).unwrap_or_else(|| json::excerpt(&error.to_string()));
            let code = &error["code"];
            let status = code.as_u64().or_else(|| code.as_str()?.parse().ok());
            let status = status
                .and_then(|status| status.try_into().ok())
                .filter(|status| (400..600).contains(status));
            let kind = error["type"].as_str().unwrap_or_default();
            let refused = [
                "invalid_request",
                "not_found",
                "authentication",
                "permission",
            ]
            .iter()
            .any(|word| kind.contains(word));
            return Some(self.client.rejected(
                status.unwrap_or(if refused { 400 } else { 500 }),
                message,
                body.to_string(),
                None,
            ));
        }
        let said = || {
            json::error_text(body).map(|said| self.client.trouble(Class::BadRequest, said).last())
        };
        if known { None } else { said() }
    }

    /// What a reply that is whole comes to.
    fn reply(&self, draft: Draft) -> std::result::Result<Reply, Trouble> {
        let reason = draft.reason.as_deref().unwrap_or_default();
        let lower = reason.to_lowercase();
        let because = draft.because.as_deref().map_or(String::new(), |because| {
            format!(": {}", json::excerpt(because))
        });
        let told = |class, message: String| Err(self.client.trouble(class, message).last());
        match lower.as_str() {
            "refusal" => {
                return told(
                    Class::Refusal,
                    format!("the model refuses to answer{because}"),
                );
            }
            "content_filter" | "sensitive" | "safety" | "recitation" | "blocklist"
            | "prohibited_content" | "spii" | "image_safety" => {
                return told(
                    Class::Blocked,
                    format!("the reply was withheld ({reason}){because}"),
                );
            }
            "network_error" | "error" | "insufficient_system_resource" => {
                return Err(self.client.trouble(
                    Class::Server,
                    format!("the reply broke off ({reason}){because}"),
                ));
            }
            _ => {}
        }
        let finish = draft
            .reason
            .as_deref()
            .map_or(Finish::Other, Finish::from_reason);
        let mut text = draft.text;
        if text.trim().is_empty() {
            if !draft.refusal.is_empty() {
                return told(
                    Class::Refusal,
                    format!("the model refuses: {}", json::excerpt(&draft.refusal)),
                );
            }
            if let Some(call) = draft.calls.iter().find(|call| !call.name.is_empty()) {
                text = written_out(call);
            } else if lower.contains("block")
                || lower == "other" && self.endpoint.wire == Wire::Gemini
            {
                return told(
                    Class::Blocked,
                    format!("the reply was withheld ({reason}){because}"),
                );
            } else if finish == Finish::Length {
                let hint = "allow a longer reply with --max-tokens 8192";
                let what = "the longest reply was reached before there was any text of it";
                return Err(self.client.trouble(Class::Length, what).hint(hint).last());
            } else {
                let what = match (draft.reasoned, reason) {
                    (true, _) => "the reply holds reasoning only".to_owned(),
                    (false, "") => "the reply is empty".to_owned(),
                    (false, reason) => format!("the reply is empty ({reason}){because}"),
                };
                return Err(self.client.trouble(Class::Empty, what));
            }
        }
        Ok(Reply {
            text,
            usage: draft.usage,
            finish,
        })
    }

    /// The error that a trouble ends a query with.
    fn ended(&self, trouble: Trouble) -> Error {
        let mut trouble = trouble;
        if trouble.class == Class::NotFound && !trouble.page && trouble.hint.is_none() {
            trouble.hint = self.models_near();
        }
        self.client.error(trouble)
    }

    /// The models that the endpoint has, nearest name first, where one is unknown there.
    fn models_near(&self) -> Option<String> {
        let names = self.list(LISTING).ok()?;
        let near = nearest_first(&self.endpoint.model, names);
        (!near.is_empty()).then(|| format!("the endpoint has: {}", near.join(", ")))
    }

    fn list(&self, limit: Duration) -> std::result::Result<Vec<String>, Trouble> {
        let wire = self.endpoint.wire;
        let url = format!("{}{}", self.endpoint.base_url, wire.models_path());
        let response = self.client.send(&url, None, Instant::now() + limit)?;
        let mut bytes = Vec::new();
        let read = response.reader(BODY_LIMIT).read_to_end(&mut bytes);
        read.map_err(|error| self.client.broken(error))?;
        let body = json::parse(&bytes).map_err(|why| {
            self.client.trouble(
                Class::Decode,
                format!("the list of models is not JSON: {why}"),
            )
        })?;
        Ok(wire.models(&body))
    }
}

/// The few names that are nearest to one that is unknown.
fn nearest_first(name: &str, mut names: Vec<String>) -> Vec<String> {
    const SHOWN: usize = 8;
    let near = |other: &String| (strsim::jaro_winkler(name, other) * -1000.0) as i64;
    names.sort_by_cached_key(near);
    names.truncate(SHOWN);
    names
}

impl Llm for Remote {
    fn name(&self) -> &str {
        &self.endpoint.name
    }

    fn ask(&mut self, request: &Request<'_>, listener: &mut dyn Listener) -> Result<Reply> {
        let until = Instant::now() + self.options.timeout;
        loop {
            let trouble = match self.attempts(request, until, listener) {
                Ok(reply) => return Ok(reply),
                Err(trouble) => trouble,
            };
            let about = !trouble.shown
                && matches!(
                    trouble.class,
                    Class::BadRequest | Class::Context | Class::NotFound
                );
            let changed = about
                .then(|| {
                    self.quirks
                        .learn(&format!("{} {}", trouble.message, trouble.detail))
                })
                .flatten();
            match changed {
                Some(what) => listener.note(what),
                None => return Err(self.ended(trouble)),
            }
        }
    }

    fn models(&self) -> Result<Vec<String>> {
        self.list(self.options.timeout)
            .map_err(|trouble| self.client.error(trouble))
    }

    fn window(&self) -> Option<u64> {
        window::ask(&self.client, &self.endpoint)
    }
}

/// How long to wait before the next try: any time up to half a second, doubled with each try.
/// By chance, so that many clients do not come back at once.
fn pause(attempt: u32) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let longest = (500_u64 << attempt.min(4)).min(8000);
    Duration::from_millis(RandomState::new().hash_one(attempt) % longest)
}
