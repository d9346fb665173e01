//! A language model: messages in, one reply out.
//!
//! One file a wire format; `demo` needs no wire at all. Which one answers to a name is decided in
//! [`resolve`], from a table of providers.

mod demo;
pub(crate) mod http;
mod openai;
mod sse;
mod transport;

use std::ops::ControlFlow;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::secret::Secret;
use crate::session::event::{Message, Usage};

/// A language model that can be asked.
pub trait Llm {
    /// The name that people know it by, such as `openai/gpt-4o-mini` or `demo`.
    fn name(&self) -> &str;

    /// Asks for the next reply. The listener hears the text as it streams, or once and whole;
    /// when it breaks off, the stream is closed and what came so far is the reply.
    fn ask(&mut self, request: &Request<'_>, listener: &mut dyn Listener) -> Result<Reply>;
}

/// Hears a reply while it comes.
pub trait Listener {
    /// Takes the next piece; says whether more is wanted.
    fn hear(&mut self, piece: &str) -> ControlFlow<()>;

    /// The reply broke off on the way. Says whether it may be asked for again, from its beginning:
    /// not when a person has seen a part of it.
    fn again(&mut self) -> bool;
}

/// What a model is asked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Everything said so far.
    pub messages: &'a [Message],
    /// Texts at which the model is to stop.
    pub stop: &'a [&'a str],
}

/// What a model said.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The text, without any reasoning that came apart from it.
    pub text: String,
    /// Tokens, as far as they are known.
    pub usage: Usage,
    /// Why the reply ended.
    pub finish: Finish,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
            "stop" | "end_turn" | "eos" | "stop_sequence" | "tool_calls" | "tool_use" => Self::Stop,
            // Whatever cut it, its last words may be half of what was meant.
            "length" | "max_tokens" | "model_length" | "content_filter" | "error" => Self::Length,
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
    /// The longest time that one call may take, from connecting to the last byte.
    pub timeout: Duration,
    /// How many times a call that failed on the way is sent again.
    pub retries: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            temperature: None,
            max_tokens: None,
            stream: true,
            timeout: Duration::from_secs(600),
            retries: 2,
        }
    }
}

/// An endpoint: where it is, what to ask there, and the key it takes.
#[derive(Debug, Clone)]
pub struct Endpoint {
    /// The address, such as `https://api.openai.com/v1`.
    pub base_url: String,
    /// The model's name there.
    pub model: String,
    /// The name that people know the model by.
    pub name: String,
    /// The key, if one is known.
    pub key: Option<Secret>,
}

/// Which model to ask.
#[derive(Debug, Clone)]
pub enum Choice {
    /// The built-in planner: no key, no network.
    Demo,
    /// A model behind an OpenAI-compatible endpoint.
    OpenAi(Endpoint),
}

impl Choice {
    /// The name that people know it by.
    pub fn name(&self) -> &str {
        match self {
            Self::Demo => demo::NAME,
            Self::OpenAi(endpoint) => &endpoint.name,
        }
    }
}

/// Makes the model that was chosen. Nothing is sent yet.
pub fn connect(choice: &Choice, options: &Options) -> Result<Box<dyn Llm>> {
    Ok(match choice {
        Choice::Demo => Box::new(demo::Demo),
        Choice::OpenAi(endpoint) => {
            Box::new(openai::OpenAi::new(endpoint.clone(), options.clone())?)
        }
    })
}

/// A service whose models are known by name.
#[derive(Debug)]
pub struct Provider {
    /// The word before the slash in `provider/name`.
    pub name: &'static str,
    /// Its OpenAI-compatible address.
    pub base_url: &'static str,
    /// The environment variable that holds its key.
    pub key: &'static str,
    /// The environment variable that holds another address for it, if it has one.
    pub base_url_variable: Option<&'static str>,
    /// The model that is asked when none is named.
    pub default_model: &'static str,
    /// Beginnings of names that belong to it without saying so.
    pub prefixes: &'static [&'static str],
}

