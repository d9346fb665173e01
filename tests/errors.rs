//! Endpoints that fail: the exit code, the message, the hint, and nothing of it in the transcript.

use serde_json::json;

use crate::server::{Reply, Server};
use crate::test::{Test, ms};

#[test]
fn an_unreachable_endpoint_exits_6_and_names_the_address() {
    let base = Server::nobody();
    let port = base
        .trim_end_matches("/v1")
        .rsplit(':')
        .next()
        .unwrap()
        .to_owned();
    let run = Test::new()
        .args(["--base-url", &base, "-m", "scripted", "q"])
        .run();
    run.code(6)
        .stdout("")
        .error(&port)
        .hint("")
        .within(ms(15_000));
}

#[test]
fn a_rejected_key_exits_5_after_one_call() {
    for status in [401, 403] {
        let server = Server::replies([Reply::error(status, "Incorrect API key provided.")]);
        let run = Test::with(&server)
            .env("OPENAI_API_KEY", "sk-wrong")
            .arg("q")
            .run();
        run.code(5)
            .stdout("")
            .error("Incorrect API key provided.")
            .hint("key");
    }
}

#[test]
fn an_unknown_model_exits_6_after_one_call() {
    let server = Server::replies([Reply::error(404, "The model `scripted` does not exist")]);
    let run = Test::with(&server).arg("q").run();
    run.code(6)
        .stdout("")
        .error("The model `scripted` does not exist")
        .hint("model");
}

#[test]
fn a_server_that_keeps_failing_is_tried_three_times_in_all() {
    let server = Server::replies((1..=3).map(|_| Reply::error(500, "The server had an error")));
    let run = Test::with(&server).args(["--json", "q"]).run().code(6);
    let events = run.events();
    assert_eq!(events.end()["status"], "unreachable");
    assert!(
        events.of("error")[0]["text"]
            .as_str()
            .unwrap()
            .contains("The server had an error")
    );
    assert!(events.of("error")[0]["hint"].is_string());
    run.within(ms(20_000));
}

#[test]
fn a_failure_that_passes_leaves_no_trace_in_the_transcript() {
    let server = Server::replies([
        Reply::chat("Action1: add_numbers(1, 2)"),
        Reply::error(503, "canary: overloaded"),
        Reply::error(529, "canary: overloaded"),
        Reply::chat("Answer: 3"),
    ]);
    let run = Test::with(&server).args(["--json", "q"]).run().success();
    assert_eq!(run.events().end()["steps"], 2, "attempts are not steps");
    assert_eq!(server.request(1).body, server.request(3).body);
    assert!(!server.request(3).conversation().contains("canary"));
}

#[test]
fn a_request_that_the_server_refuses_is_not_sent_again() {
    let server = Server::replies([Reply::error(400, "This makes no sense to me")]);
    Test::with(&server)
        .arg("q")
        .run()
        .code(6)
        .error("This makes no sense to me");
}

#[test]
fn retry_after_is_obeyed() {
    let server = Server::replies([
        Reply::error(429, "slow down").header("retry-after", "1"),
        Reply::chat("Answer: ok"),
    ]);
    let run = Test::with(&server).arg("q").run().success().stdout("ok\n");
    run.check(run.duration >= ms(950), "it waits a second");
    run.within(ms(6000));
}

#[test]
fn nobody_waits_a_day_for_an_endpoint() {
    let server =
        Server::replies([Reply::error(429, "come back tomorrow").header("retry-after", "86400")]);
    let run = Test::with(&server).arg("q").run();
    run.code(6).error("come back tomorrow").within(ms(10_000));
}

#[test]
fn a_web_page_instead_of_a_completion_exits_6_and_doubts_the_address() {
    for flags in [&[][..], &["--no-stream"]] {
        let server = Server::always(Reply::page(
            200,
            "<!DOCTYPE html><html><body>Welcome, canary</body></html>",
        ));
        let run = Test::with(&server).args(flags).arg("q").run();
        run.code(6).stdout("").error("page").hint("base url");
        assert!(server.calls() <= 2, "{} calls", server.calls());
    }
}

#[test]
fn a_cut_body_exits_6() {
    for flags in [&[][..], &["--no-stream"]] {
        let server = Server::always(Reply::cut("Answer: only half of"));
        let run = Test::with(&server).args(flags).arg("q").run();
        run.code(6).stdout("").error("").hint("").within(ms(20_000));
        assert!(server.calls() <= 3, "{} calls", server.calls());
    }
}

#[test]
fn a_cut_body_followed_by_a_whole_one_leaves_nothing_behind() {
    for flags in [&[][..], &["--no-stream"]] {
        let server = Server::replies([
            Reply::cut("Answer: the canary is half of"),
            Reply::chat("Answer: whole"),
        ]);
        let run = Test::with(&server).args(flags).arg("q").run();
        run.success().stdout("whole\n");
        assert_eq!(server.request(0).body, server.request(1).body);
    }
}

