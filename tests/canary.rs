//! A key goes to its endpoint and nowhere else, whatever the endpoint does with it.
//!
//! What leaves the program is searched for pieces of the key, in every form that can be undone.

use std::fs;
use std::path::Path;

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::DecodePaddingMode;
use base64::engine::general_purpose::{
    GeneralPurpose, GeneralPurposeConfig, STANDARD as BASE64, URL_SAFE as BASE64_URL,
};
use reagent::llm::wire::Wire;
use serde_json::{Value, json};

use crate::certificate::{HOST, TRUSTED};
use crate::proxy::{Proxy, Tunnel};
use crate::server::{Reply, Request, Server};
use crate::service;
use crate::terminal::{ALL, Terminal};
use crate::test::{ECHO, Run, Test};

/// Every character of it that can be written in another way is.
const KEY: &str = r#"sk-CANARY/01+23"45\67=89zq~0aX"#;
/// So much of it is a leak.
const PIECE: usize = 12;

/// The ways in which a server may write the key.
fn forms() -> Vec<String> {
    let hex: String = KEY.bytes().map(|byte| format!("{byte:02x}")).collect();
    let percent = |byte: u8| match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    let percent: String = KEY.bytes().map(percent).collect();
    let mut forms = vec![
        KEY.to_owned(),
        format!("Bearer {KEY}."),
        format!("xx{KEY}xx"),
        json!(KEY).to_string(),
        json!(KEY).to_string().replace('/', "\\/"),
        hex.to_uppercase(),
        hex,
        percent
            .to_lowercase()
            .replace("sk-canary", "sk-CANARY")
            .replace("0ax", "0aX"),
        percent,
    ];
    for before in ["", "x", ":-", "Bearer "] {
        forms.push(BASE64.encode(format!("{before}{KEY}")));
        forms.push(BASE64_URL.encode(format!("{before}{KEY}{before}")));
    }
    forms
}

/// Whether a text has a piece of the key, in any form.
fn leaks(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).into_owned();
    let bare = text.replace(['\\', '\n', '\r'], "");
    let key = KEY.replace('\\', "");
    let has = |bytes: &[u8], key: &str| {
        let text = String::from_utf8_lossy(bytes);
        (0..=key.len() - PIECE).any(|at| text.contains(&key[at..at + PIECE]))
    };
    let digits = |allowed: fn(char) -> bool| {
        let runs = text.split(move |c| !allowed(c)).map(str::to_owned);
        runs.filter(|run| run.len() >= PIECE).collect::<Vec<_>>()
    };
    let hex = digits(|c| c.is_ascii_hexdigit())
        .into_iter()
        .flat_map(|run| {
            [0, 1].map(|start| {
                let pairs = run.as_bytes()[start..].chunks_exact(2);
                pairs
                    .map(|pair| u8::from_str_radix(&String::from_utf8_lossy(pair), 16).unwrap())
                    .collect()
            })
        });
    let lenient = GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let engines = [STANDARD, URL_SAFE].map(|alphabet| GeneralPurpose::new(&alphabet, lenient));
    let base64 = digits(|c| c.is_ascii_alphanumeric() || "+/-_".contains(c));
    let base64 = base64.iter().flat_map(|run| {
        let starts = (0..4).flat_map(|start| engines.iter().map(move |engine| (start, engine)));
        starts.filter_map(|(start, engine)| {
            let run = &run.as_bytes()[start..];
            engine.decode(&run[..run.len() / 4 * 4]).ok()
        })
    });
    let percent = || {
        let mut parts = bare.split('%');
        let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            match part
                .get(..2)
                .and_then(|hex| u8::from_str_radix(hex, 16).ok())
            {
                Some(byte) => {
                    bytes.push(byte);
                    bytes.extend_from_slice(&part.as_bytes()[2..]);
                }
                None => bytes.extend_from_slice(part.as_bytes()),
            }
        }
        bytes
    };
    let decoded = hex.chain(base64).collect::<Vec<Vec<u8>>>();
    has(text.as_bytes(), KEY)
        || has(bare.as_bytes(), &key)
        || has(&percent(), KEY)
        || has(&percent(), &key)
        || decoded.iter().any(|bytes| has(bytes, KEY))
}

/// Nothing of the key is in what a run showed and kept.
#[track_caller]
fn clean(run: &Run, test: &Test) {
    run.check(!leaks(run.stdout.as_bytes()), "no key is on stdout");
    run.check(!leaks(run.stderr.as_bytes()), "no key is on stderr");
    kept(&test.work().with_file_name("home"));
}

/// No file that the program wrote has the key; what the test wrote is called `config.toml`.
#[track_caller]
fn kept(folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => kept(&path),
            false if path.ends_with("config.toml") => {}
            false => assert!(!leaks(&fs::read(&path).unwrap()), "{}", path.display()),
        }
    }
}

