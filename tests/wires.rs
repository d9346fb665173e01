//! The same conversation in every format, streamed and not: the outcome is the same, and each service is asked in its
//! own way.

use std::thread;

use reagent::llm::wire::Wire;
use serde_json::{Value, json};

use crate::server::{Reply, Request, Server};
use crate::service::{INPUT, WIRES};
use crate::test::{Run, Test};

const KEY: &str = "sk-test-0000000000000000";
const ACTION: &str = "Thought: I add.\nAction: add_numbers(10, 3)";
const ANSWER: &str = "Thought: I know it — 13.\nAnswer: 10 + 3 = 13, “dreizehn” 🙂";

/// A way to ask the scripted model.
#[derive(Clone, Copy, Debug)]
struct Way {
    wire: Wire,
    streamed: bool,
}

impl Way {
    fn ways() -> impl Iterator<Item = Self> {
        WIRES
            .into_iter()
            .flat_map(|wire| [true, false].map(|streamed| Way { wire, streamed }))
    }

    /// The name of the model, the variable that holds the key, and the path of the base URL.
    fn provider(self) -> (&'static str, &'static str, &'static str) {
        match self.wire {
            Wire::OpenAi => ("scripted", "OPENAI_API_KEY", "/v1"),
            Wire::Anthropic => ("anthropic/scripted", "ANTHROPIC_API_KEY", "/v1"),
            Wire::Gemini => ("gemini/scripted", "GEMINI_API_KEY", "/v1beta"),
            Wire::Ollama => ("ollama/scripted", "REAGENT_API_KEY", ""),
        }
    }

    fn ask(self, replies: &[Reply]) -> (Run, Server) {
        let server = Server::replies(replies.iter().cloned());
        let (model, variable, root) = self.provider();
        let flags: &[&str] = if self.streamed { &[] } else { &["--no-stream"] };
        let test = Test::new()
            .env(variable, KEY)
            .args(["--base-url", &server.url(root), "-m", model])
            .args(flags);
        let run = test
            .args(["--temperature", "0.5", "--json", "10 + 3?"])
            .run();
        (run, server)
    }

    /// What came of it, without what differs by its nature: times, ids, names, addresses.
    fn outcome(self, replies: &[Reply]) -> Value {
        let (run, _server) = self.ask(replies);
        let mut events = run.events().0;
        for event in &mut events {
            let event = event.as_object_mut().unwrap();
            for key in ["time", "session", "ms"] {
                event.remove(key);
            }
            match event["type"].as_str().unwrap() {
                "start" => drop(event.remove("model")),
                "span" => drop(event.remove("title")),
                "error" => {
                    let text = event["text"].as_str().unwrap();
                    let words = text.split_once(": ").map_or(text, |(_, words)| words);
                    event["text"] = json!(words);
                }
                _ => {}
            }
        }
        json!({"exit_code": run.exit_code(), "events": events})
    }
}

/// The outcome, which is the same in every way.
#[track_caller]
fn everywhere(replies: &[Reply]) -> Value {
    let outcomes = Way::ways().map(|way| {
        let replies = replies.to_vec();
        (way, thread::spawn(move || way.outcome(&replies)))
    });
    let outcomes: Vec<_> = outcomes.collect();
    let mut outcomes = outcomes
        .into_iter()
        .map(|(way, outcome)| (way, outcome.join().unwrap()));
    let (_, first) = outcomes.next().unwrap();
    for (way, outcome) in outcomes {
        assert_eq!(outcome, first, "{way:?}");
    }
    first
}

fn of<'a>(outcome: &'a Value, kind: &str) -> Vec<&'a Value> {
    let events = outcome["events"].as_array().unwrap().iter();
    events.filter(|event| event["type"] == kind).collect()
}

/// The kinds of the events, in order; of spans their own kind, and that they failed.
fn kinds(outcome: &Value) -> Vec<String> {
    let events = outcome["events"].as_array().unwrap().iter();
    let kind = |event: &Value| match (event["kind"].as_str(), &event["ok"]) {
        (Some(kind), Value::Bool(false)) => format!("{kind} failed"),
        (Some(kind), _) => kind.to_owned(),
        _ => event["type"].as_str().unwrap().to_owned(),
    };
    events.map(kind).collect()
}

fn tokens(text: &str) -> usize {
    text.split_whitespace().count()
}

