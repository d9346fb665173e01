//! `tools.toml` and `reagent tools`: declared tools, their errors, and whom a project's file may command.

use std::fs;

use serde_json::json;

use crate::server::{Reply, Server};
use crate::test::{ECHO, Test, ms};

const BUILT_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tools.toml");

const DEFAULT_TOOLS: [&str; 6] = [
    "add_numbers",
    "subtract_numbers",
    "multiply_numbers",
    "divide_numbers",
    "calculate",
    "current_time",
];

fn call(args: &[&str]) -> Test {
    Test::new().args(["tools", "call"]).args(args)
}

#[test]
fn list_names_the_default_tools() {
    for args in [&["tools"][..], &["tools", "list"]] {
        let run = Test::new().args(args).run().success();
        for tool in DEFAULT_TOOLS {
            run.check(run.stdout.contains(tool), &format!("{tool} is listed"));
        }
    }
}

#[test]
fn show_describes_one_tool() {
    let run = Test::new()
        .args(["tools", "show", "add_numbers"])
        .run()
        .success();
    run.out_has("add_numbers")
        .out_has("x")
        .out_has("number")
        .out_has("Add two numbers.");
}

#[test]
fn show_of_an_unknown_tool_names_the_nearest() {
    let run = Test::new().args(["tools", "show", "add_number"]).run();
    run.code(2)
        .stdout("")
        .error("add_number")
        .err_has("add_numbers");
}

#[test]
fn call_takes_values_in_order_or_by_name() {
    let rows: [(&[&str], &str); 8] = [
        (&["add_numbers", "10", "3"], "13\n"),
        (&["subtract_numbers", "x=10", "y=3"], "7\n"),
        (&["subtract_numbers", "y=3", "x=10"], "7\n"),
        (&["multiply_numbers", "-3", "4"], "-12\n"),
        (&["divide_numbers", "1", "3"], "0.333333333333\n"),
        (&["divide_numbers", "10", "4"], "2.5\n"),
        (&["multiply_numbers", "1e3", "2"], "2000\n"),
        (&["calculate", "10 * 3 + 10"], "40\n"),
    ];
    for (args, output) in rows {
        call(args).run().success().stdout(output);
    }
}

#[test]
fn the_declared_type_decides_what_a_value_is() {
    let tools = "[[tool]]\nname = \"echo\"\nfunction = \"debug.echo\"\nparams.text = { type = \"string\" }\n\
                 params.count = { type = \"integer\" }\nparams.sure = { type = \"boolean\" }\nparams.rest = { type = \"array\" }\n";
    let test = Test::new().args([
        "tools",
        "--tools",
        "t.toml",
        "call",
        "echo",
        "42",
        "42",
        "true",
        "[1, \"a=b\"]",
    ]);
    let run = test.file("t.toml", tools).run().success();
    let said: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(
        said,
        json!({"text": "42", "count": 42, "sure": true, "rest": [1, "a=b"]})
    );
}

#[test]
fn an_equals_sign_behind_an_undeclared_name_is_part_of_the_value() {
    let test = Test::new()
        .tools(ECHO)
        .args(["tools", "call", "echo", "a=b"]);
    let run = test.run().success();
    let said: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(said, json!({"text": "a=b"}));
}

#[test]
fn call_with_wrong_arguments_says_which() {
    let rows: [(&[&str], &str); 5] = [
        (&["add_numbers", "1"], "y"),
        (&["add_numbers", "1", "2", "3"], "3"),
        (&["add_numbers", "one", "2"], "x"),
        (&["add_numbers", "1", "x=2"], "x"),
        (&["add_number", "1", "2"], "add_numbers"),
    ];
    for (args, named) in rows {
        let run = call(args).run();
        run.check(run.exit_code() == 2, &format!("{args:?} is a usage error"));
        run.stdout("").error("").err_has(named);
    }
}

#[test]
fn a_call_that_fails_exits_1() {
    call(&["divide_numbers", "1", "0"])
        .run()
        .code(1)
        .stdout("")
        .error("zero");
}

