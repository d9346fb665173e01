//! What a run knows besides the conversation: a JSON object, after AgentRuntime's state.
//!
//! A tool that says so ([`Spec::keeps`](crate::tool::Spec)) puts its results there; policies and planners
//! read it. It costs nothing while it is empty.

use std::rc::Rc;

use serde_json::{Map, Value};

use crate::session::Session;
use crate::session::event::SpanKind;

/// A JSON object that belongs to one run.
///
/// ```
/// use reagent::engine::state::State;
/// use serde_json::json;
///
/// let mut state = State::default();
/// state.apply(&json!({ "cart": { "apples": 2 }, "seen": [1, 2] }));
/// let before = state.snapshot();
/// state.apply(&json!({ "cart": { "pears": 1 }, "seen": [3] }));
/// assert_eq!(
///     state.snapshot(),
///     json!({ "cart": { "apples": 2, "pears": 1 }, "seen": [3] })
/// );
/// assert_eq!(before, json!({ "cart": { "apples": 2 }, "seen": [1, 2] }));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct State(Rc<Map<String, Value>>);

impl State {
    /// A copy of all of it, an object. Whatever is done to the copy, the state stays as it is.
    pub fn snapshot(&self) -> Value {
        Value::Object((*self.0).clone())
    }

    /// What stands under this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Merges an object into it: objects within objects member by member, at any depth; everything else,
    /// lists included, takes the place of what was there. What is no object changes nothing. Says whether
    /// it was one.
    pub fn apply(&mut self, result: &Value) -> bool {
        if let Value::Object(members) = result {
            merge(Rc::make_mut(&mut self.0), members);
        }
        result.is_object()
    }
}

/// The name of the spans in which results are put into the state.
pub(super) const SPAN: &str = "state";

impl State {
    /// The state that a recorded session had at its end.
    pub fn of(session: &Session) -> Self {
        let mut state = Self::default();
        for span in session.spans() {
            if span.kind == SpanKind::Memo && span.title == SPAN {
                state.apply(&serde_json::from_str(&span.output).unwrap_or_default());
            }
        }
        state
    }
}

impl From<Map<String, Value>> for State {
    fn from(members: Map<String, Value>) -> Self {
        Self(Rc::new(members))
    }
}

fn merge(into: &mut Map<String, Value>, members: &Map<String, Value>) {
    for (name, value) in members {
        match (into.get_mut(name), value) {
            (Some(Value::Object(inner)), Value::Object(members)) => merge(inner, members),
            _ => {
                into.insert(name.clone(), value.clone());
            }
        }
    }
}
