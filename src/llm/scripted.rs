//! A model that says what it was given to say: for tests and examples, without a network.

use std::collections::VecDeque;

use super::{Finish, Listener, Llm, Reply, Request};
use crate::error::{Class, Error, Result};
use crate::session::event::Usage;

/// Replies in their order, one a call. When there are no more, it cannot be reached.
///
/// ```
/// use reagent::llm::{Llm, Request};
/// use reagent::llm::scripted::Scripted;
///
/// let mut model = Scripted::new(["Answer: 40"]);
/// let reply = model.ask(&Request::default(), &mut ())?;
/// assert_eq!(reply.text, "Answer: 40");
/// assert!(model.ask(&Request::default(), &mut ()).is_err());
/// # Ok::<(), reagent::error::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Scripted {
    replies: VecDeque<Reply>,
}

impl Scripted {
    /// Says these things.
    pub fn new<R: Into<Reply>>(replies: impl IntoIterator<Item = R>) -> Self {
        Self {
            replies: replies.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<&str> for Reply {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<String> for Reply {
    /// A whole reply of this text, whose tokens are not known.
    fn from(text: String) -> Self {
        Self {
            text,
            calls: Vec::new(),
            usage: Usage::default(),
            finish: Finish::Stop,
        }
    }
}

impl Llm for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }

    fn ask(&mut self, _: &Request<'_>, listener: &mut dyn Listener) -> Result<Reply> {
        let reply = self.replies.pop_front().ok_or_else(|| Error::Endpoint {
            class: Class::Connect,
            url: "scripted".to_owned(),
            message: "the script is at its end".to_owned(),
            hint: None,
        })?;
        // What is said whole cannot be broken off.
        let _ = listener.hear(&reply.text);
        Ok(reply)
    }
}
