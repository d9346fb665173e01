//! The words and signs of a question, with number words put together: "two hundred and five".

/// Words that say nothing about the calculation.
const FILLERS: &[&str] = &[
    "what",
    "what's",
    "whats",
    "is",
    "are",
    "the",
    "how",
    "much",
    "many",
    "calculate",
    "compute",
    "evaluate",
    "solve",
    "please",
    "tell",
    "me",
    "result",
    "value",
    "does",
    "equal",
    "equals",
    "make",
    "give",
    "of",
    "can",
    "you",
    "i",
    "want",
    "to",
    "know",
    "if",
    "a",
    "an",
    "work",
    "out",
    "answer",
    "number",
    "numbers",
];

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Number(String),
    /// An operator or a parenthesis.
    Sign(char),
    Percent,
    Word(String),
}

/// The tokens of a question; none if it has a character that arithmetic has not.
pub(super) fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while let Some(first) = rest.chars().next() {
        let digits = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
        let length = match first {
            '0'..='9' | '.'
                if rest.starts_with(|c: char| c.is_ascii_digit()) || starts_fraction(rest) =>
            {
                let length = rest.find(|c| !digits(c)).unwrap_or(rest.len());
                let number = rest[..length].trim_end_matches(['.', ',']);
                found.push(Token::Number(plain(number)?));
                number.len()
            }
            c if c.is_alphabetic() => {
                let inside = |c: char| c.is_alphabetic() || matches!(c, '\'' | '-');
                let length = rest.find(|c| !inside(c)).unwrap_or(rest.len());
                let parts = rest[..length].split('-').filter(|part| !part.is_empty());
                found.extend(parts.map(|part| Token::Word(part.to_lowercase())));
                length
            }
            c => {
                match c {
                    '+' | '(' | ')' | '/' | '^' => found.push(Token::Sign(c)),
                    '-' | '−' | '–' => found.push(Token::Sign('-')),
                    '*' if rest.starts_with("**") => found.push(Token::Sign('^')),
                    '*' | '×' | '·' => found.push(Token::Sign('*')),
                    '÷' => found.push(Token::Sign('/')),
                    '%' => found.push(Token::Percent),
                    ' ' | '\t' | '\n' | '\r' | '?' | '=' | ',' | '.' | ':' | '!' => {}
                    _ => return None,
                }
                if rest.starts_with("**") {
                    2
                } else {
                    c.len_utf8()
                }
            }
        };
        rest = &rest[length..];
    }
    Some(words_to_numbers(found))
}

/// The number without the commas between its thousands. Other commas mean something else elsewhere.
fn plain(number: &str) -> Option<String> {
    let whole = number.split('.').next()?;
    let grouped = whole.split(',').skip(1).all(|group| group.len() == 3);
    let plain = whole.replace(',', "") + &number[whole.len()..];
    (grouped && plain.parse::<f64>().is_ok()).then_some(plain)
}

fn starts_fraction(text: &str) -> bool {
    text.strip_prefix('.')
        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Puts "two hundred and five" together and drops the fillers.
fn words_to_numbers(tokens: Vec<Token>) -> Vec<Token> {
    let mut out = Vec::new();
    let mut words = tokens.into_iter().peekable();
    while let Some(token) = words.next() {
        let Token::Word(word) = &token else {
            out.push(token);
            continue;
        };
        let Some(first) = number_word(word) else {
            if !FILLERS.contains(&word.as_str()) || matches!(word.as_str(), "of" | "to") {
                out.push(token);
            }
            continue;
        };
        let (mut total, mut group) = (0_u64, 0_u64);
        let mut take = |value: u64| match value {
            100 => group = group.max(1).saturating_mul(100),
            1000.. => {
                total = total.saturating_add(group.max(1).saturating_mul(value));
                group = 0;
            }
            small => group = group.saturating_add(small),
        };
        take(first);
        let mut last = first;
        while let Some(Token::Word(next)) = words.peek() {
            if let Some(value) = number_word(next) {
                take(value);
                last = value;
            } else if !(next == "and" && last >= 100) {
                break;
            }
            words.next();
        }
        out.push(Token::Number(total.saturating_add(group).to_string()));
    }
    out
}

fn number_word(word: &str) -> Option<u64> {
    const SMALL: [&str; 20] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    const TENS: [&str; 8] = [
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ];
    let place = |list: &[&str]| {
        list.iter()
            .position(|name| *name == word)
            .map(|at| at as u64)
    };
    match word {
        "hundred" => Some(100),
        "thousand" => Some(1000),
        "million" => Some(1_000_000),
        _ => place(&SMALL).or_else(|| place(&TENS).map(|at| 20 + at * 10)),
    }
}
