//! What endpoints send, in the shapes that real ones do, each with what must come of it.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use reagent::engine::parse::{self, Next};
use reagent::error::Error;
use reagent::llm::resolve::{Known, Source, resolve};
use reagent::llm::wire::Wire;
use reagent::llm::{self, Choice, Endpoint, Finish, Listener, Request};
use reagent::secret::Secret;
use reagent::session::event::Message;
use reagent::tool::call::Args;
use serde_json::{Value, json};

use crate::server::{Reply, Server};

const ROWS: &str = include_str!("data/endpoints.jsonl");
const KEY: &str = "sk-test-0000000000000000";

/// Hears a reply, and what the person is told.
#[derive(Default)]
struct Heard {
    text: String,
    notes: RefCell<Vec<String>>,
}

impl Listener for Heard {
    fn hear(&mut self, piece: &str) -> ControlFlow<()> {
        self.text += piece;
        ControlFlow::Continue(())
    }

    fn again(&mut self) -> bool {
        self.text.clear();
        true
    }

    fn note(&mut self, text: &str) {
        self.notes.borrow_mut().push(text.to_owned());
    }
}

fn wire(row: &Value) -> Wire {
    match row["protocol"].as_str().unwrap() {
        "endpoint-openai" => Wire::OpenAi,
        "endpoint-anthropic" => Wire::Anthropic,
        "endpoint-gemini" => Wire::Gemini,
        "endpoint-ollama" => Wire::Ollama,
        other => panic!("{other}"),
    }
}

pub(crate) fn endpoint(wire: Wire, address: &str) -> Endpoint {
    let name = match wire {
        Wire::OpenAi => "m",
        Wire::Anthropic => "anthropic/m",
        Wire::Gemini => "gemini/m",
        Wire::Ollama => "ollama/m",
    };
    let known = Known {
        model: Some(name),
        base_url: Some((address, Source::Flag)),
        ..Known::default()
    };
    let Choice::Remote(endpoint) = resolve(&known).unwrap().0 else {
        panic!("{name} is asked at {address}");
    };
    Endpoint {
        key: Secret::new(KEY),
        ..endpoint
    }
}

fn messages() -> Vec<Message> {
    vec![
        Message::system("Be kind."),
        Message::user("Question: q"),
        Message::assistant("Action1: look()"),
        Message::user(format!("Observation1: {}", "x".repeat(2000))),
        Message::assistant("Action2: look()"),
        Message::user("Observation2: y"),
    ]
}

/// What the row's response comes to, in the words of the rows.
fn outcome(row: &Value) -> Value {
    let (address, server) = serve(row);
    let options = llm::Options {
        stream: row["stream"] == true,
        retries: 1,
        timeout: Duration::from_secs(8),
        connect_timeout: Duration::from_secs(1),
        first_byte_timeout: Some(Duration::from_millis(400)),
        max_tokens: Some(512),
        temperature: Some(0.0),
        ..llm::Options::default()
    };
    let mut model = llm::connect(&Choice::Remote(endpoint(wire(row), &address)), &options);
    let mut heard = Heard::default();
    let messages = messages();
    let request = Request {
        messages: &messages,
        stop: &["\nObservation"],
        ..Request::default()
    };
    let begun = Instant::now();
    let reply = model.ask(&request, &mut heard);
    let waited = begun.elapsed();
    let posts = |server: &Server| {
        let requests = server.requests();
        requests
            .iter()
            .filter(|request| request.method == "POST")
            .count()
    };
    let calls = server.as_ref().map_or(1, posts);
    let notes = heard.notes.into_inner();
    if let (Some(note), Some(server)) = (notes.first(), &server) {
        let (first, second) = (server.request(0).body, server.request(1).body);
        assert!(first != second, "{note}, but the same was sent");
        return json!({"kind": "adapt", "change": change(&first, &second), "calls": calls});
    }
    match reply {
        Ok(reply) => {
            assert_eq!(heard.text, reply.text, "heard and given");
            let finish = match reply.finish {
                Finish::Stop => "stop",
                Finish::Length => "length",
                Finish::Other => "other",
            };
            let action = match parse::parse(&reply.text, reply.finish).next {
                Next::Action(action) => match action.args {
                    Args::Values { named, .. } => {
                        let args: serde_json::Map<String, Value> = named.into_iter().collect();
                        json!({"kind": "action", "tool": action.tool, "args": args})
                    }
                    Args::Text(_) => Value::Null,
                },
                _ => Value::Null,
            };
            json!({"kind": "text", "text": reply.text, "finish": finish, "action": action})
        }
        Err(error) => {
            let class = match &error {
                Error::Auth { .. } => "auth".to_owned(),
                Error::Endpoint { class, .. } => snake(&format!("{class:?}")),
                other => panic!("{other:?}"),
            };
            let said = format!("{error} {}", error.hint().unwrap_or_default());
            json!({"kind": "error", "class": class, "retry": calls > 1, "said": said,
                   "waited": waited.as_secs_f64(), "calls": calls})
        }
    }
}

/// What differs between two requests.
fn change(first: &Value, second: &Value) -> &'static str {
    let roles = |body: &Value| {
        let list = body["messages"].as_array().cloned().unwrap_or_default();
        list.iter()
            .map(|m| m["role"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    match () {
        () if first["stop"] != second["stop"] => "drop_stop",
        () if roles(first).first() != roles(second).first() => "fold_system",
        () if roles(first) != roles(second) => "merge_adjacent_roles",
        () if first.to_string().len() > second.to_string().len() + 1000 => "shrink_history",
        () => "something",
    }
}

fn snake(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('_');
        }
        text.extend(c.to_lowercase());
    }
    text
}

