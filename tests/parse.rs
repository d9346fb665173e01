//! `reagent parse`: what a model's reply comes to.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::test::{Run, Test};

const TOOLS: &str = r#"
[[tool]]
name = "search"
function = "debug.echo"
description = "Echoes its arguments."
params.query = { type = "string" }

[[tool]]
name = "add"
function = "debug.echo"
description = "Echoes its arguments."
params.a = { type = "number" }
params.b = { type = "number" }

[[tool]]
name = "weather"
function = "debug.echo"
description = "Echoes its arguments."
params.city = { type = "string" }
params.unit = { type = "string", default = "celsius" }

[[tool]]
name = "get_time"
function = "debug.echo"
description = "Echoes its arguments."

[[tool]]
name = "查天气"
function = "debug.echo"
description = "Echoes its arguments."
params."城市" = { type = "string" }
"#;

fn parse(reply: &str, flags: &[&str]) -> (Value, Run) {
    let test = Test::new()
        .arg("parse")
        .tools(TOOLS)
        .args(flags)
        .stdin(reply);
    let run = test.run().success();
    (object(&run), run)
}

/// The one line that it prints.
fn object(run: &Run) -> Value {
    let said: Value = serde_json::from_str(&run.stdout).unwrap_or(Value::Null);
    run.check(said["kind"].is_string(), "stdout is one object with a kind");
    said
}

#[track_caller]
fn assert_action(reply: &str, tool: &str, args: &Value) {
    let (said, _) = parse(reply, &[]);
    assert_eq!(said["kind"], "action", "{reply:?} gives {said}");
    assert_eq!(said["tool"], tool, "{reply:?} gives {said}");
    assert_eq!(
        same_numbers(&said["args"]),
        same_numbers(args),
        "{reply:?} gives {said}"
    );
}

/// Numbers by value: 2 and 2.0 are the same.
fn same_numbers(value: &Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64()),
        Value::Array(items) => items.iter().map(same_numbers).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| (key.clone(), same_numbers(value)))
            .collect(),
        other => other.clone(),
    }
}

#[test]
fn an_action_is_bound_to_its_parameter_names() {
    let rows = [
        ("Action: add(1, 2)", "add", json!({"a": 1, "b": 2})),
        (
            "Action1: add(b=2, a=-1.5)",
            "add",
            json!({"a": -1.5, "b": 2}),
        ),
        (
            "Action: search | \"a | b\"",
            "search",
            json!({"query": "a | b"}),
        ),
        (
            "Action: search | a, b (c)",
            "search",
            json!({"query": "a, b (c)"}),
        ),
        (
            "Action: search\nAction Input: \"tides\"",
            "search",
            json!({"query": "tides"}),
        ),
        (
            "Action: {\"tool\": \"add\", \"args\": [1, 2]}",
            "add",
            json!({"a": 1, "b": 2}),
        ),
        (
            "Action: {\"action\": \"search\", \"action_input\": \"x\"}",
            "search",
            json!({"query": "x"}),
        ),
        ("Action: get_time()", "get_time", json!({})),
        (
            "Action: weather(\"Turku\")",
            "weather",
            json!({"city": "Turku"}),
        ),
        (
            "Action: 查天气(\"北京\")",
            "查天气",
            json!({"城市": "北京"}),
        ),
        (
            "## Action 2: `search(\"x\")`",
            "search",
            json!({"query": "x"}),
        ),
        (
            "```\nAction: search(\"x\")\n```",
            "search",
            json!({"query": "x"}),
        ),
        ("Action: Search(\"x\")", "search", json!({"query": "x"})),
        (
            "Action: search(\"it's \\\"so\\\"\")",
            "search",
            json!({"query": "it's \"so\""}),
        ),
        (
            "Action: search(\"https://a.b/c?d=e:f#g\")",
            "search",
            json!({"query": "https://a.b/c?d=e:f#g"}),
        ),
        (
            "Action: search(\"x\")\nObservation: y\nAnswer: z",
            "search",
            json!({"query": "x"}),
        ),
        (
            "<tool_call>{\"name\": \"search\", \"arguments\": {\"query\": \"x\"}}</tool_call>",
            "search",
            json!({"query": "x"}),
        ),
    ];
    for (reply, tool, args) in rows {
        assert_action(reply, tool, &args);
    }
}

