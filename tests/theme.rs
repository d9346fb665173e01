//! The styles of what is shown: themes, roles, and what is wrong with a setting; and how long texts are folded.

use serde_json::json;

use crate::server::Server;
use crate::terminal::{OUTPUT, STDOUT, Screen, Terminal};
use crate::test::Test;
use crate::web::{article, tools};

/// A run with one action and these settings.
fn shown(settings: &str) -> Screen {
    let server = Server::replies([
        "Thought1: I add.\nAction1: add_numbers(10, 3)",
        "Thought2: Good.\nAnswer: **thirteen**",
    ]);
    let test = Test::with(&server).file("../home/.config/reagent/config.toml", settings);
    Terminal::start(&test.arg("10 + 3?"), OUTPUT).finish()
}

const LABELS: [&str; 5] = [
    "Query: ",
    "Thought1: ",
    "Action1: ",
    "Observation1: ",
    "Answer: ",
];

#[test]
fn each_theme_has_a_style_of_its_own_for_each_role_and_the_labels_stay() {
    for name in ["dark", "light", "plain"] {
        let screen = shown(&format!("[theme]\nname = \"{name}\"\n"));
        assert_eq!(screen.code, 0, "{}", screen.plain);
        let mut styles = LABELS.map(|label| screen.style(label).to_vec()).to_vec();
        let colors = |style: &Vec<u16>| style.iter().any(|code| *code >= 30);
        assert_eq!(styles.iter().any(colors), name != "plain", "{styles:?}");
        if name != "plain" {
            styles.sort();
            styles.dedup();
            assert_eq!(styles.len(), LABELS.len(), "{name}: {styles:?}");
        }
    }
}

#[test]
fn a_role_can_be_styled_alone() {
    let screen = shown(
        "[theme]\nthought = \"bright blue bold\"\nobservation = \"208\"\naction = \"none\"\n",
    );
    assert_eq!(screen.style("Thought1: "), [94, 1]);
    assert_eq!(screen.style("Observation1: "), [38, 5, 208]);
    assert_eq!(screen.style("Action1: "), [0; 0]);
    assert_eq!(screen.style("Query: "), [95], "the others are as they were");
}

#[test]
fn no_color_is_stronger_than_a_theme() {
    let server = Server::replies(["Answer: **ok**"]);
    let test = Test::with(&server)
        .file(
            "../home/.config/reagent/config.toml",
            "[theme]\nname = \"light\"\n",
        )
        .args(["--color", "never", "q"]);
    let screen = Terminal::start(&test, OUTPUT).finish();
    assert!(!screen.is_styled(), "{:?}", screen.raw);
}

#[test]
fn a_mistake_in_a_theme_has_its_place_and_a_suggestion() {
    for (settings, wanted) in [
        (
            "[theme]\nname = \"drak\"",
            "config.toml:2:8: there is no theme `drak`, only dark, light, plain; did you mean `dark`?",
        ),
        (
            "[theme]\nanser = \"red\"",
            "config.toml:2:1: unknown role `anser`; did you mean `answer`?",
        ),
        (
            "[theme]\nanswer = \"redd\"",
            "config.toml:2:10: `answer`: `redd` is no colour and no way to write; did you mean `red`?",
        ),
        (
            "[theme]\nanswer = 3",
            "config.toml:2:10: `answer` must be a text in quotes",
        ),
        (
            "theme = \"light\"",
            "config.toml:1:9: `theme` must be a table",
        ),
    ] {
        let test = Test::demo().file("../home/.config/reagent/config.toml", settings);
        test.arg("q").run().code(2).error(wanted);
    }
}

#[test]
fn what_is_set_is_shown_and_can_be_the_next_settings() {
    let settings = "[theme]\nname = \"light\"\nquery = \"red\"\n";
    let test = Test::demo().file("../home/.config/reagent/config.toml", settings);
    let run = test.args(["config", "show"]).run().success();
    for line in ["theme.name = \"light\"", "theme.query = \"red\""] {
        run.check(run.stdout.contains(line), line);
    }
    let test = Test::demo().file("../home/.config/reagent/config.toml", &run.stdout);
    test.args(["config", "show"])
        .run()
        .success()
        .out_has("theme.query = \"red\"");
}

/// A run whose observation has this text.
fn observing(text: &str) -> (Server, Server, Test) {
    let web = Server::web().route("/w/api.php", article("Long", &json!({ "extract": text })));
    let server = Server::replies(["Action1: wikipedia_summary(\"Long\")", "Answer: ok"]);
    let test = Test::with(&server).tools(&tools(&web)).arg("q");
    (web, server, test)
}

#[test]
fn a_long_observation_is_folded_on_a_terminal_and_nowhere_else() {
    let lines: Vec<String> = (1..=100)
        .map(|line| format!("This is line {line}."))
        .collect();
    let text = lines.join("\n");
    let (_web, _server, test) = observing(&text);
    let screen = Terminal::start(&test, OUTPUT).finish();
    assert!(
        screen.plain.contains("This is line 20."),
        "{}",
        screen.plain
    );
    assert!(
        !screen.plain.contains("This is line 21."),
        "{}",
        screen.plain
    );
    assert!(
        screen.plain.contains("\n  … 80 more lines, "),
        "{}",
        screen.plain
    );
    assert!(
        screen.plain.contains(" bytes in all\nAnswer: ok"),
        "{}",
        screen.plain
    );

    let (_web, _server, test) = observing(&text);
    let screen = Terminal::start(&test, STDOUT).finish();
    assert!(
        screen.pipes[0].contains("This is line 100."),
        "{}",
        screen.pipes[0]
    );
    let (_web, _server, test) = observing(&text);
    let run = test.args(["--json"]).run().success();
    let events = run.events();
    let seen = events.of("observation")[0]["text"]
        .as_str()
        .unwrap()
        .to_owned();
    run.check(seen.contains("This is line 100."), "the record has all");
}

#[test]
fn one_long_line_is_folded_as_well() {
    let (_web, _server, test) = observing(&"é".repeat(2400));
    let screen = Terminal::start(&test, OUTPUT).finish();
    assert!(screen.plain.contains("\n  … "), "{}", screen.plain);
    assert!(screen.plain.contains(" bytes in all\n"), "{}", screen.plain);
    assert!(
        screen.plain.matches('é').count() <= 1000,
        "{}",
        screen.plain
    );
}
