//! A model's reply -> what it comes to: an action, an answer, prose, or why it is none of them.
//!
//! One pass from top to bottom. Leftovers of the wrapping are cut off (`leftovers`), the rest is told apart line by
//! line (`line`, `scan`), and the first marker that decides is read: an answer to its end, an action by its shape
//! (`action`). Nothing is ever repaired, guessed or evaluated. `live` follows the same scan while a reply streams.

mod action;
pub mod decision;
mod leftovers;
mod line;
pub mod live;
mod scan;

use std::ops::Range;

use self::action::{Act, Input};
use self::line::Marker;
use self::scan::{Item, Place, Scan, end_of_answer};
use crate::llm::Finish;
use crate::tool::call::Proposal;
use crate::tool::cursor::blank;

/// The longest reply that is read, in bytes.
pub const LIMIT: usize = 4 << 20;

/// What is wrong with a reply that is an observation of the model's own.
pub const INVENTED: &str = "observations come from tools, not from you";

/// What a reply comes to.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// What stands before the action or the answer, without markers and reasoning; never empty text.
    pub thought: Option<String>,
    /// What is to be done.
    pub next: Next,
    /// What of the reply goes on into the transcript: reasoning blocks dropped, cut after the first action (or at the
    /// end of the answer).
    pub kept: String,
}

/// What is to be done after a reply.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// An action that is whole and valid in form.
    Action(Proposal),
    /// The answer; never empty.
    Answer {
        /// The answer as written, without blanks around it.
        text: String,
        /// The token limit cut it.
        truncated: bool,
    },
    /// No marker at all, but text: the caller decides (reminder first, then an answer).
    Prose(String),
    /// One line: what was rejected, and why.
    Malformed(String),
}

/// Reads a whole reply. Takes any text, in time linear to its length, and never panics.
pub fn parse(reply: &str, finish: Finish) -> Parsed {
    if reply.len() > LIMIT {
        return Draft::default().malformed("the reply is longer than 4 MiB", "", finish);
    }
    let text = match leftovers::strip(reply) {
        Ok(text) => text,
        Err(why) => return Draft::default().malformed(why, "", finish),
    };
    match decide(text, finish) {
        Ok(parsed) => parsed,
        Err(draft) => draft.undecided(text, finish),
    }
}

/// The text of a reply without its wrapping and reasoning, or why there is none in it.
pub fn text_of(reply: &str) -> Result<String, &'static str> {
    match reply.len() > LIMIT {
        true => Err("the reply is longer than 4 MiB"),
        false => leftovers::strip(reply).map(leftovers::without_reasoning),
    }
}

/// Reads up to the marker that decides, and what it marks. Without one, gives back what was read.
fn decide(text: &str, finish: Finish) -> Result<Parsed, Draft> {
    let mut draft = Draft::default();
    let mut scan = Scan::new(Place::Head, 0);
    while let Some(item) = scan.next(text, true) {
        match item {
            Item::Text(line) => draft.text(&text[line]),
            Item::Fence(line, open) => draft.fence(text, line, open),
            Item::Marker(Marker::Question, at, _) => draft.text(&text[at]),
            Item::Marker(Marker::Thought, at, _) => draft.thinks(&text[at]),
            Item::Marker(Marker::Answer, at, open) => {
                return Ok(draft.answer(text, at, open, finish));
            }
            Item::Marker(Marker::Action, at, open) => match action::read(text, at.end, open) {
                Act::Prose => draft.thinks_aloud(&text[at]),
                act => return Ok(draft.action(text, at, act, finish)),
            },
            Item::ToolTag(at) => {
                return Ok(draft.action(text, at..at, action::read(text, at, 0), finish));
            }
            Item::Unclosed => {
                return Ok(draft.malformed("the reasoning block is never closed", "", finish));
            }
            Item::Marker(..) | Item::Pause(_) if draft.aloud => draft.invented = true,
            Item::Marker(Marker::Input, at, _) => {
                let rest = &text[at.start..end_of_answer(text, at.end)];
                return Ok(draft.malformed(
                    "there is no `Action:` before `Action Input:`",
                    rest,
                    finish,
                ));
            }
            Item::Marker(..) => {
                return Ok(draft.malformed(INVENTED, "", finish));
            }
            Item::Pause(_) | Item::End(_) => break,
        }
    }
    Err(draft)
}

/// What has been read before a marker decides.
#[derive(Debug, Default)]
struct Draft {
    thought: String,
    kept: String,
    /// A `Thought:` was among it.
    marked: bool,
    /// Prose behind an `Action:` was among it, so that only an answer can follow.
    aloud: bool,
    /// In an observation that the model made up while thinking aloud.
    invented: bool,
    /// Inside a code block.
    fenced: bool,
    /// Where the last code block begins, if nothing stands behind it.
    block: Option<Block>,
}

/// What was read before a code block, in bytes, and where its inside begins.
#[derive(Debug)]
struct Block {
    thought: usize,
    kept: usize,
    inside: usize,
}

