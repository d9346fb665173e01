//! The audit log: what is in it, and that nothing in it can be changed unseen.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::thread;

use reagent::agent::Agent;
use reagent::engine::approval::Desk;
use reagent::engine::policy::ByRules;
use reagent::session::audit::{Audit, check, check_folder};
use reagent::tool::rule::Rules;
use reagent::tool::{Effect, Spec, Tool};
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use crate::defects_runtime::{engine_with, scripted, tool, toolchain};
use crate::reply::Reply;
use crate::server::Server;
use crate::test::{ECHO, Test, mode, ms};

/// The check once more, as somebody else would write it from the description: the head, if all is well.
fn checker(log: &[u8], session: &str) -> Option<String> {
    let hash = |text: &str| -> String {
        let hash = digest(&SHA256, format!("reagent-audit-v1\n{text}").as_bytes());
        hash.as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    };
    let log = std::str::from_utf8(log).ok()?;
    let mut prev = hash(session);
    for (number, line) in log.strip_suffix('\n')?.split('\n').enumerate() {
        let begins = line.starts_with(&format!(r#"{{"v":1,"seq":{number},"#));
        if !begins || !line.ends_with(&format!(r#","prev":"{prev}"}}"#)) {
            return None;
        }
        prev = hash(line);
    }
    Some(prev)
}

/// The logs of sessions in a folder, by session.
fn logs(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut logs: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path))
        .filter(|(session, _)| session != "heads")
        .collect();
    logs.sort();
    logs
}

/// One session's log, of a run with an action, a bad reply, a refusal and an answer.
fn recorded() -> (Test, PathBuf) {
    let server = Server::replies([
        "Thought1: So.\nAction1: add_numbers(1, 2)",
        "Action2: launch(1)",
        "Action3: echo(\"x\")",
        "Answer: It is 3.",
    ]);
    let tools = format!(
        "{ECHO}approval = \"deny\"\n[[tool]]\nname = \"add_numbers\"\nfunction = \"math.add\"\n"
    );
    let test = Test::with(&server).tools(&tools).arg("What is 1 + 2?");
    test.run().success();
    let audit = test.state().join("audit");
    (test, audit)
}

#[test]
fn every_decision_is_on_record_with_what_was_said_to_it_and_what_came_of_it() {
    let (_test, folder) = recorded();
    let (session, path) = logs(&folder).pop().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let kinds: Vec<&str> = lines
        .iter()
        .map(|line| line["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "start", "decision", "decision", "decision", "decision", "end"
        ]
    );
    assert!(lines.iter().all(|line| line["session"] == session.as_str()));
    assert_eq!(lines[0]["task"], "What is 1 + 2?");
    assert_eq!(lines[1]["input"], "What is 1 + 2?");
    assert_eq!(
        lines[1]["decision"],
        json!({"action": "add_numbers", "params": {"x": 1, "y": 2}})
    );
    assert_eq!(
        (
            &lines[1]["verdict"]["allowed"],
            &lines[1]["result"],
            &lines[1]["iteration"]
        ),
        (&json!(true), &json!("3"), &json!(1))
    );
    assert!(
        lines[2]["error"]
            .as_str()
            .unwrap()
            .contains("no tool `launch`")
    );
    assert_eq!(
        (&lines[3]["input"], &lines[3]["verdict"]["allowed"]),
        (&json!("3"), &json!(false))
    );
    assert!(lines[3]["error"].as_str().unwrap().contains("not allowed"));
    assert_eq!(lines[4]["decision"]["params"]["answer"], "It is 3.");
    assert_eq!(
        (&lines[5]["status"], &lines[5]["iterations"]),
        (&json!("answered"), &json!(4))
    );
    assert_eq!((mode(&folder), mode(&path)), (0o700, 0o600));
}

#[test]
fn the_decision_that_a_query_ended_at_is_on_record() {
    let web = Server::web().route("/slow", Reply::json(&json!(1)).after(ms(20_000)));
    let slow = format!(
        "{ECHO}[[tool]]\nname = \"slow\"\nfunction = \"http.get_json\"\nbind.url = \"{}\"\n",
        web.url("/slow")
    );
    let same = "Action: echo(\"x\")";
    for (replies, action, allowed, why) in [
        (vec![same; 4], "echo", Value::Null, "round in circles"),
        (
            vec!["Action: slow()"],
            "slow",
            json!(true),
            "--max-time 600ms",
        ),
    ] {
        let server = Server::replies(replies);
        let test = Test::with(&server).tools(&slow);
        let test = test.args(["--max-time", "600ms", "q"]);
        test.run();
        let log = test.audit();
        let failure = &log[log.len() - 2];
        assert_eq!(failure["kind"], "failure");
        assert_eq!(failure["decision"]["action"], action, "{failure}");
        assert_eq!(failure["verdict"]["allowed"], allowed, "{failure}");
        assert!(
            failure["error"].as_str().unwrap().contains(why),
            "{failure}"
        );
    }
}

#[test]
fn an_answer_that_was_not_allowed_is_on_record() {
    let doubtful = Reply::decision("finish", &json!({"answer": "7"}), &json!(0.2));
    let server = Server::replies([doubtful, Reply::answer("plan", "8")]);
    let test = Test::with(&server).args(["--engine", "plan", "q"]);
    test.run().success();
    let log = test.audit();
    assert_eq!(
        log[1]["decision"],
        json!({"action": "finish", "params": {"answer": "7"}})
    );
    assert_eq!(log[1]["verdict"]["allowed"], false);
    assert_eq!(log[1]["verdict"]["why"], "confidence 0.2 is below 0.5");
    assert_eq!(log[1]["error"], "not allowed: confidence 0.2 is below 0.5");
    assert_eq!(log[2]["decision"]["params"]["answer"], "8");
}

#[test]
fn verify_says_that_all_is_well_or_where_it_is_not() {
    let (test, folder) = recorded();
    let verify = |args: &[&str]| {
        let test = Test::new()
            .args(["audit", "verify"])
            .args(args.iter().copied());
        test.env(
            "XDG_STATE_HOME",
            folder.parent().unwrap().parent().unwrap().to_str().unwrap(),
        )
        .run()
    };
    let (session, path) = logs(&folder).pop().unwrap();
    let file = path.to_str().unwrap();
    let run = verify(&[]).success();
    run.check(
        run.stdout
            .contains(&format!("{session}: 6 records, intact; head ")),
        "it is intact",
    );
    verify(&[file]).success().out_has("6 records, intact");

    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"3\"", "\"4\"")).unwrap();
    verify(&[file]).code(1).out_has("record 2 (line 3, byte ");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    fs::write(&path, lines[..4].concat()).unwrap();
    verify(&[])
        .code(1)
        .out_has("its end is missing: 4 of 6 records are there");
    fs::remove_file(&path).unwrap();
    verify(&[]).code(1).out_has("it cannot be read");
    drop(test);
}

