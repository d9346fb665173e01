//! Plain scenarios: a question, no, one or many tools, an answer.

use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::test::{Run, Test};

/// A tool under the name that the recorded exchanges use.
const PRICE_TOOL: &str = r#"
[[tool]]
name = "price_tool"
function = "debug.echo"
description = "Get the price of cryptocurrencies."
params.coin = { type = "string" }
"#;

#[test]
fn the_first_minute_needs_no_key_no_config_and_no_network() {
    let run = Test::new().arg("What is 10 * 3 + 10?").run().success();
    run.check(run.stdout.contains("40"), "the answer says 40");
    run.err_line("Query: What is 10 * 3 + 10?")
        .err_line("Thought1: ")
        .err_line("Action1: ")
        .err_line("Observation1: ")
        .err_line("Answer: ")
        .notice("demo");
}

#[test]
fn demo_adds_up_in_words() {
    let run = Test::demo().arg("What is ten times three plus ten?").run();
    run.success().out_has("40");
}

#[test]
fn demo_tells_the_time_with_the_time_tool() {
    let run = Test::demo().arg("What time is it?").run().success();
    run.check(
        run.stderr.contains("Action1: current_time("),
        "it asks the clock tool",
    );
    run.check(run.stdout.contains(':'), "the answer has a time of day");
}

#[test]
fn demo_says_how_to_connect_a_model_when_it_cannot_answer() {
    let run = Test::demo()
        .arg("Write me a poem about the sea")
        .run()
        .code(2);
    run.check(run.stdout.is_empty(), "nothing is on stdout");
    run.error("demo").hint("");
}

#[test]
fn an_answer_at_once_makes_three_spans_and_sends_two_messages() {
    let server = Server::replies(["Thought1: I know this.\nAnswer: Paris"]);
    let run = Test::with(&server)
        .args(["--json", "Capital of France?"])
        .run();
    let run = run.success();
    let events = run.events();
    assert_eq!(events.spans(), ["INPUT", "LLM", "ANSWER"]);
    assert_eq!(events.of("answer")[0]["text"], "Paris");
    assert_eq!(server.request(0).roles(), ["system", "user"]);
    assert_eq!(server.request(0).question(), "Capital of France?");
}

#[test]
fn one_tool_makes_five_spans_and_the_model_sees_the_observation() {
    let server = Server::replies([
        "Thought1: I must add.\nAction1: add_numbers(10, 3)",
        "Thought2: That is it.\nAnswer: The sum is 13.",
    ]);
    let run = Test::with(&server)
        .args(["--json", "What is 10 + 3?"])
        .run();
    let run = run.success();
    assert_eq!(
        run.events().spans(),
        ["INPUT", "LLM", "TOOL", "LLM", "ANSWER"]
    );
    let request = server.request(1);
    assert_eq!(request.roles(), ["system", "user", "assistant", "user"]);
    let messages = request.messages();
    assert_eq!(
        messages[2].1.trim(),
        "Thought1: I must add.\nAction1: add_numbers(10, 3)"
    );
    assert_eq!(messages[3].1.trim(), "Observation1: 13");
    assert_eq!(
        messages[0],
        server.request(0).messages()[0],
        "the system prompt stays as it was"
    );
}

#[test]
fn the_trace_shows_every_step_and_stdout_only_the_answer() {
    let server = Server::replies([
        "Thought1: I must add.\nAction1: add_numbers(10, 3)",
        "Thought2: That is it.\nAnswer: The sum is 13.",
    ]);
    let run = Test::with(&server).arg("What is 10 + 3?").run().success();
    assert_eq!(
        run.trace(),
        [
            "Query: What is 10 + 3?",
            "Thought1: I must add.",
            "Action1: add_numbers(10, 3)",
            "Observation1: 13",
            "Thought2: That is it.",
            "Answer: The sum is 13.",
        ]
    );
    run.stdout("The sum is 13.\n");
}

