//! Lengths of time as people write them in settings: `90s`, `50ms`, `2m`, `1h`, `30d`.

use std::time::Duration;

/// Reads a whole or decimal number with a unit; a number alone is seconds.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let unit_at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let scale = match unit {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(number.parse::<f64>().ok()? * scale).ok()
}

/// A length of time as it would be written: in the largest unit of which it is a whole number.
pub(crate) fn text(duration: Duration) -> String {
    let millis = duration.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let unit = units
        .iter()
        .find(|(unit, _)| millis > 0 && millis.is_multiple_of(*unit));
    unit.map_or_else(
        || format!("{millis}ms"),
        |(unit, name)| format!("{}{name}", millis / unit),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_units() {
        for (text, millis) in [
            ("90s", 90_000),
            ("50ms", 50),
            ("2m", 120_000),
            ("1.5", 1500),
            ("30d", 2_592_000_000),
            ("0", 0),
        ] {
            assert_eq!(parse(text), Some(Duration::from_millis(millis)), "{text}");
        }
        for written in ["90s", "50ms", "2m", "1h", "1500ms", "0ms"] {
            assert_eq!(parse(written).map(text).as_deref(), Some(written));
        }
        for wrong in ["", "s", "-1s", "1 day", "1e9", "99999999999999999999h"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
