//! One scripted reply, and how it goes over the wire: whole, in pieces, cut, or without end.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::server::Request;

/// One scripted reply.
#[derive(Clone)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    delay: Duration,
    body: Body,
}

#[derive(Clone)]
enum Body {
    /// A chat completion: plain JSON or a stream, as the request asks.
    Chat { text: String, finish: &'static str },
    /// A chat completion whose stream or body breaks off after the text.
    Cut(String),
    /// A chat completion of the text and then this many bytes of filling.
    Long { text: String, bytes: usize },
    /// These bytes, as this type.
    Bytes { kind: String, bytes: Vec<u8> },
    /// `{"value": "xxx…"}` with this many bytes of filling.
    LongJson(usize),
    /// Nothing: the connection is closed.
    HangUp,
}

impl Reply {
    fn new(body: Body) -> Self {
        Reply {
            status: 200,
            headers: Vec::new(),
            delay: Duration::ZERO,
            body,
        }
    }

    pub(crate) fn chat(text: impl Into<String>) -> Self {
        let text = text.into();
        Reply::new(Body::Chat {
            text,
            finish: "stop",
        })
    }

    /// A reply that the token limit cut off, and that says so.
    pub(crate) fn truncated(text: impl Into<String>) -> Self {
        let text = text.into();
        Reply::new(Body::Chat {
            text,
            finish: "length",
        })
    }

    /// A body that ends in the middle, without saying so.
    pub(crate) fn cut(text: impl Into<String>) -> Self {
        Reply::new(Body::Cut(text.into()))
    }

    /// The text and then many more words.
    pub(crate) fn long(text: impl Into<String>, bytes: usize) -> Self {
        let text = text.into();
        Reply::new(Body::Long { text, bytes })
    }

    pub(crate) fn json(value: &Value) -> Self {
        Reply::bytes("application/json", value.to_string())
    }

    pub(crate) fn long_json(bytes: usize) -> Self {
        Reply::new(Body::LongJson(bytes))
    }

    /// An error in the shape that OpenAI gives it.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        let body = json!({"error": {"message": message, "type": "some_error", "code": null}});
        Reply {
            status,
            ..Reply::json(&body)
        }
    }

    pub(crate) fn page(status: u16, html: &str) -> Self {
        Reply {
            status,
            ..Reply::bytes("text/html; charset=utf-8", html)
        }
    }

    pub(crate) fn bytes(kind: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Reply::new(Body::Bytes {
            kind: kind.to_owned(),
            bytes: bytes.into(),
        })
    }

