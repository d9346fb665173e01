//! Defects of Regent that this program must not have, by their numbers in the table of its behaviours.
//!
//! Tested elsewhere with the same input:
//! - R7: `rulings::an_invented_observation_is_dropped_and_the_tool_runs`,
//!   `answer::the_recorded_tool_questions_give_their_recorded_answers`
//! - R12: Retry-After -> `errors::retry_after_is_obeyed`
//! - R14: refused -> `errors::an_unreachable_endpoint_exits_6_and_names_the_address`
//! - R15: a failure that passes -> `errors::a_failure_that_passes_leaves_no_trace_in_the_transcript`
//! - R16: `answer::temperature_and_max_tokens_reach_the_model`
//! - R21: an answer that is cut -> `rulings::a_cut_answer_is_marked`
//! - R23: `keys::an_empty_variable_is_a_missing_key`, `keys::a_missing_key_exits_2_and_names_the_variable`
//! - R30: `answer::the_trace_shows_every_step_and_stdout_only_the_answer`
//! - R37: `cli::an_unknown_flag_is_a_usage_error_with_the_nearest_name`,
//!   `tools::faults_of_the_file_are_named_with_their_place_and_the_nearest_name`
//! - R38: `web::an_unknown_coin_leads_to_a_better_spelling`
//! - R40: `answer::the_system_prompt_shows_each_tool_with_its_signature`

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;

use reagent::agent::Agent;
use reagent::error::{Error, Result};
use reagent::llm::resolve::{self, Known};
use reagent::llm::{self, Choice};
use reagent::session::event::{Closed, Fact, SpanKind, Start, Status};
use reagent::session::{Session, Sinks};
use reagent::tool::Toolchain;
use serde_json::{Value, json};

use crate::defects_runtime::{
    Seen, agent, echo, engine, events_of, last_message, scripted, tool, toolchain,
};
use crate::server::{Reply, Server};
use crate::terminal::{OUTPUT, Terminal};
use crate::test::{Test, ms};

/// Tools that give their arguments back, under the names that the rows use.
const ECHOES: &str = r#"
[[tool]]
name = "weather"
function = "debug.echo"
params.city = { type = "string" }

[[tool]]
name = "search"
function = "debug.echo"
params.text = { type = "string" }

[[tool]]
name = "a"
function = "debug.echo"
params.text = { type = "string" }

[[tool]]
name = "list_coins"
function = "debug.echo"
"#;

/// The README's own recorded reply.
const PROSE: &str = "Thought: I need to find out what the capital of Japan is. \n\
    Action: I will recall my knowledge about countries and their capitals. ";

