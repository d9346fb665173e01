//! The only place where a tool is run: when it is cleared, inside a span.

use std::rc::Rc;
use std::time::Instant;

use serde_json::Value;

use super::approval::Clearance;
use super::fence::fence;
use crate::error::Result;
use crate::interrupt;
use crate::secret::scrub;
use crate::session::event::SpanKind;
use crate::session::{Session, millis};
use crate::tool::call::Call;
use crate::tool::{Spec, Toolchain, output, text_of};

/// What an action came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Observation {
    /// The result, if the tool ran and succeeded.
    pub value: Option<Value>,
    /// How many bytes the result has as text, whole.
    pub size: usize,
    /// As much of it as the model is shown.
    pub text: String,
    /// The same in the form in which the model is shown it.
    pub told: String,
    /// How long it took, in milliseconds.
    pub ms: u64,
}

/// Runs tools.
pub struct Executor {
    tools: Rc<Toolchain>,
}

impl Executor {
    /// Runs the tools of this toolchain.
    pub fn new(tools: Rc<Toolchain>) -> Self {
        Self { tools }
    }

    /// Runs a call that was cleared. A tool that fails, and a call that was denied, are observations;
    /// an error means that the record could not be written.
    pub fn execute(
        &self,
        call: &Call,
        clearance: Clearance,
        session: &mut Session,
    ) -> Result<Observation> {
        let title = self.tools.display(call);
        session.span(SpanKind::Tool, &title, |span| {
            let begun = Instant::now();
            let result = match clearance {
                Clearance::Cleared { .. } => self.call(call),
                Clearance::Denied(why) | Clearance::Unapproved(why) => {
                    Err(format!("not allowed: {why}"))
                }
            };
            // What the tool gave when its wait was cut short is nobody's result.
            interrupt::check()?;
            // A key that a tool came upon is not the model's to see, let alone another model's.
            let whole = match &result {
                Ok(value) => scrub(&text_of(value)).into_owned(),
                Err(why) => format!("Error: {}", scrub(why)),
            };
            let limit = self
                .tools
                .find(&call.tool)
                .map_or(usize::MAX, |tool| tool.spec().max_output);
            let (text, told) = match cut(&whole, limit, self.tools.pager()) {
                None => (whole.clone(), fence(&whole, None)),
                Some((head, note, tail)) => (
                    format!("{head}\n{note}\n{tail}"),
                    fence(head, Some((&note, tail))),
                ),
            };
            let size = whole.len();
            match result.is_ok() {
                true => span.output(whole),
                false => span.failed(whole),
            }
            Ok(Observation {
                value: result.ok(),
                size,
                text,
                told,
                ms: millis(begun),
            })
        })
    }

    fn call(&self, call: &Call) -> std::result::Result<Value, String> {
        let tool = self
            .tools
            .find(&call.tool)
            .ok_or_else(|| format!("no tool `{}`", call.tool))?;
        // A key that hid in an escape sequence of the model's is no tool's to see.
        let args = call.args.iter();
        let args = args.map(|(name, value)| (name.clone(), scrubbed(value)));
        tool.call(&args.collect())
    }
}

/// A value without the keys of this process in its texts.
fn scrubbed(value: &Value) -> Value {
    match value {
        Value::String(text) => scrub(text).into(),
        Value::Array(items) => items.iter().map(scrubbed).collect(),
        Value::Object(map) => map
            .iter()
            .map(|(name, value)| (scrub(name).into_owned(), scrubbed(value)))
            .collect(),
        other => other.clone(),
    }
}

/// The beginning and the end of a text that is too long, and between them a note of what is missing, and of
/// how to see it if a tool can show it.
fn cut<'a>(
    text: &'a str,
    limit: usize,
    pager: Option<&Spec>,
) -> Option<(&'a str, String, &'a str)> {
    if text.len() <= limit {
        return None;
    }
    let head = &text[..text.floor_char_boundary(limit - limit / 4)];
    let tail = &text[text.ceil_char_boundary(text.len() - limit / 4)..];
    let missing = text.len() - head.len() - tail.len();
    let more = pager.map_or(String::new(), |pager| {
        format!(
            "; {}({}, {}) shows more",
            pager.name,
            output::keep(text),
            head.len()
        )
    });
    let note = format!("[{missing} bytes are not shown{more}]");
    Some((head, note, tail))
}
