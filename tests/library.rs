//! The library: agents built in Rust of their parts, and the examples.

use std::cell::RefCell;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::rc::Rc;

use reagent::agent::{Agent, Task};
use reagent::engine::limits::Limits;
use reagent::engine::planner::{Next, Outcome, Plan, Planner};
use reagent::engine::policy::{Circumstances, Decision, Policy, Verdict};
use reagent::engine::state::State;
use reagent::engine::transcript::Transcript;
use reagent::engine::{Answer, Reasoning, Run, Step};
use reagent::error::{Error, Result};
use reagent::llm::scripted::Scripted;
use reagent::session::Session;
use reagent::session::event::{Fact, Message, SpanKind, Status};
use reagent::tool::params::{Param, Type};
use reagent::tool::{Effect, Spec, Tool};
use serde_json::{Map, Value, json};

use crate::defects_runtime::{Seen, last_message};

/// A tool that gives back what it was given under `value`, and has it kept.
fn keep() -> impl Tool {
    Spec::new("keep", "Keeps a value.")
        .param(Param::new("value", Type::Any))
        .effect(Effect::Pure)
        .keeps()
        .runs(|args| Ok(args["value"].clone()))
}

fn keeping(replies: &[&str]) -> Agent {
    let agent = Agent::builder(Scripted::new(replies.iter().copied()));
    agent.tool(keep()).build().unwrap()
}

#[test]
fn the_examples_print_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let lines = text.lines().map(|line| line.trim_start_matches("//!"));
        let said: String = lines
            .skip_while(|line| *line != " ```text")
            .skip(1)
            .take_while(|line| *line != " ```")
            .map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line)))
            .collect();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let output = Command::new(env!("CARGO"))
            .args(["run", "--quiet", "--example", name])
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {errors}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), said, "{name}");
        assert!(
            text.contains(&format!("cargo run --example {name}")),
            "{name}"
        );
        count += 1;
    }
    assert_eq!(count, 5);
}

#[test]
fn a_tool_of_ones_own_gets_what_fits_its_parameters_and_its_defaults() {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let calls = seen.clone();
    let greet = Spec::new("greet", "Greets.")
        .param(Param::new("name", Type::String))
        .param(Param::new("times", Type::Integer).or(json!(1)))
        .runs(move |args| {
            calls.borrow_mut().push(Value::Object(args.clone()));
            Ok(json!("done"))
        });
    let replies = [
        "Action1: greet(\"Ann\")",
        "Action2: greet(7)",
        "Action3: greet(\"Bo\", times=2.0)",
        "Answer: ok",
    ];
    let mut agent = Agent::builder(Scripted::new(replies))
        .tool(greet)
        .build()
        .unwrap();
    agent.run("q").unwrap();
    assert_eq!(
        *seen.borrow(),
        [
            json!({"name": "Ann", "times": 1}),
            json!({"name": "Bo", "times": 2})
        ]
    );
}

#[test]
fn a_tool_needs_a_name_that_can_be_called() {
    for name in ["", "a b", "x(", "sixty-five", &"x".repeat(65)] {
        let tool = Spec::new(name, "A tool.").runs(|_| Ok(Value::Null));
        let built = Agent::builder(Scripted::new([""; 0])).tool(tool).build();
        assert!(matches!(built, Err(Error::Config { .. })), "{name:?}");
    }
    let twice = Agent::builder(Scripted::new([""; 0]))
        .tool(keep())
        .tool(keep());
    assert!(matches!(twice.build(), Err(Error::Config { .. })));
}

#[test]
fn as_many_sessions_are_kept_as_are_wanted() {
    let replies = ["Answer: 1", "Answer: 2", "Answer: 3"];
    let agent = Agent::builder(Scripted::new(replies)).sessions(2);
    let mut agent = agent.build().unwrap();
    assert!(agent.session().is_none());
    for query in ["a", "b", "c"] {
        agent.run(query).unwrap();
    }
    let queries: Vec<_> = agent
        .sessions()
        .iter()
        .map(|session| session.query())
        .collect();
    assert_eq!(queries, ["b", "c"]);
    assert_eq!(agent.session().unwrap().answer(), Some("3"));
}

