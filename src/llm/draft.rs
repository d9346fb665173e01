//! A reply on its way: what has come so far.

use serde_json::Value;

use super::wire::{CallPiece, Said};
use crate::json;
use crate::session::event::{ToolCall, Usage};

/// Where a streamed reply is cut, as one that reached its limit.
pub(crate) const TEXT_LIMIT: usize = 1 << 20;
/// The most calls in one reply that are kept.
const CALLS: usize = 64;

/// A reply on its way.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) text: String,
    pub(crate) calls: Vec<CallPiece>,
    pub(crate) usage: Usage,
    pub(crate) reason: Option<String>,
    pub(crate) because: Option<String>,
    pub(crate) refusal: String,
    pub(crate) reasoned: bool,
    pub(crate) over: bool,
}

impl Draft {
    /// Adds what a response, or a piece of one, says.
    pub(crate) fn add(&mut self, said: Said) {
        self.text += &said.text;
        self.reasoned |= said.reasoned;
        self.over |= said.over;
        self.reason = said.reason.or(self.reason.take());
        self.because = said.because.or(self.because.take());
        self.refusal += said.refusal.as_deref().unwrap_or_default();
        self.refusal
            .truncate(self.refusal.floor_char_boundary(TEXT_LIMIT));
        let Usage {
            input_tokens,
            output_tokens,
        } = said.usage;
        self.usage.input_tokens = input_tokens.or(self.usage.input_tokens);
        self.usage.output_tokens = output_tokens.or(self.usage.output_tokens);
        for piece in said.calls {
            let more = self.calls.len() < CALLS;
            match self.calls.iter_mut().find(|call| call.index == piece.index) {
                Some(call) if call.args.len() < TEXT_LIMIT => {
                    call.id += &piece.id;
                    call.name += &piece.name;
                    call.args += &piece.args;
                }
                None if more => self.calls.push(piece),
                _ => {}
            }
        }
    }
}

/// The calls of a reply. One without an id, which few servers leave out, gets one by its place.
pub(crate) fn calls(pieces: Vec<CallPiece>) -> Vec<ToolCall> {
    // One without a name is for the model to be told of; one of nothing is none.
    let nothing = |piece: &CallPiece| piece.name.is_empty() && piece.args.trim().is_empty();
    let pieces = pieces.into_iter().filter(|piece| !nothing(piece));
    let call = |(at, piece): (usize, CallPiece)| ToolCall {
        id: match piece.id.is_empty() {
            true => format!("call_{at}"),
            false => piece.id,
        },
        name: piece.name,
        args: piece.args,
    };
    pieces.enumerate().map(call).collect()
}

/// A call in the endpoint's own form as the text that a model would write.
pub(crate) fn written_out(call: &CallPiece) -> String {
    let args =
        json::parse(call.args.as_bytes()).unwrap_or_else(|_| Value::String(call.args.clone()));
    let args = if call.args.trim().is_empty() {
        Value::Object(serde_json::Map::new())
    } else {
        args
    };
    format!(
        "Action: {}",
        serde_json::json!({ "tool": call.name, "args": args })
    )
}
