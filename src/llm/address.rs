//! Addresses as people write them.

use ureq::http::Uri;

use super::wire::Wire;
use crate::error::{Error, Result};

/// An address as people write it, made whole: no trailing slash or path of a call, the format's own
/// path when there is none. Plain http goes only to this machine, since the key would be readable on
/// the way, unless the person allows it.
pub(crate) fn base_url(given: &str, wire: Wire, plain_http: bool) -> Result<String> {
    let wrong = |why: &str| {
        let hint = "a base URL looks like https://api.example.com/v1";
        // What stands around the address proper may be a key.
        let shown = if given.contains(['@', '?', '#']) {
            "…"
        } else {
            given
        };
        Error::config_hint(format!("base URL `{shown}`: {why}"), hint)
    };
    let mut trimmed = given.trim().trim_end_matches('/');
    for tail in wire.tails() {
        trimmed = trimmed
            .strip_suffix(tail)
            .unwrap_or(trimmed)
            .trim_end_matches('/');
    }
    let uri: Uri = trimmed.parse().map_err(|_| wrong("not an address"))?;
    let authority = uri.authority().ok_or_else(|| wrong("no host"))?;
    if authority.as_str().contains('@') {
        return Err(wrong("a key does not belong in it"));
    }
    if uri.query().is_some() || trimmed.contains('#') {
        return Err(wrong("it must not have a query or a fragment"));
    }
    match uri.scheme_str() {
        Some("https") => {}
        Some("http") if plain_http || is_on_this_machine(trimmed) => {}
        Some("http") => return Err(wrong("plain http is for servers on this machine")),
        _ => return Err(wrong("neither https nor http")),
    }
    let path = if matches!(uri.path(), "" | "/") {
        wire.root()
    } else {
        ""
    };
    Ok(format!("{trimmed}{path}"))
}

/// Whether an address names this machine itself.
pub(crate) fn is_on_this_machine(url: &str) -> bool {
    let uri = url.parse::<Uri>();
    let host = uri.as_ref().ok().and_then(Uri::host).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback())
}

/// Ollama's own variable names a host, a port, or both; the address on which it listens is none that
/// can be dialled when it means all of them.
pub(crate) fn ollama(host: &str) -> String {
    let host = host.trim().trim_end_matches('/');
    let (scheme, rest) = host.split_once("://").unwrap_or(("http", host));
    let (name, path) = rest
        .split_once('/')
        .map_or((rest, String::new()), |(name, path)| {
            (name, format!("/{path}"))
        });
    let (name, port) = match name
        .rsplit_once(':')
        .filter(|(_, port)| port.bytes().all(|b| b.is_ascii_digit()))
    {
        Some((name, port)) => (name, port),
        None => (name, if scheme == "https" { "443" } else { "11434" }),
    };
    let name = if matches!(name, "" | "0.0.0.0" | "[::]") {
        "127.0.0.1"
    } else {
        name
    };
    format!("{scheme}://{name}:{port}{path}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_made_whole() {
        for (given, wire, wanted) in [
            (
                "http://127.0.0.1:8080",
                Wire::OpenAi,
                "http://127.0.0.1:8080/v1",
            ),
            (
                "http://localhost:8080/v1/",
                Wire::OpenAi,
                "http://localhost:8080/v1",
            ),
            ("http://[::1]:1/v1", Wire::OpenAi, "http://[::1]:1/v1"),
            (
                "https://x.example/v1/chat/completions",
                Wire::OpenAi,
                "https://x.example/v1",
            ),
            (
                "https://x.example/api//",
                Wire::OpenAi,
                "https://x.example/api",
            ),
            ("https://x.example", Wire::Anthropic, "https://x.example/v1"),
            (
                "https://x.example/v1/messages",
                Wire::Anthropic,
                "https://x.example/v1",
            ),
            (
                "https://x.example",
                Wire::Gemini,
                "https://x.example/v1beta",
            ),
            (
                "http://127.0.0.1:11434",
                Wire::Ollama,
                "http://127.0.0.1:11434",
            ),
            (
                "http://127.0.0.1:11434/api/chat",
                Wire::Ollama,
                "http://127.0.0.1:11434",
            ),
            (
                "http://127.0.0.1:11434/v1",
                Wire::Ollama,
                "http://127.0.0.1:11434",
            ),
        ] {
            assert_eq!(base_url(given, wire, false).unwrap(), wanted);
        }
        for wrong in [
            "",
            "x",
            "ftp://x/v1",
            "http://example.org/v1",
            "https://k@x/v1",
            "https://x/v1?key=k",
            "https://x/v1#k",
            "http://127.0.0.1.evil/v1",
        ] {
            assert!(base_url(wrong, Wire::OpenAi, false).is_err(), "{wrong}");
        }
        assert!(base_url("http://example.org/v1", Wire::OpenAi, true).is_ok());
    }

    #[test]
    fn ollamas_own_variable_is_read_as_ollama_reads_it() {
        for (host, wanted) in [
            ("0.0.0.0", "http://127.0.0.1:11434"),
            (":7", "http://127.0.0.1:7"),
            ("box:7", "http://box:7"),
            ("https://box/x/", "https://box:443/x"),
            ("http://127.0.0.1:11434/", "http://127.0.0.1:11434"),
        ] {
            assert_eq!(ollama(host), wanted);
        }
    }
}
