//! What was recorded is shown again, found, removed, and gone on with.

use serde_json::json;

use crate::reply::Reply;
use crate::server::Server;
use crate::test::{ECHO, Test, mode};

/// A question with a failed action, a bad reply and an answer, asked in this test's folder.
fn asked(query: &str) -> (Server, Test) {
    let server = Server::replies([
        "Thought1: I divide.\nAction1: divide_numbers(1, 0)",
        "Action2: nope(1)",
        "Thought3: So it is.\nAnswer: It cannot be done.",
    ]);
    (server, Test::new().arg(query))
}

fn ids(test: &Test) -> Vec<String> {
    let folder = test.state().join("sessions");
    let mut ids: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids
}

/// Another run in the same folders.
fn again(test: &Test) -> Test {
    let home = test.state();
    let state = home.parent().unwrap().to_str().unwrap().to_owned();
    Test::new().env("XDG_STATE_HOME", state)
}

#[test]
fn a_replay_shows_the_same_bytes_and_asks_nobody() {
    for look in [
        &["--trace", "lines"][..],
        &["--trace", "tree"],
        &["--json"],
        &["-q"],
        &["--color", "never"],
    ] {
        let (server, test) = asked("What is 1 / 0?");
        let url = server.base_url();
        let test = test.args(["--base-url", &url, "-m", "scripted"]);
        let test = test.args(look.iter().copied());
        let first = test.run().success();
        drop(server);
        let id = &ids(&test)[0];
        for which in ["last", id, &id[..id.len() - 3]] {
            let replay = again(&test)
                .args(look.iter().copied())
                .args(["replay", which]);
            let shown = replay.run().success();
            assert_eq!(shown.stdout, first.stdout, "{look:?}");
            assert_eq!(shown.stderr, first.stderr, "{look:?}");
        }
    }
}

#[test]
fn a_replay_takes_its_time_if_it_is_to() {
    let server = Server::replies([Reply::chat("Answer: 1").after(crate::test::ms(400))]);
    let test = Test::with(&server).arg("q");
    test.run().success();
    let run = again(&test)
        .args(["replay", "--speed", "2"])
        .run()
        .success();
    run.check(run.duration >= crate::test::ms(200), "half the time");
    let run = again(&test).arg("replay").run().success();
    run.check(run.duration < crate::test::ms(200), "at once");
}

#[test]
fn sessions_are_listed_the_newest_first() {
    let test = Test::demo().arg("2 + 3");
    test.run().success();
    again(&test)
        .args(["-m", "demo", "who are you?"])
        .run()
        .code(2);
    again(&test).args(["-m", "demo", "4 * 5"]).run().success();
    let list = again(&test).arg("sessions").run().success();
    let lines: Vec<&str> = list.stdout.lines().collect();
    assert_eq!(lines.len(), 3);
    for (line, parts) in lines.iter().zip([
        ["answered", "2 steps", "4 * 5"],
        ["failed", "1 step ", "who are you?"],
        ["answered", "2 steps", "2 + 3"],
    ]) {
        assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    }
    let one = again(&test).args(["sessions", "list", "-n", "1", "--json"]);
    let one: serde_json::Value = serde_json::from_str(&one.run().success().stdout).unwrap();
    assert_eq!(
        (&one["query"], &one["status"], &one["steps"]),
        (&json!("4 * 5"), &json!("answered"), &json!(2))
    );
    Test::new().arg("sessions").run().success().stdout("");
}

