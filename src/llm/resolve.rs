//! Who answers to a model's name: the rules by which an endpoint and its key are chosen.

use super::provider::{PROVIDERS, Provider};
use super::wire::Wire;
use super::{Choice, Endpoint, address, demo};
use crate::error::{Error, Result};
use crate::near::did_you_mean;
use crate::secret::Secret;

/// The key that goes to the chosen endpoint, whichever it is.
const OWN_KEY: &str = "REAGENT_API_KEY";

/// The providers whose keys are looked for when no model is named.
const SEARCHED: usize = 5;

/// Where a value comes from, the least trusted first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// A file in the working folder that nobody has vouched for.
    ProjectFile,
    /// The person's own configuration.
    UserConfig,
    /// The environment.
    Environment,
    /// A flag, or the program itself.
    Flag,
}

/// What is known about models before one is chosen: flags, environment and files, already read.
pub struct Known<'a> {
    /// The model that was named.
    pub model: Option<&'a str>,
    /// The address that was given for it, and where.
    pub base_url: Option<(&'a str, Source)>,
    /// The person's own rows, which come before the table.
    pub providers: &'a [Provider],
    /// Other names for models.
    pub aliases: &'a [(String, String)],
    /// The command that prints the key for an address that was given.
    pub key_command: &'a [String],
    /// Whether plain http may leave this machine.
    pub plain_http: bool,
    /// Looks up a variable of the environment; empty is missing.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Looks up a key in the project's `.env`, which counts only where the environment has none.
    pub in_file: &'a dyn Fn(&str) -> Option<String>,
    /// Runs a command that prints a key.
    pub run: &'a dyn Fn(&[String]) -> Result<String>,
    /// The models of the Ollama at an address, if there is one.
    pub ollama: &'a dyn Fn(&str) -> Vec<String>,
}

impl Default for Known<'_> {
    /// Nothing is known.
    fn default() -> Self {
        Self {
            model: None,
            base_url: None,
            providers: &[],
            aliases: &[],
            key_command: &[],
            plain_http: false,
            variable: &|_| None,
            in_file: &|_| None,
            run: &|_| Ok(String::new()),
            ollama: &|_| Vec::new(),
        }
    }
}

struct Key {
    secret: Secret,
    source: Source,
    from: String,
}

/// Decides which model answers, and why, in one line for the person if they did not name it.
///
/// A name of the form `provider/name`, or one whose beginning belongs to a provider, is asked there.
/// With an address of its own, any name is sent to that address as it is, but for the prefixes
/// `anthropic/`, `gemini/` and `ollama/`, which choose that format. With nothing named, the first
/// provider with a key answers, else an Ollama on its own port that has a model, else `demo`.
pub fn resolve(known: &Known<'_>) -> Result<(Choice, Option<String>)> {
    let alias = |name| {
        known
            .aliases
            .iter()
            .find(|(alias, _)| alias == name)
            .map(|(_, model)| model.as_str())
    };
    let model = known.model.map(|name| alias(name).unwrap_or(name));
    if model == Some(demo::NAME) {
        return Ok((Choice::Demo, None));
    }
    if let Some((base_url, source)) = known.base_url {
        return Ok((known.at_address(model, base_url, source)?, None));
    }
    match model {
        Some(name) => known.named(name).map(|choice| (choice, None)),
        None => known.found(),
    }
}

