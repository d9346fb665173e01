//! `reagent doctor`: what it finds, and how much it asks for.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::reply::Reply;
use crate::server::Server;
use crate::test::{Run, Test};

fn listed(models: &[&str]) -> Reply {
    let rows: Vec<Value> = models.iter().map(|id| json!({ "id": id })).collect();
    Reply::json(&json!({ "data": rows }))
}

fn props(window: u64) -> Reply {
    Reply::json(&json!({ "default_generation_settings": { "n_ctx": window } }))
}

/// Status and text of each check, by its name.
fn checks(run: &Run) -> Vec<(String, String, String)> {
    let events = run.events().0;
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let check = |event: &Value| {
        (
            text(event, "check"),
            text(event, "status"),
            text(event, "text"),
        )
    };
    events.iter().map(check).collect()
}

#[track_caller]
fn check(run: &Run, name: &str, status: &str, part: &str) {
    let found = checks(run);
    let found = found.iter().find(|(check, ..)| check == name);
    let (_, is, text) = found.unwrap_or_else(|| panic!("no `{name}` in {}", run.stdout));
    assert!(is == status && text.contains(part), "{name}: {is}: {text}");
}

#[test]
fn a_healthy_endpoint_is_asked_for_one_short_reply() {
    let server = Server::replies(["alpha"])
        .route("/v1/models", listed(&["other", "scripted"]))
        .route("/props", props(8192));
    let test = Test::with(&server)
        .arg("doctor")
        .env("OPENAI_API_KEY", "sk-canary-0123456789");
    let run = test.run().success().stdout_lacks("canary");
    for line in [
        "✔ model     scripted\n",
        "✔ key       from OPENAI_API_KEY\n",
        "✔ stop      are respected\n",
        "✔ context   8192 tokens; instructions and tools take about ",
        ", 2 models\n",
    ] {
        run.check(run.stdout.contains(line), &format!("stdout has {line:?}"));
    }
    let calls = server.requests();
    let calls: Vec<_> = calls
        .iter()
        .filter(|request| request.method == "POST")
        .collect();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].body["stop"], json!(["\nObservation"]));
    assert!(
        calls[0].body["max_tokens"]
            .as_u64()
            .is_some_and(|most| most <= 512)
    );
}

#[test]
fn what_is_wrong_is_a_failed_line_with_a_hint_and_exit_1() {
    let nobody = Server::nobody();
    let test = Test::new().args(["doctor", "--json", "-m", "x", "--base-url", &nobody]);
    let run = test.run().code(1);
    check(&run, "endpoint", "failed", "refused");
    assert!(
        run.stdout.contains("is the server running?"),
        "{}",
        run.stdout
    );

    let test = Test::new().args(["doctor", "--json", "-m", "openai/gpt-4o"]);
    check(
        &test.run().code(1),
        "model",
        "failed",
        "no API key for `openai`",
    );

    let test = Test::new()
        .args(["doctor", "--json"])
        .tools("[[tool]]\nname = \"x\"\n");
    check(&test.run().code(1), "tools", "failed", "given.toml:1:");

    let server = Server::web().route("/v1/models", Reply::error(401, "bad key"));
    let run = Test::with(&server).args(["doctor", "--json"]).run().code(1);
    check(&run, "endpoint", "failed", "bad key");

    let server = Server::replies([Reply::error(404, "no model `scripted`")])
        .route("/v1/models", listed(&["scripted-2"]));
    let run = Test::with(&server).args(["doctor", "--json"]).run().code(1);
    check(&run, "listed", "warning", "`scripted` is not in the list");
    check(&run, "reply", "failed", "no model `scripted`");
}

#[test]
fn a_settings_file_that_cannot_be_read_is_a_failed_line() {
    let test = Test::new()
        .args(["doctor", "--json"])
        .file("c/config.toml", "modell = 1\n");
    let folder = test.work().join("c");
    let test = test.env("REAGENT_CONFIG_DIR", folder.to_str().unwrap());
    check(
        &test.run().code(1),
        "settings",
        "failed",
        "did you mean `model`?",
    );
}

#[test]
fn what_works_but_could_be_better_is_a_warning() {
    let server = Server::replies(["alpha\nObservation: beta\ngamma"])
        .route("/v1/models", Reply::error(404, "no such page"))
        .route("/props", props(600));
    let test = Test::with(&server).args(["doctor", "--json"]).file(
        "tools.toml",
        "[[tool]]\nname = \"search\"\nfunction = \"wikipedia.search\"\n",
    );
    let open = test.state();
    fs::create_dir_all(&open).unwrap();
    fs::set_permissions(&open, fs::Permissions::from_mode(0o755)).unwrap();
    let run = test.run();
    check(&run, "endpoint", "warning", "lists no models");
    check(&run, "stop", "warning", "are ignored");
    check(&run, "state", "warning", "open to others");
    check(&run, "tools", "warning", "0 from tools.toml");

    let test = Test::new().args(["doctor", "--json"]);
    check(
        &test.run().success(),
        "model",
        "warning",
        "no model connected",
    );
}

#[test]
fn instructions_that_do_not_fit_are_found_before_a_server_cuts_them() {
    let server = Server::replies(["alpha"])
        .route("/v1/models", listed(&["scripted"]))
        .route("/props", props(512));
    let run = Test::with(&server).args(["doctor", "--json"]).run().code(1);
    check(&run, "context", "failed", "512 tokens");
}

#[test]
fn a_server_that_cuts_silently_is_asked_before_it_is_sent_much() {
    let show = |size: u64| {
        let reply = json!({ "model_info": { "llama.context_length": size } });
        Server::replies(["Answer: 1"]).route("/api/show", Reply::json(&reply))
    };
    let long = "word ".repeat(3000);
    let test = |server: &Server, flags: &[&str]| {
        let url = server.url("");
        Test::new()
            .args([
                "--base-url",
                &url,
                "-m",
                "ollama/x",
                "--no-stream",
                "--retries",
                "0",
            ])
            .args(flags.iter().copied())
            .run()
    };
    let server = show(2048);
    let run = test(&server, &["-s", &long, "q"]).code(6);
    run.error("the context window of the server is 2048")
        .hint("OLLAMA_CONTEXT_LENGTH");
    assert_eq!(server.calls(), 1, "only the size was asked for");
    // What is short is sent unasked, and so takes the one reply.
    test(&server, &["q"]);
    assert_eq!(server.calls(), 2);

    let server = show(32768);
    test(&server, &["-s", &long, "q"]);
    assert_eq!(server.request(1).body["options"]["num_ctx"], 8192);
}

#[test]
fn a_parameter_that_is_refused_is_a_warning() {
    let refusal = Reply::error(
        400,
        "Unsupported parameter: 'stop' is not supported with this model.",
    );
    let server = Server::replies([refusal, Reply::chat("alpha\nObservation: beta")])
        .route("/v1/models", listed(&["scripted"]));
    let run = Test::with(&server)
        .args(["doctor", "--json"])
        .run()
        .success();
    check(&run, "adapted", "warning", "takes no stop texts");
}
