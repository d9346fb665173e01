//! `http.*`: reading from the web, at addresses that the tool's author fixed.

use serde_json::{Map, Value};

use super::function::{Body, Escape, Function, Limits, Slot, text};
use super::{Effect, web};

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "http.get_json",
    description: "Get JSON from an address, or the part of it that a JSON pointer selects.",
    slots: &[
        Slot {
            name: "url",
            required: true,
            escape: Escape::Url,
        },
        Slot {
            name: "select",
            required: false,
            escape: Escape::Pointer,
        },
    ],
    effect: Effect::ReadsWorld,
    body: Body::Call(get_json),
    ..Function::PURE
}];

fn get_json(args: &Map<String, Value>, limits: &Limits) -> Result<Value, String> {
    let url = text(args, "url").unwrap_or_default();
    let mut body = web::json(url, limits)?;
    match text(args, "select") {
        None => Ok(body),
        Some(pointer) => match body.pointer_mut(pointer) {
            Some(part) => Ok(part.take()),
            None => Err(format!(
                "{} has nothing under {pointer}; check the arguments",
                web::host(url)
            )),
        },
    }
}
