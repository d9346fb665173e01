//! Arithmetic as people write it, in symbols and in words, and the order in which to work it out.

use std::fmt;

use super::token::{Token, tokens};

/// Questions longer than this are not arithmetic.
const LENGTH: usize = 1000;
/// Parentheses deeper than this are not arithmetic either.
const DEPTH: usize = 32;

/// An expression over numbers. Displays in symbols, with no more parentheses than needed.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Expression {
    Number(String),
    Binary(char, Box<Expression>, Box<Expression>),
}

/// One operation on two numbers.
pub(super) struct Operation {
    pub(super) sign: char,
    /// The tool that does it, if one of the basic four does.
    pub(super) tool: Option<&'static str>,
    pub(super) left: Operand,
    pub(super) right: Operand,
}

/// A number, or the result of an earlier operation, counted from zero.
pub(super) enum Operand {
    Number(String),
    Result(usize),
}

/// Whether one of these words stands in the text.
pub(super) fn mentions(text: &str, words: &[&str]) -> bool {
    text.split(|c: char| !c.is_alphanumeric())
        .any(|word| words.iter().any(|wanted| word.eq_ignore_ascii_case(wanted)))
}

impl Expression {
    /// Reads a question that is nothing but arithmetic.
    pub(super) fn read(question: &str) -> Option<Self> {
        if question.len() > LENGTH {
            return None;
        }
        let mut reader = Reader {
            tokens: tokens(question)?,
            at: 0,
            depth: 0,
        };
        let mut whole = reader.sum()?;
        // "…, then add 5, and multiply by 2": each works on all that came before.
        while reader.at < reader.tokens.len() {
            reader.skip(&["and", "then", "finally"]);
            let verb = reader.verb()?;
            reader.skip(&["by", "it"]);
            let operand = reader.sum()?;
            reader.skip(&["to", "from", "it"]);
            whole = Self::Binary(verb, Box::new(whole), Box::new(operand));
        }
        matches!(whole, Self::Binary(..)).then_some(whole)
    }

    /// The operations in an order in which each needs only numbers and earlier results.
    pub(super) fn operations(&self) -> Vec<Operation> {
        fn collect(expression: &Expression, list: &mut Vec<Operation>) -> Operand {
            match expression {
                Expression::Number(number) => Operand::Number(number.clone()),
                Expression::Binary(sign, left, right) => {
                    let (left, right) = (collect(left, list), collect(right, list));
                    let tool = match sign {
                        '+' => Some("add_numbers"),
                        '-' => Some("subtract_numbers"),
                        '*' => Some("multiply_numbers"),
                        '/' => Some("divide_numbers"),
                        _ => None,
                    };
                    list.push(Operation {
                        sign: *sign,
                        tool,
                        left,
                        right,
                    });
                    Operand::Result(list.len() - 1)
                }
            }
        }
        let mut list = Vec::new();
        collect(self, &mut list);
        list
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Binary('+' | '-', ..) => 1,
            Self::Binary('*' | '/', ..) => 2,
            Self::Binary(..) => 3,
            Self::Number(_) => 4,
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |f: &mut fmt::Formatter<'_>, side: &Self, enclosed: bool| match enclosed {
            true => write!(f, "({side})"),
            false => write!(f, "{side}"),
        };
        match self {
            Self::Number(number) => f.write_str(number),
            Self::Binary(sign, left, right) => {
                part(f, left, left.rank() < self.rank())?;
                write!(f, " {sign} ")?;
                part(f, right, right.rank() <= self.rank())
            }
        }
    }
}

/// Recursive descent over the tokens, by the usual precedence.
struct Reader {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
}

impl Reader {
    fn next_is(&mut self, test: impl Fn(&Token) -> bool) -> bool {
        let found = self.tokens.get(self.at).is_some_and(test);
        self.at += usize::from(found);
        found
    }

    fn word(&mut self, words: &[&str]) -> bool {
        self.next_is(|token| matches!(token, Token::Word(word) if words.contains(&word.as_str())))
    }

    fn sign(&mut self, sign: char) -> bool {
        self.next_is(|token| *token == Token::Sign(sign))
    }

    fn skip(&mut self, words: &[&str]) {
        while self.word(words) {}
    }

    fn verb(&mut self) -> Option<char> {
        for (words, sign) in [
            (&["add", "plus", "adding"][..], '+'),
            (&["subtract", "minus", "subtracting"], '-'),
            (&["multiply", "times", "multiplied", "multiplying"], '*'),
            (&["divide", "divided", "dividing"], '/'),
        ] {
            if self.word(words) {
                return Some(sign);
            }
        }
        None
    }

    fn sum(&mut self) -> Option<Expression> {
        let mut left = self.product()?;
        loop {
            let sign = match () {
                () if self.sign('+') || self.word(&["plus"]) => '+',
                () if self.sign('-') || self.word(&["minus", "less"]) => '-',
                () => return Some(left),
            };
            left = Expression::Binary(sign, Box::new(left), Box::new(self.product()?));
        }
    }

