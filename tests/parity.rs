//! One task through every engine: the same is decided, allowed, run and recorded, and the same comes of it.

use std::cell::Cell;
use std::rc::Rc;

use reagent::agent::Agent;
use reagent::engine::Reasoning;
use reagent::engine::policy::{Circumstances, Decision, Policy, Verdict};
use reagent::error::Error;
use reagent::llm::scripted::Scripted;
use reagent::session::event::Status;
use reagent::tool::{Effect, Spec};
use serde_json::{Value, json};

use crate::reply::{ENGINES, Reply};
use crate::server::Server;
use crate::test::{ECHO, Run, Test};

/// The built-in arithmetic, and the same tool by three names: one that runs, one that is denied, one that is asked about.
fn tools() -> String {
    let named = |name: &str, approval: &str| {
        let tool = ECHO.replace("\"echo\"", &format!("\"{name}\""));
        format!("{tool}approval = \"{approval}\"\n")
    };
    let numbers = "params.x = { type = \"number\" }\nparams.y = { type = \"number\" }\n";
    let sums = ["multiply", "divide"].map(|name| {
        format!("[[tool]]\nname = \"{name}_numbers\"\nfunction = \"math.{name}\"\n{numbers}")
    });
    sums.concat() + &named("echo", "allow") + &named("secret", "deny") + &named("send", "ask")
}

/// What is on record of a run, and what it told.
struct Told {
    run: Run,
    /// The audit log, without what differs from run to run.
    record: Vec<Value>,
    events: Vec<Value>,
}

/// A run in which the model says these things.
fn told(engine: &str, replies: Vec<Reply>, tools: &str, flags: &[&str]) -> Told {
    let server = Server::replies(replies);
    let test = Test::with(&server).tools(tools);
    let test = test.args(["--engine", engine, "--json"]);
    let test = test.args(flags.iter().copied()).arg("The task?");
    let run = test.run();
    let record = test.audit().into_iter();
    let events = run.events().0.into_iter();
    Told {
        record: record.map(|line| same(line, engine)).collect(),
        events: events.map(|event| same(event, engine)).collect(),
        run,
    }
}

/// Replies with these calls, and then the answer if there is one.
fn replies(engine: &str, calls: &[(&str, Value)], answer: Option<&str>) -> Vec<Reply> {
    let calls = calls
        .iter()
        .map(|(tool, args)| Reply::action(engine, tool, args));
    let answer = answer.map(|text| Reply::answer(engine, text));
    calls.chain(answer).collect()
}

/// A line without what differs from run to run, and between engines has to.
#[track_caller]
fn same(mut line: Value, engine: &str) -> Value {
    let members = line.as_object_mut().unwrap();
    if let Some(name) = members.remove("engine") {
        assert_eq!(name, engine);
    }
    for name in ["session", "time", "prev", "ms", "output_tokens"] {
        members.remove(name);
    }
    // What to do instead of the same again is said in the terms of the engine.
    for text in ["result", "text", "input"] {
        if let Some(Value::String(text)) = members.get_mut(text) {
            text.truncate(text.find("\n(You have").unwrap_or(text.len()));
        }
    }
    line
}

/// What each engine gives, which is the same.
#[track_caller]
fn in_all(of: impl Fn(&str) -> Vec<Value>) -> Vec<Value> {
    let [react, native, plan] = ENGINES.map(of);
    for (engine, lines) in [("native", native), ("plan", plan)] {
        for (line, wanted) in lines.iter().zip(&react) {
            assert_eq!(line, wanted, "{engine}, and react");
        }
        assert_eq!(lines.len(), react.len(), "{engine}, and react");
    }
    react
}

/// A task in which everything happens that can happen to an action.
fn everything() -> Vec<(&'static str, Value)> {
    vec![
        ("multiply_numbers", json!({"x": 10, "y": 3})),
        ("divide_numbers", json!({"x": 1, "y": 0})),
        ("secret", json!({"text": "x"})),
        ("send", json!({"text": "x"})),
        ("launch", json!({"pad": 39})),
        ("multiply_numbers", json!({"x": 1, "z": 2})),
        ("MULTIPLY_NUMBERS", json!({"y": "4", "x": 10})),
    ]
}