/// Nothing of the key is in requests to somebody else.
#[track_caller]
fn not_sent(requests: &[Request]) {
    for request in requests {
        let Request {
            path,
            headers,
            body,
            ..
        } = request;
        let all = format!("{path}\n{headers:?}\n{body}");
        assert!(!leaks(all.as_bytes()), "{all}");
    }
}

/// Where a key can come from.
const SOURCES: [fn(Test) -> Test; 4] = [
    |test| test.env("OPENAI_API_KEY", KEY),
    |test| test.env("REAGENT_API_KEY", KEY),
    |test| test.file(".env", format!("OPENAI_API_KEY='{KEY}'\n")),
    |test| {
        let test = test.file("key", KEY);
        settings(&test, &json!(["cat", test.work().join("key")]));
        test
    },
];

/// Has the person's own settings name a command for the key.
fn settings(test: &Test, command: &Value) {
    let folder = test.work().with_file_name("home").join(".config/reagent");
    fs::create_dir_all(&folder).unwrap();
    fs::write(
        folder.join("config.toml"),
        format!("api_key_cmd = {command}\n"),
    )
    .unwrap();
}

/// The ways in which a run is shown.
const SHOWN: [&[&str]; 6] = [
    &["-v"],
    &["-v", "--no-stream"],
    &["--json"],
    &["--json", "--no-stream", "-v"],
    &["--trace", "tree"],
    &["-q"],
];

/// A stream of single letters.
fn spelled(text: &str) -> Reply {
    let letters = text.chars().map(String::from).collect::<Vec<_>>();
    let pieces = letters
        .iter()
        .map(|letter| service::piece(Wire::OpenAi, letter));
    let end = service::end(Wire::OpenAi, text, "stop", false);
    Reply::bytes("text/event-stream", pieces.chain(end).collect::<String>())
}

#[test]
fn the_search_finds_what_it_is_for() {
    for form in forms() {
        assert!(leaks(format!("before {form} after").as_bytes()), "{form}");
        assert!(
            leaks(json!({ "text": form }).to_string().as_bytes()),
            "{form}"
        );
    }
    assert!(leaks(&KEY.as_bytes()[..PIECE]), "a piece");
    assert!(!leaks(b"(secret) and sk-CANARY/0"));
}

#[test]
fn a_key_from_anywhere_reaches_its_endpoint_and_nothing_else() {
    for source in SOURCES {
        for flags in SHOWN {
            let said = forms().join(" ");
            let server = Server::replies([
                format!("Thought1: {said}\nAction1: echo({})", json!(said)),
                format!("Answer: {said}"),
            ]);
            let test = source(Test::with(&server))
                .tools(ECHO)
                .args(flags.iter().copied());
            let test = test.arg("q");
            let run = test.run().success().out_has("(secret)");
            clean(&run, &test);
            let sent = server.request(1).header("authorization").map(str::to_owned);
            assert_eq!(sent, Some(format!("Bearer {KEY}")));
            not_sent(&[Request {
                headers: Vec::new(),
                ..server.request(1)
            }]);
        }
    }
}

#[test]
fn a_key_shows_in_no_error_of_its_endpoint() {
    for form in forms() {
        for (status, code) in [(401, 5), (400, 6), (404, 6)] {
            let said = || Reply::error(status, &format!("no such key: {form}"));
            let models = json!({"data": [{"id": form.clone()}]});
            let server = Server::replies([said()]).route("/v1/models", Reply::json(&models));
            let test = SOURCES[0](Test::with(&server)).args(["-v", "q"]);
            clean(&test.run().code(code), &test);
        }
    }
}

#[test]
fn a_key_shows_in_no_body_that_is_none() {
    let said = forms().join("\n");
    for kind in [
        "text/plain",
        "text/html",
        "application/json",
        "text/event-stream",
    ] {
        for status in [200, 403, 429, 500] {
            for flags in [&["-v"][..], &["--json", "--no-stream"]] {
                let reply = Reply::bytes(kind, said.clone()).status(status);
                let reply = reply.header("retry-after", "0").header("x-request-id", KEY);
                let server = Server::always(reply);
                let test = SOURCES[0](Test::with(&server))
                    .args(flags.iter().copied())
                    .arg("q");
                let run = test.run();
                run.check(run.exit_code() > 4, "it fails");
                clean(&run, &test);
            }
        }
    }
}

#[test]
fn a_key_shows_not_even_where_a_message_is_cut() {
    for form in [KEY.to_owned(), BASE64.encode(KEY)] {
        // A message is cut somewhere below 500 letters.
        for before in (360..480).step_by(8) {
            let message = "x".repeat(before) + &form;
            let server = Server::replies([Reply::error(400, &message)]);
            let test = SOURCES[0](Test::with(&server)).args(["-v", "q"]);
            clean(&test.run().code(6), &test);
        }
    }
}

