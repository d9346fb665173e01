//! The OpenAI chat completions format, which most servers speak.
//!
//! Source: <https://platform.openai.com/docs/api-reference/chat>. Little is required of a response:
//! a choice with text in it. Counters, ids and reasons may be missing or of an unknown kind.

use std::io::BufReader;
use std::ops::ControlFlow;

use serde_json::{Value, json};

use super::http::{self, Client, Response, Trouble};
use super::{Endpoint, Finish, Listener, Llm, Options, Reply, Request, sse};
use crate::error::Result;
use crate::session::event::Usage;

/// Where a streamed reply is cut, as one that reached its limit.
const TEXT_LIMIT: usize = 1 << 20;
/// How much a stream may hold in all; it is read in pieces.
const STREAM_LIMIT: u64 = 64 << 20;

/// A model behind an OpenAI-compatible endpoint.
pub(crate) struct OpenAi {
    endpoint: Endpoint,
    options: Options,
    client: Client,
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
        })
    }

    fn body(&self, request: &Request<'_>) -> Vec<u8> {
        let mut body = json!({
            "model": self.endpoint.model,
            "messages": request.messages,
            "stream": self.options.stream,
        });
        if !request.stop.is_empty() {
            body["stop"] = json!(request.stop);
        }
        if let Some(temperature) = self.options.temperature {
            body["temperature"] = json!(temperature);
        }
        if let Some(tokens) = self.options.max_tokens {
            body["max_tokens"] = json!(tokens);
        }
        if self.options.stream {
            body["stream_options"] = json!({ "include_usage": true });
        }
        body.to_string().into_bytes()
    }

    /// A failure that the server wrote into a good response.
    fn hidden_error(&self, body: &Value) -> Option<Trouble> {
        let error = body.get("error").filter(|error| !error.is_null())?;
        let message = http::error_text(error).unwrap_or_else(|| error.to_string());
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
        let text = self.client.scrub(text(&choice["message"]["content"]));
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
            let keys: Vec<&String> = body
                .as_object()
                .map(|map| map.keys().collect())
                .unwrap_or_default();
            return Err(Trouble::Hollow(format!(
                "the reply has no choices, only {keys:?}"
            )));
        }
        let _ = listener.hear(&text);
        Ok(Reply {
            text,
            usage: usage(&body["usage"]),
            finish: finish(&choice["finish_reason"]),
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
        let (mut done, mut finished) = (false, false);
        let mut trouble = None;
        let events = BufReader::new(response.reader(STREAM_LIMIT));
        let read = sse::each(events, |data| {
            // Read on to the end of the body: a connection with a rest in it cannot be used again.
            if done || data.trim() == "[DONE]" {
                done = true;
                return ControlFlow::Continue(());
            }
            let Ok(chunk) = crate::json::parse(data.as_bytes()) else {
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
            let piece = self.client.scrub(text(&choice["delta"]["content"]));
            if piece.is_empty() {
                return ControlFlow::Continue(());
            }
            reply.text.push_str(&piece);
            if reply.text.len() > TEXT_LIMIT {
                reply.finish = Finish::Length;
                done = true;
                return ControlFlow::Break(());
            }
            let wanted = listener.hear(&piece);
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
        self.client.post(&self.body(request), |response| {
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
