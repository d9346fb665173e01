//! The command line: what was typed. What is meant by it is decided in `config`.

mod options;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::error::Error;
use crate::ui::export::Format;

pub use options::{EngineName, OnLimit, Options, Trace};

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
    /// Print a recorded session again; runs nothing
    Replay {
        /// `last`, an id, the beginning of one, or a file
        #[arg(default_value = "last")]
        session: String,
        /// In the time that it took, so many times as fast
        #[arg(long, value_name = "TIMES", value_parser = speed, num_args = 0..=1, default_missing_value = "1")]
        speed: Option<f64>,
    },
    /// List, show, search or remove what was recorded
    Sessions {
        /// What to do with them
        #[command(subcommand)]
        action: Option<SessionsAction>,
    },
    /// Show, call or check the tools
    Tools {
        /// What to do with them
        #[command(subcommand)]
        action: Option<ToolsAction>,
    },
    /// List the models that the endpoint offers
    Models,
    /// Check the endpoint, key, model, stop texts, context, tools and folders; exit 1 if one fails
    Doctor,
    /// Show every setting and where it comes from
    Config {
        /// What to do with them
        #[command(subcommand)]
        action: Option<ConfigAction>,
    },
    /// Try the rules about what may run
    Policy {
        /// What to do with them
        #[command(subcommand)]
        action: PolicyAction,
    },
    /// Check the audit log
    Audit {
        /// What to do with it
        #[command(subcommand)]
        action: AuditAction,
    },
    /// Print a script that completes commands and options in a shell
    Completions {
        /// bash, zsh, fish, elvish or powershell
        shell: Shell,
    },
    /// Read a model's reply on standard input and print what it comes to, as JSON
    Parse {
        /// Why the reply ended: stop, length, or what the endpoint said
        #[arg(long, value_name = "R", default_value = "stop")]
        finish_reason: String,
    },
}

/// What to do with sessions.
#[derive(Debug, Subcommand)]
pub enum SessionsAction {
    /// List them, the newest first
    List {
        /// How many
        #[arg(short, value_name = "N", default_value_t = 20)]
        n: usize,
        /// All of them
        #[arg(long)]
        all: bool,
    },
    /// Show one of them: what was asked, done and answered
    Show {
        /// `last`, an id, the beginning of one, or a file
        #[arg(default_value = "last")]
        session: String,
        /// What the model was sent and sent, word by word
        #[arg(long)]
        messages: bool,
    },
    /// Find those that have all of these words in question, thoughts, observations or answer
    Search {
        /// The words
        #[arg(required = true)]
        words: Vec<String>,
        /// How many
        #[arg(short, value_name = "N", default_value_t = 20)]
        n: usize,
    },
    /// Print one of them as a document of its own
    Export {
        /// `last`, an id, the beginning of one, or a file
        #[arg(default_value = "last")]
        session: String,
        /// As Markdown, JSON, a page for a browser, or a Mermaid diagram
        #[arg(
            long,
            value_enum,
            value_name = "md|json|html|mermaid",
            hide_possible_values = true,
            default_value = "md"
        )]
        format: Format,
        /// Into this file; on standard output if not given
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Remove sessions; the audit log stays
    Rm {
        /// Ids, or the beginnings of them
        #[arg(required = true)]
        sessions: Vec<String>,
    },
    /// Remove all that are older than this; the audit log stays
    Prune {
        /// Such as 30d, 12h
        #[arg(long, value_name = "D", value_parser = options::duration)]
        older_than: Duration,
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

/// What to do with the audit log.
#[derive(Debug, Subcommand)]
pub enum AuditAction {
    /// Exit 0 if it is as it was written, else say what is not and exit 1
    Verify {
        /// One session's log; all of them if not given
        file: Option<PathBuf>,
    },
}

/// What to do with the rules.
#[derive(Debug, Subcommand)]
pub enum PolicyAction {
    /// Say what would be said to a call, and why; nothing runs
    Test {
        /// The call, as a model would write it
        #[arg(required = true)]
        call: Vec<String>,
        /// As if the model had read something from outside
        #[arg(long)]
        tainted: bool,
    },
}

/// What to do with the settings.
#[derive(Debug, Subcommand)]
pub enum ConfigAction {
    /// Show them
    Show,
    /// Print where the settings file is
    Path,
    /// Open the settings file in $VISUAL or $EDITOR
    Edit,
}

/// The script that completes commands and options in a shell.
pub(crate) fn completions(shell: Shell) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "reagent", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn speed(text: &str) -> Result<f64, String> {
    let times = text
        .parse()
        .ok()
        .filter(|times| *times > 0.0 && f64::is_finite(*times));
    times.ok_or_else(|| "a speed is a number above 0, such as 2 or 0.5".to_owned())
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

/// One option by its long name, for the rest of a conversation.
pub(crate) fn option(name: &str, value: Option<&str>) -> crate::error::Result<Options> {
    /// What is decided when the program starts.
    const FIXED: [&str; 9] = [
        "interactive",
        "lines",
        "record",
        "rerun",
        "continue",
        "resume",
        "json",
        "file",
        "stdin-wait",
    ];
    let flag = format!("--{name}");
    let known = Cli::command();
    let names: Vec<&str> = known
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .collect();
    if !names.contains(&name) {
        let near = crate::near::did_you_mean(name, names.into_iter());
        let what = format!("no option `{name}`{near}");
        return Err(Error::config_hint(what, "reagent --help lists them"));
    }
    if FIXED.contains(&name) {
        return Err(Error::config(format!(
            "`{name}` cannot be changed in a conversation"
        )));
    }
    let words = ["reagent".to_owned(), flag].into_iter();
    let read = Cli::try_parse_from(words.chain(value.map(str::to_owned)));
    read.map(|cli| cli.options).map_err(|error| {
        let text = error.render().to_string();
        let line = text.lines().next().unwrap_or_default();
        Error::config(line.trim_start_matches("error: ").to_owned())
    })
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
