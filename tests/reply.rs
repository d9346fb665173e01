//! One scripted reply, and how it goes over the wire: whole, in pieces, cut, or without end.

use std::io::{self, Write};
use std::thread;
use std::time::Duration;

use reagent::llm::wire::Wire;
use serde_json::{Value, json};

use crate::server::Request;
use crate::service;

/// The engines.
pub(crate) const ENGINES: [&str; 3] = ["react", "native", "plan"];

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
    /// A reply: one body or a stream, as the request asks.
    Chat { text: String, finish: &'static str },
    /// A reply that calls functions in the service's own form: names and arguments as JSON.
    Calls {
        text: String,
        calls: Vec<(String, String)>,
    },
    /// A reply whose stream or body breaks off after the text.
    Cut(String),
    /// A reply of the text and then this many bytes of filling.
    Long { text: String, bytes: usize },
    /// A reply of the text and then a few words more every few milliseconds, without end.
    Drip(String),
    /// An error with this message.
    Error(String),
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

    /// A reply that calls this tool, with a thought before it, as a model in this engine writes it.
    pub(crate) fn action(engine: &str, tool: &str, args: &Value) -> Self {
        let call = json!({"tool": tool, "args": args});
        match engine {
            "react" => Reply::chat(format!("Thought1: So.\nAction1: {call}")),
            "native" => Reply::calls("So.", &[(tool, args.clone())]),
            _ => {
                let decision =
                    json!({"thought": "So.", "action": tool, "params": args, "confidence": 0.9});
                Reply::chat(decision.to_string())
            }
        }
    }

    /// A reply that is an answer, as a model in this engine writes it.
    pub(crate) fn answer(engine: &str, text: &str) -> Self {
        match engine {
            "react" => Reply::chat(format!("Answer: {text}")),
            "native" => Reply::chat(text),
            _ => Reply::decision("finish", &json!({"answer": text}), &json!(1.0)),
        }
    }

    /// A decision in the engine `plan`.
    pub(crate) fn decision(action: &str, params: &Value, confidence: &Value) -> Self {
        let decision = json!({"action": action, "params": params, "confidence": confidence});
        Reply::chat(decision.to_string())
    }

    /// A reply that the token limit cut off, and that says so.
    pub(crate) fn truncated(text: impl Into<String>) -> Self {
        let text = text.into();
        Reply::new(Body::Chat {
            text,
            finish: "length",
        })
    }

    /// Some text, and calls of functions with their arguments.
    pub(crate) fn calls(text: &str, calls: &[(&str, Value)]) -> Self {
        let calls = calls.iter();
        Reply::new(Body::Calls {
            text: text.to_owned(),
            calls: calls
                .map(|(name, args)| ((*name).to_owned(), args.to_string()))
                .collect(),
        })
    }

    /// A call of a function with arguments that are as they are.
    pub(crate) fn raw_call(name: &str, args: &str) -> Self {
        let (text, calls) = (String::new(), vec![(name.to_owned(), args.to_owned())]);
        Reply::new(Body::Calls { text, calls })
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

    /// The text and then a few more words every few milliseconds, for ever.
    pub(crate) fn drip(text: impl Into<String>) -> Self {
        Reply::new(Body::Drip(text.into()))
    }

    pub(crate) fn json(value: &Value) -> Self {
        Reply::bytes("application/json", value.to_string())
    }

    pub(crate) fn long_json(bytes: usize) -> Self {
        Reply::new(Body::LongJson(bytes))
    }

    /// An error in the shape that the service gives it.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        Reply::new(Body::Error(message.to_owned())).status(status)
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

    /// Waits and answers, in the format that the request is in.
    pub(crate) fn send(&self, out: &mut impl Write, request: &Request) -> io::Result<Next> {
        thread::sleep(self.delay);
        let (wire, streamed) = (service::wire(request), service::streams(request));
        match &self.body {
            Body::HangUp => return Ok(Next::Close),
            Body::Bytes { kind, bytes } => whole(out, self, kind, bytes)?,
            Body::Error(message) => {
                let body = service::error(wire, self.status, message).to_string();
                whole(out, self, "application/json", body.as_bytes())?;
            }
            Body::LongJson(size) => {
                chunked(out, self, "application/json")?;
                chunk(out, br#"{"value": ""#)?;
                fill(out, *size, str::to_owned)?;
                chunk(out, br#""}"#)?;
                chunk(out, b"")?;
            }
            Body::Chat { text, finish } if streamed => {
                deltas(out, self, wire, text)?;
                let usage = request.body["stream_options"]["include_usage"] == true;
                for frame in service::end(wire, text, finish, usage) {
                    chunk(out, frame.as_bytes())?;
                }
                chunk(out, b"")?;
            }
            Body::Chat { text, finish } => {
                let body = service::whole(wire, text, finish).to_string();
                if wire == Wire::Gemini {
                    // Google sends also a whole body in chunks.
                    chunked(out, self, "application/json; charset=UTF-8")?;
                    chunk(out, body.as_bytes())?;
                    chunk(out, b"")?;
                } else {
                    whole(out, self, "application/json", body.as_bytes())?;
                }
            }
            Body::Calls { text, calls } if streamed => {
                chunked(out, self, service::kind(wire))?;
                for frame in service::called(wire, text, calls) {
                    chunk(out, frame.as_bytes())?;
                }
                chunk(out, b"")?;
            }
            Body::Calls { text, calls } => {
                let body = service::calling(wire, text, calls).to_string();
                whole(out, self, "application/json", body.as_bytes())?;
            }
            Body::Cut(text) if streamed => {
                deltas(out, self, wire, text)?;
                return Ok(Next::Close);
            }
            Body::Cut(text) => {
                let body = service::whole(wire, text, "stop").to_string();
                let framing = format!("content-length: {}", body.len());
                head(out, self, "application/json", &framing)?;
                // The cut is behind the text, so that a reader that repairs JSON would find something to believe.
                out.write_all(&body.as_bytes()[..end_of(&body, text) + 1])?;
                return Ok(Next::Close);
            }
            Body::Drip(text) => {
                let more = if streamed {
                    deltas(out, self, wire, text)?;
                    service::piece(wire, "more ")
                } else {
                    chunked(out, self, "application/json")?;
                    let body = service::whole(wire, text, "stop").to_string();
                    chunk(out, &body.as_bytes()[..end_of(&body, text)])?;
                    "more ".to_owned()
                };
                loop {
                    chunk(out, more.as_bytes())?;
                    thread::sleep(Duration::from_millis(5));
                }
            }
            Body::Long { text, bytes } if streamed => {
                deltas(out, self, wire, text)?;
                fill(out, *bytes, |filling| service::piece(wire, filling))?;
                for frame in service::end(wire, text, "stop", false) {
                    chunk(out, frame.as_bytes())?;
                }
                chunk(out, b"")?;
            }
            Body::Long { text, bytes } => {
                chunked(out, self, "application/json")?;
                let body = service::whole(wire, text, "stop").to_string();
                let end = end_of(&body, text);
                chunk(out, &body.as_bytes()[..end])?;
                fill(out, *bytes, str::to_owned)?;
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

/// A stream up to the end of the text.
fn deltas(out: &mut impl Write, reply: &Reply, wire: Wire, text: &str) -> io::Result<()> {
    chunked(out, reply, service::kind(wire))?;
    let mut frames = service::begin(wire);
    frames.extend(service::pieces(wire, text));
    frames
        .iter()
        .try_for_each(|frame| chunk(out, frame.as_bytes()))
}

/// Where the text ends in a body, before the quotation mark.
fn end_of(body: &str, text: &str) -> usize {
    let quoted = json!(text).to_string();
    body.find(&quoted).expect("the text is in the body") + quoted.len() - 1
}

fn fill(out: &mut impl Write, size: usize, frame: impl Fn(&str) -> String) -> io::Result<()> {
    let filling = "words ".repeat(4096);
    let frame = frame(&filling);
    for _ in 0..size.div_ceil(filling.len()) {
        chunk(out, frame.as_bytes())?;
    }
    Ok(())
}

fn whole(out: &mut impl Write, reply: &Reply, kind: &str, body: &[u8]) -> io::Result<()> {
    head(out, reply, kind, &format!("content-length: {}", body.len()))?;
    out.write_all(body)
}

fn chunked(out: &mut impl Write, reply: &Reply, kind: &str) -> io::Result<()> {
    head(out, reply, kind, "transfer-encoding: chunked")
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
