//! Results that were too long to be shown whole: kept, to be paged through.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use serde_json::{Map, Value};

use super::function::{Body, Function, Limits};
use super::params::{Param, Type};

/// How many bytes of results are kept; the latest is kept in any case.
const KEPT: usize = 8 << 20;
/// How many bytes a page has.
const PAGE: usize = 6000;

thread_local! {
    static OUTPUTS: RefCell<Outputs> = RefCell::default();
}

#[derive(Default)]
struct Outputs {
    /// The number of the next one.
    next: u64,
    kept: VecDeque<(u64, Rc<str>)>,
}

/// Keeps a result; gives the number under which it is found.
pub(crate) fn keep(text: &str) -> u64 {
    OUTPUTS.with_borrow_mut(|outputs| {
        outputs.next += 1;
        outputs.kept.push_back((outputs.next, text.into()));
        let size = |kept: &VecDeque<(u64, Rc<str>)>| {
            kept.iter().map(|(_, text)| text.len()).sum::<usize>()
        };
        while outputs.kept.len() > 1 && size(&outputs.kept) > KEPT {
            outputs.kept.pop_front();
        }
        outputs.next
    })
}

/// Forgets all of them, and numbers the next ones from 1.
pub(crate) fn forget() {
    OUTPUTS.set(Outputs::default());
}

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: MORE,
    description: "A further part of a result that was too long to be shown whole.",
    params: || {
        vec![
            Param::new("number", Type::Integer),
            Param::new("from", Type::Integer).or(0.into()),
        ]
    },
    body: Body::Call(more),
    ..Function::PURE
}];

/// The name of the function that pages.
pub(crate) const MORE: &str = "output.more";

fn more(args: &Map<String, Value>, _: &Limits) -> Result<Value, String> {
    let number = args.get("number").and_then(Value::as_u64);
    let found = OUTPUTS.with_borrow(|outputs| {
        let mut kept = outputs.kept.iter();
        kept.find(|(kept, _)| Some(*kept) == number)
            .map(|(_, text)| text.clone())
    });
    let Some(text) = found else {
        return Err("there is no such result, or it is kept no more".to_owned());
    };
    let from = args.get("from").and_then(Value::as_u64).unwrap_or(0);
    let from = text.ceil_char_boundary(usize::try_from(from).unwrap_or(usize::MAX).min(text.len()));
    let end = text.floor_char_boundary((from + PAGE).min(text.len()));
    let page = &text[from..end];
    Ok(match text.len() - end {
        0 => format!("{page}\n[this is the end of it]").into(),
        rest => format!("{page}\n[{rest} more bytes, from {end}]").into(),
    })
}
