//! How the services write what they send: a reply as one body or as the pieces of a stream, and an error.

use reagent::llm::wire::Wire;
use serde_json::{Value, json};

use crate::server::Request;

/// Every format.
pub(crate) const WIRES: [Wire; 4] = [Wire::OpenAi, Wire::Anthropic, Wire::Gemini, Wire::Ollama];

/// Tokens of every question.
pub(crate) const INPUT: usize = 100;

/// The format of a request, by the address it was sent to.
pub(crate) fn wire(request: &Request) -> Wire {
    match request.path.split('?').next().unwrap_or_default() {
        path if path.ends_with("/messages") => Wire::Anthropic,
        path if path.ends_with("/api/chat") => Wire::Ollama,
        path if path.ends_with("enerateContent") => Wire::Gemini,
        _ => Wire::OpenAi,
    }
}

/// Whether a request is answered by a stream.
pub(crate) fn streams(request: &Request) -> bool {
    match wire(request) {
        Wire::Gemini => request.path.contains(":streamGenerateContent?alt=sse"),
        // Without being told, Ollama streams.
        Wire::Ollama => request.body["stream"] != false,
        _ => request.body["stream"] == true,
    }
}

/// The type of a stream.
pub(crate) fn kind(wire: Wire) -> &'static str {
    match wire {
        Wire::Anthropic => "text/event-stream; charset=utf-8",
        Wire::Ollama => "application/x-ndjson",
        Wire::OpenAi | Wire::Gemini => "text/event-stream",
    }
}

/// Tokens of a reply.
fn output(text: &str) -> usize {
    text.split_whitespace().count()
}

/// Why the reply ended, in the service's word; given in that of OpenAI.
fn reason(wire: Wire, finish: &str) -> &str {
    match (wire, finish) {
        (Wire::Anthropic, "stop") => "end_turn",
        (Wire::Anthropic, "length") => "max_tokens",
        (Wire::Gemini, "stop") => "STOP",
        (Wire::Gemini, "length") => "MAX_TOKENS",
        _ => finish,
    }
}

fn openai_usage(text: &str) -> Value {
    let output = output(text);
    json!({"prompt_tokens": INPUT, "completion_tokens": output, "total_tokens": INPUT + output})
}

fn anthropic_usage(output: usize) -> Value {
    json!({
        "input_tokens": INPUT, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": output,
    })
}

fn gemini(text: &str, finish: Option<(&str, &str)>) -> Value {
    let content = json!({"parts": [{"text": text}], "role": "model"});
    let mut body = json!({
        "candidates": [{"content": content, "index": 0}],
        "usageMetadata": {"promptTokenCount": INPUT, "totalTokenCount": INPUT},
        "modelVersion": "scripted",
    });
    if let Some((finish, whole)) = finish {
        body["candidates"][0]["finishReason"] = json!(reason(Wire::Gemini, finish));
        body["usageMetadata"]["candidatesTokenCount"] = json!(output(whole));
        body["usageMetadata"]["totalTokenCount"] = json!(INPUT + output(whole));
    }
    body
}

fn ollama(text: &str, finish: Option<(&str, &str)>) -> Value {
    let mut line = json!({
        "model": "scripted", "created_at": "2025-01-20T10:53:23.717649Z",
        "message": {"role": "assistant", "content": text}, "done": finish.is_some(),
    });
    if let Some((finish, whole)) = finish {
        line["done_reason"] = json!(finish);
        line["prompt_eval_count"] = json!(INPUT);
        line["eval_count"] = json!(output(whole));
    }
    line
}

/// A reply in one body.
pub(crate) fn whole(wire: Wire, text: &str, finish: &str) -> Value {
    match wire {
        Wire::OpenAi => json!({
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted",
            "choices": [{
                "index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish,
            }],
            "usage": openai_usage(text),
        }),
        Wire::Anthropic => json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted",
            "content": [{"type": "text", "text": text}],
            "stop_reason": reason(wire, finish), "stop_sequence": null,
            "usage": anthropic_usage(output(text)),
        }),
        Wire::Gemini => gemini(text, Some((finish, text))),
        Wire::Ollama => ollama(text, Some((finish, text))),
    }
}

