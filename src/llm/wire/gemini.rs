//! Google's `generateContent`.
//!
//! Source: <https://ai.google.dev/api/generate-content>. The instructions stand apart, the model's
//! role is called `model`, and a reply that is withheld comes as a good response without text.

use serde_json::{Map, Value, json};

use super::{CallPiece, Said, Settings, count, instructions, text_at};
use crate::session::event::{Message, Role, Usage};

pub(super) fn settings(settings: &Settings<'_>, messages: &[Message]) -> Value {
    let Settings {
        stop,
        options,
        quirks,
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
    let mut body = Map::new();
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

pub(super) fn message(message: &Message) -> Option<String> {
    let role = match message.role {
        Role::System => return None,
        Role::User => "user",
        Role::Assistant => "model",
    };
    Some(json!({ "role": role, "parts": [{ "text": message.content }] }).to_string())
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
            said.calls.push(CallPiece { index, name, args });
        }
    }
    said.reasoned |= count(&usage["thoughtsTokenCount"]).is_some_and(|tokens| tokens > 0);
    // The last piece of a stream has a reason; nothing marks the end but that.
    said
}
