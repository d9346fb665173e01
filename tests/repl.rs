//! The conversation: through a pipe with `-i`, and at a pseudo-terminal.

use std::fs;
use std::path::{Path, PathBuf};

use crate::server::{Reply, Server, question};
use crate::terminal::{ALL, Terminal};
use crate::test::{Test, mode};

fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn each_line_of_a_pipe_is_a_question_and_no_prompt_is_printed() {
    let server = Server::replies(["Answer: one", "Answer: two"]);
    let test = Test::with(&server).arg("-i").stdin("first?\n\nsecond?\n");
    let run = test.run().success().stdout("one\ntwo\n");
    let trace: Vec<&str> = run.trace();
    assert_eq!(
        trace,
        [
            "Query: first?",
            "Answer: one",
            "Query: second?",
            "Answer: two"
        ]
    );
}

#[test]
fn earlier_questions_and_answers_reach_the_next_query_without_their_traces() {
    let server = Server::replies([
        "Thought1: canary\nAction1: add_numbers(10, 3)",
        "Thought2: canary\nAnswer: It is thirteen.",
        "Answer: It was ten and three.",
    ]);
    let test = Test::with(&server)
        .args(["-i", "--json"])
        .stdin("What is 10 + 3?\nWhat did I ask?\n");
    let run = test.run().success();
    let messages = server.request(2).messages();
    let roles: Vec<&str> = messages.iter().map(|(role, _)| role.as_str()).collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(question(&messages[1].1), "What is 10 + 3?");
    assert!(messages[2].1.contains("It is thirteen."), "{messages:?}");
    assert_eq!(question(&messages[3].1), "What did I ask?");
    let all = server.request(2).conversation();
    assert!(
        !all.contains("canary") && !all.contains("Observation1"),
        "{all}"
    );
    let events = run.events();
    assert_eq!(
        events.spans(),
        [
            "INPUT", "LLM", "TOOL", "LLM", "ANSWER", "INPUT", "MEMO", "LLM", "ANSWER"
        ]
    );
    assert_eq!(events.of("start").len(), 2);
    assert_eq!(events.of("end").len(), 2);
}

#[test]
fn clear_forgets() {
    let server = Server::replies(["Answer: one", "Answer: two"]);
    let test = Test::with(&server)
        .arg("-i")
        .stdin("first canary?\n/clear\nsecond?\n");
    test.run().success().stdout("one\ntwo\n");
    let request = server.request(1);
    assert_eq!(request.roles(), ["system", "user"]);
    assert!(!request.conversation().contains("canary"));
}

#[test]
fn every_question_has_its_own_ttl_and_numbering() {
    let server = Server::replies([
        "Action1: add_numbers(1, 2)",
        "Answer: 3",
        "Action1: add_numbers(3, 4)",
        "Answer: 7",
    ]);
    let test = Test::with(&server)
        .args(["-i", "--ttl", "2"])
        .stdin("1 + 2?\n3 + 4?\n");
    let run = test.run().success().stdout("3\n7\n");
    run.err_line("Action1: add_numbers(3, 4)")
        .err_line("Observation1: 7");
}

#[test]
fn the_exit_code_is_that_of_the_last_query_and_a_failure_does_not_end_the_conversation() {
    let failing = ["Action1: add_numbers(1, 1)"];
    let server = Server::replies([failing[0], "Answer: ok"]);
    let test = Test::with(&server)
        .args(["-i", "--ttl", "1"])
        .stdin("first?\nsecond?\n");
    test.run().success().stdout("ok\n");
    let server = Server::replies(["Answer: ok", failing[0]]);
    let test = Test::with(&server)
        .args(["-i", "--ttl", "1"])
        .stdin("first?\nsecond?\n");
    test.run().code(3).stdout("ok\n");
}

#[test]
fn a_failed_query_leaves_no_broken_turn_in_the_next() {
    let server = Server::replies([Reply::error(400, "a canary"), Reply::chat("Answer: ok")]);
    let test = Test::with(&server).arg("-i").stdin("first?\nsecond?\n");
    test.run().success().stdout("ok\n");
    let roles = server.request(1).roles();
    assert!(
        roles.windows(2).all(|pair| pair[0] != pair[1]),
        "the roles alternate: {roles:?}"
    );
    assert!(!server.request(1).conversation().contains("canary"));
}

