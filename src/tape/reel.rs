//! What is said about one question: added up, or taken off one after the other.

use std::collections::VecDeque;
use std::mem;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::engine::approval::Said;
use crate::error::{Class, Error};
use crate::llm::{Reply, Request};
use crate::secret::scrub;

/// How much of two texts that differ is shown.
const SHOWN: usize = 60;

/// One thing that was said, and what it was said to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub(super) enum Exchange {
    /// By the model.
    Model {
        /// How many messages are those of the request before.
        same: usize,
        /// The others.
        messages: Vec<Value>,
        /// What else it was asked with, if it differs from the request before.
        with: Option<Value>,
        /// What was heard on the way.
        heard: Vec<Heard>,
        /// What it came to.
        came: Came,
    },
    /// By a tool.
    Tool {
        tool: String,
        args: Map<String, Value>,
        result: Result<Value, String>,
        /// The time that was over while it worked, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        over: Option<u64>,
    },
    /// By the person.
    Person { call: String, said: Said },
}

/// What a listener heard.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Heard {
    Piece(String),
    Again,
    Failed(String, String, u64),
    Note(String),
}

/// What a request came to.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Came {
    Reply(Reply),
    Endpoint {
        class: Class,
        url: String,
        message: String,
        hint: Option<String>,
    },
    Auth {
        url: String,
        message: String,
    },
    Declined(String),
    Limit(String),
    Other(String),
}

impl Came {
    pub(super) fn of(result: &crate::error::Result<Reply>) -> Self {
        match result {
            Ok(reply) => Self::Reply(reply.clone()),
            Err(Error::Endpoint {
                class,
                url,
                message,
                hint,
            }) => Self::Endpoint {
                class: *class,
                url: url.clone(),
                message: message.clone(),
                hint: hint.clone(),
            },
            Err(Error::Auth { url, message }) => Self::Auth {
                url: url.clone(),
                message: message.clone(),
            },
            Err(Error::Declined(why)) => Self::Declined(why.clone()),
            Err(Error::LimitReached { limit }) => Self::Limit(limit.clone()),
            Err(other) => Self::Other(other.to_string()),
        }
    }

    pub(super) fn result(self) -> crate::error::Result<Reply> {
        Err(match self {
            Self::Reply(reply) => return Ok(reply),
            Self::Endpoint {
                class,
                url,
                message,
                hint,
            } => Error::Endpoint {
                class,
                url,
                message,
                hint,
            },
            Self::Auth { url, message } => Error::Auth { url, message },
            Self::Declined(why) => Error::Declined(why),
            Self::Limit(limit) => Error::LimitReached { limit },
            Self::Other(what) => Error::config(what),
        })
    }
}

/// What is said about one question.
pub(super) struct Reel {
    records: bool,
    taken: Vec<Exchange>,
    left: VecDeque<Exchange>,
    /// The request before: its messages, and what else it was asked with.
    before: (Vec<Value>, Value),
    missed: Option<String>,
}

impl Reel {
    pub(super) fn new(records: bool) -> Self {
        Self {
            records,
            taken: Vec::new(),
            left: VecDeque::new(),
            before: (Vec::new(), Value::Null),
            missed: None,
        }
    }

    pub(super) fn records(&self) -> bool {
        self.records
    }

    pub(super) fn add(&mut self, exchange: Exchange) {
        self.taken.push(exchange);
    }

    /// Adds what the model said.
    pub(super) fn model(&mut self, request: &Request<'_>, heard: Vec<Heard>, came: Came) {
        let (messages, with) = written(request);
        let (before, before_with) = &self.before;
        let same = messages
            .iter()
            .zip(before)
            .take_while(|(a, b)| a == b)
            .count();
        self.taken.push(Exchange::Model {
            same,
            messages: messages[same..].to_vec(),
            with: (with != *before_with).then(|| with.clone()),
            heard,
            came,
        });
        self.before = (messages, with);
    }

    /// All that was added, for the next question to begin anew.
    pub(super) fn take(&mut self) -> Vec<Exchange> {
        self.before = (Vec::new(), Value::Null);
        mem::take(&mut self.taken)
    }

    pub(super) fn load(&mut self, exchanges: Vec<Exchange>) {
        *self = Self {
            left: exchanges.into(),
            ..Self::new(false)
        };
    }

    /// Where what is asked differs from what was, if it does.
    pub(super) fn missed(&mut self) -> Option<String> {
        self.missed.take()
    }

    fn miss(&mut self, what: impl Into<String>) -> String {
        self.missed.get_or_insert(what.into()).clone()
    }