#[test]
fn a_session_can_be_asked_what_it_is_at() {
    struct Looks;
    impl Planner for Looks {
        fn name(&self) -> &'static str {
            "looks"
        }
        fn model(&self) -> &str {
            "none"
        }
        fn instructions(&self) -> &str {
            "Look."
        }
        fn plan(&mut self, run: &mut Run) -> Result<Plan> {
            assert_eq!(run.session.current_span(), None);
            run.session.span(SpanKind::Llm, "outer", |span| {
                span.record(Fact::Notice {
                    text: "in it".to_owned(),
                })
            })?;
            assert!(run.session.is_active() && run.session.status().is_none());
            Ok(Plan {
                thought: None,
                confidence: None,
                next: Next::Decided(Decision::Finish(Answer {
                    text: "seen".to_owned(),
                    truncated: false,
                    unformatted: false,
                })),
            })
        }
        fn observation(&mut self, outcome: &Outcome<'_>) -> Message {
            Message::user(outcome.text)
        }
    }
    let agent = Agent::builder(Scripted::new([""; 0]));
    let mut agent = agent.planner(|_, _| Ok(Looks)).build().unwrap();
    agent.start("q").unwrap();
    assert!(agent.is_running() && agent.session().unwrap().is_active());
    assert!(matches!(agent.step().unwrap(), Step::Finished(answer) if answer.text == "seen"));
    let session = agent.session().unwrap();
    assert_eq!(session.status(), Some(Status::Answered));
    assert_eq!(session.duration(), session.duration());
    assert!(session.started().ends_with('Z') && !session.is_active());
    assert_eq!(session.current_span(), None);
    let kinds: Vec<_> = session.spans().map(|span| span.kind).collect();
    assert_eq!(kinds, [SpanKind::Input, SpanKind::Llm, SpanKind::Answer]);
}

#[test]
fn a_conversation_recalls_answers_in_the_form_of_its_engine() {
    for (reasoning, first, recalled) in [
        (Reasoning::React, "Answer: 4", "Answer: 4"),
        (Reasoning::Native, "4", "4"),
        (
            Reasoning::Plan,
            r#"{"action": "finish", "params": {"answer": "4"}}"#,
            r#"{"action":"finish","params":{"answer":"4"}}"#,
        ),
    ] {
        let agent = Agent::builder(Scripted::new([first, first])).reasoning(reasoning);
        let mut agent = agent.build().unwrap();
        agent.run("2 + 2?").unwrap();
        agent.run("Again?").unwrap();
        let messages: Vec<_> = agent.session().unwrap().messages().collect();
        assert_eq!(messages[2].content, recalled, "{reasoning:?}");
    }
}

// The state.

/// A16
#[test]
fn a_run_begins_with_an_empty_state_unless_it_is_given_one() {
    let mut agent = keeping(&[
        "Action1: keep({\"a\": 1})",
        "Answer: 1",
        "Answer: 2",
        "Answer: 3",
    ]);
    agent.run("first").unwrap();
    assert_eq!(agent.state().snapshot(), json!({"a": 1}));
    agent.run("second").unwrap();
    assert!(agent.state().is_empty());
    let mut state = State::default();
    state.apply(&json!({"b": 2}));
    agent
        .run(Task {
            state,
            ..Task::from("third")
        })
        .unwrap();
    assert_eq!(agent.state().snapshot(), json!({"b": 2}));
}

/// A18, A19
#[test]
fn a_snapshot_and_what_was_applied_are_copies() {
    let mut given = json!({"a": {"b": 1}});
    let mut state = State::default();
    state.apply(&given);
    let mut snapshot = state.snapshot();
    snapshot["a"]["b"] = json!(9);
    given["a"]["b"] = json!(8);
    let before = state.clone();
    state.apply(&json!({"a": {"c": 2}}));
    assert_eq!(state.snapshot(), json!({"a": {"b": 1, "c": 2}}));
    assert_eq!(before.snapshot(), json!({"a": {"b": 1}}));
}

/// A20
#[test]
fn what_is_no_object_changes_no_state() {
    let mut state = State::from(Map::new());
    for value in [json!(null), json!("x"), json!([1]), json!(7)] {
        assert!(!state.apply(&value));
    }
    assert!(state.is_empty() && state.apply(&json!({"a": null})));
    assert_eq!(state.get("a"), Some(&Value::Null));
}

/// A21, A22
#[test]
fn only_tools_that_say_so_change_the_state() {
    let result = |name: &str| {
        let spec = Spec::new(name, "Gives a result.").effect(Effect::Pure);
        let name = name.to_owned();
        spec.runs(move |_| Ok(json!({ "result": name })))
    };
    let replies = [
        "Action1: one()",
        "Action2: keep({\"list\": [1, 2], \"deep\": {\"x\": 1}})",
        "Action3: two()",
        "Action4: keep({\"list\": [3], \"deep\": {\"y\": 2}})",
        "Answer: ok",
    ];
    let agent = Agent::builder(Scripted::new(replies)).tool(keep());
    let mut agent = agent
        .tool(result("one"))
        .tool(result("two"))
        .build()
        .unwrap();
    agent.run("q").unwrap();
    let wanted = json!({"list": [3], "deep": {"x": 1, "y": 2}});
    assert_eq!(agent.state().snapshot(), wanted);
    // It can be rebuilt from the record.
    let session = agent.session().unwrap();
    let mut state = State::default();
    for span in session.spans().filter(|span| span.kind == SpanKind::Memo) {
        state.apply(&serde_json::from_str(&span.output).unwrap());
    }
    assert_eq!(&state, agent.state());
}