#[test]
fn exit_and_quit_leave_at_once() {
    for command in ["/exit", "/quit"] {
        let server = Server::replies(["Answer: one"]);
        let test = Test::with(&server)
            .arg("-i")
            .stdin(lines(&["first?", command, "never asked?"]));
        test.run().success().stdout("one\n");
    }
}

#[test]
fn an_empty_conversation_is_no_failure() {
    let server = Server::untouched();
    Test::with(&server).arg("-i").run().success().stdout("");
}

#[test]
fn help_lists_the_commands_and_nothing_of_it_is_on_stdout() {
    let server = Server::untouched();
    let run = Test::with(&server)
        .arg("-i")
        .stdin("/help\n")
        .run()
        .success()
        .stdout("");
    for command in [
        "/help",
        "/exit",
        "/quit",
        "/clear",
        "/model",
        "/tools",
        "/ttl",
        "/messages",
    ] {
        run.check(
            run.stderr.contains(command),
            &format!("{command} is listed"),
        );
    }
}

#[test]
fn an_unknown_command_is_an_error_with_a_suggestion_and_is_never_sent() {
    let server = Server::replies(["Answer: ok"]);
    let test = Test::with(&server).arg("-i").stdin("/hepl canary\nq\n");
    let run = test.run().success().stdout("ok\n");
    run.error("/hepl").err_has("/help");
    assert!(!server.request(0).conversation().contains("canary"));
}

#[test]
fn a_path_is_no_way_to_send_a_command_either() {
    let server = Server::untouched();
    Test::with(&server)
        .arg("-i")
        .stdin("/etc/passwd\n/\n")
        .run()
        .err_line("error: ");
}

#[test]
fn model_shows_and_changes_the_model() {
    let server = Server::replies(["Answer: ok"; 2]);
    let test = Test::with(&server)
        .arg("-i")
        .stdin("/model\none?\n/model another\ntwo?\n");
    test.run().success().err_has("scripted").err_has("another");
    assert_eq!(server.request(0).body["model"], "scripted");
    assert_eq!(server.request(1).body["model"], "another");
}

#[test]
fn ttl_shows_and_changes_the_limit() {
    let server = Server::replies(["Action1: add_numbers(1, 2)"]);
    let test = Test::with(&server).arg("-i").stdin("/ttl\n/ttl 1\nq\n");
    test.run().code(3).err_has("10").err_line("Terminate: ");
    assert_eq!(server.calls(), 1);
}

#[test]
fn a_wrong_ttl_changes_nothing() {
    let server = Server::replies(["Action1: add_numbers(1, 2)", "Answer: 3"]);
    let test = Test::with(&server)
        .arg("-i")
        .stdin("/ttl 0\n/ttl many\nq\n");
    let run = test.run().success().stdout("3\n").error("");
    run.check(
        run.stderr.matches("error: ").count() == 2,
        "both are errors",
    );
}

#[test]
fn tools_lists_the_tools() {
    let server = Server::untouched();
    let run = Test::with(&server)
        .arg("-i")
        .stdin("/tools\n")
        .run()
        .success()
        .stdout("");
    run.err_has("add_numbers").err_has("current_time");
}

#[test]
fn messages_shows_what_the_model_saw() {
    let server = Server::replies(["Action1: add_numbers(1, 2)", "Answer: 3"]);
    let test = Test::with(&server)
        .args(["-i", "-q"])
        .stdin("the question?\n/messages\n");
    let run = test.run().success().stdout("3\n");
    run.err_has("the question?")
        .err_has("Action1: add_numbers(1, 2)")
        .err_has("Observation1: 3")
        .err_has("assistant");
}

#[test]
fn demo_converses() {
    let run = Test::demo()
        .arg("-i")
        .stdin("2 + 3\n4 * 5\n")
        .run()
        .success();
    let answers: Vec<&str> = run.stdout.lines().collect();
    run.check(answers.len() == 2, "two answers");
    run.check(
        answers[0].ends_with('5') && answers[1].ends_with("20"),
        "5 and 20",
    );
}