/// The providers in the order in which their keys are looked for.
pub const PROVIDERS: &[Provider] = &[
    Provider {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        key: "OPENAI_API_KEY",
        base_url_variable: Some("OPENAI_BASE_URL"),
        default_model: "gpt-4o-mini",
        prefixes: &["gpt-", "chatgpt-", "o1", "o3", "o4"],
    },
    Provider {
        name: "openrouter",
        base_url: "https://openrouter.ai/api/v1",
        key: "OPENROUTER_API_KEY",
        base_url_variable: None,
        default_model: "openai/gpt-4o-mini",
        prefixes: &[],
    },
    Provider {
        name: "groq",
        base_url: "https://api.groq.com/openai/v1",
        key: "GROQ_API_KEY",
        base_url_variable: None,
        default_model: "llama-3.3-70b-versatile",
        prefixes: &[],
    },
];

/// What is known about models before one is chosen: the flags and the environment, already read.
pub struct Known<'a> {
    /// The model that was named.
    pub model: Option<&'a str>,
    /// The address that was given for it.
    pub base_url: Option<&'a str>,
    /// Looks up a variable of the environment; empty is missing.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Looks up a key in the project's `.env`, which counts only where the environment has none.
    pub in_file: &'a dyn Fn(&str) -> Option<String>,
}

impl Known<'_> {
    /// The first key under one of these names, and where it came from.
    fn key(&self, names: &[&'static str]) -> Result<Option<(Secret, String)>> {
        let sources = [(self.variable, ""), (self.in_file, " in .env")];
        for ((source, place), name) in sources
            .iter()
            .flat_map(|s| names.iter().map(move |n| (s, n)))
        {
            let Some(key) = source(name).as_deref().and_then(Secret::new) else {
                continue;
            };
            if !key.reveal().bytes().all(|byte| byte.is_ascii_graphic()) {
                let what = format!("{name}{place} has characters that no key has");
                return Err(Error::config_hint(what, format!("export {name}=...")));
            }
            return Ok(Some((key, format!("{name}{place}"))));
        }
        Ok(None)
    }
}

/// Decides which model answers, and why, in one line for the person if they did not name it.
///
/// A name of the form `provider/name`, or one whose beginning belongs to a provider, is asked
/// there; with an address of its own, any name is sent to that address as it is. With nothing
/// named, the first provider with a key answers, else `demo`.
pub fn resolve(known: &Known<'_>) -> Result<(Choice, Option<String>)> {
    const OWN: &str = "REAGENT_API_KEY";
    if known.model == Some(demo::NAME) {
        return Ok((Choice::Demo, None));
    }
    let stranger = known.model.is_some_and(|name| provider_of(name).is_none());
    let own_address = || (known.variable)("OPENAI_BASE_URL").filter(|_| stranger);
    if let Some(base_url) = known.base_url.map(str::to_owned).or_else(own_address) {
        let Some(model) = known.model else {
            return Err(Error::config_hint(
                "no model named for this base URL",
                "add -m NAME",
            ));
        };
        let provider = PROVIDERS
            .iter()
            .find(|provider| base_url.starts_with(provider.base_url));
        let key = known.key(&[
            OWN,
            provider.map_or("OPENAI_API_KEY", |provider| provider.key),
        ])?;
        return Ok((endpoint(&base_url, model, model.to_owned(), key)?, None));
    }
    let at = |provider: &Provider, model: &str, key| {
        let own = provider
            .base_url_variable
            .and_then(|name| (known.variable)(name));
        let address = own.unwrap_or_else(|| provider.base_url.to_owned());
        endpoint(
            &address,
            model,
            format!("{}/{model}", provider.name),
            Some(key),
        )
    };
    if let Some(name) = known.model {
        let Some((provider, model)) = provider_of(name) else {
            let names: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
            return Err(Error::config_hint(
                format!("unknown model `{name}`: no provider is known for it"),
                format!(
                    "-m PROVIDER/{name} ({}), or --base-url URL",
                    names.join(", ")
                ),
            ));
        };
        let Some(key) = known.key(&[OWN, provider.key])? else {
            return Err(Error::config_hint(
                format!("no API key for `{}`", provider.name),
                format!("export {}=... or put it in .env", provider.key),
            ));
        };
        return Ok((at(provider, model, key)?, None));
    }
    let names: Vec<&str> = PROVIDERS.iter().map(|provider| provider.key).collect();
    let Some((key, source)) = known.key(&names)? else {
        let why = "no model connected: `demo` answers, which only knows arithmetic, the time, prices and \
                   temperatures";
        return Ok((Choice::Demo, Some(why.to_owned())));
    };
    let found = PROVIDERS
        .iter()
        .find(|provider| source.starts_with(provider.key));
    let provider = found.unwrap_or(&PROVIDERS[0]);
    let choice = at(provider, provider.default_model, (key, source.clone()))?;
    let why = format!(
        "no model named: {} answers, as {source} is set",
        choice.name()
    );
    Ok((choice, Some(why)))
}

