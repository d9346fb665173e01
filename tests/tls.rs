//! Certificates and proxies: who is trusted, what goes which way, and what is said when it does not.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::thread;

use crate::certificate::{Certificate, HOST, TRUSTED};
use crate::proxy::{Proxy, Tunnel};
use crate::server::Server;
use crate::test::{Run, Test, ms};

const KEY: &str = "sk-CANARY-0123456789abcdef";

static UNKNOWN: LazyLock<Certificate> = LazyLock::new(|| Certificate::of(&["127.0.0.1"]));
static OTHER: LazyLock<Certificate> = LazyLock::new(|| Certificate::of(&["other.test"]));
const NONE: [&str; 0] = [];

/// The program with a model at this name and the server's port.
fn asking(host: &str, address: SocketAddr) -> Test {
    let base_url = format!("https://{host}:{}/v1", address.port());
    Test::new().args(["--base-url", &base_url, "-m", "scripted"])
}

/// A failure for good that says this, without another try.
#[track_caller]
fn refused(run: Run, error: &str, hint: &str) {
    run.code(6)
        .stdout("")
        .error(error)
        .hint(hint)
        .within(ms(5000));
}

#[test]
fn a_certificate_from_ssl_cert_file_is_trusted() {
    for host in ["127.0.0.1", "localhost"] {
        let server = Server::secured(&TRUSTED, ["Answer: ok"]);
        let run = asking(host, server.address())
            .trusting(&TRUSTED)
            .arg("q")
            .run();
        run.success().stdout("ok\n");
    }
}

#[test]
fn an_unknown_certificate_is_not_trusted_and_the_hint_says_how_to() {
    let server = Server::secured(&UNKNOWN, NONE);
    for flags in [&[][..], &["--no-stream"]] {
        let test = asking("127.0.0.1", server.address())
            .args(flags.iter().copied())
            .arg("q");
        let test = test.env("OPENAI_API_KEY", KEY);
        refused(test.run(), "certificate", "SSL_CERT_FILE");
        refused(
            test.trusting(&TRUSTED).run(),
            "certificate",
            "SSL_CERT_FILE",
        );
    }
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_certificate_for_another_host_is_not_trusted() {
    let server = Server::secured(&OTHER, NONE);
    let run = asking("127.0.0.1", server.address())
        .trusting(&OTHER)
        .arg("q")
        .run();
    refused(run, "the certificate is for another host", "--base-url");
    assert_eq!(server.calls(), 0);
}

#[test]
fn a_server_without_tls_is_told_from_one_that_is_down() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let _ = stream.and_then(|mut stream| {
                stream.read_exact(&mut [0; 64])?;
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            });
        }
    });
    let run = asking("127.0.0.1", address)
        .trusting(&TRUSTED)
        .arg("q")
        .run();
    refused(run, "does not speak TLS", "http://");
}

#[test]
fn certificates_that_cannot_be_read_are_named_and_nothing_is_sent() {
    let broken = "-----BEGIN CERTIFICATE-----\nA!\n-----END CERTIFICATE-----\n";
    for (content, what) in [
        (None, "No such file"),
        (Some(""), "no certificate"),
        (Some("not a certificate"), "no certificate"),
        (Some(broken), "base64"),
    ] {
        let server = Server::secured(&TRUSTED, NONE);
        let test = |command: &[&str]| {
            let test = asking("127.0.0.1", server.address());
            let test = test.args(command.iter().copied());
            let test = test.env("SSL_CERT_FILE", "certificates.pem");
            match content {
                Some(content) => test.file("certificates.pem", content),
                None => test,
            }
        };
        let run = test(&["q"]).run();
        run.check(run.stderr.contains("certificates.pem"), "the file is named");
        refused(run, what, "SSL_CERT_FILE");
        let run = test(&["doctor"]).run().code(1);
        run.check(run.stdout.contains(what), "doctor says the same");
        assert_eq!(server.connections(), 0);
    }
}

#[test]
fn a_certificate_file_for_nothing_disturbs_nobody() {
    let server = Server::replies(["Answer: ok"]);
    let test = Test::with(&server).env("SSL_CERT_FILE", "missing.pem");
    test.arg("q").run().success().stdout("ok\n");
}

#[test]
fn the_proxy_of_the_environment_is_used_for_other_machines() {
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"] {
        for flags in [&["q"][..], &["q", "--no-stream"]] {
            let server = Server::secured(&TRUSTED, ["Answer: ok"]);
            let proxy = Proxy::to(server.address(), Tunnel::Open);
            let test = asking(HOST, server.address())
                .trusting(&TRUSTED)
                .env(name, proxy.url());
            test.args(flags.iter().copied()).run().success();
            let port = server.address().port();
            let wanted = format!("CONNECT {HOST}:{port} HTTP/1.1\r\n");
            assert!(
                proxy.asked().starts_with(&wanted),
                "{name}: {}",
                proxy.asked()
            );
        }
    }
}