#[test]
fn an_answer_is_its_text() {
    let rows = [
        ("Answer: Paris", "Paris"),
        ("Final Answer: Paris", "Paris"),
        ("**Final Answer:** Paris", "Paris"),
        ("answer： Paris", "Paris"),
        (
            "Thought: x\nAnswer:\nline one\nline two",
            "line one\nline two",
        ),
        (
            "Answer: see\nAction: search(\"x\")",
            "see\nAction: search(\"x\")",
        ),
        ("<think>Answer: no</think>Answer: yes", "yes"),
        ("Answer: yes\nPAUSE", "yes"),
    ];
    for (reply, text) in rows {
        let (said, _) = parse(reply, &[]);
        assert_eq!(
            (&said["kind"], &said["text"]),
            (&json!("answer"), &json!(text)),
            "{reply:?}"
        );
        assert!(said.get("truncated").is_none(), "{said}");
    }
}

#[test]
fn what_is_neither_is_malformed_and_says_why() {
    let replies = [
        "",
        " \n",
        "Just prose.",
        "Thought: only",
        "Action:",
        "Action: nope(1)",
        "Action: add(1",
        "Action: add(1, two)",
        "Action: add(1, 2)[0]",
        "Action: add(1)",
        "Action: add(a=1, a=2)",
        "Action: search(f\"x\")",
        "Action: search(__import__(\"os\"))",
        "Action: {\"tool\": \"add\", \"args\": [1, 2}",
        "Answer:",
        "Observation: 13",
        "<think>Action: search(\"x\")",
        "Thought: say Action: search(\"x\")",
    ];
    for reply in replies {
        let (said, run) = parse(reply, &[]);
        run.check(
            said["kind"] == "malformed",
            &format!("{reply:?} is malformed"),
        );
        run.check(
            said["why"].as_str().is_some_and(|why| !why.is_empty()),
            "it says why",
        );
    }
}

#[test]
fn a_thought_is_given_where_there_is_one() {
    let (said, _) = parse("Thought1: I look it up.\nAction1: search(\"x\")", &[]);
    assert_eq!(said["thought"], "I look it up.");
    let (said, _) = parse("Answer: x", &[]);
    assert!(said.get("thought").is_none(), "{said}");
}

#[test]
fn the_finish_reason_length_cuts() {
    let cut = ["--finish-reason", "length"];
    let (said, _) = parse("Answer: The begin", &cut);
    assert_eq!(
        (&said["kind"], &said["truncated"]),
        (&json!("answer"), &json!(true))
    );
    let (said, _) = parse("Action: search | The begin", &cut);
    assert_eq!(said["kind"], "malformed");
    let (said, _) = parse("Action: search(\"whole\")\nAnd so", &cut);
    assert_eq!(said["kind"], "action", "a closed call may run");
}

#[test]
fn a_long_or_deep_reply_is_read_in_time() {
    let replies = [
        format!("Action: search(\"{}\")", "x".repeat(1_000_000)),
        format!("Action: add({}", "[".repeat(100_000)),
        format!("Action: {}", "{\"a\":".repeat(100_000)),
        "Thought: Action\n".repeat(50_000),
        "<think>".repeat(50_000),
        format!("Action: search({}", "\\\"".repeat(200_000)),
    ];
    for reply in replies {
        let (_, run) = parse(&reply, &[]);
        run.within(std::time::Duration::from_secs(5));
    }
}

#[test]
fn bytes_that_are_no_text_are_no_panic() {
    let test = Test::new().arg("parse").tools(TOOLS);
    let test = test.stdin(b"Action: search(\"\xff\xfe\")\n\x00".to_vec());
    object(&test.run().success());
}

/// Pieces of which hostile replies are made.
fn reply() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("Action1: ".to_owned()),
        Just("\nAnswer: ".to_owned()),
        Just("search(".to_owned()),
        Just("\"".to_owned()),
        Just("\\".to_owned()),
        Just("{\"tool\": ".to_owned()),
        Just(")]}".to_owned()),
        Just("\n```\n".to_owned()),
        Just("<think>".to_owned()),
        Just("</think>".to_owned()),
        Just("\nObservation: ".to_owned()),
        Just("\nPAUSE\n".to_owned()),
        any::<String>(),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_reply_comes_to_one_of_three_things(reply in reply()) {
        let (said, _) = parse(&reply, &[]);
        let kind = said["kind"].as_str().unwrap();
        prop_assert!(["action", "answer", "malformed"].contains(&kind));
        prop_assert!(kind != "answer" || !said["text"].as_str().unwrap().trim().is_empty());
    }

    #[test]
    fn any_text_survives_the_way_through_a_call(text in any::<String>()) {
        let (said, _) = parse(&format!("Action: search({})", json!(text)), &[]);
        prop_assert_eq!(&said["args"]["query"], &json!(text));
    }
}