impl Known<'_> {
    /// Any model at an address that was given.
    fn at_address(&self, model: Option<&str>, base_url: &str, source: Source) -> Result<Choice> {
        let Some(name) = model else {
            let hint = format!("add -m NAME; reagent models --base-url {base_url} lists them");
            return Err(Error::config_hint("no model named for this base URL", hint));
        };
        let other = name.split_once('/').and_then(|(word, model)| {
            let provider = PROVIDERS.iter().find(|provider| provider.name == word)?;
            (provider.wire != Wire::OpenAi).then_some((provider, model))
        });
        let (wire, model) = other.map_or((Wire::OpenAi, name), |(provider, model)| {
            (provider.wire, model)
        });
        let home = PROVIDERS
            .iter()
            .find(|provider| base_url.starts_with(&*provider.base_url));
        let home = home.or(other.map(|(provider, _)| provider));
        let variable = home.map_or(Some("OPENAI_API_KEY"), |provider| provider.key.as_deref());
        let key = match self.key(&[Some(OWN_KEY), variable])? {
            None if !self.key_command.is_empty() => Some(self.printed(self.key_command)?),
            key => key,
        };
        let plain = self.plain_http;
        self.endpoint(wire, (base_url, source, false), (model, name), key, plain)
    }

    /// A model by its name.
    fn named(&self, name: &str) -> Result<Choice> {
        let Some((provider, model)) = self.provider_of(name) else {
            // A variable for OpenAI's address is an address that was given.
            if let Some(base_url) = (self.variable)("OPENAI_BASE_URL") {
                return self.at_address(Some(name), &base_url, Source::Environment);
            }
            let names = || {
                self.providers
                    .iter()
                    .chain(PROVIDERS)
                    .map(|provider| &*provider.name)
            };
            let word = name.split_once('/').map_or(name, |(word, _)| word);
            let near = did_you_mean(
                word,
                names().chain(self.aliases.iter().map(|(alias, _)| alias.as_str())),
            );
            return Err(Error::config_hint(
                format!("unknown model `{name}`: no provider is known for it{near}"),
                format!(
                    "-m PROVIDER/{name} ({}), or --base-url URL",
                    names().collect::<Vec<_>>().join(", ")
                ),
            ));
        };
        self.at(provider, model)
    }

    /// What answers when nothing was named.
    fn found(&self) -> Result<(Choice, Option<String>)> {
        for provider in &PROVIDERS[..SEARCHED] {
            let provider = self.own(&provider.name).unwrap_or(provider);
            let Some(key) = self.key(&[provider.key.as_deref()])? else {
                continue;
            };
            let choice = self.at(provider, &provider.default_model)?;
            let why = format!(
                "no model named: {} answers, as {} is set",
                choice.name(),
                key.from
            );
            return Ok((choice, Some(why)));
        }
        if let Some(ollama) = PROVIDERS
            .iter()
            .find(|provider| provider.wire == Wire::Ollama)
        {
            let (base_url, _) = self.address(ollama);
            if let Some(model) = (self.ollama)(&base_url).first() {
                let choice = self.at(ollama, model)?;
                let why = format!(
                    "no model named: {} answers, as an Ollama is running here",
                    choice.name()
                );
                return Ok((choice, Some(why)));
            }
        }
        let why = "no model connected: `demo` answers, which only knows arithmetic, the time, prices and temperatures";
        Ok((Choice::Demo, Some(why.to_owned())))
    }

    /// A provider's model, at its address or the one that the environment gives.
    fn at(&self, provider: &Provider, model: &str) -> Result<Choice> {
        let (base_url, source) = self.address(provider);
        let key = match self.key(&[Some(OWN_KEY), provider.key.as_deref()])? {
            None if !provider.key_command.is_empty() => Some(self.printed(&provider.key_command)?),
            key => key,
        };
        if let (None, Some(variable)) = (&key, &provider.key) {
            return Err(Error::config_hint(
                format!("no API key for `{}`", provider.name),
                format!("export {variable}=... or put it in .env"),
            ));
        }
        let name = format!("{}/{model}", provider.name);
        if model.is_empty() {
            return Err(Error::config_hint(
                format!("`{}` has no model of its own to ask", provider.name),
                format!("-m {}NAME; reagent models -m {name} lists them", name),
            ));
        }
        let plain = provider.plain_http || self.plain_http;
        self.endpoint(
            provider.wire,
            (&base_url, source, provider.own),
            (model, &name),
            key,
            plain,
        )
    }

    /// The address of a provider, and who says so.
    fn address(&self, provider: &Provider) -> (String, Source) {
        let variable = match provider.wire {
            Wire::Ollama => "OLLAMA_HOST".to_owned(),
            _ => format!("{}_BASE_URL", provider.name.to_uppercase()),
        };
        match (self.variable)(&variable) {
            Some(host) if provider.wire == Wire::Ollama => {
                (address::ollama(&host), Source::Environment)
            }
            Some(base_url) => (base_url, Source::Environment),
            None if provider.own => (provider.base_url.clone().into_owned(), Source::UserConfig),
            None => (provider.base_url.clone().into_owned(), Source::Flag),
        }
    }

    /// Everything checked and put together. A key goes only to an address whose source is trusted at
    /// least as much as its own; a person's own row names both.
    fn endpoint(
        &self,
        wire: Wire,
        (base_url, source, own_row): (&str, Source, bool),
        (model, name): (&str, &str),
        key: Option<Key>,
        plain_http: bool,
    ) -> Result<Choice> {
        let given = base_url;
        let base_url = address::base_url(given, wire, plain_http)?;
        let trusted = |key: &Key| source >= key.source || own_row || key.from == OWN_KEY;
        let key = match key {
            Some(key) if !trusted(&key) && !address::is_on_this_machine(&base_url) => {
                return Err(Error::config_hint(
                    format!(
                        "the key from {} is not sent to {base_url}, which the configuration names",
                        key.from
                    ),
                    "name both in one [providers.NAME] of config.toml, or give the address with --base-url",
                ));
            }
            key => key.filter(trusted),
        };
        let from = match source {
            Source::Flag if self.base_url.is_some() => "--base-url",
            Source::Flag => "the table of providers",
            Source::Environment => "the environment",
            Source::UserConfig => "config.toml",
            Source::ProjectFile => "a project's file",
        };
        let (secret, key_from) = key.map(|key| (key.secret, key.from)).unzip();
        Ok(Choice::Remote(Endpoint {
            wire,
            base_url,
            base_url_from: from.to_owned(),
            model: model.to_owned(),
            name: name.to_owned(),
            key: secret,
            key_from,
        }))
    }

    /// The first key under one of these names.
    fn key(&self, names: &[Option<&str>]) -> Result<Option<Key>> {
        let sources = [
            (self.variable, "", Source::Environment),
            (self.in_file, " in .env", Source::ProjectFile),
        ];
        for (find, place, source) in sources {
            for name in names.iter().flatten() {
                let Some(secret) = find(name).as_deref().and_then(Secret::new) else {
                    continue;
                };
                return Ok(Some(sendable(secret, source, format!("{name}{place}"))?));
            }
        }
        Ok(None)
    }

    /// The key that a command prints.
    fn printed(&self, command: &[String]) -> Result<Key> {
        let from = "api_key_cmd";
        let printed = (self.run)(command)?;
        let secret = Secret::new(&printed)
            .ok_or_else(|| Error::config(format!("{from} printed nothing")))?;
        sendable(secret, Source::UserConfig, from.to_owned())
    }

    fn own(&self, name: &str) -> Option<&Provider> {
        self.providers.iter().find(|provider| provider.name == name)
    }

    /// The provider that a model's name points at, and the name without the provider.
    fn provider_of<'n>(&self, name: &'n str) -> Option<(&Provider, &'n str)> {
        let known = |word: &str| {
            self.own(word)
                .or_else(|| PROVIDERS.iter().find(|provider| provider.name == word))
        };
        if let Some((word, model)) = name.split_once('/') {
            return Some((known(word)?, model));
        }
        let belongs = |provider: &&Provider| provider.prefixes.iter().any(|p| name.starts_with(p));
        let provider = PROVIDERS.iter().find(belongs)?;
        Some((self.own(&provider.name).unwrap_or(provider), name))
    }
}

fn sendable(secret: Secret, source: Source, from: String) -> Result<Key> {
    if !secret.reveal().bytes().all(|byte| byte.is_ascii_graphic()) {
        let what = format!("{from} has characters that no key has");
        let name = from.trim_end_matches(" in .env");
        return Err(Error::config_hint(what, format!("export {name}=...")));
    }
    Ok(Key {
        secret,
        source,
        from,
    })
}
