//! A model and a tool between the program and the tape.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Map, Value};

use super::reel::{Came, Exchange, Heard, Reel};
use crate::error::{Error, Result};
use crate::interrupt::{self, Interrupted};
use crate::llm::{Listener, Llm, Reply, Request};
use crate::tool::{Arithmetic, Spec, Tool};

/// A model on tape.
pub(super) struct TapedLlm {
    pub(super) llm: Box<dyn Llm>,
    pub(super) name: String,
    pub(super) reel: Rc<RefCell<Reel>>,
}

impl Llm for TapedLlm {
    fn name(&self) -> &str {
        &self.name
    }

    fn ask(&mut self, request: &Request<'_>, listener: &mut dyn Listener) -> Result<Reply> {
        if self.reel.borrow().records() {
            let mut ears = Ears {
                listener,
                heard: Vec::new(),
            };
            let result = self.llm.ask(request, &mut ears);
            let (heard, came) = (ears.heard, Came::of(&result));
            self.reel.borrow_mut().model(request, heard, came);
            return result;
        }
        let (heard, came) = match self.reel.borrow_mut().reply(request) {
            Ok(said) => said,
            Err(what) => return Err(Error::Miss(what)),
        };
        for heard in heard {
            match heard {
                Heard::Piece(piece) => {
                    let _ = listener.hear(&piece);
                }
                Heard::Again => {
                    listener.again();
                }
                Heard::Failed(attempt, why, ms) => {
                    listener.failed(&attempt, &why, Duration::from_millis(ms));
                }
                Heard::Note(text) => listener.note(&text),
            }
        }
        came.result()
    }

    fn models(&self) -> Result<Vec<String>> {
        self.llm.models()
    }

    fn window(&self) -> Option<u64> {
        self.llm.window()
    }
}

/// Hears for another, and keeps what was heard.
struct Ears<'a> {
    listener: &'a mut dyn Listener,
    heard: Vec<Heard>,
}

impl Listener for Ears<'_> {
    fn hear(&mut self, piece: &str) -> ControlFlow<()> {
        self.heard.push(Heard::Piece(piece.to_owned()));
        self.listener.hear(piece)
    }

    fn again(&mut self) -> bool {
        self.heard.push(Heard::Again);
        self.listener.again()
    }

    fn failed(&mut self, attempt: &str, why: &str, after: Duration) {
        let ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
        self.heard
            .push(Heard::Failed(attempt.to_owned(), why.to_owned(), ms));
        self.listener.failed(attempt, why, after);
    }

    fn note(&mut self, text: &str) {
        self.heard.push(Heard::Note(text.to_owned()));
        self.listener.note(text);
    }
}

/// A tool on tape.
pub(super) struct TapedTool {
    pub(super) tool: Box<dyn Tool>,
    pub(super) reel: Rc<RefCell<Reel>>,
}

impl Tool for TapedTool {
    fn spec(&self) -> &Spec {
        self.tool.spec()
    }

    fn call(&self, args: &Map<String, Value>) -> std::result::Result<Value, String> {
        let name = &self.spec().name;
        if self.reel.borrow().records() {
            let result = self.tool.call(args);
            let over = match interrupt::reason() {
                Some(Interrupted::Time(limit)) => u64::try_from(limit.as_millis()).ok(),
                _ => None,
            };
            self.reel.borrow_mut().add(Exchange::Tool {
                tool: name.clone(),
                args: args.clone(),
                result: result.clone(),
                over,
            });
            return result;
        }
        let Some((result, over)) = self.reel.borrow_mut().result(name, args) else {
            return Err("this is not what was recorded".to_owned());
        };
        if let Some(over) = over {
            interrupt::time_is_over(Duration::from_millis(over));
        }
        result
    }

    fn host(&self, args: &Map<String, Value>) -> Option<String> {
        self.tool.host(args)
    }

    fn pages(&self) -> bool {
        self.tool.pages()
    }

    fn arithmetic(&self) -> Option<Arithmetic> {
        self.tool.arithmetic()
    }
}
