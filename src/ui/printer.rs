//! The trace in lines, with TinyReAct's look: one labelled, coloured line a thought, action and
//! observation.

use std::borrow::Cow;

use owo_colors::Style;

use super::markdown::Flow;
use super::screen::Screen;
use super::text::{clean, indented, strict};
use super::theme::Theme;
use crate::error::Result;
use crate::session::Sink;
use crate::session::event::{Event, Fact, Part, SpanKind, Status};

/// What stands before an answer.
const ANSWER: &str = "Answer: ";
/// How much of an observation a person is shown.
const FOLD_LINES: usize = 20;
const FOLD_BYTES: usize = 2000;

/// Prints each event as it comes; on a terminal also thoughts and answers while they stream.
pub struct Printer {
    screen: Screen,
    theme: Theme,
    /// What is being streamed, if its line is not finished.
    open: Option<Part>,
    /// What of this reply has been streamed.
    streamed: Vec<Part>,
    /// White space that is shown once something follows it.
    held: String,
    /// The answer that is being streamed.
    flow: Option<Flow>,
}

impl Printer {
    /// Prints on this screen.
    pub fn new(screen: Screen) -> Self {
        Self {
            screen,
            theme: screen.theme(),
            open: None,
            streamed: Vec::new(),
            held: String::new(),
            flow: None,
        }
    }

    fn line(&self, style: Style, label: &str, text: &str) {
        let line = format!("{label}: {}", indented(&clean(text)));
        self.screen.say(&format!("{}\n", style.style(line)));
    }

    fn stream(&mut self, part: Part, step: u32, piece: &str) -> Result<()> {
        let shown = match part {
            Part::Thought => self.screen.err.terminal,
            Part::Answer => self.screen.streams_answers(),
        };
        if !shown || (self.open != Some(part) && piece.trim().is_empty()) {
            return Ok(());
        }
        let Theme {
            thought, answer, ..
        } = self.theme;
        let begins = self.open != Some(part);
        if begins {
            self.close()?;
            self.open = Some(part);
            self.streamed.push(part);
        }
        match part {
            Part::Thought => {
                if begins {
                    let label = thought.style(format!("Thought{step}: "));
                    self.screen.say(&label.to_string());
                }
                let piece = format!("{}{piece}", std::mem::take(&mut self.held));
                let end = piece.trim_end().len();
                self.held = piece[end..].to_owned();
                let piece = indented(&clean(&piece[..end]));
                self.screen.say(&thought.style(piece).to_string());
                Ok(())
            }
            Part::Answer => {
                if begins {
                    self.screen.say(&answer.style(ANSWER).to_string());
                }
                let flow = &mut self.flow;
                let flow = flow.get_or_insert_with(|| self.screen.flow(ANSWER.len()));
                let piece = if begins { piece.trim_start() } else { piece };
                let shown = self.screen.flown(flow, piece);
                self.screen.put(&shown)
            }
        }
    }

    fn close(&mut self) -> Result<()> {
        self.held.clear();
        let rest = self.flow.take().map(|mut flow| flow.finish());
        match self.open.take() {
            Some(Part::Thought) => self.screen.say("\n"),
            Some(Part::Answer) => {
                let rest = rest.unwrap_or_default();
                return self.screen.put(&format!("{rest}\n"));
            }
            None => {}
        }
        Ok(())
    }
}

impl Sink for Printer {
    fn see(&mut self, event: &Event) -> Result<()> {
        let theme = self.theme;
        let step = event.step.unwrap_or(0);
        match &event.fact {
            Fact::Text { part, text } => return self.stream(*part, step, text),
            Fact::Opened {
                kind: SpanKind::Llm,
                ..
            } => self.streamed.clear(),
            Fact::Opened { .. } | Fact::Closed(_) | Fact::Message(_) => return Ok(()),
            Fact::Thought { .. } if self.streamed.contains(&Part::Thought) => return Ok(()),
            Fact::Answer { .. } if self.streamed.contains(&Part::Answer) => return self.close(),
            _ => self.close()?,
        }
        match &event.fact {
            Fact::Start(start) => self.line(theme.query, "Query", &start.query),
            Fact::Thought { text } => self.line(theme.thought, &format!("Thought{step}"), text),
            Fact::Action { call, .. } => {
                self.line(theme.action, &format!("Action{step}"), &strict(call));
            }
            Fact::Observation { text, .. } => {
                let text = match self.screen.err.terminal {
                    true => folded(text),
                    false => Cow::Borrowed(text.as_str()),
                };
                self.line(theme.observation, &format!("Observation{step}"), &text);
            }
            Fact::Malformed { why } => self.line(theme.malformed, &format!("Malformed{step}"), why),
            Fact::Intervened { what, text } => {
                let said = format!("{what}: {text}");
                let said = said.trim_end_matches(": ");
                self.line(theme.query, &format!("Person{step}"), said);
            }
            Fact::Notice { text } => self.screen.notice(text),
            Fact::Answer { text } => {
                return self
                    .screen
                    .answer(&theme.answer.style(ANSWER).to_string(), text);
            }
            Fact::Error { status, text, hint } => {
                failure(&self.screen, *status, text, hint.as_deref());
            }
            _ => {}
        }
        Ok(())
    }
}

/// The beginning of a long text, and how much there is of it. The record has all.
fn folded(text: &str) -> Cow<'_, str> {
    let text = text.trim_end_matches('\n');
    let lines = text.split('\n').map(|line| line.len() + 1);
    let end = lines.take(FOLD_LINES).sum::<usize>().saturating_sub(1);
    if end.min(FOLD_BYTES) >= text.len() {
        return Cow::Borrowed(text);
    }
    let start = &text[..text.floor_char_boundary(end.min(FOLD_BYTES))];
    let more = text[start.len()..].matches('\n').count();
    let what = match more {
        0 => "…".to_owned(),
        1 => "… 1 more line,".to_owned(),
        _ => format!("… {more} more lines,"),
    };
    Cow::Owned(format!("{start}\n{what} {} bytes in all", text.len()))
}

/// How an end without an answer is shown, in every view.
pub fn failure(screen: &Screen, status: Status, text: &str, hint: Option<&str>) {
    let theme = screen.theme();
    let (label, style) = match status {
        Status::Limit => ("Terminate", theme.terminate),
        _ => ("error", theme.error),
    };
    let mut lines = format!("{}\n", style.style(format!("{label}: {}", strict(text))));
    if let Some(hint) = hint {
        lines += &format!(
            "{}\n",
            theme.notice.style(format!("hint: {}", strict(hint)))
        );
    }
    screen.say(&lines);
}
