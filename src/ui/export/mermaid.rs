//! The session as a Mermaid sequence diagram: who said what to whom.
//!
//! A label has no character that means something to Mermaid: what is neither a letter, a digit, a blank nor
//! harmless punctuation is written as its number, `#59;`. What Mermaid would not draw, because it takes no
//! text of 50,000 characters, is left out with a word about it.

use std::fmt::Write;

use super::story::{Failure, Part, Story, ruling};
use super::{count, duration, label};
use crate::session::event::Status;

/// The most characters of a label.
const LABEL: usize = 80;
/// The most bytes of arrows; what comes after is the end.
const LARGEST: usize = 40_000;

/// The document.
pub(super) fn diagram(story: &Story<'_>) -> String {
    let mut out = String::from(
        "sequenceDiagram\n    actor P as Person\n    participant A as Agent\n    participant M as Model\n    \
         participant T as Tools\n",
    );
    line(&mut out, "Note over M", story.model);
    line(&mut out, "P->>A", story.query);
    let mut left_out = 0;
    for step in &story.steps {
        let mut arrows = String::new();
        if let Some(number) = step.number {
            line(&mut arrows, "A->>M", &format!("Call {number}"));
        }
        for part in &step.parts {
            part_of(&mut arrows, part);
        }
        if left_out > 0 || out.len() + arrows.len() > LARGEST {
            left_out += 1;
        } else {
            out += &arrows;
        }
    }
    if left_out > 0 {
        let note = format!("{} not shown", count(left_out, "more step"));
        line(&mut out, "Note over A", &note);
        match (story.answer, story.failure) {
            (Some(text), _) => line(&mut out, "A->>P", &format!("Answer: {text}")),
            (None, Some(failure)) => part_of(&mut out, &Part::Failure(failure)),
            (None, None) => {}
        }
    }
    let calls = count(story.calls(), "step");
    let end = format!("{}, {calls}, {}", story.status(), duration(story.ms));
    line(&mut out, "Note over P,T", &end);
    out
}

fn part_of(out: &mut String, part: &Part<'_>) {
    match part {
        Part::Thought(text) => line(out, "M-->>A", &format!("Thought: {text}")),
        Part::Action { call, verdict } => {
            line(out, "A->>T", call);
            if let Some(ruling) = verdict.and_then(ruling) {
                line(out, "Note over A", &ruling);
            }
        }
        Part::Observation { ok: true, text, .. } => line(out, "T-->>A", text),
        Part::Observation { text, .. } => line(out, "T--xA", text),
        Part::Malformed(why) => line(out, "M--xA", &format!("Malformed: {why}")),
        Part::Failed(span) => line(out, "M--xA", &span.output),
        Part::Notice(text) => line(out, "Note over A", text),
        Part::Answer(text) => line(out, "A->>P", &format!("Answer: {text}")),
        Part::Failure(Failure { status, text, .. }) => {
            let what = match status {
                Status::Limit => "Terminate",
                _ => "Error",
            };
            line(out, "A--xP", &format!("{what}: {text}"));
        }
    }
}

/// One line of the diagram.
fn line(out: &mut String, arrow: &str, text: &str) {
    let text = escape(&label(text, LABEL));
    // Mermaid wants something behind the colon.
    let text = if text.is_empty() { "…" } else { &text };
    writeln!(out, "    {arrow}: {text}").unwrap_or_default();
}

/// A text that is only that.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            ' ' | '.' | ',' | '?' | '!' | '(' | ')' | '/' | '=' | '+' | '_' | '-' | '\'' | '"'
            | '…' | '°' | '–' => {
                out.push(c);
            }
            // What is put together of several characters stays together.
            '\u{300}'..='\u{36f}' | '\u{fe0f}' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            c => write!(out, "#{};", u32::from(c)).unwrap_or_default(),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_label_cannot_leave_its_line() {
        let mut out = String::new();
        line(&mut out, "A->>M", "end; wrap: #35;\nP->>A: x<br>\"%%{");
        assert_eq!(
            out,
            "    A->>M: end#59; wrap#58; #35;35#59;#9166;P-#62;#62;A#58; x#60;br#62;\"#37;#37;#123;\n"
        );
    }

    proptest! {
        #[test]
        fn a_label_is_one_line_without_anything_that_mermaid_knows(text in any::<String>()) {
            let mut out = String::new();
            line(&mut out, "A->>M", &text);
            let label = out.strip_prefix("    A->>M: ").and_then(|out| out.strip_suffix('\n'));
            let label = label.unwrap().to_owned();
            let entities = label.split('#').skip(1).all(|piece| {
                piece.split_once(';').is_some_and(|(digits, _)| digits.parse::<u32>().is_ok())
            });
            prop_assert!(entities);
            let known = |c: char| c.is_control() || "<>:%{}`$&\\|[]*~@^".contains(c);
            prop_assert!(!label.contains(known));
        }
    }
}