#[test]
fn nothing_of_the_key_is_shown_to_a_proxy() {
    let server = Server::secured(&TRUSTED, ["Answer: ok"]);
    let proxy = Proxy::to(server.address(), Tunnel::Open);
    let test = asking(HOST, server.address()).trusting(&TRUSTED).arg("q");
    let test = test
        .env("HTTPS_PROXY", proxy.url())
        .env("OPENAI_API_KEY", KEY);
    test.run().success();
    let sent = server.request(0).header("authorization").map(str::to_owned);
    assert_eq!(sent, Some(format!("Bearer {KEY}")));
    let through = proxy.through();
    assert!(
        through.len() > 500 && through.starts_with(&[0x16, 3]),
        "TLS from the first byte"
    );
    for text in [proxy.asked().as_bytes(), &through] {
        let text = String::from_utf8_lossy(text).to_lowercase();
        assert!(
            !text.contains("canary") && !text.contains("authorization"),
            "{text}"
        );
    }
}

#[test]
fn no_proxy_goes_past_the_proxy() {
    for (host, name, value) in [
        ("192.0.2.1", "NO_PROXY", "192.0.2.1"),
        ("192.0.2.1", "no_proxy", "other.example, 192.0.2.1"),
        ("model.invalid", "NO_PROXY", "*"),
        ("model.invalid", "NO_PROXY", "one.example, invalid"),
        ("model.invalid", "NO_PROXY", ".invalid"),
    ] {
        let elsewhere = Server::untouched();
        let proxy = Proxy::to(elsewhere.address(), Tunnel::Refuse);
        // Nobody is there: that it went past the proxy is seen by how it fails.
        let base_url = format!("https://{host}/v1");
        let test = Test::new().args([
            "--base-url",
            &base_url,
            "-m",
            "x",
            "--timeout",
            "300ms",
            "q",
        ]);
        let test = test.trusting(&TRUSTED).env(name, value);
        let test = test.env("ALL_PROXY", proxy.url());
        test.run().code(6).err_lacks("proxy");
        assert_eq!(proxy.asked(), "", "{name}={value}");
        let run = test.env("ALL_PROXY", "socks5://127.0.0.1:1").run();
        run.code(6).err_lacks("SOCKS");
    }
}

#[test]
fn a_similar_name_in_no_proxy_does_not_go_past_the_proxy() {
    for value in ["", "del.test", "model.test.example", "xmodel.test", "model"] {
        let server = Server::secured(&TRUSTED, ["Answer: ok"]);
        let proxy = Proxy::to(server.address(), Tunnel::Open);
        let test = asking(HOST, server.address()).trusting(&TRUSTED).arg("q");
        let test = test.env("HTTPS_PROXY", proxy.url()).env("NO_PROXY", value);
        test.run().success();
    }
}

#[test]
fn this_machine_is_never_reached_through_a_proxy() {
    for secured in [false, true] {
        let elsewhere = Server::untouched();
        let proxy = Proxy::to(elsewhere.address(), Tunnel::Open);
        for host in ["127.0.0.1", "localhost"] {
            let server = match secured {
                true => Server::secured(&TRUSTED, ["Answer: ok"]),
                false => Server::replies(["Answer: ok"]),
            };
            let base_url = server.base_url().replace("127.0.0.1", host);
            let mut test = Test::new().args(["--base-url", &base_url, "-m", "x", "q"]);
            for name in ["ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "http_proxy"] {
                test = test.env(name, proxy.url());
            }
            test.trusting(&TRUSTED).run().success();
        }
        assert_eq!(proxy.asked(), "");
    }
}

#[test]
fn a_proxy_that_refuses_is_named_as_the_one_that_does() {
    let server = Server::secured(&TRUSTED, NONE);
    let proxy = Proxy::to(server.address(), Tunnel::Refuse);
    let test = asking(HOST, server.address()).trusting(&TRUSTED).arg("q");
    refused(
        test.env("HTTPS_PROXY", proxy.url()).run(),
        "proxy",
        "HTTPS_PROXY",
    );
}

#[test]
fn a_proxy_that_is_down_is_named_by_its_address() {
    let proxy = Server::nobody();
    let address = proxy.trim_start_matches("http://").trim_end_matches("/v1");
    let test = Test::new().args(["--base-url", "https://model.test/v1", "-m", "x", "q"]);
    let run = test
        .trusting(&TRUSTED)
        .env("HTTPS_PROXY", format!("http://{address}"))
        .run();
    refused(run, address, "");
}

#[test]
fn a_proxy_that_cannot_be_used_is_not_left_out_in_silence() {
    for (value, what) in [
        ("socks5://127.0.0.1:1080", "SOCKS"),
        ("socks5h://127.0.0.1:1080", "SOCKS"),
        ("http://[broken", "not the address"),
        ("nonsense://127.0.0.1:1", "not the address"),
    ] {
        let server = Server::secured(&TRUSTED, NONE);
        // Where the proxy was gone past, the name would be looked up.
        let test = asking(HOST, server.address()).trusting(&TRUSTED).arg("q");
        refused(test.env("ALL_PROXY", value).run(), what, "NO_PROXY");
    }
}
