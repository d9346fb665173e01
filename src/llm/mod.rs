//! A language model: messages in, one reply out.
//!
//! Which one answers to a name is decided in [`resolve`], from a table. An endpoint is asked by
//! `remote`, in one of the [`wire`] formats, over a connection that can be interrupted; `demo` needs
//! none of these.

pub(crate) mod address;
mod demo;
mod draft;
pub(crate) mod http;
pub mod provider;
mod quirks;
mod remote;
pub mod resolve;
pub mod scripted;
mod window;
pub mod wire;

use std::ops::ControlFlow;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Result;
use crate::secret::Secret;
use crate::session::event::{Message, ToolCall, Usage};
use wire::Wire;

/// A language model that can be asked.
pub trait Llm {
    /// The name that people know it by, such as `openai/gpt-4o-mini` or `demo`.
    fn name(&self) -> &str;

    /// Asks for the next reply. The listener hears the text as it streams, or once and whole;
    /// when it breaks off, the stream is closed and what came so far is the reply.
    fn ask(&mut self, request: &Request<'_>, listener: &mut dyn Listener) -> Result<Reply>;

    /// The models that can be asked where this one is.
    fn models(&self) -> Result<Vec<String>> {
        Ok(vec![self.name().to_owned()])
    }

    /// How many tokens it reads at once, if its endpoint says so.
    fn window(&self) -> Option<u64> {
        None
    }
}

impl<L: Llm + ?Sized> Llm for Box<L> {
    fn name(&self) -> &str {
        (**self).name()
    }

    fn ask(&mut self, request: &Request<'_>, listener: &mut dyn Listener) -> Result<Reply> {
        (**self).ask(request, listener)
    }

    fn models(&self) -> Result<Vec<String>> {
        (**self).models()
    }

    fn window(&self) -> Option<u64> {
        (**self).window()
    }
}

/// Hears a reply while it comes.
pub trait Listener {
    /// Takes the next piece; says whether more is wanted.
    fn hear(&mut self, piece: &str) -> ControlFlow<()>;

    /// The reply broke off on the way. Says whether it may be asked for again, from its beginning:
    /// not when a person has seen a part of it.
    fn again(&mut self) -> bool;

    /// An attempt came to nothing, after so long, and the next one follows.
    fn failed(&mut self, attempt: &str, why: &str, after: Duration) {
        let _ = (attempt, why, after);
    }

    /// Something that the person should know.
    fn note(&mut self, text: &str) {
        let _ = text;
    }
}

/// Hears nothing, and wants the reply whole.
impl Listener for () {
    fn hear(&mut self, _: &str) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    fn again(&mut self) -> bool {
        true
    }
}

/// What a model is asked.
#[derive(Debug, Clone, Copy, Default)]
pub struct Request<'a> {
    /// Everything said so far.
    pub messages: &'a [Message],
    /// Texts at which the model is to stop.
    pub stop: &'a [&'a str],
    /// The functions that it may call in its endpoint's own form. With none, a call that it makes in
    /// that form all the same is written out in the text.
    pub functions: &'a [Function],
    /// The JSON schema that the reply should fit, where the endpoint can see to that.
    pub schema: Option<&'a Value>,
}

/// A function that a model may call in its endpoint's own form.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Function {
    /// 1 to 64 letters of ASCII, digits, `_` and `-`.
    pub name: String,
    /// What it does.
    pub description: String,
    /// The JSON schema of its arguments, which are an object.
    pub parameters: Value,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// The text, without any reasoning that came apart from it.
    pub text: String,
    /// The calls in the endpoint's own form, in order, where functions were offered.
    pub calls: Vec<ToolCall>,
    /// Tokens, as far as they are known.
    pub usage: Usage,
    /// Why the reply ended.
    pub finish: Finish,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Finish {
    /// The model was done, or met a stop text.
    Stop,
    /// The reply was cut at a limit of length.
    Length,
    /// Something else, or the endpoint did not say.
    Other,
}

impl Finish {
    /// The meaning of what an endpoint calls it; an unknown word is no error.
    pub fn from_reason(reason: &str) -> Self {
        match reason.to_lowercase().as_str() {
            "stop" | "end" | "end_turn" | "eos" | "eos_token" | "stop_sequence" | "tool_calls"
            | "tool_use" => Self::Stop,
            // Whatever cut it, its last words may be half of what was meant.
            "length"
            | "max_tokens"
            | "model_length"
            | "model_context_window_exceeded"
            | "content_filter"
            | "error" => Self::Length,
            _ => Self::Other,
        }
    }
}

