//! A bound text with the model's arguments in it: `…?ids={coin|lower}&n={count}`.

use serde_json::{Map, Value};

use super::function::Escape;
use super::params::Param;
use super::text_of;
use crate::near::did_you_mean;

/// What can be done to an argument before it is put in.
const FILTERS: &[&str] = &["lower", "upper", "trim"];

/// A text with placeholders, whose names are known to exist.
pub(super) struct Template {
    /// The text before the first placeholder.
    start: String,
    /// Each placeholder with the text after it.
    rest: Vec<(Placeholder, String)>,
}

struct Placeholder {
    name: String,
    filters: Vec<String>,
}

impl Template {
    /// Reads a template. `{{` and `}}` stand for one brace each.
    pub(super) fn read(text: &str, params: &[Param]) -> Result<Self, String> {
        let mut template = Self {
            start: String::new(),
            rest: Vec::new(),
        };
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '{' | '}' if chars.peek() == Some(&c) => {
                    chars.next();
                    template.push(c);
                }
                '{' => {
                    let mut inside = String::new();
                    loop {
                        match chars.next() {
                            Some('}') => break,
                            Some(c) => inside.push(c),
                            None => return Err("a `{` without its `}`".to_owned()),
                        }
                    }
                    let placeholder = Placeholder::read(&inside, params)?;
                    template.rest.push((placeholder, String::new()));
                }
                '}' => return Err("a `}` without its `{`; write `}}` for the character".to_owned()),
                c => template.push(c),
            }
        }
        Ok(template)
    }

    fn push(&mut self, c: char) {
        self.rest
            .last_mut()
            .map_or(&mut self.start, |(_, text)| text)
            .push(c);
    }

    /// The placeholders' names.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.rest
            .iter()
            .map(|(placeholder, _)| placeholder.name.as_str())
    }

    /// Whether it begins with a slash.
    pub(super) fn begins_with_slash(&self) -> bool {
        self.start.starts_with('/')
    }

    /// Whether the scheme and the host stand in it before any placeholder.
    pub(super) fn host_is_fixed(&self) -> bool {
        let after = |scheme| self.start.strip_prefix(scheme);
        let Some(rest) = after("https://").or_else(|| after("http://")) else {
            return false;
        };
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let ended = host.len() < rest.len() || self.rest.is_empty();
        ended && !host.is_empty() && !host.contains('@')
    }

    /// The text with the arguments in it. An argument that was not given is nothing.
    pub(super) fn fill(&self, args: &Map<String, Value>, escape: Escape) -> String {
        let mut text = self.start.clone();
        for (placeholder, after) in &self.rest {
            let mut value = args
                .get(&placeholder.name)
                .filter(|v| !v.is_null())
                .map_or(String::new(), text_of);
            for filter in &placeholder.filters {
                value = match filter.as_str() {
                    "lower" => value.to_lowercase(),
                    "upper" => value.to_uppercase(),
                    _ => value.trim().to_owned(),
                };
            }
            match escape {
                Escape::None => text += &value,
                Escape::Pointer => text += &value.replace('~', "~0").replace('/', "~1"),
                Escape::Url => percent_encode(&value, &mut text),
            }
            text += after;
        }
        text
    }
}

impl Placeholder {
    fn read(inside: &str, params: &[Param]) -> Result<Self, String> {
        let mut words = inside.split('|').map(str::trim);
        let name = words.next().unwrap_or_default().to_owned();
        if !params.iter().any(|param| param.name == name) {
            let near = did_you_mean(&name, params.iter().map(|param| param.name.as_str()));
            return Err(format!("no parameter `{name}` for the placeholder{near}"));
        }
        let filters: Vec<String> = words.map(str::to_owned).collect();
        match filters
            .iter()
            .find(|filter| !FILTERS.contains(&filter.as_str()))
        {
            Some(filter) => {
                let near = did_you_mean(filter, FILTERS.iter().copied());
                Err(format!("unknown filter `{filter}`{near}"))
            }
            None => Ok(Self { name, filters }),
        }
    }
}

/// Everything but the characters that are safe anywhere in an address (RFC 3986, unreserved).
pub(super) fn percent_encode(value: &str, out: &mut String) {
    use std::fmt::Write;
    // A segment of dots would lead out of its folder.
    let dots = matches!(value, "." | "..");
    for byte in value.bytes() {
        match byte {
            b'.' if dots => out.push_str("%2E"),
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(byte.into())
            }
            _ => write!(out, "%{byte:02X}").unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::params::Type;
    use super::*;

    fn filled(text: &str, escape: Escape) -> Result<String, String> {
        let params = [Param::new("coin", Type::String)];
        let args = Map::from_iter([("coin".to_owned(), Value::from("A/b ~é&"))]);
        Template::read(text, &params).map(|template| template.fill(&args, escape))
    }

    #[test]
    fn arguments_are_escaped_for_where_they_go() {
        assert_eq!(filled("x{coin}y", Escape::None).unwrap(), "xA/b ~é&y");
        assert_eq!(
            filled("?q={coin|lower}&n=1", Escape::Url).unwrap(),
            "?q=a%2Fb%20~%C3%A9%26&n=1"
        );
        assert_eq!(
            filled("/{ coin }/usd", Escape::Pointer).unwrap(),
            "/A~1b ~0é&/usd"
        );
        assert_eq!(
            filled("{{{coin|upper|trim}}}", Escape::None).unwrap(),
            "{A/B ~É&}"
        );
        for wrong in ["{coim}", "{coin|louder}", "}", "{coin"] {
            assert!(filled(wrong, Escape::None).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_host_cannot_be_chosen_by_the_model() {
        let params = [Param::new("coin", Type::String)];
        for (url, fixed) in [
            ("https://x.example/{coin}", true),
            ("https://x.example?q={coin}", true),
            ("https://x.example", true),
            ("https://{coin}/x", false),
            ("https://x.example{coin}/", false),
            ("https://u@x.example/{coin}", false),
            ("{coin}", false),
            ("file:///{coin}", false),
        ] {
            assert_eq!(
                Template::read(url, &params).unwrap().host_is_fixed(),
                fixed,
                "{url}"
            );
        }
    }
}
