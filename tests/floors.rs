//! The house keeps its floors: a file imports only from lower ones, and a few things stand in one place only.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules by floor, the lowest first. The longest name that fits a file or an import decides.
const FLOORS: &[&[&str]] = &[
    &[
        "session::event",
        "secret",
        "cancel",
        "error",
        "json",
        "duration",
        "interrupt",
        "transport",
        "route",
        "near",
        "tables",
        "ui::text",
    ],
    &["session"],
    &["llm", "tool", "ui", "session::store", "session::audit"],
    &["engine"],
    &["agent"],
    &[
        "repl", "config", "cli", "commands", "resume", "lines", "tape", "input", "report", "lib",
        "main",
    ],
];

/// Lower, but not for this one: the engine must not know how it is shown.
const NEVER: &[(&str, &str)] = &[("engine", "ui"), ("agent", "ui")];

struct Source {
    /// As in `llm::openai`.
    module: String,
    path: PathBuf,
    /// Without comments and white space at line starts.
    text: String,
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root.clone()];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let name = path.strip_prefix(&root).unwrap().with_extension("");
                let name = name.to_string_lossy().replace('/', "::");
                let module = name.strip_suffix("::mod").unwrap_or(&name).to_owned();
                let text = without_comments(&fs::read_to_string(&path).unwrap());
                // `super` reaches the crate's root from here, by so many steps.
                let up = "super::".repeat(module.matches("::").count() + 1);
                let text = text.replace(&up, "crate::");
                sources.push(Source { module, path, text });
            }
        }
    }
    assert!(sources.len() > 5, "the sources are found");
    sources
}

fn without_comments(text: &str) -> String {
    let lines = text.lines().map(str::trim_start);
    let code = lines.filter(|line| !line.starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

/// The floor of a module and the name in the table that gave it.
fn floor(module: &str) -> Option<(usize, &'static str)> {
    let inside = |name: &str| module == name || module.starts_with(&format!("{name}::"));
    let rows = FLOORS.iter().enumerate();
    let found = rows.flat_map(|(floor, names)| names.iter().map(move |name| (floor, *name)));
    found
        .filter(|(_, name)| inside(name))
        .max_by_key(|(_, name)| name.len())
}

/// What a text imports from the crate, by `use` or in place: `session::event::Event`, `llm`.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("crate::") {
        // `$crate::` and `my_crate::` are something else.
        if text[..start].ends_with(|c: char| c == '$' || c == '_' || c.is_alphanumeric()) {
            continue;
        }
        expand("", &text[start + "crate::".len()..], &mut found);
    }
    found
}

/// Reads one path, `a::b` or `a::{b, c::{d, e}}`, and gives what stands behind it.
fn expand<'a>(prefix: &str, text: &'a str, found: &mut Vec<String>) -> &'a str {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':' || c == '*'));
    let (path, mut rest) = text.split_at(end.unwrap_or(text.len()));
    let whole = format!("{prefix}{path}");
    let group = path.is_empty() || path.ends_with("::");
    if !(group && rest.starts_with('{')) {
        found.push(whole);
        return rest;
    }
    rest = &rest[1..];
    loop {
        rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix('}') {
            return behind;
        }
        if rest.is_empty() {
            return rest;
        }
        rest = expand(&whole, rest, found).trim_start();
        // ` as name` and the comma.
        let next = rest.find([',', '}']).unwrap_or(rest.len());
        rest = rest[next..].strip_prefix(',').unwrap_or(&rest[next..]);
    }
}

#[test]
fn the_reader_of_imports_sees_every_form() {
    let text = "use crate::{agent::Agent, llm::{self, http::{Client, Wait as W}},\n tool};\nlet x = crate::ui::text::clean(y);";
    let wanted = [
        "agent::Agent",
        "llm::self",
        "llm::http::Client",
        "llm::http::Wait",
        "tool",
        "ui::text::clean",
    ];
    assert_eq!(imports(text), wanted);
    assert_eq!(imports("$crate::a; my_crate::b"), [""; 0]);
    assert_eq!(floor("session::event").unwrap().0, 0);
    assert_eq!(floor("session::store").unwrap().0, 2);
    assert_eq!(floor("session::Span").unwrap().0, 1);
}

