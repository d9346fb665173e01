//! Rules about calls: what may run, what is asked about, what never runs.
//!
//! ```toml
//! [policy]
//! min_confidence = 0.5                      # of the engine `plan`
//!
//! [[policy.rules]]
//! tool = "files_*"                          # patterns: * for any letters, ? for one
//! args.name = "*.env"                       # by parameter
//! path = "/etc/*"                           # any argument that is named path, file, folder or root
//! host = "*.example.com"                    # where the call would go, if it goes anywhere
//! then = "deny"                             # allow, ask or deny
//! because = "secrets stay here"             # told with every question and refusal
//! ```
//!
//! All that a rule names has to fit. Of the rules that fit, the strictest counts.

use serde_json::{Map, Value};
use toml::de::DeValue;
use wildmatch::WildMatch;

use super::{Approval, Tool, text_of};
use crate::tables::{Item, Read, known_keys, mistake, sub_table, text, value};

/// The parameters whose values are paths.
const PATHS: [&str; 4] = ["path", "file", "folder", "root"];

/// A rule.
#[derive(Debug, Clone)]
pub struct Rule {
    tool: WildMatch,
    args: Vec<(String, WildMatch)>,
    host: Option<WildMatch>,
    path: Option<WildMatch>,
    /// What it says.
    pub then: Approval,
    /// Why, and where it stands.
    pub because: String,
}

impl Rule {
    /// Whether it is about this call.
    pub fn fits(&self, tool: &dyn Tool, args: &Map<String, Value>) -> bool {
        let matches = |pattern: &WildMatch, value: &Value| pattern.matches(&text_of(value));
        let arg = |(name, pattern): &(String, WildMatch)| {
            args.get(name).is_some_and(|value| matches(pattern, value))
        };
        let goes_there = |pattern: &WildMatch| {
            let host = tool.host(args);
            host.is_some_and(|host| pattern.matches(&host.to_lowercase()))
        };
        let is_there = |pattern: &WildMatch| {
            let mut paths = args
                .iter()
                .filter(|(name, _)| PATHS.contains(&name.as_str()));
            paths.any(|(_, value)| matches(pattern, value))
        };
        self.tool.matches(&tool.spec().name.to_lowercase())
            && self.args.iter().all(arg)
            && self.host.as_ref().is_none_or(goes_there)
            && self.path.as_ref().is_none_or(is_there)
    }
}

/// What a `[policy]` says.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// The rules in order.
    pub rules: Vec<Rule>,
    /// How sure a model that says so has to be, from 0 to 1.
    pub min_confidence: Option<f64>,
}

/// Reads a `[policy]`; `file` is where it stands.
pub(crate) fn read(item: &Item<'_>, file: &str) -> Read<Rules> {
    let table = sub_table(item, "policy")?;
    known_keys(table, &["rules", "min_confidence"], "key")?;
    let min_confidence = match table.get("min_confidence") {
        None => None,
        Some(item) => match value(item)?.as_f64().filter(|n| (0.0..=1.0).contains(n)) {
            None => return mistake(item, "`min_confidence` is a number from 0 to 1"),
            number => number,
        },
    };
    let rules = match table.get("rules").map(|item| (item.get_ref(), item)) {
        None => Vec::new(),
        Some((DeValue::Array(items), _)) => {
            let rules = items.iter().enumerate();
            let rules = rules.map(|(at, item)| rule(item, &format!("rule {} of {file}", at + 1)));
            rules.collect::<Read<_>>()?
        }
        Some((_, item)) => return mistake(item, "`rules` must be a list: write [[policy.rules]]"),
    };
    Ok(Rules {
        rules,
        min_confidence,
    })
}

fn rule(item: &Item<'_>, place: &str) -> Read<Rule> {
    let table = sub_table(item, "rules")?;
    const KEYS: &[&str] = &["tool", "args", "host", "path", "then", "because"];
    known_keys(table, KEYS, "key")?;
    let pattern = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(item) => text(item, key).map(|text| Some(WildMatch::new(text))),
    };
    let lower = |key: &str| match table.get(key) {
        None => Ok(None),
        Some(item) => text(item, key).map(|text| Some(WildMatch::new(&text.to_lowercase()))),
    };
    let mut args = Vec::new();
    if let Some(item) = table.get("args") {
        for (name, item) in sub_table(item, "args")?.iter() {
            let name = name.get_ref().to_string();
            args.push((name, WildMatch::new(text(item, "args")?)));
        }
    }
    let because = match table.get("because") {
        None => place.to_owned(),
        Some(item) => format!("{} ({place})", text(item, "because")?),
    };
    let Some(then) = table.get("then") else {
        return mistake(
            item,
            "a rule needs a `then`: \"allow\", \"ask\" or \"deny\"",
        );
    };
    Ok(Rule {
        tool: lower("tool")?.unwrap_or_else(|| WildMatch::new("*")),
        args,
        host: lower("host")?,
        path: pattern("path")?,
        then: approval(then, "then")?,
        because,
    })
}

/// One of the three words.
pub(crate) fn approval(item: &Item<'_>, key: &str) -> Read<Approval> {
    match text(item, key)? {
        "allow" => Ok(Approval::Allow),
        "ask" => Ok(Approval::Ask),
        "deny" => Ok(Approval::Deny),
        _ => mistake(item, format!("`{key}` is \"allow\", \"ask\" or \"deny\"")),
    }
}