#[test]
fn calculator_bombs_end_in_time() {
    let tools =
        "[[tool]]\nname = \"calculate\"\nfunction = \"math.calculate\"\ntimeout = \"300ms\"\n";
    let deep = "(".repeat(100_000) + "1";
    let signs = "-".repeat(100_000) + "1";
    for bomb in ["9**9**9", "9^9^9^9", "999999999!", "1/0", &deep, &signs] {
        let args = ["tools", "call", "calculate", "--", bomb];
        let run = Test::new().tools(tools).args(args).run();
        run.check(run.exit_code() == 1, "it fails, and not by a crash");
        run.within(ms(3000));
    }
}

#[test]
fn check_passes_a_good_file() {
    Test::new().args(["tools", "check"]).run().success();
    Test::new()
        .tools(ECHO)
        .args(["tools", "check"])
        .run()
        .success();
}

#[test]
fn faults_of_the_file_are_named_with_their_place_and_the_nearest_name() {
    let head = "[[tool]]\nname = \"a\"\n";
    let good = "function = \"debug.echo\"\n";
    let rows = [
        (
            format!("{head}function = \"math.multipli\"\n"),
            "3:12",
            "math.multiply",
        ),
        (
            format!("{head}{good}descripton = \"x\"\n"),
            "4:1",
            "description",
        ),
        (
            format!("{head}{good}params.x = {{ type = \"strng\" }}\n"),
            "4:",
            "string",
        ),
        (
            format!("{head}{good}params.x = {{ typ = \"string\" }}\n"),
            "4:",
            "type",
        ),
        (format!("{head}{good}\n{head}{good}"), "5:", "a"),
        (
            format!("{head}{good}aproval = \"ask\"\n"),
            "4:1",
            "approval",
        ),
        (format!("{head}{good}approval = \"alow\"\n"), "4:", "allow"),
        (
            format!("{head}function = \"math.add\"\nparams.q = {{ type = \"number\" }}\n"),
            "4:",
            "q",
        ),
        (
            "[[tool]]\nname = \"two words\"\nfunction = \"debug.echo\"\n".to_owned(),
            "2:",
            "name",
        ),
        (
            "[[tool]]\nfunction = \"debug.echo\"\n".to_owned(),
            "1:",
            "name",
        ),
        ("[[tols]]\nname = \"a\"\n".to_owned(), "1:", "tool"),
        (format!("{head}function = \n"), "3:", ""),
    ];
    for (text, place, nearest) in rows {
        let test = Test::new()
            .file("t.toml", &text)
            .args(["tools", "--tools", "t.toml", "check"]);
        let run = test.run();
        run.check(run.exit_code() == 2, &format!("{text:?} is refused"));
        run.error(&format!("t.toml:{place}")).err_has(nearest);
    }
}

#[test]
fn a_broken_file_stops_a_query_before_any_call() {
    let server = Server::untouched();
    let test = Test::with(&server).tools("[[tool]]\nname = \"a\"\nfunction = \"math.multipli\"\n");
    test.arg("q").run().code(2).error("given.toml:3:");
}

#[test]
fn a_missing_tools_file_is_a_usage_error() {
    let server = Server::untouched();
    Test::with(&server)
        .args(["--tools", "nowhere.toml", "q"])
        .run()
        .code(2)
        .error("nowhere.toml");
}

#[test]
fn a_tools_file_alone_decides_what_the_model_is_offered() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server).tools(ECHO).arg("q").run().success();
    let system = server.request(0).system();
    assert!(
        system.contains("echo(text") && system.contains("Returns its text."),
        "{system}"
    );
    assert!(!system.contains("add_numbers"), "{system}");
}

/// A pure tool and one that reads the web.
fn project(url: &str) -> String {
    format!(
        "[[tool]]\nname = \"plus\"\nfunction = \"math.add\"\n\n[[tool]]\nname = \"fetch_it\"\n\
         function = \"http.get_json\"\nbind.url = \"{url}\"\napproval = \"allow\"\n"
    )
}