fn five_tools_in_a_row(flags: &[&str]) {
    let mut replies: Vec<String> = (1..=5)
        .map(|n| format!("Thought{n}: Step {n}.\nAction{n}: add_numbers({n}, 100)"))
        .collect();
    replies.push("Answer: Done.".to_owned());
    let server = Server::replies(replies);
    let run = Test::with(&server)
        .args(flags)
        .arg("Five steps, please")
        .run();
    let run = run.success().stdout("Done.\n");
    for n in 1..=5 {
        let line = format!("Observation{n}: {}", 100 + n);
        run.check(run.trace().contains(&line.as_str()), &line);
    }
    assert_eq!(server.calls(), 6);
    assert_eq!(
        server.connections(),
        1,
        "one connection serves the whole query"
    );
    assert_eq!(server.request(5).messages().len(), 12);
}

#[test]
fn five_tools_in_a_row_use_one_connection() {
    five_tools_in_a_row(&[]);
}

#[test]
fn five_tools_in_a_row_use_one_connection_without_streaming_too() {
    five_tools_in_a_row(&["--no-stream"]);
}

#[test]
fn the_super_bowl_chain_ends_in_fahrenheit() {
    let server = Server::replies([
        "Thought5: To Fahrenheit.\nAction5: multiply_numbers(10.290999412536621, 1.8)",
        "Thought6: And 32.\nAction6: add_numbers(18.523798942566, 32)",
        "Answer: It is approximately 50.52 degrees Fahrenheit.\n\n1. Converted.\n2. Added.",
    ]);
    let run = Test::with(&server).arg("10.29 C in F?").run().success();
    run.check(
        run.trace().contains(&"Observation2: 50.523798942566"),
        "no noise in the last digits",
    );
    run.stdout("It is approximately 50.52 degrees Fahrenheit.\n\n1. Converted.\n2. Added.\n");
}

#[test]
fn a_sum_of_decimals_has_no_noise() {
    let server = Server::replies(["Action1: add_numbers(0.1, 0.2)", "Answer: 0.3"]);
    Test::with(&server).arg("0.1 + 0.2?").run().success();
    assert_eq!(server.request(1).last().trim(), "Observation1: 0.3");
}

fn cassette(text: &str) -> Vec<Value> {
    let cassette: Value = serde_json::from_str(text).unwrap();
    let exchanges = cassette["exchanges"].as_array().unwrap().clone();
    exchanges
        .into_iter()
        .map(|exchange| exchange["response"]["body"].clone())
        .collect()
}

fn recorded(bodies: &[Value], streamed: bool, question: &str) -> (Run, Server) {
    let text = |body: &Value| {
        body["choices"][0]["message"]["content"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let replies = bodies.iter().map(|body| match streamed {
        true => Reply::chat(text(body)),
        false => Reply::json(body),
    });
    let server = Server::replies(replies);
    let flags: &[&str] = if streamed { &[] } else { &["--no-stream"] };
    let test = Test::with(&server).tools(PRICE_TOOL).args(flags);
    let run = test.args(["--json", question]).run().success();
    (run, server)
}

#[test]
fn the_recorded_basic_question_gives_its_recorded_answer() {
    let bodies = cassette(include_str!(
        "data/cassettes/agent-openai-answers-a-basic-question.json"
    ));
    for streamed in [true, false] {
        let (run, _server) = recorded(&bodies, streamed, "What is the capital of Japan");
        let events = run.events();
        assert_eq!(
            events.of("answer")[0]["text"],
            "The capital of Japan is Tokyo."
        );
        assert_eq!(events.spans(), ["INPUT", "LLM", "ANSWER"]);
        if !streamed {
            assert_eq!(events.end()["input_tokens"], 170);
            assert_eq!(events.end()["output_tokens"], 57);
        }
    }
}

#[test]
fn the_recorded_tool_questions_give_their_recorded_answers() {
    let bodies = cassette(include_str!(
        "data/cassettes/agent-openai-answers-a-question-with-a-tool.json"
    ));
    let rows = [
        (
            &bodies[0..2],
            "Bitcoin",
            "The price of Bitcoin is $107,000.",
        ),
        (
            &bodies[2..4],
            "Ethereum",
            "The price of Ethereum is $6,000.",
        ),
    ];
    for (bodies, coin, answer) in rows {
        for streamed in [true, false] {
            let question = format!("What is the price of {coin}?");
            let (run, server) = recorded(bodies, streamed, &question);
            let events = run.events();
            assert_eq!(events.of("answer")[0]["text"], answer);
            assert_eq!(events.spans(), ["INPUT", "LLM", "TOOL", "LLM", "ANSWER"]);
            assert_eq!(events.of("action")[0]["args"], json!({"coin": coin}));
            let seen = server.request(1).last();
            assert!(
                seen.starts_with("Observation1: ") && seen.contains(coin),
                "{seen}"
            );
        }
    }
}

#[test]
fn an_answer_keeps_its_lines_letters_and_marker_words() {
    let answer = "Zürich 東京 🙂\n\n* Action: none\n* Answer: twice\n\n    indented";
    let server = Server::replies([format!("Answer: {answer}")]);
    Test::with(&server)
        .arg("?")
        .run()
        .success()
        .stdout(&format!("{answer}\n"));
}

#[test]
fn an_answer_without_any_tool_is_marked() {
    let server = Server::replies(["Answer: 42"; 2]);
    Test::with(&server).arg("q").run().success().notice("tool");
    let run = Test::with(&server).args(["--json", "q"]).run().success();
    assert_eq!(run.events().end()["tool_calls"], 0);
}

#[test]
fn words_without_quotes_are_one_question() {
    let server = Server::replies(["Answer: 4"]);
    Test::with(&server)
        .args(["What", "is", "2", "+", "2"])
        .run()
        .success();
    assert_eq!(server.request(0).question(), "What is 2 + 2");
}

#[test]
fn the_system_prompt_shows_each_tool_with_its_signature() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server).arg("q").run().success();
    let system = server.request(0).system();
    for tool in ["add_numbers(x", "calculate(", "current_time("] {
        assert!(system.contains(tool), "{tool} is missing in:\n{system}");
    }
    assert!(!system.contains("{tools}"), "no placeholder is left over");
}

