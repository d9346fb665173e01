//! The OpenAI chat completions format, which most servers speak.
//!
//! Source: <https://platform.openai.com/docs/api-reference/chat>. Little is required of a response:
//! a choice with text in it. Counters, ids and reasons may be missing or of an unknown kind.

use std::io::BufReader;
use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::Value;

use super::http::{Client, Response, Trouble};
use super::{Endpoint, Finish, Listener, Llm, Options, Reply, Request, sse};
use crate::error::{Error, Result};
use crate::json;
use crate::session::event::{Message, Usage};

/// Where a streamed reply is cut, as one that reached its limit.
const TEXT_LIMIT: usize = 1 << 20;
/// How much a stream may hold in all; it is read in pieces.
const STREAM_LIMIT: u64 = 64 << 20;

/// A model behind an OpenAI-compatible endpoint.
pub(crate) struct OpenAi {
    endpoint: Endpoint,
    options: Options,
    client: Client,
    /// The messages that were sent last, and how they were written.
    sent: Vec<Message>,
    written: String,
    /// What the endpoint does not take, as far as it is known.
    refused: Vec<&'static str>,
}

/// A request but for its messages. What is not set is left to the endpoint.
#[derive(Serialize)]
struct Settings<'a> {
    model: &'a str,
    stream: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stop: &'a [&'a str],
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

impl OpenAi {
    /// Nothing is sent yet.
    pub(crate) fn new(endpoint: Endpoint, options: Options) -> Result<Self> {
        let url = format!("{}/chat/completions", endpoint.base_url);
        let client = Client::new(url, endpoint.key.clone(), options.timeout, options.retries);
        Ok(Self {
            endpoint,
            options,
            client,
            sent: Vec::new(),
            written: String::new(),
            refused: Vec::new(),
        })
    }

    /// The request's body. Messages that were sent before are not written out again.
    fn body(&mut self, request: &Request<'_>) -> Vec<u8> {
        if !request.messages.starts_with(&self.sent) {
            self.sent.clear();
            self.written.clear();
        }
        for message in &request.messages[self.sent.len()..] {
            self.written
                .push_str(if self.sent.is_empty() { "" } else { "," });
            // Texts only: there is nothing in it that JSON could refuse.
            self.written
                .push_str(&serde_json::to_string(message).unwrap_or_default());
            self.sent.push(message.clone());
        }
        let settings = Settings {
            model: &self.endpoint.model,
            stream: self.options.stream,
            stop: if self.takes("stop") {
                request.stop
            } else {
                &[]
            },
            temperature: self
                .options
                .temperature
                .filter(|_| self.takes("temperature")),
            max_tokens: self.options.max_tokens,
            stream_options: self.options.stream.then_some(StreamOptions {
                include_usage: true,
            }),
        };
        let settings = serde_json::to_string(&settings).unwrap_or_default();
        let settings = settings.strip_suffix('}').unwrap_or_default();
        format!("{settings},\"messages\":[{}]}}", self.written).into_bytes()
    }

    fn takes(&self, name: &str) -> bool {
        !self.refused.contains(&name)
    }

    fn exchange(&mut self, request: &Request<'_>, listener: &mut dyn Listener) -> Result<Reply> {
        let body = self.body(request);
        self.client.post(&body, |response| {
            let read = match response.streams {
                true => self.streamed(response, listener),
                false => self.whole(response, listener),
            };
            match read {
                Err(Trouble::Passing { message, .. } | Trouble::Hollow(message))
                    if !listener.again() =>
                {
                    Err(Trouble::Final(
                        self.client.refused(message, Some("ask again")),
                    ))
                }
                other => other,
            }
        })
    }

    /// A failure that the server wrote into a good response.
    fn hidden_error(&self, body: &Value) -> Option<Trouble> {
        let empty = |error: &&Value| {
            matches!(error, Value::Null | Value::Bool(false) | Value::Number(_)) || *error == ""
        };
        let error = body.get("error").filter(|error| !empty(error))?;
        let message = json::error_text(error).unwrap_or_else(|| json::excerpt(&error.to_string()));
        let status = error
            .get("code")
            .and_then(Value::as_u64)
            .and_then(|code| code.try_into().ok());
        Some(self.client.rejected(status.unwrap_or(400), message, None))
    }