#[test]
fn a_project_s_own_file_is_found_but_only_its_pure_functions_are_used() {
    let web = Server::untouched();
    let server = Server::replies(["Action1: fetch_it()", "Action2: plus(1, 2)", "Answer: 3"]);
    let test = Test::with(&server).file("tools.toml", project(&web.url("/page")));
    let run = test.arg("q").run().success().stdout("3\n");
    run.notice("tools.toml")
        .err_line("Malformed1: ")
        .err_line("Observation2: 3");
    let system = server.request(0).system();
    assert!(
        system.contains("plus(") && !system.contains("fetch_it"),
        "{system}"
    );
}

#[test]
fn a_tools_file_given_by_flag_is_trusted() {
    let web = Server::web().route("/page", Reply::json(&json!({"v": "the canary"})));
    let server = Server::replies(["Action1: fetch_it()", "Answer: ok"]);
    let test = Test::with(&server).file("tools.toml", project(&web.url("/page")));
    let run = test.args(["--tools", "tools.toml", "q"]).run().success();
    run.err_has("the canary").err_lacks("notice: tools.toml");
}

#[test]
fn a_project_s_copy_of_the_built_in_file_is_used_whole() {
    let built_in = fs::read_to_string(BUILT_IN).expect("the repository has a tools.toml");
    let server = Server::replies(["Answer: ok"]);
    let run = Test::with(&server)
        .file("tools.toml", built_in)
        .args(["-q", "q"])
        .run()
        .success();
    run.err_lacks("tools.toml");
    assert!(server.request(0).system().contains("calculate("));
}

#[test]
fn a_broken_file_of_a_project_is_an_error_with_its_place() {
    let server = Server::untouched();
    let test = Test::with(&server).file(
        "tools.toml",
        "[[tool]]\nname = \"a\"\nfunction = \"math.multipli\"\n",
    );
    test.arg("q").run().code(2).error("tools.toml:3:");
}

const CRYPTO: &str = r#"
[[tool]]
name = "crypto_usd"
function = "http.get_json"
description = "Latest price of a cryptocurrency in US dollars."
params.coin = { type = "string" }
bind.url = "BASE/price?ids={coin|lower}&vs_currencies=usd"
bind.select = "/{coin|lower}/usd"
"#;

fn crypto(web: &Server) -> Test {
    Test::new().tools(&CRYPTO.replace("BASE", &web.url("")))
}

#[test]
fn a_tool_made_of_a_general_function_fetches_and_selects() {
    let web = Server::web().route(
        "/price",
        Reply::json(&json!({"bitcoin": {"usd": 107_000.5}})),
    );
    let test = crypto(&web).args(["tools", "call", "crypto_usd", "Bitcoin"]);
    test.run().success().stdout("107000.5\n");
    assert_eq!(web.request(0).path, "/price?ids=bitcoin&vs_currencies=usd");
}

#[test]
fn values_are_encoded_for_the_address_and_for_the_pointer() {
    let name = "a b/c&vs=eur?#%~ü";
    let web = Server::web().route("/price", Reply::json(&json!({name: {"usd": 1}})));
    let test = crypto(&web).args(["tools", "call", "crypto_usd", name]);
    test.run().success().stdout("1\n");
    let wanted = "/price?ids=a%20b%2Fc%26vs%3Deur%3F%23%25~%C3%BC&vs_currencies=usd";
    assert_eq!(web.request(0).path.replace("%7E", "~"), wanted);
}

#[test]
fn a_selection_that_finds_nothing_is_an_error_and_not_a_value() {
    let web = Server::web().route("/price", Reply::json(&json!({})));
    let run = crypto(&web)
        .args(["tools", "call", "crypto_usd", "nocoin"])
        .run();
    run.code(1).stdout("").error("nocoin");
}

#[test]
fn a_failing_page_is_an_observation() {
    let web = Server::web();
    let server = Server::replies(["Action1: crypto_usd(\"bitcoin\")", "Answer: unknown"]);
    let test = Test::with(&server).tools(&CRYPTO.replace("BASE", &web.url("")));
    let run = test.args(["--json", "q"]).run().success();
    let events = run.events();
    assert_eq!(events.of("observation")[0]["ok"], false);
    assert!(
        server.request(1).last().contains("404"),
        "{}",
        server.request(1).last()
    );
}

