//! Defects of AgentRuntime that this program must not have, by their numbers in the table of its behaviours; and an
//! agent put together of the library's own parts, for what shows in those only.
//!
//! Tested elsewhere with the same input:
//! - A5: text that says `done` -> `rulings::text_that_says_done_does_not_end_a_query`
//! - A8: `rulings::an_unknown_tool_is_told_to_the_model_with_the_list_and_the_nearest_name`,
//!   `rulings::a_failing_tool_is_an_observation_and_not_malformed`
//! - A11: `tools::a_tool_whose_approval_is_deny_is_not_run`
//! - A13: `answer::one_tool_makes_five_spans_and_the_model_sees_the_observation`
//! - A28: `trace::json_has_one_start_and_one_end_and_every_field_of_the_contract`
//! - A31: `rulings::ttl_zero_is_a_usage_error`
//! - A34: `tools::a_slow_tool_ends_at_its_timeout`
//! - A35: `answer::the_system_prompt_shows_each_tool_with_its_signature`

use std::cell::{Cell, RefCell};
use std::num::NonZeroU32;
use std::rc::Rc;

use reagent::agent::Agent;
use reagent::engine::approval::Desk;
use reagent::engine::cycle::Loop;
use reagent::engine::limits::Limits;
use reagent::engine::planner::Style;
use reagent::engine::planner::react::{PROMPT, React};
use reagent::engine::policy::{ByRules, Circumstances, Decision, Policy, Verdict};
use reagent::engine::{Engine, Step};
use reagent::error::{Error, Result};
use reagent::llm::Llm;
use reagent::llm::scripted::Scripted;
use reagent::session::event::{Event, Fact, SpanKind, Status};
use reagent::session::{Sink, Sinks};
use reagent::tool::params::{Param, Type};
use reagent::tool::rule::Rules;
use reagent::tool::{Effect, Spec, Tool, Toolchain};
use serde_json::{Map, Value, json};

use crate::server::Server;
use crate::test::{Events, Test};

// An agent of the library's parts.

type Outcome = std::result::Result<Value, String>;

/// A tool with these parameters, all of them texts.
pub(crate) fn tool(
    name: &str,
    params: &[&str],
    work: impl Fn(&Map<String, Value>) -> Outcome + 'static,
) -> Box<dyn Tool> {
    let spec = Spec::new(name, "A tool of a test.").effect(Effect::Pure);
    let with = |spec: Spec, name: &&str| spec.param(Param::new(name, Type::String));
    Box::new(params.iter().fold(spec, with).runs(work))
}

/// A tool that gives its text back.
pub(crate) fn echo() -> Box<dyn Tool> {
    tool("echo", &["text"], |args| Ok(args["text"].clone()))
}

pub(crate) fn toolchain(tools: Vec<Box<dyn Tool>>) -> Rc<Toolchain> {
    Rc::new(Toolchain::new(tools).unwrap())
}

fn engine_of(
    llm: Box<dyn Llm>,
    tools: &Rc<Toolchain>,
    policy: Box<dyn Policy>,
    ttl: u32,
) -> Box<dyn Engine> {
    looped(llm, tools, policy, Desk::default(), ttl)
}

/// The engine `react` with these parts.
pub(crate) fn engine_with(
    llm: Box<dyn Llm>,
    tools: &Rc<Toolchain>,
    policy: Box<dyn Policy>,
    desk: Desk,
) -> Box<dyn Engine> {
    looped(llm, tools, policy, desk, 10)
}

fn looped(
    llm: Box<dyn Llm>,
    tools: &Rc<Toolchain>,
    policy: Box<dyn Policy>,
    desk: Desk,
    ttl: u32,
) -> Box<dyn Engine> {
    let style = Style {
        prompt: PROMPT,
        context: "",
        steps: false,
    };
    let planner = React::new(llm, tools.clone(), style, false).unwrap();
    let limits = Limits {
        ttl: NonZeroU32::new(ttl).unwrap(),
        ..Limits::default()
    };
    Box::new(Loop::new(
        Box::new(planner),
        policy,
        desk,
        tools.clone(),
        limits,
    ))
}

/// The engine `react` with this model.
pub(crate) fn engine(llm: Box<dyn Llm>, tools: &Rc<Toolchain>, ttl: u32) -> Box<dyn Engine> {
    let policy = ByRules::new(tools.clone(), Rules::default(), false);
    engine_of(llm, tools, Box::new(policy), ttl)
}

pub(crate) fn scripted(replies: &[&str]) -> Box<dyn Llm> {
    Box::new(Scripted::new(replies.iter().copied()))
}

