//! How much a model reads at once, as far as its endpoint says so.
//!
//! No two kinds of server say it in the same place: llama.cpp under `/props`, LM Studio under
//! `/api/v0/models`, Ollama under `/api/show` and, for its OpenAI-compatible address, `/api/ps`, Gemini
//! with the model; vLLM, Groq and OpenRouter in the list of models, each under a name of its own.

use std::io::Read;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use ureq::http::Uri;

use super::Endpoint;
use super::address::is_on_this_machine;
use super::http::{BODY_LIMIT, Client};
use super::wire::Wire;
use crate::json;

/// How long each place may take to answer.
const PATIENCE: Duration = Duration::from_secs(3);
/// Names of the size in a list of models; what is loaded counts before what is possible.
const NAMES: [&str; 6] = [
    "loaded_context_length",
    "max_model_len",
    "context_window",
    "context_length",
    "max_input_tokens",
    "max_context_length",
];

/// Whether the server, when a conversation is too long for it, cuts it without a word: Ollama and LM
/// Studio do, on this machine, where they are known by their ports.
pub(super) fn is_cut_silently(endpoint: &Endpoint) -> bool {
    let uri = endpoint.base_url.parse::<Uri>().ok();
    let port = uri.and_then(|uri| uri.port_u16());
    endpoint.wire == Wire::Ollama
        || is_on_this_machine(&endpoint.base_url) && matches!(port, Some(1234 | 11434))
}

/// Asks the endpoint; the size is in tokens.
pub(super) fn ask(client: &Client, endpoint: &Endpoint) -> Option<u64> {
    let base = &endpoint.base_url;
    let root = base.strip_suffix("/v1").unwrap_or(base);
    let model = &endpoint.model;
    let places = match endpoint.wire {
        Wire::Ollama => {
            return look(
                client,
                &format!("{base}/api/show"),
                Some(json!({ "model": model })),
                model,
            );
        }
        Wire::Gemini => vec![format!("{base}/models/{model}")],
        Wire::Anthropic => vec![format!("{base}/models?limit=1000")],
        Wire::OpenAi if is_on_this_machine(base) => vec![
            format!("{root}/props"),
            format!("{root}/api/v0/models"),
            format!("{root}/api/ps"),
            format!("{base}/models"),
        ],
        Wire::OpenAi => vec![format!("{base}/models")],
    };
    places
        .iter()
        .find_map(|place| look(client, place, None, model))
}

fn look(client: &Client, url: &str, body: Option<Value>, model: &str) -> Option<u64> {
    let body = body.map(|body| body.to_string().into_bytes());
    let response = client.send(url, body.as_deref(), Instant::now() + PATIENCE);
    let mut bytes = Vec::new();
    response
        .ok()?
        .reader(BODY_LIMIT)
        .read_to_end(&mut bytes)
        .ok()?;
    read(&json::parse(&bytes).ok()?, model)
}

fn read(body: &Value, model: &str) -> Option<u64> {
    let rows = [&body["data"], &body["models"]];
    let mut rows = rows.iter().filter_map(|rows| rows.as_array()).flatten();
    let latest = format!("{model}:latest");
    let row = rows.find(|row| {
        let mut names = [&row["id"], &row["name"]].into_iter();
        names.any(|name| name == model || *name == latest)
    });
    let listed = || NAMES.iter().find_map(|name| row?[*name].as_u64());
    let shown = || {
        let facts = body["model_info"].as_object()?;
        let mut facts = facts.iter();
        let size = facts.find(|(name, _)| name.ends_with(".context_length"))?;
        size.1.as_u64()
    };
    let size = body["default_generation_settings"]["n_ctx"]
        .as_u64()
        .or_else(|| body["inputTokenLimit"].as_u64())
        .or_else(shown)
        .or_else(listed);
    size.filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_server_says_it_in_a_place_of_its_own() {
        for (body, wanted) in [
            (
                json!({ "default_generation_settings": { "n_ctx": 4096 } }),
                Some(4096),
            ),
            (
                json!({ "model_info": { "llama.block_count": 1, "llama.context_length": 8192 } }),
                Some(8192),
            ),
            (
                json!({ "data": [{ "id": "x", "max_model_len": 1 }, { "id": "m", "max_model_len": 2048 }] }),
                Some(2048),
            ),
            (
                json!({ "data": [{ "id": "m", "max_context_length": 9, "loaded_context_length": 7 }] }),
                Some(7),
            ),
            (json!({ "inputTokenLimit": 1_048_576 }), Some(1_048_576)),
            (
                json!({ "data": [{ "id": "m", "context_length": "big" }] }),
                None,
            ),
            (
                json!({ "data": 7, "default_generation_settings": [] }),
                None,
            ),
            (json!([]), None),
        ] {
            assert_eq!(read(&body, "m"), wanted, "{body}");
        }
    }
}
