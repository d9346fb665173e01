//! The session as one HTML page that stands alone: no network, no scripts, no other file.
//!
//! `<details>` folds what is long. A policy in the page itself forbids everything but its own style. Colours
//! follow the reader's light or dark theme, are never the only sign, and give way to ink on paper.

use std::fmt::Write;

use super::story::{Failure, Part, Said, Span, Step, Story, ruling};
use super::{count, duration, label, shown, tokens};
use crate::session::event::{Message, Role, Status};

/// How the page looks.
const STYLE: &str = include_str!("page.css");
/// The most characters of the question in the heading; the rest is folded.
const HEADING: usize = 300;
/// The most bytes of a text that is shown at once; the rest is folded.
const AT_ONCE: usize = 1500;
/// The most characters of a span's title.
const TITLE: usize = 120;
/// The most spans in the picture of them.
const SPANS: usize = 400;

/// The document.
pub(super) fn page(story: &Story<'_>) -> String {
    let mut out = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"referrer\" content=\"no-referrer\">\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        line(story.query, 100)
    );
    header(&mut out, story);
    out += "<main>\n";
    outcome(&mut out, story);
    facts(&mut out, story);
    timeline(&mut out, story);
    steps(&mut out, story);
    talk(&mut out, story);
    writeln!(
        out,
        "</main>\n<footer>Session <code>{}</code>, exported by reagent</footer>\n</body>\n</html>",
        line(story.id, TITLE)
    )
    .unwrap_or_default();
    out
}

fn header(out: &mut String, story: &Story<'_>) {
    let (kind, mark) = match story.status {
        Some(Status::Answered) => ("good", "✔"),
        Some(_) => ("bad", "✖"),
        None => ("open", "…"),
    };
    let query = shown(story.query.trim());
    let at = query.char_indices().nth(HEADING).map(|(at, _)| at);
    let (head, rest) = query.split_at(at.map_or(query.len(), |at| seam(&query, at)));
    write!(
        out,
        "<header>\n<div class=\"over\"><p class=\"role query\">Question</p>\n\
         <p class=\"badge {kind}\"><span aria-hidden=\"true\">{mark}</span> {}</p></div>\n\
         <h1 dir=\"auto\">{}</h1>\n",
        story.status(),
        escape(head)
    )
    .unwrap_or_default();
    fold(out, rest);
    *out += "</header>\n";
}

fn outcome(out: &mut String, story: &Story<'_>) {
    if let Some(text) = story.answer {
        *out += "<section class=\"outcome answer\" aria-labelledby=\"outcome\">\n<h2 id=\"outcome\">Answer</h2>\n";
        block(out, text);
        *out += "</section>\n";
    } else if let Some(failure) = story.failure {
        *out += "<section class=\"outcome error\" aria-labelledby=\"outcome\">\n<h2 id=\"outcome\">No answer</h2>\n";
        failed(out, failure);
        *out += "</section>\n";
    } else {
        *out += "<section class=\"outcome\" aria-labelledby=\"outcome\">\n<h2 id=\"outcome\">No answer yet</h2>\n\
                 <p>The record ends before the session does.</p>\n</section>\n";
    }
}

fn facts(out: &mut String, story: &Story<'_>) {
    *out += "<dl class=\"facts\">\n";
    let mut fact = |name: &str, value: &str| {
        *out += &format!("<div><dt>{name}</dt><dd>{value}</dd></div>\n");
    };
    let usage = story.usage;
    fact("Model", &line(story.model, TITLE));
    fact("Engine", &line(story.engine, TITLE));
    fact("Time", &duration(story.ms));
    fact("Steps", &format!("{} of {}", story.calls(), story.ttl));
    fact("Tool calls", &story.tool_calls.to_string());
    match (usage.input_tokens, usage.output_tokens) {
        (None, None) => fact("Tokens", "unknown"),
        (input, output) => fact(
            "Tokens",
            &format!("{} in, {} out", tokens(input), tokens(output)),
        ),
    }
    let started = line(story.started, TITLE);
    let whole_seconds = started.split('.').next().unwrap_or_default();
    let moment = format!(
        "{} UTC",
        whole_seconds.trim_end_matches('Z').replace('T', " ")
    );
    fact(
        "Started",
        &format!("<time datetime=\"{started}\">{moment}</time>"),
    );
    if let Some(before) = story.continues {
        fact("Continues", &line(before, TITLE));
    }
    *out += "</dl>\n";
}