    /// What the model said to this request, or where it differs from the one that was made.
    pub(super) fn reply(&mut self, request: &Request<'_>) -> Result<(Vec<Heard>, Came), String> {
        if let Some(missed) = &self.missed {
            return Err(missed.clone());
        }
        let Some(Exchange::Model {
            same,
            messages,
            with,
            heard,
            came,
        }) = self.left.pop_front()
        else {
            return Err(self.miss("the model is asked once more than it was"));
        };
        let (before, before_with) = mem::take(&mut self.before);
        let mut was: Vec<Value> = before.into_iter().take(same).collect();
        was.extend(messages);
        let was = (was, with.unwrap_or(before_with));
        let (messages, with) = written(request);
        let difference = differs("messages", &was.0.clone().into(), &messages.into());
        let difference = difference.or_else(|| differs("with", &was.1, &with));
        self.before = was;
        match difference {
            Some(difference) => Err(self.miss(difference)),
            None => Ok((heard, came)),
        }
    }

    /// What the tool gave; nothing if it was another call.
    pub(super) fn result(
        &mut self,
        name: &str,
        given: &Map<String, Value>,
    ) -> Option<(Result<Value, String>, Option<u64>)> {
        let next = self.left.pop_front();
        let Some(Exchange::Tool {
            tool,
            args,
            result,
            over,
        }) = next
        else {
            self.miss(format!("the tool `{name}` is called, and was not"));
            return None;
        };
        let was = json!({ "tool": tool, "args": args });
        match differs("call", &was, &json!({ "tool": name, "args": given })) {
            Some(difference) => {
                self.miss(difference);
                None
            }
            None => Some((result, over)),
        }
    }

    /// What the person said; nothing if they were not asked.
    pub(super) fn said(&mut self, asked: &str) -> Option<Said> {
        match self.left.front() {
            Some(Exchange::Person { call, said }) if call == asked => {
                let said = said.clone();
                self.left.pop_front();
                Some(said)
            }
            // Where nobody could be asked, nothing is on it.
            _ => None,
        }
    }
}

/// A request as it is compared: its messages, and what else it is asked with. Keys are on no tape.
fn written(request: &Request<'_>) -> (Vec<Value>, Value) {
    let messages = request.messages.iter().map(|message| clean(json!(message)));
    let with = json!({
        "stop": request.stop, "functions": request.functions, "schema": request.schema,
    });
    (messages.collect(), clean(with))
}

fn clean(value: Value) -> Value {
    let text = value.to_string();
    serde_json::from_str(&scrub(&text)).unwrap_or(value)
}

/// The first place in which two values differ, and how.
fn differs(place: &str, was: &Value, is: &Value) -> Option<String> {
    if was == is {
        return None;
    }
    match (was, is) {
        (Value::Object(a), Value::Object(b)) => {
            let names = a
                .keys()
                .chain(b.keys().filter(|name| !a.contains_key(*name)));
            let mut found = names.filter_map(|name| {
                let of = |map: &Map<String, Value>| map.get(name).cloned().unwrap_or_default();
                differs(&format!("{place}.{name}"), &of(a), &of(b))
            });
            found.next()
        }
        (Value::Array(a), Value::Array(b)) => {
            let most = a.len().max(b.len());
            let of = |list: &Vec<Value>, at: usize| list.get(at).cloned().unwrap_or_default();
            (0..most).find_map(|at| differs(&format!("{place}[{at}]"), &of(a, at), &of(b, at)))
        }
        (Value::String(a), Value::String(b)) => {
            // From shortly before the first letter that differs.
            let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
            let part = |text: &str| {
                let part: String = text
                    .chars()
                    .skip(same.saturating_sub(10))
                    .take(SHOWN)
                    .collect();
                json!(part)
            };
            Some(format!("{place} was …{}…, and is …{}…", part(a), part(b)))
        }
        _ => {
            let short = |value: &Value| value.to_string().chars().take(SHOWN).collect::<String>();
            Some(format!("{place} was {}, and is {}", short(was), short(is)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_named_with_its_place() {
        let was = json!({ "a": [1, { "b": "the same, and then this" }], "c": 1 });
        let is = json!({ "a": [1, { "b": "the same, and then that" }], "c": 2 });
        let found = differs("x", &was, &is).unwrap();
        assert_eq!(
            found,
            "x.a[1].b was …\"nd then this\"…, and is …\"nd then that\"…"
        );
        assert_eq!(
            differs("x", &json!([1]), &json!([1, 2])).unwrap(),
            "x[1] was null, and is 2"
        );
        assert_eq!(differs("x", &was, &was), None);
    }
}