    fn product(&mut self) -> Option<Expression> {
        let mut left = self.power()?;
        loop {
            let sign = match () {
                () if self.sign('*') || self.word(&["times", "x", "multiplied"]) => '*',
                () if self.sign('/') || self.word(&["divided", "over"]) => '/',
                () => return Some(left),
            };
            self.word(&["by"]);
            left = Expression::Binary(sign, Box::new(left), Box::new(self.power()?));
        }
    }

    fn power(&mut self) -> Option<Expression> {
        let base = self.factor()?;
        let exponent = match () {
            () if self.sign('^') => self.power()?,
            () if self.word(&["squared"]) => Expression::Number("2".to_owned()),
            () if self.word(&["cubed"]) => Expression::Number("3".to_owned()),
            () if self.at + 1 < self.tokens.len() && self.power_words() => self.power()?,
            () => return Some(base),
        };
        Some(Expression::Binary('^', Box::new(base), Box::new(exponent)))
    }

    /// "to the power of", without "the", which is a filler.
    fn power_words(&mut self) -> bool {
        let start = self.at;
        let found = self.word(&["to"]) && self.word(&["power"]) && self.word(&["of"]);
        if !found {
            self.at = start;
        }
        found
    }

    fn factor(&mut self) -> Option<Expression> {
        self.depth += 1;
        if self.depth > DEPTH {
            return None;
        }
        let factor = self.open_factor();
        self.depth -= 1;
        factor
    }

    fn open_factor(&mut self) -> Option<Expression> {
        let binary = |sign, left, right| Expression::Binary(sign, Box::new(left), Box::new(right));
        let number = |text: &str| Expression::Number(text.to_owned());
        self.skip(&["of", "to"]);
        if self.sign('-') || self.word(&["minus", "negative"]) {
            return Some(match self.factor()? {
                Expression::Number(digits) => Expression::Number(format!("-{digits}")),
                other => binary('-', number("0"), other),
            });
        }
        if self.sign('(') {
            let inner = self.sum()?;
            return self.sign(')').then_some(inner);
        }
        if self.word(&["twice", "double"]) {
            return Some(binary('*', number("2"), self.factor()?));
        }
        if self.word(&["half"]) {
            return Some(binary('/', self.factor()?, number("2")));
        }
        for (noun, sign) in [
            ("sum", '+'),
            ("difference", '-'),
            ("product", '*'),
            ("quotient", '/'),
        ] {
            if self.word(&[noun]) {
                self.skip(&["of", "between"]);
                let left = self.sum()?;
                return self
                    .word(&["and"])
                    .then_some(())
                    .and_then(|()| Some(binary(sign, left, self.sum()?)));
            }
        }
        if let Some(sign) = self.verb() {
            let left = self.sum()?;
            let turned = self.word(&["from"]);
            if !turned && !self.word(&["and", "by", "to", "with"]) {
                return None;
            }
            let right = self.sum()?;
            return Some(if turned {
                binary(sign, right, left)
            } else {
                binary(sign, left, right)
            });
        }
        let Some(Token::Number(digits)) = self.tokens.get(self.at).cloned() else {
            return None;
        };
        self.at += 1;
        if self.next_is(|t| *t == Token::Percent) || self.word(&["percent"]) {
            let share = binary('/', Expression::Number(digits), number("100"));
            return Some(match self.word(&["of"]) {
                true => binary('*', share, self.factor()?),
                false => share,
            });
        }
        Some(Expression::Number(digits))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_and_words_come_to_the_same() {
        for (question, wanted) in [
            ("What is 10 * 3 + 10?", "10 * 3 + 10"),
            ("-3 * 4", "-3 * 4"),
            ("what is twelve times seven plus five", "12 * 7 + 5"),
            ("What is 23 multiplied by 19, plus 100?", "23 * 19 + 100"),
            ("(2 + 3) × (4 − 1)", "(2 + 3) * (4 - 1)"),
            ("10 - (3 - 2)", "10 - (3 - 2)"),
            ("What is 15% of 80?", "15 / 100 * 80"),
            ("the sum of 3 and 4", "3 + 4"),
            ("Add 3 and 4", "3 + 4"),
            ("Subtract 3 from 10", "10 - 3"),
            ("Add 3 to 4, then multiply by 2", "(3 + 4) * 2"),
            ("two hundred and five divided by five", "205 / 5"),
            ("1,000 plus 24.", "1000 + 24"),
            ("How much is 2 ** 10?", "2 ^ 10"),
            ("half of 9 plus twice 4", "9 / 2 + 2 * 4"),
            (".5 + 1", ".5 + 1"),
            ("5 + three hundred and twenty-one", "5 + 321"),
            ("ninety-nine times two", "99 * 2"),
        ] {
            let read = Expression::read(question).map(|e| e.to_string());
            assert_eq!(read.as_deref(), Some(wanted), "{question}");
        }
        for other in [
            "",
            "5",
            "hello",
            "2 +",
            "(1 + 2",
            "two apples",
            "1 + x",
            "3 4",
            "héllo + 1",
        ] {
            assert_eq!(Expression::read(other), None, "{other}");
        }
    }

    #[test]
    fn deep_and_long_questions_are_declined() {
        assert_eq!(Expression::read(&"(".repeat(900)), None);
        assert_eq!(Expression::read(&"-".repeat(900)), None);
        assert_eq!(Expression::read(&"1 + ".repeat(900)), None);
    }
}
