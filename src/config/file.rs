//! `config.toml`: the person's own settings.
//!
//! ```toml
//! model = "fast"                 # any long flag, with `_` for `-`
//! timeout = "5m"
//!
//! [aliases]
//! fast = "groq/llama-3.3-70b-versatile"
//!
//! [providers.corp]               # asked as `-m corp/NAME`
//! base_url = "https://llm.corp.example/v1"
//! wire = "openai"                # openai, anthropic, gemini or ollama
//! key = "CORP_API_KEY"           # the variable that holds the key
//! model = "large"                # asked when none is named
//!
//! [theme]
//! name = "light"                 # dark, light or plain
//! thought = "bright blue bold"   # a role of [`crate::ui::theme`]
//! ```

use clap::{Arg, ArgAction, CommandFactory, FromArgMatches, Parser};
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use crate::cli::Options;
use crate::error::Result;
use crate::llm::provider::{PROVIDERS, Provider};
use crate::llm::wire::Wire;
use crate::near::did_you_mean;
use crate::tables::{self, Item, Read, known_keys, mistake, sub_table, text, value};
use crate::tool::rule::{self, Rules};
use crate::tool::text_of;
use crate::ui::theme::{ROLES, Theme};

/// The keys that are no flags.
const OTHERS: [&str; 6] = [
    "aliases",
    "providers",
    "policy",
    "theme",
    "api_key_cmd",
    "plain_http",
];

/// Everything that the file says.
#[derive(Clone)]
pub(crate) struct File {
    /// The flags in it.
    pub(crate) options: Options,
    /// Rows that come before the table of providers.
    pub(crate) providers: Vec<Provider>,
    /// Other names for models.
    pub(crate) aliases: Vec<(String, String)>,
    /// The command that prints the key for `base_url`.
    pub(crate) key_command: Vec<String>,
    /// Whether plain http may leave this machine.
    pub(crate) plain_http: bool,
    /// What may run, what is asked about, what never runs.
    pub(crate) rules: Rules,
    /// The styles of what is shown.
    pub(crate) theme: Theme,
    /// What is said about them: role and words.
    pub(crate) theme_settings: Vec<(String, String)>,
}

impl Default for File {
    fn default() -> Self {
        Self {
            options: Options::default(),
            providers: Vec::new(),
            aliases: Vec::new(),
            key_command: Vec::new(),
            plain_http: false,
            rules: Rules::default(),
            theme: Theme::dark(),
            theme_settings: Vec::new(),
        }
    }
}

/// The flags alone, as a command line.
#[derive(Parser)]
#[command(no_binary_name = true)]
struct Flags {
    #[command(flatten)]
    options: Options,
}

/// Reads the file's text; `file` is its name in errors.
pub(crate) fn load(text: &str, file: &str) -> Result<File> {
    tables::read(text, file, document)
}

fn document(document: &DeTable<'_>) -> Read<File> {
    let command = Flags::command();
    let longs: Vec<(String, &Arg)> = command
        .get_arguments()
        .filter_map(|argument| Some((argument.get_long()?.replace('-', "_"), argument)))
        .filter(|(name, _)| name != "help")
        .collect();
    let mut file = File::default();
    let mut flags = Vec::new();
    for (key, item) in document.iter() {
        let name = &**key.get_ref();
        match name {
            "aliases" => file.aliases = aliases(item)?,
            "providers" => {
                let rows = sub_table(item, "providers")?.iter();
                let rows = rows.map(|(name, item)| provider(name.get_ref(), item));
                file.providers = rows.collect::<Read<_>>()?;
            }
            "policy" => file.rules = rule::read(item, "config.toml")?,
            "theme" => (file.theme, file.theme_settings) = theme(item)?,
            "api_key_cmd" => file.key_command = words(item, name)?,
            "plain_http" => file.plain_http = flag(item, name)?,
            _ => match longs.iter().find(|(long, _)| long == name) {
                Some((_, argument)) => flags.extend(as_flag(name, argument, item)?),
                None => {
                    let names = longs.iter().map(|(long, _)| long.as_str()).chain(OTHERS);
                    let near = did_you_mean(name, names);
                    return mistake(key, format!("unknown key `{name}`{near}"));
                }
            },
        }
        // Each is read as soon as it is there, so that a mistake has its place.
        let read = command.clone().try_get_matches_from(&flags);
        let read = read.and_then(|matches| Flags::from_arg_matches(&matches));
        match read {
            Ok(flags) => file.options = flags.options,
            Err(error) => {
                let said = error.render().to_string();
                let said = said.lines().next().unwrap_or_default();
                let why = said.rsplit_once(": ").map_or(said, |(_, why)| why);
                return mistake(
                    item,
                    format!("`{name}`: {}", why.trim_start_matches("error: ")),
                );
            }
        }
    }
    Ok(file)
}