#[test]
fn without_a_question_a_terminal_gets_a_prompt_and_ctrl_d_leaves() {
    let server = Server::replies(["Answer: It is Paris."]);
    let test = Test::with(&server);
    let mut terminal = Terminal::start(&test, ALL);
    terminal.prompt();
    terminal.send("Capital of France?\r");
    terminal.wait_for("It is Paris.");
    terminal.prompt();
    terminal.send("\x04");
    let screen = terminal.finish();
    assert_eq!(screen.code, 0);
    assert_eq!(server.request(0).question(), "Capital of France?");
}

#[test]
fn the_commands_work_at_a_terminal() {
    let server = Server::replies(["Answer: It is ok."]);
    let mut terminal = Terminal::start(&Test::with(&server), ALL);
    terminal.prompt();
    terminal.send("/hepl\r");
    terminal.wait_for("error: ");
    terminal.prompt();
    terminal.send("/model another\r");
    terminal.prompt();
    terminal.send("q\r");
    terminal.wait_for("It is ok.");
    terminal.prompt();
    terminal.send("/exit\r");
    assert_eq!(terminal.finish().code, 0);
    assert_eq!(server.request(0).body["model"], "another");
}

#[test]
fn ctrl_c_clears_a_line_that_is_not_empty() {
    let server = Server::replies(["Answer: It is ok."]);
    let mut terminal = Terminal::start(&Test::with(&server), ALL);
    terminal.prompt();
    terminal.send("canary");
    terminal.wait_for("canary");
    terminal.send("\x03");
    terminal.prompt();
    terminal.send("clean?\r");
    terminal.wait_for("It is ok.");
    terminal.prompt();
    terminal.send("\x04");
    assert_eq!(terminal.finish().code, 0);
    assert_eq!(server.request(0).question(), "clean?");
}

#[test]
fn a_paste_is_one_prompt() {
    let server = Server::replies(["Answer: It is ok."]);
    let mut terminal = Terminal::start(&Test::with(&server), ALL);
    terminal.prompt();
    terminal.send("\x1b[200~line one\rline two\x1b[201~");
    terminal.wait_for("line two");
    terminal.send("\r");
    terminal.wait_for("It is ok.");
    terminal.prompt();
    terminal.send("\x04");
    assert_eq!(terminal.finish().code, 0);
    let text = server.request(0).last();
    assert!(
        text.contains("line one") && text.contains("line two"),
        "{text}"
    );
}

#[test]
fn the_history_is_private_and_skips_lines_that_start_with_a_space() {
    let server = Server::replies(["Answer: It is one.", "Answer: It is two."]);
    let test = Test::with(&server);
    let mut terminal = Terminal::start(&test, ALL);
    terminal.prompt();
    terminal.send("kept question?\r");
    terminal.wait_for("It is one.");
    terminal.prompt();
    terminal.send(" secret question?\r");
    terminal.wait_for("It is two.");
    terminal.prompt();
    terminal.send("\x04");
    assert_eq!(terminal.finish().code, 0);
    assert_eq!(server.request(1).question().trim(), "secret question?");
    let history = find(&test.state(), "history").expect("there is a history file");
    let text = fs::read_to_string(&history).unwrap();
    assert!(text.contains("kept question?"), "{text}");
    assert!(!text.contains("secret question?"), "{text}");
    assert_eq!(mode(&history), 0o600);
    assert_eq!(mode(history.parent().unwrap()), 0o700);
}

#[test]
fn the_arrow_brings_back_a_line_of_an_earlier_conversation() {
    let server = Server::replies(["Answer: It is one.", "Answer: It is two."]);
    let test = Test::with(&server);
    for (keys, answer) in [
        ("kept question?\r", "It is one."),
        ("\x1b[A\r", "It is two."),
    ] {
        let mut terminal = Terminal::start(&test, ALL);
        terminal.prompt();
        terminal.send(keys);
        terminal.wait_for(answer);
        terminal.prompt();
        terminal.send("\x04");
        assert_eq!(terminal.finish().code, 0);
    }
    assert_eq!(server.request(1).question(), "kept question?");
}

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(folder).ok()?;
    let mut paths = entries.map(|entry| entry.unwrap().path());
    paths.find_map(|path| match path.is_dir() {
        true => find(&path, name),
        false => path.to_string_lossy().contains(name).then_some(path),
    })
}
