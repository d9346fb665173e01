//! The roles that text can have, and the style of each. A plain theme has empty styles, which
//! write nothing; so nobody else asks whether there is colour.

use owo_colors::Style;

/// A style for each role. All colours are different, and every line has a label as well.
#[derive(Debug, Clone, Copy)]
pub struct Theme {
    /// The question.
    pub query: Style,
    /// What the model thinks.
    pub thought: Style,
    /// What it does.
    pub action: Style,
    /// What came of it.
    pub observation: Style,
    /// The answer.
    pub answer: Style,
    /// An end without an answer, and every error.
    pub error: Style,
    /// What the person should know.
    pub notice: Style,
    /// A reply that could not be used.
    pub malformed: Style,
    /// The frame around a line of the tree.
    pub frame: Style,
}

impl Theme {
    /// TinyReAct's colours, or none.
    pub fn new(color: bool) -> Self {
        let style = |with: fn(Style) -> Style| {
            if color {
                with(Style::new())
            } else {
                Style::new()
            }
        };
        Self {
            query: style(Style::bright_magenta),
            thought: style(Style::bright_blue),
            action: style(Style::bright_cyan),
            observation: style(Style::bright_yellow),
            answer: style(Style::bright_green),
            error: style(Style::bright_red),
            notice: style(Style::dimmed),
            malformed: style(Style::red),
            frame: style(Style::dimmed),
        }
    }
}