    pub(crate) fn hang_up() -> Self {
        Reply::new(Body::HangUp)
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Waits before the first byte.
    pub(crate) fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Waits and answers.
    pub(crate) fn send(&self, out: &mut impl Write, request: &Request) -> io::Result<Next> {
        thread::sleep(self.delay);
        let streamed = request.body["stream"] == true;
        match &self.body {
            Body::HangUp => return Ok(Next::Close),
            Body::Bytes { kind, bytes } => whole(out, self, kind, bytes)?,
            Body::LongJson(size) => {
                head(out, self, "application/json", "transfer-encoding: chunked")?;
                chunk(out, br#"{"value": ""#)?;
                fill(out, *size, |filling| filling.to_vec())?;
                chunk(out, br#""}"#)?;
                chunk(out, b"")?;
            }
            Body::Chat { text, finish } if streamed => {
                head(out, self, "text/event-stream", "transfer-encoding: chunked")?;
                deltas(out, text)?;
                let last = json!({"index": 0, "delta": {}, "finish_reason": finish});
                event(out, &json!({"choices": [last]}))?;
                if request.body["stream_options"]["include_usage"] == true {
                    event(out, &json!({"choices": [], "usage": usage(text)}))?;
                }
                chunk(out, b"data: [DONE]\n\n")?;
                chunk(out, b"")?;
            }
            Body::Chat { text, finish } => {
                let body = completion(text, finish).to_string();
                whole(out, self, "application/json", body.as_bytes())?;
            }
            Body::Cut(text) if streamed => {
                head(out, self, "text/event-stream", "transfer-encoding: chunked")?;
                deltas(out, text)?;
                return Ok(Next::Close);
            }
            Body::Cut(text) => {
                let body = completion(text, "stop").to_string();
                head(
                    out,
                    self,
                    "application/json",
                    &format!("content-length: {}", body.len()),
                )?;
                // The cut is behind the text, so that a reader that repairs JSON would find something to believe.
                let end = body.find("finish_reason").unwrap_or(body.len() / 2);
                out.write_all(&body.as_bytes()[..end])?;
                return Ok(Next::Close);
            }
            Body::Long { text, bytes } if streamed => {
                head(out, self, "text/event-stream", "transfer-encoding: chunked")?;
                deltas(out, text)?;
                fill(out, *bytes, |filling| {
                    let filling = String::from_utf8_lossy(filling);
                    data(&json!({"choices": [{"index": 0, "delta": {"content": filling}}]}))
                })?;
                chunk(out, b"data: [DONE]\n\n")?;
                chunk(out, b"")?;
            }
            Body::Long { text, bytes } => {
                head(out, self, "application/json", "transfer-encoding: chunked")?;
                let body = completion(text, "stop").to_string();
                let quoted = json!(text).to_string();
                let end = body.find(&quoted).expect("the text is in the body") + quoted.len() - 1;
                chunk(out, &body.as_bytes()[..end])?;
                fill(out, *bytes, |filling| filling.to_vec())?;
                chunk(out, &body.as_bytes()[end..])?;
                chunk(out, b"")?;
            }
        }
        Ok(Next::Keep)
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        Reply::chat(text)
    }
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Reply::chat(text)
    }
}

/// What becomes of the connection.
#[derive(PartialEq)]
pub(crate) enum Next {
    Keep,
    Close,
}

fn completion(text: &str, finish: &str) -> Value {
    json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "scripted",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}],
        "usage": usage(text),
    })
}

fn usage(text: &str) -> Value {
    let output = text.split_whitespace().count();
    json!({"prompt_tokens": 100, "completion_tokens": output, "total_tokens": 100 + output})
}

/// The text in pieces, so that markers and characters arrive split.
fn deltas(out: &mut impl Write, text: &str) -> io::Result<()> {
    event(
        out,
        &json!({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}),
    )?;
    let letters: Vec<char> = text.chars().collect();
    for piece in letters.chunks(5.max(letters.len() / 100)) {
        let piece: String = piece.iter().collect();
        event(
            out,
            &json!({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": null}]}),
        )?;
    }
    Ok(())
}

fn event(out: &mut impl Write, value: &Value) -> io::Result<()> {
    chunk(out, &data(value))
}

fn data(value: &Value) -> Vec<u8> {
    format!("data: {value}\n\n").into_bytes()
}

fn fill(out: &mut impl Write, size: usize, frame: impl Fn(&[u8]) -> Vec<u8>) -> io::Result<()> {
    let filling = "words ".repeat(4096);
    let frame = frame(filling.as_bytes());
    for _ in 0..size.div_ceil(filling.len()) {
        chunk(out, &frame)?;
    }
    Ok(())
}

fn whole(out: &mut impl Write, reply: &Reply, kind: &str, body: &[u8]) -> io::Result<()> {
    head(out, reply, kind, &format!("content-length: {}", body.len()))?;
    out.write_all(body)
}

fn head(out: &mut impl Write, reply: &Reply, kind: &str, framing: &str) -> io::Result<()> {
    let mut head = format!(
        "HTTP/1.1 {} Status\r\ncontent-type: {kind}\r\n{framing}\r\n",
        reply.status
    );
    for (name, value) in &reply.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    out.write_all(head.as_bytes())
}

fn chunk(out: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    let mut frame = format!("{:x}\r\n", bytes.len()).into_bytes();
    frame.extend_from_slice(bytes);
    frame.extend_from_slice(b"\r\n");
    out.write_all(&frame)
}
