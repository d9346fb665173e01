//! TOML files of ours: every mistake in them is an error with its line and column.

use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result};
use crate::near::did_you_mean;

/// The largest file that is read.
const SIZE_LIMIT: usize = 256 << 10;

/// Has a file's text read by `read`; `file` is its name in errors.
pub(crate) fn read<T>(
    text: &str,
    file: &str,
    read: impl FnOnce(&DeTable<'_>) -> Read<T>,
) -> Result<T> {
    let place = |mistake: Mistake| {
        let before = &text[..text.floor_char_boundary(mistake.at.min(text.len()))];
        let line = before.matches('\n').count() + 1;
        let start = before.rsplit('\n').next().unwrap_or_default();
        let column = start.chars().count() + 1;
        Error::config(format!("{file}:{line}:{column}: {}", mistake.what))
    };
    if text.len() > SIZE_LIMIT {
        let what = format!("{file}: larger than {SIZE_LIMIT} bytes");
        return Err(Error::config(what));
    }
    let document = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        let what = error.message().replace('\n', ", ");
        place(Mistake { at, what })
    })?;
    read(document.get_ref()).map_err(place)
}

/// A mistake and the byte where it is.
pub(crate) struct Mistake {
    at: usize,
    what: String,
}

/// What was read, or a mistake.
pub(crate) type Read<T> = std::result::Result<T, Mistake>;
/// A value with its place.
pub(crate) type Item<'a> = Spanned<DeValue<'a>>;
/// A mistake at this place.
pub(crate) fn mistake<T>(item: &Spanned<impl Sized>, what: impl Into<String>) -> Read<T> {
    Err(Mistake {
        at: item.span().start,
        what: what.into(),
    })
}

/// Fails at the first key that is not among these.
pub(crate) fn known_keys(table: &DeTable<'_>, known: &[&str], what: &str) -> Read<()> {
    for (key, _) in table.iter() {
        let name = key.get_ref();
        if !known.contains(&&**name) {
            return mistake(
                key,
                format!(
                    "unknown {what} `{name}`{}",
                    did_you_mean(name, known.iter().copied())
                ),
            );
        }
    }
    Ok(())
}

/// The table that it must be.
pub(crate) fn sub_table<'a, 'i>(item: &'a Item<'i>, what: &str) -> Read<&'a DeTable<'i>> {
    match item.get_ref() {
        DeValue::Table(table) => Ok(table),
        _ => mistake(item, format!("`{what}` must be a table")),
    }
}

/// The text that it must be.
pub(crate) fn text<'a>(item: &'a Item<'_>, key: &str) -> Read<&'a str> {
    match item.get_ref() {
        DeValue::String(text) => Ok(text),
        _ => mistake(item, format!("`{key}` must be a text in quotes")),
    }
}

/// A TOML value as JSON. A date is its text.
pub(crate) fn value(item: &Item<'_>) -> Read<Value> {
    Ok(match item.get_ref() {
        DeValue::String(text) => Value::from(&**text),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Integer(digits) => match i64::from_str_radix(digits.as_str(), digits.radix()) {
            Ok(number) => Value::from(number),
            Err(_) => return mistake(item, "the number is too large"),
        },
        DeValue::Float(digits) => {
            let number = digits
                .as_str()
                .parse::<f64>()
                .ok()
                .and_then(serde_json::Number::from_f64);
            match number {
                Some(number) => Value::Number(number),
                None => return mistake(item, "not a number that JSON has"),
            }
        }
        DeValue::Datetime(moment) => Value::from(moment.to_string()),
        DeValue::Array(items) => Value::Array(items.iter().map(value).collect::<Read<_>>()?),
        DeValue::Table(table) => Value::Object(
            table
                .iter()
                .map(|(key, item)| Ok((key.get_ref().to_string(), value(item)?)))
                .collect::<Read<_>>()?,
        ),
    })
}