#[test]
fn the_request_names_the_model_the_stop_sequence_and_streaming() {
    let server = Server::replies(["Answer: ok"; 2]);
    Test::with(&server).arg("q").run().success();
    Test::with(&server)
        .args(["--no-stream", "q"])
        .run()
        .success();
    let streamed = server.request(0);
    assert_eq!(streamed.path, "/v1/chat/completions");
    assert_eq!(streamed.body["model"], "scripted");
    assert_eq!(streamed.body["stream"], true);
    assert!(
        streamed.body["stop"]
            .as_array()
            .unwrap()
            .contains(&json!("\nObservation"))
    );
    assert_ne!(server.request(1).body["stream"], true);
}

#[test]
fn temperature_and_max_tokens_reach_the_model() {
    let server = Server::replies(["Answer: ok"]);
    let test = Test::with(&server).args(["--temperature", "0.5", "--max-tokens", "77", "q"]);
    test.run().success();
    let body = server.request(0).body;
    assert_eq!(body["temperature"], 0.5);
    assert!(
        body["max_tokens"] == 77 || body["max_completion_tokens"] == 77,
        "{body}"
    );
}

#[test]
fn files_and_system_texts_are_seen_by_the_model() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .file("one.txt", "the first canary")
        .file("two.txt", "the second canary")
        .file("system.txt", "the third canary")
        .args([
            "-f",
            "one.txt",
            "--file",
            "two.txt",
            "-s",
            "the fourth canary",
            "--system-file",
            "system.txt",
        ])
        .arg("What do you see?")
        .run()
        .success();
    let request = server.request(0);
    let all = request.system() + &request.conversation();
    for canary in ["first", "second", "third", "fourth"] {
        assert!(
            all.contains(&format!("the {canary} canary")),
            "the {canary} is missing in:\n{all}"
        );
    }
    assert!(request.conversation().contains("What do you see?"));
}

#[test]
fn a_missing_context_file_is_a_usage_error_before_any_call() {
    let server = Server::untouched();
    let run = Test::with(&server).args(["-f", "nowhere.txt", "q"]).run();
    run.code(2).error("nowhere.txt");
}

#[test]
fn the_model_and_its_address_may_come_from_the_environment() {
    let server = Server::replies(["Answer: ok"]);
    Test::new()
        .env("REAGENT_BASE_URL", server.base_url())
        .env("REAGENT_MODEL", "from-the-environment")
        .arg("q")
        .run()
        .success();
    assert_eq!(server.request(0).body["model"], "from-the-environment");
}
