//! The command line: what was typed. What is meant by it is decided in `config`.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};

use crate::ui::screen::Color;

/// A ReAct agent: it reasons, acts and observes until it has an answer.
#[derive(Debug, Parser)]
#[command(
    name = "reagent",
    version,
    disable_help_subcommand = true,
    override_usage = "reagent [OPTIONS] [QUERY]...\n       reagent [OPTIONS] COMMAND",
    after_help = "Without QUERY, on a terminal, questions are taken at a prompt.\n\
        Exit codes: 0 answered, 1 failed, 2 usage or configuration, 3 limit reached, 4 not approved,\n\
        5 key rejected, 6 endpoint unreachable or refusing, 130 interrupted."
)]
pub struct Cli {
    /// How to ask and what to show.
    #[command(flatten)]
    pub options: Options,
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Ask once; for questions that begin like a command
    Ask {
        /// The question; `-` waits for standard input
        query: Vec<String>,
    },
    /// Show, call or check the tools
    Tools {
        /// What to do with them
        #[command(subcommand)]
        action: Option<ToolsAction>,
    },
    /// List the models that the endpoint offers
    Models,
    /// Read a model's reply on standard input and print what it comes to, as JSON
    Parse {
        /// Why the reply ended: stop, length, or what the endpoint said
        #[arg(long, value_name = "R", default_value = "stop")]
        finish_reason: String,
    },
}

/// What to do with the tools.
#[derive(Debug, Subcommand)]
pub enum ToolsAction {
    /// List them
    List,
    /// Show one of them
    Show {
        /// Its name
        name: String,
    },
    /// Call one of them, by hand
    Call {
        /// Its name
        name: String,
        /// The next parameter's value, or name=value
        #[arg(allow_negative_numbers = true)]
        args: Vec<String>,
    },
    /// Read the tools file and say what is wrong with it
    Check,
}

/// How to ask and what to show.
#[derive(Debug, Default, Args, Clone)]
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
        value_name = "react",
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
    /// How long to wait for a silent pipe on standard input [default: 10s]
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
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
    /// How much chance there is in the replies
    #[arg(long, global = true, value_name = "T", value_parser = temperature)]
    pub temperature: Option<f64>,
    /// The longest reply, in tokens
    #[arg(long, global = true, value_name = "N")]
    pub max_tokens: Option<u32>,
    /// How long one model call may take [default: 10m]
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// How long connecting may take [default: 10s]
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
    pub connect_timeout: Option<Duration>,
    /// How long the first byte of a reply may take [default: as --timeout]
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
    pub first_byte_timeout: Option<Duration>,
    /// How long a reply may be silent on its way [default: as --timeout]
    #[arg(long, global = true, value_name = "D", value_parser = duration)]
    pub idle_timeout: Option<Duration>,
    /// How often a call that failed on the way is sent again [default: 2]
    #[arg(long, global = true, value_name = "N")]
    pub retries: Option<u32>,
    /// Wait for whole replies
    #[arg(long, global = true)]
    pub no_stream: bool,
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
            color,
            yes,
            interactive,
            stdin_wait,
            strict_tools,
            on_limit,
            temperature,
            max_tokens,
            timeout,
            connect_timeout,
            first_byte_timeout,
            idle_timeout,
            retries,
            no_stream,
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
            color: self.color.or(color),
            yes: self.yes || yes,
            interactive: self.interactive || interactive,
            stdin_wait: self.stdin_wait.or(stdin_wait),
            strict_tools: self.strict_tools || strict_tools,
            on_limit: self.on_limit.or(on_limit),
            temperature: self.temperature.or(temperature),
            max_tokens: self.max_tokens.or(max_tokens),
            timeout: self.timeout.or(timeout),
            connect_timeout: self.connect_timeout.or(connect_timeout),
            first_byte_timeout: self.first_byte_timeout.or(first_byte_timeout),
            idle_timeout: self.idle_timeout.or(idle_timeout),
            retries: self.retries.or(retries),
            no_stream: self.no_stream || no_stream,
        }
    }
}

/// How to reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum EngineName {
    /// Thought, action and observation as text.
    #[default]
    React,
}

/// How the trace looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Trace {
    /// A line a thought, action and observation.
    #[default]
    Lines,
    /// The spans as a tree, with durations and tokens.
    Tree,
}

/// What to do when the model calls are used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum OnLimit {
    /// End without an answer.
    #[default]
    Stop,
    /// Spend one more call, which may only answer.
    Answer,
}

