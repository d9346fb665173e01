//! Every setting that has a value, and where it comes from.

use serde_json::Value;

use super::{Layers, STDIN_WAIT};
use crate::cli::Options;
use crate::engine::limits::Limits;
use crate::llm;

/// Where a value comes from that nobody gave.
pub(crate) const DEFAULT: &str = "default";

/// A setting.
pub(crate) struct Setting {
    /// Its name: a long flag with `_` for `-`.
    pub(crate) name: String,
    /// Its values and where each was found: the one in force first, then those that it stands before.
    pub(crate) values: Vec<(Value, String)>,
}

impl Layers {
    /// The settings, in the order of the flags.
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let layers = [
            ("a flag", self.flags.given()),
            ("the environment", self.environment.given()),
            ("config.toml", self.file.options.given()),
            (DEFAULT, defaults().given()),
        ];
        let mut settings: Vec<Setting> = Vec::new();
        for (source, layer) in layers {
            for (name, value) in layer {
                let source = match source {
                    "a flag" => format!("--{}", name.replace('_', "-")),
                    "the environment" => format!("REAGENT_{}", name.to_uppercase()),
                    source => source.to_owned(),
                };
                match settings.iter_mut().find(|setting| setting.name == name) {
                    Some(setting) => setting.values.push((value, source)),
                    None => settings.push(Setting {
                        name,
                        values: vec![(value, source)],
                    }),
                }
            }
        }
        let order: Vec<String> = match serde_json::to_value(Options::default()) {
            Ok(Value::Object(all)) => all.keys().cloned().collect(),
            _ => Vec::new(),
        };
        settings.sort_by_key(|setting| order.iter().position(|name| *name == setting.name));
        settings
    }
}

/// What holds where nothing else is said.
fn defaults() -> Options {
    let llm = llm::Options::default();
    Options {
        engine: Some(Default::default()),
        ttl: Some(Limits::default().ttl),
        trace: Some(Default::default()),
        color: Some(Default::default()),
        stdin_wait: Some(STDIN_WAIT),
        on_limit: Some(Default::default()),
        timeout: Some(llm.timeout),
        connect_timeout: Some(llm.connect_timeout),
        first_byte_timeout: llm.first_byte_timeout,
        idle_timeout: llm.idle_timeout,
        retries: Some(llm.retries),
        ..Options::default()
    }
}
