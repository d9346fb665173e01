//! Anthropic's messages.
//!
//! Source: <https://docs.anthropic.com/en/api/messages>. The instructions stand apart, the longest
//! reply has to be named, and a streamed reply is a series of events of different types.

use serde_json::{Map, Value, json};

use super::{CallPiece, Said, Settings, count, instructions, object, text_at};
use crate::llm::Function;
use crate::session::event::{Message, Role, ToolCall, Usage};

/// The longest reply when none was named; every model allows it.
const LONGEST: u32 = 4096;

pub(super) fn settings(settings: &Settings<'_>, messages: &[Message]) -> Value {
    let Settings {
        model,
        stop,
        options,
        quirks,
        functions,
        ..
    } = settings;
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert(
        "max_tokens".to_owned(),
        json!(options.max_tokens.unwrap_or(LONGEST)),
    );
    body.insert("stream".to_owned(), json!(options.stream));
    let system = instructions(messages);
    if !system.is_empty() {
        body.insert("system".to_owned(), json!(system));
    }
    if !stop.is_empty() && !quirks.no_stop {
        body.insert("stop_sequences".to_owned(), json!(stop));
    }
    if let Some(temperature) = options.temperature.filter(|_| !quirks.no_temperature) {
        body.insert("temperature".to_owned(), json!(temperature.min(1.0)));
    }
    if !functions.is_empty() {
        let tool = |function: &Function| {
            json!({
                "name": function.name,
                "description": function.description,
                "input_schema": function.parameters,
            })
        };
        body.insert("tools".to_owned(), functions.iter().map(tool).collect());
    }
    Value::Object(body)
}

pub(super) fn message(messages: &[Message]) -> Option<String> {
    let first = messages.first()?;
    // A last turn of the model must not end in a blank.
    let text = first.content.trim_end();
    let written = match first.role {
        Role::System => return None,
        Role::Tool => {
            let result = |message: &Message| {
                let id = message.answers.as_ref().map(|answered| &answered.id);
                json!({ "type": "tool_result", "tool_use_id": id, "content": message.content })
            };
            let results: Value = messages.iter().map(result).collect();
            json!({ "role": "user", "content": results })
        }
        _ if first.calls.is_empty() => json!({ "role": first.role, "content": text }),
        _ => {
            let said = Some(json!({ "type": "text", "text": text })).filter(|_| !text.is_empty());
            let call = |call: &ToolCall| {
                let input = object(&call.args);
                json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": input })
            };
            let blocks: Value = said
                .into_iter()
                .chain(first.calls.iter().map(call))
                .collect();
            json!({ "role": "assistant", "content": blocks })
        }
    };
    Some(written.to_string())
}

pub(super) fn whole(body: &Value) -> Said {
    let blocks = body["content"].as_array();
    let mut said = Said {
        known: blocks.is_some(),
        reason: text_at(body, "stop_reason"),
        because: text_at(&body["stop_details"], "explanation"),
        usage: usage(&body["usage"]),
        over: true,
        ..Said::default()
    };
    for (index, block) in blocks.into_iter().flatten().enumerate() {
        match block["type"].as_str() {
            Some("text") => said.text += block["text"].as_str().unwrap_or_default(),
            Some("tool_use") => said.calls.push(CallPiece {
                index,
                id: text_at(block, "id").unwrap_or_default(),
                name: text_at(block, "name").unwrap_or_default(),
                args: block["input"].to_string(),
            }),
            Some("thinking" | "redacted_thinking") => said.reasoned = true,
            _ => {}
        }
    }
    said
}

pub(super) fn piece(event: &Value) -> Said {
    let delta = &event["delta"];
    let index = event["index"]
        .as_u64()
        .and_then(|index| index.try_into().ok())
        .unwrap_or(0);
    let mut said = Said {
        known: true,
        ..Said::default()
    };
    match event["type"].as_str().unwrap_or_default() {
        "message_start" => said.usage = usage(&event["message"]["usage"]),
        "content_block_start" => {
            let block = &event["content_block"];
            said.text = text_at(block, "text").unwrap_or_default();
            if block["type"] == "tool_use" {
                let name = text_at(block, "name").unwrap_or_default();
                said.calls.push(CallPiece {
                    index,
                    id: text_at(block, "id").unwrap_or_default(),
                    name,
                    args: String::new(),
                });
            }
        }
        "content_block_delta" => {
            said.text = text_at(delta, "text").unwrap_or_default();
            said.reasoned = delta["thinking"].is_string();
            if let Some(args) = text_at(delta, "partial_json") {
                said.calls.push(CallPiece {
                    index,
                    args,
                    ..CallPiece::default()
                });
            }
        }
        "message_delta" => {
            said.reason = text_at(delta, "stop_reason");
            said.because = text_at(&delta["stop_details"], "explanation");
            said.usage = usage(&event["usage"]);
        }
        "message_stop" => said.over = true,
        _ => {}
    }
    said
}

/// What was read from a cache or put into it has been read as well.
fn usage(counters: &Value) -> Usage {
    let cached = ["cache_read_input_tokens", "cache_creation_input_tokens"];
    let cached: u64 = cached.iter().filter_map(|key| count(&counters[*key])).sum();
    Usage {
        input_tokens: count(&counters["input_tokens"]).map(|tokens| tokens + cached),
        output_tokens: count(&counters["output_tokens"]),
    }
}
