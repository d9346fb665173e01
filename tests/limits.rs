//! No query goes on for ever: time, tokens and steps end it, whatever is under way.

use std::time::Duration;

use serde_json::json;

use crate::reply::Reply;
use crate::server::Server;
use crate::test::{ECHO, Run, Test};

/// What may pass between the limit and the end, on a busy machine, with the program's start.
const SLACK: Duration = Duration::from_millis(400);

#[track_caller]
fn over(run: Run, limit: &str) {
    let run = run
        .code(3)
        .error_event(&format!("no answer within {limit}"));
    let events = run.events();
    let end = events.of("end")[0];
    assert_eq!(
        (&end["status"], &end["exit_code"]),
        (&json!("limit"), &json!(3))
    );
    assert_eq!(run.events().0.last().unwrap()["type"], "end");
}

#[test]
fn time_ends_every_kind_of_wait() {
    const LIMIT: Duration = Duration::from_millis(600);
    let late = || Reply::chat("Answer: late").after(Duration::from_secs(20));
    let busy = || Reply::error(503, "busy").header("retry-after", "20");
    let slow = Server::web().route(
        "/slow",
        Reply::json(&json!({})).after(Duration::from_secs(20)),
    );
    let page = format!(
        "[[tool]]\nname = \"page\"\nfunction = \"http.get_json\"\nbind.url = \"{}\"\n",
        slow.url("/slow")
    );
    for (replies, tools) in [
        (vec![late()], ECHO),
        (vec![busy()], ECHO),
        (vec![Reply::chat("Action1: page()")], page.as_str()),
        (vec![Reply::chat("Action1: echo(\"x\")"), late()], ECHO),
        (vec![Reply::chat("What?"), late()], ECHO),
    ] {
        for flags in [&[][..], &["--on-limit", "answer"], &["--no-stream"]] {
            let server = Server::replies(replies.clone());
            let test =
                Test::with(&server)
                    .tools(tools)
                    .args(["--json", "--max-time", "600ms", "q"]);
            let run = test.args(flags.iter().copied()).run().within(LIMIT + SLACK);
            over(run, "--max-time 600ms");
        }
    }
}

#[test]
fn time_ends_what_never_waits() {
    let work = "9^9^9^9^9^9^9^9";
    let server = Server::replies([format!("Action1: calculate(\"{work}\")")]);
    let tools =
        "[[tool]]\nname = \"calculate\"\nfunction = \"math.calculate\"\ntimeout = \"60s\"\n";
    let test = Test::with(&server)
        .tools(tools)
        .args(["--json", "--max-time", "600ms", "q"]);
    let run = test.run();
    run.check(run.duration < Duration::from_millis(1500), "it ends soon");
    let server = Server::always(Reply::chat("Action1: echo(\"x\")"));
    let test =
        Test::with(&server)
            .tools(ECHO)
            .args(["--max-time", "600ms", "--ttl", "100000", "q"]);
    test.run().code(1).error("round in circles");
}

#[test]
fn time_left_is_no_limit() {
    let server = Server::replies(["Action1: echo(\"x\")", "Answer: in time"]);
    let test = Test::with(&server)
        .tools(ECHO)
        .args(["--max-time", "20s", "q"]);
    test.run().success().stdout("in time\n");
}

#[test]
fn tokens_end_a_query_before_the_next_call() {
    let act = |step: u32| Reply::chat(format!("Action{step}: echo(\"{step}\")"));
    // Each question costs a hundred tokens, and each reply a few.
    let server = Server::replies([act(1), act(2)]);
    let test = Test::with(&server)
        .tools(ECHO)
        .args(["--json", "--max-total-tokens", "150", "q"]);
    over(test.run(), "--max-total-tokens 150");
    let server = Server::replies([act(1), act(2), Reply::chat("Answer: as far as I know")]);
    let test = Test::with(&server).tools(ECHO).args([
        "--max-total-tokens",
        "150",
        "--on-limit",
        "answer",
        "q",
    ]);
    test.run().success().stdout("as far as I know\n");
}
