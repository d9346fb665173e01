//! The session as Markdown, as CommonMark and GitHub read it.
//!
//! Question, thoughts and answer are prose in which nothing is markup; calls and observations stand in
//! fences that are longer than any within.

use std::fmt::Write;

use super::story::{Failure, Part, Step, Story, ruling};
use super::{count, duration, label, shown, tokens};
use crate::session::event::Status;

/// The most characters of the question in the title.
const TITLE: usize = 200;

/// The document.
pub(super) fn document(story: &Story<'_>) -> String {
    let title = label(story.query, TITLE);
    let mut out = format!("# {}\n\n", prose(&title, ""));
    let mut fact = |name: &str, value: &str| out += &format!("- **{name}:** {value}\n");
    fact("Status", story.status());
    fact("Model", &code(story.model));
    fact("Engine", &code(story.engine));
    fact("Started", &code(story.started));
    fact("Session", &code(story.id));
    if let Some(before) = story.continues {
        fact("Continues", &code(before));
    }
    if title != shown(story.query.trim()) {
        out += "\n## Question\n\n";
        out += &fenced(story.query);
    }
    if let Some(text) = story.answer {
        out += &format!("\n## Answer\n\n> {}\n", prose(&shown(text), "> "));
    }
    if let Some(failure) = story.failure {
        out += "\n## No answer\n";
        part_of(&mut out, &Part::Failure(failure));
    }
    for step in &story.steps {
        step_of(&mut out, step);
    }
    if story.status.is_none() {
        out += "\nThe record ends here: the session is unfinished.\n";
    }
    totals(&mut out, story);
    out
}

fn step_of(out: &mut String, step: &Step<'_>) {
    match step.number {
        Some(number) => *out += &format!("\n## Step {number}\n"),
        None => *out += "\n## Before the first step\n",
    }
    for part in &step.parts {
        part_of(out, part);
    }
}

fn part_of(out: &mut String, part: &Part<'_>) {
    let said = |name: &str, text: &str| format!("\n**{name}:** {}\n", prose(&shown(text), ""));
    match part {
        Part::Thought(text) => *out += &said("Thought", text),
        Part::Action { call, verdict } => {
            *out += &format!("\n**Action:**\n\n{}", fenced(call));
            if let Some(ruling) = verdict.and_then(ruling) {
                *out += &said("Ruling", &ruling);
            }
        }
        Part::Observation { ok, text, ms } => {
            let failed = if *ok { "" } else { "failed, " };
            let head = format!("**Observation** ({failed}{}):", duration(*ms));
            *out += &format!("\n{head}\n\n{}", fenced(text));
        }
        Part::Malformed(why) => *out += &said("Malformed", why),
        Part::Notice(text) => *out += &said("Notice", text),
        Part::Failed(span) => *out += &said(&format!("{} failed", span.kind.label()), &span.output),
        // Above, where it is looked for.
        Part::Answer(_) => *out += "\n**Answer:** see above.\n",
        Part::Failure(Failure { status, text, hint }) => {
            let name = match status {
                Status::Limit => "Terminate",
                _ => "Error",
            };
            *out += &said(name, text);
            if let Some(hint) = hint {
                *out += &said("Hint", hint);
            }
        }
    }
}

fn totals(out: &mut String, story: &Story<'_>) {
    *out += "\n## Totals\n\n| Step | Model | Tools | Tokens in | Tokens out |\n|---:|---:|---:|---:|---:|\n";
    for step in &story.steps {
        let Some(number) = step.number else {
            continue;
        };
        let (model, tools) = (duration(step.model_ms), duration(step.tool_ms));
        let (input, output) = (
            tokens(step.usage.input_tokens),
            tokens(step.usage.output_tokens),
        );
        writeln!(out, "| {number} | {model} | {tools} | {input} | {output} |").unwrap_or_default();
    }
    let model = story.steps.iter().map(|step| step.model_ms).sum();
    let tools = story.steps.iter().map(|step| step.tool_ms).sum();
    writeln!(
        out,
        "| **all** | {} | {} | {} | {} |\n\n{} of {}, {}, {} in all.",
        duration(model),
        duration(tools),
        tokens(story.usage.input_tokens),
        tokens(story.usage.output_tokens),
        story.calls(),
        count(
            usize::try_from(story.ttl).unwrap_or(usize::MAX),
            "allowed step"
        ),
        count(story.tool_calls, "tool call"),
        duration(story.ms),
    )
    .unwrap_or_default();
}

/// A block of text as it is.
fn fenced(text: &str) -> String {
    let text = shown(text);
    let fence = "`".repeat(ticks(&text).max(2) + 1);
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("{fence}text\n{text}{end}{fence}\n")
}

/// A few words as they are, within a line.
fn code(text: &str) -> String {
    let text = label(text, TITLE);
    if text.is_empty() {
        return "none".to_owned();
    }
    let fence = "`".repeat(ticks(&text) + 1);
    // A blank within the fence, which is not shown, keeps it apart from the text's own.
    match text.starts_with('`') || text.ends_with('`') {
        true => format!("{fence} {text} {fence}"),
        false => format!("{fence}{text}{fence}"),
    }
}

/// The longest run of backticks.
fn ticks(text: &str) -> usize {
    let runs = text.split(|c| c != '`').map(str::len);
    runs.max().unwrap_or(0)
}

/// A text in which nothing is markup, with its own line breaks. `margin` goes before each line but the first.
fn prose(text: &str, margin: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut lines = text.trim().lines().peekable();
    while let Some(line) = lines.next() {
        prose_line(&mut out, line);
        let next = lines.peek();
        if next.is_some_and(|next| !next.trim().is_empty()) && !line.trim().is_empty() {
            out.push('\\');
        }
        if next.is_some() {
            out.push('\n');
            out += margin;
        }
    }
    out
}

fn prose_line(out: &mut String, line: &str) {
    let inner = line.trim_start();
    if inner.is_empty() {
        return;
    }
    for c in line[..line.len() - inner.len()].chars() {
        *out += if c == '\t' { "&nbsp;&nbsp;" } else { "&nbsp;" };
    }
    let digits = inner.len() - inner.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    for (at, c) in inner.char_indices() {
        match c {
            '&' => *out += "&amp;",
            '<' => *out += "&lt;",
            '>' => *out += "&gt;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '~' | '|' | '$' | '^' => {
                out.push('\\');
                out.push(c);
            }
            // Lists, lines under a heading, and the rows under those of a table.
            '-' | '+' | '=' | ':' if at == 0 => {
                out.push('\\');
                out.push(c);
            }
            '.' | ')' if at == digits && at > 0 => {
                out.push('\\');
                out.push(c);
            }
            // Addresses, which become links of themselves.
            ':' if is_scheme(&inner[..at], &inner[at + 1..]) => *out += "\\:",
            '.' if inner[..at].to_ascii_lowercase().ends_with("www") => *out += "\\.",
            // People and mail addresses too, unless it is code.
            '@' => {
                *out += if inner[..at].ends_with('@') { "" } else { "`" };
                out.push('@');
                *out += if inner[at + 1..].starts_with('@') {
                    ""
                } else {
                    "`"
                };
            }
            '\t' => out.push(' '),
            c => out.push(c),
        }
    }
}

/// Whether a colon between these ends the scheme of an address.
fn is_scheme(before: &str, after: &str) -> bool {
    let before = before.to_ascii_lowercase();
    after.starts_with("//") || before.ends_with("mailto") || before.ends_with("xmpp")
}
