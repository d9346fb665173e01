//! Shapes that the recorded ones lack, and what comes with the outcome.

use reagent::engine::parse::{LIMIT, Next, parse};
use reagent::llm::Finish;
use reagent::tool::call::Args;
use reagent::tool::params::{Param, Type, bind};
use serde_json::{Value, json};

use super::{outcome, tools, with_default};

fn comes_to(reply: &str) -> Value {
    let mut got = outcome(&parse(reply, Finish::Stop), &tools());
    if let Value::Object(members) = &mut got {
        members.remove("why");
        members.remove("truncated");
    }
    got
}

fn answer(text: &str) -> Value {
    json!({"kind": "answer", "text": text})
}

fn action(tool: &str, args: Value) -> Value {
    json!({"kind": "action", "tool": tool, "args": args})
}

fn malformed() -> Value {
    json!({"kind": "malformed"})
}

#[test]
fn shapes_beyond_the_recorded_ones() {
    let oslo = || action("weather", json!({"city": "Oslo"}));
    let tide = || action("search", json!({"query": "tide"}));
    let rows = [
        // thinking aloud
        (
            "Thought: I need to find out what the capital of Japan is. \nAction: I will recall my knowledge about countries \
             and their capitals. \nObservation: The capital of Japan is Tokyo. \n\nThought: I have the answer now.\nAnswer: The \
             capital of Japan is Tokyo.",
            answer("The capital of Japan is Tokyo."),
        ),
        (
            "Action: I'll think about it.\nPAUSE\nAnswer: 5",
            answer("5"),
        ),
        (
            "Action: None\nAction Input: None\nFinal Answer: done",
            answer("done"),
        ),
        ("Action: N/A\nAnswer: done", answer("done")),
        ("Action:\nAnswer: 5", answer("5")),
        (
            "Action: I will think.\nObservation: hm\nAction: search(\"tide\")\nAnswer: low",
            malformed(),
        ),
        ("Action: I will think.", malformed()),
        ("Action1: weather(Oslo)\nAnswer: sunny", malformed()),
        ("Action1: weather \"Oslo\")\nAnswer: sunny", malformed()),
        (
            "Action: Look it up\nAction Input: lighthouse\nAnswer: 30 m",
            malformed(),
        ),
        ("Observation: 5\nAnswer: 5", malformed()),
        ("Thought: hm\nObservation: 5\nAnswer: 5", malformed()),
        // names
        ("Action: `search`\nAction Input: tide", tide()),
        ("Action: **search**\nAction Input: tide", tide()),
        ("Action: \"search\"\nAction Input: tide", tide()),
        ("Action: [search]\nAction Input: tide", tide()),
        ("Action: search()\nAction Input: tide", tide()),
        ("Action: search\n\nInput: tide", tide()),
        ("Action:\nsearch(\"tide\")", tide()),
        ("Action:\n\n  search | tide", tide()),
        (
            "Action: Final Answer\nAction Input: 42 boats\nObservation: x",
            answer("42 boats"),
        ),
        (
            "Action: {\"action\": \"Final Answer\", \"action_input\": \"42\"}",
            answer("42"),
        ),
        // inputs
        ("Action: search\nAction Input:\ntide", tide()),
        ("Action: search\nAction Input: tide\n\nI will wait.", tide()),
        (
            "Action: run_sql\nAction Input: DELETE FROM log\nWHERE day < 5",
            malformed(),
        ),
        ("Action: search | tide\nI will wait.", tide()),
        (
            "Action: search | \"a\" OR \"b\"",
            action("search", json!({"query": "\"a\" OR \"b\""})),
        ),
        ("Action: search | \"say \"hi\" now\"", malformed()),
        (
            "Action: search | \"tide\nObservation: \"x\" is",
            malformed(),
        ),
        (
            "Action: write_file | \"a.txt\", \"x\"",
            action("write_file", json!({"path": "a.txt", "content": "x"})),
        ),
        ("Action: add | 2, 3", action("add", json!({"a": 2, "b": 3}))),
        (
            "Action: add\nAction Input: 2, 3",
            action("add", json!({"a": 2, "b": 3})),
        ),
        ("Action: add\nAction Input: 2 and 3", malformed()),
        (
            "Action: fetch_url\nAction Input: ```\nhttps://a.example/\n```",
            action("fetch_url", json!({"url": "https://a.example/"})),
        ),
        ("Action: **Action Input: x", malformed()),
        ("**Action: search**\n**Action Input: tide**", tide()),
        // calls
        ("Action1: weather(city: \"Oslo\")", oslo()),
        ("Action: weather（city＝\"Oslo\"）", oslo()),
        (
            "Action1: add(\"10\", 3.0)",
            action("add", json!({"a": 10, "b": 3.0})),
        ),
        (
            "Action1: fetch_url(\"u\", 3.0)",
            action("fetch_url", json!({"url": "u", "max_chars": 3})),
        ),
        ("Action1: fetch_url(\"u\", 3.5)", malformed()),
        (
            "Action1: add(1, __import__(\"os\").system(\"x\"))",
            malformed(),
        ),
        ("Action1: search(\"x\" + \"y\")", malformed()),
        ("Action1: search(f\"x\")", malformed()),
        ("Action1: add(1, 2) + 3", malformed()),
        ("Action1: add(1, 2) - 3", malformed()),
        ("Action1: weather(\"Oslo\") - the city only", oslo()),
        ("Action1: weather(\"Oslo\") // the city", oslo()),
        ("**Action1: weather(\"Oslo\")**", oslo()),
        (
            "Action1: search(\"a\nObservation: b\nAnswer: c\")",
            action("search", json!({"query": "a\nObservation: b\nAnswer: c"})),
        ),
        // native calls
        (
            "I will look.\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n</tool_call>",
            oslo(),
        ),
        (
            "Action: <tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}</tool_call>",
            oslo(),
        ),
        (
            "<think>x</think>\n{\"name\": \"weather\", \"arguments\": \"{\\\"city\\\": \\\"Oslo\\\"}\"}",
            oslo(),
        ),
        (
            "```json\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}\n```",
            oslo(),
        ),
        (
            "{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}} is what I would call",
            malformed(),
        ),
        (
            "{\"name\": \"Vigo\", \"berths\": 3}",
            json!({"kind": "prose", "text": "{\"name\": \"Vigo\", \"berths\": 3}"}),
        ),
        // fences
        ("So:\n```\nAction1: weather(\"Oslo\")", oslo()),
        (
            "```\nAnswer: 5\n```\nis how I would answer",
            json!({"kind": "prose", "text": "```\nAnswer: 5\n```\nis how I would answer"}),
        ),
        // answers
        ("Answer: 5\n\nThought: done\nAnswer: 6", answer("5")),
        (
            "Answer: A quiz.\nQuestion: What is 2+2?\nA: 4",
            answer("A quiz.\nQuestion: What is 2+2?\nA: 4"),
        ),
        ("Answer: 5\n\nQuestion: next?\nThought: hm", answer("5")),
        ("Answer: **bold** words", answer("**bold** words")),
        (
            "Answer: the sign says <|im_end|> here",
            answer("the sign says <|im_end|> here"),
        ),
        ("Answer: 5</s>", answer("5")),
        ("1. Answer: 5", answer("5")),
        // reasoning
        (
            "a\nAction1: add(1, 2)\n</think>\nWell.\nAnswer: 3",
            answer("3"),
        ),
        ("Action1: add(1, 2)\nso: </think>\n\nAnswer: 3", answer("3")),
        (
            "hm, hm\n</think>\nIt is Oslo.",
            json!({"kind": "prose", "text": "It is Oslo."}),
        ),
        (
            "<|channel|>commentary to=functions.add<|message|>{\"a\": 1}<|call|>",
            malformed(),
        ),
    ];
    for (reply, want) in rows {
        assert_eq!(comes_to(reply), want, "{reply}");
    }
}

