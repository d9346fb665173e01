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

fn object(args: &str) -> Value {
    serde_json::from_str(args).unwrap_or_else(|_| json!({}))
}

/// A reply with calls in one body. Ids count from 1.
pub(crate) fn calling(wire: Wire, text: &str, calls: &[(String, String)]) -> Value {
    let mut body = whole(wire, text, "stop");
    let numbered = calls.iter().enumerate();
    match wire {
        Wire::OpenAi => {
            let call = |(at, (name, args)): (usize, &(String, String))| {
                json!({"id": format!("call_{}", at + 1), "type": "function",
                    "function": {"name": name, "arguments": args}})
            };
            let choice = &mut body["choices"][0];
            choice["finish_reason"] = json!("tool_calls");
            choice["message"]["content"] = if text.is_empty() {
                Value::Null
            } else {
                json!(text)
            };
            choice["message"]["tool_calls"] = numbered.map(call).collect();
        }
        Wire::Anthropic => {
            let call = |(at, (name, args)): (usize, &(String, String))| json!({"type": "tool_use", "id": format!("toolu_{}", at + 1), "name": name, "input": object(args)});
            let said = (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
            body["stop_reason"] = json!("tool_use");
            body["content"] = said.into_iter().chain(numbered.map(call)).collect();
        }
        Wire::Gemini => {
            let call = |(name, args): &(String, String)| json!({"functionCall": {"name": name, "args": object(args)}});
            let said = (!text.is_empty()).then(|| json!({"text": text}));
            body["candidates"][0]["content"]["parts"] =
                said.into_iter().chain(calls.iter().map(call)).collect();
        }
        Wire::Ollama => {
            let call = |(name, args): &(String, String)| json!({"function": {"name": name, "arguments": object(args)}});
            body["message"]["tool_calls"] = calls.iter().map(call).collect();
        }
    }
    body
}

/// The same as the pieces of a stream; arguments come in halves where the service sends them so.
pub(crate) fn called(wire: Wire, text: &str, calls: &[(String, String)]) -> Vec<String> {
    let mut frames = Vec::new();
    match wire {
        Wire::OpenAi => {
            frames.extend(begin(wire));
            frames.extend(pieces(wire, text));
            let mut delta = |call: Value| {
                let delta = json!({"tool_calls": [call]});
                frames.push(data(
                    &json!({"choices": [{"index": 0, "delta": delta, "finish_reason": null}]}),
                ));
            };
            for (at, (name, args)) in calls.iter().enumerate() {
                let half = args.floor_char_boundary(args.len() / 2);
                delta(
                    json!({"index": at, "id": format!("call_{}", at + 1), "type": "function",
                    "function": {"name": name, "arguments": ""}}),
                );
                delta(json!({"index": at, "function": {"arguments": args[..half]}}));
                delta(json!({"index": at, "function": {"arguments": args[half..]}}));
            }
            frames.extend(end(wire, text, "tool_calls", true));
        }
        Wire::Anthropic => {
            frames.extend(begin(wire));
            frames.extend(pieces(wire, text));
            for (at, (name, args)) in calls.iter().enumerate() {
                let half = args.floor_char_boundary(args.len() / 2);
                let block = json!({"type": "tool_use", "id": format!("toolu_{}", at + 1), "name": name, "input": {}});
                frames.push(event(&json!({"type": "content_block_start", "index": at + 1, "content_block": block})));
                for part in [&args[..half], &args[half..]] {
                    let delta = json!({"type": "input_json_delta", "partial_json": part});
                    frames.push(event(
                        &json!({"type": "content_block_delta", "index": at + 1, "delta": delta}),
                    ));
                }
                frames.push(event(
                    &json!({"type": "content_block_stop", "index": at + 1}),
                ));
            }
            frames.extend(end(wire, text, "tool_use", true));
        }
        Wire::Gemini => frames.push(lines(&calling(wire, text, calls))),
        Wire::Ollama => {
            let mut first = calling(wire, text, calls);
            first["done"] = json!(false);
            frames.push(format!("{first}\n"));
            frames.extend(end(wire, text, "stop", true));
        }
    }
    frames
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
