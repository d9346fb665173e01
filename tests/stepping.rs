//! The step debugger: a hand on the wheel, on record.

use crate::server::Server;
use crate::terminal::{ALL, Screen, Terminal};
use crate::test::{ECHO, Test};

/// Runs at a terminal, and types one of these each time that something is asked.
fn stepped(test: &Test, answers: &[&str]) -> Screen {
    let mut terminal = Terminal::start(test, ALL);
    for (at, typed) in answers.iter().enumerate() {
        terminal.wait_for_times(&["step> ", "what the model is told: "], at + 1);
        terminal.send(&format!("{typed}\r"));
    }
    terminal.finish()
}

fn asking(server: &Server) -> Test {
    Test::with(server)
        .tools(ECHO)
        .args(["--step", "--no-stream", "The question?"])
}

#[test]
fn an_action_is_run_changed_skipped_or_answered() {
    for (typed, told, shown) in [
        (
            &["", ""][..],
            "{\"text\":\"x\"}",
            "Observation1: {\"text\":\"x\"}",
        ),
        (
            &["e echo(\"y\")", ""],
            "{\"text\":\"y\"}",
            "Person1: another action: echo(\"y\")",
        ),
        (
            &["s not today"],
            "Error: the person did not let this run: not today",
            "Person1: skipped: not today",
        ),
        (&["a 42"], "42", "Person1: answered for the tool: 42"),
        (&["", "43"], "43", "Person1: another observation: 43"),
    ] {
        let server = Server::replies(["Thought1: So.\nAction1: echo(\"x\")", "Answer: done"]);
        let screen = stepped(&asking(&server), typed);
        assert_eq!(screen.code, 0);
        assert_eq!(server.request(1).last(), format!("Observation1: {told}"));
        assert!(
            screen.plain.contains(shown),
            "{shown:?} in {}",
            screen.plain
        );
    }
}

#[test]
fn a_thought_is_changed_before_the_model_is_asked_again() {
    let server = Server::replies(["Thought1: I guess.\nAction1: echo(\"x\")", "Answer: done"]);
    let keys = ["t I look it up.", "", ""];
    let screen = stepped(&asking(&server), &keys);
    assert_eq!(screen.code, 0);
    let messages = server.request(1).messages();
    assert_eq!(
        messages[2].1,
        "Thought1: I look it up.\nAction1: echo(\"x\")"
    );
}

#[test]
fn a_stop_ends_the_question_and_what_was_sent_can_be_seen() {
    let server = Server::replies(["Thought1: So.\nAction1: echo(\"x\")"]);
    let keys = ["e nope(1)", "m", "what", "q"];
    let screen = stepped(&asking(&server), &keys);
    assert_eq!(screen.code, 130);
    for shown in [
        "there is no tool `nope`",
        "user: Question: The question?",
        "Enter runs it",
    ] {
        assert!(screen.plain.contains(shown), "{shown}");
    }
    assert_eq!(server.calls(), 1);
}

#[test]
fn what_was_changed_is_still_judged() {
    let tools = format!(
        "{ECHO}\n[[tool]]\nname = \"never\"\nfunction = \"debug.echo\"\napproval = \"deny\"\n"
    );
    let server = Server::replies(["Action1: echo(\"x\")", "Answer: done"]);
    let test = Test::with(&server)
        .tools(&tools)
        .args(["--step", "--no-stream", "q"]);
    stepped(&test, &["e never()", ""]);
    assert!(server.request(1).last().contains("not allowed"));
}

#[test]
fn a_prompt_stops_where_it_is_told_to() {
    let server = Server::replies([
        "Action1: echo(\"one\")",
        "Action2: echo(\"two\")",
        "Answer: first",
        "Action1: echo(\"three\")",
        "Answer: second",
    ]);
    let test = Test::with(&server).tools(ECHO).arg("--no-stream");
    let mut terminal = Terminal::start(&test, ALL);
    terminal.prompt();
    terminal.send("/break two\r");
    terminal.wait_for("stops at: two");
    terminal.prompt();
    terminal.send("q\r");
    terminal.wait_for("Step 2: ");
    terminal.send("a 2\r");
    terminal.prompt();
    terminal.send("/break off\r");
    terminal.prompt();
    terminal.send("q\r");
    terminal.wait_for("Answer: second");
    terminal.prompt();
    terminal.send("/exit\r");
    let screen = terminal.finish();
    assert_eq!(
        screen.plain.matches("step> ").count(),
        1,
        "{}",
        screen.plain
    );
    assert!(server.request(2).last().starts_with("Observation2: 2\n"));
}

#[test]
fn a_stepped_run_is_replayed_with_all_that_was_done() {
    let server = Server::replies([
        "Thought1: So.\nAction1: echo(\"x\")",
        "Action2: echo(\"y\")",
        "Action3: echo(\"z\")",
        "Answer: done",
    ]);
    let test = asking(&server).args(["--color", "never"]);
    let keys = ["e echo(\"w\")", "", "a invented", "s no"];
    let screen = stepped(&test, &keys);
    assert_eq!(screen.code, 0);
    let state = test.state().parent().unwrap().to_str().unwrap().to_owned();
    let replay = Test::new().env("XDG_STATE_HOME", state).arg("replay");
    let replay = replay.run().success();
    let trace: Vec<&str> = replay.stderr.lines().collect();
    for line in &trace {
        assert!(screen.plain.contains(line), "{line:?} was shown");
    }
    let person = trace
        .iter()
        .filter(|line| line.starts_with("Person"))
        .count();
    assert_eq!(person, 3, "{trace:?}");
}

#[test]
fn stepping_needs_a_terminal() {
    let run = Test::demo().args(["--step", "2 + 3"]).run().code(2);
    run.error("`--step` needs a terminal");
}