#[test]
fn every_file_has_a_floor() {
    for source in sources() {
        assert!(
            floor(&source.module).is_some(),
            "{} has no floor; give it one in FLOORS",
            source.module
        );
    }
}

#[test]
fn a_file_imports_only_from_lower_floors() {
    let mut faults = Vec::new();
    let ends = [0, FLOORS.len() - 1];
    for source in sources() {
        let Some((own_floor, own)) = floor(&source.module) else {
            continue;
        };
        for import in imports(&source.text) {
            // A macro or an item of lib.rs has no floor of its own.
            let Some((floor, name)) = floor(&import) else {
                continue;
            };
            let never = NEVER.contains(&(own, name));
            let peers = own == name || (floor == own_floor && ends.contains(&floor));
            if never || (floor >= own_floor && !peers) {
                faults.push(format!("{} imports crate::{import}", source.path.display()));
            }
        }
    }
    assert!(faults.is_empty(), "upward imports:\n{}", faults.join("\n"));
}

/// Fails if one of these words stands in a file for which `allowed` is false.
#[track_caller]
fn only_in(words: &[&str], allowed: impl Fn(&str) -> bool) {
    let mut faults = Vec::new();
    for source in sources() {
        if allowed(&source.module) {
            continue;
        }
        for word in words.iter().filter(|word| stands(&source.text, word)) {
            faults.push(format!("{} has `{word}`", source.path.display()));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Whether the word stands in the text, not as the end of another.
fn stands(text: &str, word: &str) -> bool {
    let mut places = text.match_indices(word);
    places.any(|(at, _)| !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

#[test]
fn nothing_prints_but_a_sink() {
    only_in(
        &["println!", "eprintln!", "print!", "eprint!", "dbg!"],
        |_| false,
    );
}

#[test]
fn only_config_reads_the_environment() {
    // Proxies and certificates are the environment's, as for every program.
    let config = ["config", "config::keys", "config::places", "route"];
    only_in(
        &["env::var", "env::vars", "env::home_dir", "env::temp_dir"],
        |module| config.contains(&module),
    );
    // The arguments are not the environment; `main` hands them on.
    only_in(&["std::env"], |module| {
        config.contains(&module) || module == "main"
    });
}

#[test]
fn only_the_clients_know_ureq() {
    only_in(&["ureq::", "use ureq"], |module| {
        ["llm", "tool", "transport", "route"]
            .iter()
            .any(|name| module.starts_with(name))
    });
}

#[test]
fn only_the_screen_knows_colors() {
    only_in(
        &["owo_colors", "crossterm", "\\x1b", "\\u{1b}["],
        |module| module.starts_with("ui") || module.starts_with("repl"),
    );
}

#[test]
fn no_wait_and_no_limit_goes_by_a_clock_that_can_be_set() {
    let clocks = [
        "SystemTime",
        "Timestamp::now",
        "Zoned::now",
        "ZonedDateTime::now",
    ];
    let waits = [
        "interrupt",
        "transport",
        "route",
        "llm",
        "tool",
        "engine",
        "agent",
    ];
    only_in(&clocks, |module| {
        // A header that has a time of day is compared with that; a tool tells it.
        ["llm::http", "tool::time"].contains(&module)
            || !waits.iter().any(|name| module.starts_with(name))
    });
}

#[test]
fn no_file_is_longer_than_500_lines() {
    for source in sources() {
        let lines = fs::read_to_string(&source.path).unwrap().lines().count();
        assert!(lines <= 500, "{} has {lines} lines", source.path.display());
    }
}