    fn whole(
        &self,
        response: Response,
        listener: &mut dyn Listener,
    ) -> std::result::Result<Reply, Trouble> {
        let body = response.json(&self.client)?;
        if let Some(trouble) = self.hidden_error(&body) {
            return Err(trouble);
        }
        let choice = &body["choices"][0];
        let mut text = self.client.scrub(text(&choice["message"]["content"]));
        if let Some(refusal) = choice["message"]["refusal"]
            .as_str()
            .filter(|_| text.is_empty())
        {
            return Err(Trouble::Final(
                self.client
                    .refused(format!("the model refuses: {refusal}"), None),
            ));
        }
        if choice.is_null() {
            let message = "the reply has no choices".to_owned();
            return Err(Trouble::Hollow(message));
        }
        let mut finish = finish(&choice["finish_reason"]);
        if text.len() > TEXT_LIMIT {
            text.truncate(text.floor_char_boundary(TEXT_LIMIT));
            finish = Finish::Length;
        }
        let _ = listener.hear(&text);
        Ok(Reply {
            text,
            usage: usage(&body["usage"]),
            finish,
        })
    }

    fn streamed(
        &self,
        response: Response,
        listener: &mut dyn Listener,
    ) -> std::result::Result<Reply, Trouble> {
        let mut reply = Reply {
            text: String::new(),
            usage: Usage::default(),
            finish: Finish::Other,
        };
        let (mut done, mut finished, mut heard) = (false, false, 0);
        let mut trouble = None;
        let events = BufReader::new(response.reader(STREAM_LIMIT));
        let read = sse::each(events, |data| {
            // Read on to the end of the body: a connection with a rest in it cannot be used again.
            if done || data.trim() == "[DONE]" {
                done = true;
                return ControlFlow::Continue(());
            }
            let Ok(chunk) = json::parse(data.as_bytes()) else {
                trouble = Some(Trouble::Hollow(
                    "a piece of the stream is not JSON".to_owned(),
                ));
                return ControlFlow::Break(());
            };
            trouble = self.hidden_error(&chunk);
            if trouble.is_some() {
                return ControlFlow::Break(());
            }
            if chunk["usage"].is_object() {
                reply.usage = usage(&chunk["usage"]);
            }
            let choice = &chunk["choices"][0];
            if !choice["finish_reason"].is_null() {
                finished = true;
                reply.finish = finish(&choice["finish_reason"]);
            }
            reply.text.push_str(&text(&choice["delta"]["content"]));
            if reply.text.len() > TEXT_LIMIT {
                reply.finish = Finish::Length;
                done = true;
                return ControlFlow::Break(());
            }
            // What may be the beginning of the key waits for what comes after it.
            let sure = reply.text.len() - self.client.begun(&reply.text);
            if sure <= heard {
                return ControlFlow::Continue(());
            }
            let wanted = listener.hear(&self.client.scrub(reply.text[heard..sure].to_owned()));
            heard = sure;
            done |= wanted.is_break();
            wanted
        });
        match (trouble, read) {
            (Some(trouble), _) => Err(trouble),
            (None, Err(error)) if !done && !finished => Err(self.client.failed(&error.into())),
            (None, Ok(_)) if !done && !finished => Err(Trouble::Passing {
                message: "the stream broke off before its end".to_owned(),
                wait: None,
            }),
            _ => {
                let _ = listener.hear(&self.client.scrub(reply.text[heard..].to_owned()));
                reply.text = self.client.scrub(reply.text);
                Ok(reply)
            }
        }
    }
}

impl Llm for OpenAi {
    fn name(&self) -> &str {
        &self.endpoint.name
    }

    fn ask(&mut self, request: &Request<'_>, listener: &mut dyn Listener) -> Result<Reply> {
        loop {
            let reply = self.exchange(request, listener);
            let Err(Error::Endpoint { message, .. }) = &reply else {
                return reply;
            };
            // Some models take neither; what stop texts are for is cut off here in any case.
            let refused = ["stop", "temperature"]
                .into_iter()
                .find(|name| is_refused(name, message));
            match refused.filter(|name| self.takes(name)) {
                Some(name) => self.refused.push(name),
                None => return reply,
            }
        }
    }
}

/// Whether a server says that it does not take a parameter.
fn is_refused(name: &str, message: &str) -> bool {
    let message = message.to_lowercase();
    let named = [
        format!("'{name}'"),
        format!("\"{name}\""),
        format!("`{name}`"),
        format!(": {name}"),
    ];
    let refused = [
        "unsupported",
        "not supported",
        "unrecognized",
        "not permitted",
        "unknown",
    ];
    named.iter().any(|word| message.contains(word))
        && refused.iter().any(|word| message.contains(word))
}

/// The text of a message: as it is, or the text parts of a list put together.
fn text(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter_map(|part| part["text"].as_str())
            .collect(),
        _ => String::new(),
    }
}

fn finish(reason: &Value) -> Finish {
    reason.as_str().map_or(Finish::Other, Finish::from_reason)
}

fn usage(counters: &Value) -> Usage {
    Usage {
        input_tokens: counters["prompt_tokens"].as_u64(),
        output_tokens: counters["completion_tokens"].as_u64(),
    }
}