/// How a model is to be asked, whatever its wire format.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much chance there is in the replies; the endpoint's own default if not set.
    pub temperature: Option<f64>,
    /// The longest reply in tokens; the endpoint's own default if not set.
    pub max_tokens: Option<u32>,
    /// Whether replies are streamed.
    pub stream: bool,
    /// The longest time that one call may take, from connecting to the last byte, everything that is
    /// sent again included.
    pub timeout: Duration,
    /// The longest time that connecting may take.
    pub connect_timeout: Duration,
    /// The longest time from a request to the first byte of its response; `timeout` if not set.
    pub first_byte_timeout: Option<Duration>,
    /// The longest silence within a response; `timeout` if not set.
    pub idle_timeout: Option<Duration>,
    /// How many times a call that failed on the way is sent again.
    pub retries: u32,
    /// Whether the listener is told of each request and response.
    pub verbose: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            temperature: None,
            max_tokens: None,
            stream: true,
            timeout: Duration::from_secs(600),
            connect_timeout: Duration::from_secs(10),
            first_byte_timeout: None,
            idle_timeout: None,
            retries: 2,
            verbose: false,
        }
    }
}

/// An endpoint: where it is, what to ask there, and the key it takes.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// How requests are written.
    pub wire: Wire,
    /// The address, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// Who said so, in a few words.
    pub base_url_from: String,
    /// The model's name there.
    pub model: String,
    /// The name that people know the model by.
    pub name: String,
    /// The key, if one is known.
    pub key: Option<Secret>,
    /// Where the key was found.
    pub key_from: Option<String>,
}

impl Endpoint {
    /// A model at an address that needs no key, such as one on this machine.
    pub fn new(wire: Wire, base_url: impl Into<String>, model: impl Into<String>) -> Self {
        let model = model.into();
        Self {
            wire,
            base_url: base_url.into(),
            base_url_from: "the caller".to_owned(),
            name: model.clone(),
            model,
            key: None,
            key_from: None,
        }
    }

    /// With this key.
    pub fn key(self, key: Secret) -> Self {
        Self {
            key: Some(key),
            key_from: Some("the caller".to_owned()),
            ..self
        }
    }

    /// The address that a call is sent to.
    pub fn url(&self, stream: bool) -> String {
        format!("{}{}", self.base_url, self.wire.path(&self.model, stream))
    }
}

/// Which model to ask.
#[derive(Debug, Clone)]
pub enum Choice {
    /// The built-in planner: no key, no network.
    Demo,
    /// A model behind an endpoint.
    Remote(Endpoint),
}

impl Choice {
    /// The name that people know it by.
    pub fn name(&self) -> &str {
        match self {
            Self::Demo => demo::NAME,
            Self::Remote(endpoint) => &endpoint.name,
        }
    }

    /// Where it is asked and who said so, in a line; nothing for one that is asked nowhere.
    pub fn described(&self, stream: bool) -> Option<String> {
        let Self::Remote(endpoint) = self else {
            return None;
        };
        let Endpoint {
            name,
            base_url_from,
            key_from,
            ..
        } = endpoint;
        let key = key_from
            .as_ref()
            .map_or("no key".to_owned(), |from| format!("key from {from}"));
        Some(format!(
            "{name} at {}, from {base_url_from}; {key}",
            endpoint.url(stream)
        ))
    }
}

/// Makes the model that was chosen. Nothing is sent yet.
///
/// ```
/// use reagent::llm::wire::Wire;
/// use reagent::llm::{Choice, Endpoint, Llm, Options, connect};
///
/// let endpoint = Endpoint::new(Wire::OpenAi, "http://127.0.0.1:8080/v1", "qwen");
/// let model = connect(&Choice::Remote(endpoint), &Options::default());
/// assert_eq!(model.name(), "qwen");
/// ```
pub fn connect(choice: &Choice, options: &Options) -> Box<dyn Llm> {
    match choice {
        Choice::Demo => Box::new(demo::Demo),
        Choice::Remote(endpoint) => {
            Box::new(remote::Remote::new(endpoint.clone(), options.clone()))
        }
    }
}

/// The size of a text in tokens, about: four bytes each, which is less than most texts have.
pub(crate) fn about(text: &str) -> u64 {
    text.len() as u64 / 4
}
