//! The parser and the binding against recorded shapes of replies, against time, and against anything at all.

mod live;
mod properties;
mod shapes;
mod time;

use reagent::engine::parse::{Next, Parsed, parse};
use reagent::llm::Finish;
use reagent::tool::params::{Param, Type};
use reagent::tool::{Toolchain, manifest};
use serde_json::{Value, json};

pub(crate) fn with_default(name: &str, kind: Type, default: Value) -> Param {
    Param {
        default: Some(default),
        ..Param::new(name, kind)
    }
}

/// The tools that the replies assume.
pub(crate) fn tools() -> Toolchain {
    let text = include_str!("../data/replies-tools.toml");
    Toolchain::new(manifest::load(text, "replies-tools.toml").unwrap().tools).unwrap()
}

/// What a reply comes to once its tool is looked up, as in the engine.
pub(crate) fn outcome(parsed: &Parsed, tools: &Toolchain) -> Value {
    match &parsed.next {
        Next::Answer { text, truncated } => {
            json!({"kind": "answer", "text": text, "truncated": truncated})
        }
        Next::Prose(text) => json!({"kind": "prose", "text": text}),
        Next::Malformed(why) => json!({"kind": "malformed", "why": why}),
        Next::Action(proposal) => match tools.bind(proposal) {
            Ok(call) => json!({"kind": "action", "tool": call.tool, "args": call.args}),
            Err(rejection) => json!({"kind": "malformed", "why": rejection.0}),
        },
    }
}

fn matches(got: &Value, want: &Value, tools: &Toolchain) -> bool {
    match (got["kind"].as_str(), want["kind"].as_str()) {
        (Some("malformed" | "prose"), Some("malformed")) => true,
        (Some("prose"), Some("answer")) => got["text"] == want["text"],
        (Some("answer"), Some("answer")) => {
            want.get("text").is_none_or(|text| got["text"] == *text)
                && got["truncated"] == want.get("truncated").cloned().unwrap_or(json!(false))
        }
        (Some("action"), Some("action")) => {
            want.get("tool").is_none_or(|tool| got["tool"] == *tool)
                && want
                    .get("args")
                    .is_none_or(|_| same(&got["args"], &named(want, tools)))
        }
        _ => false,
    }
}

/// The arguments that a case wants, by name.
fn named(want: &Value, tools: &Toolchain) -> Value {
    let tool = want["tool"].as_str().and_then(|name| tools.find(name));
    let params = tool.map_or(&[][..], |tool| &tool.spec().params);
    let mut args = want["args"].as_object().cloned().unwrap_or_default();
    for (at, value) in want["args"].as_array().into_iter().flatten().enumerate() {
        let name = params
            .get(at)
            .map_or_else(|| format!("argument {at}"), |param| param.name.clone());
        args.insert(name, value.clone());
    }
    args.extend(
        want.get("kwargs")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default(),
    );
    Value::Object(args)
}

/// Equal, with numbers compared by value.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

pub(crate) fn rows() -> Vec<Value> {
    let lines = include_str!("../data/replies.jsonl").lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn finish(row: &Value) -> Finish {
    match row["finish_reason"].as_str() {
        Some("length") => Finish::Length,
        Some("stop") => Finish::Stop,
        _ => Finish::Other,
    }
}

#[test]
fn every_recorded_shape_comes_to_what_it_should() {
    let tools = tools();
    let mut failed = Vec::new();
    for row in rows() {
        let parsed = parse(row["reply"].as_str().unwrap(), finish(&row));
        let got = outcome(&parsed, &tools);
        let also = row["also_ok"].as_array().cloned().unwrap_or_default();
        let never = row["must_not"].as_array().cloned().unwrap_or_default();
        let expected = matches(&got, &row["expect"], &tools);
        let allowed = expected || also.iter().any(|want| matches(&got, want, &tools));
        let banned = never.iter().any(|want| {
            got["kind"] != "prose" && want["kind"] != "malformed" && matches(&got, want, &tools)
        });
        let id = row["id"].as_str().unwrap_or_default();
        if !allowed || banned {
            failed.push(format!(
                "{id}: {}\n   -> {}",
                row["reply"],
                got.to_string().chars().take(300).collect::<String>()
            ));
        }
        if let Some(discard) = row["expect"]["discard"].as_str()
            && expected
        {
            assert!(
                !parsed.kept.contains(discard),
                "{id} keeps what it should drop: {}",
                parsed.kept
            );
        }
    }
    assert!(
        failed.is_empty(),
        "{} rows fail:\n{}",
        failed.len(),
        failed.join("\n")
    );
}