/// The flag that a key stands for, as it would be typed.
fn as_flag(name: &str, argument: &Arg, item: &Item<'_>) -> Read<Vec<String>> {
    let long = format!("--{}", name.replace('_', "-"));
    let one = |value: &Value| format!("{long}={}", text_of(value));
    Ok(match (value(item)?, argument.get_action()) {
        (Value::Bool(true), ArgAction::SetTrue) => vec![long],
        (Value::Bool(false), ArgAction::SetTrue) => Vec::new(),
        (_, ArgAction::SetTrue) => return mistake(item, format!("`{name}` is true or false")),
        (Value::Array(values), ArgAction::Append) => values.iter().map(one).collect(),
        (value @ (Value::String(_) | Value::Number(_)), _) => vec![one(&value)],
        (_, ArgAction::Append) => return mistake(item, format!("`{name}` is a text or a list")),
        _ => return mistake(item, format!("`{name}` is a text or a number")),
    })
}

/// A theme by its name, with other styles for some roles; and what was said about it.
fn theme(item: &Item<'_>) -> Read<(Theme, Vec<(String, String)>)> {
    let table = sub_table(item, "theme")?;
    let roles: Vec<&str> = ["name"].into_iter().chain(ROLES).collect();
    known_keys(table, &roles, "role")?;
    let mut theme = Theme::dark();
    let mut said = Vec::new();
    if let Some(item) = table.get("name") {
        theme = match Theme::named(text(item, "name")?) {
            Ok(theme) => theme,
            Err(why) => return mistake(item, why),
        };
    }
    for (key, item) in table.iter() {
        let role = key.get_ref();
        let words = text(item, role)?;
        said.push((role.to_string(), words.to_owned()));
        if role != "name"
            && let Err(why) = theme.set(role, words)
        {
            return mistake(item, format!("`{role}`: {why}"));
        }
    }
    Ok((theme, said))
}

fn aliases(item: &Item<'_>) -> Read<Vec<(String, String)>> {
    let rows = sub_table(item, "aliases")?.iter();
    let alias = |(name, item): (&toml::Spanned<_>, &Item<'_>)| {
        let name: &std::borrow::Cow<'_, str> = name.get_ref();
        Ok((name.to_string(), text(item, name)?.to_owned()))
    };
    rows.map(alias).collect()
}

/// A row: one of the table with something changed, or one of the person's own.
fn provider(name: &str, item: &Item<'_>) -> Read<Provider> {
    let table = sub_table(item, name)?;
    const KEYS: &[&str] = &[
        "base_url",
        "wire",
        "key",
        "api_key_cmd",
        "model",
        "plain_http",
    ];
    known_keys(table, KEYS, "key")?;
    let known = PROVIDERS.iter().find(|provider| provider.name == name);
    let mut provider = match known {
        Some(known) => known.clone(),
        None => Provider {
            name: name.to_owned().into(),
            wire: Wire::OpenAi,
            base_url: "".into(),
            key: None,
            key_command: Vec::new(),
            default_model: "".into(),
            prefixes: &[],
            own: true,
            plain_http: false,
        },
    };
    for (key, item) in table.iter() {
        match &**key.get_ref() {
            "base_url" => {
                provider.base_url = text(item, "base_url")?.to_owned().into();
                provider.own = true;
            }
            "wire" => {
                provider.wire = match text(item, "wire")? {
                    "openai" => Wire::OpenAi,
                    "anthropic" => Wire::Anthropic,
                    "gemini" => Wire::Gemini,
                    "ollama" => Wire::Ollama,
                    _ => {
                        return mistake(
                            item,
                            "`wire` is \"openai\", \"anthropic\", \"gemini\" or \"ollama\"",
                        );
                    }
                };
            }
            "key" => provider.key = Some(text(item, "key")?.to_owned().into()),
            "api_key_cmd" => provider.key_command = words(item, "api_key_cmd")?,
            "model" => provider.default_model = text(item, "model")?.to_owned().into(),
            _ => provider.plain_http = flag(item, "plain_http")?,
        }
    }
    match provider.base_url.is_empty() {
        true => mistake(item, format!("`{name}` needs a `base_url`")),
        false => Ok(provider),
    }
}

