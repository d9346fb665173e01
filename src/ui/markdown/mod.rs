//! An answer's markdown, as a person reads it on a terminal: block by block, while it streams or whole.
//!
//! A block is shown when it is complete. Of a paragraph without any markup its words are shown as they
//! come. Nothing is ever taken back, so there is no flicker and nothing stands twice. Every text is cleaned
//! after it was read, since markdown can spell a character that the text does not have.

mod blocks;
mod table;

use owo_colors::Style;

use super::text::clean;
use super::theme::Theme;
use super::wrap::{Line, Wrap};
use crate::secret::scrub;

/// What is longer than this without a blank line is not read as markdown.
const BLOCK_LIMIT: usize = 64 << 10;
/// How much is looked at at once.
const PIECE: usize = 4 << 10;
/// How deep lists and quotes may be nested on one line.
const DEPTH_LIMIT: usize = 32;
/// The narrowest lines.
const NARROWEST: usize = 20;

/// A whole text, in lines of at most so many columns. Only an address can be longer.
pub fn render(text: &str, width: usize, theme: &Theme) -> String {
    let mut flow = Flow::new(*theme, 0, 0);
    flow.resize(width);
    flow.push(text) + &flow.finish()
}

/// A text that is shown while it comes.
pub struct Flow {
    theme: Theme,
    width: usize,
    next_width: usize,
    /// How many columns all lines but the first are indented.
    indent: usize,
    /// How many columns of the first line are taken; none of the others.
    used: usize,
    /// What came and is not shown as a block.
    pending: String,
    /// How much of it was looked at: whole lines, and of the next one.
    scanned: usize,
    searched: usize,
    /// There was a blank line after something else.
    blank: bool,
    fence: Option<(char, usize)>,
    /// No blank line comes before this block, and before the next one.
    tight: bool,
    next_tight: bool,
    /// Something was shown.
    begun: bool,
    /// The block's words that are shown before it is complete.
    words: Option<Words>,
}

/// The words of a paragraph without markup so far.
struct Words {
    wrap: Wrap,
    /// How many columns of its first line were taken.
    used: usize,
    /// How much of the block was looked at.
    read: usize,
    /// How much of it is in `wrap`.
    put: usize,
    /// What is on the screen.
    shown: String,
    /// There is markup, so that the rest waits for the block's end.
    over: bool,
}

impl Flow {
    /// All lines but the first are indented by `indent`; `used` columns of the first line are taken.
    pub fn new(theme: Theme, indent: usize, used: usize) -> Self {
        Self {
            theme,
            width: 80,
            next_width: 80,
            indent,
            used,
            pending: String::new(),
            scanned: 0,
            searched: 0,
            blank: false,
            fence: None,
            tight: false,
            next_tight: false,
            begun: false,
            words: None,
        }
    }

    /// How wide the terminal is, from the next block on.
    pub fn resize(&mut self, width: usize) {
        self.next_width = width.max(NARROWEST);
        if self.words.is_none() {
            self.width = self.next_width;
        }
    }

    /// Takes the next piece; gives what can be shown.
    pub fn push(&mut self, piece: &str) -> String {
        let mut out = String::new();
        let mut rest = piece;
        // What waits stays short, however much comes at once.
        while !rest.is_empty() {
            if self.pending.is_empty() {
                rest = rest.trim_start_matches('\n');
            }
            let (part, behind) = rest.split_at(rest.ceil_char_boundary(PIECE));
            rest = behind;
            self.pending.push_str(part);
            while let Some(end) = self.boundary() {
                out += &self.block(end);
            }
        }
        out + &self.stream()
    }

    /// The rest.
    pub fn finish(&mut self) -> String {
        self.block(self.pending.len())
    }