#[test]
fn a_dropped_connection_is_tried_again() {
    let server = Server::replies([Reply::hang_up(), Reply::chat("Answer: ok")]);
    Test::with(&server).arg("q").run().success().stdout("ok\n");
}

#[test]
fn a_silent_endpoint_is_given_up_at_the_timeout() {
    let server = Server::always(Reply::chat("Answer: too late").after(ms(20_000)));
    let run = Test::with(&server).args(["--timeout", "300ms", "q"]).run();
    run.code(6).stdout("").error("").within(ms(12_000));
}

#[test]
fn an_error_inside_a_200_is_an_error() {
    let body = json!({"error": {"message": "No provider is up", "code": 502}});
    for flags in [&[][..], &["--no-stream"]] {
        let server = Server::always(Reply::json(&body));
        Test::with(&server)
            .args(flags)
            .arg("q")
            .run()
            .code(6)
            .error("No provider is up");
        assert!(server.calls() <= 3, "{} calls", server.calls());
    }
}

#[test]
fn an_error_inside_a_stream_is_an_error_and_half_an_answer_is_none() {
    let stream = concat!(
        "data: {\"choices\":[{\"delta\":{\"content\":\"Answer: half\"}}]}\n\n",
        "data: {\"error\":{\"message\":\"The engine fell over\",\"code\":500}}\n\n",
    );
    let server = Server::always(Reply::bytes("text/event-stream", stream));
    Test::with(&server)
        .arg("q")
        .run()
        .code(6)
        .stdout("")
        .error("The engine fell over");
}

#[test]
fn error_bodies_of_other_shapes_are_shown_too() {
    let rows = [
        (Reply::json(&json!({"error": "plain text"})), "plain text"),
        (
            Reply::json(&json!({"detail": "from a proxy"})),
            "from a proxy",
        ),
        (Reply::json(&json!({"message": "at the top"})), "at the top"),
        (
            Reply::bytes("text/plain", "no JSON at all"),
            "no JSON at all",
        ),
    ];
    for (reply, message) in rows {
        let server = Server::replies([reply.status(400)]);
        Test::with(&server).arg("q").run().code(6).error(message);
    }
}

#[test]
fn a_redirect_is_not_followed() {
    let elsewhere = Server::untouched();
    let away = Reply::page(302, "").header("location", elsewhere.url("/v1/chat/completions"));
    let server = Server::always(away);
    let run = Test::with(&server)
        .env("OPENAI_API_KEY", "sk-canary")
        .arg("q")
        .run();
    run.code(6).stdout("").error("302");
}

#[test]
fn plain_http_is_for_loopback_only() {
    let run = Test::new()
        .args(["--base-url", "http://192.0.2.1/v1", "-m", "scripted", "q"])
        .run();
    run.code(2).stdout("").error("http").within(ms(3000));
}

#[test]
fn a_broken_base_url_is_a_usage_error() {
    for url in ["nonsense", "ftp://127.0.0.1/v1", ""] {
        let run = Test::new()
            .args(["--base-url", url, "-m", "scripted", "q"])
            .run();
        run.check(run.exit_code() == 2, &format!("{url:?} is a usage error"));
    }
}

#[test]
fn slashes_and_paths_of_the_base_url_are_forgiven() {
    let server = Server::replies(["Answer: ok"; 3]);
    for base in [server.base_url() + "/", server.url(""), server.url("/")] {
        Test::new()
            .args(["--base-url", &base, "-m", "scripted", "q"])
            .run()
            .success();
    }
    for request in server.requests() {
        assert_eq!(request.path, "/v1/chat/completions");
    }
}

/// A server that keeps a connection, and closes it as soon as it is used again.
fn closing_late(replies: &'static [&'static str]) -> String {
    use std::io::{BufReader, Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for reply in replies {
            let (mut stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            crate::server::read(&mut reader).unwrap();
            let body =
                serde_json::json!({ "choices": [{ "message": { "content": reply } }] }).to_string();
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length";
            write!(stream, "{head}: {}\r\n\r\n{body}", body.len()).unwrap();
            let _ = reader.read(&mut [0]);
        }
    });
    url
}

#[test]
fn a_kept_connection_that_is_closed_is_no_failed_attempt() {
    let url = closing_late(&[
        "Action1: add_numbers(1, 2)",
        "Action2: add_numbers(2, 3)",
        "Answer: 5",
    ]);
    let test = Test::new().args(["--base-url", &url, "-m", "scripted", "--no-stream"]);
    let run = test.args(["--json", "--retries", "0", "q"]).run().success();
    let events = run.events();
    let failed = events
        .of("span")
        .into_iter()
        .filter(|span| span["ok"] == false);
    assert_eq!(failed.count(), 0);
    assert_eq!(events.end()["steps"], 3);
}
