//! The options: how to ask and what to show. They stand on the command line, and in `config.toml`.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::engine::Reasoning;
use crate::ui::screen::Color;

/// How to ask and what to show.
#[derive(Debug, Default, Args, Clone, Serialize)]
pub struct Options {
    /// The model: `provider/name`, a name whose provider is known, or `demo` [env: REAGENT_MODEL]
    #[arg(short, long, global = true, value_name = "NAME")]
    pub model: Option<String>,
    /// An OpenAI-compatible endpoint [env: REAGENT_BASE_URL]
    #[arg(long, global = true, value_name = "URL")]
    pub base_url: Option<String>,
    /// How to reason
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "react|native|plan",
        hide_possible_values = true
    )]
    pub engine: Option<EngineName>,
    /// Model calls per question, at least 1 [default: 10] [env: REAGENT_TTL]
    #[arg(
        short,
        long,
        global = true,
        value_name = "N",
        visible_alias = "max-iterations"
    )]
    pub ttl: Option<NonZeroU32>,
    /// The tools [default: ./tools.toml, else the user's, else those built in]
    #[arg(long, global = true, value_name = "FILE")]
    pub tools: Option<PathBuf>,
    /// A file whose content is given with the question; repeatable
    #[arg(short, long, global = true, value_name = "FILE")]
    pub file: Vec<PathBuf>,
    /// What the model should know or be
    #[arg(short, long, global = true, value_name = "TEXT")]
    pub system: Option<String>,
    /// The same, from a file
    #[arg(long, global = true, value_name = "FILE")]
    pub system_file: Option<PathBuf>,
    /// Print events as JSON lines on standard output
    #[arg(long, global = true)]
    pub json: bool,
    /// Print the answer only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// How the trace looks
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "lines|tree",
        hide_possible_values = true
    )]
    pub trace: Option<Trace>,
    /// Go on with the last conversation
    #[arg(
        short = 'c',
        long = "continue",
        global = true,
        conflicts_with = "resume"
    )]
    #[serde(rename = "continue")]
    pub go_on: bool,
    /// Go on with the conversation of this session: an id, or its beginning
    #[arg(short, long, global = true, value_name = "ID")]
    pub resume: Option<String>,
    /// When to use colours
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "auto|always|never",
        hide_possible_values = true
    )]
    pub color: Option<Color>,
    /// Allow what would be asked
    #[arg(short, long, global = true)]
    pub yes: bool,
    /// Take questions line by line, also from a pipe
    #[arg(short, long, global = true)]
    pub interactive: bool,
    /// Stop before each action, to run, change, skip or answer it
    #[arg(long, global = true, conflicts_with = "lines")]
    pub step: bool,
    /// Answer each line of standard input on a line of its own
    #[arg(long, global = true, conflicts_with_all = ["interactive", "go_on", "resume"])]
    pub lines: bool,
    /// Record all that model and tools say into this file, after what it has
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "rerun")]
    pub record: Option<PathBuf>,
    /// Answer from such a file alone
    #[arg(long, global = true, value_name = "FILE", conflicts_with_all = ["go_on", "resume"])]
    pub rerun: Option<PathBuf>,
    /// How long to wait for a silent pipe on standard input [default: 10s]
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
    #[serde(serialize_with = "as_text")]
    pub stdin_wait: Option<Duration>,
    /// End at once on an unknown tool or wrong arguments
    #[arg(long, global = true)]
    pub strict_tools: bool,
    /// What to do when the model calls are used up: stop, or spend one more that may only answer
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "stop|answer",
        hide_possible_values = true
    )]
    pub on_limit: Option<OnLimit>,
    /// How long a question may take; waiting for you does not count
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
    #[serde(serialize_with = "as_text")]
    pub max_time: Option<Duration>,
    /// How many tokens all model calls of a question may take together
    #[arg(long, global = true, value_name = "N")]
    pub max_total_tokens: Option<u64>,
    /// How many bytes all tools may give for a question together
    #[arg(long, global = true, value_name = "N")]
    pub max_total_bytes: Option<u64>,
    /// How many tokens, about, the model is sent at once; older observations are shortened to fit
    #[arg(long, global = true, value_name = "N")]
    pub max_context: Option<u64>,
    /// How much chance there is in the replies
    #[arg(long, global = true, value_name = "T", value_parser = temperature)]
    pub temperature: Option<f64>,
    /// The longest reply, in tokens
    #[arg(long, global = true, value_name = "N")]
    pub max_tokens: Option<u32>,
    /// How long one model call may take [default: 10m]
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
    #[serde(serialize_with = "as_text")]
    pub timeout: Option<Duration>,
    /// How long connecting may take [default: 10s]
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
    #[serde(serialize_with = "as_text")]
    pub connect_timeout: Option<Duration>,
    /// How long the first byte of a reply may take [default: as --timeout]
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
    #[serde(serialize_with = "as_text")]
    pub first_byte_timeout: Option<Duration>,
    /// How long a reply may be silent on its way [default: as --timeout]
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
    #[serde(serialize_with = "as_text")]
    pub idle_timeout: Option<Duration>,
    /// How often a call that failed on the way is sent again [default: 2]
    #[arg(long, global = true, value_name = "N")]
    pub retries: Option<u32>,
    /// Do not keep the session; the audit log stays
    #[arg(long, global = true)]
    pub no_save: bool,
    /// Wait for whole replies
    #[arg(long, global = true)]
    pub no_stream: bool,
    /// Say what is used, what is sent where, and what comes back
    #[arg(short, long, global = true)]
    pub verbose: bool,
}