#[test]
fn a_tool_and_an_answer_come_out_the_same_in_every_format() {
    let outcome = everywhere(&[Reply::chat(ACTION), Reply::chat(ANSWER)]);
    assert_eq!(outcome["exit_code"], 0);
    assert_eq!(
        kinds(&outcome),
        [
            "start",
            "INPUT",
            "LLM",
            "thought",
            "action",
            "TOOL",
            "observation",
            "LLM",
            "thought",
            "answer",
            "ANSWER",
            "end",
        ]
    );
    assert_eq!(
        of(&outcome, "answer")[0]["text"],
        "10 + 3 = 13, “dreizehn” 🙂"
    );
    let spans = of(&outcome, "span").into_iter();
    let calls: Vec<_> = spans.filter(|span| span["kind"] == "LLM").collect();
    for (call, text) in calls.into_iter().zip([ACTION, ANSWER]) {
        assert_eq!(call["input_tokens"], INPUT);
        assert_eq!(call["output_tokens"], tokens(text));
    }
    let end = of(&outcome, "end")[0];
    assert_eq!(end["input_tokens"], 2 * INPUT);
    assert_eq!(end["output_tokens"], tokens(ACTION) + tokens(ANSWER));
}

#[test]
fn an_unknown_tool_is_told_the_same_in_every_format() {
    let unknown = "Thought: I add.\nAction: add_number(10, 3)";
    let outcome = everywhere(&[
        Reply::chat(unknown),
        Reply::chat(ACTION),
        Reply::chat(ANSWER),
    ]);
    assert_eq!(outcome["exit_code"], 0);
    let why = of(&outcome, "malformed")[0]["why"].as_str().unwrap();
    assert!(why.contains("add_numbers"), "{why}");
    assert_eq!(of(&outcome, "end")[0]["steps"], 3);
    assert_eq!(of(&outcome, "end")[0]["tool_calls"], 1);
}

#[test]
fn a_failure_that_passes_leaves_the_same_outcome_in_every_format() {
    let outcome = everywhere(&[
        Reply::chat(ACTION),
        Reply::error(500, "canary: it fell over"),
        Reply::chat(ANSWER),
    ]);
    assert_eq!(outcome["exit_code"], 0);
    assert!(kinds(&outcome).contains(&"LLM failed".to_owned()));
    assert_eq!(of(&outcome, "end")[0]["steps"], 2, "attempts are not steps");
    let tokens = tokens(ACTION) + tokens(ANSWER);
    assert_eq!(of(&outcome, "end")[0]["output_tokens"], tokens);
}

#[test]
fn a_failure_that_stays_ends_the_same_in_every_format() {
    let failing = (0..3).map(|_| Reply::error(500, "it fell over"));
    let replies: Vec<Reply> = [Reply::chat(ACTION)].into_iter().chain(failing).collect();
    let outcome = everywhere(&replies);
    assert_eq!(outcome["exit_code"], 6);
    assert_eq!(of(&outcome, "end")[0]["status"], "unreachable");
    assert_eq!(of(&outcome, "error")[0]["text"], "it fell over");
}

#[test]
fn a_bad_key_ends_the_same_in_every_format() {
    let outcome = everywhere(&[Reply::error(401, "no such key")]);
    assert_eq!(outcome["exit_code"], 5);
    assert_eq!(of(&outcome, "end")[0]["status"], "auth");
    assert_eq!(of(&outcome, "error")[0]["text"], "no such key");
}

#[test]
fn a_reply_cut_at_the_limit_of_length_is_cut_in_every_format() {
    let outcome = everywhere(&[Reply::truncated("Answer: as far as I")]);
    let cut = of(&outcome, "notice").into_iter();
    let cut: Vec<_> = cut
        .filter(|notice| notice["text"].to_string().contains("cut"))
        .collect();
    assert_eq!(cut.len(), 1, "{outcome}");
}

#[test]
fn half_a_reply_is_none_in_any_format() {
    let outcome = everywhere(&[Reply::cut("Answer: half"), Reply::cut("Answer: half")]);
    assert_eq!(outcome["exit_code"], 6);
    assert_eq!(of(&outcome, "answer").len(), 0);
}

