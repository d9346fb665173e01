//! The wire formats: how a request is written and what a response says, one file each.
//!
//! A format is pure: it sends nothing, waits for nothing and decides nothing. Little is required of a
//! response; counters, ids and reasons may be missing or of an unknown kind.

mod anthropic;
mod gemini;
mod ollama;
mod openai;
pub(crate) mod sse;

use serde_json::{Value, json};

use super::quirks::Quirks;
use super::{Function, Options, Request};
use crate::json;
use crate::session::event::{Message, Role, Usage};

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// OpenAI's chat completions, which most servers speak.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Google's `generateContent`.
    Gemini,
    /// Ollama's own chat, which can be told how much context to keep.
    Ollama,
}

/// What a request is made of, besides its messages.
pub(crate) struct Settings<'a> {
    pub(crate) model: &'a str,
    pub(crate) stop: &'a [&'a str],
    pub(crate) options: &'a Options,
    pub(crate) quirks: &'a Quirks,
    pub(crate) functions: &'a [Function],
    pub(crate) schema: Option<&'a Value>,
}

/// What a whole response, or a piece of a streamed one, adds to the reply.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Whether it has the form of a reply at all.
    pub(crate) known: bool,
    /// Text of the reply; reasoning that comes apart from it is left out.
    pub(crate) text: String,
    /// Whether there was reasoning.
    pub(crate) reasoned: bool,
    /// Calls in the endpoint's own form, or pieces of them.
    pub(crate) calls: Vec<CallPiece>,
    /// Why the reply ended, in the endpoint's word.
    pub(crate) reason: Option<String>,
    /// What the endpoint says about that.
    pub(crate) because: Option<String>,
    /// The model's words where it refuses.
    pub(crate) refusal: Option<String>,
    /// Counters, as far as they are in it.
    pub(crate) usage: Usage,
    /// Nothing comes after it.
    pub(crate) over: bool,
}

/// A call, or a piece of one.
#[derive(Debug, Default)]
pub(crate) struct CallPiece {
    /// Which call it belongs to.
    pub(crate) index: usize,
    /// More of its id.
    pub(crate) id: String,
    /// More of its name.
    pub(crate) name: String,
    /// More of its arguments, which are JSON.
    pub(crate) args: String,
}

/// How a streamed response is cut into pieces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// A JSON object a line.
    Lines,
}

impl Wire {
    /// The path of a call under the base URL.
    pub(crate) fn path(self, model: &str, stream: bool) -> String {
        match (self, stream) {
            (Self::OpenAi, _) => "/chat/completions".to_owned(),
            (Self::Anthropic, _) => "/messages".to_owned(),
            (Self::Gemini, true) => format!("/models/{model}:streamGenerateContent?alt=sse"),
            (Self::Gemini, false) => format!("/models/{model}:generateContent"),
            (Self::Ollama, _) => "/api/chat".to_owned(),
        }
    }

