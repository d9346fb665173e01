//! Standard input and output: nothing hangs, nothing is lost, nothing but the answer is on stdout.

use std::time::Duration;

use serde_json::json;

use crate::server::{Reply, Server};
use crate::test::{Test, ms};

/// The peak resident size that no reply and no tool may push the program over.
const MEMORY_KIB: u64 = 32 * 1024;

const HUNDRED_MB: usize = 100 * 1024 * 1024;

#[test]
fn a_slow_pipe_is_the_question() {
    let server = Server::replies(["Answer: yes"]);
    Test::with(&server)
        .stdin_after(ms(900), "Is it late?\n")
        .run()
        .success()
        .stdout("yes\n");
    assert_eq!(server.request(0).question(), "Is it late?");
}

#[test]
fn all_of_a_pipe_is_the_question() {
    let server = Server::replies(["Answer: yes"]);
    let parts = [
        (Duration::ZERO, "line one\n"),
        (ms(300), "line two\n"),
        (ms(300), "line three"),
    ];
    Test::with(&server).stdin_parts(&parts).run().success();
    let text = server.request(0).question();
    assert_eq!(text, "line one\nline two\nline three");
}

#[test]
fn a_question_and_a_pipe_are_both_sent_the_question_first() {
    let server = Server::replies(["Answer: two"]);
    let test = Test::with(&server)
        .arg("How many lines?")
        .stdin("first canary\nsecond canary\n");
    test.run().success().stdout("two\n");
    let text = server.request(0).conversation();
    let question = text.find("How many lines?").expect("the question is sent");
    let data = text
        .find("first canary\nsecond canary")
        .expect("the data is sent");
    assert!(question < data, "{text}");
}

#[test]
fn a_slow_writer_is_read_to_its_end_once_it_has_begun() {
    let server = Server::replies(["Answer: ok"]);
    let parts = [(Duration::ZERO, "begin "), (ms(800), "end")];
    Test::with(&server)
        .args(["--stdin-wait", "300ms", "q"])
        .stdin_parts(&parts)
        .run()
        .success();
    assert!(server.request(0).conversation().contains("begin end"));
}

#[test]
fn a_silent_pipe_is_left_alone_after_the_wait() {
    let server = Server::replies(["Answer: ok"]);
    let test = Test::with(&server)
        .args(["--stdin-wait", "300ms", "q"])
        .silent_stdin();
    let run = test.run().success().stdout("ok\n").within(ms(5000));
    run.check(run.duration >= ms(300), "it waits so long");
}

#[test]
fn a_silent_pipe_is_waited_for_with_a_notice() {
    let server = Server::replies(["Answer: ok"]);
    let test = Test::with(&server)
        .args(["--stdin-wait", "1s", "q"])
        .silent_stdin();
    test.run().success().notice("input");
}

#[test]
fn data_that_comes_late_is_an_error_and_never_lost_in_silence() {
    let server = Server::replies([Reply::chat("Answer: ok").after(ms(2000))]);
    let test = Test::with(&server).args(["--stdin-wait", "200ms", "q"]);
    let run = test.stdin_after(ms(1200), "late canary\n").run();
    run.code(1).error("input").hint("-");
}

#[test]
fn a_dash_waits_for_ever() {
    // Longer than the ten seconds for which a pipe is waited for without it.
    let server = Server::replies(["Answer: ok"]);
    let test = Test::with(&server)
        .args(["q", "-"])
        .stdin_after(ms(10_800), "late canary\n");
    test.run().success().stdout("ok\n");
    assert!(server.request(0).conversation().contains("late canary"));
    assert!(!server.request(0).conversation().contains("q -"));
}

#[test]
fn nothing_to_ask_exits_2_at_once() {
    for test in [
        Test::demo(),
        Test::demo().stdin(""),
        Test::demo().stdin(" \n\n"),
        Test::demo().closed_stdin(),
    ] {
        test.run()
            .code(2)
            .stdout("")
            .error("")
            .hint("reagent")
            .within(ms(3000));
    }
}

#[test]
fn dev_null_is_not_waited_for() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .arg("q")
        .run()
        .success()
        .within(ms(2500));
}

#[test]
fn a_missing_stdin_is_no_reason_to_fail() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .arg("q")
        .closed_stdin()
        .run()
        .success()
        .stdout("ok\n");
}

#[test]
fn an_empty_question_is_a_usage_error() {
    let server = Server::untouched();
    Test::with(&server).arg("").run().code(2);
    Test::with(&server).arg("  \n").run().code(2);
}

#[test]
fn a_reader_that_leaves_after_one_line_ends_it_quietly() {
    let answer = "line\n".repeat(40_000);
    let server = Server::replies([format!("Answer: {answer}")]);
    let test = Test::with(&server).arg("q").close_stdout_after_one_line();
    test.run().success().stdout("line\n").err_lacks("error: ");
}

