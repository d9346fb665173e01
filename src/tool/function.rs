//! The built-in functions that tools are made of. Each describes itself; `tools.toml` gives them
//! names, narrows them and binds some of their arguments.

use std::time::Duration;

use serde_json::{Map, Value};

use super::params::Param;
use super::{Effect, crypto, http, math, output, time, weather, wikipedia};

/// A built-in function.
pub(crate) struct Function {
    /// `family.name`.
    pub(crate) name: &'static str,
    /// What it does, in a sentence.
    pub(crate) description: &'static str,
    /// The parameters that the model gives, unless a tool binds them.
    pub(crate) params: fn() -> Vec<Param>,
    /// Whether it takes any other parameters that a tool declares.
    pub(crate) open: bool,
    /// Arguments that only a tool can give, by binding them.
    pub(crate) slots: &'static [Slot],
    /// What running it can change or reveal.
    pub(crate) effect: Effect,
    /// Whether a result of it may end the query.
    pub(crate) ends: bool,
    /// The work.
    pub(crate) body: Body,
}

/// The work of a function.
pub(crate) enum Body {
    /// On all its arguments.
    Call(fn(&Map<String, Value>, &Limits) -> Result<Value, String>),
    /// On two numbers, `x` and `y`.
    Numbers(math::Operation),
}

/// An argument that only a tool can give.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) name: &'static str,
    /// Whether a tool has to bind it.
    pub(crate) required: bool,
    /// How the model's arguments are escaped inside it.
    pub(crate) escape: Escape,
}

/// How an argument is escaped where it is put into a bound value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Not at all.
    None,
    /// Percent-encoded, so that it stays one piece of a path or a query.
    Url,
    /// As a JSON pointer wants it (RFC 6901).
    Pointer,
}

/// What a call may take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) timeout: Duration,
}

impl Function {
    /// What most functions have in common.
    pub(crate) const PURE: Self = Self {
        name: "",
        description: "",
        params: Vec::new,
        open: false,
        slots: &[],
        effect: Effect::Pure,
        ends: false,
        body: Body::Call(|_, _| Ok(Value::Null)),
    };

    /// Runs it.
    pub(crate) fn run(&self, args: &Map<String, Value>, limits: &Limits) -> Result<Value, String> {
        match self.body {
            Body::Call(call) => call(args, limits),
            Body::Numbers(operation) => operation.run(args),
        }
    }
}

/// Every built-in function.
pub(crate) fn all() -> impl Iterator<Item = &'static Function> {
    const ECHO: Function = Function {
        name: "debug.echo",
        description: "Gives its arguments back as JSON.",
        open: true,
        body: Body::Call(|args, _| Ok(Value::Object(args.clone()))),
        ..Function::PURE
    };
    const END: Function = Function {
        name: "debug.end",
        description: "Gives its arguments back as JSON, and ends the query if `done` is true.",
        ends: true,
        ..ECHO
    };
    const DEBUG: &[Function] = &[ECHO, END];
    const FAMILIES: &[&[Function]] = &[
        math::FUNCTIONS,
        wikipedia::FUNCTIONS,
        weather::FUNCTIONS,
        crypto::FUNCTIONS,
        time::FUNCTIONS,
        http::FUNCTIONS,
        output::FUNCTIONS,
        DEBUG,
    ];
    FAMILIES.iter().copied().flatten()
}

/// The argument as text.
pub(crate) fn text<'a>(args: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    args.get(name).and_then(Value::as_str)
}
