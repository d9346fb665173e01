//! What is being waited for, and for how long: on the last line of a terminal, while nothing else is
//! written there.

use std::cell::RefCell;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::termios::tcgetwinsize;

use super::text::strict;
use super::theme::Theme;
use crate::error::Result;
use crate::interrupt;
use crate::session::Sink;
use crate::session::event::{Event, Fact, SpanKind, Usage};

/// A wait is worth a line when it has taken so long.
const SHORT: Duration = Duration::from_millis(400);
/// How often the line is written anew.
const TICK: Duration = Duration::from_millis(100);
/// How much of a tool's name is shown.
const NAME: usize = 24;

thread_local! {
    /// Ticked from wherever the program waits, and taken away from wherever it writes.
    static LINE: RefCell<Line> = RefCell::default();
}

#[derive(Default)]
struct Line {
    /// What stands before it.
    progress: String,
    /// What is being waited for, since when.
    waiting: Option<(String, Instant)>,
    /// What the question has cost so far.
    usage: Usage,
    style: owo_colors::Style,
    shown: Option<Instant>,
}

/// Keeps the line up to date.
pub struct Status(());

impl Status {
    /// From here on the line is shown while the program waits.
    pub fn new(theme: Theme) -> Self {
        LINE.with_borrow_mut(|line| line.style = theme.notice);
        interrupt::while_waiting(tick);
        Self(())
    }
}

impl Sink for Status {
    fn see(&mut self, event: &Event) -> Result<()> {
        let waiting = match &event.fact {
            Fact::Start(_) => {
                LINE.with_borrow_mut(|line| line.usage = Usage::default());
                None
            }
            Fact::Opened {
                kind: SpanKind::Llm,
                ..
            } => Some("thinking".to_owned()),
            Fact::Opened {
                kind: SpanKind::Tool,
                title,
                ..
            } => {
                let name = title.split('(').next().unwrap_or_default();
                Some(strict(name).chars().take(NAME).collect())
            }
            Fact::Closed(span) => {
                LINE.with_borrow_mut(|line| line.usage += span.usage);
                let again = span.kind == SpanKind::Llm && !span.ok;
                again.then(|| "trying again".to_owned())
            }
            Fact::Text { .. } | Fact::End(_) => None,
            _ => return Ok(()),
        };
        hide();
        LINE.with_borrow_mut(|line| line.waiting = waiting.map(|what| (what, Instant::now())));
        Ok(())
    }
}

/// From here on this stands before what is being waited for, and the line is shown at once.
pub fn progress(text: String) {
    LINE.with_borrow_mut(|line| line.progress = text);
}

/// Takes the line away, for something else to be written there.
pub(super) fn hide() {
    LINE.with_borrow_mut(|line| {
        if line.shown.take().is_some() {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
    });
}

/// How many columns a terminal has; 80 if it does not say.
pub(super) fn width(terminal: impl AsFd) -> usize {
    match tcgetwinsize(terminal).map_or(0, |size| usize::from(size.ws_col)) {
        0 => 80,
        width => width,
    }
}

fn tick() {
    LINE.with_borrow_mut(|line| {
        let Some((what, since)) = &line.waiting else {
            return;
        };
        let early = since.elapsed() < SHORT && line.progress.is_empty();
        if early || line.shown.is_some_and(|at| at.elapsed() < TICK) {
            return;
        }
        let mut text = format!(
            "{}{what} {:.1}s",
            line.progress,
            since.elapsed().as_secs_f64()
        );
        let Usage {
            input_tokens,
            output_tokens,
        } = line.usage;
        if let Some(tokens) = input_tokens.or(output_tokens) {
            let tokens = tokens
                + output_tokens
                    .filter(|_| input_tokens.is_some())
                    .unwrap_or(0);
            text += &format!(", {tokens} tokens so far");
        }
        // A line that wraps could not be taken away.
        let width = width(io::stderr()).saturating_sub(1);
        let text: String = text.chars().take(width).collect();
        let text = line.style.style(text);
        let _ = io::stderr().write_all(format!("\r\x1b[K{text}").as_bytes());
        line.shown = Some(Instant::now());
    });
}
