//! Reads a reply from top to bottom, whole or as it comes in, and says what is what.
//! Its items follow each other without a gap, but for reasoning blocks and blanks behind markers, which are left out.

use std::ops::Range;

use super::leftovers::stop_word;
use super::line::{HEAD, Line, Marker, eat, first_line, look};
use crate::tool::cursor::blank;

/// How far below an invented `Question:` the next step may stand for it to be seen.
const NEAR: usize = 1024;

/// What is being read: tags count in the head of a reply only, and in an answer nothing counts but its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Head,
    Action,
    Answer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    /// A line or a part of one.
    Text(Range<usize>),
    /// A line, or a part of one, of a code block or its fences, and whether the block is open behind it.
    Fence(Range<usize>, bool),
    /// Up to its colon, and how many asterisks before it are still to be closed.
    Marker(Marker, Range<usize>, usize),
    Pause(Range<usize>),
    /// A native call written as text begins here.
    ToolTag(usize),
    /// A reasoning block begins here and never ends.
    Unclosed,
    /// The answer ends here: what follows is an invented turn.
    End(usize),
}

#[derive(Debug)]
pub(super) struct Scan {
    place: Place,
    at: usize,
    /// Reading on in a line whose beginning has been told.
    inside_line: bool,
    /// That line is one of a code block.
    fence_line: bool,
    /// Right behind a marker: blanks are skipped.
    behind_marker: bool,
    fenced: bool,
    /// The closing tag being looked for, and from where on.
    reasoning: Option<(&'static str, usize)>,
}

impl Scan {
    pub(super) fn new(place: Place, at: usize) -> Scan {
        Scan {
            place,
            at,
            inside_line: false,
            fence_line: false,
            behind_marker: false,
            fenced: false,
            reasoning: None,
        }
    }

    /// Goes on in another place, from the start of a marker's text.
    pub(super) fn enter(&mut self, place: Place) {
        self.place = place;
    }

    /// The next item of `text`; nothing at its end, or, unless it is `whole`, where more of it is needed to tell.
    pub(super) fn next(&mut self, text: &str, whole: bool) -> Option<Item> {
        loop {
            if let Some((close, from)) = self.reasoning {
                let Some(end) = find(&text[from..], close) else {
                    let last = text[from..].rfind('<').map(|at| from + at);
                    let begun = last.filter(|at| text.len() - at < close.len());
                    self.reasoning = Some((close, begun.unwrap_or(text.len())));
                    return whole.then_some(Item::Unclosed);
                };
                self.at = from + end + close.len();
                self.reasoning = None;
            }
            let rest = &text[self.at..];
            if rest.is_empty() {
                return None;
            }
            let line = first_line(rest);
            let len = rest.len().min(line.len() + 1);
            let ended = whole || len > line.len();
            if self.inside_line {
                self.inside_line = len == line.len();
                let skipped = if self.behind_marker {
                    line.len() - line.trim_start_matches(blank).len()
                } else {
                    0
                };
                self.behind_marker = skipped == len;
                self.at += skipped;
                let line = self.advance(len - skipped);
                let fence = self.fence_line;
                self.fence_line &= self.inside_line;
                match line.is_empty() {
                    true => continue,
                    false if fence => return Some(Item::Fence(line, self.fenced)),
                    false => return Some(Item::Text(line)),
                }
            }
            if self.fenced {
                if !ended && (ticks(line) || line.len() < HEAD && stop_word(line)) {
                    return None;
                }
                self.fenced = !(ticks(line) && line.contains("```"));
                self.inside_line = true;
                self.fence_line = true;
                continue;
            }
            match look(rest, whole) {
                Line::Unsure => return None,
                Line::Fence => {
                    self.fenced = true;
                    self.inside_line = true;
                    self.fence_line = true;
                }
                Line::Reasoning(close) if self.place == Place::Head => {
                    self.reasoning = Some((close, self.at))
                }
                Line::ToolTag if self.place == Place::Head => {
                    self.inside_line = true;
                    return Some(Item::ToolTag(self.at));
                }
                Line::Marker(marker, len, open) if self.place != Place::Answer => {
                    self.inside_line = true;
                    self.behind_marker = true;
                    return Some(Item::Marker(marker, self.advance(len), open));
                }
                Line::Pause if self.place != Place::Answer => {
                    return Some(Item::Pause(self.advance(len)));
                }
                Line::Marker(Marker::Thought | Marker::Observation, ..) | Line::Pause => {
                    return Some(Item::End(self.at));
                }
                Line::Marker(Marker::Question, ..) => match next_turn(rest, whole) {
                    None => return None,
                    Some(true) => return Some(Item::End(self.at)),
                    Some(false) => self.inside_line = true,
                },
                _ => self.inside_line = true,
            }
        }
    }

    fn advance(&mut self, len: usize) -> Range<usize> {
        self.at += len;
        self.at - len..self.at
    }
}

/// Where an answer that begins at `from` ends: at an invented turn, at PAUSE, or with the reply.
pub(super) fn end_of_answer(text: &str, from: usize) -> usize {
    let mut scan = Scan {
        inside_line: true,
        ..Scan::new(Place::Answer, from)
    };
    while let Some(item) = scan.next(text, true) {
        if let Item::End(at) = item {
            return at;
        }
    }
    text.len()
}

/// Finds `tag`, which is ASCII, in any case.
pub(super) fn find(text: &str, tag: &str) -> Option<usize> {
    text.match_indices('<')
        .map(|(at, _)| at)
        .find(|&at| eat(&text[at..], tag).is_some())
}

/// Whether a question, at the start of `rest`, is followed by the next step of an invented dialogue.
fn next_turn(rest: &str, whole: bool) -> Option<bool> {
    let below = &rest[first_line(rest).len()..];
    let gap = below.len() - below.trim_start_matches(blank).len();
    let start = below[..gap].rfind('\n').map_or(gap, |at| at + 1);
    if first_line(rest).len() + start > NEAR {
        return Some(false);
    }
    match look(&below[start..], whole) {
        Line::Unsure => None,
        line => Some(matches!(
            line,
            Line::Marker(Marker::Thought | Marker::Action, ..)
        )),
    }
}

/// Whether a line has nothing but backticks, as one that closes a code block.
fn ticks(line: &str) -> bool {
    line.len() < HEAD && line.chars().all(|c| blank(c) || c == '`')
}