    /// Where the first block ends, if that is known: at a line after a blank one that is not indented, or
    /// at the next item of a list.
    fn boundary(&mut self) -> Option<usize> {
        while let Some(next) = self.pending[self.scanned..].chars().next() {
            if self.blank && self.fence.is_none() && !next.is_whitespace() {
                return Some(self.scanned);
            }
            if self.scanned > 0 && self.fence.is_none() && !self.blank {
                let next = Marker::of(&self.pending[self.scanned..]);
                let opens = Marker::of(&self.pending);
                let letter = self.pending.starts_with(char::is_alphabetic);
                match next {
                    Marker::Unknown => return None,
                    next if next.follows(opens, letter) => {
                        self.next_tight = true;
                        return Some(self.scanned);
                    }
                    _ => {}
                }
            }
            let from = self.scanned.max(self.searched);
            let Some(end) = self.pending[from..].find('\n') else {
                self.searched = self.pending.len();
                return None;
            };
            let line = &self.pending[self.scanned..from + end];
            self.scanned = from + end + 1;
            let text = line.trim();
            if self.fence.is_none() && text.is_empty() {
                self.blank = true;
                continue;
            }
            self.blank = false;
            let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'));
            let length = text.len()
                - mark
                    .map_or(text, |mark| text.trim_start_matches(mark))
                    .len();
            self.fence = match (self.fence, mark) {
                (Some((open, least)), Some(mark))
                    if open == mark && length >= least && length == text.len() =>
                {
                    None
                }
                (None, Some(mark)) if length >= 3 && !text[length..].contains('`') => {
                    Some((mark, length))
                }
                (fence, _) => fence,
            };
        }
        None
    }

    /// Shows the words of a paragraph that are surely nothing else.
    fn stream(&mut self) -> String {
        if self.words.is_none() {
            if !self.pending.starts_with(char::is_alphabetic) {
                return String::new();
            }
            self.words = Some(Words {
                wrap: self.wrap(),
                used: self.taken(),
                read: 0,
                put: 0,
                shown: String::new(),
                over: false,
            });
        }
        let Some(words) = self.words.as_mut().filter(|words| !words.over) else {
            return String::new();
        };
        let text = &self.pending;
        let (mut sure, from) = (words.put, words.read);
        for (at, c) in text[from..].char_indices() {
            let at = from + at;
            match c {
                ' ' => sure = at,
                // The next line goes on with the paragraph if it begins with a letter.
                '\n' => match text[at + 1..].chars().next() {
                    Some(next) if next.is_alphabetic() => sure = at,
                    Some(_) => {
                        words.over = true;
                        break;
                    }
                    None => {
                        words.read = at;
                        break;
                    }
                },
                '*' | '_' | '`' | '[' | ']' | '<' | '~' | '|' | '\\' | '&' => {
                    words.over = true;
                    break;
                }
                c if c.is_control() => {
                    words.over = true;
                    break;
                }
                _ => {}
            }
            words.read = at + c.len_utf8();
        }
        if sure == words.put {
            return String::new();
        }
        // A key is whole here, and would not be found any more with a break in it.
        let piece = scrub(&text[words.put..sure]);
        words.wrap.text(self.theme.answer, &piece);
        words.put = sure;
        words.wrap.end_word();
        let lines = words.wrap.taken();
        let first = words.shown.is_empty();
        words.shown += &flat(&lines);
        let gap = if first {
            self.gap(false)
        } else {
            String::new()
        };
        gap + &styled(&lines)
    }

    /// What stands before a block. The first one goes on behind the label, if it is a text.
    fn gap(&mut self, own_line: bool) -> String {
        let gap = match (self.begun, own_line && self.used > 0) {
            (true, _) if self.tight => format!("\n{}", " ".repeat(self.indent)),
            (true, _) => format!("\n\n{}", " ".repeat(self.indent)),
            (false, true) => format!("\n{}", " ".repeat(self.indent)),
            (false, false) => String::new(),
        };
        self.begun = true;
        gap
    }

    fn wrap(&self) -> Wrap {
        let indent = self.margin();
        Wrap::new(self.width, self.taken(), Line::new(), indent)
    }

    /// How many columns of the next block's first line are taken.
    fn taken(&self) -> usize {
        if self.begun { self.indent } else { self.used }
    }

    fn margin(&self) -> Line {
        match self.indent {
            0 => Line::new(),
            indent => vec![(Style::new(), " ".repeat(indent))],
        }
    }