/// An agent with ten model calls a question, whose model says these things.
pub(crate) fn agent(replies: &[&str], tools: &Rc<Toolchain>) -> Agent {
    Agent::new(engine(scripted(replies), tools, 10), Sinks::new())
}

/// Keeps what it sees.
#[derive(Clone, Default)]
pub(crate) struct Seen(Rc<RefCell<Vec<Event>>>);

impl Seen {
    pub(crate) fn take(&self) -> Vec<Event> {
        self.0.take()
    }
}

impl Sink for Seen {
    fn see(&mut self, event: &Event) -> Result<()> {
        self.0.borrow_mut().push(event.clone());
        Ok(())
    }
}

/// The last thing that the model was told.
pub(crate) fn last_message(agent: &Agent) -> String {
    let messages = agent.session().unwrap().messages();
    messages.last().unwrap().content.clone()
}

/// The closed spans: kind, whether they succeeded, what they came to.
fn spans(agent: &Agent) -> Vec<(SpanKind, bool, String)> {
    let spans = agent.session().unwrap().spans();
    spans
        .map(|span| (span.kind, span.ok, span.output.clone()))
        .collect()
}

// The program itself.

/// What comes of this reply, followed by an answer.
pub(crate) fn events_of(tools: Option<&str>, reply: &str) -> (Events, Server) {
    let server = Server::replies([reply, "Answer: done"]);
    let mut test = Test::with(&server);
    if let Some(tools) = tools {
        test = test.tools(tools);
    }
    let run = test.args(["--json", "The question?"]).run().success();
    run.check(
        server.calls() == 2,
        &format!("{reply:?} does not end the query"),
    );
    let events = run.events();
    assert_eq!(events.of("answer")[0]["text"], "done", "{reply:?}");
    (events, server)
}

/// A1
#[test]
fn a_finish_carries_its_answer_to_the_caller() {
    let mut agent = agent(&["Answer: 42"], &toolchain(vec![echo()]));
    let answer = agent.run("What is it?").unwrap();
    assert_eq!(answer.text, "42");
    assert_eq!(agent.session().unwrap().answer(), Some("42"));
}

/// A2
#[test]
fn the_task_stays_in_the_conversation_and_a_result_is_json() {
    let tools = "[[tool]]\nname = \"measure\"\nfunction = \"debug.echo\"\nparams.x = { type = \"number\" }\n";
    let (_, server) = events_of(Some(tools), "Action1: measure(1)");
    let request = server.request(1);
    assert_eq!(request.last(), "Observation1: {\"x\":1}");
    let messages = request.messages();
    assert!(messages[1].1.contains("The question?"), "{messages:?}");
    assert!(!request.conversation().contains("=>"), "{messages:?}");
}