#[test]
fn the_token_limit_never_lets_half_an_action_run() {
    for (reply, runs) in [
        ("Action: search\nAction Input: tide", false),
        ("Action: search | tide", false),
        ("Action: get_time", false),
        ("Action: search | \"tide\"", true),
        ("Action: search(\"tide\")", true),
        ("Action: search\nAction Input: {\"query\": \"tide\"}", true),
    ] {
        assert_eq!(
            matches!(parse(reply, Finish::Length).next, Next::Action(_)),
            runs,
            "{reply}"
        );
    }
    let parsed = parse("Answer: 5\nObservation: cut he", Finish::Length);
    assert_eq!(
        parsed.next,
        Next::Answer {
            text: "5".into(),
            truncated: false
        }
    );
}

#[test]
fn what_is_kept_ends_with_the_action_and_has_no_reasoning() {
    let parsed = parse(
        "<think>x</think>Sure.\nThought: look\nAction: search\nAction Input: tide\nObservation: low",
        Finish::Stop,
    );
    assert_eq!(parsed.thought.as_deref(), Some("Sure.\nlook"));
    assert_eq!(
        parsed.kept,
        "Sure.\nThought: look\nAction: search\nAction Input: tide"
    );
    let parsed = parse(
        "Action: think\nhard.\nObservation: made up\nAnswer: 5\nPAUSE\nx",
        Finish::Stop,
    );
    assert_eq!(parsed.kept, "Action: think");
    let parsed = parse(
        "Action: I think.\nObservation: made up\nThought: so\nAnswer: 5\nPAUSE\nx",
        Finish::Stop,
    );
    assert_eq!(parsed.kept, "Action: I think.\nThought: so\nAnswer: 5");
    let parsed = parse("Action: search(tide\nObservation: made up", Finish::Stop);
    assert_eq!(parsed.kept, "Action: search(tide");
}

#[test]
fn a_refused_binding_says_what_is_wanted() {
    let weather = [
        Param::new("city", Type::String),
        with_default("unit", Type::String, json!("celsius")),
    ];
    let refused = |args: Args| bind("weather", &weather, &args).expect_err("refused");
    let signature = "weather(city: string, unit: string = \"celsius\")";
    assert_eq!(
        refused(Args::none()),
        format!("`weather` needs `city` (string): {signature}")
    );
    assert_eq!(
        refused(Args::positional(vec![json!(["Oslo"])])),
        format!("`weather` wants string for `city`, not array: {signature}")
    );
    let Value::Object(members) = json!({"city": "Oslo", "days": 3}) else {
        unreachable!()
    };
    assert_eq!(
        refused(Args::named(members)),
        format!("`weather` has no parameter `days`: {signature}")
    );
    let unit = Param {
        choices: vec![json!("c"), json!("f")],
        ..Param::new("unit", Type::String)
    };
    let why = bind("t", &[unit], &Args::Text("k".into())).expect_err("refused");
    assert_eq!(
        why,
        "`t` wants \"c\" | \"f\" for `unit`, not \"k\": t(unit: \"c\" | \"f\")"
    );
}

#[test]
fn too_long_a_reply_is_malformed() {
    assert!(matches!(
        parse(&"a".repeat(LIMIT + 1), Finish::Stop).next,
        Next::Malformed(_)
    ));
}
