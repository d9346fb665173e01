//! Styled words put into lines of a given width.

use owo_colors::Style;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::text::clean;

/// A piece of text and its style.
pub(super) type Span = (Style, String);
/// What stands on one line.
pub(super) type Line = Vec<Span>;

/// A character that makes the one before it an emoji, which is wide.
const EMOJI: char = '\u{fe0f}';
const JOINER: char = '\u{200d}';

/// How many columns a text takes.
pub(super) fn columns(text: &str) -> usize {
    text.width()
}

/// How many columns a line takes.
pub(super) fn line_columns(line: &[Span]) -> usize {
    line.iter().map(|(_, text)| columns(text)).sum()
}

/// Puts words into lines, as many into each as fit. What was put is never changed by what follows.
pub(super) struct Wrap {
    width: usize,
    /// What every line after the first begins with.
    indent: Line,
    indent_columns: usize,
    /// The lines that are full.
    lines: Vec<Line>,
    line: Line,
    column: usize,
    /// The line has more than its indent.
    begun: bool,
    word: Vec<Span>,
    /// The blanks before the word, in the style that they had.
    blanks: Option<Span>,
}

impl Wrap {
    /// The first line begins with `first`, all others with `indent`. `used` columns of the first line
    /// are taken.
    pub(super) fn new(width: usize, used: usize, first: Line, indent: Line) -> Self {
        Self {
            width: width.max(1),
            column: used + line_columns(&first),
            indent_columns: line_columns(&indent),
            line: first,
            indent,
            lines: Vec::new(),
            begun: false,
            word: Vec::new(),
            blanks: None,
        }
    }

    /// Puts a text. Its last word is open until a blank, another line or the end.
    pub(super) fn text(&mut self, style: Style, text: &str) {
        let text = clean(text);
        let mut start = 0;
        for (at, c) in text.char_indices() {
            if !matches!(c, ' ' | '\t' | '\n') {
                continue;
            }
            self.part(style, &text[start..at]);
            start = at + 1;
            self.end_word();
            if c == '\n' {
                self.end_line();
            } else {
                let blank = if c == '\t' { "    " } else { " " };
                let blanks = self.blanks.get_or_insert((style, String::new()));
                blanks.1.push_str(blank);
            }
        }
        self.part(style, &text[start..]);
    }

    /// Puts a text that is kept as it is but for being cut at the width, blanks included.
    pub(super) fn verbatim(&mut self, style: Style, text: &str) {
        let text = clean(text).replace('\t', "    ");
        for (number, line) in text.split('\n').enumerate() {
            if number > 0 {
                self.end_line();
            }
            self.cut(style, line);
        }
    }

    /// What is complete so far; what is left goes on on the same line.
    pub(super) fn taken(&mut self) -> Vec<Line> {
        let mut lines = std::mem::take(&mut self.lines);
        lines.push(std::mem::take(&mut self.line));
        lines
    }

    /// All lines.
    pub(super) fn finish(mut self) -> Vec<Line> {
        self.end_word();
        self.taken()
    }

    /// Ends the word that is open.
    pub(super) fn end_word(&mut self) {
        let word = std::mem::take(&mut self.word);
        if word.is_empty() {
            return;
        }
        let width = line_columns(&word);
        let blanks = self.blanks.take().filter(|_| self.begun);
        let gap = blanks.as_ref().map_or(0, |(_, blanks)| blanks.len());
        let fits = self.column + gap + width <= self.width;
        let room = self.width.saturating_sub(self.indent_columns);
        let is_address = || {
            let text: String = word.iter().map(|(_, text)| text.as_str()).collect();
            text.contains("://") && text.chars().all(|c| c.is_ascii_graphic())
        };
        let whole = width <= room || is_address();
        let begun = self.begun || self.column > self.indent_columns;
        let full = self.begun && self.column + gap >= self.width;
        if !fits && (full || begun && whole) {
            self.end_line();
        } else if let Some((style, blanks)) = blanks {
            self.put(style, &blanks, gap);
        }
        if fits || whole {
            self.begun = true;
            for (style, text) in word {
                let width = columns(&text);
                self.put(style, &text, width);
            }
        } else {
            for (style, text) in word {
                self.cut(style, &text);
            }
        }
    }

    fn part(&mut self, style: Style, text: &str) {
        if !text.is_empty() {
            self.word.push((style, text.to_owned()));
        }
    }

    /// Puts a text with breaks wherever a line is full.
    fn cut(&mut self, style: Style, text: &str) {
        let mut start = 0;
        let mut width = 0;
        let mut joined = false;
        for (at, c) in text.char_indices() {
            let own = if c == EMOJI {
                1
            } else {
                c.width().unwrap_or(0)
            };
            let full = self.column + width + own > self.width;
            let splits = !joined && own > 0 && c != EMOJI;
            if full && splits && (self.begun || at > start) {
                self.put(style, &text[start..at], width);
                self.end_line();
                (start, width) = (at, 0);
            }
            joined = c == JOINER;
            width += own;
            self.begun = true;
        }
        self.put(style, &text[start..], width);
    }

    fn put(&mut self, style: Style, text: &str, width: usize) {
        if text.is_empty() {
            return;
        }
        self.column += width;
        match self.line.last_mut() {
            Some((last, line)) if *last == style => line.push_str(text),
            _ => self.line.push((style, text.to_owned())),
        }
    }

    fn end_line(&mut self) {
        let next = self.indent.clone();
        self.lines.push(std::mem::replace(&mut self.line, next));
        self.column = self.indent_columns;
        self.begun = false;
        self.blanks = None;
    }
}
