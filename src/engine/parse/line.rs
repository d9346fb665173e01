//! What the beginning of a line is: a marker, PAUSE, a code fence, a reasoning tag, a tool tag, or plain text.
//! The parser and the live view both look here, so they cannot disagree.

use crate::tool::cursor::blank;

/// A line is told by its first bytes, and what begins further in is text: so the live view never holds back more.
pub(super) const HEAD: usize = 128;

/// Tags around reasoning: none of it is shown, kept or obeyed.
pub(super) const REASONING: [(&str, &str); 4] = [
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning>", "</reasoning>"),
];

/// How models begin a native call that they write as text.
const TOOL_TAGS: [&str; 10] = [
    "<tool_call",
    "<toolcall",
    "<tool_use",
    "<function=",
    "<function_call",
    "<functioncall",
    "<invoke",
    "<|tool_call",
    "<|python_tag|>",
    "[tool_calls]",
];

/// The words of the markers; `Input` comes only behind `Action`.
const WORDS: [(&str, Marker); 8] = [
    ("thought", Marker::Thought),
    ("action", Marker::Action),
    ("observation", Marker::Observation),
    ("question", Marker::Question),
    ("answer", Marker::Answer),
    ("final answer", Marker::Answer),
    ("final_answer", Marker::Answer),
    ("finalanswer", Marker::Answer),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    Thought,
    Action,
    Input,
    Observation,
    Answer,
    /// No step of the loop, but models that run on begin their next task with it.
    Question,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// Its bytes up to the colon and the emphasis that closes behind it; the asterisks that are still to be closed.
    Marker(Marker, usize, usize),
    Pause,
    Fence,
    /// An opening tag; its block ends with this closing one.
    Reasoning(&'static str),
    ToolTag,
    Text,
    /// It depends on what comes next.
    Unsure,
}

/// Tells what `rest`, which begins at the start of a line, begins with. Never `Unsure` if it is `whole`, that is, if
/// nothing comes after it. What is once told of a beginning holds for everything that begins so.
pub(super) fn look(rest: &str, whole: bool) -> Line {
    let line = first_line(rest);
    let ended = whole || line.len() < rest.len();
    if line.trim_start_matches(blank).starts_with("```") {
        return Line::Fence;
    }
    let bare = line.trim_start_matches(lead);
    let before = &line[..line.len() - bare.len()];
    // Most lines begin with no letter that anything else than text begins with.
    if bare.starts_with(|c: char| !"taoqfpTAOQFP<[(".contains(c)) {
        return Line::Text;
    }
    if before.len() < HEAD && TOOL_TAGS.iter().any(|tag| eat(bare, tag).is_some()) {
        return Line::ToolTag;
    }
    if let Some((_, close)) = REASONING
        .iter()
        .find(|(open, _)| before.len() < HEAD && eat(bare, open).is_some())
    {
        return Line::Reasoning(close);
    }
    if let Some((marker, after)) = marker(bare)
        && line.len() - after.len() < HEAD
    {
        let opened = before.len() - before.trim_end_matches('*').len();
        let closed = bare[..bare.len() - after.len()].contains('*');
        let stars = after.len() - after.trim_start_matches('*').len();
        return match if closed { 0 } else { opened } {
            open if stars >= open => Line::Marker(marker, line.len() - after.len() + open, 0),
            _ if stars == after.len() && !ended => Line::Unsure,
            open => Line::Marker(marker, line.len() - after.len(), open),
        };
    }
    if line.len() >= HEAD {
        return Line::Text;
    }
    match ended {
        true if pause(bare) => Line::Pause,
        false if growing(bare) => Line::Unsure,
        _ => Line::Text,
    }
}

/// The text up to its first line break.
pub(super) fn first_line(text: &str) -> &str {
    text.find('\n').map_or(text, |end| &text[..end])
}

/// The text behind `word`, in any case.
pub(super) fn eat<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let head = text.get(..word.len())?;
    head.eq_ignore_ascii_case(word).then(|| &text[word.len()..])
}

/// The marker at the start of `bare`, and the text behind its colon.
fn marker(bare: &str) -> Option<(Marker, &str)> {
    let (marker, rest) = WORDS
        .iter()
        .find_map(|(word, marker)| Some((*marker, eat(bare, word)?)))?;
    let rest = rest.trim_start_matches(filler);
    let (marker, rest) = match eat(rest, "input") {
        Some(rest) if marker == Marker::Action => (Marker::Input, rest.trim_start_matches(filler)),
        _ => (marker, rest),
    };
    Some((marker, rest.strip_prefix([':', '：'])?))
}

/// Whether `bare` says PAUSE and nothing else.
fn pause(bare: &str) -> bool {
    let word = bare.strip_prefix(['(', '<']).unwrap_or(bare);
    eat(word, "pause").is_some_and(|rest| rest.chars().all(filler))
}

/// Whether more text could make of `bare` something else than text.
fn growing(bare: &str) -> bool {
    let low = bare.to_ascii_lowercase();
    let fits = |word: &str| match low.strip_prefix(word) {
        Some(rest) => {
            "input".starts_with(rest.trim_matches(filler))
                || rest.trim_start_matches(filler).starts_with("input")
        }
        None => word.starts_with(&low),
    };
    let tags = REASONING.iter().map(|(open, _)| open).chain(&TOOL_TAGS);
    fits("pause")
        || ["(pause", "<pause"].into_iter().any(fits)
        || WORDS.iter().any(|(word, _)| fits(word))
        || tags.into_iter().any(|tag| tag.starts_with(&low))
}

/// What may stand before a marker on its line.
fn lead(c: char) -> bool {
    blank(c) || c.is_ascii_digit() || matches!(c, '*' | '#' | '>' | '-' | '`' | '.' | ')')
}

/// What may stand between the word of a marker and its colon, or around PAUSE.
fn filler(c: char) -> bool {
    lead(c) || matches!(c, '(' | '_')
}
