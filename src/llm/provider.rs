//! The services whose models are known by name, as rows of one table.

use std::borrow::Cow;

use super::wire::Wire;

/// A service whose models are known by name.
#[derive(Debug, Clone)]
pub struct Provider {
    /// The word before the slash in `provider/name`.
    pub name: Cow<'static, str>,
    /// How requests are written.
    pub wire: Wire,
    /// Its address.
    pub base_url: Cow<'static, str>,
    /// The variable that holds its key; none for servers that want none.
    pub key: Option<Cow<'static, str>>,
    /// The command that prints its key, word by word.
    pub key_command: Vec<String>,
    /// The model that is asked when none is named.
    pub default_model: Cow<'static, str>,
    /// Beginnings of names that belong to it without saying so.
    pub prefixes: &'static [&'static str],
    /// Whether the person wrote this row.
    pub own: bool,
    /// Whether it may be reached over plain http on another machine.
    pub plain_http: bool,
}

const fn row(
    name: &'static str,
    wire: Wire,
    base_url: &'static str,
    key: Option<&'static str>,
    default_model: &'static str,
    prefixes: &'static [&'static str],
) -> Provider {
    Provider {
        name: Cow::Borrowed(name),
        wire,
        base_url: Cow::Borrowed(base_url),
        key: match key {
            Some(key) => Some(Cow::Borrowed(key)),
            None => None,
        },
        key_command: Vec::new(),
        default_model: Cow::Borrowed(default_model),
        prefixes,
        own: false,
        plain_http: false,
    }
}

/// The providers; those whose keys are looked for when no model is named come first, in that order.
pub const PROVIDERS: &[Provider] = &[
    row(
        "openai",
        Wire::OpenAi,
        "https://api.openai.com/v1",
        Some("OPENAI_API_KEY"),
        "gpt-4o-mini",
        &["gpt-", "chatgpt-", "o1", "o3", "o4"],
    ),
    row(
        "anthropic",
        Wire::Anthropic,
        "https://api.anthropic.com/v1",
        Some("ANTHROPIC_API_KEY"),
        "claude-haiku-4-5",
        &["claude-"],
    ),
    row(
        "gemini",
        Wire::Gemini,
        "https://generativelanguage.googleapis.com/v1beta",
        Some("GEMINI_API_KEY"),
        "gemini-2.5-flash",
        &["gemini-"],
    ),
    row(
        "openrouter",
        Wire::OpenAi,
        "https://openrouter.ai/api/v1",
        Some("OPENROUTER_API_KEY"),
        "openai/gpt-4o-mini",
        &[],
    ),
    row(
        "groq",
        Wire::OpenAi,
        "https://api.groq.com/openai/v1",
        Some("GROQ_API_KEY"),
        "llama-3.3-70b-versatile",
        &[],
    ),
    row(
        "deepseek",
        Wire::OpenAi,
        "https://api.deepseek.com/v1",
        Some("DEEPSEEK_API_KEY"),
        "deepseek-chat",
        &["deepseek-"],
    ),
    row(
        "mistral",
        Wire::OpenAi,
        "https://api.mistral.ai/v1",
        Some("MISTRAL_API_KEY"),
        "mistral-small-latest",
        &["mistral-", "codestral-"],
    ),
    row(
        "xai",
        Wire::OpenAi,
        "https://api.x.ai/v1",
        Some("XAI_API_KEY"),
        "grok-4",
        &["grok-"],
    ),
    row(
        "ollama",
        Wire::Ollama,
        "http://127.0.0.1:11434",
        None,
        "",
        &[],
    ),
    row(
        "lmstudio",
        Wire::OpenAi,
        "http://127.0.0.1:1234/v1",
        None,
        "",
        &[],
    ),
    row(
        "llamacpp",
        Wire::OpenAi,
        "http://127.0.0.1:8080/v1",
        None,
        "",
        &[],
    ),
    row(
        "vllm",
        Wire::OpenAi,
        "http://127.0.0.1:8000/v1",
        None,
        "",
        &[],
    ),
];
