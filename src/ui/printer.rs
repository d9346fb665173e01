//! The trace in lines, with TinyReAct's look: one labelled, coloured line a thought, action and
//! observation.

use owo_colors::Style;

use super::screen::Screen;
use super::text::{clean, indented, strict};
use super::theme::Theme;
use crate::error::Result;
use crate::session::Sink;
use crate::session::event::{Event, Fact, Part, SpanKind, Status};

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
        if self.open != Some(part) {
            self.close()?;
            self.open = Some(part);
            self.streamed.push(part);
            self.screen.say(&match part {
                Part::Thought => thought.style(format!("Thought{step}: ")).to_string(),
                Part::Answer => answer.style("Answer: ").to_string(),
            });
        }
        let piece = format!("{}{piece}", std::mem::take(&mut self.held));
        let end = piece.trim_end().len();
        self.held = piece[end..].to_owned();
        let piece = indented(&clean(&piece[..end]));
        match part {
            Part::Thought => self.screen.say(&thought.style(piece).to_string()),
            Part::Answer => {
                return self
                    .screen
                    .put(&self.screen.answer_theme().answer.style(piece).to_string());
            }
        }
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.held.clear();
        match self.open.take() {
            Some(Part::Thought) => self.screen.say("\n"),
            Some(Part::Answer) => return self.screen.put("\n"),
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
                self.line(theme.observation, &format!("Observation{step}"), text);
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
                    .answer(&theme.answer.style("Answer: ").to_string(), text);
            }
            Fact::Error { status, text, hint } => {
                failure(&self.screen, *status, text, hint.as_deref());
            }
            _ => {}
        }
        Ok(())
    }
}

/// How an end without an answer is shown, in every view.
pub fn failure(screen: &Screen, status: Status, text: &str, hint: Option<&str>) {
    let theme = screen.theme();
    let label = if status == Status::Limit {
        "Terminate"
    } else {
        "error"
    };
    let mut lines = format!(
        "{}\n",
        theme.error.style(format!("{label}: {}", strict(text)))
    );
    if let Some(hint) = hint {
        lines += &format!(
            "{}\n",
            theme.notice.style(format!("hint: {}", strict(hint)))
        );
    }
    screen.say(&lines);
}
