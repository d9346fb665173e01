//! Text from outside, made fit for a terminal: whatever a terminal would obey becomes visible.
//!
//! Nothing is deleted, so that a trick can be seen. `clean` keeps what real scripts and emoji need;
//! `strict` keeps nothing that cannot be seen, and fits on one line.

use std::borrow::Cow;
use std::fmt::Write;

/// For text that is read: line breaks, tabs, and the joiners of scripts and emoji stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    escape(text, |c| matches!(c, '\n' | '\t' | '\u{200c}' | '\u{200d}'))
}

/// For text that is looked at to decide by it, and for text in a line of its own: all is visible.
pub fn strict(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// Text whose lines after the first cannot be taken for lines of the trace.
pub fn indented(text: &str) -> String {
    text.replace('\n', "\n  ").replace("\n  \n", "\n\n")
}

/// Whether a text has nothing that a terminal would obey, seen byte by byte: most have not.
pub(crate) fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// A line of JSON in which whatever a terminal would obey is written as an escape of JSON's own.
pub fn json_line(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 1);
    if is_plain(line) {
        out.push_str(line);
        out.push('\n');
        return out;
    }
    let mut units = [0; 2];
    for c in line.chars() {
        match is_obeyed(c) {
            true => {
                for unit in c.encode_utf16(&mut units) {
                    write!(out, "\\u{unit:04x}").unwrap_or_default();
                }
            }
            false => out.push(c),
        }
    }
    out.push('\n');
    out
}

fn escape(text: &str, keeps: fn(char) -> bool) -> Cow<'_, str> {
    let obeyed = |c: char| is_obeyed(c) && !keeps(c);
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if keeps('\n') && chars.peek() == Some(&'\n') => {}
            '\n' if obeyed(c) => out.push('⏎'),
            '\t' if obeyed(c) => out.push(' '),
            '\0'..='\x1f' if obeyed(c) => {
                out.push('^');
                out.push(char::from(c as u8 + b'@'));
            }
            '\x7f' => out.push_str("^?"),
            c if obeyed(c) => write!(out, "<U+{:04X}>", u32::from(c)).unwrap_or_default(),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Control characters, and those that reorder or hide what stands around them.
fn is_obeyed(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_become_visible() {
        for (text, cleaned, strictly) in [
            ("plain é 👩‍👧", "plain é 👩‍👧", "plain é 👩<U+200D>👧"),
            ("\x1b]52;c;YQ==\x07", "^[]52;c;YQ==^G", "^[]52;c;YQ==^G"),
            ("a\r\nb\rc\td", "a\nb^Mc\td", "a^M⏎b^Mc d"),
            ("\u{9b}31m\u{7f}", "<U+009B>31m^?", "<U+009B>31m^?"),
            (
                "\u{202e}evil\u{e0041}",
                "<U+202E>evil<U+E0041>",
                "<U+202E>evil<U+E0041>",
            ),
        ] {
            assert_eq!(clean(text), cleaned);
            assert_eq!(strict(text), strictly);
        }
    }

    proptest! {
        #[test]
        fn nothing_that_is_obeyed_is_left(text in any::<String>()) {
            let strictly = strict(&text).into_owned();
            prop_assert!(!strictly.contains(is_obeyed));
            prop_assert_eq!(strict(&strictly), strictly.clone());
            let cleaned = clean(&text).into_owned();
            prop_assert!(!cleaned.contains(|c: char| c.is_control() && c != '\n' && c != '\t'));
            prop_assert_eq!(clean(&cleaned), cleaned.clone());
        }
    }
}
