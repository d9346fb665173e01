//! What was recorded is answered once more without a model, a tool or a clock, and with the same bytes.

use std::fs;

use serde_json::json;

use crate::reply::{ENGINES, Reply};
use crate::server::Server;
use crate::test::{ECHO, Run, Test, mode, ms};

/// Records a run, and plays it when the model is gone; both have to look the same.
#[track_caller]
fn twice(server: Server, test: Test, flags: &[&str]) -> (Test, Run) {
    let with = |test: Test, flag: &str| {
        let test = test.args([flag, "tape.jsonl"]);
        test.args(flags.iter().copied())
    };
    let url = server.base_url();
    let test = with(
        test.args(["--base-url", &url, "-m", "scripted"]),
        "--record",
    );
    let first = test.run();
    drop(server);
    let tape = fs::read_to_string(test.work().join("tape.jsonl")).unwrap();
    let again = with(
        Test::new().file("tape.jsonl", &tape).tools(TOOLS),
        "--rerun",
    )
    .arg("The question?");
    let second = again.run();
    second.check(
        second.stdout == first.stdout,
        &format!("the same as\n{}", first.stdout),
    );
    second.check(
        second.stderr == first.stderr,
        &format!("the same as\n{}", first.stderr),
    );
    assert_eq!(second.exit_code(), first.exit_code());
    (again, second)
}

const TOOLS: &str = r#"
[[tool]]
name = "echo"
function = "debug.echo"
description = "Returns its text."
params.text = { type = "string" }

[[tool]]
name = "divide"
function = "math.divide"

[[tool]]
name = "now"
function = "time.now"

[[tool]]
name = "asked"
function = "debug.echo"
approval = "ask"
"#;

fn asking() -> Test {
    Test::new().tools(TOOLS).arg("The question?")
}

#[test]
fn every_engine_and_every_look_gives_the_same_bytes() {
    for engine in ENGINES {
        for look in [
            &[][..],
            &["--json"],
            &["--trace", "tree"],
            &["-q"],
            &["--no-stream"],
        ] {
            let server = Server::replies([
                Reply::action(engine, "echo", &json!({"text": "ä\nb"})),
                Reply::action(engine, "divide", &json!({"x": 1, "y": 0})),
                Reply::action(engine, "now", &json!({})),
                Reply::action(engine, "asked", &json!({})),
                Reply::action(engine, "nope", &json!({})),
                Reply::answer(engine, "It is so."),
            ]);
            let test = asking().args(["--engine", engine]);
            let (_, run) = twice(server, test, look);
            run.success();
        }
    }
}

#[test]
fn what_went_wrong_goes_wrong_again() {
    for (replies, code) in [
        (vec![Reply::chat("Action1: nope()")], 1),
        (vec![Reply::chat("Thought: hm")], 1),
        (vec![Reply::chat("hm")], 0),
        (vec![Reply::error(401, "no such key")], 5),
        (vec![Reply::error(404, "no such model")], 6),
        (vec![Reply::cut("Answer: half a")], 6),
        (vec![Reply::error(503, "busy"), Reply::chat("Answer: 1")], 0),
    ] {
        for look in [&[][..], &["--json"]] {
            let replies = replies.clone();
            let server = Server::endless(move |n| replies[n.min(replies.len()) - 1].clone());
            let (_, run) = twice(server, asking(), look);
            run.code(code);
        }
    }
}

#[test]
fn time_that_was_over_is_over_again() {
    let server = Server::replies([Reply::chat("Answer: late").after(ms(20_000))]).at_will();
    let test = asking().args(["--max-time", "300ms"]);
    let (_, run) = twice(server, test, &["--json"]);
    run.code(3).within(ms(250));
}

#[test]
fn the_first_difference_is_named() {
    let server = Server::replies(["Action1: echo(\"x\")", "Answer: done"]);
    let (again, _) = twice(server, asking(), &[]);
    let tape = fs::read_to_string(again.work().join("tape.jsonl")).unwrap();
    let rerun = |tape: &str| {
        Test::new()
            .file("tape.jsonl", tape)
            .args(["--rerun", "tape.jsonl"])
    };
    rerun(&tape)
        .tools(ECHO)
        .arg("The question?")
        .run()
        .code(1)
        .error("messages[0].content was …")
        .hint("--record");
    let other = tape.replace("\"args\":{\"text\":\"x\"}", "\"args\":{\"text\":\"y\"}");
    rerun(&other)
        .tools(TOOLS)
        .arg("The question?")
        .run()
        .code(1)
        .error("call.args.text was …\"y\"…, and is …\"x\"…");
    let run = rerun(&tape)
        .tools(TOOLS)
        .arg("The questions?")
        .run()
        .code(1);
    run.error("there is no question `The questions?`; the nearest is `The question?`");
    let run = rerun(&tape)
        .tools(TOOLS)
        .args(["--engine", "plan", "The question?"])
        .run()
        .code(1);
    run.error("the engine was `react`, and is `plan`");
    let run = rerun("{\"v\":1}\n").arg("q").run().code(2);
    run.error("line 1: missing field");
    let run = rerun("nothing\n").arg("q").run().code(2);
    run.error("line 1: ");
    // A torn end was never there.
    let torn = format!("{tape}{}", &tape[..tape.len() / 2]);
    rerun(&torn)
        .tools(TOOLS)
        .arg("The question?")
        .run()
        .success();
}