fn timeline(out: &mut String, story: &Story<'_>) {
    if story.spans.is_empty() {
        return;
    }
    let ends = story.spans.iter().map(|span| span.at + span.ms);
    let whole = ends.max().unwrap_or(0).max(story.ms).max(1);
    write!(
        out,
        "<section aria-labelledby=\"timeline\">\n<h2 id=\"timeline\">Timeline</h2>\n\
         <ol class=\"spans\">\n<li class=\"ruler\" aria-hidden=\"true\"><span class=\"what\">Span</span>\
         <span class=\"scale\"><span>0 s</span><span>{}</span><span>{}</span></span>\
         <span class=\"used\">Tokens</span><span class=\"long\">Time</span></li>\n",
        duration(whole / 2),
        duration(whole)
    )
    .unwrap_or_default();
    for span in story.spans.iter().take(SPANS) {
        bar(out, span, whole);
    }
    *out += "</ol>\n";
    if let Some(more @ 1..) = story.spans.len().checked_sub(SPANS) {
        *out += &format!("<p>{} not shown.</p>\n", count(more, "more span"));
    }
    *out += "</section>\n";
}

/// A span as a bar at its place in the whole.
fn bar(out: &mut String, span: &Span<'_>, whole: u64) {
    let percent = |part: u64| {
        let hundredths = u128::from(part) * 10_000 / u128::from(whole);
        format!("{}.{:02}%", hundredths / 100, hundredths % 100)
    };
    let kind = span.kind.label();
    let class = match span.closed {
        None => " open",
        Some(_) if span.has_failed() => " failed",
        Some(_) => "",
    };
    let mark = match span.closed {
        None => " <b class=\"mark\">unfinished</b>",
        Some(_) if span.has_failed() => " <b class=\"mark\">✖ failed</b>",
        Some(_) => "",
    };
    let meta = span.closed.and_then(|closed| closed.usage.meta());
    let meta = meta.unwrap_or_default();
    let meta = meta.replace(" tokens", "<span class=\"unseen\"> tokens</span>");
    let title = line(span.title, TITLE);
    let title = match span.step {
        Some(step) => format!("<a href=\"#step-{step}\">{title}</a>"),
        None => title,
    };
    writeln!(
        out,
        "<li class=\"{}{class}\"><span class=\"what\"><b class=\"kind\">{kind}</b>{mark} \
         <span class=\"title\" dir=\"auto\">{title}</span></span>\
         <span class=\"track\" aria-hidden=\"true\"><i style=\"--at:{};--for:{}\"></i></span>\
         <span class=\"used\">{meta}</span>\
         <span class=\"long\">{}<span class=\"unseen\"> from {}</span></span></li>",
        kind.to_ascii_lowercase(),
        percent(span.at),
        percent(span.ms),
        duration(span.ms),
        duration(span.at),
    )
    .unwrap_or_default();
}

fn steps(out: &mut String, story: &Story<'_>) {
    if story.steps.is_empty() {
        return;
    }
    *out += "<section aria-labelledby=\"steps\">\n<h2 id=\"steps\">Steps</h2>\n";
    for step in &story.steps {
        step_of(out, step);
    }
    *out += "</section>\n";
}

fn step_of(out: &mut String, step: &Step<'_>) {
    match step.number {
        Some(number) => {
            let mut meta = vec![format!("at {}", duration(step.at))];
            meta.push(format!("model {}", duration(step.model_ms)));
            if step.tool_ms > 0 {
                meta.push(format!("tools {}", duration(step.tool_ms)));
            }
            meta.extend(step.usage.meta());
            write!(
                out,
                "<article class=\"step\" id=\"step-{number}\">\n\
                 <h3><span class=\"number\">Step {number}</span> <small>{}</small></h3>\n",
                meta.join(" · ")
            )
            .unwrap_or_default();
        }
        None => *out += "<article class=\"step\">\n<h3>Before the first step</h3>\n",
    }
    for part in &step.parts {
        part_of(out, part);
    }
    *out += "</article>\n";
}

fn part_of(out: &mut String, part: &Part<'_>) {
    let (class, name) = match part {
        Part::Thought(_) => ("thought", "Thought"),
        Part::Action { .. } => ("action", "Action"),
        Part::Observation { ok: true, .. } => ("observation", "Observation"),
        Part::Observation { .. } => ("observation failed", "Observation"),
        Part::Malformed(_) => ("error", "Malformed"),
        Part::Notice(_) => ("notice", "Notice"),
        Part::Answer(_) => ("answer", "Answer"),
        Part::Failure(failure) if failure.status == Status::Limit => ("error", "Terminate"),
        Part::Failure(_) => ("error", "Error"),
        Part::Failed(_) => ("error", "Failed"),
    };
    write!(
        out,
        "<div class=\"part {class}\">\n<h4 class=\"role\">{name}</h4>\n<div class=\"body\">\n"
    )
    .unwrap_or_default();
    match part {
        Part::Thought(text) | Part::Malformed(text) | Part::Notice(text) => block(out, text),
        // It stands where it is looked for.
        Part::Answer(_) => *out += "<p><a href=\"#outcome\">See above</a></p>\n",
        Part::Action { call, verdict } => {
            let call = shown(call);
            let (first, rest) = parted(&call);
            *out += &format!("<pre><code>{}</code></pre>\n", escape(first));
            fold(out, rest);
            if let Some(ruling) = verdict.and_then(ruling) {
                *out += &format!("<p class=\"ruling\">{}</p>\n", escape(&shown(&ruling)));
            }
        }
        Part::Observation { ok, text, ms } => {
            let failed = "<b class=\"mark\">✖ failed</b> ";
            let failed = if *ok { "" } else { failed };
            block(out, text);
            *out += &format!("<p class=\"meta\">{failed}{}</p>\n", duration(*ms));
        }
        Part::Failed(span) => {
            let kind = span.kind.label();
            *out += &format!(
                "<p><b class=\"mark\">✖ {kind} failed</b> <span class=\"meta\">{}</span></p>\n",
                duration(span.ms)
            );
            block(out, &span.output);
        }
        Part::Failure(failure) => failed(out, *failure),
    }
    *out += "</div>\n</div>\n";
}

