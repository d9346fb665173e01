//! Defects of TinyReAct that this program must not have, by their numbers in the table of its behaviours.
//!
//! Tested elsewhere with the same input:
//! - T9: the call -> `rulings::code_in_an_argument_runs_nothing`
//! - T12: `rulings::an_unknown_tool_is_told_to_the_model_with_the_list_and_the_nearest_name`
//! - T15: `defects_regent::a_reply_without_text_is_no_crash_and_no_empty_message`,
//!   `rulings::a_null_content_is_no_panic`
//! - T16: `repl::every_question_has_its_own_ttl_and_numbering`
//! - T19: the stop sequence -> `answer::the_request_names_the_model_the_stop_sequence_and_streaming`
//! - T20: `trace::quiet_is_the_answer_and_nothing_else`
//! - T21: `trace::no_color_means_no_color_whatever_its_value`, `trace::each_stream_is_decided_by_itself`
//! - T25: `keys::a_missing_key_exits_2_and_names_the_variable`
//! - T26: `answer::the_model_and_its_address_may_come_from_the_environment`
//! - T27: `web::an_article_about_no_place_has_no_coordinates`,
//!   `web::a_title_with_several_meanings_gives_their_titles`, `web::coordinates_are_two_numbers_with_their_names`
//! - T31: `rulings::a_failing_tool_is_an_observation_and_not_malformed`
//! - T32: `web::the_number_of_sentences_is_kept_to_what_wikipedia_gives`
//! - T33: `web::a_request_says_who_asks_and_gives_nothing_away`
//! - T35: `answer::the_trace_shows_every_step_and_stdout_only_the_answer`

use reagent::engine::parse::{Next, parse};
use reagent::llm::Finish;
use reagent::session::event::{Fact, Role, Status};
use reagent::tool::{Toolchain, manifest};
use serde_json::json;

use crate::defects_runtime::{agent, echo, events_of, tool, toolchain};
use crate::server::{Reply, Server};
use crate::test::{ECHO, Test, ms};

/// Tools that give their arguments back, under the names that the rows use.
const ECHOES: &str = r#"
[[tool]]
name = "search_wikipedia_page"
function = "debug.echo"
params.query = { type = "string" }

[[tool]]
name = "x"
function = "debug.echo"
params.n = { type = "number" }
"#;

/// T1, T4
#[test]
fn an_action_runs_whatever_word_is_in_the_thought_and_however_its_line_is_dressed() {
    let replies = [
        "Thought1: To Answer this I add.\nAction1: add_numbers(1,2)",
        "Thought1: The Answer needs a sum.\nAction1: add_numbers(1,2)",
        "Thought1: I add.\n    Action1: add_numbers(1,2)",
        "Thought1: I add.\n\tAction1: add_numbers(1,2)",
        "**Thought1:** I add.\n**Action1:** add_numbers(1,2)",
        "**Thought1: I add.**\n**Action1: add_numbers(1,2)**",
        "  - **Action1:** `add_numbers(1,2)`",
    ];
    for reply in replies {
        let (events, _server) = events_of(None, reply);
        assert_eq!(events.of("action")[0]["tool"], "add_numbers", "{reply}");
        assert_eq!(events.of("observation")[0]["text"], "3", "{reply}");
    }
}

/// T2
#[test]
fn the_marker_of_an_answer_is_seen_in_any_case() {
    for reply in ["ANSWER: 4", "answer: 4", "Thought1: I know.\nANSWER: 4"] {
        let server = Server::replies([reply]);
        let run = Test::with(&server).arg("q").run();
        run.check(run.stdout == "4\n", &format!("{reply:?} is an answer"));
    }
}

/// T3, T5, T6, T10, T13
#[test]
fn what_only_looks_like_a_marker_or_a_call_is_told_and_runs_nothing() {
    let rows = [
        ("Thought1: my next Action is adding", None, "`Action:"),
        ("Action1 add_numbers(1,2)", None, "`Action:"),
        (
            "Thought1: I add.\nAction1 add_numbers(1,2)",
            None,
            "`Action:",
        ),
        ("Actions1: x(1)", Some(ECHOES), "`Action:"),
        (
            "Thought1: I use x.\nActions1: x(1)",
            Some(ECHOES),
            "`Action:",
        ),
        (
            "Action1: add_numbers",
            None,
            "add_numbers(x: number, y: number)",
        ),
        ("Thought1: hmm", None, "`Answer:"),
    ];
    for (reply, tools, named) in rows {
        let (events, server) = events_of(tools, reply);
        assert_eq!(events.of("malformed").len(), 1, "{reply}");
        assert_eq!(events.of("action").len(), 0, "{reply}");
        let told = server.request(1).last();
        assert!(told.starts_with("Observation1: Error: "), "{reply}: {told}");
        assert!(told.contains(named), "{reply}: {told}");
        assert!(
            !told.contains("0x") && !told.contains("function "),
            "{reply}: {told}"
        );
        assert_eq!(events.end()["steps"], 2, "{reply}: it counts");
    }
}

