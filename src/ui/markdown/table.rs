//! A table: in columns where they fit, else a row after the other, each cell behind its heading.

use pulldown_cmark::Alignment;

use super::super::theme::Theme;
use super::super::wrap::{Line, Span, Wrap, line_columns};
use super::blocks::widest;

/// What stands between two columns.
const BETWEEN: &str = " │ ";
const CROSSING: &str = "─┼─";
/// The narrowest column that is made narrower than what it has.
const NARROWEST: usize = 6;

/// The rows so far; the first has the headings.
pub(super) struct Table {
    alignments: Vec<Alignment>,
    rows: Vec<Vec<Vec<Span>>>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Self {
            alignments,
            rows: Vec::new(),
        }
    }

    pub(super) fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    pub(super) fn cell(&mut self, cell: Vec<Span>) {
        if let Some(row) = self.rows.last_mut() {
            row.push(cell);
        }
    }

    /// The table in lines of at most so many columns.
    pub(super) fn lines(&self, room: usize, theme: &Theme) -> Vec<Line> {
        let count = self.alignments.len().max(1);
        let between = 3 * (count - 1);
        let mut widths = vec![0; count];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(widest(&wrapped(cell, usize::MAX)));
            }
        }
        let room_for_cells = room.saturating_sub(between);
        if widths.iter().sum::<usize>() > room_for_cells {
            let limited =
                |limit: usize| widths.iter().map(|width| *width.min(&limit)).sum::<usize>();
            match (NARROWEST..room)
                .rev()
                .find(|limit| limited(*limit) <= room_for_cells)
            {
                Some(limit) => widths
                    .iter_mut()
                    .for_each(|width| *width = (*width).min(limit)),
                None => return self.records(room, theme),
            }
        }
        let mut lines = Vec::new();
        for (number, row) in self.rows.iter().enumerate() {
            self.grid(row, &widths, number == 0, theme, &mut lines);
            if number == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                lines.push(vec![(theme.frame, rules.join(CROSSING))]);
            }
        }
        lines
    }

    fn grid(
        &self,
        row: &[Vec<Span>],
        widths: &[usize],
        head: bool,
        theme: &Theme,
        lines: &mut Vec<Line>,
    ) {
        let cells: Vec<Vec<Line>> = row
            .iter()
            .zip(widths)
            .map(|(cell, width)| wrapped(cell, *width))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for at in 0..height {
            let mut line = Line::new();
            for (column, width) in widths.iter().enumerate() {
                if column > 0 {
                    line.push((theme.frame, BETWEEN.to_owned()));
                }
                let cell = cells
                    .get(column)
                    .and_then(|cell| cell.get(at))
                    .cloned()
                    .unwrap_or_default();
                let blank = width.saturating_sub(line_columns(&cell));
                let left = match self.alignments.get(column) {
                    Some(Alignment::Right) => blank,
                    Some(Alignment::Center) => blank / 2,
                    _ => 0,
                };
                let last = column + 1 == widths.len();
                push_blanks(&mut line, left);
                let style = |style| {
                    if head && style == theme.answer {
                        theme.heading
                    } else {
                        style
                    }
                };
                line.extend(cell.into_iter().map(|(own, text)| (style(own), text)));
                push_blanks(&mut line, if last { 0 } else { blank - left });
            }
            lines.push(line);
        }
    }

    /// Each cell on lines of its own, behind its heading; a rule between two rows.
    fn records(&self, room: usize, theme: &Theme) -> Vec<Line> {
        let Some((heads, rows)) = self.rows.split_first() else {
            return Vec::new();
        };
        let rule = vec![(theme.frame, "─".repeat(room.min(20)))];
        let indent = vec![(theme.frame, "  ".to_owned())];
        let mut lines = Vec::new();
        // Headings without rows are all there is.
        let none = [Vec::new()];
        let rows = if rows.is_empty() { &none[..] } else { rows };
        for (number, row) in rows.iter().enumerate() {
            if number > 0 {
                lines.push(rule.clone());
            }
            for (column, head) in heads.iter().enumerate() {
                let cell = row.get(column);
                if !row.is_empty() && cell.is_none_or(Vec::is_empty) {
                    continue;
                }
                let mut wrap = Wrap::new(
                    room,
                    0,
                    Line::new(),
                    if room > 8 {
                        indent.clone()
                    } else {
                        Line::new()
                    },
                );
                for (_, text) in head {
                    wrap.text(theme.heading, text);
                }
                wrap.text(theme.heading, ": ");
                for (style, text) in cell.into_iter().flatten() {
                    wrap.text(*style, text);
                }
                lines.extend(wrap.finish());
            }
        }
        lines
    }
}

fn push_blanks(line: &mut Line, count: usize) {
    if count > 0 {
        line.push((owo_colors::Style::new(), " ".repeat(count)));
    }
}

fn wrapped(cell: &[Span], width: usize) -> Vec<Line> {
    let mut wrap = Wrap::new(width, 0, Line::new(), Line::new());
    for (style, text) in cell {
        wrap.text(*style, text);
    }
    wrap.finish()
}
