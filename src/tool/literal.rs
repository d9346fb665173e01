//! Literals as models write them, in JSON or in Python: strings, numbers, true and false, nothing, lists, maps.
//! Nothing is evaluated and nothing repaired: what is not a whole literal is an error.

use serde_json::{Map, Number, Value};

use super::cursor::{Cursor, blank};

/// How deep lists and maps may be nested.
pub const DEPTH: usize = 64;

/// How many values a list may have: each takes far more memory than text.
pub const WIDTH: usize = 10_000;

/// Opening and closing quotes, the longer ones first.
const QUOTES: [(&str, &str); 6] = [
    ("\"\"\"", "\"\"\""),
    ("'''", "'''"),
    ("\"", "\""),
    ("'", "'"),
    ("“", "”"),
    ("‘", "’"),
];

/// Why a text is no literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiteralError {
    /// The byte at which it stopped being one.
    pub at: usize,
    /// One line, in words that a model can act on.
    pub why: String,
}

/// Parses one literal at the start of `text`; gives it and the number of bytes read, blanks before it included.
/// Never panics, whatever the text; a tuple comes back as a list.
pub fn literal(text: &str) -> Result<(Value, usize), LiteralError> {
    let mut cursor = Cursor { text, at: 0 };
    let value = cursor.value(0)?;
    Ok((value, cursor.at))
}

/// The values of a text that is, as a whole, a list of literals separated by commas.
pub fn literals(text: &str) -> Option<Vec<Value>> {
    let mut cursor = Cursor { text, at: 0 };
    let mut values = vec![cursor.value(0).ok()?];
    while cursor.eat(&[',', '，']) {
        values.push(cursor.value(0).ok()?);
    }
    cursor.take(blank);
    cursor.rest().is_empty().then_some(values)
}

/// Whether `c` opens a string.
pub fn quote(c: char) -> bool {
    matches!(c, '"' | '\'' | '“' | '‘')
}

