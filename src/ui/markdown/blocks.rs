//! One block of markdown laid out in lines: headings, paragraphs, lists, quotes, code, rules, tables.

use std::ops::Range;

use owo_colors::Style;
use pulldown_cmark::{CowStr, Event, HeadingLevel, LinkType, Options, Parser, Tag, TagEnd};

use super::super::theme::Theme;
use super::super::wrap::{Line, Span, Wrap, columns, line_columns};
use super::table::Table;

/// The longest rule.
const RULE: usize = 60;
/// What an item of a list begins with, by depth.
const BULLETS: [&str; 3] = ["• ", "◦ ", "▪ "];

/// Where a block is put.
pub(super) struct Page {
    pub(super) width: usize,
    /// How many columns all lines but the first are indented.
    pub(super) indent: usize,
    /// How many columns of the first line are taken, if it is a paragraph's.
    pub(super) used: usize,
    pub(super) theme: Theme,
}

impl Page {
    /// The lines of a text that is not read as markdown.
    pub(super) fn literal(&self, text: &str) -> Vec<Line> {
        let mut wrap = Wrap::new(self.width, self.used, Line::new(), margin(self.indent));
        wrap.text(self.theme.answer, text);
        wrap.finish()
    }

    /// The lines of a block, and whether it begins with a paragraph.
    pub(super) fn read(&self, text: &str) -> (Vec<Line>, bool) {
        let parser = Parser::new_ext(text, Options::ENABLE_TABLES);
        // A definition is nothing to see, but for the person it may be all there is.
        let mut definitions: Vec<(usize, String)> = Vec::new();
        for (label, definition) in parser.reference_definitions().iter() {
            let line = format!("[{label}]: {}", definition.dest);
            definitions.push((definition.span.start, line));
        }
        definitions.sort();
        let mut events = parser.into_offset_iter().peekable();
        // A heading that is underlined begins as a paragraph does.
        let begins = text.starts_with(char::is_alphabetic);
        let is_text = match events.peek() {
            Some((Event::Start(Tag::Paragraph), _)) | None => true,
            Some((Event::Start(Tag::Heading { .. }), _)) => begins,
            Some(_) => false,
        };
        let mut block = Block {
            page: self,
            text,
            lines: Vec::new(),
            used: if is_text { self.used } else { self.indent },
            around: Vec::new(),
            lists: Vec::new(),
            inline: Vec::new(),
            bold: 0,
            italic: 0,
            heading: None,
            code: None,
            links: Vec::new(),
            table: None,
            is_bare: self.theme.is_bare(),
        };
        for (event, range) in events {
            block.take(event, range);
        }
        block.flush();
        for (_, line) in definitions {
            block.say(self.theme.link, &line);
            block.flush();
        }
        (block.lines, is_text)
    }
}

/// Blanks at the beginning of a line.
fn margin(columns: usize) -> Line {
    match columns {
        0 => Line::new(),
        _ => vec![(Style::new(), " ".repeat(columns))],
    }
}

/// What stands at the left of a list's item or a quote: on its first line, and on the others.
struct Side {
    first: Option<Span>,
    rest: Span,
}

struct Block<'a> {
    page: &'a Page,
    text: &'a str,
    lines: Vec<Line>,
    /// How many columns of the first line are taken.
    used: usize,
    around: Vec<Side>,
    /// The number of the next item of each list that is open; none for bullets.
    lists: Vec<Option<u64>>,
    inline: Vec<Span>,
    bold: usize,
    italic: usize,
    /// A heading that is open, and the line under it where it has no mark.
    heading: Option<&'static str>,
    /// A code block that is open.
    code: Option<String>,
    /// Links and images that are open: the address, and where their text begins in `inline`.
    links: Vec<(String, usize)>,
    table: Option<Table>,
    /// Nothing is styled, so that the marks themselves stay.
    is_bare: bool,
}