fn failed(out: &mut String, failure: Failure<'_>) {
    block(out, failure.text);
    if let Some(hint) = failure.hint {
        *out += &format!("<p class=\"meta\">Hint: {}</p>\n", escape(&shown(hint)));
    }
}

fn talk(out: &mut String, story: &Story<'_>) {
    if story.talk.is_empty() {
        return;
    }
    *out += "<section aria-labelledby=\"messages\">\n<h2 id=\"messages\">Messages</h2>\n\
             <p class=\"meta\">What the model was sent and sent, as it is.</p>\n";
    for said in &story.talk {
        match said {
            Said::Message(step, told) => {
                let step = step.map_or_else(String::new, |step| format!(" · step {step}"));
                message(out, told, &step);
            }
            Said::Anew => *out += "<p class=\"meta\">What the model sees begins anew here.</p>\n",
            Said::Replaced(at, told) => {
                message(
                    out,
                    told,
                    &format!(" · now in the place of message {}", at + 1),
                );
            }
        }
    }
    *out += "</section>\n";
}

fn message(out: &mut String, message: &Message, note: &str) {
    let role = match message.role {
        Role::System => "system",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let size = count(message.content.chars().count(), "character");
    write!(
        out,
        "<details class=\"message {role}\">\n<summary><b>{role}</b> <small>{size}{note}</small> \
         <span class=\"begin\" dir=\"auto\">{}</span></summary>\n<div class=\"text\" dir=\"auto\">{}</div>\n",
        line(&message.content, 90),
        escape(&shown(&message.content))
    )
    .unwrap_or_default();
    for call in &message.calls {
        let text = format!("{} {}", call.name, call.args);
        *out += &format!(
            "<p class=\"meta\">calls</p>\n<pre><code>{}</code></pre>\n",
            escape(&shown(&text))
        );
    }
    if let Some(call) = &message.answers {
        *out += &format!(
            "<p class=\"meta\">result of {}</p>\n",
            line(&call.name, TITLE)
        );
    }
    *out += "</details>\n";
}

/// A text with its line breaks; what is more than a screenful is folded.
fn block(out: &mut String, text: &str) {
    let text = shown(text);
    let (first, rest) = parted(&text);
    *out += &format!("<div class=\"text\" dir=\"auto\">{}</div>\n", escape(first));
    fold(out, rest);
}

/// What of a text is shown at once, and what is folded.
fn parted(text: &str) -> (&str, &str) {
    let at = match text.len() {
        0..=AT_ONCE => text.len(),
        _ => seam(text, text.floor_char_boundary(AT_ONCE)),
    };
    text.split_at(at)
}

/// The rest of a text, if there is any, to be unfolded.
fn fold(out: &mut String, rest: &str) {
    let rest = rest.trim_matches('\n');
    if rest.is_empty() {
        return;
    }
    let more = count(rest.chars().count(), "more character");
    *out += &format!(
        "<details class=\"more\">\n<summary>{more}</summary>\n<div class=\"text\" dir=\"auto\">{}</div>\n</details>\n",
        escape(rest)
    );
}

/// Where a text is best parted, at this place or shortly before it.
fn seam(text: &str, at: usize) -> usize {
    let near = text.floor_char_boundary(at.saturating_sub(200));
    let blank = text[near..at].rfind(char::is_whitespace);
    blank.map_or(at, |blank| near + blank)
}

/// A text on one line, of so many characters at most, for a place between tags or in an attribute.
fn line(text: &str, most: usize) -> String {
    escape(&label(text, most))
}

/// A text in which nothing is markup, between tags and in attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        assert_eq!(
            escape("<a href='x' title=\"y\">&amp;</a>"),
            "&lt;a href=&#39;x&#39; title=&quot;y&quot;&gt;&amp;amp;&lt;/a&gt;"
        );
    }

    #[test]
    fn a_long_text_is_parted_at_a_blank() {
        assert_eq!(seam("one two three", 9), 7);
        assert_eq!(seam("onetwothree", 9), 9);
        assert_eq!(seam("", 0), 0);
    }
}
