//! What may run: rules, questions at the terminal, and what becomes of a refusal, in every engine.

use std::rc::Rc;

use reagent::engine::policy::{ByRules, Circumstances, Decision, Policy, Verdict};
use reagent::tool::call::Call;
use reagent::tool::rule::Rules;
use reagent::tool::{Effect, Spec, Tool, Toolchain, manifest};
use serde_json::{Map, Value, json};

use crate::reply::{ENGINES, Reply};
use crate::server::Server;
use crate::terminal::{ALL, Terminal};
use crate::test::{ECHO, Test};

/// A tool that is asked about each time.
fn asked() -> String {
    format!("{ECHO}approval = \"ask\"\n")
}

fn with_rules(rules: &str) -> Test {
    Test::new().file("../home/.config/reagent/config.toml", rules)
}

/// What `policy test` says to each call under these rules.
#[track_caller]
fn said(rules: &str, tools: &str, cases: &[(&str, &str)]) {
    for (call, wanted) in cases {
        let test = with_rules(rules)
            .tools(tools)
            .args(["policy", "test", call]);
        let run = test.run().success();
        run.check(
            run.stdout.starts_with(wanted),
            &format!("{call} is met with {wanted:?}"),
        );
    }
}

#[test]
fn rules_go_by_tool_argument_host_and_path_and_the_strictest_counts() {
    let tools = format!(
        "{ECHO}\n[[tool]]\nname = \"page\"\nfunction = \"http.get_json\"\nparams.id = {{ type = \"string\" }}\n\
         bind.url = \"https://api.example.com/{{id}}\"\n[[tool]]\nname = \"read_file\"\nfunction = \"debug.echo\"\n\
         params.path = {{ type = \"string\" }}\napproval = \"ask\"\n"
    );
    let rules = "[[policy.rules]]\ntool = \"echo\"\nargs.text = \"*secret*\"\nthen = \"deny\"\nbecause = \"secrets stay here\"\n\
        [[policy.rules]]\nhost = \"*.example.com\"\nthen = \"ask\"\n\
        [[policy.rules]]\npath = \"/etc/*\"\nthen = \"deny\"\n\
        [[policy.rules]]\ntool = \"READ_*\"\nthen = \"allow\"\n";
    said(
        rules,
        &tools,
        &[
            ("echo(\"hello\")", "allow\n"),
            (
                "echo(\"my secret\")",
                "deny: `echo`: secrets stay here (rule 1 of config.toml)\n",
            ),
            ("page(\"1\")", "ask: rule 2 of config.toml\n"),
            ("read_file(\"notes.txt\")", "allow\n"),
            (
                "read_file(\"/etc/passwd\")",
                "deny: `read_file`: rule 3 of config.toml\n",
            ),
        ],
    );
    said(
        "",
        &tools,
        &[(
            "read_file(\"x\")",
            "ask: the tool `read_file` wants it so\n",
        )],
    );
    let wrong = with_rules(rules).tools(&tools);
    wrong
        .args(["policy", "test", "launch(1)"])
        .run()
        .code(2)
        .error("no tool `launch`");
}

#[test]
fn rules_that_come_with_tools_make_the_persons_stricter_and_never_milder() {
    let tools = format!(
        "{ECHO}\n[policy]\n[[policy.rules]]\nargs.text = \"no\"\nthen = \"deny\"\n[[policy.rules]]\nthen = \"allow\"\n"
    );
    let ask = "[[policy.rules]]\ntool = \"echo\"\nthen = \"ask\"\n";
    said(
        ask,
        &tools,
        &[("echo(\"no\")", "deny"), ("echo(\"yes\")", "ask")],
    );
    let allow = "[[policy.rules]]\ntool = \"echo\"\nthen = \"allow\"\n";
    said(
        allow,
        &tools,
        &[("echo(\"no\")", "deny"), ("echo(\"yes\")", "allow")],
    );
}

#[test]
fn a_mistake_in_a_rule_is_named_with_its_place() {
    for (rules, what) in [
        (
            "[policy]\nrule = 1\n",
            "2:1: unknown key `rule`; did you mean `rules`?",
        ),
        ("[[policy.rules]]\ntool = \"x\"\n", "a rule needs a `then`"),
        (
            "[[policy.rules]]\nthen = \"allways\"\n",
            "2:8: `then` is \"allow\", \"ask\" or \"deny\"",
        ),
        (
            "[policy]\nmin_confidence = 2\n",
            "2:18: `min_confidence` is a number from 0 to 1",
        ),
    ] {
        with_rules(rules).args(["tools"]).run().code(2).error(what);
    }
}

#[test]
fn a_refusal_is_obeyed_in_every_engine_and_told_to_the_model() {
    let rules = "[[policy.rules]]\ntool = \"echo\"\nthen = \"deny\"\nbecause = \"not today\"\n";
    for engine in ENGINES {
        let replies = [
            Reply::action(engine, "echo", &json!({"text": "x"})),
            Reply::answer(engine, "no"),
        ];
        let server = Server::replies(replies);
        let test = with_rules(rules).tools(ECHO).args([
            "--base-url",
            &server.base_url(),
            "-m",
            "scripted",
        ]);
        let run = test
            .args(["--engine", engine, "--json", "-y", "q"])
            .run()
            .success()
            .stdout_lacks("ran");
        let events = run.events();
        let seen = events.of("observation")[0];
        assert_eq!(seen["ok"], false, "{engine}");
        assert!(
            seen["text"]
                .as_str()
                .unwrap()
                .contains("not allowed: `echo`: not today"),
            "{seen}"
        );
        assert!(server.request(1).last().contains("not today"), "{engine}");
        assert_eq!(events.of("end")[0]["tool_calls"], 0, "{engine}");
    }
}

