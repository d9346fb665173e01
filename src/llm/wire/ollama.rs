//! Ollama's own chat.
//!
//! Source: <https://github.com/ollama/ollama/blob/main/docs/api.md>. Unlike its OpenAI-compatible
//! address, this one can be told how much context to keep; without being told, Ollama cuts a long
//! prompt without a word. A stream is a JSON object a line.

use serde_json::{Map, Value, json};

use super::{CallPiece, Said, Settings, count, object, openai, text_at, tokens};
use crate::llm::Request;
use crate::session::event::{Message, ToolCall, Usage};

/// The smallest context that is asked for, in tokens.
const CONTEXT: usize = 8192;
/// Room for the reply, when its longest is not named.
const REPLY: usize = 2048;

pub(super) fn settings(settings: &Settings<'_>, messages: &[Message]) -> Value {
    let Settings {
        model,
        stop,
        options,
        quirks,
        functions,
        schema,
    } = settings;
    let mut how = Map::new();
    if !stop.is_empty() && !quirks.no_stop {
        how.insert("stop".to_owned(), json!(stop));
    }
    if let Some(temperature) = options.temperature.filter(|_| !quirks.no_temperature) {
        how.insert("temperature".to_owned(), json!(temperature));
    }
    if let Some(most) = options.max_tokens {
        how.insert("num_predict".to_owned(), json!(most));
    }
    let reply = options.max_tokens.map_or(REPLY, |most| most as usize);
    let needed = tokens(&Request {
        messages,
        stop,
        ..Request::default()
    }) + reply;
    // Another size makes the server load the model anew: so it grows seldom, and by doubling.
    how.insert(
        "num_ctx".to_owned(),
        json!(needed.max(CONTEXT).next_power_of_two()),
    );
    let mut body = json!({ "model": model, "stream": options.stream, "options": how });
    if !functions.is_empty() {
        body["tools"] = openai::tools(functions);
    }
    if let Some(schema) = schema.filter(|_| !quirks.no_schema) {
        body["format"] = schema.clone();
    }
    body
}

pub(super) fn message(message: &Message) -> Value {
    let mut written = json!({ "role": message.role, "content": message.content });
    if !message.calls.is_empty() {
        let call = |call: &ToolCall| json!({ "function": { "name": call.name, "arguments": object(&call.args) } });
        written["tool_calls"] = message.calls.iter().map(call).collect();
    }
    if let Some(answered) = &message.answers {
        written["tool_name"] = json!(answered.name);
    }
    written
}

pub(super) fn read(body: &Value) -> Said {
    let message = &body["message"];
    let calls = message["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate();
    let done = body["done"] == true;
    Said {
        known: body["done"].is_boolean() || message.is_object(),
        text: text_at(message, "content").unwrap_or_default(),
        reasoned: text_at(message, "thinking").is_some(),
        calls: calls
            .map(|(index, call)| CallPiece {
                index,
                id: String::new(),
                name: text_at(&call["function"], "name").unwrap_or_default(),
                args: call["function"]["arguments"].to_string(),
            })
            .collect(),
        reason: text_at(body, "done_reason").or_else(|| done.then(|| "stop".to_owned())),
        usage: Usage {
            input_tokens: count(&body["prompt_eval_count"]),
            output_tokens: count(&body["eval_count"]),
        },
        over: done,
        ..Said::default()
    }
}
