//! The trace as a tree of spans, with Regent's look: a line a span as it closes, with its label,
//! type, tokens, duration and message; model calls and tools are nested under the question.

use super::printer::failure;
use super::screen::Screen;
use super::text::strict;
use crate::error::Result;
use crate::session::Sink;
use crate::session::event::{Closed, Event, Fact, SpanKind, Usage};

/// Prints each span as it closes.
pub struct Tree {
    screen: Screen,
    /// What was sent last: what a model call is about.
    sent: String,
}

impl Tree {
    /// Prints on this screen.
    pub fn new(screen: Screen) -> Self {
        Self {
            screen,
            sent: String::new(),
        }
    }

    /// The line up to its message. Unknown tokens and an unknown duration are left out.
    fn head(
        &self,
        kind: SpanKind,
        what: Option<&str>,
        ok: bool,
        usage: Usage,
        ms: Option<u64>,
    ) -> String {
        let theme = self.screen.theme();
        let frame = |text: &str| theme.frame.style(text.to_owned()).to_string();
        let mut line = String::new();
        if matches!(kind, SpanKind::Llm | SpanKind::Tool | SpanKind::Memo) {
            line += &frame(" ├──");
        }
        let mark = if ok { "✔" } else { "✖" };
        line += &format!("{}{mark}{} {}", frame("["), frame("]"), frame("["));
        let label = if ok { theme.action } else { theme.error };
        line += &label.style(kind.label()).to_string();
        if let Some(what) = what {
            line += &format!("{} {}", frame(" ❯"), theme.observation.style(strict(what)));
        }
        line += &frame("]");
        if let Some(meta) = usage.meta() {
            line += &frame(&format!("[{meta}]"));
        }
        if let Some(ms) = ms {
            line += &frame(&format!("[{}s]", seconds(ms)));
        }
        line + &frame(":") + " "
    }

    fn span(&mut self, span: &Closed) {
        let Closed {
            kind,
            title,
            ok,
            output,
            ms,
            usage,
            ..
        } = span;
        let (what, message) = match kind {
            // Printed with the answer itself, which is known before its span closes.
            SpanKind::Answer => return,
            SpanKind::Input => (None, strict(title).into_owned()),
            SpanKind::Llm if *ok => (Some(title.as_str()), strict(&self.sent).into_owned()),
            SpanKind::Llm => (
                Some(title.as_str()),
                format!("{} → {}", strict(&self.sent), strict(output)),
            ),
            SpanKind::Memo => (None, strict(title).into_owned()),
            SpanKind::Tool => {
                let name = title.split('(').next().unwrap_or_default();
                let arguments = title.strip_prefix(name).unwrap_or_default();
                (
                    Some(name),
                    format!("{} → {}", strict(arguments), strict(output)),
                )
            }
        };
        let message: String = message.chars().take(500).collect();
        let head = self.head(*kind, what, *ok, *usage, Some(*ms));
        self.screen.say(&format!("{head}{message}\n"));
    }
}

impl Sink for Tree {
    fn see(&mut self, event: &Event) -> Result<()> {
        match &event.fact {
            Fact::Message(message) => self.sent.clone_from(&message.content),
            Fact::Closed(span) => self.span(span),
            Fact::Malformed { why } => {
                let theme = self.screen.theme();
                let line = format!(" ├──[✖] malformed: {}", strict(why));
                self.screen
                    .say(&format!("{}\n", theme.malformed.style(line)));
            }
            Fact::Intervened { what, text } => {
                let line = format!(" ├──[✎] person: {what} {}", strict(text));
                let theme = self.screen.theme();
                self.screen
                    .say(&format!("{}\n", theme.query.style(line.trim_end())));
            }
            Fact::Notice { text } => self.screen.notice(text),
            Fact::Answer { text } => {
                let elapsed = Some(event.elapsed);
                let head = self.head(
                    SpanKind::Answer,
                    Some("success"),
                    true,
                    Usage::default(),
                    elapsed,
                );
                return self.screen.answer(&head, text);
            }
            Fact::Error { status, text, hint } => {
                let elapsed = Some(event.elapsed);
                let head = self.head(
                    SpanKind::Answer,
                    Some("failure"),
                    false,
                    Usage::default(),
                    elapsed,
                );
                self.screen.say(&format!("{head}{}\n", strict(text)));
                failure(&self.screen, *status, text, hint.as_deref());
            }
            _ => {}
        }
        Ok(())
    }
}

/// Seconds with two places at most, and at least one, as in Regent's log.
fn seconds(ms: u64) -> String {
    let hundredths = (ms + 5) / 10;
    let text = format!("{}.{:02}", hundredths / 100, hundredths % 100);
    text.strip_suffix('0').map_or(text.clone(), str::to_owned)
}
