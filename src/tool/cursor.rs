//! A place in a text, for reading on from there.

/// White space, and the invisible characters that models leave at the edges of lines.
pub(crate) fn blank(c: char) -> bool {
    c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

/// Reads a text from `at`, which is always at the start of a character or at the end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// What is left of the line.
    pub(crate) fn line(&self) -> &'a str {
        self.rest().split('\n').next().unwrap_or_default()
    }

    pub(crate) fn bump(&mut self) -> Option<char> {
        let next = self.rest().chars().next()?;
        self.at += next.len_utf8();
        Some(next)
    }

    /// Takes the characters that are `wanted`, as far as they go.
    pub(crate) fn take(&mut self, wanted: impl FnMut(char) -> bool) -> &'a str {
        let rest = self.rest();
        let taken = &rest[..rest.len() - rest.trim_start_matches(wanted).len()];
        self.at += taken.len();
        taken
    }

    /// Skips blanks and line breaks; tells whether one of `any` is next.
    pub(crate) fn ahead(&mut self, any: &[char]) -> bool {
        self.take(blank);
        self.rest().starts_with(any)
    }

    /// Skips blanks and line breaks, then one of `any` if it is there.
    pub(crate) fn eat(&mut self, any: &[char]) -> bool {
        self.ahead(any) && self.bump().is_some()
    }
}