/// T13
#[test]
fn a_model_that_only_hums_costs_three_calls_and_no_more() {
    let server = Server::always("Thought1: hmm");
    Test::with(&server)
        .arg("q")
        .run()
        .code(1)
        .stdout("")
        .error("thought");
    assert_eq!(server.calls(), 3);
    let server = Server::always("Thought1: hmm");
    let run = Test::with(&server).args(["--ttl", "2", "q"]).run();
    run.code(3).err_line("Terminate: ");
    assert_eq!(server.calls(), 2);
}

/// T7, T8
#[test]
fn a_text_in_an_argument_arrives_whole() {
    let texts = [
        "Star Wars: A New Hope",
        "https://example.org:8080/a?b=c:d#e",
        "12:30:45",
        "Action1: x(1)",
    ];
    for text in texts {
        let (events, _server) = events_of(
            Some(ECHOES),
            &format!("Action1: search_wikipedia_page(\"{text}\")"),
        );
        assert_eq!(events.of("action")[0]["args"], json!({"query": text}));
    }
    let (events, _server) = events_of(
        Some(ECHOES),
        "Thought1: Two lines.\nAction1: search_wikipedia_page(\"one\n  two: (three\nfour\")",
    );
    assert_eq!(
        events.of("action")[0]["args"],
        json!({"query": "one\n  two: (three\nfour"})
    );
}

/// T9
#[test]
fn nothing_that_stands_behind_a_call_or_in_the_place_of_a_value_is_evaluated() {
    let replies = [
        r#"Action1: add_numbers(1,2) or __import__("os").system("touch pwned")"#,
        r#"Action1: add_numbers(1, 2) if __import__("os").system("touch pwned") else 0"#,
        r#"Action1: add_numbers(1, open("pwned", "w"))"#,
        r#"Action1: (lambda: __import__("os").system("touch pwned"))()"#,
        r#"Action1: add_numbers(*[1, 2])"#,
        "Action1: add_numbers(1, self)",
        "Action1: add_numbers(self.iteration, 2)",
        "Action1: add_numbers(1, ttl)",
        "Action1: add_numbers(1, $(touch pwned))",
        "Action1: add_numbers(1, `touch pwned`)",
    ];
    for reply in replies {
        let server = Server::replies([reply, "Answer: done"]);
        let test = Test::with(&server).args(["--json", "q"]);
        let events = test.run().success().events();
        assert!(!test.work().join("pwned").exists(), "{reply}");
        if !reply.contains(") or ") && !reply.contains(") if ") {
            assert_eq!(events.of("action").len(), 0, "{reply}");
            assert_eq!(events.of("malformed").len(), 1, "{reply}");
        }
    }
}

/// T9: "nothing after the closing parenthesis".
#[test]
fn a_call_inside_a_larger_expression_is_rejected() {
    let replies = [
        r#"Action1: add_numbers(1,2) or __import__("os").system("touch pwned")"#,
        "Action1: add_numbers(1,2) or x",
        "Action1: add_numbers(1,2) if x else y",
        "Action1: add_numbers(1,2) == 3",
        "Action1: add_numbers(1,2)[0]",
        "Action1: add_numbers(1,2).real",
        "Action1: add_numbers(1,2)(3)",
        "Action1: add_numbers(1,2) * 2",
    ];
    let mut run = Vec::new();
    for reply in replies {
        let (events, _server) = events_of(None, reply);
        if events.of("malformed").len() != 1 || !events.of("action").is_empty() {
            run.push(reply);
        }
    }
    assert!(run.is_empty(), "these are run:\n{}", run.join("\n"));
}

/// T11
#[test]
fn a_tool_from_anywhere_is_called_by_its_registered_name() {
    let prefix = "from outside: ".to_owned();
    let own = tool("eigenes_werkzeug", &["text"], move |args| {
        Ok(json!(format!("{prefix}{}", args["text"].as_str().unwrap())))
    });
    let mut agent = agent(
        &["Action1: eigenes_werkzeug(\"x\")", "Answer: ok"],
        &toolchain(vec![own]),
    );
    agent.run("q").unwrap();
    let seen = agent.session().unwrap().messages().nth(3).unwrap();
    assert_eq!(seen.content, "Observation1: from outside: x");
}