/// R1, R2, R3, R6, R8
#[test]
fn a_reply_that_cannot_be_used_runs_nothing_and_the_model_is_told_why() {
    let rows = [
        (r#"Action: {"tool":"nope","args":[]}"#, "nope"),
        (
            r#"Action: {"tool":"nope","args":[]}"#,
            "weather, search, a, list_coins",
        ),
        (PROSE, "Action:"),
        (r#"Action: {"tool": "weather", "args": ["x"}"#, "Answer:"),
        (r#"Action: {"tool": "weather" "args": ["x"]}"#, "Answer:"),
        (r#"Action: {"tool": 5, "args": []}"#, "\"tool\""),
        (
            r#"Action: {"tool": "weather", "args": {"town": "x"}}"#,
            "city",
        ),
        ("Answer:", "empty"),
        ("Thought: I could look it up, or ask somebody.", "Answer:"),
    ];
    for (reply, named) in rows {
        let (events, server) = events_of(Some(ECHOES), reply);
        assert_eq!(events.of("malformed").len(), 1, "{reply}");
        assert_eq!(events.of("action").len(), 0, "{reply}");
        let told = server.request(1).last();
        assert!(told.starts_with("Observation1: Error: "), "{reply}: {told}");
        assert!(told.contains(named), "{reply}: {told}");
        assert_eq!(
            events.end()["steps"],
            2,
            "{reply}: it counts as an iteration"
        );
    }
}

/// R1
#[test]
fn an_unknown_tool_fails_the_answer_only_when_bad_replies_are_used_up() {
    let server = Server::replies([r#"Action: {"tool":"nope","args":[]}"#; 3]);
    let run = Test::with(&server).args(["--json", "q"]).run().code(1);
    let events = run.events();
    let spans = events.of("span");
    let last = spans.last().unwrap();
    assert_eq!(
        (&last["kind"], &last["ok"]),
        (&json!("ANSWER"), &json!(false))
    );
    let error = events.of("error")[0]["text"].as_str().unwrap();
    assert!(error.contains("no tool `nope`"), "{error}");
}

/// R2
#[test]
fn of_a_json_action_and_what_follows_it_only_the_action_counts() {
    let rest = [
        r#"Action: {"tool":"add_numbers","args":[3, 4]}"#,
        "Observation: {\"result\": 99}",
        "Observation: 99 }\nAnswer: 99",
        "}\nAnswer: 99",
    ];
    for rest in rest {
        let reply = format!(
            "Thought: I add.\nAction: {{\"tool\":\"add_numbers\",\"args\":[1, 2]}}\n{rest}"
        );
        let (events, server) = events_of(None, &reply);
        assert_eq!(events.of("action").len(), 1, "{reply}");
        assert_eq!(events.of("observation")[0]["text"], "3", "{reply}");
        let seen = server.request(1).conversation();
        assert!(!seen.contains("99") && !seen.contains("[3, 4]"), "{seen}");
    }
}

/// R2: Regent's own recorded reply, whole.
#[test]
fn prose_behind_an_action_marker_does_not_end_a_run_that_answers() {
    let reply = format!(
        "{PROSE}\nObservation: The capital of Japan is Tokyo. \n\nThought: I have the answer now.\n\
         Answer: The capital of Japan is Tokyo."
    );
    let server = Server::replies([reply]);
    let run = Test::with(&server)
        .arg("What is the capital of Japan")
        .run();
    run.success().stdout("The capital of Japan is Tokyo.\n");
}

/// R3, R10, R11
#[test]
fn arguments_arrive_as_they_were_meant() {
    let rows = [
        (
            r#"Action: {"tool": "weather", "args": {"city":"x"}}"#,
            json!({"city": "x"}),
        ),
        (
            r#"Action: {"tool": "weather", "args": "x"}"#,
            json!({"city": "x"}),
        ),
        (
            r#"Action: {"tool": "weather", "args": ["x"]}"#,
            json!({"city": "x"}),
        ),
        (
            r#"Action: search | "say \"hi\"""#,
            json!({"text": "say \"hi\""}),
        ),
        (
            "Action: search | the PAUSE key",
            json!({"text": "the PAUSE key"}),
        ),
        (
            "Action: search | the PAUSE key\nPAUSE",
            json!({"text": "the PAUSE key"}),
        ),
        ("Action: a | x\nObservation: …", json!({"text": "x"})),
        ("Action: a | x\nThat is what I need.", json!({"text": "x"})),
        ("Action: list_coins", json!({})),
        ("Action: list_coins\nPAUSE", json!({})),
    ];
    for (reply, args) in rows {
        let (events, server) = events_of(Some(ECHOES), reply);
        assert_eq!(events.of("action")[0]["args"], args, "{reply}");
        assert_eq!(events.of("observation")[0]["ok"], true, "{reply}");
        assert!(!server.request(1).conversation().contains('…'), "{reply}");
    }
}

/// R4
#[test]
fn the_words_final_answer_inside_a_thought_do_not_end_the_run() {
    let reply = "Thought: The Final Answer: not yet\nAction: add_numbers(1, 2)";
    let (events, _server) = events_of(None, reply);
    assert_eq!(events.of("observation")[0]["text"], "3");
    assert_eq!(events.of("thought")[0]["text"], "The Final Answer: not yet");
}

/// R5
#[test]
fn an_answer_is_everything_behind_its_first_marker() {
    let server = Server::replies(["Answer: use Answer: prefix"]);
    Test::with(&server)
        .arg("q")
        .run()
        .success()
        .stdout("use Answer: prefix\n");
}

/// R9, and T15
#[test]
fn a_reply_without_text_is_no_crash_and_no_empty_message() {
    let call = json!([{"index": 0, "id": "call_1", "type": "function",
                       "function": {"name": "add_numbers", "arguments": "{\"x\": 1, \"y\": 2}"}}]);
    let rows = [
        (json!({"role": "assistant", "content": null}), "stop"),
        (
            json!({"role": "assistant", "content": null, "tool_calls": call}),
            "tool_calls",
        ),
        (json!({"role": "assistant", "content": ""}), "stop"),
        (json!({"role": "assistant", "content": []}), "stop"),
    ];
    for (message, finish) in rows {
        let whole = json!({"choices": [{"index": 0, "message": message, "finish_reason": finish}]});
        let piece = json!({"choices": [{"index": 0, "delta": message, "finish_reason": finish}]});
        let stream = format!("data: {piece}\n\ndata: [DONE]\n\n");
        for (flags, empty) in [
            (&["--no-stream"][..], Reply::json(&whole)),
            (&[], Reply::bytes("text/event-stream", stream)),
        ] {
            let server = Server::replies([empty, Reply::chat("Answer: ok")]);
            let run = Test::with(&server).args(flags).arg("q").run();
            run.check(
                run.stdout == "ok\n",
                &format!("{message} is asked about again"),
            );
            // A null would fail here already.
            for (role, text) in server
                .requests()
                .iter()
                .flat_map(|request| request.messages())
            {
                assert!(
                    !text.trim().is_empty(),
                    "an empty {role} message after {message}"
                );
            }
        }
    }
}

/// R9
#[test]
fn a_refusal_is_shown_in_the_model_s_own_words() {
    let message =
        json!({"role": "assistant", "content": null, "refusal": "I cannot help with that."});
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    let server = Server::replies([Reply::json(&body)]);
    let run = Test::with(&server).args(["--no-stream", "q"]).run();
    run.code(6).stdout("").error("I cannot help with that.");
}

/// R12, R13
#[test]
fn too_many_requests_without_end_end_after_three_tries_and_short_pauses() {
    let server = Server::replies((1..=3).map(|_| Reply::error(429, "Rate limit reached")));
    let run = Test::with(&server).arg("q").run().code(6);
    // The pauses are up to 0.5 s and up to 1 s; with a tenfold jitter they would be 7.5 s on average.
    run.error("Rate limit reached").within(ms(6000));
    assert_eq!(server.calls(), 3);
}

/// R14
#[test]
fn a_name_without_an_address_keeps_its_cause() {
    let args = [
        "--base-url",
        "https://reagent-test.invalid/v1",
        "--timeout",
        "8s",
        "-m",
        "scripted",
        "q",
    ];
    let run = Test::new().args(args).run().code(6).stdout("").hint("");
    let error = run
        .stderr
        .lines()
        .find(|line| line.starts_with("error: "))
        .unwrap();
    let (_, cause) = error.split_once("/chat/completions").unwrap();
    let causes = ["resolve", "lookup", "host", "name", "time"];
    run.check(
        causes.iter().any(|word| cause.contains(word)),
        "the cause is told",
    );
}

/// R14
#[test]
fn a_timeout_is_called_one() {
    let server = Server::always(Reply::chat("Answer: too late").after(ms(20_000)));
    let run = Test::with(&server).args(["--timeout", "300ms", "q"]).run();
    run.code(6).error("time").hint("--timeout");
}

/// R15
#[test]
fn the_text_of_an_error_is_never_taken_for_the_model_s() {
    let rows = [
        (500, "Answer: 42", 6),
        (400, "Answer: 42", 6),
        (401, "Thought: hm\nAction: add_numbers(1, 2)", 5),
        (200, "Answer: 42", 6),
    ];
    for (status, text, code) in rows {
        let body = json!({"error": {"message": text, "type": "some_error", "code": null}});
        let server = Server::replies([Reply::json(&body).status(status)]);
        let run = Test::with(&server)
            .args(["--retries", "0", "--json", "q"])
            .run()
            .code(code);
        let events = run.events();
        for kind in ["answer", "action", "thought", "malformed"] {
            run.check(
                events.of(kind).is_empty(),
                &format!("{status} {text:?} makes no {kind}"),
            );
        }
        let said = events.of("error")[0]["text"].as_str().unwrap();
        // On one line, whatever it was on.
        let words = text.replace('\n', " ");
        run.check(
            said.contains(&words) || said.contains(text),
            "the server's own words are shown",
        );
    }
}

/// The endpoint that this name is asked at, with this server in its place.
fn connected(model: &str, server: &Server) -> Box<dyn llm::Llm> {
    let variable = |name: &str| (name == "OPENROUTER_API_KEY").then(|| "sk-canary".to_owned());
    let known = Known {
        model: Some(model),
        variable: &variable,
        ..Known::default()
    };
    let Choice::Remote(mut endpoint) = resolve::resolve(&known).unwrap().0 else {
        panic!("{model} has an endpoint");
    };
    assert_eq!(endpoint.base_url, "https://openrouter.ai/api/v1");
    endpoint.base_url = server.base_url();
    llm::connect(&Choice::Remote(endpoint), &llm::Options::default())
}

/// R17, R18
#[test]
fn a_provider_given_to_an_agent_tries_again_and_translates_errors() {
    let tools = toolchain(vec![echo()]);
    let name = "openrouter/meta-llama/llama-3.3-70b-instruct";
    let server = Server::replies([Reply::error(503, "busy"), Reply::chat("Answer: ok")]);
    let mut agent = Agent::new(engine(connected(name, &server), &tools, 10), Sinks::new());
    assert_eq!(agent.run("q").unwrap().text, "ok");
    assert_eq!(
        server.request(1).body["model"],
        "meta-llama/llama-3.3-70b-instruct"
    );
    let server = Server::replies([Reply::error(401, "No credit left")]);
    let mut agent = Agent::new(engine(connected(name, &server), &tools, 10), Sinks::new());
    let error = agent.run("q").unwrap_err();
    assert!(
        matches!(&error, Error::Auth { message, .. } if message == "No credit left"),
        "{error:?}"
    );
}

/// R19
#[test]
fn a_model_s_provider_is_known_by_its_name_or_can_be_said() {
    let all_keys = |_: &str| Some("sk-canary".to_owned());
    let resolve = |model| {
        resolve::resolve(&Known {
            model: Some(model),
            variable: &|name| all_keys(name).filter(|_| name.ends_with("_API_KEY")),
            ..Known::default()
        })
    };
    let rows = [
        ("o3-mini", "openai/o3-mini"),
        ("chatgpt-4o-latest", "openai/chatgpt-4o-latest"),
        ("openai/o3-mini", "openai/o3-mini"),
        (
            "openrouter/meta-llama/llama-3.3-70b-instruct",
            "openrouter/meta-llama/llama-3.3-70b-instruct",
        ),
        (
            "groq/meta-llama/llama-4-scout-17b-16e-instruct",
            "groq/meta-llama/llama-4-scout-17b-16e-instruct",
        ),
    ];
    for (model, name) in rows {
        assert_eq!(resolve(model).unwrap().0.name(), name);
    }
    let error = resolve("meta-llama/llama-3.3-70b-instruct").unwrap_err();
    let hint = error.hint().unwrap();
    assert!(
        hint.contains("-m PROVIDER/meta-llama/llama-3.3-70b-instruct")
            && hint.contains("openrouter"),
        "{hint}"
    );
}

/// R20
#[test]
fn unknown_tokens_leave_no_empty_frame_in_the_tree() {
    let body =
        json!({"choices": [{"message": {"content": "Answer: ok"}, "finish_reason": "stop"}]});
    let server = Server::replies([Reply::json(&body)]);
    let run = Test::with(&server)
        .args(["--trace", "tree", "--no-stream", "q"])
        .run();
    run.success()
        .stdout("ok\n")
        .err_has("LLM")
        .err_lacks("tokens]")
        .err_lacks(" → ");
}

/// R21
#[test]
fn an_answer_in_several_blocks_of_text_is_whole() {
    let blocks = json!([{"type": "text", "text": "Answer: one "}, {"type": "text", "text": "two"}]);
    let body = json!({"choices": [{"message": {"role": "assistant", "content": blocks}, "finish_reason": "stop"}]});
    let server = Server::replies([Reply::json(&body)]);
    let run = Test::with(&server).args(["--no-stream", "q"]).run();
    run.success().stdout("one two\n");
}

/// R22
#[test]
fn what_nobody_set_is_not_sent() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server).arg("q").run().success();
    let body = server.request(0).body;
    for key in [
        "temperature",
        "max_tokens",
        "max_completion_tokens",
        "top_p",
    ] {
        assert!(body.get(key).is_none(), "{key} is in {body}");
    }
    assert_ne!(body["stop"], json!([]));
}

/// A model that does not take this parameter is asked again without it, and never with it again.
#[track_caller]
fn assert_left_out(key: &str, flags: &[&str]) {
    let message = format!("Unsupported parameter: '{key}' is not supported with this model.");
    let error = json!({"message": message, "type": "invalid_request_error", "param": key, "code": "unsupported_parameter"});
    let server = Server::replies([
        Reply::json(&json!({"error": error})).status(400),
        Reply::chat("Action1: add_numbers(1, 2)\nObservation1: 99"),
        Reply::chat("Answer: 3"),
    ]);
    let run = Test::with(&server)
        .args(flags.iter().copied())
        .arg("q")
        .run();
    run.success().stdout("3\n");
    assert!(
        server.request(0).body.get(key).is_some(),
        "{key} is sent at first"
    );
    for request in &server.requests()[1..] {
        assert!(
            request.body.get(key).is_none(),
            "{key} is in {}",
            request.body
        );
    }
}

/// R22
#[test]
fn a_model_that_rejects_stop_texts_is_asked_without_them() {
    assert_left_out("stop", &[]);
}

/// R22
#[test]
fn a_model_that_rejects_a_temperature_is_asked_without_it() {
    assert_left_out("temperature", &["--temperature", "0.5"]);
}

/// R24
#[test]
fn a_failed_span_shows_its_argument_and_its_error() {
    let server = Server::replies([
        Reply::chat("Action1: divide_numbers(1, 0)"),
        Reply::error(400, "I will not"),
    ]);
    let run = Test::with(&server)
        .args(["--trace", "tree", "q"])
        .run()
        .code(6);
    let line = |kind: &str| {
        let mut lines = run.stderr.lines();
        lines
            .find(|line| line.contains('✖') && line.contains(kind))
            .unwrap_or_else(|| panic!("no failed {kind} in:\n{}", run.stderr))
    };
    let tool = line("TOOL");
    assert!(
        tool.contains("divide_numbers") && tool.contains("(1, 0)"),
        "{tool}"
    );
    assert!(tool.contains("division by zero"), "{tool}");
    let model = line("LLM");
    assert!(
        model.contains("scripted") && model.contains("Observation1: "),
        "{model}"
    );
    assert!(model.contains("I will not"), "{model}");
}

fn started() -> Session {
    let start = Start {
        query: "q".to_owned(),
        model: "scripted".to_owned(),
        engine: "react".to_owned(),
        ttl: 10,
        ..Start::default()
    };
    Session::start(start, Sinks::new()).unwrap()
}

/// R25
#[test]
fn a_failed_span_has_ended_and_its_duration_does_not_grow() {
    let mut session = started();
    let failed: Result<()> =
        session.span(SpanKind::Tool, "t", |_| Err(Error::config("it is broken")));
    assert!(failed.is_err(), "the error is passed on");
    let closed = |session: &Session| -> Vec<Closed> { session.spans().cloned().collect() };
    let at_once = closed(&session);
    assert_eq!(at_once.len(), 1);
    assert_eq!(
        (at_once[0].ok, at_once[0].output.as_str()),
        (false, "it is broken")
    );
    // A clock that ran on would be seen.
    thread::sleep(ms(30));
    assert_eq!(closed(&session), at_once);
    assert!(at_once[0].ms < 30);
}

/// R26, R27
#[test]
fn a_replay_shows_what_was_recorded_however_often_it_is_shown() {
    let fails = tool("fails", &["text"], |_| Err("it is broken".to_owned()));
    let tools = toolchain(vec![echo(), fails]);
    let seen = Seen::default();
    let replies = ["Action1: echo(\"r\")", "Action2: fails(\"x\")"];
    let mut agent = Agent::new(
        engine(scripted(&replies), &tools, 10),
        vec![Box::new(seen.clone())],
    );
    agent.run("q").unwrap_err();
    let session = agent.session().unwrap();
    let live = seen.take();
    for _ in 0..3 {
        let mut again = Seen::default();
        session.replay(&mut again).unwrap();
        let again = again.take();
        assert_eq!(again, live);
        let spans: Vec<(bool, String, String)> = again
            .into_iter()
            .filter_map(|event| match event.fact {
                Fact::Closed(span) if span.kind == SpanKind::Tool => {
                    Some((span.ok, span.title, span.output))
                }
                _ => None,
            })
            .collect();
        let text = str::to_owned;
        assert_eq!(
            spans,
            [
                (true, text("echo(\"r\")"), text("r")),
                (false, text("fails(\"x\")"), text("Error: it is broken")),
            ]
        );
    }
}

/// R28
#[test]
fn only_an_answer_is_a_result_and_the_status_tells_a_failure_from_silence() {
    let mut session = started();
    assert_eq!(session.answer(), None);
    session
        .span(SpanKind::Tool, "t", |span| {
            span.output("the output of a tool");
            Ok(())
        })
        .unwrap();
    assert_eq!(session.answer(), None, "the last span is no answer");
    let mut agent = agent(&["Action1: echo(\"r\")"], &toolchain(vec![echo()]));
    assert!(agent.run("q").is_err());
    let session = agent.session().unwrap();
    assert_eq!(session.answer(), None);
    let Fact::End(end) = &session.events().last().unwrap().fact else {
        panic!("the last event is the end");
    };
    assert_eq!(end.status, Status::Unreachable);
}

/// R29
#[test]
fn a_span_of_an_unknown_kind_is_refused_and_nothing_breaks() {
    for kind in ["INPUT", "LLM", "TOOL", "MEMO", "ANSWER"] {
        let read: SpanKind = serde_json::from_value(json!(kind)).unwrap();
        assert_eq!(read.label(), kind);
    }
    for kind in ["X", "", "llm", "TOOL_EXECUTION"] {
        assert!(
            serde_json::from_value::<SpanKind>(json!(kind)).is_err(),
            "{kind}"
        );
    }
}

/// R31
#[test]
fn an_answer_of_many_lines_and_one_wider_than_the_terminal_stand_once() {
    let wide: Vec<String> = (0..90).map(|n| format!("word{n:03}")).collect();
    let answer = format!("first line\nsecond line\n{}\nlast line", wide.join(" "));
    let thought = wide.join(" ").replace("word", "idea");
    for flags in [&[][..], &["--no-stream"], &["--trace", "tree"]] {
        let server = Server::replies([format!("Thought1: {thought}\nAnswer: {answer}")]);
        let screen = Terminal::start(&Test::with(&server).args(flags).arg("q"), OUTPUT).finish();
        assert_eq!(screen.code, 0);
        for text in [
            "first line",
            "second line",
            "last line",
            "word000",
            "word045",
            "word089",
        ] {
            assert_eq!(
                screen.plain.matches(text).count(),
                1,
                "{flags:?} {text}:\n{}",
                screen.plain
            );
        }
        assert!(
            screen.plain.matches("idea045").count() <= 1,
            "{flags:?}:\n{}",
            screen.plain
        );
    }
}

/// The program's sources.
fn sources() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut folders = vec![root];
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                sources.push((path.clone(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(sources.len() > 20, "the sources are found");
    sources
}

/// R32: the clock cannot be set back in a test, but only four files need to know it: the one that puts stamps on
/// events, the tool that tells the time, the one that reads when a server wants to be asked again, and the one that
/// says how old a session is.
#[test]
fn no_duration_is_taken_from_a_clock_that_can_be_set() {
    let knows = |text: &str| text.contains("jiff") || text.contains("SystemTime");
    let mut files: Vec<PathBuf> = Vec::new();
    for (path, text) in sources() {
        if knows(&text)
            && !path.ends_with("session/clock.rs")
            && !path.ends_with("tool/time.rs")
            && !path.ends_with("llm/http.rs")
            && !path.ends_with("commands/sessions.rs")
        {
            files.push(path);
        }
    }
    assert!(files.is_empty(), "these know the wall clock: {files:?}");
}

/// R34
#[test]
fn tools_that_two_agents_share_stay_as_they_are() {
    let shared = toolchain(vec![echo(), tool("f", &[], |_| Ok(json!(1)))]);
    let mut agents = [(); 2].map(|()| agent(&["Action1: f()", "Answer: a", "Answer: b"], &shared));
    for _ in 0..2 {
        for agent in &mut agents {
            agent.run("q").unwrap();
            let system = &agent.session().unwrap().messages().next().unwrap().content;
            assert_eq!(system.matches("- echo(").count(), 1, "{system}");
            assert_eq!(system.matches("- f(").count(), 1, "{system}");
        }
    }
    assert_eq!(shared.specs().count(), 2);
}

/// R34
#[test]
fn two_tools_of_one_name_are_refused_whatever_its_case() {
    for name in ["echo", "Echo", "ECHO"] {
        let second = tool(name, &[], |_| Ok(Value::Null));
        let error = Toolchain::new(vec![echo(), second])
            .map(|_| ())
            .unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
}

/// R35
#[test]
fn what_the_readme_shows_works() {
    let readme = include_str!("../README.md");
    let code: Vec<&str> = readme
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .collect();

    // The tools file.
    let mut blocks = readme
        .split("\n\n")
        .skip_while(|block| !block.starts_with("    [[tool]]"));
    let mut tools = String::new();
    while let Some(block) = blocks.next().filter(|block| block.starts_with("    ")) {
        tools += &format!("{}\n\n", block.replace("\n    ", "\n").trim_start());
    }
    let run = Test::new()
        .tools(&tools)
        .args(["tools", "check"])
        .run()
        .success();
    run.check(run.stdout.starts_with("2 tools"), "both tools are read");

    // The first minute.
    let run = Test::new().arg("What is 10 * 3 + 10?").run().success();
    let shown = code.iter().skip_while(|line| !line.starts_with("notice: "));
    let shown: Vec<&&str> = shown
        .take_while(|line| !line.starts_with("export "))
        .collect();
    assert!(shown.len() > 10, "{shown:?}");
    for line in shown {
        let stands = run
            .stderr
            .lines()
            .chain(run.stdout.lines())
            .any(|said| said == *line);
        run.check(stands, &format!("{line:?} is printed"));
    }

    // The flags.
    let help = |of: &[&str]| {
        Test::new()
            .args(of.iter().copied())
            .arg("--help")
            .run()
            .success()
            .stdout
    };
    let mut all = help(&[]);
    for command in [
        &["replay"][..],
        &["sessions", "export"],
        &["sessions", "prune"],
    ] {
        all += &help(command);
    }
    for line in code.iter().filter(|line| line.starts_with("reagent ")) {
        for flag in line
            .split_whitespace()
            .filter(|word| word.starts_with("--"))
        {
            assert!(all.contains(flag), "{flag} is not in:\n{all}");
        }
    }
}

/// R36
#[test]
fn a_run_inside_a_tool_leaves_the_outer_run_alone() {
    let inner = Rc::new(RefCell::new(agent(
        &["Answer: from within"],
        &toolchain(vec![echo()]),
    )));
    let within = inner.clone();
    let ask = tool("ask", &["text"], move |args| {
        let answer = within
            .borrow_mut()
            .run(args["text"].as_str().unwrap_or_default());
        answer
            .map(|answer| json!(answer.text))
            .map_err(|error| error.to_string())
    });
    let mut outer = agent(
        &["Action1: ask(\"inner?\")", "Answer: outside"],
        &toolchain(vec![ask]),
    );
    outer.start("outer?").unwrap();
    outer.step().unwrap();
    assert!(
        outer.is_running(),
        "the inner run has ended, the outer one has not"
    );
    assert_eq!(last_message(&outer), "Observation1: from within");
    outer.step().unwrap();
    let (inner, outer) = (inner.borrow(), outer.session().unwrap());
    let inner = inner.session().unwrap();
    assert_eq!(
        (inner.query(), inner.answer()),
        ("inner?", Some("from within"))
    );
    assert_eq!((outer.query(), outer.answer()), ("outer?", Some("outside")));
    assert_ne!(inner.id(), outer.id());
    assert!(!inner.is_active() && !outer.is_active());
}

/// R39
#[test]
fn a_long_conversation_is_trimmed_and_says_so() {
    let server = Server::always("Answer: ok");
    let questions: String = (1..=24).map(|n| format!("question {n}?\n")).collect();
    let run = Test::with(&server)
        .args(["-i", "--json"])
        .stdin(questions)
        .run()
        .success();
    let sizes: Vec<usize> = server
        .requests()
        .iter()
        .map(|request| request.messages().len())
        .collect();
    assert_eq!(sizes.len(), 24);
    assert_eq!(
        sizes[22], sizes[23],
        "the conversation has stopped growing: {sizes:?}"
    );
    let last = server.request(23).conversation();
    assert!(
        !last.contains("question 1?") && last.contains("question 23?"),
        "{last}"
    );
    let events = run.events();
    let memos: Vec<&Value> = events
        .of("span")
        .into_iter()
        .filter(|span| span["kind"] == "MEMO")
        .collect();
    let title = memos.last().unwrap()["title"].as_str().unwrap();
    assert!(
        title.contains("20"),
        "how much is remembered is told: {title}"
    );
}

/// R41
#[test]
fn only_main_ends_the_process() {
    for (path, text) in sources() {
        for word in ["process::exit", "process::abort"] {
            assert!(!text.contains(word), "{} has {word}", path.display());
        }
    }
}

/// R42
#[test]
fn whether_something_runs_is_yes_or_no_at_any_time() {
    let mut agent = agent(
        &["Action1: echo(\"x\")", "Answer: done"],
        &toolchain(vec![echo()]),
    );
    assert!(!agent.is_running());
    assert!(agent.session().is_none());
    agent.start("q").unwrap();
    assert!(agent.is_running() && agent.session().unwrap().is_active());
    agent.step().unwrap();
    assert!(agent.is_running() && agent.session().unwrap().is_active());
    agent.step().unwrap();
    assert!(!agent.is_running() && !agent.session().unwrap().is_active());
}

/// R43
#[test]
fn one_status_500_does_not_kill_a_long_task() {
    let web = Server::web().route("/page", Reply::page(500, "<h1>Internal Server Error</h1>"));
    let tools = format!(
        "[[tool]]\nname = \"page\"\nfunction = \"http.get_json\"\nbind.url = \"{}\"\n\n\
         [[tool]]\nname = \"add_numbers\"\nfunction = \"math.add\"\n",
        web.url("/page")
    );
    let server = Server::replies([
        "Action1: add_numbers(1, 2)",
        "Action2: page()",
        "Action3: add_numbers(3, 4)",
        "Answer: 7",
    ]);
    let run = Test::with(&server).tools(&tools).arg("q").run();
    run.success().stdout("7\n").err_line("Observation3: 7");
    let told = server.request(2).last();
    assert!(
        told.starts_with("Observation2: Error: ") && told.contains("500"),
        "{told}"
    );
}

/// R45
#[test]
fn several_system_texts_become_one_message() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .file("system.txt", "the second canary")
        .args(["-s", "the first canary", "--system-file", "system.txt", "q"])
        .run()
        .success();
    let request = server.request(0);
    assert_eq!(request.roles(), ["system", "user"]);
    let system = request.system();
    assert!(
        system.contains("the first canary") && system.contains("the second canary"),
        "{system}"
    );
}

/// R46
#[test]
fn a_blank_context_leaves_no_trace_in_the_prompt_and_the_prompt_is_clean() {
    let server = Server::replies(["Answer: ok"; 4]);
    for system in [None, Some(""), Some("   "), Some(" \n\t")] {
        let mut test = Test::with(&server);
        if let Some(system) = system {
            test = test.args(["-s", system]);
        }
        test.arg("q").run().success();
    }
    let prompt = server.request(0).system();
    for n in 1..4 {
        assert_eq!(server.request(n).system(), prompt, "request {n}");
    }
    for fault in [
        "consider the following",
        "degress",
        "form a user",
        "a an ",
        "{",
        "\n\n\n",
    ] {
        assert!(!prompt.contains(fault), "{fault:?} is in:\n{prompt}");
    }
}