#[test]
fn a_reader_of_events_that_leaves_after_one_line_ends_it_quietly() {
    let test = Test::demo().args(["--json", "1 + 2 * 3 - 4"]);
    let run = test.close_stdout_after_one_line().run().success();
    run.check(
        run.stdout.contains(r#""type":"start""#),
        "the first line is the start",
    );
    run.err_lacks("error: ");
}

#[test]
fn no_escape_byte_of_the_model_reaches_a_pipe() {
    let server = Server::replies([
        "Thought1: \u{1b}[31mred\u{1b}[0m \u{9b}31m\nAction1: add_numbers(1, 2)",
        "Answer: \u{1b}]52;c;Y3VybA==\u{7}the title\u{1b}]0;pwned\u{7} is \u{1b}[1mfine\u{202e}",
    ]);
    let run = Test::with(&server)
        .arg("q")
        .run()
        .success()
        .out_has("the title")
        .out_has("fine");
    let controls = |text: &str| {
        text.chars()
            .any(|c| c != '\n' && c != '\t' && c.is_control())
    };
    run.check(
        !controls(&run.stdout) && !controls(&run.stderr),
        "no control character is left",
    );
}

#[test]
fn no_escape_byte_of_a_tool_reaches_a_pipe_or_the_model() {
    let web = Server::web().route(
        "/page",
        Reply::json(&json!({"v": "\u{1b}[31mred\u{1b}]0;title\u{7} canary"})),
    );
    let server = Server::replies(["Action1: page()", "Answer: ok"]);
    let tools = format!(
        "[[tool]]\nname = \"page\"\nfunction = \"http.get_json\"\ndescription = \"A page.\"\n\
         bind.url = \"{}\"\nbind.select = \"/v\"\napproval = \"allow\"\n",
        web.url("/page")
    );
    let run = Test::with(&server).tools(&tools).arg("q").run().success();
    run.err_has("canary");
    assert!(server.request(1).last().contains("canary"));
}

#[test]
fn no_escape_byte_of_an_endpoint_s_error_reaches_a_pipe() {
    let server = Server::replies([Reply::error(400, "\u{1b}[2J\u{1b}]0;pwned\u{7}canary")]);
    Test::with(&server).arg("q").run().code(6).error("canary");
}

#[test]
fn no_escape_byte_of_the_question_reaches_a_pipe() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .arg("\u{1b}[31mcanary")
        .run()
        .success()
        .err_has("canary");
}

fn memory_of_a_reply(flags: &[&str]) {
    let server = Server::always(Reply::long("Answer: begin ", HUNDRED_MB));
    let run = Test::with(&server).args(flags).arg("q").run();
    run.check(run.peak_kib > 0, "the peak was measured");
    run.check(
        run.peak_kib < MEMORY_KIB,
        &format!("the peak is under 32 MB, not {} KiB", run.peak_kib),
    );
    run.check(run.stdout.len() < 16 << 20, "the answer is bounded");
}

#[test]
fn a_reply_of_100_mb_is_bounded_in_memory() {
    memory_of_a_reply(&["--no-stream"]);
}

#[test]
fn a_stream_of_100_mb_is_bounded_in_memory() {
    memory_of_a_reply(&[]);
}

#[test]
fn a_tool_output_of_100_mb_is_bounded_in_memory() {
    let web = Server::web().route("/big", Reply::long_json(HUNDRED_MB));
    let server = Server::replies(["Action1: big()", "Answer: ok"]);
    let tools = format!(
        "[[tool]]\nname = \"big\"\nfunction = \"http.get_json\"\ndescription = \"A page.\"\n\
         bind.url = \"{}\"\napproval = \"allow\"\n",
        web.url("/big")
    );
    let run = Test::with(&server).tools(&tools).arg("q").run().success();
    run.check(run.peak_kib > 0, "the peak was measured");
    run.check(
        run.peak_kib < MEMORY_KIB,
        &format!("the peak is under 32 MB, not {} KiB", run.peak_kib),
    );
    assert!(
        server.request(1).last().len() < 64 * 1024,
        "the model sees a part only"
    );
}

#[test]
fn an_error_page_of_100_mb_is_bounded_in_memory() {
    let server = Server::always(Reply::long_json(HUNDRED_MB).status(400));
    let run = Test::with(&server).arg("q").run().code(6);
    run.check(
        run.peak_kib < MEMORY_KIB,
        &format!("the peak is under 32 MB, not {} KiB", run.peak_kib),
    );
    run.check(run.stderr.len() < 100_000, "the message is short");
}
