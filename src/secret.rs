//! A key that cannot be printed.

use std::fmt;

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

    /// `text` with every copy of the key replaced by `(secret)`.
    pub fn scrub(&self, text: &str) -> String {
        text.replace(&self.0, "(secret)")
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
        assert_eq!(format!("{key:?}"), "(secret)");
        assert_eq!(key.scrub("bad key sk-canary!"), "bad key (secret)!");
        assert!(Secret::new("  ").is_none());
    }
}