/// Role and text of every turn, with the roles as OpenAI calls them, and the instructions.
fn turns(wire: Wire, request: &Request) -> (String, Vec<(String, String)>) {
    let mut turns = match wire {
        Wire::Gemini => {
            let contents = request.body["contents"].as_array().unwrap().iter();
            let turn = |turn: &Value| {
                let role = match turn["role"].as_str().unwrap() {
                    "model" => "assistant",
                    "user" => "user",
                    other => panic!("{other}"),
                };
                let text = turn["parts"][0]["text"].as_str().unwrap();
                (role.to_owned(), text.to_owned())
            };
            contents.map(turn).collect()
        }
        _ => request.messages(),
    };
    let system = match wire {
        Wire::Anthropic => request.body["system"].as_str().unwrap().to_owned(),
        Wire::Gemini => {
            let parts = &request.body["systemInstruction"]["parts"];
            parts[0]["text"].as_str().unwrap().to_owned()
        }
        Wire::OpenAi | Wire::Ollama => {
            let (role, text) = turns.remove(0);
            assert_eq!(role, "system");
            text
        }
    };
    (system, turns)
}

#[test]
fn every_service_is_asked_in_its_own_way() {
    let mut first = None;
    for way in Way::ways() {
        let (run, server) = way.ask(&[Reply::chat(ACTION), Reply::chat(ANSWER)]);
        run.check(run.exit_code() == 0, &format!("{way:?} is answered"));
        let request = server.request(1);
        let said = turns(way.wire, &request);
        let roles: Vec<&str> = said.1.iter().map(|(role, _)| role.as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "user"], "{way:?}");
        assert_eq!(said.1[2].1, "Observation1: 13", "{way:?}");
        let first = first.get_or_insert_with(|| said.clone());
        assert_eq!(&said, first, "{way:?}");
        let body = &request.body;
        let header = |name| request.header(name);
        let stream = way.streamed;
        let keys = |keys: &[&str]| {
            let sent: Vec<&String> = body.as_object().unwrap().keys().collect();
            assert_eq!(sent, keys, "{way:?}");
        };
        match way.wire {
            Wire::OpenAi => {
                assert_eq!(request.path, "/v1/chat/completions");
                assert_eq!(header("authorization"), Some(&*format!("Bearer {KEY}")));
                assert_eq!(body["model"], "scripted");
                assert_eq!(body["stream"], stream);
                assert_eq!(body["stop"], json!(["\nObservation"]));
                assert_eq!(body["temperature"], 0.5);
                let usage = json!({"include_usage": true});
                assert_eq!(body.get("stream_options"), stream.then_some(&usage));
            }
            Wire::Anthropic => {
                assert_eq!(request.path, "/v1/messages");
                assert_eq!(header("x-api-key"), Some(KEY));
                assert_eq!(header("authorization"), None);
                assert_eq!(header("anthropic-version"), Some("2023-06-01"));
                keys(&[
                    "model",
                    "max_tokens",
                    "stream",
                    "system",
                    "stop_sequences",
                    "temperature",
                    "messages",
                ]);
                assert_eq!(body["model"], "scripted");
                assert_eq!(body["stream"], stream);
                assert_eq!(body["stop_sequences"], json!(["\nObservation"]));
                assert_eq!(body["temperature"], 0.5);
                assert!(body["max_tokens"].as_u64().unwrap() > 0);
            }
            Wire::Gemini => {
                let call = match stream {
                    true => "streamGenerateContent?alt=sse",
                    false => "generateContent",
                };
                assert_eq!(request.path, format!("/v1beta/models/scripted:{call}"));
                assert_eq!(header("x-goog-api-key"), Some(KEY));
                assert_eq!(header("authorization"), None);
                keys(&["systemInstruction", "generationConfig", "contents"]);
                let how = json!({"stopSequences": ["\nObservation"], "temperature": 0.5});
                assert_eq!(body["generationConfig"], how);
            }
            Wire::Ollama => {
                assert_eq!(request.path, "/api/chat");
                assert_eq!(header("authorization"), Some(&*format!("Bearer {KEY}")));
                keys(&["model", "stream", "options", "messages"]);
                assert_eq!(body["model"], "scripted");
                assert_eq!(body["stream"], stream);
                let how = json!({"stop": ["\nObservation"], "temperature": 0.5, "num_ctx": 8192});
                assert_eq!(body["options"], how);
            }
        }
        assert_eq!(header("content-type"), Some("application/json"));
    }
}

#[test]
fn ollama_keeps_the_whole_of_a_long_conversation() {
    let server = Server::replies(["Answer: ok"]);
    let words = "word ".repeat(12_000);
    Test::new()
        .args(["--base-url", &server.url(""), "-m", "ollama/scripted", "q"])
        .stdin(words)
        .run()
        .success();
    let sent = server.requests();
    let sent = sent.iter().find(|request| request.path == "/api/chat");
    assert_eq!(sent.unwrap().body["options"]["num_ctx"], 32768);
}
