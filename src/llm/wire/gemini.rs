//! Google's `generateContent`.
//!
//! Source: <https://ai.google.dev/api/generate-content>. The instructions stand apart, the model's
//! role is called `model`, and a reply that is withheld comes as a good response without text.

use serde_json::{Map, Value, json};

use super::{CallPiece, Said, Settings, count, instructions, object, text_at};
use crate::llm::Function;
use crate::session::event::{Message, Role, ToolCall, Usage};

pub(super) fn settings(settings: &Settings<'_>, messages: &[Message]) -> Value {
    let Settings {
        stop,
        options,
        quirks,
        functions,
        schema,
        ..
    } = settings;
    let mut how = Map::new();
    if !stop.is_empty() && !quirks.no_stop {
        how.insert("stopSequences".to_owned(), json!(stop));
    }
    if let Some(temperature) = options.temperature.filter(|_| !quirks.no_temperature) {
        how.insert("temperature".to_owned(), json!(temperature));
    }
    if let Some(most) = options.max_tokens {
        how.insert("maxOutputTokens".to_owned(), json!(most));
    }
    if schema.is_some() && !quirks.no_schema {
        how.insert("responseMimeType".to_owned(), json!("application/json"));
    }
    let mut body = Map::new();
    if !functions.is_empty() {
        let tool = |function: &Function| {
            json!({
                "name": function.name,
                "description": function.description,
                "parameters": narrowed(&function.parameters),
            })
        };
        let tools: Value = functions.iter().map(tool).collect();
        body.insert(
            "tools".to_owned(),
            json!([{ "functionDeclarations": tools }]),
        );
    }
    let system = instructions(messages);
    if !system.is_empty() {
        body.insert(
            "systemInstruction".to_owned(),
            json!({ "parts": [{ "text": system }] }),
        );
    }
    if !how.is_empty() {
        body.insert("generationConfig".to_owned(), Value::Object(how));
    }
    Value::Object(body)
}

/// A schema in the few words that are known here: one type for a value, or nothing in its place.
fn narrowed(schema: &Value) -> Value {
    let Value::Object(members) = schema else {
        return schema.clone();
    };
    let mut narrow = Map::new();
    for (name, value) in members {
        match (name.as_str(), value) {
            ("default", _) => {}
            ("type", Value::Array(kinds)) => {
                if let Some(kind) = kinds.iter().find(|kind| **kind != "null") {
                    narrow.insert(name.clone(), kind.clone());
                }
                if kinds.iter().any(|kind| *kind == "null") {
                    narrow.insert("nullable".to_owned(), json!(true));
                }
            }
            ("properties", Value::Object(params)) => {
                let params = params.iter();
                let params = params.map(|(name, param)| (name.clone(), narrowed(param)));
                narrow.insert(name.clone(), Value::Object(params.collect()));
            }
            _ => {
                narrow.insert(name.clone(), value.clone());
            }
        }
    }
    Value::Object(narrow)
}

pub(super) fn message(messages: &[Message]) -> Option<String> {
    let first = messages.first()?;
    let text = || json!({ "text": first.content });
    let (role, parts) = match first.role {
        Role::System => return None,
        Role::User => ("user", json!([text()])),
        Role::Assistant => {
            let said = Some(text()).filter(|_| !first.content.is_empty() || first.calls.is_empty());
            let call = |call: &ToolCall| json!({ "functionCall": { "name": call.name, "args": object(&call.args) } });
            let calls = first.calls.iter().map(call);
            ("model", said.into_iter().chain(calls).collect())
        }
        Role::Tool => {
            let result = |message: &Message| {
                let name = message.answers.as_ref().map(|answered| &answered.name);
                let response = json!({ "result": message.content });
                json!({ "functionResponse": { "name": name, "response": response } })
            };
            ("user", messages.iter().map(result).collect())
        }
    };
    Some(json!({ "role": role, "parts": parts }).to_string())
}

pub(super) fn read(body: &Value) -> Said {
    let candidate = &body["candidates"][0];
    let usage = &body["usageMetadata"];
    let blocked = text_at(&body["promptFeedback"], "blockReason");
    let mut said = Said {
        known: candidate.is_object()
            || blocked.is_some()
            || usage.is_object()
            || body["candidates"].is_array(),
        reason: blocked.or_else(|| text_at(candidate, "finishReason")),
        because: text_at(candidate, "finishMessage"),
        usage: Usage {
            input_tokens: count(&usage["promptTokenCount"]),
            output_tokens: count(&usage["candidatesTokenCount"])
                .map(|tokens| tokens + count(&usage["thoughtsTokenCount"]).unwrap_or(0)),
        },
        ..Said::default()
    };
    let parts = candidate["content"]["parts"].as_array();
    for (index, part) in parts.into_iter().flatten().enumerate() {
        if part["thought"] == true {
            said.reasoned = true;
        } else if let Some(text) = part["text"].as_str() {
            said.text += text;
        } else if let Some(name) = text_at(&part["functionCall"], "name") {
            let args = part["functionCall"]["args"].to_string();
            said.calls.push(CallPiece {
                index,
                id: String::new(),
                name,
                args,
            });
        }
    }
    said.reasoned |= count(&usage["thoughtsTokenCount"]).is_some_and(|tokens| tokens > 0);
    // The last piece of a stream has a reason; nothing marks the end but that.
    said
}
