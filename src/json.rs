//! JSON from outside, with a bound on what it can cost.

use serde_json::Value;

use crate::secret::scrub;

/// The largest number of values in one text: what a small text can cost in memory.
const VALUE_LIMIT: usize = 100_000;
/// How much of a text from outside a message holds.
const EXCERPT: usize = 400;

/// Reads JSON. White space and a byte order mark before it are skipped; what would take a great
/// deal of memory for its size is refused, and so is nesting deeper than 128.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    // A text has no more values than bytes.
    if bytes.len() > VALUE_LIMIT && values(bytes) > VALUE_LIMIT {
        return Err(format!("it holds more than {VALUE_LIMIT} values"));
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
}

/// How many values a text holds, about: never fewer than there are.
fn values(bytes: &[u8]) -> usize {
    let (mut values, mut quoted, mut escaped) = (1, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => values += 1,
            _ => {}
        }
    }
    values
}

/// The message in an error body: `error` as a text or an object, `message`, `detail`, `errors`, or
/// a list of these.
pub(crate) fn error_text(body: &Value) -> Option<String> {
    match body {
        Value::String(text) => Some(excerpt(text)).filter(|text| !text.is_empty()),
        Value::Array(items) => items.iter().find_map(error_text),
        Value::Object(map) => KEYS
            .iter()
            .find_map(|key| map.get(*key).and_then(error_text)),
        _ => None,
    }
}

/// Where servers put what they say about a failure.
const KEYS: [&str; 8] = [
    "error",
    "message",
    "msg",
    "detail",
    "reason",
    "errors",
    "error_message",
    "status",
];

/// The beginning of a text in one line: what a person reads of it. Keys are taken out before it is
/// cut: a part of one would not be known again.
pub(crate) fn excerpt(text: &str) -> String {
    let text = scrub(text);
    let mut words = text
        .split_whitespace()
        .map(|word| word.chars().take(EXCERPT).collect::<String>());
    let mut line = words.next().unwrap_or_default();
    for word in words {
        if line.len() + word.len() > EXCERPT {
            return line + " …";
        }
        line = line + " " + &word;
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_would_fill_the_memory_is_refused() {
        let many = format!("[{}1]", "1,".repeat(VALUE_LIMIT + 1));
        assert!(parse(many.as_bytes()).is_err());
        let text = format!("[\"{}\"]", ",".repeat(VALUE_LIMIT * 2));
        assert!(parse(text.as_bytes()).is_ok(), "commas in a text are text");
    }

    #[test]
    fn a_servers_own_words_are_found_in_every_shape() {
        for body in [
            r#"{"error": {"message": "no"}}"#,
            r#"{"error": "no"}"#,
            r#"{"message": "no"}"#,
            r#"{"detail": [{"msg": "no"}]}"#,
            r#"[{"error": {"code": 1, "message": "no"}}]"#,
            r#"{"errors": ["no"]}"#,
        ] {
            assert_eq!(
                error_text(&parse(body.as_bytes()).unwrap()).as_deref(),
                Some("no"),
                "{body}"
            );
        }
        assert_eq!(error_text(&serde_json::json!({"error": {}})), None);
    }
}
