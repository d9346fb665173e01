//! The keys that are known, and the model that they lead to.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::places::is_ordinary;
use super::{Layers, read_file, variable};
use crate::cli::Options;
use crate::error::{Error, Result};
use crate::llm::resolve::{self, Known};
use crate::llm::wire::Wire;
use crate::llm::{self, Choice};

/// How long an Ollama may take to say which models it has.
const OLLAMA_WAIT: Duration = Duration::from_millis(300);

/// Keys from the environment and, where that has none, from `.env` in the working folder, which
/// gives nothing else.
pub(super) struct Keys {
    pub(super) layers: Layers,
    from_file: Vec<(String, String)>,
}

impl Keys {
    pub(super) fn read(layers: Layers) -> Self {
        let path = Some(Path::new(".env")).filter(|path| is_ordinary(path));
        let text = path.and_then(|path| read_file(path).ok());
        let text = text.unwrap_or_default();
        // A `$` would bring in any other variable of the environment.
        let keys = text
            .lines()
            .filter(|line| line.contains("_API_KEY") && !line.contains('$'));
        let keys = keys.collect::<Vec<_>>().join("\n");
        let lines = dotenvy::from_read_iter(keys.as_bytes()).flatten();
        Self {
            layers,
            from_file: lines
                .filter(|(name, _)| name.ends_with("_API_KEY"))
                .collect(),
        }
    }

    pub(super) fn resolve(
        &self,
        model: Option<&str>,
        options: &Options,
    ) -> Result<(Choice, Option<String>)> {
        let in_file = |name: &str| {
            let listed = self.from_file.iter().find(|(listed, _)| listed == name);
            listed.map(|(_, value)| value.clone())
        };
        let source = self.layers.base_url_source();
        let file = &self.layers.file;
        resolve::resolve(&Known {
            model,
            base_url: options.base_url.as_deref().map(|url| (url, source)),
            providers: &file.providers,
            aliases: &file.aliases,
            key_command: &file.key_command,
            plain_http: file.plain_http,
            variable: &variable,
            in_file: &in_file,
            run: &printed,
            ollama: &ollama,
        })
    }
}

/// What a command prints: a key. It sees no other key.
fn printed(command: &[String]) -> Result<String> {
    let shown = command.first().map_or("", String::as_str);
    let failed = |why: String| Error::config(format!("api_key_cmd: `{shown}` {why}"));
    let mut child = Command::new(shown);
    child.args(&command[1..]).stderr(Stdio::inherit());
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().ends_with("_API_KEY") {
            child.env_remove(name);
        }
    }
    let output = child
        .output()
        .map_err(|error| failed(format!("cannot be run: {error}")))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(failed(format!("failed: {}", output.status))),
    }
}

/// The models of an Ollama, if one answers at once.
fn ollama(base_url: &str) -> Vec<String> {
    let endpoint = llm::Endpoint {
        wire: Wire::Ollama,
        base_url: base_url.to_owned(),
        base_url_from: String::new(),
        model: String::new(),
        name: String::new(),
        key: None,
        key_from: None,
    };
    let options = llm::Options {
        timeout: OLLAMA_WAIT,
        connect_timeout: OLLAMA_WAIT,
        retries: 0,
        ..llm::Options::default()
    };
    match llm::address::is_on_this_machine(base_url) {
        true => llm::connect(&Choice::Remote(endpoint), &options)
            .models()
            .unwrap_or_default(),
        false => Vec::new(),
    }
}