#[test]
fn a_tool_s_output_is_cut_for_the_model_and_says_so() {
    let web = Server::web().route("/page", Reply::json(&json!({"v": "x".repeat(50_000)})));
    let server = Server::replies(["Action1: page()", "Answer: ok"]);
    let tools = format!(
        "[[tool]]\nname = \"page\"\nfunction = \"http.get_json\"\nbind.url = \"{}\"\nmax_output = 1000\n",
        web.url("/page")
    );
    Test::with(&server).tools(&tools).arg("q").run().success();
    let seen = server.request(1).last();
    assert!(seen.len() < 1500, "{} bytes", seen.len());
    assert!(seen.matches('x').count() >= 500, "{seen}");
}

#[test]
fn a_result_that_was_cut_is_paged_through_where_a_tool_for_that_is_loaded() {
    let text = format!("BEGIN {} MIDDLE {} END", "x".repeat(9000), "y".repeat(9000));
    let web = Server::web().route("/page", Reply::json(&json!(text)));
    let server = Server::replies([
        "Action1: page()",
        "Action2: more(1, 6000)",
        "Action3: more(1, 18000)",
        "Action4: more(7)",
        "Answer: ok",
    ]);
    let tools = format!(
        "[[tool]]\nname = \"page\"\nfunction = \"http.get_json\"\nbind.url = \"{}\"\n\
         [[tool]]\nname = \"more\"\nfunction = \"output.more\"\n",
        web.url("/page")
    );
    Test::with(&server).tools(&tools).arg("q").run().success();
    let seen = server.request(1).last();
    assert!(seen.contains("BEGIN ") && seen.ends_with(" END"), "{seen}");
    assert!(
        seen.contains("bytes are not shown; more(1, 6144) shows more]"),
        "{seen}"
    );
    assert!(server.request(2).last().contains(" MIDDLE "));
    assert!(
        server
            .request(3)
            .last()
            .ends_with("END\n| [this is the end of it]")
    );
    assert!(server.request(4).last().contains("there is no such result"));
}

#[test]
fn a_slow_tool_ends_at_its_timeout() {
    let slow = Reply::json(&json!(1)).after(std::time::Duration::from_secs(20));
    let web = Server::web().route("/page", slow);
    let server = Server::replies(["Action1: page()", "Answer: ok"]);
    let tools = format!(
        "[[tool]]\nname = \"page\"\nfunction = \"http.get_json\"\nbind.url = \"{}\"\ntimeout = \"300ms\"\n",
        web.url("/page")
    );
    let run = Test::with(&server)
        .tools(&tools)
        .args(["--json", "q"])
        .run()
        .success();
    assert_eq!(run.events().of("observation")[0]["ok"], false);
    run.within(std::time::Duration::from_secs(6));
}

#[test]
fn a_tool_whose_approval_is_deny_is_not_run() {
    let web = Server::untouched();
    let server = Server::replies(["Action1: page()", "Answer: I may not."]);
    let tools = format!(
        "[[tool]]\nname = \"page\"\nfunction = \"http.get_json\"\nbind.url = \"{}\"\napproval = \"deny\"\n",
        web.url("/page")
    );
    Test::with(&server)
        .tools(&tools)
        .arg("q")
        .run()
        .success()
        .stdout("I may not.\n");
}

#[test]
fn an_enum_a_default_and_an_optional_parameter_are_kept_to() {
    let tools = "[[tool]]\nname = \"echo\"\nfunction = \"debug.echo\"\nparams.unit = { type = \"string\", enum = [\"c\", \"f\"] }\n\
                 params.days = { type = \"integer\", default = 3 }\nparams.note = { type = \"string\", optional = true }\n";
    let run = |args: &[&str]| {
        Test::new()
            .tools(tools)
            .args(["tools", "call", "echo"])
            .args(args)
            .run()
    };
    let said: serde_json::Value = serde_json::from_str(&run(&["c"]).success().stdout).unwrap();
    assert_eq!((&said["unit"], &said["days"]), (&json!("c"), &json!(3)));
    run(&["kelvin"]).code(2).err_has("unit");
    run(&["c", "1.5"]).code(2).err_has("days");
}