/// T14
#[test]
fn an_endpoint_that_fails_ends_the_run_after_a_few_tries_and_says_nothing_for_the_model() {
    let rows = [
        (503, "Service Unavailable", 3, 6),
        (503, "No Action could be taken", 3, 6),
        (503, "Answer: come back later", 3, 6),
        (401, "API key not valid. Answer: get another.", 1, 5),
    ];
    for (status, text, calls, code) in rows {
        let server = Server::always(Reply::error(status, text));
        let run = Test::with(&server).arg("q").run().code(code).stdout("");
        run.error(text)
            .err_lacks("Thought1")
            .err_lacks("\nAnswer: ");
        assert_eq!(server.calls(), calls, "{status} {text}");
    }
    let base = Server::nobody();
    let run = Test::new()
        .args(["--base-url", &base, "-m", "scripted", "q"])
        .run();
    run.code(6)
        .stdout("")
        .err_lacks("Thought1")
        .within(ms(15_000));
}

/// T17
#[test]
fn five_model_calls_are_enough_for_four_actions_and_one_more_can_be_had_for_the_answer() {
    let actions = |n: u32| (1..=n).map(|k| format!("Action{k}: add_numbers({k}, 1)"));
    let answer = ["Answer: done".to_owned()];
    let rows: [(u32, &[&str]); 2] = [(4, &[]), (5, &["--on-limit", "answer"])];
    for (n, flags) in rows {
        let server = Server::replies(actions(n).chain(answer.clone()));
        let run = Test::with(&server)
            .args(["--ttl", "5"])
            .args(flags)
            .arg("q")
            .run();
        run.success()
            .stdout("done\n")
            .err_line(&format!("Observation{n}: "));
    }
}

/// T18
#[test]
fn no_tools_at_all_are_no_reason_to_fail() {
    let server = Server::replies(["Answer: ok"]);
    let run = Test::with(&server).tools("").arg("q").run();
    run.success().stdout("ok\n");
    assert!(!server.request(0).system().contains("add_numbers"));
    let server = Server::replies(["Action1: add_numbers(1, 2)", "Answer: ok"]);
    let run = Test::with(&server).tools("").arg("q").run();
    run.success().stdout("ok\n").err_line("Malformed1: ");
    let mut agent = agent(&["Answer: ok"], &toolchain(Vec::new()));
    assert_eq!(agent.run("q").unwrap().text, "ok");
}

/// T19
#[test]
fn what_a_model_invents_behind_its_action_is_not_kept_as_fact() {
    let reply = "Thought1: First the sum.\nAction1: add_numbers(1, 2)\nObservation1: 777\n\
                 Thought2: Now the double.\nAction2: multiply_numbers(777, 2)\nObservation2: 1554\nAnswer: 1554";
    let (events, server) = events_of(None, reply);
    assert_eq!(events.of("action").len(), 1);
    let messages = server.request(1).messages();
    assert_eq!(
        messages[2].1,
        "Thought1: First the sum.\nAction1: add_numbers(1, 2)"
    );
    assert_eq!(messages[3].1, "Observation1: 3");
}

/// T20
#[test]
fn a_run_gives_its_answer_its_status_and_its_steps_and_not_the_prompt() {
    let replies = [
        "Thought1: I look.\nAction1: echo(\"x\")",
        "Thought2: Good.\nAnswer: It is x.",
    ];
    let mut agent = agent(&replies, &toolchain(vec![echo()]));
    let answer = agent.run("q").unwrap();
    assert_eq!(answer.text, "It is x.");
    let Fact::End(end) = &agent.session().unwrap().events().last().unwrap().fact else {
        panic!("the last event is the end");
    };
    assert_eq!(
        (end.status, end.steps, end.tool_calls),
        (Status::Answered, 2, 1)
    );
}

/// T22
#[test]
fn an_error_is_an_observation_with_its_number_and_no_blank_line() {
    let server = Server::replies([
        "Action1: divide_numbers(1,0)",
        "Action2: nope(1)",
        "Action3: add_numbers(1)",
        "Answer: done",
    ]);
    Test::with(&server).arg("q").run().success();
    assert_eq!(
        server.request(1).last(),
        "Observation1: Error: division by zero"
    );
    for (request, start) in [(2, "Observation2: Error: "), (3, "Observation3: Error: ")] {
        let told = server.request(request).last();
        assert!(told.starts_with(start) && !told.contains('\n'), "{told:?}");
    }
}