fn duration(text: &str) -> Result<Duration, String> {
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

/// Arguments that cannot be understood, or that ask for help.
#[derive(Debug)]
pub struct Usage {
    /// What clap says to them.
    pub error: clap::Error,
    /// The words from the command on, if they begin with one: they may have been meant as a question.
    pub question: Option<String>,
}

impl Cli {
    /// Reads the arguments, the program's own name first. Words that are no command are a question.
    pub fn read(arguments: Vec<OsString>) -> Result<Self, Usage> {
        let (arguments, command) = as_question(arguments);
        Self::try_parse_from(&arguments).map_err(|error| Usage {
            error,
            question: command.map(|at| {
                let words = arguments[at..].iter().map(|word| word.to_string_lossy());
                words.collect::<Vec<_>>().join(" ")
            }),
        })
    }
}

/// Puts `ask` before a question, so that everything that follows is a matter of commands.
///
/// Options may stand anywhere; the first word that is none of them decides. It is a command only if
/// it is just that; a word with a blank in it is always a question, also behind a hyphen (`"-3 * 4"`).
/// Gives the arguments as clap wants them, and where the command stands if they begin with one.
fn as_question(arguments: Vec<OsString>) -> (Vec<OsString>, Option<usize>) {
    let root = Cli::command();
    let mut arguments = arguments.into_iter();
    let mut options: Vec<OsString> = arguments.next().into_iter().collect();
    let mut words: Vec<OsString> = Vec::new();
    while let Some(argument) = arguments.next() {
        let Some(text) = argument.to_str() else {
            words.push(argument);
            continue;
        };
        if text == "--" {
            words.extend(arguments);
            break;
        }
        if !is_option(text) {
            if words.is_empty() && root.find_subcommand(text).is_some() {
                let at = options.len();
                options.push(argument);
                options.extend(arguments);
                return (options, Some(at));
            }
            words.push(argument);
            continue;
        }
        let wants_value = takes_the_next(&root, text);
        options.push(argument);
        if wants_value {
            options.extend(arguments.next());
        }
    }
    if !words.is_empty() {
        options.extend(["ask".into(), "--".into()]);
        options.append(&mut words);
    }
    (options, None)
}

/// Whether it is an option: a word with a blank in it is one only as `--name=value`.
fn is_option(text: &str) -> bool {
    let long = text.starts_with("--") && text.contains('=');
    text.len() > 1 && text.starts_with('-') && (long || !text.contains(char::is_whitespace))
}

/// Whether an option's value is the next argument.
fn takes_the_next(root: &clap::Command, text: &str) -> bool {
    let valued = |argument: &clap::Arg| argument.get_action().takes_values();
    if let Some(long) = text.strip_prefix("--") {
        let named = |argument: &&clap::Arg| {
            argument.get_long() == Some(long)
                || argument
                    .get_visible_aliases()
                    .is_some_and(|names| names.contains(&long))
        };
        return root.get_arguments().find(named).is_some_and(valued);
    }
    // In a cluster such as `-qm`, the first option with a value takes what follows it.
    let mut letters = text.chars().skip(1);
    while let Some(letter) = letters.next() {
        match root
            .get_arguments()
            .find(|argument| argument.get_short() == Some(letter))
        {
            Some(argument) if valued(argument) => return letters.next().is_none(),
            Some(_) => {}
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(arguments: &[&str]) -> Option<String> {
        let all = std::iter::once("reagent").chain(arguments.iter().copied());
        match Cli::read(all.map(OsString::from).collect()).ok()?.command {
            Some(Command::Ask { query }) => Some(query.join(" ")),
            _ => None,
        }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn what_is_no_command_is_a_question() {
        for (arguments, wanted) in [
            (&["what", "is", "1", "+", "1?"][..], Some("what is 1 + 1?")),
            (&["-q", "what", "-m", "demo", "now"], Some("what now")),
            (&["-3 * 4"], Some("-3 * 4")),
            (&["-qm", "demo", "-3 * 4", "--json"], Some("-3 * 4")),
            (&["tools of the trade"], Some("tools of the trade")),
            (&["-5 + 3 = ?"], Some("-5 + 3 = ?")),
            (&["--system=You are a pirate", "1+1"], Some("1+1")),
            (&["-m is what?"], Some("-m is what?")),
            (&["help", "me"], Some("help me")),
            (&["what", "tools"], Some("what tools")),
            (&["ask", "tools"], Some("tools")),
            (&["--", "-q"], Some("-q")),
            (&["--max-iterations", "3", "hello"], Some("hello")),
            (&["-"], Some("-")),
            (&["tools"], None),
            (&["--json", "tools", "list"], None),
            (&[], None),
        ] {
            assert_eq!(question(arguments).as_deref(), wanted, "{arguments:?}");
        }
    }
}
