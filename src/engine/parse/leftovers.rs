//! What is not the model's reply but left over from its wrapping: control tokens of a chat template, the end of
//! reasoning whose beginning the template holds, half of a stop word.

use super::line::{Line, Marker, REASONING, first_line, look};
use super::scan::find;
use crate::tool::cursor::blank;

/// How a turn of the model's own begins.
const OPENERS: [&str; 4] = [
    "<|start_header_id|>assistant<|end_header_id|>",
    "<|im_start|>assistant",
    "<|start|>assistant",
    "<|assistant|>",
];

/// How a turn ends.
const ENDS: [&str; 11] = [
    "<|eot_id|>",
    "<|eom_id|>",
    "<|im_end|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
    "</s>",
];

const FINAL: &str = "<|channel|>final<|message|>";

/// The reply without its leftovers, or why there is no reply in it.
pub(super) fn strip(reply: &str) -> Result<&str, &'static str> {
    let mut text = reply.trim_start_matches(blank);
    while let Some(rest) = OPENERS.iter().find_map(|opener| text.strip_prefix(opener)) {
        text = rest.trim_start_matches(blank);
    }
    if text.starts_with("<|channel|>") {
        let Some(at) = text.find(FINAL) else {
            return Err("the reply holds no text in its final channel");
        };
        text = &text[at + FINAL.len()..];
    }
    let (End::At(end) | End::NotBefore(end)) = end(text, 0, true);
    Ok(behind_reasoning(without_stop_word(&text[..end])).trim_matches(blank))
}

pub(super) enum End {
    /// The turn ends here.
    At(usize),
    /// It does not end before this; whether it does here is not known yet.
    NotBefore(usize),
}

/// Where the turn ends, looking from `from` on: at a token that closes it and its line, so that text may speak of one.
pub(super) fn end(text: &str, from: usize, whole: bool) -> End {
    for (at, _) in text[from..].match_indices('<') {
        let (at, tail) = (from + at, &text[from + at..]);
        if let Some(token) = ENDS.iter().find(|token| tail.starts_with(**token)) {
            let rest = tail[token.len()..].trim_start_matches([' ', '\r']);
            let last = rest.trim_start_matches(blank).is_empty();
            // In HTML, `</s>` may end a line.
            if last && whole || rest.starts_with("<|") || rest.starts_with('\n') && *token != "</s>"
            {
                return End::At(at);
            } else if !whole && (last || rest == "<") {
                return End::NotBefore(at);
            }
        } else if !whole && ENDS.iter().any(|token| token.starts_with(tail)) {
            return End::NotBefore(at);
        }
    }
    if whole {
        End::At(text.len())
    } else {
        End::NotBefore(text.len())
    }
}

/// Some templates open the reasoning themselves: then all before a lone closing tag at the edge of a line is reasoning,
/// if a step or an answer follows it, or if there is none before it either.
fn behind_reasoning(text: &str) -> &str {
    let (mut at, mut closer, mut seen) = (0, None, false);
    while at < text.len() {
        let line = first_line(&text[at..]);
        let next = text.len().min(at + line.len() + 1);
        match look(&text[at..], true) {
            Line::Reasoning(close) => match find(&text[at..], close) {
                Some(end) => {
                    at += end + close.len();
                    continue;
                }
                None => return text,
            },
            Line::Marker(Marker::Thought | Marker::Action | Marker::Answer, ..) => match closer {
                Some(behind) => return &text[behind..],
                None => seen = true,
            },
            _ => {}
        }
        for (_, close) in REASONING {
            let trimmed = line.trim_matches(blank);
            let tag = find(trimmed, close).map(|start| (start, start + close.len()));
            if let Some((start, end)) =
                tag.filter(|&(start, end)| start == 0 || end == trimmed.len())
            {
                let lead = line.len() - line.trim_start_matches(blank).len();
                closer = Some(at + lead + end);
                if start == 0 && matches!(look(&trimmed[end..], true), Line::Marker(..)) {
                    return &text[at + lead + end..];
                }
            }
        }
        at = next;
    }
    closer
        .filter(|_| !seen)
        .map_or(text, |behind| &text[behind..])
}

/// The text without the reasoning blocks that begin at the start of a line; one that is never closed
/// goes to the end.
pub(super) fn without_reasoning(text: &str) -> String {
    let (mut at, mut spoken) = (0, String::new());
    while at < text.len() {
        at += match look(&text[at..], true) {
            Line::Reasoning(close) => match find(&text[at..], close) {
                Some(end) => end + close.len(),
                None => break,
            },
            _ => {
                let line = &text[at..];
                let line = &line[..line.len().min(first_line(line).len() + 1)];
                spoken += line;
                line.len()
            }
        };
    }
    spoken.trim_matches(blank).to_owned()
}

/// A server that stops at a stop word may still have sent its first letters, as the last line.
fn without_stop_word(text: &str) -> &str {
    let cut = text
        .rsplit_once('\n')
        .filter(|(_, last)| last.trim_start_matches(blank).len() >= 3 && stop_word(last));
    cut.map_or(text, |(before, _)| before)
}

/// Whether `line` is the beginning of a stop word.
pub(super) fn stop_word(line: &str) -> bool {
    let line = line.trim_start_matches(blank);
    ["Observation", "PAUSE"]
        .iter()
        .any(|word| word.starts_with(line))
}