#[test]
fn nothing_is_kept_of_what_is_played_and_the_tape_is_private() {
    let server = Server::replies(["Answer: done"]);
    let (again, _) = twice(server, asking(), &[]);
    assert!(!again.state().join("sessions").exists());
    assert!(!again.state().join("audit").exists());
    let tape = Test::demo().args(["--record", "new.jsonl", "2 + 3"]);
    tape.run().success();
    assert_eq!(mode(&tape.work().join("new.jsonl")), 0o600);
    let both = Test::demo().args(["--record", "a", "--rerun", "b", "q"]);
    both.run().code(2);
}

#[test]
fn a_key_is_on_no_tape() {
    const KEY: &str = "sk-CANARY-0123456789abcdef";
    let server = Server::replies([
        Reply::chat(format!("Action1: echo(\"{KEY}\")")),
        Reply::chat("Answer: 1"),
    ]);
    let test = Test::with(&server).tools(ECHO).env("REAGENT_API_KEY", KEY);
    let test = test.args(["--record", "tape.jsonl", &format!("Is it {KEY}?")]);
    test.run().success();
    let tape = fs::read_to_string(test.work().join("tape.jsonl")).unwrap();
    assert!(
        tape.contains("(secret)") && !tape.contains("CANARY"),
        "{tape}"
    );
}

/// One reply after another, as chance has it; the same ones for the same seed.
fn reply(number: usize) -> Reply {
    let chance = number.wrapping_mul(2_654_435_761) >> 7;
    let text = ["x", "Öl", "a \\\"b\\\"", "1\\n2"][chance / 16 % 4];
    match chance % 16 {
        0..4 => Reply::chat(format!("Thought: So.\nAction: echo(\"{text} {number}\")")),
        4 => Reply::chat(format!("Action: divide({number}, 0)")),
        5 => Reply::chat("Action: now()"),
        6 => Reply::chat("Action: nope(1)"),
        7 => Reply::chat("Thought: only so"),
        8 => Reply::chat("Action: asked()"),
        9 => Reply::chat(format!(
            "Action: echo(\"{}\")",
            "long ".repeat(chance % 3000)
        )),
        11 => Reply::error(400, "not this one"),
        10 => Reply::chat("Action: echo(\"a\"\nObservation: invented\nAnswer: no"),
        _ => Reply::chat(format!("Thought: Done.\nAnswer: {text} {number}")),
    }
}

#[test]
fn three_hundred_sessions_are_the_same_twice() {
    let server = Server::endless(reply);
    let questions: String = (0..300)
        .map(|number| format!("Question {number}?\n"))
        .collect();
    let lines = |test: Test, flag| {
        let test = test
            .tools(TOOLS)
            .args(["--json", "--lines", flag, "tape.jsonl"]);
        test.stdin(questions.clone())
    };
    let first = lines(Test::with(&server), "--record");
    let run = first.run();
    let answered = run.events().of("answer").len();
    run.check(
        answered > 150 && answered < 300,
        "some are answered, and some are not",
    );
    drop(server);
    let tape = fs::read(first.work().join("tape.jsonl")).unwrap();
    let again = lines(Test::new().file("tape.jsonl", tape), "--rerun").run();
    assert!(again.stdout == run.stdout && again.stderr == run.stderr);
}

#[test]
fn what_is_on_tape_already_is_not_asked_again() {
    let server = Server::replies(["Answer: one", "Answer: two", "Answer: three"]);
    let test = || Test::with(&server).args(["--lines", "--record", "tape.jsonl"]);
    let first = test().stdin("a\nb\n");
    first.run().success().stdout("one\ntwo\n");
    let tape = fs::read(first.work().join("tape.jsonl")).unwrap();
    let second = test().file("tape.jsonl", tape).stdin("a\nc\nb\n");
    second.run().success().stdout("one\nthree\ntwo\n");
    assert_eq!(server.calls(), 3);
    let tape = fs::read_to_string(second.work().join("tape.jsonl")).unwrap();
    assert_eq!(tape.lines().count(), 3);
}

#[test]
fn a_conversation_at_the_prompt_is_the_same_twice() {
    let talk = |test: Test, flag: &str| {
        let test = test.args(["-i", flag, "tape.jsonl"]);
        test.stdin("first\nsecond\n")
    };
    let server = Server::replies(["Answer: one", "Answer: two"]);
    let test = talk(Test::with(&server), "--record");
    let first = test.run().success();
    drop(server);
    let tape = fs::read(test.work().join("tape.jsonl")).unwrap();
    let again = talk(Test::new().file("tape.jsonl", tape), "--rerun");
    let second = again.run().success();
    assert_eq!((first.stdout, first.stderr), (second.stdout, second.stderr));
}