#[test]
fn without_a_terminal_nobody_says_yes() {
    let server = Server::replies(["Action1: echo(\"x\")", "Action2: echo(\"y\")"]);
    let test = Test::with(&server)
        .tools(&asked())
        .args(["--ttl", "2", "q"])
        .stdin("y\ny\n");
    test.run()
        .code(4)
        .error("needs approval, which nobody gave");
    // With an answer all the same, it is an answer.
    let server = Server::replies(["Action1: echo(\"x\")", "Answer: without"]);
    Test::with(&server)
        .tools(&asked())
        .arg("q")
        .run()
        .success()
        .stdout("without\n");
    let server = Server::replies(["Action1: echo(\"x\")", "Answer: with"]);
    let run = Test::with(&server)
        .tools(&asked())
        .args(["-y", "q"])
        .run()
        .success();
    run.err_line("Observation1: {\"text\":\"x\"}");
    let call = Test::new()
        .tools(&asked())
        .args(["tools", "call", "echo", "x"]);
    call.run().code(4);
}

#[test]
fn the_person_is_asked_at_the_terminal_and_every_reply_counts() {
    for (typed, told) in [
        ("y\r", "{\"text\":\"x\\u202e\"}"),
        ("\r", "not allowed: the person said no"),
        ("n\r", "not allowed: the person said no"),
        (
            "use another word\r",
            "not allowed: the person said no: use another word",
        ),
    ] {
        let server = Server::replies(["Action1: echo(\"x\u{202e}\")", "Answer: done"]);
        let test = Test::with(&server).tools(&asked()).arg("q");
        let mut terminal = Terminal::start(&test, ALL);
        terminal.wait_for("or why not: ");
        terminal.send(typed);
        let screen = terminal.finish();
        assert_eq!(screen.code, 0);
        assert!(
            screen.plain.contains("Run echo(\"x<U+202E>\") ?"),
            "{}",
            screen.plain
        );
        assert!(
            screen
                .plain
                .contains("because: the tool `echo` wants it so"),
            "{}",
            screen.plain
        );
        let seen = server.request(1).last().replace('\u{202e}', "\\u202e");
        assert!(seen.contains(told), "{typed:?}: {seen}");
    }
}

#[test]
fn always_holds_for_the_tool_and_the_conversation() {
    let server = Server::replies([
        "Action1: echo(\"x\")",
        "Action2: echo(\"y\")",
        "Answer: one",
        "Action1: echo(\"z\")",
        "Answer: two",
    ]);
    let test = Test::with(&server).tools(&asked());
    let mut terminal = Terminal::start(&test, ALL);
    terminal.prompt();
    terminal.send("first?\r");
    terminal.wait_for("or why not: ");
    terminal.send("a\r");
    terminal.prompt();
    terminal.send("second?\r");
    terminal.prompt();
    terminal.send("\u{4}");
    let screen = terminal.finish();
    assert_eq!(
        screen.plain.matches("or why not: ").count(),
        1,
        "{}",
        screen.plain
    );
}

#[test]
fn what_was_typed_before_the_question_is_no_answer_to_it() {
    let slow = Reply::chat("Action1: echo(\"x\")").after(std::time::Duration::from_millis(600));
    let server = Server::replies([slow]);
    let test = Test::with(&server).tools(&asked()).arg("q");
    let mut terminal = Terminal::start(&test, ALL);
    terminal.wait_for("Query: q");
    terminal.send("y\r");
    terminal.wait_for("or why not: ");
    terminal.send("\u{3}");
    let screen = terminal.finish();
    assert_eq!(screen.code, 130, "{}", screen.plain);
    assert!(!screen.plain.contains("Observation1"), "{}", screen.plain);
}

/// A tool with an effect.
struct Sends(Spec);

impl Tool for Sends {
    fn spec(&self) -> &Spec {
        &self.0
    }

    fn call(&self, _: &Map<String, Value>) -> Result<Value, String> {
        Ok(json!("sent"))
    }
}

#[test]
fn after_something_from_outside_an_effect_is_asked_about_again() {
    let echo = manifest::load(ECHO, "tools.toml").unwrap().tools;
    for (effect, tainted, wanted) in [
        (Effect::Outward, true, true),
        (Effect::Lasting, true, true),
        (Effect::Outward, false, false),
        (Effect::ReadsWorld, true, false),
        (Effect::Pure, true, false),
    ] {
        let spec = Spec {
            effect,
            ..echo[0].spec().clone()
        };
        let tools = Rc::new(Toolchain::new(vec![Box::new(Sends(spec))]).unwrap());
        let call = Call {
            tool: "echo".to_owned(),
            args: Map::new(),
        };
        let circumstances = Circumstances {
            tainted,
            ..Circumstances::default()
        };
        let policy = ByRules::new(tools, Rules::default(), false);
        let verdict = policy.judge(&Decision::Act(call), &circumstances);
        let asks = matches!(verdict, Verdict::Ask { again: true, .. });
        assert_eq!(asks, wanted, "{effect:?}, tainted {tainted}: {verdict:?}");
    }
}

#[test]
fn a_projects_rules_only_narrow_until_it_is_trusted() {
    let tools = format!(
        "{}[[policy.rules]]\nthen = \"allow\"\n[[policy.rules]]\nargs.text = \"no\"\nthen = \"deny\"\n",
        asked()
    );
    for (call, wanted) in [("echo(\"yes\")", "ask"), ("echo(\"no\")", "deny")] {
        let test = Test::new()
            .file("tools.toml", &tools)
            .args(["policy", "test", call]);
        let run = test.run().success();
        run.check(run.stdout.starts_with(wanted), wanted);
    }
}