impl Cursor<'_> {
    fn value(&mut self, depth: usize) -> Result<Value, LiteralError> {
        self.take(blank);
        let Some(first) = self.rest().chars().next() else {
            return self.fail("the text ends where a value should be");
        };
        if matches!(first, '[' | '(' | '（' | '{') && depth >= DEPTH {
            return self.fail(format!("lists and maps are nested deeper than {DEPTH}"));
        }
        match first {
            '[' => Ok(Value::Array(self.list(&[']'], depth)?.0)),
            '(' | '（' => match self.list(&[')', '）'], depth)? {
                (values, commas) if commas > 0 || values.is_empty() => Ok(Value::Array(values)),
                _ => self.fail("there are brackets around a single value (a list is `[…]`)"),
            },
            '{' => self.map(depth),
            c if quote(c) => self.string().map(Value::String),
            c if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.number(),
            c if c.is_alphabetic() || c == '_' => self.word(),
            c => self.fail(format!("`{c}` does not begin a value")),
        }
    }

    /// The values up to one of `close`, and how many commas stood between or behind them.
    fn list(&mut self, close: &[char], depth: usize) -> Result<(Vec<Value>, usize), LiteralError> {
        let (mut values, mut commas) = (Vec::new(), 0);
        self.bump();
        while !self.eat(close) {
            values.push(self.value(depth + 1)?);
            if values.len() > WIDTH {
                return self.fail(format!("a list has more than {WIDTH} values"));
            }
            if self.eat(&[',', '，']) {
                commas += 1;
            } else if !self.ahead(close) {
                return self.fail(format!("`,` or `{}` is missing in a list", close[0]));
            }
        }
        Ok((values, commas))
    }

    fn map(&mut self, depth: usize) -> Result<Value, LiteralError> {
        let mut map = Map::new();
        self.bump();
        while !self.eat(&['}']) {
            if !self.rest().starts_with(quote) {
                return self.fail("the names in a map must be quoted");
            }
            let key = self.string()?;
            if !self.eat(&[':', '：']) {
                return self.fail(format!("`:` is missing after \"{key}\""));
            }
            let value = self.value(depth + 1)?;
            if map.contains_key(&key) {
                return self.fail(format!("\"{key}\" stands twice in a map"));
            }
            map.insert(key, value);
            if !self.eat(&[',', '，']) && !self.ahead(&['}']) {
                return self.fail("`,` or `}` is missing in a map");
            }
        }
        Ok(Value::Object(map))
    }

    fn string(&mut self) -> Result<String, LiteralError> {
        let Some((open, close)) = QUOTES
            .iter()
            .find(|(open, _)| self.rest().starts_with(open))
        else {
            return self.fail("a quoted text is missing");
        };
        let start = self.at;
        let mut string = String::new();
        self.at += open.len();
        while !self.rest().starts_with(close) {
            match self.bump() {
                None => {
                    self.at = start;
                    return self.fail(format!(
                        "a text that begins with `{open}` is never closed with `{close}`"
                    ));
                }
                Some('\\') => string.push(self.escape()?),
                // Line breaks and tabs are unambiguous, so they may stand as they are; nothing writes the others on purpose.
                Some(c) if c < ' ' && !matches!(c, '\n' | '\r' | '\t') => {
                    return self.fail("a text contains a control character");
                }
                Some(c) => string.push(c),
            }
        }
        self.at += close.len();
        Ok(string)
    }

    fn escape(&mut self) -> Result<char, LiteralError> {
        Ok(match self.bump() {
            Some('n') => '\n',
            Some('t') => '\t',
            Some('r') => '\r',
            Some('b') => '\u{8}',
            Some('f') => '\u{c}',
            Some(c @ ('\\' | '/' | '"' | '\'' | '`')) => c,
            Some('x') => char::from_u32(self.hex(2)?).unwrap_or_default(),
            Some('u') => return self.unicode(),
            Some(c) => return self.fail(format!("`\\{c}` is no escape (a backslash is `\\\\`)")),
            None => return self.fail("the text ends inside an escape"),
        })
    }

    /// The character of a `\uXXXX`, whose `\u` has been read, or of a surrogate pair of them.
    fn unicode(&mut self) -> Result<char, LiteralError> {
        let mut code = self.hex(4)?;
        if (0xd800..0xdc00).contains(&code) && self.rest().starts_with("\\u") {
            self.at += 2;
            let low = self.hex(4)?.wrapping_sub(0xdc00);
            code = if low < 0x400 {
                0x10000 + ((code - 0xd800) << 10) + low
            } else {
                code
            };
        }
        match char::from_u32(code) {
            Some(c) => Ok(c),
            None => self.fail("half of a surrogate pair is missing in a `\\u` escape"),
        }
    }

    fn hex(&mut self, digits: usize) -> Result<u32, LiteralError> {
        let text = self
            .rest()
            .get(..digits)
            .filter(|text| text.bytes().all(|b| b.is_ascii_hexdigit()));
        match text.and_then(|text| u32::from_str_radix(text, 16).ok()) {
            Some(code) => {
                self.at += digits;
                Ok(code)
            }
            None => self.fail(format!(
                "{digits} hexadecimal digits are wanted in an escape"
            )),
        }
    }

    fn number(&mut self) -> Result<Value, LiteralError> {
        let mut before = ' ';
        let token = self.take(|c| {
            let sign = matches!(c, '+' | '-') && matches!(before, ' ' | 'e' | 'E');
            before = c;
            sign || c.is_alphanumeric() || matches!(c, '.' | '_')
        });
        let unsigned = token.trim_start_matches(['+', '-']);
        let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        let float = unsigned.contains(|c: char| c.is_ascii_digit())
            && unsigned
                .bytes()
                .all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-'));
        let number = if digits > 1 && unsigned.starts_with('0') {
            return self.fail(format!("`{token}` has leading zeros"));
        } else if digits == unsigned.len() && digits > 0 {
            let signed = token.parse::<i64>().map(Number::from);
            signed
                .or_else(|_| token.parse::<u64>().map(Number::from))
                .ok()
        } else if let Some(value) = token.parse::<f64>().ok().filter(|_| float) {
            Number::from_f64(value)
        } else {
            return self.fail(format!("`{token}` is not a plain number"));
        };
        match number {
            Some(number) => Ok(Value::Number(number)),
            None => self.fail(format!("`{token}` is out of range")),
        }
    }

    fn word(&mut self) -> Result<Value, LiteralError> {
        match self.take(|c| c.is_alphanumeric() || c == '_') {
            "true" | "True" => Ok(Value::Bool(true)),
            "false" | "False" => Ok(Value::Bool(false)),
            "null" | "None" => Ok(Value::Null),
            word => {
                let word: String = word.chars().take(40).collect();
                self.fail(format!("`{word}` is not a value (text needs quotes)"))
            }
        }
    }

    fn fail<T>(&self, why: impl Into<String>) -> Result<T, LiteralError> {
        Err(LiteralError {
            at: self.at,
            why: why.into(),
        })
    }
}
