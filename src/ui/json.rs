//! The events as JSON lines, in the shape that is promised to other programs.
//!
//! Each object has `type`, `time`, `session`, and `step` where it belongs to one. New types and
//! fields may come; none is renamed.

use serde_json::{Value, json};

use super::screen::Screen;
use super::text::json_line;
use crate::error::Result;
use crate::session::Sink;
use crate::session::event::{Event, Fact};

/// Prints one object a line on standard output.
pub struct Json {
    screen: Screen,
}

impl Json {
    /// Prints on this screen.
    pub fn new(screen: Screen) -> Self {
        Self { screen }
    }
}

impl Sink for Json {
    fn see(&mut self, event: &Event) -> Result<()> {
        let Some((kind, fields)) = object(&event.fact) else {
            return Ok(());
        };
        let mut line = json!({ "type": kind, "time": event.time, "session": event.session });
        if let (Some(step), Some(line)) = (event.step, line.as_object_mut()) {
            line.insert("step".to_owned(), step.into());
        }
        if let (Some(line), Value::Object(fields)) = (line.as_object_mut(), fields) {
            line.extend(fields);
        }
        self.screen.put(&json_line(&line.to_string()))
    }
}

/// The public type and fields of a fact; none for what only the record needs.
fn object(fact: &Fact) -> Option<(&'static str, Value)> {
    Some(match fact {
        Fact::Start(start) => ("start", json!(start)),
        Fact::Thought { text } => ("thought", json!({ "text": text })),
        Fact::Action { tool, args, .. } => ("action", json!({ "tool": tool, "args": args })),
        Fact::Observation { tool, ok, text, ms } => (
            "observation",
            json!({ "tool": tool, "ok": ok, "text": text, "ms": ms }),
        ),
        Fact::Malformed { why } => ("malformed", json!({ "why": why })),
        Fact::Closed(span) => (
            "span",
            json!({
                "id": span.id,
                "kind": span.kind,
                "title": span.title,
                "ok": span.ok,
                "ms": span.ms,
                "input_tokens": span.usage.input_tokens,
                "output_tokens": span.usage.output_tokens,
            }),
        ),
        Fact::Intervened { what, text } => ("intervention", json!({ "what": what, "text": text })),
        Fact::Notice { text } => ("notice", json!({ "text": text })),
        Fact::Answer { text } => ("answer", json!({ "text": text })),
        Fact::Error { text, hint, .. } => ("error", json!({ "text": text, "hint": hint })),
        Fact::End(end) => ("end", json!(end)),
        Fact::Opened { .. }
        | Fact::Verdict(_)
        | Fact::Withheld { .. }
        | Fact::Message(_)
        | Fact::Anew
        | Fact::Resumed
        | Fact::Replaced { .. }
        | Fact::Text { .. } => return None,
    })
}
