//! Keys that cannot be printed, and the scrubber that keeps them out of every text.
//!
//! A process has few keys and many places where a text leaves it, so the keys are known to the whole
//! process: whatever is written anywhere goes through [`scrub`].

use std::borrow::Cow;
use std::fmt;
use std::sync::{PoisonError, RwLock};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// Keys shorter than this are placeholders: ordinary words of ordinary texts.
const SHORT: usize = 8;
/// What stands in a text where a key was.
const SCRUBBED: &str = "(secret)";

/// Every form of every key that this process has, the longest first.
static FORMS: RwLock<Vec<String>> = RwLock::new(Vec::new());

/// Holds a key. `Debug` shows `(secret)`, there is no `Display` and no serialisation:
/// the only way to the text is [`Secret::reveal`], which is called where a request is signed.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes the key; blanks around it are dropped. An empty key is no key. From here on [`scrub`]
    /// takes it out of every text, unless it is as short as what people give to servers that want
    /// none.
    pub fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        if key.len() >= SHORT {
            let mut known = FORMS.write().unwrap_or_else(PoisonError::into_inner);
            for form in forms(key) {
                if !known.contains(&form) {
                    known.push(form);
                }
            }
            known.sort_by_key(|form| std::cmp::Reverse(form.len()));
        }
        (!key.is_empty()).then(|| Self(key.to_owned()))
    }

    /// The key itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(SCRUBBED)
    }
}

/// A text without the keys of this process: each copy is replaced by `(secret)`, also where it is
/// percent-encoded, written in hexadecimal, escaped as in JSON, or a part of something in base64.
pub fn scrub(text: &str) -> Cow<'_, str> {
    let known = FORMS.read().unwrap_or_else(PoisonError::into_inner);
    let mut text = Cow::Borrowed(text);
    for form in known.iter() {
        if text.contains(form) {
            text = Cow::Owned(text.replace(form, SCRUBBED));
        }
    }
    text
}

/// How many bytes at the end of a text may be the beginning of a key.
pub fn begun(text: &str) -> usize {
    let known = FORMS.read().unwrap_or_else(PoisonError::into_inner);
    let begins = |form: &String| {
        let tail = text.len() - form.len().saturating_sub(1).min(text.len());
        let tail = &text.as_bytes()[tail..];
        let starts = (0..tail.len()).filter(|at| tail[*at] == form.as_bytes()[0]);
        starts
            .map(|at| &tail[at..])
            .find(|end| form.as_bytes().starts_with(end))
            .map_or(0, <[u8]>::len)
    };
    known.iter().map(begins).max().unwrap_or(0)
}

/// The ways in which a key is written.
fn forms(key: &str) -> Vec<String> {
    let hex = |upper: bool, byte: &u8| match upper {
        true => format!("{byte:02X}"),
        false => format!("{byte:02x}"),
    };
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let mut forms = vec![key.to_owned()];
    for upper in [true, false] {
        forms.push(key.bytes().map(|byte| hex(upper, &byte)).collect());
        let escaped = |byte| match plain(&byte) {
            true => char::from(byte).to_string(),
            false => format!("%{}", hex(upper, &byte)),
        };
        forms.push(key.bytes().map(escaped).collect());
    }
    // JSON may be a text in JSON.
    let mut texts = vec![key.to_owned()];
    for _ in 0..2 {
        let quoted = texts.iter().flat_map(|text| {
            let quoted = serde_json::Value::from(&**text).to_string();
            let quoted = &quoted[1..quoted.len() - 1];
            [quoted.to_owned(), quoted.replace('/', "\\/")]
        });
        texts = quoted.collect();
        forms.extend(texts.iter().cloned());
    }
    // Behind something else a key begins at any bit of a digit: of each, the digits that are its own.
    for before in 0..3 {
        let bytes = [&b"___"[..before], key.as_bytes()].concat();
        let own = (before * 8).div_ceil(6)..bytes.len() * 8 / 6;
        forms.push(STANDARD_NO_PAD.encode(&bytes)[own.clone()].to_owned());
        forms.push(URL_SAFE_NO_PAD.encode(&bytes)[own].to_owned());
    }
    forms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_printed_and_an_empty_one_is_none() {
        let key = Secret::new(" sk-canary \n").unwrap();
        assert_eq!([begun("it is sk-ca"), begun("it is sk-sk-c")], [5, 4]);
        Secret::new("none").unwrap();
        assert_eq!(scrub("none of them"), "none of them");
        assert_eq!(format!("{key:?}"), "(secret)");
        assert_eq!(scrub("bad key sk-canary!"), "bad key (secret)!");
        assert!(Secret::new("  ").is_none());
    }

    #[test]
    fn a_key_is_found_in_every_form() {
        let key = "sk/ünd+\"canary\"=7";
        Secret::new(key).unwrap();
        let json = serde_json::Value::from(key).to_string();
        let percent = "sk%2f%c3%bcnd%2b%22canary%22%3d7";
        for text in [
            key.to_owned(),
            json.replace('/', "\\/"),
            json,
            percent
                .to_uppercase()
                .replace("SK", "sk")
                .replace("ND", "nd")
                .replace("CANARY", "canary"),
            percent.to_owned(),
            key.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ] {
            let scrubbed = scrub(&text);
            assert!(
                scrubbed.contains("(secret)") && !scrubbed.contains("canary"),
                "{text}"
            );
        }
        for before in ["", ":", "Bearer ", "user:"] {
            let text = format!("{before}{key}{before}");
            for text in [STANDARD_NO_PAD.encode(&text), URL_SAFE_NO_PAD.encode(&text)] {
                assert!(scrub(&text).contains("(secret)"), "{text}");
            }
        }
    }
}