#[test]
fn no_change_goes_unseen() {
    let (_test, folder) = recorded();
    let (session, path) = logs(&folder).pop().unwrap();
    let log = fs::read(&path).unwrap();
    let head = check(&log, &session).unwrap().head;
    assert_eq!(checker(&log, &session).as_ref(), Some(&head));
    let heads = fs::read_to_string(folder.join("heads.jsonl")).unwrap();
    assert!(heads.contains(&head) && checker(heads.as_bytes(), "heads").is_some());
    let seen = |changed: &[u8], what: &str| {
        let vouched = |found: Option<String>| found.as_ref() == Some(&head);
        assert!(
            !vouched(check(changed, &session).ok().map(|whole| whole.head)),
            "verify: {what}"
        );
        assert!(!vouched(checker(changed, &session)), "the checker: {what}");
    };
    for at in 0..log.len() {
        for flip in [1, 0x20, 0x80] {
            let mut changed = log.clone();
            changed[at] ^= flip;
            seen(&changed, &format!("byte {at} with {flip}"));
        }
        seen(&log[..at], &format!("cut at {at}"));
    }
    let lines: Vec<&[u8]> = log.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 0..lines.len() {
        let rest: Vec<&[u8]> = [&lines[..at], &lines[at + 1..]].concat();
        seen(&rest.concat(), &format!("without line {at}"));
        for other in 0..at {
            let mut swapped = lines.clone();
            swapped.swap(at, other);
            seen(
                &swapped.concat(),
                &format!("lines {at} and {other} swapped"),
            );
        }
    }
    let mut longer = log.clone();
    longer.extend_from_slice(lines[0]);
    seen(&longer, "one line more");
}