impl Block<'_> {
    fn take(&mut self, event: Event<'_>, range: Range<usize>) {
        let at = range.start;
        match event {
            Event::Start(Tag::Emphasis) => self.emphasis("*", true, range),
            Event::Start(Tag::Strong) => self.emphasis("**", true, range),
            Event::End(TagEnd::Emphasis) => self.emphasis("*", false, range),
            Event::End(TagEnd::Strong) => self.emphasis("**", false, range),
            Event::Start(tag) => self.start(tag, at),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => match &mut self.code {
                Some(code) => code.push_str(&text),
                None => self.say(self.style(), &text),
            },
            Event::Code(text) => self.inline_code(&text),
            Event::SoftBreak | Event::HardBreak => {
                let gap = if self.table.is_some() { " " } else { "\n" };
                self.say(self.style(), gap);
            }
            Event::Rule => {
                self.flush();
                self.gap(at);
                let width = self.room().min(RULE);
                self.say(self.page.theme.frame, &"─".repeat(width));
                self.flush();
            }
            // Whatever else there is, is shown as it is.
            Event::Html(text)
            | Event::InlineHtml(text)
            | Event::InlineMath(text)
            | Event::DisplayMath(text)
            | Event::FootnoteReference(text) => self.say(self.style(), &text),
            Event::TaskListMarker(done) => {
                self.say(self.style(), if done { "[x] " } else { "[ ] " })
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>, at: usize) {
        let theme = &self.page.theme;
        match tag {
            Tag::Link {
                dest_url,
                link_type,
                ..
            } => {
                let dest = match link_type {
                    LinkType::Email => format!("mailto:{dest_url}"),
                    _ => dest_url.to_string(),
                };
                self.open_link(dest);
            }
            Tag::Image { dest_url, .. } => self.open_link(dest_url.to_string()),
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.row();
                }
            }
            Tag::TableCell => {}
            block => {
                self.flush();
                self.gap(at);
                match block {
                    Tag::Heading { level, .. } => {
                        let mark = self.text[at..].starts_with('#');
                        self.heading = Some(match level {
                            _ if mark => "",
                            HeadingLevel::H1 => "\n===",
                            _ => "\n---",
                        });
                        if mark && theme.heading.is_plain() {
                            let marks = "#".repeat(level as usize);
                            self.say(Style::new(), &format!("{marks} "));
                        }
                    }
                    Tag::BlockQuote(_) => {
                        let bar = (theme.frame, "│ ".to_owned());
                        self.beside(Some(bar.clone()), bar);
                    }
                    Tag::List(number) => self.lists.push(number),
                    Tag::Item => self.item(),
                    Tag::CodeBlock(_) => self.code = Some(String::new()),
                    Tag::Table(alignments) => self.table = Some(Table::new(alignments)),
                    _ => {}
                }
            }
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Link | TagEnd::Image => self.address(),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(table) = &mut self.table {
                    table.cell(cell);
                }
            }
            TagEnd::TableHead | TagEnd::TableRow => {}
            TagEnd::Table => {
                if let Some(table) = self.table.take() {
                    let lines = table.lines(self.room(), &self.page.theme);
                    self.add(lines);
                }
            }
            TagEnd::CodeBlock => {
                let code = self.code.take().unwrap_or_default();
                let code = code.strip_suffix('\n').unwrap_or(&code);
                let mut wrap = Wrap::new(self.room(), 2, margin(2), margin(2));
                wrap.verbatim(self.page.theme.code, code);
                self.add(wrap.finish());
            }
            TagEnd::Heading(_) => {
                let under = self.heading.unwrap_or_default();
                if self.page.theme.heading.is_plain() && !under.is_empty() {
                    self.say(Style::new(), under);
                }
                self.flush();
                self.heading = None;
            }
            TagEnd::Item | TagEnd::BlockQuote(_) => {
                self.flush();
                // An item without anything has its bullet all the same.
                if self.around.last().is_some_and(|side| side.first.is_some()) {
                    self.add(vec![Line::new()]);
                }
                self.around.pop();
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
            }
            _ => self.flush(),
        }
    }

    fn item(&mut self) {
        let depth = self.lists.len().saturating_sub(1);
        let marker = match self.lists.last_mut() {
            Some(Some(number)) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
            _ => BULLETS[depth % BULLETS.len()].to_owned(),
        };
        let blank = (Style::new(), " ".repeat(columns(&marker)));
        self.beside(Some((self.page.theme.answer, marker)), blank);
    }

    /// Puts something at the left of what follows, unless too little would be left for that.
    fn beside(&mut self, first: Option<Span>, rest: Span) {
        let side = match self.side_columns() + columns(&rest.1) <= self.page.width / 2 {
            true => Side { first, rest },
            false => Side {
                first: None,
                rest: (Style::new(), String::new()),
            },
        };
        self.around.push(side);
    }

    fn side_columns(&self) -> usize {
        self.around.iter().map(|side| columns(&side.rest.1)).sum()
    }

    /// How many columns there are between the sides.
    fn room(&self) -> usize {
        let taken = self.page.indent + self.side_columns();
        self.page.width.saturating_sub(taken).max(1)
    }

    /// What stands at the left of the next line.
    fn side(&mut self) -> Line {
        let mut line = if self.lines.is_empty() {
            Line::new()
        } else {
            margin(self.page.indent)
        };
        for side in &mut self.around {
            line.push(side.first.take().unwrap_or_else(|| side.rest.clone()));
        }
        line
    }

    /// A blank line, where the text has one before this place.
    fn gap(&mut self, at: usize) {
        let before = self.text[..at].trim_end_matches([' ', '\t', '>']);
        let Some(before) = before.strip_suffix('\n') else {
            return;
        };
        let before = before.trim_end_matches([' ', '\t', '>', '\r']);
        let pending = self.around.iter().any(|side| side.first.is_some());
        if (before.ends_with('\n') || before.is_empty()) && !self.lines.is_empty() && !pending {
            let mut line = self.side();
            while line.last().is_some_and(|(_, text)| text.trim().is_empty()) {
                line.pop();
            }
            self.lines.push(line);
        }
    }

    /// Lines between the sides.
    fn add(&mut self, lines: Vec<Line>) {
        for line in lines {
            let mut whole = self.side();
            whole.extend(line);
            self.lines.push(whole);
        }
    }

    /// What stands in the paragraph, heading or item so far becomes lines.
    fn flush(&mut self) {
        if self.table.is_some() {
            return;
        }
        while let Some((_, last)) = self.inline.last_mut() {
            last.truncate(last.trim_end_matches('\n').len());
            if !last.is_empty() {
                break;
            }
            self.inline.pop();
        }
        let inline = std::mem::take(&mut self.inline);
        if inline.is_empty() {
            return;
        }
        let begins = self.lines.is_empty();
        let first = self.side();
        let mut rest = margin(self.page.indent);
        rest.extend(self.around.iter().map(|side| side.rest.clone()));
        let used = if begins { self.used } else { 0 };
        let mut wrap = Wrap::new(self.page.width, used, first, rest);
        for (style, text) in inline {
            wrap.text(style, &text);
        }
        self.lines.extend(wrap.finish());
    }

    fn say(&mut self, style: Style, text: &str) {
        match self.inline.last_mut() {
            Some((last, so_far)) if *last == style => so_far.push_str(text),
            _ => self.inline.push((style, text.to_owned())),
        }
    }

    fn style(&self) -> Style {
        let theme = &self.page.theme;
        let mut style = match self.heading.is_some() {
            true => theme.heading,
            false => theme.answer,
        };
        if !self.is_bare {
            if self.bold > 0 {
                style = style.bold();
            }
            if self.italic > 0 {
                style = style.italic();
            }
        }
        style
    }

    /// Emphasis begins or ends. Its marks stay where nothing is styled, and where they may be no marks at
    /// all: `2*3*4` is a product.
    fn emphasis(&mut self, mark: &str, begins: bool, range: Range<usize>) {
        let factor = |c: char, bracket| c.is_ascii_alphanumeric() || c == bracket;
        let before = self.text[..range.start].chars().next_back();
        let after = self.text[range.end..].chars().next();
        let product =
            before.is_some_and(|c| factor(c, ')')) || after.is_some_and(|c| factor(c, '('));
        let written = self.text[range].chars().next().filter(|c| *c == '_');
        let mark = match written {
            Some(_) => &"__"[..mark.len()],
            None => mark,
        };
        if product {
            return self.say(self.style(), mark);
        }
        if self.is_bare && begins {
            self.say(self.style(), mark);
        }
        let depth = if mark.len() == 2 {
            &mut self.bold
        } else {
            &mut self.italic
        };
        *depth = if begins {
            *depth + 1
        } else {
            depth.saturating_sub(1)
        };
        if self.is_bare && !begins {
            self.say(self.style(), mark);
        }
    }

    fn inline_code(&mut self, text: &CowStr<'_>) {
        let style = self.page.theme.code;
        match style.is_plain() {
            true => {
                let marks = if text.contains('`') { "``" } else { "`" };
                self.say(self.style(), &format!("{marks}{text}{marks}"));
            }
            false => self.say(style, text),
        }
    }

    fn open_link(&mut self, address: String) {
        // A span of its own, so that the link's text is known.
        let start = self.inline.len();
        self.inline.push((self.style(), String::new()));
        self.links.push((address, start));
    }

    /// The address of a link behind its text, unless they are the same.
    fn address(&mut self) {
        let Some((address, start)) = self.links.pop() else {
            return;
        };
        let start = start.min(self.inline.len());
        let text: String = self.inline[start..]
            .iter()
            .map(|(_, text)| text.as_str())
            .collect();
        let same = text.ends_with(&address)
            || address
                .strip_prefix("mailto:")
                .is_some_and(|mail| text.ends_with(mail));
        if address.is_empty() || same {
            return;
        }
        let gap = if text.is_empty() { "" } else { " " };
        self.say(self.style(), &format!("{gap}("));
        self.say(self.page.theme.link, &address);
        self.say(self.style(), ")");
    }
}

/// How many columns the widest of these lines takes.
pub(super) fn widest(lines: &[Line]) -> usize {
    lines
        .iter()
        .map(|line| line_columns(line))
        .max()
        .unwrap_or(0)
}
