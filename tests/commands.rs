//! The commands of the prompt.

use crate::reply::Reply;
use crate::server::Server;
use crate::terminal::{ALL, Terminal};
use crate::test::Test;

/// A conversation on a pipe.
fn talk(test: Test, lines: &[&str]) -> crate::test::Run {
    test.arg("-i").stdin(lines.join("\n") + "\n").run()
}

#[test]
fn help_tells_of_all_commands_or_of_one() {
    let run = talk(
        Test::demo(),
        &["/help", "/help retry", "/help /ttl", "/help rety"],
    );
    let told = |name: &str| run.stderr.matches(name).count();
    assert_eq!(
        (told("/retry [MODEL]"), told("/ttl [N]"), told("/undo")),
        (2, 2, 1)
    );
    run.code(2)
        .error("no command `/rety`; did you mean `retry`?");
}

#[test]
fn the_last_question_is_asked_again_or_forgotten() {
    let server = Server::replies([
        "Answer: one",
        "Answer: two",
        "Answer: three",
        "Answer: four",
    ]);
    let lines = ["first?", "/retry", "second?", "/undo", "third?"];
    let run = talk(Test::with(&server), &lines).success();
    let run = run
        .stdout("one\ntwo\nthree\nfour\n")
        .notice("forgot: second?");
    drop(run);
    assert_eq!(
        server.request(1).messages().len(),
        2,
        "without the first answer"
    );
    let last = server.request(3).messages();
    assert_eq!(last.len(), 4, "{last:?}");
    assert_eq!(last[2].1, "Answer: two");
    let run = talk(Test::demo(), &["/retry"]).code(2);
    run.error("no question to ask again");
}

#[test]
fn a_question_is_asked_again_with_another_model() {
    let server = Server::replies(["Answer: one", "Answer: two"]);
    let run = talk(Test::with(&server), &["q", "/retry other"]).success();
    run.stdout("one\ntwo\n");
    assert_eq!(server.request(1).body["model"], "other");
}

#[test]
fn an_option_is_changed_for_the_conversation() {
    let server = Server::replies(["Answer: one", "Answer: two"]);
    let lines = [
        "/set temperature 0.5",
        "first?",
        "/set no-stream",
        "/set ttl 3",
        "second?",
        "/set",
    ];
    let run = talk(Test::with(&server), &lines).success();
    assert_eq!(server.request(0).body["temperature"], 0.5);
    assert_eq!(server.request(0).body["stream"], true);
    assert_ne!(server.request(1).body["stream"], true);
    let run = run.err_line("temperature = 0.5").err_line("ttl = 3");
    run.err_line("no_stream = true");
    for (line, why) in [
        (
            "/set temprature 1",
            "no option `temprature`; did you mean `temperature`?",
        ),
        (
            "/set temperature 7",
            "invalid value '7' for '--temperature <T>'",
        ),
        ("/set lines", "`lines` cannot be changed in a conversation"),
        ("/ttl 0", "`0` is not a number of at least 1"),
        ("/engine reakt", "no engine `reakt`; did you mean `react`?"),
        ("/trace", "`/trace` needs other arguments"),
    ] {
        talk(Test::demo(), &[line]).code(2).error(why);
    }
    // What was set by one command stays when another one sets something else.
    let run = talk(Test::demo(), &["/ttl 1", "/set temperature 1", "2 + 3"]);
    run.code(3).err_line("Terminate: ");
}

#[test]
fn the_trace_changes_its_look() {
    let run = talk(Test::demo(), &["/trace tree", "2 + 3"]).success();
    run.err_has("[✔] [TOOL ❯ add_numbers]")
        .err_lacks("Thought1");
}

#[test]
fn a_tool_is_left_out_and_taken_in_again() {
    let server = Server::replies(["Answer: 1", "Answer: 2"]);
    let lines = [
        "/tools off price_tool",
        "a",
        "/tools on price_tool",
        "b",
        "/tools off prize_tool",
    ];
    let run = talk(Test::with(&server), &lines).code(2);
    assert!(!server.request(0).system().contains("price_tool"));
    assert!(server.request(1).system().contains("price_tool"));
    run.err_line("price_tool is off")
        .error("no tool `prize_tool`; did you mean `price_tool`?");
}

#[test]
fn what_was_used_is_shown() {
    let server = Server::replies(["Answer: 1", "Answer: 2"]);
    let run = talk(Test::with(&server), &["a", "b", "/tokens", "/status"]).success();
    run.err_has("100 → 2 tokens           a\n")
        .err_has("200 → 4 tokens           in all\n")
        .err_line("model      scripted")
        .err_line("questions  2")
        .err_line("tokens     200 → 4 tokens");
}

#[test]
fn sessions_are_listed_shown_saved_and_loaded_at_the_prompt() {
    let test = Test::demo();
    let lines = [
        "2 + 3",
        "/save out.md",
        "/save out.jsonl",
        "/save out.xyz",
        "/clear",
        "/load out.jsonl",
        "/sessions",
        "/replay",
        "/policy add_numbers(1, 2)",
    ];
    let test = test.arg("-i").stdin(lines.join("\n") + "\n");
    let run = test.run().code(2);
    let run = run.out_has("answered     2 steps").out_has("allow\n");
    run.check(
        run.stdout.matches("2 + 3 = 5").count() == 2,
        "asked and replayed",
    );
    let run = run
        .error("`/save` needs other arguments")
        .hint("/save session.md");
    run.err_line("notice: saved out.md");
    let saved = std::fs::read_to_string(test.work().join("out.md")).unwrap();
    assert!(saved.starts_with("# 2 + 3"), "{saved}");
}

#[test]
fn the_last_answer_is_copied_by_the_terminal_and_cleaned_before() {
    let server = Server::replies([Reply::chat("Answer: a\u{1b}]0;b\u{7}")]);
    let mut terminal = Terminal::start(&Test::with(&server), ALL);
    terminal.prompt();
    terminal.send("q\r");
    terminal.wait_for("Answer: ");
    terminal.prompt();
    terminal.send("/copy\r");
    terminal.wait_for("bytes are copied");
    terminal.prompt();
    terminal.send("/exit\r");
    let screen = terminal.finish();
    let at = screen.raw.find("\u{1b}]52;c;").unwrap();
    let copied = screen.raw[at + 7..].split('\u{7}').next().unwrap();
    assert_eq!(copied, "YV5bXTA7Yl5H", "a^[]0;b^G");
    let run = talk(Test::demo(), &["2 + 3", "/copy"]).code(2);
    run.error("no terminal to copy by");
}
