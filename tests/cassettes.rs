//! Exchanges that were recorded with the real services: what they sent is read as what it says.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::server::{Reply, Server};
use crate::test::{Events, Test};

const PRICE_TOOL: &str = r#"
[[tool]]
name = "price_tool"
function = "debug.echo"
description = "Get the price of cryptocurrencies"
params.coin = { type = "string" }
"#;

/// A recording, the exchanges of it that are played, and what comes of them.
struct Row {
    file: &'static str,
    model: &'static str,
    played: &'static [usize],
    comes: Comes,
}

enum Comes {
    /// The answer, the arguments of the actions on the way, and the tokens of each call, in and out.
    Answer(&'static str, &'static [&'static str], &'static [(u64, u64)]),
    /// The server's own words.
    Error(&'static str),
}

const fn row(
    file: &'static str,
    model: &'static str,
    played: &'static [usize],
    comes: Comes,
) -> Row {
    Row {
        file,
        model,
        played,
        comes,
    }
}

// Plain prose is asked for once more: there the one exchange is played twice.
const ROWS: &[Row] = &[
    row(
        "agent-anthropic-answers-a-basic-question",
        "anthropic/claude-3-5-sonnet-20240620",
        &[0],
        Comes::Answer(
            "The capital of Japan is Tokyo.\n\nTokyo has been the capital of Japan since 1868, when it replaced \
             the former capital, Kyoto. It is not only the political center of Japan but also its economic and \
             cultural hub, being one of the world's largest and most populous metropolitan areas.",
            &[],
            &[(237, 104)],
        ),
    ),
    row(
        "agent-google-gemini-answers-a-basic-question",
        "gemini/gemini-1.5-pro-002",
        &[0],
        Comes::Answer("Tokyo", &[], &[(229, 14)]),
    ),
    row(
        "agent-google-gemini-answers-a-question-with-a-tool",
        "gemini/gemini-1.5-pro-002",
        &[0, 1],
        Comes::Answer(
            "The price of Bitcoin is $107,000.",
            &["Bitcoin"],
            &[(246, 30), (301, 27)],
        ),
    ),
    row(
        "agent-google-gemini-answers-a-question-with-a-tool",
        "gemini/gemini-1.5-pro-002",
        &[2, 3],
        Comes::Answer(
            "The price of Ethereum is $6,000.",
            &["Ethereum"],
            &[(246, 30), (301, 25)],
        ),
    ),
    row(
        "agent-openai-answers-a-basic-question",
        "openai/gpt-4o",
        &[0],
        Comes::Answer("The capital of Japan is Tokyo.", &[], &[(170, 57)]),
    ),
    row(
        "agent-openai-answers-a-question-with-a-tool",
        "openai/gpt-4o-mini",
        &[0, 1],
        Comes::Answer(
            "The price of Bitcoin is $107,000.",
            &["Bitcoin"],
            &[(239, 28), (293, 30)],
        ),
    ),
    row(
        "agent-openai-answers-a-question-with-a-tool",
        "openai/gpt-4o-mini",
        &[2, 3],
        Comes::Answer(
            "The price of Ethereum is $6,000.",
            &["Ethereum"],
            &[(239, 28), (293, 30)],
        ),
    ),
    row(
        "llm-anthropic-non-existent-model",
        "anthropic/claude-4.1-haiku",
        &[0],
        Comes::Error("system: Input should be a valid list"),
    ),
    row(
        "llm-anthropic-success-response",
        "anthropic/claude-3-5-sonnet-20240620",
        &[0, 0],
        Comes::Answer(
            "The capital of Japan is Tokyo. Tokyo has been the capital of Japan since 1868, when it replaced Kyoto \
             as the seat of the Emperor and the national government. It is the most populous metropolitan area in \
             the world and serves as Japan's political, economic, and cultural center. Tokyo is known for its \
             unique blend of modern technology and traditional culture, bustling urban areas, and efficient \
             transportation systems.",
            &[],
            &[(14, 86), (14, 86)],
        ),
    ),
    row(
        "llm-google-gemini-non-existent-model",
        "gemini/gemini-3.5-flash",
        &[0],
        Comes::Error(
            "models/gemini-3.5-flash is not found for API version v1, or is not supported for generateContent. Call \
             ListModels to see the list of available models and their supported methods.",
        ),
    ),
    row(
        "llm-google-gemini-success-response",
        "gemini/gemini-1.5-flash",
        &[0, 0],
        Comes::Answer("Tokyo", &[], &[(8, 2), (8, 2)]),
    ),
    row(
        "llm-ollama-success-response",
        "ollama/gemma",
        &[0, 0],
        Comes::Answer(
            "The capital city of Japan is Tokyo.\n\nIt is the political, economic, and cultural center of Japan and \
             is known for its modern cityscape and traditional culture.",
            &[],
            &[(29, 33), (29, 33)],
        ),
    ),
    row(
        "llm-openai-non-existent-model",
        "openai/gpt-4.1o-mini",
        &[0],
        Comes::Error("The model `gpt-4.1o-mini` does not exist or you do not have access to it."),
    ),
    row(
        "llm-openai-success-response",
        "openai/gpt-4o-mini",
        &[0, 0],
        Comes::Answer("The capital of Japan is Tokyo.", &[], &[(14, 7), (14, 7)]),
    ),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cassettes")
}

fn exchanges(file: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join(file).with_extension("json")).unwrap();
    let cassette: Value = serde_json::from_str(&text).unwrap();
    cassette["exchanges"].as_array().unwrap().clone()
}

/// The path of a recorded call, and what of it is the base URL's.
fn path(exchange: &Value) -> (String, String) {
    let url = exchange["request"]["url"].as_str().unwrap();
    let path = url.splitn(4, '/').nth(3).unwrap();
    let root = path.split('/').next().filter(|root| root.starts_with('v'));
    (format!("/{path}"), format!("/{}", root.unwrap_or_default()))
}

fn spans(events: &Events) -> Vec<(u64, u64)> {
    let spans = events.of("span").into_iter();
    let calls = spans.filter(|span| span["kind"] == "LLM");
    let count = |span: &Value, key: &str| span[key].as_u64().unwrap();
    calls
        .map(|span| (count(span, "input_tokens"), count(span, "output_tokens")))
        .collect()
}

#[test]
fn every_recorded_exchange_is_read_as_what_it_says() {
    for row in ROWS {
        let exchanges = exchanges(row.file);
        let played: Vec<&Value> = row.played.iter().map(|at| &exchanges[*at]).collect();
        let server = Server::replies(played.iter().map(|exchange| {
            let status = exchange["response"]["status"].as_u64().unwrap();
            Reply::json(&exchange["response"]["body"]).status(u16::try_from(status).unwrap())
        }));
        let (path, root) = path(played[0]);
        let run = Test::new()
            .env("REAGENT_API_KEY", "none-was-recorded")
            .tools(PRICE_TOOL)
            .args(["--base-url", &server.url(&root), "-m", row.model])
            .args(["--no-stream", "--json", "What is it?"])
            .run();
        assert_eq!(server.request(0).path, path, "{}", row.file);
        let events = run.events();
        match row.comes {
            Comes::Answer(answer, coins, tokens) => {
                run.check(run.exit_code() == 0, row.file);
                assert_eq!(events.of("answer")[0]["text"], answer, "{}", row.file);
                let actions = events.of("action").into_iter();
                let args: Vec<&Value> = actions.map(|action| &action["args"]["coin"]).collect();
                assert_eq!(args, coins, "{}", row.file);
                assert_eq!(spans(&events), tokens, "{}", row.file);
                let (input, output) = tokens.iter().fold((0, 0), |(i, o), t| (i + t.0, o + t.1));
                assert_eq!(events.end()["input_tokens"], input, "{}", row.file);
                assert_eq!(events.end()["output_tokens"], output, "{}", row.file);
            }
            Comes::Error(words) => {
                run.check(run.exit_code() == 6, row.file);
                let said = events.of("error")[0]["text"].as_str().unwrap();
                assert!(said.ends_with(words), "{}: {said}", row.file);
            }
        }
    }
}

#[test]
fn no_recording_is_left_out_and_none_holds_a_key() {
    let played = ROWS.iter().flat_map(|row| {
        let exchanges = row.played.iter();
        exchanges.map(|at| (row.file.to_owned(), *at))
    });
    let played: BTreeSet<(String, usize)> = played.collect();
    let mut there = BTreeSet::new();
    for entry in fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap().to_lowercase();
        for word in [
            "api_key",
            "api-key",
            "authorization",
            "bearer",
            "?key=",
            "\"sk-",
        ] {
            assert!(!text.contains(word), "{path:?} has {word}");
        }
        let name = path.file_stem().unwrap().to_str().unwrap();
        there.extend((0..exchanges(name).len()).map(|at| (name.to_owned(), at)));
    }
    assert_eq!(played, there);
}
