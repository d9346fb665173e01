//! A model behind an endpoint: requests in a wire format, sent until there is a reply or a reason why
//! there is none.
//!
//! Retries follow `Retry-After` and otherwise wait a random time that doubles. A refusal that is about
//! one parameter is answered by leaving it out ([`super::quirks`]). After a person has seen a part of
//! a reply nothing is sent again in silence.

mod response;

use std::io::Read;
use std::time::{Duration, Instant};

use super::http::{BODY_LIMIT, Client, Trouble};
use super::quirks::Quirks;
use super::wire::{Settings, Written};
use super::{Endpoint, Listener, Llm, Options, Reply, Request, about, window};
use crate::error::{Class, Error, Result};
use crate::interrupt;
use crate::json;

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
            functions: request.functions,
            schema: request.schema,
        };
        let native = !request.functions.is_empty();
        let messages = self.quirks.shape(request.messages, wire.alternates());
        let body = self.written.body(wire, &messages, &settings);
        let size = messages.iter().map(|message| about(&message.content)).sum();
        self.fits(size)?;
        let url = self.endpoint.url(self.options.stream);
        let (mut attempt, mut hollow) = (0, false);
        loop {
            let begun = Instant::now();
            let reply = self.client.send(&url, Some(&body), until);
            let reply = reply.and_then(|response| self.read(response, native, listener));
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
                _ if !again || trouble.last || interrupt::reason().is_some() => false,
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
            let mut trouble = match self.attempts(request, until, listener) {
                Ok(reply) => return Ok(reply),
                Err(trouble) => trouble,
            };
            if !request.functions.is_empty() && is_about_functions(&trouble) {
                trouble.class = Class::Functions;
                return Err(self.ended(trouble));
            }
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

/// Whether an endpoint, or the model behind it, refuses to be offered functions.
fn is_about_functions(trouble: &Trouble) -> bool {
    let said = format!("{} {}", trouble.message, trouble.detail).to_lowercase();
    let refused = matches!(
        trouble.class,
        Class::BadRequest | Class::NotFound | Class::Server
    );
    refused
        && ["tool", "function call", "functions"]
            .iter()
            .any(|word| said.contains(word))
}

/// How long to wait before the next try: any time up to half a second, doubled with each try.
/// By chance, so that many clients do not come back at once.
fn pause(attempt: u32) -> Duration {
    use std::hash::{BuildHasher, RandomState};
    let longest = (500_u64 << attempt.min(4)).min(8000);
    Duration::from_millis(RandomState::new().hash_one(attempt) % longest)
}
