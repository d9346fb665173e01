//! `math.*`: the four operations, and `math.calculate` for whole expressions with units.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::function::{Body, Function, Limits};
use super::params::{Param, Type};
use crate::interrupt;

/// The function that computes whole expressions.
pub(super) const CALCULATE: &str = "math.calculate";
/// The longest expression that is computed.
const LENGTH: usize = 1024;
/// The deepest nesting of brackets: the calculator works recursively.
const DEPTH: usize = 32;
/// The most numbers, words and signs.
const PARTS: usize = 100;

pub(super) const FUNCTIONS: &[Function] = &[
    binary("math.add", "Add two numbers.", Operation::Add),
    binary(
        "math.subtract",
        "Subtract the second number from the first.",
        Operation::Subtract,
    ),
    binary(
        "math.multiply",
        "Multiply two numbers.",
        Operation::Multiply,
    ),
    binary(
        "math.divide",
        "Divide the first number by the second.",
        Operation::Divide,
    ),
    Function {
        name: CALCULATE,
        description: "Compute an expression, also with units, such as `(2 + 3) * 4` or `5 km to miles`.",
        params: || vec![Param::new("expression", Type::String)],
        body: Body::Call(calculate),
        ..Function::PURE
    },
];

/// One of the four operations.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Operation {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// A function of two numbers, `x` and `y`.
const fn binary(name: &'static str, description: &'static str, operation: Operation) -> Function {
    Function {
        name,
        description,
        params: || vec![Param::new("x", Type::Number), Param::new("y", Type::Number)],
        body: Body::Numbers(operation),
        ..Function::PURE
    }
}

impl Operation {
    /// How it is written in an expression.
    pub(super) fn sign(self) -> char {
        match self {
            Self::Add => '+',
            Self::Subtract => '-',
            Self::Multiply => '*',
            Self::Divide => '/',
        }
    }

    /// Works on `x` and `y`: exactly where both are whole and so is the result.
    pub(super) fn run(self, args: &Map<String, Value>) -> Result<Value, String> {
        let whole = |name: &str| args.get(name).and_then(Value::as_i64).map(i128::from);
        if let (Some(x), Some(y)) = (whole("x"), whole("y"))
            && let Some(exact) = self.whole(x, y)
        {
            return Ok(i64::try_from(exact).map_or_else(|_| exact.to_string().into(), Value::from));
        }
        let number = |name: &str| {
            let number = args.get(name).and_then(Value::as_f64);
            number.ok_or_else(|| format!("`{name}` must be a number"))
        };
        let (x, y) = (number("x")?, number("y")?);
        let result = match self {
            Self::Add => x + y,
            Self::Subtract => x - y,
            Self::Multiply => x * y,
            Self::Divide if y == 0.0 => return Err("division by zero".to_owned()),
            Self::Divide => x / y,
        };
        value(result).ok_or_else(|| "the result is too large".to_owned())
    }

    fn whole(self, x: i128, y: i128) -> Option<i128> {
        match self {
            Self::Add => Some(x + y),
            Self::Subtract => Some(x - y),
            Self::Multiply => Some(x * y),
            Self::Divide => (y != 0 && x % y == 0).then(|| x / y),
        }
    }
}

/// A call of an operation that does not fit, as one expression: `18, 27, 55)` is `18 + 27 + 55`, and
/// `2 * 60, 35) - 1` is `((2 * 60) + 35) - 1`. `written` is what stands behind the opening bracket.
pub(super) fn expression(sign: char, written: &str) -> Option<String> {
    let written = written.trim_end();
    let mut depth = 0_usize;
    let close = written.find(|c| {
        let closes = c == ')' && depth == 0;
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        closes
    })?;
    let (numbers, rest) = (&written[..close], &written[close + 1..]);
    if !(rest.is_empty() || rest.trim_start().starts_with(operator) && arithmetic(rest)) {
        return None;
    }
    let numbers: Option<Vec<String>> = numbers
        .split(',')
        .map(|number| match number.trim() {
            number if !arithmetic(number) => None,
            number if number.trim_start_matches('-').contains(operator) => {
                Some(format!("({number})"))
            }
            number => Some(number.to_owned()),
        })
        .collect();
    let whole = numbers
        .filter(|numbers| numbers.len() > 1)?
        .join(&format!(" {sign} "));
    Some(match rest.is_empty() {
        true => whole,
        false => format!("({whole}){rest}"),
    })
}