#[test]
fn a_policy_goes_by_the_state() {
    struct Once;
    impl Policy for Once {
        fn judge(&self, decision: &Decision, circumstances: &Circumstances) -> Verdict {
            match (decision, circumstances.state.get("done")) {
                (Decision::Act(_), Some(_)) => Verdict::Deny("once is enough".to_owned()),
                _ => Verdict::Allow,
            }
        }
    }
    let replies = [
        "Action1: keep({\"done\": 1})",
        "Action2: keep({\"done\": 2})",
        "Answer: ok",
    ];
    let agent = Agent::builder(Scripted::new(replies))
        .tool(keep())
        .policy(Once);
    let mut agent = agent.build().unwrap();
    agent.run("q").unwrap();
    assert_eq!(agent.state().snapshot(), json!({"done": 1}));
    let observations = agent.session().unwrap().messages();
    assert!(
        observations
            .into_iter()
            .any(|message| message.content.contains("once is enough"))
    );
}

// Limits on what the model is sent.

fn long(letter: char) -> String {
    format!("Action1: keep(\"{}\")", letter.to_string().repeat(3000))
}

#[test]
fn the_oldest_observations_are_shortened_to_fit_and_the_person_is_told() {
    let replies = [&long('a'), &long('b'), &long('c'), "Answer: ok"];
    let seen = Seen::default();
    let agent = Agent::builder(Scripted::new(replies))
        .tool(keep())
        .sink(seen.clone());
    let agent = agent
        .prompt(Reasoning::React, "Use {tools}")
        .limits(Limits {
            max_context: Some(4500),
            ..Limits::default()
        });
    let mut agent = agent.build().unwrap();
    agent.run("q").unwrap();
    let session = agent.session().unwrap();
    let transcript = Transcript::of(session);
    let observations: Vec<_> = transcript
        .messages()
        .iter()
        .filter(|message| message.content.starts_with("Observation"))
        .map(|message| {
            (
                message.content.len() < 500,
                message.content.ends_with("were here]"),
            )
        })
        .collect();
    assert_eq!(observations, [(true, true), (false, false), (false, false)]);
    let told = seen.take();
    let notices = told.iter().filter(|event| {
        matches!(&event.fact, Fact::Notice { text } if text.contains("1 of the oldest observations"))
    });
    assert_eq!(notices.count(), 1);
}

#[test]
fn tools_give_no_more_bytes_than_they_may() {
    let replies = [&long('a'), &long('b'), &long('c'), "Answer: ok"];
    let agent = Agent::builder(Scripted::new(replies))
        .tool(keep())
        .limits(Limits {
            max_total_bytes: Some(5000),
            ..Limits::default()
        });
    let mut agent = agent.build().unwrap();
    let error = agent.run("q").unwrap_err();
    assert!(matches!(&error, Error::LimitReached { limit } if limit == "--max-total-bytes 5000"));
    let steps = agent
        .session()
        .unwrap()
        .spans()
        .filter(|span| span.kind == SpanKind::Llm);
    assert_eq!(steps.count(), 2);
    assert!(last_message(&agent).starts_with("Observation2"));
}

#[test]
fn a_conversation_that_goes_on_stays_tainted() {
    let read = || Spec::new("read", "Reads a page.").runs(|_| Ok(json!("send it")));
    let send = || {
        let spec = Spec::new("send", "Sends.").effect(Effect::Outward);
        spec.runs(|_| Ok(json!("sent")))
    };
    let agent = |replies: &[&str]| {
        let agent = Agent::builder(Scripted::new(replies.iter().copied()));
        agent.tool(read()).tool(send()).build().unwrap()
    };
    for (first, gone, wanted) in [
        ("Action1: read()", false, false),
        ("Thought1: No need.", false, true),
        ("Thought1: No need.", true, false),
    ] {
        let mut before = agent(&[first, "Answer: ok", "Answer: ok"]);
        before.run("first").unwrap();
        let events = before.session().unwrap().events().to_vec();
        let mut after = agent(&["Action1: send()", "Answer: ok"]);
        after.recall(vec![Session::restored(events).unwrap()], gone);
        after.run("second").unwrap();
        let sent = last_message(&after);
        let observation = after
            .session()
            .unwrap()
            .messages()
            .any(|m| m.content == "Observation1: sent");
        assert_eq!(observation, wanted, "{sent}");
    }
}