#[test]
fn a_key_that_comes_letter_by_letter_is_not_shown() {
    for form in forms() {
        let replies = || [spelled(&format!("Thought1: {form}\nAnswer: It is {form}."))];
        for flags in [&["-v"][..], &["--json"]] {
            let server = Server::replies(replies());
            let test = SOURCES[0](Test::with(&server))
                .args(flags.iter().copied())
                .arg("q");
            clean(&test.run().success(), &test);
        }
        let server = Server::replies(replies());
        let test = SOURCES[0](Test::with(&server)).arg("q");
        let screen = Terminal::start(&test, ALL).finish();
        assert_eq!(screen.code, 0);
        assert!(!leaks(screen.plain.as_bytes()), "{}", screen.plain);
    }
}

#[test]
fn no_tool_and_no_redirect_takes_a_key_elsewhere() {
    let escaped: String = KEY.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
    for form in forms()
        .into_iter()
        .map(|form| json!(form).to_string())
        .chain([format!("\"{escaped}\"")])
    {
        let web = Server::web().route("/w/api.php", Reply::json(&json!({"query": {"search": []}})));
        let tools = format!(
            "[[tool]]\nname = \"look\"\nfunction = \"wikipedia.search\"\nbind.base_url = \"{}\"\n",
            web.url("")
        );
        let server = Server::replies([format!("Action1: look({form})"), "Answer: ok".to_owned()]);
        let test = SOURCES[0](Test::with(&server))
            .tools(&tools)
            .args(["-v", "q"]);
        clean(&test.run().success(), &test);
        assert!(web.calls() > 0);
        not_sent(&web.requests());
    }
    let elsewhere = Server::untouched();
    for status in [301, 302, 307, 308] {
        let away =
            Reply::page(status, "").header("location", elsewhere.url("/v1/chat/completions"));
        let server = Server::always(away);
        for command in [&["q"][..], &["models"], &["doctor"]] {
            let test = SOURCES[1](Test::with(&server)).args(command.iter().copied());
            clean(&test.run(), &test);
        }
    }
    assert_eq!(elsewhere.connections(), 0);
}

#[test]
fn a_key_behind_a_proxy_is_within_the_tunnel_only() {
    for source in SOURCES {
        let server = Server::secured(&TRUSTED, [format!("Answer: {KEY}")]);
        let proxy = Proxy::to(server.address(), Tunnel::Open);
        let base_url = format!("https://{HOST}:{}/v1", server.address().port());
        let test = Test::new().args(["--base-url", &base_url, "-m", "x", "-v", "q"]);
        let test = source(test)
            .trusting(&TRUSTED)
            .env("ALL_PROXY", proxy.url());
        clean(&test.run().success(), &test);
        assert!(!leaks(proxy.asked().as_bytes()) && !leaks(&proxy.through()));
    }
}

#[test]
fn no_command_shows_a_key() {
    let models = json!({"data": [{"id": "scripted"}, {"id": KEY}]});
    for source in SOURCES {
        for command in [
            &["config"][..],
            &["config", "show", "--json"],
            &["doctor"],
            &["doctor", "--json"],
            &["models", "-v"],
            &["tools", "-v"],
        ] {
            let server = Server::always(format!("alpha {KEY}")).at_will();
            let server = server.route("/v1/models", Reply::json(&models));
            let test = source(Test::with(&server)).args(command.iter().copied());
            let run = test.run();
            run.check(!run.stdout.is_empty(), "something is shown");
            clean(&run, &test);
        }
    }
}

#[test]
fn a_key_at_the_prompt_is_neither_shown_nor_kept() {
    let server = Server::replies([format!("Thought1: {KEY}\nAnswer: It is {KEY}, isn't it?")]);
    let test = SOURCES[0](Test::with(&server));
    let mut terminal = Terminal::start(&test, ALL);
    terminal.prompt();
    terminal.send("Who am I?\r");
    terminal.wait_for("isn't it?");
    for command in ["/messages", "/model", "/tools"] {
        terminal.prompt();
        terminal.send(&format!("{command}\r"));
    }
    terminal.prompt();
    let shown = terminal.shown();
    assert!(!leaks(shown.as_bytes()), "{shown}");
    // A person may paste one: it is on the screen then, but not in the history.
    terminal.send(&format!("/help {KEY}\r"));
    terminal.prompt();
    terminal.send("\x04");
    // There is no such command.
    assert_eq!(terminal.finish().code, 2);
    kept(&test.work().with_file_name("home"));
    assert!(
        fs::read_to_string(test.state().join("history"))
            .unwrap()
            .contains("/help (secret)")
    );
}

#[test]
fn a_command_for_a_key_shows_none_when_it_fails() {
    let server = Server::untouched();
    let test = Test::with(&server).arg("q");
    settings(
        &test,
        &json!(["sh", "-c", format!("printf %s '{KEY}'; exit 3")]),
    );
    clean(&test.run().code(2), &test);
}