impl Options {
    /// These, and where one was not given, that of `other`.
    pub fn over(self, other: &Self) -> Self {
        let Self {
            model,
            base_url,
            engine,
            ttl,
            tools,
            file,
            system,
            system_file,
            json,
            quiet,
            trace,
            go_on,
            resume,
            color,
            yes,
            interactive,
            step,
            lines,
            record,
            rerun,
            stdin_wait,
            strict_tools,
            on_limit,
            max_time,
            max_total_tokens,
            max_total_bytes,
            max_context,
            temperature,
            max_tokens,
            timeout,
            connect_timeout,
            first_byte_timeout,
            idle_timeout,
            retries,
            no_save,
            no_stream,
            verbose,
        } = other.clone();
        Self {
            model: self.model.or(model),
            base_url: self.base_url.or(base_url),
            engine: self.engine.or(engine),
            ttl: self.ttl.or(ttl),
            tools: self.tools.or(tools),
            file: [file, self.file].concat(),
            system: self.system.or(system),
            system_file: self.system_file.or(system_file),
            json: self.json || json,
            quiet: self.quiet || quiet,
            trace: self.trace.or(trace),
            go_on: self.go_on || go_on,
            resume: self.resume.or(resume),
            color: self.color.or(color),
            yes: self.yes || yes,
            interactive: self.interactive || interactive,
            step: self.step || step,
            lines: self.lines || lines,
            record: self.record.or(record),
            rerun: self.rerun.or(rerun),
            stdin_wait: self.stdin_wait.or(stdin_wait),
            strict_tools: self.strict_tools || strict_tools,
            on_limit: self.on_limit.or(on_limit),
            max_time: self.max_time.or(max_time),
            max_total_tokens: self.max_total_tokens.or(max_total_tokens),
            max_total_bytes: self.max_total_bytes.or(max_total_bytes),
            max_context: self.max_context.or(max_context),
            temperature: self.temperature.or(temperature),
            max_tokens: self.max_tokens.or(max_tokens),
            timeout: self.timeout.or(timeout),
            connect_timeout: self.connect_timeout.or(connect_timeout),
            first_byte_timeout: self.first_byte_timeout.or(first_byte_timeout),
            idle_timeout: self.idle_timeout.or(idle_timeout),
            retries: self.retries.or(retries),
            no_save: self.no_save || no_save,
            no_stream: self.no_stream || no_stream,
            verbose: self.verbose || verbose,
        }
    }

    /// Those that were given, each by its long name with `_` for `-`.
    pub(crate) fn given(&self) -> Map<String, Value> {
        let all = match serde_json::to_value(self) {
            Ok(Value::Object(all)) => all,
            _ => Map::new(),
        };
        let none = |value: &Value| {
            matches!(value, Value::Null | Value::Bool(false))
                || value.as_array().is_some_and(Vec::is_empty)
        };
        all.into_iter().filter(|(_, value)| !none(value)).collect()
    }
}

fn as_text<S: serde::Serializer>(
    duration: &Option<Duration>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    duration.map(crate::duration::text).serialize(serializer)
}

/// How to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineName {
    /// Thought, action and observation as text.
    #[default]
    React,
    /// Functions, called in the endpoint's own form.
    Native,
    /// Decisions as JSON objects, with a confidence.
    Plan,
}

impl From<EngineName> for Reasoning {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::React => Self::React,
            EngineName::Native => Self::Native,
            EngineName::Plan => Self::Plan,
        }
    }
}

/// How the trace looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trace {
    /// A line a thought, action and observation.
    #[default]
    Lines,
    /// The spans as a tree, with durations and tokens.
    Tree,
}

/// What to do when the model calls are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLimit {
    /// End without an answer.
    #[default]
    Stop,
    /// Spend one more call, which may only answer.
    Answer,
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let duration = crate::duration::parse(text).filter(|duration| !duration.is_zero());
    duration.ok_or_else(|| "a duration is written as 90s, 50ms or 2m".to_owned())
}

fn temperature(text: &str) -> Result<f64, String> {
    let number = text
        .parse()
        .ok()
        .filter(|number| (0.0..=2.0).contains(number));
    number.ok_or_else(|| "a temperature is a number from 0 to 2".to_owned())
}