#[test]
fn a_search_finds_all_words_and_puts_the_best_first() {
    let test = Test::demo().arg("(2 + 3) * 70");
    test.run().success();
    let echoed = Server::replies(["Action1: echo(\"Öl und 70 Birnen\")", "Answer: gut"]);
    let url = echoed.base_url();
    again(&test)
        .args(["--base-url", &url, "-m", "scripted"])
        .tools(ECHO)
        .arg("Was ist da?")
        .run()
        .success();
    let found = |words: &[&str]| -> Vec<String> {
        let search = again(&test).args(["sessions", "search", "--json"]);
        let run = search.args(words.iter().copied()).run().success();
        let queries = run.stdout.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["query"].as_str().unwrap().to_owned()
        });
        queries.collect()
    };
    assert_eq!(found(&["70"]), ["(2 + 3) * 70", "Was ist da?"]);
    assert_eq!(found(&["öl", "BIRNEN"]), ["Was ist da?"]);
    assert_eq!(found(&["birnen", "350"]), [""; 0]);
    let plain = again(&test).args(["sessions", "search", "birnen"]);
    plain
        .run()
        .success()
        .out_has("    echo(\"Öl und 70 Birnen\")");
}

#[test]
fn one_session_is_shown_whole() {
    let (server, test) = asked("What is 1 / 0?");
    let url = server.base_url();
    test.args(["--base-url", &url, "-m", "scripted"])
        .run()
        .success();
    let (server, test) = asked("And\u{1b}[31m 2 / 0?");
    let url = server.base_url();
    let test = test.args(["--base-url", &url, "-m", "scripted"]);
    test.run().success();
    again(&test)
        .args(["sessions", "show"])
        .run()
        .success()
        .out_has("question  And")
        .stdout_lacks("\u{1b}")
        .out_has("thought1  I divide.")
        .out_has("action1   divide_numbers(1, 0)")
        .out_has("bad2      there is no tool `nope`")
        .out_has("answer    It cannot be done.")
        .out_has("outcome   answered after ");
    again(&test)
        .args(["sessions", "show", "last", "--messages"])
        .run()
        .success()
        .out_has("system    You answer questions")
        .out_has("user      Observation1: Error: ");
}

#[test]
fn a_session_is_removed_by_its_name_or_its_age_and_the_audit_log_stays() {
    let test = Test::demo().arg("2 + 3");
    test.run().success();
    let first = ids(&test)[0].clone();
    again(&test).args(["-m", "demo", "4 * 5"]).run().success();
    assert_eq!(
        mode(&test.state().join(format!("sessions/{first}.jsonl"))),
        0o600
    );
    again(&test)
        .args(["sessions", "rm", "nothing"])
        .run()
        .code(2)
        .error("no session");
    again(&test)
        .args(["sessions", "rm", &first])
        .run()
        .success();
    assert_eq!(ids(&test).len(), 1);
    let prune = |age: &str| again(&test).args(["sessions", "prune", "--older-than", age]);
    prune("1h").run().success().stdout("removed 0 sessions\n");
    prune("1ms").run().success();
    again(&test).args(["audit", "verify"]).run().success();
    assert!(test.state().join(format!("audit/{first}.jsonl")).exists());
}

#[test]
fn nothing_is_kept_that_is_not_to_be() {
    let test = Test::demo().args(["--no-save", "2 + 3"]);
    test.run().success();
    assert!(!test.state().join("sessions").exists());
    assert!(test.state().join("audit").exists());
    again(&test)
        .args(["replay"])
        .run()
        .code(2)
        .error("no sessions yet");
}

#[test]
fn a_conversation_goes_on_after_the_program_has_ended() {
    let test = Test::demo().arg("2 + 3");
    test.run().success();
    let before = ids(&test)[0].clone();
    let server = Server::replies(["Answer: ten", "Answer: twenty"]);
    let url = server.base_url();
    let ask = |flags: &[&str]| {
        let test = again(&test).args(["--base-url", &url, "-m", "scripted"]);
        test.args(flags.iter().copied()).run().success()
    };
    ask(&["-c", "and twice that?"]);
    assert_eq!(
        server.request(0).messages()[1..].to_vec(),
        [
            ("user", "Question: 2 + 3"),
            ("assistant", "Answer: 2 + 3 = 5"),
            ("user", "Question: and twice that?"),
        ]
        .map(|(role, text)| (role.to_owned(), text.to_owned()))
    );
    ask(&["-c", "and twice that?"]);
    let messages = server.request(1).messages();
    assert_eq!(messages.len(), 6, "{messages:?}");
    again(&test)
        .args(["sessions", "show"])
        .run()
        .out_has(&format!("after     {}", ids(&test)[1]));
    // From the first one on again.
    let server = Server::replies(["Answer: other"]);
    let url = server.base_url();
    let test = again(&test).args(["--base-url", &url, "-m", "scripted"]);
    test.args(["-r", &before, "else?"]).run().success();
    assert_eq!(server.request(0).messages().len(), 4);
}