impl Draft {
    fn text(&mut self, text: &str) {
        if !self.invented {
            self.thought.push_str(text);
            self.kept.push_str(text);
        }
        if !text.chars().all(blank) {
            self.block = None;
        }
    }

    fn thinks(&mut self, marker: &str) {
        self.kept.push_str(marker);
        self.kept.push(' ');
        self.marked = true;
        self.invented = false;
        self.block = None;
    }

    fn thinks_aloud(&mut self, marker: &str) {
        self.thinks(marker);
        self.aloud = true;
    }

    fn fence(&mut self, text: &str, line: Range<usize>, open: bool) {
        if open && !self.fenced {
            self.block = Some(Block {
                thought: self.thought.len(),
                kept: self.kept.len(),
                inside: line.end,
            });
        }
        self.fenced = open;
        self.thought.push_str(&text[line.clone()]);
        self.kept.push_str(&text[line]);
    }

    fn action(self, text: &str, marker: Range<usize>, act: Act, finish: Finish) -> Parsed {
        let rest = &text[marker.start..end_of_answer(text, marker.end)];
        match act {
            Act::Call(..) if self.aloud => {
                let why = "an `Action:` with prose comes before one with a call";
                self.malformed(why, rest, finish)
            }
            Act::Call(_, input) if !input.closed && finish == Finish::Length => {
                self.malformed("the action may not be whole", rest, finish)
            }
            Act::Call(tool, Input { args, end, .. }) => {
                let action = Proposal { tool, args };
                self.done(Next::Action(action), &text[marker.start..end])
            }
            Act::Answer(text) if !text.is_empty() => self.done(
                Next::Answer {
                    text,
                    truncated: finish == Finish::Length,
                },
                rest,
            ),
            Act::Answer(_) => self.malformed("the answer is empty", rest, finish),
            Act::Broken(why) => self.malformed(&why, rest, finish),
            Act::Prose => self.malformed("there is no action behind `Action:`", rest, finish),
        }
    }

    fn answer(self, text: &str, marker: Range<usize>, open: usize, finish: Finish) -> Parsed {
        let end = end_of_answer(text, marker.end);
        let answer = text[marker.end..end].trim_matches(blank);
        let answer = answer
            .strip_suffix("*".repeat(open).as_str())
            .unwrap_or(answer)
            .trim_matches(blank);
        let rest = &text[marker.start..end];
        if hollow(answer) {
            return self.malformed("the answer is empty", rest, finish);
        }
        let truncated = finish == Finish::Length && end == text.len();
        self.done(
            Next::Answer {
                text: answer.to_owned(),
                truncated,
            },
            rest,
        )
    }

    /// No marker has decided outside of code blocks: so the last of them, or one JSON call, or the text is the reply.
    fn undecided(mut self, text: &str, finish: Finish) -> Parsed {
        let mut prose = self.kept.trim_matches(blank).to_owned();
        if let Some(block) = self.block.take() {
            let inside = text[block.inside..].trim_end_matches(|c| blank(c) || c == '`');
            if let Ok(parsed) = decide(inside, finish) {
                self.thought.truncate(block.thought);
                self.kept.truncate(block.kept);
                self.thought
                    .push_str(parsed.thought.as_deref().unwrap_or_default());
                return self.done(parsed.next, &parsed.kept);
            }
            if self.kept[..block.kept].chars().all(blank) {
                prose = inside.trim_matches(blank).to_owned();
            }
        }
        let why = match prose.is_empty() {
            true => "the reply is empty",
            false if self.aloud => "what stands behind `Action:` is no call of a tool",
            false if self.marked => "there is a thought, but no action and no answer",
            false => return Draft::default().unmarked(prose, finish),
        };
        self.malformed(why, "", finish)
    }

    /// The reply is text without a marker: as a whole it may be a native call.
    fn unmarked(self, text: String, finish: Finish) -> Parsed {
        let value = action::whole(&text);
        if value.is_none() && text.starts_with('{') {
            return self.malformed("the reply is broken JSON", &text, finish);
        }
        let next = value
            .and_then(action::native)
            .map_or_else(|| Next::Prose(text.clone()), Next::Action);
        self.done(next, &text)
    }

    fn malformed(self, why: &str, rest: &str, finish: Finish) -> Parsed {
        let cut = if finish == Finish::Length {
            " (the token limit cut the reply)"
        } else {
            ""
        };
        self.done(Next::Malformed(format!("{why}{cut}")), rest)
    }

    fn done(self, next: Next, rest: &str) -> Parsed {
        let thought = self.thought.trim_matches(blank);
        Parsed {
            thought: (!thought.is_empty()).then(|| thought.to_owned()),
            next,
            kept: (self.kept + rest).trim_matches(blank).to_owned(),
        }
    }
}

/// Whether an answer is nothing but markdown around nothing.
fn hollow(answer: &str) -> bool {
    answer
        .chars()
        .all(|c| blank(c) || matches!(c, '*' | '`' | '#'))
}