/// Whether this is an expression of numbers, and more than one of them.
pub(super) fn is_expression(text: &str) -> bool {
    arithmetic(text) && text.trim().trim_start_matches('-').contains(operator)
}

/// The longest expression in a text in words, if there is one: `What is (2 + 3) * 4?` has `(2 + 3) * 4`.
pub(super) fn expression_in(text: &str) -> Option<&str> {
    let pieces = text.split(|c: char| !own(c));
    let pieces = pieces.map(|piece| piece.trim().trim_end_matches('.'));
    pieces
        .filter(|piece| is_expression(piece))
        .max_by_key(|piece| piece.len())
}

/// Whether there are numbers here, and nothing that does not belong to an expression of them.
fn arithmetic(text: &str) -> bool {
    text.chars().all(own) && text.contains(|c: char| c.is_ascii_digit())
}

/// Whether a letter may stand in an expression of numbers.
fn own(c: char) -> bool {
    c.is_ascii_digit() || operator(c) || matches!(c, '.' | ' ' | '(' | ')')
}

fn operator(c: char) -> bool {
    matches!(c, '+' | '-' | '*' | '/' | '%' | '^')
}

/// A number as JSON: whole where it is whole.
fn value(number: f64) -> Option<Value> {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "whole, and smaller than 2^53"
        )]
        return Some(Value::from(number as i64));
    }
    serde_json::Number::from_f64(number).map(Value::Number)
}