/// The provider that a model's name points at, and the name without the provider.
fn provider_of(name: &str) -> Option<(&'static Provider, &str)> {
    if let Some((word, model)) = name.split_once('/') {
        return Some((
            PROVIDERS.iter().find(|provider| provider.name == word)?,
            model,
        ));
    }
    let belongs = |provider: &&Provider| provider.prefixes.iter().any(|p| name.starts_with(p));
    Some((PROVIDERS.iter().find(belongs)?, name))
}

fn endpoint(
    base_url: &str,
    model: &str,
    name: String,
    key: Option<(Secret, String)>,
) -> Result<Choice> {
    let (base_url, key) = (http::base_url(base_url)?, key.map(|(key, _)| key));
    Ok(Choice::OpenAi(Endpoint {
        base_url,
        model: model.to_owned(),
        name,
        key,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(model: Option<&str>, base_url: Option<&str>, set: &[(&str, &str)]) -> Result<Choice> {
        let variable = |name: &str| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        let in_file = |name: &str| (name == "GROQ_API_KEY").then(|| "from file".replace(' ', "-"));
        resolve(&Known {
            model,
            base_url,
            variable: &variable,
            in_file: &in_file,
        })
        .map(|(choice, _)| choice)
    }

    #[test]
    fn a_model_is_found_by_name_key_and_address() {
        type Row<'a> = (
            Option<&'a str>,
            Option<&'a str>,
            &'a [(&'a str, &'a str)],
            &'a str,
        );
        let rows: &[Row<'_>] = &[
            (None, None, &[], "groq/llama-3.3-70b-versatile"),
            (Some("demo"), None, &[("OPENAI_API_KEY", "k")], "demo"),
            (
                None,
                None,
                &[("GROQ_API_KEY", "k")],
                "groq/llama-3.3-70b-versatile",
            ),
            (
                None,
                None,
                &[("OPENAI_API_KEY", " "), ("GROQ_API_KEY", "k")],
                "groq/llama-3.3-70b-versatile",
            ),
            (
                Some("gpt-4o"),
                None,
                &[("OPENAI_API_KEY", "k")],
                "openai/gpt-4o",
            ),
            (
                Some("o3-mini"),
                None,
                &[("REAGENT_API_KEY", "k")],
                "openai/o3-mini",
            ),
            (
                Some("openrouter/a/b"),
                None,
                &[("OPENROUTER_API_KEY", "k")],
                "openrouter/a/b",
            ),
            (Some("a/b"), Some("http://localhost:1/v1"), &[], "a/b"),
        ];
        for (model, base_url, set, wanted) in rows {
            assert_eq!(named(*model, *base_url, set).unwrap().name(), *wanted);
        }
        assert!(named(Some("gpt-4o"), None, &[]).is_err(), "a key is needed");
        assert!(named(Some("mystery"), None, &[]).is_err());
        assert!(named(None, Some("http://localhost:1/v1"), &[]).is_err());
        assert!(
            named(Some("m"), Some("http://example.org/v1"), &[]).is_err(),
            "plain http"
        );
    }
}