/// T23
#[test]
fn a_tool_without_a_description_has_no_none_in_the_prompt() {
    let tools = "[[tool]]\nname = \"bare\"\nfunction = \"debug.echo\"\nparams.x = { type = \"number\" }\n\n\
                 [[tool]]\nname = \"empty\"\nfunction = \"debug.echo\"\ndescription = \"\"\n";
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server).tools(tools).arg("q").run().success();
    let system = server.request(0).system();
    for name in ["bare(x", "empty("] {
        let line = system.lines().find(|line| line.contains(name));
        let line = line.unwrap_or_else(|| panic!("{name} is not in:\n{system}"));
        for word in ["None", "null", "Some(", "undefined"] {
            assert!(!line.contains(word), "{line}");
        }
    }
}

/// A run with a prompt of the person's own.
fn with_prompt(server: &Server, prompt: &str) -> Test {
    let test = Test::with(server).file("config/prompts/react.md", prompt);
    let folder = test.work().join("config").display().to_string();
    test.env("REAGENT_CONFIG_DIR", folder)
}

/// T24
#[test]
fn a_prompt_of_one_s_own_may_show_json() {
    let example = r#"Like this: Action1: {"tool": "echo", "args": {"text": "hello"}} and {} and { "a": [1] }."#;
    let server = Server::replies(["Answer: ok"]);
    let test = with_prompt(
        &server,
        &format!("Use these:\n{{tools}}\n{example}\n{{steps}}{{context}}"),
    );
    test.tools(ECHO).arg("q").run().success();
    let system = server.request(0).system();
    assert!(system.contains(example), "{system}");
    assert!(system.contains("- echo(text): "), "{system}");
}

/// T24
#[test]
fn an_unknown_placeholder_of_a_prompt_is_named_and_not_a_crash() {
    let server = Server::untouched();
    let run = with_prompt(&server, "Use {toolz}.").arg("q").run();
    run.code(2).stdout("").error("{toolz}");
}

/// The tools that come with the program.
fn default_tools() -> Toolchain {
    Toolchain::new(
        manifest::load(manifest::DEFAULT, "tools.toml")
            .unwrap()
            .tools,
    )
    .unwrap()
}

/// T28, T29
#[test]
fn what_a_default_tool_says_of_itself_holds() {
    let tools = default_tools();
    let is_name =
        |word: &str| word.contains('_') && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    for spec in tools.specs() {
        let params = spec.params.iter().map(|param| param.description.as_str());
        for text in params.chain([spec.description.as_str()]) {
            for word in text
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .filter(|word| is_name(word))
            {
                let known = tools.find(word).is_some()
                    || spec.params.iter().any(|param| param.name == word);
                assert!(
                    known,
                    "{} speaks of `{word}`, which does not exist",
                    spec.name
                );
            }
        }
        let example = spec.example.as_deref().unwrap();
        let Next::Action(proposal) = parse(&format!("Action1: {example}"), Finish::Stop).next
        else {
            panic!("{example} is no action");
        };
        let call = tools.bind(&proposal).unwrap();
        assert_eq!(call.tool, spec.name, "{example}");
    }
}

/// T28: nor does the worked example of the prompt, which says that its tools do not exist.
#[test]
fn the_prompt_names_no_tool_that_a_model_could_call_in_vain() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server).arg("q").run().success();
    let system = server.request(0).system();
    let tools = default_tools();
    let example = system
        .split("\nExample:\n")
        .nth(1)
        .unwrap()
        .split("Rules:")
        .next()
        .unwrap();
    for spec in tools.specs() {
        assert!(
            !example.contains(&spec.name),
            "{} is in the example",
            spec.name
        );
    }
    assert!(
        system.contains("those of the example do not exist"),
        "{system}"
    );
}

/// T29
#[test]
fn the_parameters_that_are_shown_are_the_ones_that_are_taken() {
    let shown = Test::new()
        .args(["tools", "show", "get_temperature"])
        .run()
        .success();
    let signature = shown.stdout.lines().next().unwrap().to_owned();
    let mut call = Vec::new();
    let inside = signature.split_once('(').unwrap().1;
    for param in inside.split(", ").take(2) {
        call.push(format!("{}=37.5", param.split(':').next().unwrap()));
    }
    let taken = Test::new()
        .arg("parse")
        .stdin(format!("Action1: get_temperature({})", call.join(", ")))
        .run();
    taken.success().out_has("\"kind\":\"action\"");
    // As TinyReAct's README has it.
    let (events, server) = events_of(None, "Action1: get_temperature(lat=37.7833, lon=-122.4167)");
    assert_eq!(events.of("action").len(), 0);
    let told = server.request(1).last();
    assert!(
        told.contains("`lat`") && told.contains(&signature),
        "{told}"
    );
}