#[test]
fn the_same_task_leaves_the_same_record_in_every_engine() {
    let record = in_all(|engine| {
        let told = told(
            engine,
            replies(engine, &everything(), Some("It is 40.")),
            &tools(),
            &[],
        );
        told.run.code(0);
        told.record
    });
    let rows: Vec<Value> = record
        .iter()
        .filter(|line| line["kind"] == "decision")
        .map(|line| {
            let came = line.get("result").or(line.get("error"));
            json!([
                line["iteration"],
                line["decision"],
                line["verdict"]["allowed"],
                came
            ])
        })
        .collect();
    let act = |action: &str, params: Value| json!({"action": action, "params": params});
    let wanted = [
        (
            act("multiply_numbers", json!({"x": 10, "y": 3})),
            json!(true),
            "30",
        ),
        (
            act("divide_numbers", json!({"x": 1, "y": 0})),
            json!(true),
            "by zero",
        ),
        (
            act("secret", json!({"text": "x"})),
            json!(false),
            "not allowed: `secret`",
        ),
        (
            act("send", json!({"text": "x"})),
            json!(false),
            "needs approval, which nobody gave",
        ),
        (Value::Null, Value::Null, "no tool `launch`"),
        (Value::Null, Value::Null, "no parameter `z`"),
        (
            act("multiply_numbers", json!({"x": 10, "y": 4})),
            json!(true),
            "40",
        ),
        (
            act("finish", json!({"answer": "It is 40."})),
            Value::Null,
            "",
        ),
    ];
    assert_eq!(rows.len(), wanted.len(), "{rows:#?}");
    for (at, (row, (decision, allowed, came))) in rows.iter().zip(&wanted).enumerate() {
        assert_eq!(
            (&row[0], &row[1], &row[2]),
            (&json!(at + 1), decision, allowed),
            "{row}"
        );
        assert!(row[3].as_str().unwrap_or_default().contains(came), "{row}");
    }
    let end = record.last().unwrap();
    assert_eq!(
        (&end["status"], &end["iterations"], &end["tool_calls"]),
        (&json!("answered"), &json!(8), &json!(3))
    );
}

#[test]
fn the_same_task_tells_the_same_in_every_engine() {
    let events = in_all(|engine| {
        told(
            engine,
            replies(engine, &everything(), Some("It is 40.")),
            &tools(),
            &[],
        )
        .events
    });
    let of = |kind: &'static str| events.iter().filter(move |event| event["type"] == kind);
    let spans: Vec<&str> = of("span")
        .map(|span| span["kind"].as_str().unwrap())
        .collect();
    let (acts, rejected) = (["LLM", "TOOL"], ["LLM"]);
    let wanted = [
        &["INPUT"],
        &acts.repeat(4)[..],
        &rejected.repeat(2),
        &acts,
        &["LLM", "ANSWER"],
    ];
    assert_eq!(spans, wanted.concat());
    assert_eq!(of("action").count(), 5);
    assert_eq!(of("malformed").count(), 2);
    assert!(of("thought").all(|thought| thought["text"] == "So."));
    assert_eq!(of("answer").next().unwrap()["text"], "It is 40.");
}

#[test]
fn a_policy_that_denies_everything_is_obeyed_in_every_engine() {
    let calls = ["a", "b", "c"].map(|text| ("echo", json!({"text": text})));
    for (approval, answer, ttl, code) in [
        ("deny", Some("I may not."), "4", 0),
        ("ask", Some("I may not."), "4", 0),
        ("deny", None, "3", 3),
        ("ask", None, "3", 4),
    ] {
        let tools = format!("{ECHO}approval = \"{approval}\"\n");
        let record = in_all(|engine| {
            let replies = replies(engine, &calls, answer);
            let told = told(engine, replies, &tools, &["--ttl", ttl]);
            told.run.code(code);
            told.record
        });
        let asked: Vec<&Value> = record
            .iter()
            .filter(|line| line["decision"]["action"] == "echo")
            .collect();
        assert_eq!(asked.len(), 3, "{approval}");
        assert!(asked.iter().all(|line| line["verdict"]["allowed"] == false));
        assert_eq!(record.last().unwrap()["tool_calls"], 0, "{approval}");
    }
}