/// A tool with an effect that looks at the audit log while it runs.
struct Looks {
    spec: Spec,
    folder: PathBuf,
    ran: Rc<Cell<u32>>,
}

impl Tool for Looks {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, _: &Map<String, Value>) -> Result<Value, String> {
        self.ran.set(self.ran.get() + 1);
        let logs = logs(&self.folder);
        Ok(fs::read_to_string(&logs[0].1).unwrap_or_default().into())
    }
}

#[test]
fn what_has_an_effect_is_on_record_before_it_runs_or_does_not_run() {
    for writable in [true, false] {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("audit");
        let ran = Rc::new(Cell::new(0));
        let spec = Spec {
            effect: Effect::Lasting,
            ..tool("launch", &[], |_| Ok(Value::Null)).spec().clone()
        };
        let looks = Looks {
            spec,
            folder: folder.clone(),
            ran: ran.clone(),
        };
        let tools = toolchain(vec![Box::new(looks)]);
        let script = scripted(&["Action1: launch()", "Answer: done"]);
        let desk = match writable {
            true => Desk::default(),
            false => Desk::default().without_effects("the audit log cannot be written"),
        };
        let policy = ByRules::new(tools.clone(), Rules::default(), false);
        let engine = engine_with(script, &tools, Box::new(policy), desk);
        let audit = Audit::new(folder.clone());
        let mut agent = Agent::new(engine, vec![Box::new(audit)]);
        agent.run("q").unwrap();
        assert_eq!(ran.get(), u32::from(writable));
        let seen = agent
            .session()
            .unwrap()
            .messages()
            .nth(3)
            .unwrap()
            .content
            .clone();
        let kind = if writable {
            "\"kind\":\"intent\""
        } else {
            "the audit log cannot be written"
        };
        assert!(seen.contains(kind), "{seen}");
    }
}

#[test]
fn a_log_that_breaks_off_stops_effects_and_not_answers() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("audit");
    fs::write(&folder, "a file").unwrap();
    let audit = Audit::new(folder.clone());
    let spec = Spec {
        effect: Effect::Outward,
        ..tool("launch", &[], |_| Ok(Value::Null)).spec().clone()
    };
    let ran = Rc::new(Cell::new(0));
    let looks = Looks {
        spec,
        folder,
        ran: ran.clone(),
    };
    let tools = toolchain(vec![Box::new(looks)]);
    let policy = || Box::new(ByRules::new(tools.clone(), Rules::default(), false));
    let script = scripted(&["Answer: done", "Action1: launch()", "Answer: not launched"]);
    let engine = engine_with(script, &tools, policy(), Desk::default());
    let mut agent = Agent::new(engine, vec![Box::new(audit)]);
    assert_eq!(agent.run("q").unwrap().text, "done");
    assert_eq!(agent.run("q").unwrap().text, "not launched");
    assert_eq!(ran.get(), 0);
    let seen = agent.session().unwrap().messages().nth(5).unwrap();
    assert!(seen.content.contains("the audit log cannot be written"));
}

#[test]
fn a_folder_that_cannot_be_written_costs_no_answer() {
    let test = Test::demo()
        .arg("2 + 3")
        .file("state", "a file, not a folder");
    let path = test.work().join("state");
    test.env("XDG_STATE_HOME", path.to_str().unwrap())
        .run()
        .success();
}

#[test]
fn many_programs_at_once_lose_no_head() {
    let home = tempfile::tempdir().unwrap();
    let state = home.path().to_str().unwrap();
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let test = Test::demo()
                    .args(["-q", "2 + 3"])
                    .env("XDG_STATE_HOME", state);
                (0..10).for_each(|_| drop(test.run().success()));
            });
        }
    });
    let folder = home.path().join("reagent/audit");
    let checked = check_folder(&folder).unwrap();
    assert_eq!(checked.len(), 81);
    for checked in checked {
        assert!(checked.found.is_ok() && checked.anchored, "{checked:?}");
    }
}
