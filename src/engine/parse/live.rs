//! Follows a reply while it streams: hands on what surely is thought or answer, and tells when nothing more can matter.

use std::ops::Range;

use super::action::{self, Act};
use super::leftovers::{self, End};
use super::line::Marker;
use super::scan::{Item, Place, Scan};
use super::{Next, Parsed};
use crate::session::event::Part;
use crate::tool::cursor::blank;

/// How often the parser may be asked whether an action is complete, before that has to wait until the text doubled.
const TRIES: usize = 8;

/// Follows one reply. What it hands on depends on the text only, not on how that was cut into chunks.
///
/// All that is shown as `Part::Thought` is the beginning of the thought that the parser finds in the whole reply, and
/// likewise for the answer. One exception cannot be seen in time: a reply that begins in the middle of reasoning and
/// tells so only by a closing tag at its end.
#[derive(Debug)]
pub struct Live {
    text: String,
    /// Up to here no control token ends the reply.
    sure: usize,
    scan: Scan,
    stage: Stage,
    /// Asterisks opened before the answer's marker: those at its end close them.
    open: bool,
    /// Read, but to be shown only if more text follows: blanks, a closing emphasis, a code block.
    held: String,
    thought: String,
    answer: String,
    /// Up to where it was last asked whether the action is complete.
    looked: usize,
    over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Thought,
    /// Like `Thought`, but what is written might be a call in JSON: nothing is shown.
    Silent,
    /// An action begins at `from`; it was looked at `tries` times.
    Action {
        from: usize,
        open: usize,
        tries: usize,
    },
    Answer,
    /// Nothing more is to be shown.
    Done,
}

impl Default for Live {
    fn default() -> Live {
        Live::new()
    }
}

impl Live {
    /// Before the first chunk.
    pub fn new() -> Live {
        Live {
            text: String::new(),
            sure: 0,
            scan: Scan::new(Place::Head, 0),
            stage: Stage::Thought,
            open: false,
            held: String::new(),
            thought: String::new(),
            answer: String::new(),
            looked: 0,
            over: false,
        }
    }

    /// Takes the next chunk; hands on text that surely belongs to the thought or the answer. Text from a possible
    /// marker on is held back until it is sure.
    pub fn push(&mut self, chunk: &str, show: &mut dyn FnMut(Part, &str)) {
        self.text.push_str(chunk);
        if self.over || self.stage == Stage::Done || self.text.len() > super::LIMIT {
            return;
        }
        let ends = match leftovers::end(&self.text, self.sure, false) {
            End::At(at) => (at, true),
            End::NotBefore(at) => (at, false),
        };
        self.sure = ends.0;
        while let Some(item) = self.scan.next(&self.text[..self.sure], false) {
            self.see(item, show);
            if self.over || self.stage == Stage::Done {
                return;
            }
        }
        self.over = ends.1;
    }

    /// The rest of the reply cannot matter: a complete action was followed by PAUSE or another marker, or an answer by
    /// an invented turn. The stream may be closed.
    pub fn is_over(&self) -> bool {
        self.over
    }

    /// Hands on what was held back, now that the reply is whole and parsed.
    pub fn finish(self, parsed: &Parsed, show: &mut dyn FnMut(Part, &str)) {
        let thought = parsed
            .thought
            .as_deref()
            .and_then(|text| text.strip_prefix(self.thought.as_str()));
        let answer = match &parsed.next {
            Next::Answer { text, .. } => text.strip_prefix(self.answer.as_str()),
            _ => None,
        };
        // A thought must not be shown behind the answer that follows it.
        for (part, rest) in [
            (Part::Thought, thought.filter(|_| self.answer.is_empty())),
            (Part::Answer, answer),
        ] {
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                show(part, rest);
            }
        }
    }

    fn see(&mut self, item: Item, show: &mut dyn FnMut(Part, &str)) {
        match (self.stage, item) {
            (Stage::Answer, Item::Text(at) | Item::Fence(at, _)) => {
                self.emit(Part::Answer, at, show)
            }
            (Stage::Answer, Item::End(_)) => self.over = true,
            (Stage::Thought, Item::Text(at)) => self.emit(Part::Thought, at, show),
            (Stage::Thought, Item::Marker(Marker::Question, at, _)) => {
                self.emit(Part::Thought, at, show)
            }
            (Stage::Thought, Item::Fence(line, _)) => self.held.push_str(&self.text[line]),
            (Stage::Thought | Stage::Silent, Item::Marker(marker, at, open)) => match marker {
                Marker::Thought | Marker::Question => {}
                Marker::Answer => {
                    self.release(show);
                    self.scan.enter(Place::Answer);
                    self.stage = Stage::Answer;
                    self.open = open > 0;
                }
                Marker::Action => {
                    self.release(show);
                    self.act(at.end, open);
                }
                Marker::Input | Marker::Observation => self.over = true,
            },
            (Stage::Thought | Stage::Silent, Item::ToolTag(at)) => self.act(at, 0),
            (Stage::Thought | Stage::Silent, Item::Pause(_)) => self.over = true,
            (Stage::Action { .. }, Item::Marker(Marker::Input, ..)) => {}
            // Each look reads the whole action, so they must become rare if it is long and still not complete.
            (Stage::Action { from, open, tries }, Item::Marker(_, at, _) | Item::Pause(at))
                if tries < TRIES || at.end >= 2 * self.looked =>
            {
                self.looked = at.end;
                self.stage = Stage::Action {
                    from,
                    open,
                    tries: tries + 1,
                };
                let act = action::read(&self.text[..at.end], from, open);
                self.over = matches!(act, Act::Call(_, input) if input.end <= at.start);
            }
            _ => {}
        }
    }

    fn act(&mut self, from: usize, open: usize) {
        self.scan.enter(Place::Action);
        self.stage = Stage::Action {
            from,
            open,
            tries: 0,
        };
    }

    fn emit(&mut self, part: Part, at: Range<usize>, show: &mut dyn FnMut(Part, &str)) {
        let shown = match part {
            Part::Thought => &mut self.thought,
            Part::Answer => &mut self.answer,
        };
        let mut text = &self.text[at];
        let first = shown.is_empty();
        if first && self.held.is_empty() {
            text = text.trim_start_matches(blank);
            match part {
                Part::Thought if text.starts_with('{') => self.stage = Stage::Silent,
                Part::Thought if text.starts_with("<|") => self.stage = Stage::Done,
                _ => {}
            }
        }
        // Emphasis with nothing in it is no answer yet, and emphasis at the end may not belong to it.
        let hollow = first && part == Part::Answer && super::hollow(text);
        let solid = if hollow {
            0
        } else {
            text.trim_end_matches(|c| blank(c) || c == '*' && self.open)
                .len()
        };
        if solid > 0 && matches!(self.stage, Stage::Thought | Stage::Answer) {
            self.held.push_str(&text[..solid]);
            show(part, &self.held);
            shown.push_str(&self.held);
            self.held.clear();
            text = &text[solid..];
        }
        self.held.push_str(text);
    }

    /// A marker that decides stands behind a code block: so that was an example, and belongs to the thought.
    fn release(&mut self, show: &mut dyn FnMut(Part, &str)) {
        let held = std::mem::take(&mut self.held);
        let held = if self.thought.is_empty() {
            held.trim_matches(blank)
        } else {
            held.trim_end_matches(blank)
        };
        if !held.is_empty() && self.stage == Stage::Thought {
            show(Part::Thought, held);
            self.thought.push_str(held);
        }
    }
}
