//! JSON from outside, with a bound on what it can cost.

use serde_json::Value;

/// The largest number of values in one text: what a small text can cost in memory.
const VALUE_LIMIT: usize = 100_000;

/// Reads JSON. White space and a byte order mark before it are skipped; what would take a great
/// deal of memory for its size is refused, and so is nesting deeper than 128.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let (mut values, mut quoted, mut escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => values += 1,
            _ => {}
        }
    }
    if values > VALUE_LIMIT {
        return Err(format!("it holds more than {VALUE_LIMIT} values"));
    }
    serde_json::from_slice(bytes).map_err(|error| error.to_string())
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
}