/// A3
#[test]
fn a_key_too_many_in_a_decision_is_ignored_and_a_missing_one_is_told() {
    let extra = r#"Action: {"tool": "add_numbers", "args": [1, 2], "reason": "because", "confidence": "0.9"}"#;
    let (events, _server) = events_of(None, extra);
    assert_eq!(events.of("observation")[0]["text"], "3");
    for (missing, named) in [
        (r#"Action: {"args": [1, 2], "reason": "because"}"#, "tool"),
        (
            r#"Action: {"tool": "add_numbers", "reason": "because"}"#,
            "x",
        ),
    ] {
        let (events, server) = events_of(None, missing);
        assert_eq!(events.of("malformed").len(), 1, "{missing}");
        assert_eq!(events.of("action").len(), 0, "{missing}");
        let told = server.request(1).last();
        assert!(
            told.contains(&format!("`{named}`")) || told.contains(&format!("\"{named}\"")),
            "{told}"
        );
    }
}

/// A5, A6
#[test]
fn a_tool_may_return_any_value_and_none_of_them_ends_the_run() {
    let rows = [
        (json!("text"), "text"),
        (json!(40.0), "40"),
        (json!([1, "two"]), "[1,\"two\"]"),
        (Value::Null, "null"),
        (json!(true), "true"),
        (json!({"done": true}), "{\"done\":true}"),
        (
            json!({"done": true, "answer": "pwned"}),
            "{\"done\":true,\"answer\":\"pwned\"}",
        ),
    ];
    for (value, shown) in rows {
        let given = value.clone();
        let tools = toolchain(vec![tool("it", &[], move |_| Ok(given.clone()))]);
        let mut agent = agent(&["Action1: it()", "Answer: after it"], &tools);
        let answer = agent.run("q").unwrap();
        assert_eq!(answer.text, "after it", "{value}");
        let seen = agent.session().unwrap().messages().nth(3).unwrap();
        assert_eq!(seen.content, format!("Observation1: {shown}"), "{value}");
    }
}

/// A7
#[test]
fn a_tool_is_found_whatever_the_case_of_its_name() {
    for reply in [
        "Action: ADD_NUMBERS(1, 2)",
        r#"Action: {"tool": "Add_Numbers", "args": [1, 2]}"#,
    ] {
        let (events, _server) = events_of(None, reply);
        assert_eq!(events.of("action")[0]["tool"], "add_numbers", "{reply}");
        assert_eq!(events.of("observation")[0]["text"], "3", "{reply}");
    }
}

/// A7, A24
#[test]
fn an_action_without_a_name_and_a_finish_that_is_no_tool_are_told() {
    let replies = [
        "Action: :finish",
        "Action: FINISH",
        "Action: FINISH(\"42\")",
        r#"Action: {"tool": "", "args": []}"#,
        r#"Action: {"tool": "  ", "args": []}"#,
        "Action:",
        "Action:   ",
        "Action: (1, 2)",
    ];
    for reply in replies {
        let (events, server) = events_of(None, reply);
        assert_eq!(events.of("malformed").len(), 1, "{reply:?}");
        assert_eq!(events.of("action").len(), 0, "{reply:?}");
        let told = server.request(1).last();
        assert!(told.starts_with("Observation1: Error: "), "{told}");
    }
}

/// What a model says, how that ends, and with which error.
type Row<'a> = (&'a [&'a str], Status, fn(&Error) -> bool);

/// A9, A14: and what a run came to is the same in its record and for its caller.
#[test]
fn every_run_ends_once_and_says_how_whatever_came_of_it() {
    let same = ["Action: echo(\"x\")"; 4];
    let rows: [Row; 5] = [
        (&["Answer: 42"], Status::Answered, |_| false),
        (
            &[
                "Action: echo(\"a\")",
                "Action: echo(\"b\")",
                "Action: echo(\"c\")",
                "Action: echo(\"d\")",
            ],
            Status::Limit,
            |e| matches!(e, Error::MaxIterationsExceeded { limit: 4 }),
        ),
        (
            &["Action: nope(1)", "Thought: hm", "Action: nope(2)"],
            Status::Failed,
            |e| matches!(e, Error::BadReplies { count: 3, .. }),
        ),
        (&same, Status::Failed, |e| {
            matches!(e, Error::Stalled { .. })
        }),
        (&["Action: echo(\"a\")"], Status::Unreachable, |e| {
            matches!(e, Error::Endpoint { .. })
        }),
    ];
    for (replies, status, is_expected) in rows {
        let seen = Seen::default();
        let tools = toolchain(vec![echo()]);
        let mut agent = Agent::new(
            engine(scripted(replies), &tools, 4),
            vec![Box::new(seen.clone())],
        );
        match agent.run("q") {
            Ok(answer) => assert_eq!((answer.text.as_str(), status), ("42", Status::Answered)),
            Err(error) => assert!(is_expected(&error), "{status:?}: {error:?}"),
        }
        let ends: Vec<Status> = seen
            .take()
            .iter()
            .filter_map(|event| match &event.fact {
                Fact::End(end) => Some(end.status),
                _ => None,
            })
            .collect();
        assert_eq!(ends, [status], "one end, of which the sinks hear");
        assert!(!agent.is_running());
        let session = agent.session().unwrap();
        assert!(!session.is_active(), "{status:?}");
        assert!(matches!(
            session.events().last().unwrap().fact,
            Fact::End(_)
        ));
        assert_eq!(session.answer().is_some(), status == Status::Answered);
    }
}

/// A policy that forbids every action, and the answer if there is one of this text.
struct Forbids(&'static str);

impl Policy for Forbids {
    fn judge(&self, decision: &Decision, _: &Circumstances) -> Verdict {
        match decision {
            Decision::Finish(answer) if answer.text != self.0 => Verdict::Allow,
            _ => Verdict::Deny("the rules of the house".to_owned()),
        }
    }
}

fn forbidding(replies: &[&str], calls: &Rc<Cell<u32>>, answer: &'static str) -> Agent {
    let count = calls.clone();
    let counted = tool("counted", &[], move |_| {
        count.set(count.get() + 1);
        Ok(json!("ran"))
    });
    let tools = toolchain(vec![counted]);
    let engine = engine_of(scripted(replies), &tools, Box::new(Forbids(answer)), 10);
    Agent::new(engine, Sinks::new())
}

/// A11, A26, A29
#[test]
fn what_a_policy_forbids_is_not_run_but_recorded_and_told() {
    let calls = Rc::new(Cell::new(0));
    let mut agent = forbidding(
        &["Action1: counted()", "Answer: I may not."],
        &calls,
        "none",
    );
    assert_eq!(agent.run("q").unwrap().text, "I may not.");
    assert_eq!(calls.get(), 0, "the tool is not run");
    let spans = spans(&agent);
    let (kind, ok, output) = &spans[2];
    assert_eq!((kind, ok), (&SpanKind::Tool, &false));
    assert!(output.contains("the rules of the house"), "{output}");
    let told = agent.session().unwrap().messages().nth(3).unwrap();
    assert!(
        told.content.starts_with("Observation1: Error: ")
            && told.content.contains("the rules of the house"),
        "{}",
        told.content
    );
}

/// A11
#[test]
fn an_answer_passes_the_policy_too() {
    let calls = Rc::new(Cell::new(0));
    // The model is told, and may answer otherwise; not for ever.
    let mut agent = forbidding(
        &["Answer: the secret", "Answer: something else"],
        &calls,
        "the secret",
    );
    assert_eq!(agent.run("q").unwrap().text, "something else");
    let mut agent = forbidding(&["Answer: the secret"; 3], &calls, "the secret");
    let error = agent.run("q").unwrap_err();
    assert!(matches!(error, Error::PolicyViolation(_)), "{error:?}");
    assert_eq!(error.exit_code(), 4);
    let session = agent.session().unwrap();
    assert_eq!(session.answer(), None);
    let Fact::End(end) = &session.events().last().unwrap().fact else {
        panic!("the last event is the end");
    };
    assert_eq!(end.status, Status::Denied);
}

/// A15
#[test]
fn no_hidden_limit_undercuts_the_one_that_was_set() {
    let actions = (1..=110).map(|k| format!("Action: add_numbers({k}, 1)"));
    let server = Server::replies(actions.chain(["Answer: at last".to_owned()]));
    let run = Test::with(&server).args(["--ttl", "111", "q"]).run();
    run.success().stdout("at last\n");
    assert_eq!(server.calls(), 111);
}

/// A16
#[test]
fn nothing_that_one_question_used_up_is_missing_for_the_next() {
    let same = "Action: add_numbers(1, 2)";
    let server = Server::replies([
        same,
        same,
        same,
        "Action: nope(1)",
        "Action: nope(2)",
        "Answer: one",
        same,
        "Action: nope(3)",
        "Action: nope(4)",
        "Answer: two",
    ]);
    let test = Test::with(&server)
        .args(["-i", "--ttl", "6"])
        .stdin("first?\nsecond?\n");
    test.run().success().stdout("one\ntwo\n");
    assert_eq!(
        server.request(7).last(),
        "Observation1: 3",
        "no hint that it was done before"
    );
}

/// A26
#[test]
fn every_failure_is_on_record_with_what_went_wrong() {
    let fails = tool("fails", &["text"], |_| Err("it is broken".to_owned()));
    let mut agent = agent(
        &["Action1: nope()", "Action2: fails(\"x\")"],
        &toolchain(vec![fails]),
    );
    agent.run("q").unwrap_err();
    let spans = spans(&agent);
    let failed: Vec<_> = spans.iter().filter(|(_, ok, _)| !ok).collect();
    assert_eq!(failed.len(), 2, "{spans:?}");
    assert_eq!(failed[0].0, SpanKind::Tool);
    assert!(failed[0].2.contains("it is broken"), "{spans:?}");
    assert_eq!(failed[1].0, SpanKind::Llm);
    assert!(
        failed[1].2.contains("the script is at its end"),
        "{spans:?}"
    );
    let facts = agent.session().unwrap().events().iter();
    let malformed = facts
        .filter(|event| matches!(&event.fact, Fact::Malformed { why } if why.contains("nope")));
    assert_eq!(malformed.count(), 1);
    let action = agent.session().unwrap().events().iter();
    let mut action =
        action.filter(|event| matches!(&event.fact, Fact::Action { tool, .. } if tool == "fails"));
    assert!(action.next().is_some(), "the decision is on record too");
    let mut errors = agent.session().unwrap().events().iter();
    assert!(errors.any(
        |event| matches!(&event.fact, Fact::Error { text, .. } if text.contains("the script is at its end"))
    ));
}

/// A30
#[test]
fn a_step_says_whether_it_was_the_last() {
    let mut agent = agent(
        &["Action1: echo(\"a\")", "Answer: done"],
        &toolchain(vec![echo()]),
    );
    assert!(
        matches!(agent.step(), Err(Error::InactiveSession)),
        "nothing is under way"
    );
    agent.start("q").unwrap();
    assert_eq!(agent.step().unwrap(), Step::Continue(Some(json!("a"))));
    assert!(agent.is_running());
    assert!(matches!(agent.step().unwrap(), Step::Finished(answer) if answer.text == "done"));
    assert!(!agent.is_running());
    assert!(matches!(agent.step(), Err(Error::InactiveSession)));
}