    /// The path under which the models are listed.
    pub(crate) fn models_path(self) -> &'static str {
        match self {
            Self::OpenAi => "/models",
            Self::Anthropic => "/models?limit=1000",
            Self::Gemini => "/models?pageSize=1000",
            Self::Ollama => "/api/tags",
        }
    }

    /// The names in a list of models.
    pub(crate) fn models(self, body: &Value) -> Vec<String> {
        let list = match self {
            Self::OpenAi | Self::Anthropic => &body["data"],
            Self::Gemini | Self::Ollama => &body["models"],
        };
        let name = |model: &Value| {
            let name = model["id"].as_str().or_else(|| model["name"].as_str())?;
            Some(name.trim_start_matches("models/").to_owned())
        };
        list.as_array()
            .into_iter()
            .flatten()
            .filter_map(name)
            .collect()
    }

    /// The path that a base URL has when people leave it out.
    pub(crate) fn root(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Anthropic => "/v1",
            Self::Gemini => "/v1beta",
            Self::Ollama => "",
        }
    }

    /// What people write at the end of a base URL although it belongs to the call.
    pub(crate) fn tails(self) -> &'static [&'static str] {
        match self {
            Self::OpenAi => &["/chat/completions"],
            Self::Anthropic => &["/messages"],
            Self::Gemini => &["/models"],
            Self::Ollama => &["/api/chat", "/api", "/v1"],
        }
    }

    /// The header with the key, and what stands before the key in it.
    pub(crate) fn key_header(self) -> (&'static str, &'static str) {
        match self {
            Self::OpenAi | Self::Ollama => ("authorization", "Bearer "),
            Self::Anthropic => ("x-api-key", ""),
            Self::Gemini => ("x-goog-api-key", ""),
        }
    }

    /// Other headers that the format asks for.
    pub(crate) fn headers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Anthropic => &[("anthropic-version", "2023-06-01")],
            _ => &[],
        }
    }

    /// How a stream is cut into pieces.
    pub(crate) fn framing(self) -> Framing {
        match self {
            Self::Ollama => Framing::Lines,
            _ => Framing::Events,
        }
    }

    /// Whether a stream may end with the reason why the reply did; the others mark its end.
    pub(crate) fn ends_by_reason(self) -> bool {
        matches!(self, Self::OpenAi | Self::Gemini)
    }

    /// Whether neighbouring turns of one role have to be put together.
    pub(crate) fn alternates(self) -> bool {
        matches!(self, Self::Anthropic | Self::Gemini)
    }

    /// The body of a request but for its messages: an object, and the name under which the written
    /// messages join it.
    pub(crate) fn settings(
        self,
        settings: &Settings<'_>,
        messages: &[Message],
    ) -> (Value, &'static str) {
        match self {
            Self::OpenAi => (openai::settings(settings), "messages"),
            Self::Anthropic => (anthropic::settings(settings, messages), "messages"),
            Self::Gemini => (gemini::settings(settings, messages), "contents"),
            Self::Ollama => (ollama::settings(settings, messages), "messages"),
        }
    }

    /// A message as it is sent, or results of calls that belong together; none where it has its place
    /// elsewhere.
    fn messages(self, messages: &[Message]) -> Option<String> {
        let each = |write: fn(&Message) -> Value| {
            let written = messages.iter().map(|message| write(message).to_string());
            Some(written.collect::<Vec<_>>().join(","))
        };
        match self {
            Self::OpenAi => each(openai::message),
            Self::Ollama => each(ollama::message),
            Self::Anthropic => anthropic::message(messages),
            Self::Gemini => gemini::message(messages),
        }
    }

    /// Reads a whole response.
    pub(crate) fn whole(self, body: &Value) -> Said {
        match self {
            Self::OpenAi => openai::whole(body),
            Self::Anthropic => anthropic::whole(body),
            Self::Gemini => Said {
                over: true,
                ..gemini::read(body)
            },
            Self::Ollama => ollama::read(body),
        }
    }

    /// Reads a piece of a streamed response.
    pub(crate) fn piece(self, piece: &Value) -> Said {
        match self {
            Self::OpenAi => openai::piece(piece),
            Self::Anthropic => anthropic::piece(piece),
            Self::Gemini => gemini::read(piece),
            Self::Ollama => ollama::read(piece),
        }
    }
}

/// Messages as they were sent last and how they were written: those sent before are not written again.
#[derive(Debug, Default)]
pub(crate) struct Written {
    sent: Vec<Message>,
    text: String,
}

impl Written {
    /// The body of a request. `settings` is an object to which the messages are added.
    pub(crate) fn body(
        &mut self,
        wire: Wire,
        messages: &[Message],
        settings: &Settings<'_>,
    ) -> Vec<u8> {
        if !messages.starts_with(&self.sent) {
            *self = Self::default();
        }
        let result = |message: &Message| message.role == Role::Tool;
        let new = &messages[self.sent.len()..];
        for together in new.chunk_by(|one, next| result(one) && result(next)) {
            if let Some(written) = wire.messages(together) {
                self.text
                    .push_str(if self.text.is_empty() { "" } else { "," });
                self.text.push_str(&written);
            }
        }
        self.sent.extend_from_slice(new);
        let (settings, name) = wire.settings(settings, messages);
        let settings = settings.to_string();
        let settings = settings.strip_suffix('}').unwrap_or_default();
        let comma = if settings == "{" { "" } else { "," };
        format!("{settings}{comma}\"{name}\":[{}]}}", self.text).into_bytes()
    }
}

/// The instructions among messages, for formats that send them apart.
fn instructions(messages: &[Message]) -> String {
    let system = messages
        .iter()
        .filter(|message| message.role == Role::System);
    system
        .map(|message| message.content.as_str())
        .collect::<Vec<_>>()
        .join("\n\n")
}

/// Arguments as an object, for formats that want one; what is none is sent as no arguments.
fn object(args: &str) -> Value {
    let args = json::parse(args.as_bytes()).ok();
    args.filter(Value::is_object).unwrap_or_else(|| json!({}))
}

/// A counter: numbers are written in more than one way.
fn count(value: &Value) -> Option<u64> {
    let whole = |number: f64| (0.0..1e15).contains(&number).then_some(number as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

fn text_at(value: &Value, key: &str) -> Option<String> {
    value[key]
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

/// The size of a request in tokens, about: three bytes each, which is more than most texts have.
pub(crate) fn tokens(request: &Request<'_>) -> usize {
    request
        .messages
        .iter()
        .map(|message| message.content.len() / 3 + 8)
        .sum()
}