/// A number as a person writes it: 12 digits after the point at most, no more digits in all than
/// are exact, no zeros at the end; powers of ten only for the very large and very small.
pub(super) fn number_text(number: f64) -> String {
    let magnitude = number.abs();
    if number == 0.0 {
        return "0".to_owned();
    }
    if !number.is_finite() || !(1e-6..1e15).contains(&magnitude) {
        let text = format!("{number:.11e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        return format!(
            "{}e{power}",
            digits.trim_end_matches('0').trim_end_matches('.')
        );
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the logarithm of a number in 1e-6..1e15"
    )]
    let before_point = magnitude.log10().floor() as i32 + 1;
    let after_point = usize::try_from((15 - before_point).clamp(0, 12)).unwrap_or(0);
    let text = format!("{number:.after_point$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

struct Deadline(Instant);

impl fend_core::Interrupt for Deadline {
    fn should_interrupt(&self) -> bool {
        Instant::now() >= self.0 || interrupt::reason().is_some()
    }
}

/// Uses fend, whose language it is: <https://printfn.github.io/fend/documentation/>.
fn calculate(args: &Map<String, Value>, limits: &Limits) -> Result<Value, String> {
    let expression = args
        .get("expression")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .trim();
    check(expression)?;
    let mut context = fend_core::Context::new();
    context.disable_rng();
    let deadline = Deadline(Instant::now() + limits.timeout.min(Duration::from_secs(2)));
    let result = fend_core::evaluate_with_interrupt(expression, &mut context, &deadline).map_err(
        |error| {
            let error = error.to_string();
            let hint = match error.contains("exchange rates") {
                true => "; write money as plain numbers",
                false => "",
            };
            format!("`{expression}` cannot be computed: {error}{hint}")
        },
    )?;
    let text = result.get_main_result().trim();
    let text = text.strip_prefix("approx. ").unwrap_or(text);
    if text.is_empty() {
        return Err("the expression is empty".to_owned());
    }
    // It also computes functions and texts, which answer nothing.
    let number = text.contains(|c: char| c.is_ascii_digit()) && !text.starts_with('\\');
    if !number && !matches!(text, "true" | "false") {
        return Err(format!("`{expression}` is no calculation with numbers"));
    }
    let number = text
        .parse()
        .ok()
        .filter(|_| text.len() < 17)
        .and_then(value);
    Ok(number.unwrap_or_else(|| Value::from(text)))
}

/// Refuses what could take the calculator's stack or a great deal of time before it starts: every
/// word and every sign may nest one level deeper.
fn check(expression: &str) -> Result<(), String> {
    if expression.len() > LENGTH {
        return Err(format!("the expression is longer than {LENGTH} characters"));
    }
    let (mut depth, mut deepest, mut parts, mut in_word) = (0_usize, 0_usize, 0_usize, false);
    for c in expression.chars() {
        let word = c.is_alphanumeric() || matches!(c, '.' | '_');
        parts += usize::from(!(c.is_whitespace() || word && in_word));
        in_word = word;
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    match deepest > DEPTH || parts > PARTS {
        true => Err("the expression is too long or nested too deeply; do it in parts".to_owned()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calculated(expression: &str) -> Result<String, String> {
        let args = Map::from_iter([("expression".to_owned(), Value::from(expression))]);
        calculate(
            &args,
            &Limits {
                timeout: Duration::from_secs(10),
            },
        )
        .map(|value| super::super::text_of(&value))
    }

    #[test]
    fn numbers_are_written_as_people_write_them() {
        for (number, text) in [
            (40.0, "40"),
            (-0.0, "0"),
            (50.523_798_942_565_92, "50.523798942566"),
            (0.1 + 0.2, "0.3"),
            (1234.1 + 0.2, "1234.3"),
            (1.0 / 3.0, "0.333333333333"),
            (1e14, "100000000000000"),
            (1e20, "1e20"),
            (1e300, "1e300"),
            (1.5e-9, "1.5e-9"),
            (-2.5, "-2.5"),
        ] {
            assert_eq!(number_text(number), text);
        }
    }

    #[test]
    fn a_function_or_a_text_is_no_result() {
        for expression in ["expression: string", "sin", "\"abc\"", "x: x + 1"] {
            assert!(calculated(expression).is_err(), "{expression}");
        }
    }

    #[test]
    fn the_expression_in_a_question_is_its_longest() {
        assert_eq!(
            expression_in("What is (20 - 8) * 3 + 4?"),
            Some("(20 - 8) * 3 + 4")
        );
        assert_eq!(expression_in("In 1995, was 2 + 2 = 4.5?"), Some("2 + 2"));
        assert_eq!(expression_in("What is 3.5 * 6."), Some("3.5 * 6"));
        assert_eq!(expression_in("How old is Bo, 42?"), None);
    }

    #[test]
    fn whole_numbers_are_exact() {
        let run = |operation: Operation, x: i64, y: i64| {
            let args = Map::from_iter([("x".to_owned(), x.into()), ("y".to_owned(), y.into())]);
            super::super::text_of(&operation.run(&args).unwrap())
        };
        assert_eq!(
            run(Operation::Multiply, 9_999_999_999, 9_999_999_999),
            "99999999980000000001"
        );
        assert_eq!(
            run(Operation::Add, 9_007_199_254_740_993, 0),
            "9007199254740993"
        );
        assert_eq!(run(Operation::Divide, 1, 3), "0.333333333333");
        assert_eq!(run(Operation::Divide, i64::MIN, -1), "9223372036854775808");
    }

    #[test]
    fn expressions_are_computed_with_units() {
        for (expression, wanted) in [
            ("(2 + 3) * 4", "20"),
            ("10 / 4", "2.5"),
            ("2 ^ 10", "1024"),
            ("5 km to m", "5000 m"),
            ("15% of 80", "12"),
            ("sqrt(16)", "4"),
            ("12 * 7 + 5", "89"),
        ] {
            assert_eq!(
                calculated(expression).as_deref(),
                Ok(wanted),
                "{expression}"
            );
        }
        assert!(calculated("1 / 0").is_err());
        assert!(calculated("what").is_err());
        assert!(calculated("").is_err());
    }

    #[test]
    fn a_bomb_is_refused_or_interrupted() {
        // With the stack that the program's main thread has.
        let main = std::thread::Builder::new().stack_size(8 << 20);
        main.spawn(throw_bombs).unwrap().join().unwrap();
    }

    fn throw_bombs() {
        for bomb in [
            "9^9^9^9^9".to_owned(),
            "99999999!".to_owned(),
            "(".repeat(1000),
            "-".repeat(1000) + "1",
            "(".repeat(32) + "1" + &")".repeat(32) + &"^2".repeat(200),
            "1;".repeat(500),
            "a".repeat(1025),
            "x = ".repeat(200),
            "\\x. ".repeat(200),
            "a=".repeat(511) + "1",
            "m ".repeat(512),
            "1".to_owned() + &"<<1".repeat(340),
            "1".to_owned() + &" to m".repeat(49),
            "−".repeat(99) + "1",
            "-".repeat(99) + "1",
            "m ".repeat(100),
            "1".to_owned() + &"<<1".repeat(33),
            "a=".repeat(49) + "1",
            "1'2\"".repeat(25),
            "(".repeat(32) + "1" + &")".repeat(32),
        ] {
            let begun = Instant::now();
            let _ = calculated(&bomb);
            assert!(begun.elapsed() < Duration::from_secs(7), "{bomb}");
        }
    }
}
