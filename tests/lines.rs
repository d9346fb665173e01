//! `--lines`: a question a line, an answer a line.

use serde_json::Value;

use crate::reply::Reply;
use crate::server::Server;
use crate::test::Test;

#[test]
fn line_n_of_the_output_is_the_answer_to_line_n() {
    let test = Test::demo().arg("--lines");
    let run = test
        .stdin("2 + 3\nwho are you?\n\n4 * 5\n\"x")
        .run()
        .code(1);
    let lines: Vec<&str> = run.stdout.split('\n').collect();
    assert_eq!(lines, ["2 + 3 = 5", "", "", "4 * 5 = 20", "", ""]);
    let run = run.notice("line 2: `demo` cannot answer this");
    let run = run
        .notice("line 3: nothing to ask")
        .notice("5 questions: 2 answered, 3 failed");
    run.err_lacks("Thought");
    let run = Test::demo().arg("--lines").stdin("2 + 3\n").run().success();
    run.stdout("2 + 3 = 5\n")
        .notice("1 question: 1 answered, 0 failed");
    Test::demo().arg("--lines").run().success().stdout("");
}

#[test]
fn line_breaks_and_backslashes_in_an_answer_are_written_out() {
    let server = Server::replies(["Answer: C:\\n\n1. so\u{1b}[2J"]);
    let run = Test::with(&server)
        .arg("--lines")
        .stdin("q\n")
        .run()
        .success();
    run.stdout("C:\\\\n\\n1. so^[[2J\n");
}

#[test]
fn words_go_before_each_line_and_nothing_is_remembered() {
    let server = Server::replies(["Answer: a", "Answer: b"]);
    let test = Test::with(&server).args(["--lines", "Translate:"]);
    test.stdin("one\ntwo\n").run().success().stdout("a\nb\n");
    for (request, question) in [(0, "Translate: one"), (1, "Translate: two")] {
        let messages = server.request(request).messages();
        assert_eq!(messages.len(), 2, "{messages:?}");
        assert_eq!(messages[1].1, format!("Question: {question}"));
    }
    assert_eq!(server.connections(), 1);
}

#[test]
fn with_json_each_line_has_its_events() {
    let run = Test::demo()
        .args(["--lines", "--json"])
        .stdin("2 + 3\nno\n")
        .run()
        .code(1);
    let kinds: Vec<String> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|event| event["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds.iter().filter(|kind| *kind == "start").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| *kind == "end").count(), 2);
    assert_eq!(kinds.iter().filter(|kind| *kind == "answer").count(), 1);
}

#[test]
fn many_lines_take_no_more_memory_than_few() {
    let peak = |count: usize| {
        let server =
            Server::always(Reply::chat("Answer: ".to_owned() + &"word ".repeat(200))).at_will();
        let test = Test::with(&server).args(["--lines", "--no-save"]);
        let run = test.stdin("What is it?\n".repeat(count)).run().success();
        assert_eq!(run.stdout.lines().count(), count);
        run.peak_kib
    };
    let (few, many) = (peak(50), peak(1000));
    assert!(many < few + 1500, "{few} KiB for 50, {many} KiB for 1000");
}

#[test]
fn a_line_that_is_too_long_costs_only_itself() {
    let long = "x".repeat(3 << 20);
    let run = Test::demo()
        .arg("--lines")
        .stdin(format!("{long}\n2 + 3\n"))
        .run()
        .code(1);
    run.stdout("\n2 + 3 = 5\n")
        .notice("line 1: it is longer than");
}

#[test]
fn a_reader_that_leaves_ends_it_quietly() {
    let test = Test::demo().arg("--lines").stdin("2 + 3\n".repeat(1000));
    let run = test.close_stdout_after_one_line().run();
    run.check(run.exit_code() == 0, "quietly");
}
