//! `reagent config`: every value and where it comes from; and `-v`, which says what is done with them.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::{Value, json};

use crate::server::Server;
use crate::test::Test;

/// A run with this `config.toml`.
fn with(settings: &str) -> Test {
    Test::new().file("../home/.config/reagent/config.toml", settings)
}

#[test]
fn every_value_is_shown_with_its_source_and_what_it_stands_before() {
    let settings =
        "ttl = 5\ntimeout = \"90s\"\nmodel = \"fast\"\n[aliases]\nfast = \"groq/small\"\n";
    let test = with(settings)
        .args(["config", "show", "--ttl", "3"])
        .env("REAGENT_TTL", "7")
        .env("GROQ_API_KEY", "gsk-canary-0123456789");
    let run = test.run().success().stdout_lacks("canary");
    for line in [
        "ttl = 3",
        "# --ttl, over 7 from REAGENT_TTL, over 5 from config.toml\n",
        "timeout = \"90s\"",
        "retries = 2",
        "# default\n",
        "aliases.fast = \"groq/small\"",
        "# answers: groq/small\n",
        "# key: (secret) (from GROQ_API_KEY)\n",
        "# endpoint: https://api.groq.com/openai/v1/chat/completions (from the table of providers)\n",
        "# tools_file: the built-in tools.toml\n",
    ] {
        run.check(run.stdout.contains(line), &format!("stdout has {line:?}"));
    }
    // What is shown can be the settings file of the next run.
    let again = with(&run.stdout).args(["config", "--json"]).run().success();
    let shown: Value = serde_json::from_str(&again.stdout).unwrap();
    let over = json!([{ "value": "10s", "from": "default" }]);
    assert_eq!(shown["ttl"]["from"], "config.toml");
    assert_eq!(
        shown["timeout"],
        json!({ "value": "90s", "from": "config.toml", "over": [{ "value": "10m", "from": "default" }] })
    );
    assert_eq!(shown["connect_timeout"]["over"], over);
}

#[test]
fn a_setting_of_another_kind_is_a_mistake_and_not_as_if_it_were_not_there() {
    for (settings, what) in [
        ("ttl = false", "1:7: `ttl` is a text or a number"),
        ("ttl = true", "1:7: `ttl` is a text or a number"),
        ("ttl = []", "1:7: `ttl` is a text or a number"),
        ("ttl = [3]", "1:7: `ttl` is a text or a number"),
        ("max_time = {}", "1:12: `max_time` is a text or a number"),
        ("model = false", "1:9: `model` is a text or a number"),
        ("quiet = \"yes\"", "1:9: `quiet` is true or false"),
        ("quiet = []", "1:9: `quiet` is true or false"),
        ("file = true", "1:8: `file` is a text or a list"),
    ] {
        let run = with(settings).args(["-m", "demo", "2 + 3"]).run();
        run.code(2).error(what);
    }
    let test =
        with("file = [\"a.txt\", \"a.txt\"]\nquiet = true\nttl = \"3\"\n").file("a.txt", "x");
    test.args(["-m", "demo", "config"]).run().success();
}

#[test]
fn settings_that_lead_to_no_model_are_still_shown() {
    let run = with("model = \"openai/gpt-4o\"\n")
        .args(["config"])
        .run()
        .success();
    run.out_has("# answers: none (no API key for `openai`)");
}

#[test]
fn the_file_is_named_and_edited_also_when_it_is_wrong() {
    let test = Test::new().args(["config", "path"]);
    let run = test.run().success();
    assert!(
        run.stdout.ends_with("/home/.config/reagent/config.toml\n"),
        "{}",
        run.stdout
    );

    let editor = "#!/bin/sh\necho 'ttl = 4' > \"$2\"\n";
    let test = with("nonsense = 1\n")
        .args(["config", "edit"])
        .file("editor", editor);
    let path = test.work().join("editor");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    let test = test.env("EDITOR", format!("{} -w", path.display()));
    test.run().success();
    let written = fs::read_to_string(test.work().join("../home/.config/reagent/config.toml"));
    assert_eq!(written.unwrap(), "ttl = 4\n");

    // A new file is one that can be read, by its owner alone; a mistake in it is said at once.
    let test = Test::new().args(["config", "edit"]).env("EDITOR", "true");
    test.run().success();
    let data = fs::metadata(test.work().join("../home/.config/reagent/config.toml")).unwrap();
    assert_eq!(data.permissions().mode() & 0o777, 0o600);
    let test = with("nonsense = 1\n")
        .args(["config", "edit"])
        .env("EDITOR", "true");
    test.run()
        .code(2)
        .error("config.toml:1:1: unknown key `nonsense`");
    let test = Test::new()
        .args(["config", "edit"])
        .env("VISUAL", "no-such-editor");
    test.run()
        .code(2)
        .error("no-such-editor")
        .hint("export EDITOR=");
}

#[test]
fn verbose_says_what_is_used_sent_and_received() {
    let server = Server::replies(["Answer: 3"]);
    let test = Test::with(&server)
        .args(["-v", "q"])
        .env("OPENAI_API_KEY", "sk-canary-0123456789");
    let run = test.run().success().stdout("3\n").err_lacks("canary");
    let url = format!("{}/chat/completions", server.base_url());
    run.notice(&format!(
        "scripted at {url}, from --base-url; key from OPENAI_API_KEY"
    ))
    .notice("11 tools from the built-in tools.toml")
    .notice(&format!(" bytes to {url}; after "))
    .notice(": Answer: 3");
}