    /// Shows the block that ends there, but for what is shown of it.
    fn block(&mut self, end: usize) -> String {
        let text: String = self.pending.drain(..end).collect();
        (self.scanned, self.searched, self.blank, self.fence) = (0, 0, false, None);
        let words = self.words.take();
        let text = text.trim_matches('\n').trim_end();
        let next_tight = std::mem::take(&mut self.next_tight);
        if text.trim().is_empty() {
            self.tight = next_tight;
            return String::new();
        }
        let scrubbed = scrub(text);
        let shown = words.filter(|words| !words.shown.is_empty());
        let page = blocks::Page {
            width: self.width,
            indent: self.indent,
            // Words that were shown before made `begun` true, but are the first.
            used: shown.as_ref().map_or(self.taken(), |words| words.used),
            theme: self.theme,
        };
        self.width = self.next_width;
        let (lines, is_text) = match text.len() > BLOCK_LIMIT || depth(text) > DEPTH_LIMIT {
            true => (page.literal(&scrubbed), true),
            false => page.read(&clean(&scrubbed)),
        };
        let gap = match shown {
            None => self.gap(!is_text),
            Some(_) => String::new(),
        };
        self.tight = next_tight;
        match shown {
            None => gap + &styled(&lines),
            Some(words) => {
                // A table cannot go on behind a word.
                let rest = is_text.then(|| without(&lines, &words.shown));
                if let Some(rest) = rest.flatten() {
                    return styled(&rest);
                }
                let mut wrap = words.wrap;
                let rest = text.get(words.put..).unwrap_or_default();
                wrap.text(self.theme.answer, &scrub(rest));
                styled(&wrap.finish())
            }
        }
    }
}

/// How deep the line with the most markers of lists and quotes at its beginning is nested.
fn depth(text: &str) -> usize {
    let markers = |line: &str| {
        let mut depth = 0;
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '>' => depth += 1,
                '-' | '+' | '*' | '.' | ')'
                    if matches!(letters.peek(), Some(' ' | '\t') | None) =>
                {
                    depth += 1
                }
                '-' | '+' | '*' | ' ' | '\t' | '0'..='9' => {}
                _ => break,
            }
        }
        depth
    };
    text.lines().map(markers).max().unwrap_or(0)
}

/// What a line begins with that may be an item of a list.
#[derive(Clone, Copy, PartialEq)]
enum Marker {
    None,
    /// It is not all there yet.
    Unknown,
    Bullet(char),
    Number(u64, char),
}

impl Marker {
    fn of(line: &str) -> Self {
        let digits = line.bytes().take(10).take_while(u8::is_ascii_digit).count();
        let mut rest = line[digits..].chars();
        let sign = rest.next();
        let marker = match sign {
            Some(sign @ ('-' | '*' | '+')) if digits == 0 => Self::Bullet(sign),
            Some(sign @ ('.' | ')')) => match line[..digits].parse() {
                Ok(number) if digits <= 9 => Self::Number(number, sign),
                _ => return Self::None,
            },
            None if digits <= 9 => return Self::Unknown,
            _ => return Self::None,
        };
        match (rest.next(), rest.next()) {
            (Some(' '), Some(c)) if !c.is_whitespace() => marker,
            (None, _) | (Some(' '), None) => Self::Unknown,
            _ => Self::None,
        }
    }

    /// Whether it surely begins another block than one that begins with this marker, or with a letter.
    fn follows(self, first: Self, letter: bool) -> bool {
        match (self, first) {
            (Self::Bullet(_) | Self::Number(1, _), Self::None) => letter,
            (Self::Bullet(sign), Self::Bullet(before)) => sign == before,
            (Self::Number(number, sign), Self::Number(before, other)) => {
                sign == other && number == before + 1
            }
            _ => false,
        }
    }
}

/// The lines as text, without styles.
fn flat(lines: &[Line]) -> String {
    let line = |line: &Line| {
        line.iter()
            .map(|(_, text)| text.as_str())
            .collect::<String>()
    };
    lines.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// The lines as they are written.
fn styled(lines: &[Line]) -> String {
    let mut out = String::new();
    for (number, line) in lines.iter().enumerate() {
        if number > 0 {
            out.push('\n');
        }
        for (style, text) in line {
            match text.trim().is_empty() {
                true => out += text,
                false => out += &style.style(text).to_string(),
            }
        }
    }
    out
}

/// The lines without what they begin with, if they do.
fn without(lines: &[Line], start: &str) -> Option<Vec<Line>> {
    let mut start = start;
    let mut rest: Vec<Line> = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        if number > 0 && rest.is_empty() {
            match start.is_empty() {
                true => rest.push(Line::new()),
                false => start = start.strip_prefix('\n')?,
            }
        }
        let mut left = Line::new();
        for (style, text) in line {
            let same = start.len().min(text.len());
            if text.as_bytes()[..same] != start.as_bytes()[..same] {
                return None;
            }
            start = &start[same..];
            if same < text.len() {
                left.push((*style, text[same..].to_owned()));
            }
        }
        if !rest.is_empty() || !left.is_empty() {
            rest.push(left);
        }
    }
    start.is_empty().then_some(rest)
}