/// The beginning of a stream.
pub(crate) fn begin(wire: Wire) -> Vec<String> {
    match wire {
        Wire::OpenAi => vec![data(&json!({
            "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}],
        }))],
        Wire::Anthropic => {
            let message = json!({
                "id": "msg_1", "type": "message", "role": "assistant", "model": "scripted", "content": [],
                "stop_reason": null, "stop_sequence": null, "usage": anthropic_usage(1),
            });
            let block = json!({"type": "text", "text": ""});
            vec![
                event(&json!({"type": "message_start", "message": message})),
                event(&json!({"type": "content_block_start", "index": 0, "content_block": block})),
                event(&json!({"type": "ping"})),
            ]
        }
        Wire::Gemini | Wire::Ollama => Vec::new(),
    }
}

/// A piece of the text.
pub(crate) fn piece(wire: Wire, text: &str) -> String {
    match wire {
        Wire::OpenAi => data(&json!({
            "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}],
        })),
        Wire::Anthropic => event(&json!({
            "type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text},
        })),
        Wire::Gemini => lines(&gemini(text, None)),
        Wire::Ollama => format!("{}\n", ollama(text, None)),
    }
}

/// The text in pieces, so that markers and characters arrive split.
pub(crate) fn pieces(wire: Wire, text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    let pieces = letters.chunks(5.max(letters.len() / 100));
    pieces
        .map(|letters| piece(wire, &letters.iter().collect::<String>()))
        .collect()
}

/// The end of a stream. `usage` says that the request asks OpenAI for it; the others always tell.
pub(crate) fn end(wire: Wire, text: &str, finish: &str, usage: bool) -> Vec<String> {
    match wire {
        Wire::OpenAi => {
            let last = json!({"index": 0, "delta": {}, "finish_reason": finish});
            let mut frames = vec![data(&json!({"choices": [last]}))];
            if usage {
                frames.push(data(&json!({"choices": [], "usage": openai_usage(text)})));
            }
            frames.push("data: [DONE]\n\n".to_owned());
            frames
        }
        Wire::Anthropic => {
            let delta = json!({"stop_reason": reason(wire, finish), "stop_sequence": null});
            let usage = json!({"output_tokens": output(text)});
            vec![
                event(&json!({"type": "content_block_stop", "index": 0})),
                event(&json!({"type": "message_delta", "delta": delta, "usage": usage})),
                event(&json!({"type": "message_stop"})),
            ]
        }
        Wire::Gemini => vec![lines(&gemini("", Some((finish, text))))],
        Wire::Ollama => vec![format!("{}\n", ollama("", Some((finish, text))))],
    }
}

/// An error.
pub(crate) fn error(wire: Wire, status: u16, message: &str) -> Value {
    match wire {
        Wire::OpenAi => {
            json!({"error": {"message": message, "type": "some_error", "code": null}})
        }
        Wire::Anthropic => {
            let kind = match status {
                401 => "authentication_error",
                404 => "not_found_error",
                529 => "overloaded_error",
                500.. => "api_error",
                _ => "invalid_request_error",
            };
            json!({"type": "error", "error": {"type": kind, "message": message}})
        }
        Wire::Gemini => {
            let word = match status {
                401 => "UNAUTHENTICATED",
                404 => "NOT_FOUND",
                500.. => "INTERNAL",
                _ => "INVALID_ARGUMENT",
            };
            json!({"error": {"code": status, "message": message, "status": word}})
        }
        Wire::Ollama => json!({"error": message}),
    }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

/// Anthropic names its events.
fn event(value: &Value) -> String {
    let name = value["type"].as_str().expect("an event has a type");
    format!("event: {name}\n{}", data(value))
}

/// Google ends its lines as the standards of old do.
fn lines(value: &Value) -> String {
    format!("data: {value}\r\n\r\n")
}
