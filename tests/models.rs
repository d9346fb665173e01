//! Which endpoint and which key a model's name stands for.

use reagent::error::{Error, Result};
use reagent::llm::provider::{PROVIDERS, Provider};
use reagent::llm::resolve::{Known, Source, resolve};
use reagent::llm::{Choice, Endpoint};

fn named(
    model: Option<&str>,
    base_url: Option<(&str, Source)>,
    set: &[(&str, &str)],
) -> Result<Endpoint> {
    let variable = |name: &str| {
        let listed = set
            .iter()
            .find(|(key, value)| *key == name && !value.trim().is_empty());
        listed.map(|(_, value)| (*value).to_owned())
    };
    let own = Provider {
        name: "corp".into(),
        base_url: "https://llm.corp.example/v1".into(),
        key: Some("CORP_API_KEY".into()),
        own: true,
        ..PROVIDERS[0].clone()
    };
    let known = Known {
        model,
        base_url,
        providers: &[own],
        aliases: &[("fast".to_owned(), "groq/small".to_owned())],
        variable: &variable,
        in_file: &|name| (name == "GROQ_API_KEY").then(|| "from-file".to_owned()),
        ..Known::default()
    };
    match resolve(&known)?.0 {
        Choice::Remote(endpoint) => Ok(endpoint),
        Choice::Demo => Err(Error::config("demo")),
    }
}

#[test]
fn a_model_is_found_by_name_key_and_address() {
    let flag = |url| Some((url, Source::Flag));
    for (model, base_url, set, name, url, key) in [
        (
            None,
            None,
            &[][..],
            "groq/llama-3.3-70b-versatile",
            "https://api.groq.com/openai/v1",
            Some("GROQ_API_KEY in .env"),
        ),
        (
            None,
            None,
            &[("GROQ_API_KEY", "k")],
            "groq/llama-3.3-70b-versatile",
            "https://api.groq.com/openai/v1",
            Some("GROQ_API_KEY"),
        ),
        (
            None,
            None,
            &[("OPENAI_API_KEY", " "), ("ANTHROPIC_API_KEY", "k")],
            "anthropic/claude-haiku-4-5",
            "https://api.anthropic.com/v1",
            Some("ANTHROPIC_API_KEY"),
        ),
        (
            Some("gpt-4o"),
            None,
            &[("OPENAI_API_KEY", "k")],
            "openai/gpt-4o",
            "https://api.openai.com/v1",
            Some("OPENAI_API_KEY"),
        ),
        (
            Some("claude-x"),
            None,
            &[
                ("ANTHROPIC_API_KEY", "k"),
                ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9"),
            ],
            "anthropic/claude-x",
            "http://127.0.0.1:9/v1",
            Some("ANTHROPIC_API_KEY"),
        ),
        (
            Some("o3-mini"),
            None,
            &[("REAGENT_API_KEY", "k")],
            "openai/o3-mini",
            "https://api.openai.com/v1",
            Some("REAGENT_API_KEY"),
        ),
        (
            Some("openrouter/a/b"),
            None,
            &[("OPENROUTER_API_KEY", "k")],
            "openrouter/a/b",
            "https://openrouter.ai/api/v1",
            Some("OPENROUTER_API_KEY"),
        ),
        (
            Some("fast"),
            None,
            &[],
            "groq/small",
            "https://api.groq.com/openai/v1",
            Some("GROQ_API_KEY in .env"),
        ),
        (
            Some("corp/x"),
            None,
            &[("CORP_API_KEY", "k")],
            "corp/x",
            "https://llm.corp.example/v1",
            Some("CORP_API_KEY"),
        ),
        (
            Some("ollama/q:1b"),
            None,
            &[("OLLAMA_HOST", "0.0.0.0:7")],
            "ollama/q:1b",
            "http://127.0.0.1:7",
            None,
        ),
        (
            Some("a/b"),
            flag("http://localhost:1/v1"),
            &[],
            "a/b",
            "http://localhost:1/v1",
            None,
        ),
        (
            Some("openai/m"),
            flag("http://localhost:1"),
            &[("OPENAI_API_KEY", "k")],
            "openai/m",
            "http://localhost:1/v1",
            Some("OPENAI_API_KEY"),
        ),
        (
            Some("gemini/m"),
            flag("http://localhost:1"),
            &[("OPENAI_API_KEY", "k")],
            "gemini/m",
            "http://localhost:1/v1beta",
            None,
        ),
        // The configuration's address is not trusted with the environment's key.
        (
            Some("m"),
            Some(("http://localhost:1", Source::UserConfig)),
            &[("OPENAI_API_KEY", "k")],
            "m",
            "http://localhost:1/v1",
            None,
        ),
        (
            Some("m"),
            Some(("https://x.example", Source::UserConfig)),
            &[("REAGENT_API_KEY", "k")],
            "m",
            "https://x.example/v1",
            Some("REAGENT_API_KEY"),
        ),
    ] {
        let endpoint = named(model, base_url, set).unwrap();
        let found = (
            endpoint.name.as_str(),
            endpoint.base_url.as_str(),
            endpoint.key_from.as_deref(),
        );
        assert_eq!(found, (name, url, key));
    }
    assert_eq!(
        named(Some("gemini/m"), flag("http://[::1]:1"), &[])
            .unwrap()
            .model,
        "m"
    );
    assert_eq!(
        named(Some("openai/m"), flag("http://[::1]:1"), &[])
            .unwrap()
            .model,
        "openai/m"
    );
    for (model, base_url, set) in [
        (Some("gpt-4o"), None, &[][..]),
        (Some("mystery"), None, &[]),
        (Some("ollama/"), None, &[]),
        (None, flag("http://localhost:1/v1"), &[]),
        (Some("m"), flag("http://example.org/v1"), &[]),
        (
            Some("m"),
            Some(("https://x.example", Source::UserConfig)),
            &[("OPENAI_API_KEY", "k")],
        ),
    ] {
        assert!(named(model, base_url, set).is_err(), "{model:?}");
    }
}
