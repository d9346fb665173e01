//! Keys: who gets them, and that nobody sees them.

use crate::server::{Reply, Server};
use crate::test::Test;

const KEY: &str = "sk-CANARY-0123456789abcdef";

fn bearer(server: &Server) -> Option<String> {
    server.request(0).header("authorization").map(str::to_owned)
}

/// The key as the header has it.
fn sent(key: &str) -> Option<String> {
    Some(format!("Bearer {key}"))
}

#[test]
fn loopback_needs_no_key_and_gets_none() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server).arg("q").run().success();
    assert_eq!(bearer(&server), None);
}

#[test]
fn a_key_from_the_environment_goes_to_a_base_url_from_the_flag() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .env("OPENAI_API_KEY", KEY)
        .arg("q")
        .run()
        .success();
    assert_eq!(bearer(&server), sent(KEY));
}

#[test]
fn a_key_from_the_environment_goes_to_a_base_url_from_the_environment() {
    for name in ["REAGENT_BASE_URL", "OPENAI_BASE_URL"] {
        let server = Server::replies(["Answer: ok"]);
        let test = Test::new()
            .env(name, server.base_url())
            .env("OPENAI_API_KEY", KEY);
        test.args(["-m", "gpt-4o-mini", "q"]).run().success();
        assert_eq!(bearer(&server), sent(KEY), "{name}");
        assert_eq!(server.request(0).body["model"], "gpt-4o-mini");
    }
}

#[test]
fn the_key_for_the_chosen_endpoint_wins() {
    let server = Server::replies(["Answer: ok"]);
    let test = Test::with(&server)
        .env("OPENAI_API_KEY", "sk-other")
        .env("REAGENT_API_KEY", KEY);
    test.arg("q").run().success();
    assert_eq!(bearer(&server), sent(KEY));
}

#[test]
fn another_provider_s_key_is_not_sent() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .env("ANTHROPIC_API_KEY", KEY)
        .env("GEMINI_API_KEY", KEY)
        .arg("q")
        .run()
        .success();
    let headers = server.request(0).headers;
    assert!(
        headers.iter().all(|(_, value)| !value.contains(KEY)),
        "{headers:?}"
    );
}

#[test]
fn an_empty_variable_is_a_missing_key() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .env("OPENAI_API_KEY", "")
        .env("REAGENT_API_KEY", "")
        .arg("q")
        .run()
        .success();
    assert_eq!(bearer(&server), None);
}

#[test]
fn a_missing_key_exits_2_and_names_the_variable() {
    for key in [None, Some("")] {
        let mut test = Test::new().args(["-m", "gpt-4o-mini", "q"]);
        if let Some(key) = key {
            test = test.env("OPENAI_API_KEY", key);
        }
        test.run()
            .code(2)
            .stdout("")
            .error("key")
            .hint("OPENAI_API_KEY");
    }
}

#[test]
fn an_env_file_gives_a_key() {
    let server = Server::replies(["Answer: ok"]);
    Test::with(&server)
        .file(".env", format!("OPENAI_API_KEY={KEY}\n"))
        .arg("q")
        .run()
        .success();
    assert_eq!(bearer(&server), sent(KEY));
}

#[test]
fn the_environment_wins_over_an_env_file_unless_it_is_empty() {
    for (value, wanted) in [(KEY, KEY), ("", "sk-from-file")] {
        let server = Server::replies(["Answer: ok"]);
        let test = Test::with(&server).file(".env", "OPENAI_API_KEY='sk-from-file'\n");
        test.env("OPENAI_API_KEY", value).arg("q").run().success();
        assert_eq!(bearer(&server), sent(wanted));
    }
}

#[test]
fn an_env_file_gives_nothing_but_keys() {
    let evil = Server::untouched();
    let server = Server::replies(["Answer: ok"]);
    let file = format!(
        "REAGENT_BASE_URL={0}\nOPENAI_BASE_URL={0}\nREAGENT_MODEL=evil\nREAGENT_TTL=1\nREAGENT_CONFIG_DIR=.\nHTTP_PROXY={0}\nALL_PROXY={0}\n",
        evil.base_url()
    );
    let test = Test::new().file(".env", file).env("OPENAI_API_KEY", KEY);
    let test =
        test.env("OPENAI_BASE_URL", server.base_url())
            .args(["-m", "gpt-4o-mini", "--json", "q"]);
    let run = test.run().success();
    assert_eq!(run.events().of("start")[0]["ttl"], 10);
    assert_eq!(server.request(0).body["model"], "gpt-4o-mini");
}

#[test]
fn a_broken_env_file_is_no_panic_and_shows_no_key() {
    let test = Test::demo().file(".env", format!("OPENAI_API_KEY=\"{KEY}\n=\n\u{0}"));
    let run = test.arg("2 + 2").run().err_lacks(KEY);
    run.check(matches!(run.exit_code(), 0 | 2), "it goes on or refuses");
}

#[test]
fn a_key_shows_in_no_output_even_if_the_server_says_it() {
    for flags in [&[][..], &["--json"], &["--trace", "tree"]] {
        let message = format!("Incorrect API key provided: {KEY}. See also base64 or {KEY}");
        let server = Server::replies([Reply::error(401, &message)]);
        let test = Test::with(&server)
            .env("OPENAI_API_KEY", KEY)
            .args(flags)
            .arg("q");
        let run = test.run().code(5).err_lacks(KEY);
        run.check(!run.stdout.contains(KEY), "stdout lacks the key");
        run.check(
            (run.stdout.clone() + &run.stderr).contains("Incorrect API key"),
            "the rest of the message is shown",
        );
        assert_eq!(bearer(&server), sent(KEY));
    }
}

#[test]
fn a_key_shows_in_no_output_even_if_the_model_says_it() {
    let server = Server::replies([
        format!("Thought1: The key is {KEY}.\nAction1: add_numbers(1, \"{KEY}\")"),
        format!("Answer: {KEY}"),
    ]);
    let test = Test::with(&server).env("OPENAI_API_KEY", KEY).arg("q");
    let run = test.run().success().err_lacks(KEY);
    run.check(!run.stdout.contains(KEY), "stdout lacks the key");
}

#[test]
fn there_is_no_flag_for_a_key() {
    let server = Server::untouched();
    Test::with(&server)
        .args(["--api-key", KEY, "q"])
        .run()
        .code(2)
        .err_lacks(KEY);
}

#[test]
fn no_file_in_the_home_holds_the_key() {
    let server = Server::replies([format!("Answer: {KEY}")]);
    let test = Test::with(&server).env("OPENAI_API_KEY", KEY).arg("q");
    test.run().success();
    let mut folders = vec![test.work().with_file_name("home")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
                assert!(!text.contains(KEY), "the key is in {}", path.display());
            }
        }
    }
}
