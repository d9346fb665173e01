//! The command line: questions that look like commands, commands, and what is said of a mistake.

use crate::server::Server;
use crate::test::Test;

#[test]
fn ask_asks_a_question_that_begins_like_a_command() {
    for question in [
        &["tools"][..],
        &["tools", "for", "woodworking"],
        &["doctor", "who"],
        &["ask", "again"],
    ] {
        let server = Server::replies(["Answer: ok"]);
        Test::with(&server)
            .arg("ask")
            .args(question)
            .run()
            .success()
            .stdout("ok\n");
        assert_eq!(server.request(0).question(), question.join(" "));
    }
}

#[test]
fn a_first_word_with_a_blank_in_it_is_a_question() {
    for question in [
        "doctor who first episode",
        "tools list",
        "ask me",
        "replay last",
        "help me",
        "-m is what?",
    ] {
        let server = Server::replies(["Answer: ok"]);
        Test::with(&server)
            .arg(question)
            .run()
            .success()
            .stdout("ok\n");
        assert_eq!(server.request(0).question(), question);
    }
}

#[test]
fn a_question_may_begin_with_a_minus_sign() {
    let run = Test::demo().arg("-3 * 4").run().success();
    run.check(run.stdout.contains("-12"), "the answer is -12");
    Test::new().arg("-3 * 4").run().success().out_has("-12");
}

#[test]
fn two_dashes_end_the_options() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .args(["--", "--json", "tools"])
        .run()
        .success()
        .stdout("ok\n");
    assert_eq!(server.request(0).question(), "--json tools");
}

#[test]
fn options_may_follow_the_question() {
    let server = Server::replies(["Answer: ok"]);
    let run = Test::with(&server)
        .args(["What is this?", "--json"])
        .run()
        .success();
    assert_eq!(run.events().of("answer")[0]["text"], "ok");
    assert_eq!(server.request(0).question(), "What is this?");
}

#[test]
fn a_command_whose_arguments_do_not_fit_hints_at_ask() {
    for args in [
        &["tools", "bogus", "words"][..],
        &["tools", "for", "woodworking"],
        &["parse", "this", "sentence"],
    ] {
        let server = Server::untouched();
        Test::with(&server)
            .args(args)
            .run()
            .code(2)
            .stdout("")
            .error("")
            .hint("reagent ask");
    }
}

#[test]
fn a_command_word_further_back_is_part_of_the_question() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .args(["which", "tools", "list"])
        .run()
        .success();
    assert_eq!(server.request(0).question(), "which tools list");
}

#[test]
fn help_is_on_stdout_and_names_the_commands_and_flags() {
    for flag in ["--help", "-h"] {
        let run = Test::new().arg(flag).run().success();
        run.check(run.stderr.is_empty(), "stderr is empty");
        run.out_has("--model")
            .out_has("--ttl")
            .out_has("tools")
            .out_has("ask")
            .out_has("parse");
    }
}

#[test]
fn version_is_the_name_and_the_number() {
    let version = format!("reagent {}\n", env!("CARGO_PKG_VERSION"));
    Test::new()
        .arg("--version")
        .run()
        .success()
        .stdout(&version);
}

#[test]
fn an_unknown_flag_is_a_usage_error_with_the_nearest_name() {
    let server = Server::untouched();
    Test::with(&server)
        .args(["--modl", "x", "q"])
        .run()
        .code(2)
        .stdout("")
        .err_has("--model");
}

#[test]
fn values_that_make_no_sense_are_usage_errors() {
    let rows: [&[&str]; 8] = [
        &["--timeout", "soon"],
        &["--stdin-wait", "soon"],
        &["--color", "sometimes"],
        &["--trace", "forest"],
        &["--on-limit", "panic"],
        &["--engine", "steam"],
        &["--temperature", "warm"],
        &["--max-tokens", "0.5"],
    ];
    for args in rows {
        let server = Server::untouched();
        let run = Test::with(&server).args(args).arg("q").run();
        run.check(run.exit_code() == 2, &format!("{args:?} is a usage error"));
        run.stdout("").error(args[0].trim_start_matches('-'));
    }
}

#[test]
fn errors_and_hints_have_one_shape() {
    for args in [
        &["--nope", "q"][..],
        &["--ttl", "0", "q"],
        &["-f", "nowhere", "q"],
        &["tools", "bogus", "words"],
    ] {
        let run = Test::demo().args(args).run().code(2).stdout("");
        let first = run
            .stderr
            .lines()
            .find(|line| !line.is_empty())
            .unwrap_or_default();
        run.check(first.starts_with("error: "), "the first line is the error");
    }
}

#[test]
fn nothing_is_written_into_the_working_folder() {
    let test = Test::demo().arg("2 + 2");
    test.run().success().out_has("4");
    assert_eq!(std::fs::read_dir(test.work()).unwrap().count(), 0);
}

#[test]
fn a_home_that_cannot_be_written_to_is_no_reason_not_to_answer() {
    let test = Test::demo().env("HOME", "/proc/nowhere");
    test.arg("2 + 2").run().success().out_has("4");
}

#[test]
fn arguments_that_are_no_text_are_a_usage_error_and_no_panic() {
    use std::os::unix::ffi::OsStringExt;
    let server = Server::untouched();
    let arg = std::ffi::OsString::from_vec(b"caf\xe9".to_vec());
    Test::with(&server).arg(arg).run().code(2);
}

#[test]
fn a_shell_is_given_what_completes_commands() {
    for (shell, holds) in [
        ("bash", "complete -F"),
        ("zsh", "#compdef reagent"),
        ("fish", "complete -c reagent"),
    ] {
        let run = Test::new().args(["completions", shell]).run().success();
        run.out_has(holds)
            .out_has("sessions")
            .out_has("max-context");
    }
    Test::new().args(["completions", "csh"]).run().code(2);
}
