//! A key that cannot be printed.

use std::fmt;

/// Keys shorter than this are placeholders.
const SHORT: usize = 8;

/// Holds a key. `Debug` shows `(secret)`, there is no `Display` and no serialisation:
/// the only way to the text is [`Secret::reveal`], which is called where a request is signed.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Takes the key; blanks around it are dropped. An empty key is no key.
    pub fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        (!key.is_empty()).then(|| Self(key.to_owned()))
    }

    /// The key itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// `text` with every copy of the key replaced by `(secret)`. A short key, such as people give to
    /// servers that want none, is no secret: it is an ordinary word of ordinary texts.
    pub fn scrub(&self, text: &str) -> String {
        match self.0.len() < SHORT {
            true => text.to_owned(),
            false => text.replace(&self.0, "(secret)"),
        }
    }

    /// How many bytes at the end of `text` may be the beginning of the key.
    pub fn begun(&self, text: &str) -> usize {
        let most = self.0.len().saturating_sub(1).min(text.len());
        let begins = |length: &usize| {
            self.0
                .as_bytes()
                .starts_with(&text.as_bytes()[text.len() - length..])
        };
        (1..=most)
            .rev()
            .find(begins)
            .filter(|_| self.0.len() >= SHORT)
            .unwrap_or(0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_printed_and_an_empty_one_is_none() {
        let key = Secret::new(" sk-canary \n").unwrap();
        assert_eq!(
            [key.begun("it is sk-ca"), key.begun("sk"), key.begun("no")],
            [5, 2, 0]
        );
        assert_eq!(
            Secret::new("none").unwrap().scrub("none of them"),
            "none of them"
        );
        assert_eq!(format!("{key:?}"), "(secret)");
        assert_eq!(key.scrub("bad key sk-canary!"), "bad key (secret)!");
        assert!(Secret::new("  ").is_none());
    }
}