/// The row's response at an address of its own.
fn serve(row: &Value) -> (String, Option<Server>) {
    let event = row["transport"]["event"].as_str();
    let bytes = |text: &str| {
        base64::engine::general_purpose::STANDARD
            .decode(text)
            .unwrap()
    };
    let body = match (&row["body_b64"], row["chunks_b64"].as_array()) {
        (Value::String(text), _) => bytes(text),
        (_, Some(chunks)) => chunks
            .iter()
            .flat_map(|chunk| bytes(chunk.as_str().unwrap()))
            .collect(),
        _ => row["reply"].as_str().unwrap().as_bytes().to_vec(),
    };
    let headers = row["http"]["headers"].as_object().unwrap();
    let mut reply = Reply::bytes(headers["content-type"].as_str().unwrap(), body);
    for (name, value) in headers.iter().filter(|(name, _)| *name != "content-type") {
        reply = reply.header(name, value.as_str().unwrap());
    }
    let status = row["http"]["status"].as_u64().unwrap();
    reply = reply.status(u16::try_from(status).unwrap());
    let base = |address: std::net::SocketAddr| format!("http://{address}");
    match event {
        None => {
            let server = Server::always(reply);
            (
                server.base_url().trim_end_matches("/v1").to_owned(),
                Some(server),
            )
        }
        Some("connect_refused") => (Server::nobody(), None),
        Some(event) => {
            // Accepts, reads the request, and then does what the event says.
            let (silent, cut) = (event == "read_timeout", event == "short_body");
            let text = row["reply"].as_str().unwrap().to_owned();
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    let mut stream = stream.unwrap();
                    let mut buffer = [0; 65536];
                    let _ = stream.read(&mut buffer);
                    if cut {
                        let head = format!(
                            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{text}",
                            text.len() + 100
                        );
                        let _ = stream.write_all(head.as_bytes());
                    }
                    if silent {
                        thread::spawn(move || {
                            thread::sleep(Duration::from_secs(5));
                            drop(stream);
                        });
                    }
                }
            });
            (base(address), None)
        }
    }
}

/// Whether what came is what a row names.
fn fits(came: &Value, wanted: &Value) -> bool {
    let same = |key: &str| wanted[key].is_null() || came[key] == wanted[key];
    let says = |key: &str| {
        wanted[key]
            .as_str()
            .is_none_or(|words| came["said"].as_str().unwrap_or_default().contains(words))
    };
    match wanted["kind"].as_str().unwrap() {
        "text" => came["kind"] == "text" && same("text") && same("finish"),
        "action" => {
            came["action"]["tool"] == wanted["tool"] && came["action"]["args"] == wanted["args"]
        }
        "adapt" => came["kind"] == "adapt" && same("change"),
        "error" => {
            let hidden = wanted["must_redact"].as_str();
            let shown = |word| came["said"].as_str().unwrap_or_default().contains(word);
            let waited = wanted["retry_after_s"]
                .as_f64()
                .is_none_or(|s| came["waited"].as_f64().unwrap() >= s * 0.95);
            // With no other limit of length to set, a reply of reasoning alone is reported.
            let retry = !wanted["retry"].is_boolean()
                || came["kind"] == "error" && same("retry")
                || came["calls"].is_null();
            came["kind"] == "error"
                && same("class")
                && retry
                && says("message_contains")
                && waited
                && !hidden.is_some_and(shown)
        }
        _ => false,
    }
}

/// Rows about transport leave no count of calls behind; there only the class counts.
fn forgiving(row: &Value, wanted: &Value) -> Value {
    let mut wanted = wanted.clone();
    if row["transport"].is_object() {
        wanted["retry"] = Value::Null;
    }
    wanted
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

#[test]
fn every_endpoint_case_comes_out_as_wanted() {
    let rows: Vec<Value> = ROWS
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(rows.len() >= 120);
    let rows: Vec<Value> = rows
        .into_iter()
        .filter(|row| row["request"].is_null() || row["family"] == "ep_redirect")
        .collect();
    let checks = rows.into_iter().map(|row| {
        thread::spawn(move || {
            let came = outcome(&row);
            let mut wanted = vec![row["expect"].clone()];
            wanted.extend(list(&row["also_ok"]));
            let good = wanted
                .iter()
                .any(|wanted| fits(&came, &forgiving(&row, wanted)));
            let bad = list(&row["must_not"]).into_iter().find(|never| {
                // Any action at all, where no tool is named.
                match never["kind"].as_str() {
                    Some("action") if never["tool"].is_null() => {
                        !came["action"].is_null() && !wanted.iter().any(|w| w["kind"] == "action")
                    }
                    Some("request") => false,
                    _ => fits(&came, never),
                }
            });
            match (good, bad) {
                (true, None) => None,
                (_, bad) => Some(format!(
                    "{}: came {came}\n    wanted {}\n    never {bad:?}",
                    row["id"], row["expect"]
                )),
            }
        })
    });
    let checks: Vec<_> = checks.collect();
    let wrong: Vec<String> = checks
        .into_iter()
        .filter_map(|check| check.join().unwrap())
        .collect();
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

#[test]
fn a_base_url_leads_to_the_address_that_is_meant() {
    let rows = ROWS
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rows: Vec<Value> = rows.filter(|row| row["family"] == "ep_base_url").collect();
    assert!(rows.len() >= 4);
    for row in rows {
        let given = row["request"]["base_url"].as_str().unwrap();
        let url = endpoint(wire(&row), given).url(false);
        assert_eq!(url, row["expect"]["url"].as_str().unwrap(), "{given}");
    }
}