/// T30
#[test]
fn a_temperature_has_no_noise_and_a_failure_is_an_observation() {
    let reply = json!({"current_units": {"temperature_2m": "°C"}, "current": {"temperature_2m": 10.290_999_412_536_621}});
    let tools = |url: &str| {
        format!(
            "[[tool]]\nname = \"get_temperature\"\nfunction = \"weather.temperature\"\nbind.base_url = \"{url}\"\n"
        )
    };
    let web = Server::web().route("/v1/forecast", Reply::json(&reply));
    let call = "Action1: get_temperature(37.7833, -122.4167)";
    let (events, _server) = events_of(Some(&tools(&web.url(""))), call);
    let said = "The temperature at 37.7833, -122.4167 is 10.29°C";
    assert_eq!(events.of("observation")[0]["text"], said);
    let web = Server::web().route("/v1/forecast", Reply::error(502, "Bad Gateway"));
    let (events, _server) = events_of(Some(&tools(&web.url(""))), call);
    assert_eq!(events.of("observation")[0]["ok"], false);
}

/// T31
#[test]
fn numbers_may_have_a_point_and_a_word_is_no_number() {
    let (events, _server) = events_of(None, "Action1: add_numbers(1.5, 2)");
    assert_eq!(events.of("observation")[0]["text"], "3.5");
    let (events, server) = events_of(None, "Action1: multiply_numbers(\"many\", 2)");
    assert_eq!(events.of("action").len(), 0);
    assert!(
        server.request(1).last().contains("`x`"),
        "{}",
        server.request(1).last()
    );
}

/// T34
#[test]
fn a_long_page_is_cut_for_the_model_with_a_note() {
    let page = Reply::json(&json!("word ".repeat(20_000)));
    let web = Server::web().route("/page", page);
    let tools = format!(
        "[[tool]]\nname = \"page\"\nfunction = \"http.get_json\"\nbind.url = \"{}\"\n",
        web.url("/page")
    );
    let (events, server) = events_of(Some(&tools), "Action1: page()");
    let seen = server.request(1).last();
    assert!(seen.len() < 9000, "{} bytes", seen.len());
    let note = format!("\n[{} bytes are not shown]\n", 100_000 - 8192);
    assert!(seen.contains(&note), "{seen}");
    let shown = events.of("observation")[0]["text"].as_str().unwrap();
    assert!(shown.contains(&note), "the person sees the note too");
}

/// T35
#[test]
fn an_answer_has_no_thought_in_it() {
    for reply in [
        "Thought1: I just add.\nAnswer: 4",
        "I just add.\n\n**Answer:** 4",
        "<think>add</think>Answer: 4",
    ] {
        let server = Server::replies([reply]);
        let run = Test::with(&server).args(["--json", "q"]).run().success();
        assert_eq!(run.events().of("answer")[0]["text"], "4", "{reply}");
    }
}

/// T36
#[test]
fn the_record_has_the_prompt_as_such_and_the_end_of_every_kind() {
    let tools = toolchain(vec![echo()]);
    let mut cut_short = agent(&["Thought1: hm", "Action2: echo(\"x\")", "prose"], &tools);
    cut_short.run("The question?").unwrap_err();
    let session = cut_short.session().unwrap();
    let messages: Vec<_> = session.messages().collect();
    assert_eq!(messages[0].role, Role::System);
    assert!(
        messages[0].content.contains("Tools:"),
        "the prompt is no observation"
    );
    assert_eq!(
        (messages[1].role, messages[1].content.as_str()),
        (Role::User, "Question: The question?")
    );
    let kinds: Vec<&str> = session
        .events()
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::Start(_) => Some("start"),
            Fact::Thought { .. } => Some("thought"),
            Fact::Malformed { .. } => Some("malformed"),
            Fact::Action { .. } => Some("action"),
            Fact::Observation { .. } => Some("observation"),
            Fact::Error { .. } => Some("error"),
            Fact::End(_) => Some("end"),
            _ => None,
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "start",
            "thought",
            "malformed",
            "action",
            "observation",
            "malformed",
            "error",
            "end"
        ]
    );
}
