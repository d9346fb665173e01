//! A recorded session as a document: to read, to send to somebody, to put into another program.
//!
//! | format | for |
//! |---|---|
//! | [`Format::Html`] | a person: one page that needs nothing else, neither a network nor scripts |
//! | [`Format::Md`] | a wiki, a ticket, a mail |
//! | [`Format::Mermaid`] | a picture of who said what to whom |
//! | [`Format::Json`] | a program: every event, whole |
//!
//! What the model, the tools and the person wrote is text in all of them, whatever it looks like: no
//! markup of theirs counts, and what would be invisible is written out. Except in JSON, what is enormous is
//! cut, with a word about it. The same session gives the same bytes.

mod html;
mod json;
mod markdown;
mod mermaid;
mod story;

use std::borrow::Cow;

use super::text::{clean, strict};
use crate::secret::scrub;
use crate::session::Session;
use story::Story;

/// The most bytes of one text that a document shows.
const LONGEST: usize = 64 * 1024;

/// The formats of an exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Markdown.
    #[default]
    Md,
    /// One object with every event.
    Json,
    /// One page that stands alone.
    Html,
    /// A sequence diagram.
    Mermaid,
}

/// The session as a document in this format. It may be unfinished.
pub fn export(session: &Session, format: Format) -> String {
    let story = Story::of(session);
    match format {
        Format::Md => markdown::document(&story),
        Format::Json => json::document(session, &story),
        Format::Html => html::page(&story),
        Format::Mermaid => mermaid::diagram(&story),
    }
}

/// A text as it may be shown: without keys, not too long, with everything visible in it.
fn shown(text: &str) -> Cow<'_, str> {
    match scrub(text) {
        Cow::Borrowed(text) if text.len() <= LONGEST => clean(text),
        text => {
            let (kept, note) = cut(&text, LONGEST);
            Cow::Owned(format!("{}{note}", clean(kept)))
        }
    }
}

/// The same on one line, of so many characters at most.
fn label(text: &str, most: usize) -> String {
    let text = scrub(text.trim());
    // Not more than can be seen is looked at.
    let (kept, _) = cut(&text, most * 8);
    let line = strict(kept);
    if kept.len() == text.len() && line.chars().count() <= most {
        return line.into_owned();
    }
    let kept: String = line.chars().take(most.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// The beginning of a text, of so many bytes at most, and a note about what is missing, if anything is.
fn cut(text: &str, most: usize) -> (&str, String) {
    let kept = &text[..text.floor_char_boundary(most)];
    let note = match text.len() - kept.len() {
        0 => String::new(),
        missing => format!("\n[{missing} more bytes are not shown]"),
    };
    (kept, note)
}

/// A length of time for people: `312 ms`, `9.49 s`, `2 min 05 s`.
fn duration(ms: u64) -> String {
    match ms {
        0..1000 => format!("{ms} ms"),
        1000..60_000 => format!("{}.{:02} s", ms / 1000, ms % 1000 / 10),
        _ => format!("{} min {:02} s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// A number of things: `1 step`, `2 steps`.
fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// A number of tokens, which may be unknown.
fn tokens(number: Option<u64>) -> String {
    number.map_or_else(|| "unknown".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_one_short_line() {
        assert_eq!(label(" a\nb\u{202e} ", 20), "a⏎b<U+202E>");
        assert_eq!(label("abcdef", 6), "abcdef");
        assert_eq!(label("abcdefg", 6), "abcde…");
        assert_eq!(label(&"é".repeat(1 << 20), 3), "éé…");
    }

    #[test]
    fn an_enormous_text_is_cut_between_characters_with_a_word_about_it() {
        let text = format!("x{}", "é".repeat(LONGEST));
        let shown = shown(&text);
        assert!(shown.len() < LONGEST + 100);
        assert!(shown.ends_with("é\n[65538 more bytes are not shown]"));
    }

    #[test]
    fn lengths_of_time_are_in_the_unit_that_fits() {
        for (ms, text) in [
            (0, "0 ms"),
            (999, "999 ms"),
            (1000, "1.00 s"),
            (59_999, "59.99 s"),
            (125_000, "2 min 05 s"),
        ] {
            assert_eq!(duration(ms), text);
        }
    }
}