/// What a model calls, how often, with which flags, and the exit code that it comes to.
type Row = (
    &'static str,
    fn(usize) -> Value,
    usize,
    &'static [&'static str],
    i32,
);

#[test]
fn every_end_without_an_answer_is_the_same_in_every_engine() {
    let rows: [Row; 6] = [
        // The limit; the last call may only answer; no such tool, three times and once; the same again; no model.
        (
            "echo",
            |n| json!({"text": n.to_string()}),
            3,
            &["--ttl", "3"],
            3,
        ),
        (
            "echo",
            |n| json!({"text": n.to_string()}),
            3,
            &["--ttl", "2", "--on-limit", "answer"],
            3,
        ),
        ("launch", |n| json!({"n": n}), 3, &[], 1),
        ("launch", |n| json!({"n": n}), 1, &["--strict-tools"], 1),
        ("echo", |_| json!({"text": "x"}), 4, &[], 1),
        ("echo", |_| json!({"text": "x"}), 1, &[], 6),
    ];
    for (tool, args, times, flags, code) in rows {
        in_all(|engine| {
            let calls: Vec<_> = (0..times).map(|n| (tool, args(n))).collect();
            let mut replies = replies(engine, &calls, None);
            if code == 6 {
                replies.push(Reply::error(400, "no more"));
            }
            let mut told = told(engine, replies, ECHO, flags);
            told.run
                .check(told.run.exit_code() == code, &format!("exit code {code}"));
            // The address is another one each time.
            told.record
                .retain(|line| line["kind"] != "failure" || code != 6);
            told.events
                .retain(|line| line["type"] != "error" || code != 6);
            [told.record, told.events].concat()
        });
    }
}

/// Forbids every action and every answer.
struct Nothing;

impl Policy for Nothing {
    fn judge(&self, _: &Decision, _: &Circumstances) -> Verdict {
        Verdict::Deny("the rules of the house".to_owned())
    }
}

#[test]
fn an_answer_that_is_denied_ends_every_engine_alike() {
    for (reasoning, replies) in [
        (
            Reasoning::React,
            ["Action1: count()", "Answer: a", "Answer: b", "Answer: c"],
        ),
        (
            Reasoning::Native,
            [r#"{"name": "count", "arguments": {}}"#, "a", "b", "c"],
        ),
        (
            Reasoning::Plan,
            [
                r#"{"action": "count"}"#,
                r#"{"action": "finish", "params": {"answer": "a"}}"#,
                r#"{"action": "finish", "params": {"answer": "b"}}"#,
                r#"{"action": "finish", "params": {"answer": "c"}}"#,
            ],
        ),
    ] {
        let ran = Rc::new(Cell::new(0));
        let count = ran.clone();
        let tool = Spec::new("count", "Counts.")
            .effect(Effect::Pure)
            .runs(move |_| {
                count.set(count.get() + 1);
                Ok(Value::Null)
            });
        let agent = Agent::builder(Scripted::new(replies)).reasoning(reasoning);
        let mut agent = agent.tool(tool).policy(Nothing).build().unwrap();
        let error = agent.run("q").unwrap_err();
        assert!(
            matches!(error, Error::PolicyViolation(_)),
            "{reasoning:?}: {error:?}"
        );
        let session = agent.session().unwrap();
        assert_eq!(
            (session.status(), session.answer()),
            (Some(Status::Denied), None)
        );
        assert_eq!(ran.get(), 0, "{reasoning:?}");
    }
}