/// A command: a list of words, or a text that is cut at blanks. No shell is involved.
fn words(item: &Item<'_>, name: &str) -> Read<Vec<String>> {
    let words: Vec<String> = match item.get_ref() {
        DeValue::Array(items) => items
            .iter()
            .map(|item| text(item, name).map(str::to_owned))
            .collect::<Read<_>>()?,
        _ => text(item, name)?
            .split_whitespace()
            .map(str::to_owned)
            .collect(),
    };
    match words.is_empty() {
        true => mistake(
            item,
            format!("`{name}` is a command such as [\"pass\", \"show\", \"llm\"]"),
        ),
        false => Ok(words),
    }
}

fn flag(item: &Item<'_>, name: &str) -> Read<bool> {
    match item.get_ref() {
        DeValue::Boolean(flag) => Ok(*flag),
        _ => mistake(item, format!("`{name}` is true or false")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_flags_and_every_mistake_has_its_place() {
        let text = "model = \"fast\"\nttl = 3\nno_stream = true\nstrict_tools = false\ntimeout = \"5m\"\n\
            [aliases]\nfast = \"groq/x\"\n[providers.corp]\nbase_url = \"https://c.example\"\nwire = \"anthropic\"\n\
            key = \"CORP_API_KEY\"\napi_key_cmd = \"pass show corp\"\n[providers.groq]\nmodel = \"y\"\n";
        let file = load(text, "config.toml").unwrap();
        assert_eq!(file.options.model.as_deref(), Some("fast"));
        assert_eq!(file.options.ttl.map(u32::from), Some(3));
        assert!(file.options.no_stream && !file.options.strict_tools);
        assert_eq!(file.aliases, [("fast".to_owned(), "groq/x".to_owned())]);
        assert_eq!(file.providers[0].key_command, ["pass", "show", "corp"]);
        assert_eq!(
            (file.providers[0].wire, file.providers[0].own),
            (Wire::Anthropic, true)
        );
        assert_eq!(
            (&*file.providers[1].default_model, file.providers[1].own),
            ("y", false)
        );
        for (text, wanted) in [
            (
                "ttl = 2\nmodell = \"x\"",
                "config.toml:2:1: unknown key `modell`; did you mean `model`?",
            ),
            (
                "ttl = 0",
                "config.toml:1:7: `ttl`: number would be zero for non-zero type",
            ),
            (
                "temperature = \"hot\"",
                "config.toml:1:15: `temperature`: a temperature is a number from 0 to 2",
            ),
            (
                "[providers.x]\nkey = \"K\"",
                "config.toml:1:1: `x` needs a `base_url`",
            ),
            (
                "[providers.x]\nbase = \"K\"",
                "config.toml:2:1: unknown key `base`; did you mean `base_url`?",
            ),
            (
                "[theme]\nname = \"ligt\"",
                "config.toml:2:8: there is no theme `ligt`, only dark, light, plain; did you mean `light`?",
            ),
            (
                "[theme]\nthougt = \"blue\"",
                "config.toml:2:1: unknown role `thougt`; did you mean `thought`?",
            ),
            (
                "[theme]\nthought = \"blu\"",
                "config.toml:2:11: `thought`: `blu` is no colour and no way to write; did you mean `blue`?",
            ),
            ("aliases = 1", "config.toml:1:11: `aliases` must be a table"),
        ] {
            let error = load(text, "config.toml")
                .err()
                .map(|error| error.to_string());
            assert_eq!(error.as_deref(), Some(wanted));
        }
    }
}