#[test]
fn a_name_that_fits_several_sessions_is_no_name() {
    let test = Test::demo().arg("2 + 3");
    test.run().success();
    again(&test).args(["-m", "demo", "4 * 5"]).run().success();
    let run = again(&test).args(["replay", "20"]).run().code(2);
    run.error("several sessions").hint("reagent sessions");
    again(&test)
        .args(["-r", "nope", "q"])
        .run()
        .code(2)
        .error("no session `nope`");
    Test::new()
        .args(["-c", "q"])
        .run()
        .code(2)
        .error("no sessions yet");
}

/// A session as it is after a kill: so many lines of it are left.
fn cut_off(test: &Test, holds: &str) -> String {
    let id = ids(test)[0].clone();
    let path = test.state().join(format!("sessions/{id}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    let at = text.lines().position(|line| line.contains(holds)).unwrap();
    let left: Vec<&str> = text.lines().take(at + 1).collect();
    // The next line is torn.
    std::fs::write(&path, left.join("\n") + "\n{\"v\":1,\"n\":").unwrap();
    id
}

#[test]
fn a_session_that_was_cut_off_goes_on_where_it_was() {
    let whole = [
        "Thought1: So.\nAction1: echo(\"x\")",
        "Action2: echo(\"y\")",
        "Answer: done",
    ];
    for (holds, replies) in [
        ("\"type\":\"verdict\"", &whole[1..]),
        ("\"type\":\"observation\"", &whole[1..]),
        ("\"content\":\"Thought1", &whole[1..]),
        (
            "\"kind\":\"LLM\",\"title\":\"scripted\",\"sum\"",
            &whole[..],
        ),
        ("\"type\":\"answer\"", &[][..]),
    ] {
        let server = Server::replies(whole);
        let test = Test::with(&server).tools(ECHO).arg("The question?");
        test.run().success();
        let id = cut_off(&test, holds);
        let server = match replies.is_empty() {
            true => Server::untouched(),
            false => Server::replies(replies.iter().copied()),
        };
        let url = server.base_url();
        let more = || {
            again(&test)
                .args(["--base-url", &url, "-m", "scripted"])
                .tools(ECHO)
        };
        let run = more().arg("-c").run().success();
        if !replies.is_empty() {
            run.stdout("done\n");
        }
        again(&test)
            .args(["sessions", "--json"])
            .run()
            .success()
            .out_has("\"status\":\"answered\"");
        let replay = again(&test).args(["replay", &id]).run().success();
        replay.err_lacks("damaged").out_has("done");
        again(&test).args(["audit", "verify"]).run().success();
        assert!(
            test.state()
                .join(format!("sessions/{id}.jsonl.torn-1"))
                .exists()
        );
    }
}

#[test]
fn every_call_of_a_turn_that_was_cut_off_has_its_result() {
    let calls = Reply::calls(
        "Both.",
        &[
            ("echo", json!({"text": "a"})),
            ("echo", json!({"text": "b"})),
        ],
    );
    let server = Server::replies([calls, Reply::chat("done")]);
    let native = ["--engine", "native"];
    let test = Test::with(&server).tools(ECHO).args(native).arg("q");
    test.run().success();
    cut_off(&test, "\"type\":\"verdict\"");
    let server = Server::replies([Reply::chat("done")]);
    let url = server.base_url();
    let more = again(&test).args(["--base-url", &url, "-m", "scripted", "-c"]);
    more.tools(ECHO)
        .args(native)
        .run()
        .success()
        .stdout("done\n");
    let results: Vec<_> = server.request(0).messages().split_off(3);
    assert_eq!(results.len(), 2, "{results:?}");
    assert!(results[0].1.contains("a"), "{results:?}");
    assert!(
        results[1].1.contains("stopped before this was done"),
        "{results:?}"
    );
}

#[test]
fn a_question_after_a_session_that_was_cut_off_says_so() {
    let server = Server::replies(["Action1: echo(\"x\")", "Answer: done"]);
    let test = Test::with(&server).tools(ECHO).arg("q");
    test.run().success();
    cut_off(&test, "\"type\":\"verdict\"");
    again(&test)
        .args(["-m", "demo", "-c", "2 + 3"])
        .run()
        .success()
        .notice("was cut off: `echo(\"x\")` was under way");
}

#[test]
fn a_damaged_session_is_shown_and_not_gone_on_with() {
    let test = Test::demo().arg("2 + 3");
    test.run().success();
    let id = &ids(&test)[0];
    let path = test.state().join(format!("sessions/{id}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("I have every", "I had every")).unwrap();
    let run = again(&test).arg("replay").run().code(1);
    run.notice("it is not what was written")
        .out_has("2 + 3 = 5");
}

#[test]
fn a_session_is_exported_in_every_format_to_a_file_or_a_pipe() {
    let test = Test::demo().arg("2 + 3");
    test.run().success();
    for (format, holds) in [
        ("md", "# 2 + 3"),
        ("json", "\"query\":\"2 + 3\""),
        ("html", "<!doctype html>"),
        ("mermaid", "sequenceDiagram"),
    ] {
        let export = || again(&test).args(["sessions", "export", "--format", format]);
        let run = export().run().success();
        run.check(
            run.stdout.to_lowercase().contains(&holds.to_lowercase()),
            holds,
        );
        let into = export().args(["last", "-o", "out.txt"]);
        into.run().success().stdout("");
        let written = std::fs::read_to_string(into.work().join("out.txt")).unwrap();
        assert_eq!(written, run.stdout);
        export()
            .args(["-o", "no/such/folder"])
            .run()
            .code(2)
            .error("cannot write");
    }
}

#[test]
fn what_is_no_session_in_the_folder_keeps_nobody_waiting() {
    let test = Test::demo().arg("2 + 3");
    test.run().success();
    let folder = test.state().join("sessions");
    let at = |name: &str| folder.join(format!("{name}.jsonl"));
    let pipe = std::process::Command::new("mkfifo")
        .arg(at("99999999-a"))
        .status();
    assert!(pipe.unwrap().success());
    std::fs::create_dir(at("99999999-b")).unwrap();
    std::fs::write(at("99999999-c"), b"\xff\x00\n\n{}").unwrap();
    std::os::unix::fs::symlink("/dev/zero", at("99999999-d")).unwrap();
    let soon = |args: &[&str]| {
        again(&test)
            .args(args.iter().copied())
            .run()
            .within(crate::test::ms(3000))
    };
    let run = soon(&["sessions"]).success();
    assert_eq!(run.stdout.lines().count(), 1, "{}", run.stdout);
    soon(&["sessions", "search", "5"])
        .success()
        .out_has("2 + 3");
    soon(&["replay"]).code(2).error("is no session");
    soon(&["replay", "99999999-a"])
        .code(2)
        .error("it is not a file");
    soon(&["replay", "99999999-c"])
        .code(2)
        .error("is no session");
    soon(&["-m", "demo", "-r", "99999999-b", "q"]).code(2);
    soon(&["sessions", "prune", "--older-than", "1ms"]);
    soon(&["--rerun", at("99999999-a").to_str().unwrap(), "q"])
        .code(2)
        .error("it is not a file");
}
