//! OpenAI's chat completions.
//!
//! Source: <https://platform.openai.com/docs/api-reference/chat>. Servers that follow it differ in
//! everything but a choice with text in it.

use serde_json::{Map, Value, json};

use super::{CallPiece, Said, Settings, count, text_at};
use crate::llm::Function;
use crate::session::event::{Message, ToolCall, Usage};

/// The most stop texts that are taken.
const STOPS: usize = 4;

pub(super) fn settings(settings: &Settings<'_>) -> Value {
    let Settings {
        model,
        stop,
        options,
        quirks,
        functions,
        schema,
    } = settings;
    let mut body = Map::new();
    body.insert("model".to_owned(), json!(model));
    body.insert("stream".to_owned(), json!(options.stream));
    if !stop.is_empty() && !quirks.no_stop {
        body.insert("stop".to_owned(), json!(stop[..stop.len().min(STOPS)]));
    }
    if let Some(temperature) = options.temperature.filter(|_| !quirks.no_temperature) {
        body.insert("temperature".to_owned(), json!(temperature));
    }
    if let Some(most) = options.max_tokens {
        let name = if quirks.completion_tokens {
            "max_completion_tokens"
        } else {
            "max_tokens"
        };
        body.insert(name.to_owned(), json!(most));
    }
    if options.stream && !quirks.no_stream_options {
        body.insert(
            "stream_options".to_owned(),
            json!({ "include_usage": true }),
        );
    }
    if !functions.is_empty() {
        body.insert("tools".to_owned(), tools(functions));
    }
    if let Some(schema) = schema.filter(|_| !quirks.no_schema) {
        let schema = json!({ "name": "decision", "schema": schema });
        body.insert(
            "response_format".to_owned(),
            json!({ "type": "json_schema", "json_schema": schema }),
        );
    }
    Value::Object(body)
}

/// The functions that may be called.
pub(super) fn tools(functions: &[Function]) -> Value {
    let tool = |function: &Function| {
        json!({ "type": "function", "function": {
            "name": function.name,
            "description": function.description,
            "parameters": function.parameters,
        } })
    };
    functions.iter().map(tool).collect()
}

pub(super) fn message(message: &Message) -> Value {
    let mut written = json!({ "role": message.role, "content": message.content });
    if !message.calls.is_empty() {
        let call = |call: &ToolCall| {
            let function = json!({ "name": call.name, "arguments": call.args });
            json!({ "id": call.id, "type": "function", "function": function })
        };
        written["tool_calls"] = message.calls.iter().map(call).collect();
    }
    if let Some(answered) = &message.answers {
        written["tool_call_id"] = json!(answered.id);
    }
    written
}

pub(super) fn whole(body: &Value) -> Said {
    let choice = &body["choices"][0];
    let mut said = read(choice, &choice["message"], body);
    said.known = choice.is_object();
    // Some old servers give the shape of plain completions.
    said.text += choice["text"].as_str().unwrap_or_default();
    said.over = true;
    said
}

pub(super) fn piece(piece: &Value) -> Said {
    let choice = &piece["choices"][0];
    // Some gateways answer with one whole message where pieces were asked for.
    let delta = if choice["delta"].is_object() {
        &choice["delta"]
    } else {
        &choice["message"]
    };
    Said {
        known: true,
        ..read(choice, delta, piece)
    }
}

fn read(choice: &Value, message: &Value, body: &Value) -> Said {
    let reasoned = ["reasoning_content", "reasoning", "thinking"]
        .iter()
        .any(|key| message[*key].as_str().is_some_and(|text| !text.is_empty()));
    let parts = message["content"].as_array();
    let calls = message["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate();
    let calls = calls.map(|(at, call)| CallPiece {
        index: call["index"]
            .as_u64()
            .and_then(|index| index.try_into().ok())
            .unwrap_or(at),
        id: text_at(call, "id").unwrap_or_default(),
        name: text_at(&call["function"], "name").unwrap_or_default(),
        args: match &call["function"]["arguments"] {
            Value::String(args) => args.clone(),
            Value::Null => String::new(),
            other => other.to_string(),
        },
    });
    Said {
        known: true,
        text: text(&message["content"]),
        reasoned: reasoned
            || parts.is_some_and(|parts| parts.iter().any(|part| part["type"] == "thinking")),
        calls: calls.collect(),
        reason: choice["finish_reason"].as_str().map(str::to_owned),
        because: None,
        refusal: text_at(message, "refusal"),
        usage: Usage {
            input_tokens: count(&body["usage"]["prompt_tokens"]),
            output_tokens: count(&body["usage"]["completion_tokens"]),
        },
        over: false,
    }
}

/// The text of a message: as it is, or the text parts of a list put together.
fn text(content: &Value) -> String {
    let part = |part: &Value| match part {
        Value::String(text) => Some(text.clone()),
        part if matches!(part["type"].as_str(), None | Some("text" | "output_text")) => {
            part["text"].as_str().map(str::to_owned)
        }
        _ => None,
    };
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(part).collect(),
        _ => String::new(),
    }
}
