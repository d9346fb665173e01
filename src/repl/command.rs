//! The commands of the prompt, as one table.

use super::Repl;
use super::action::{
    break_at, clear, config, copy, engine, leave, load, messages, model, policy, replay, resume,
    retry, save, sessions, set, status, step, tokens, tools, trace, ttl, undo,
};
use crate::error::{Error, Result};
use crate::near::did_you_mean;

/// Whether the prompt goes on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Leave,
}

/// A command.
struct Command {
    name: &'static str,
    arguments: &'static str,
    help: &'static str,
    run: fn(&mut Repl, &str) -> Result<Flow>,
}

const COMMANDS: &[Command] = &[
    Command {
        name: "help",
        arguments: "[NAME]",
        help: "List the commands, or tell of one",
        run: help,
    },
    Command {
        name: "exit",
        arguments: "",
        help: "Leave (also Ctrl-D)",
        run: leave,
    },
    Command {
        name: "quit",
        arguments: "",
        help: "Leave",
        run: leave,
    },
    Command {
        name: "clear",
        arguments: "",
        help: "Forget the questions so far",
        run: clear,
    },
    Command {
        name: "undo",
        arguments: "",
        help: "Forget the last question",
        run: undo,
    },
    Command {
        name: "retry",
        arguments: "[MODEL]",
        help: "Ask the last question again",
        run: retry,
    },
    Command {
        name: "model",
        arguments: "[NAME]",
        help: "Show the model, or ask another",
        run: model,
    },
    Command {
        name: "engine",
        arguments: "[NAME]",
        help: "Show the engine, or reason with another",
        run: engine,
    },
    Command {
        name: "tools",
        arguments: "[on|off NAME]",
        help: "List the tools, leave one out, or reload",
        run: tools,
    },
    Command {
        name: "ttl",
        arguments: "[N]",
        help: "Show or set the model calls per question",
        run: ttl,
    },
    Command {
        name: "set",
        arguments: "[NAME VALUE]",
        help: "Show or change what was given for this run",
        run: set,
    },
    Command {
        name: "trace",
        arguments: "lines|tree",
        help: "Change how the trace looks",
        run: trace,
    },
    Command {
        name: "step",
        arguments: "on|off",
        help: "Stop before each action, or not",
        run: step,
    },
    Command {
        name: "break",
        arguments: "[TEXT|off]",
        help: "Stop at a tool, a step's number or a text",
        run: break_at,
    },
    Command {
        name: "status",
        arguments: "",
        help: "Show model, engine, tools, and what was used",
        run: status,
    },
    Command {
        name: "tokens",
        arguments: "",
        help: "Show the tokens of each question and of all",
        run: tokens,
    },
    Command {
        name: "messages",
        arguments: "",
        help: "Show what the model saw last",
        run: messages,
    },
    Command {
        name: "copy",
        arguments: "",
        help: "Copy the last answer to the clipboard",
        run: copy,
    },
    Command {
        name: "save",
        arguments: "FILE",
        help: "Save the last session: .md .html .json .jsonl",
        run: save,
    },
    Command {
        name: "load",
        arguments: "FILE",
        help: "Go on with a session that was saved as .jsonl",
        run: load,
    },
    Command {
        name: "sessions",
        arguments: "",
        help: "List what was recorded",
        run: sessions,
    },
    Command {
        name: "replay",
        arguments: "[ID]",
        help: "Show a recorded session again",
        run: replay,
    },
    Command {
        name: "resume",
        arguments: "[ID]",
        help: "Go on with the last conversation, or another",
        run: resume,
    },
    Command {
        name: "policy",
        arguments: "CALL",
        help: "Say what would be said to a call",
        run: policy,
    },
    Command {
        name: "config",
        arguments: "",
        help: "Show every setting and where it comes from",
        run: config,
    },
];

/// The names, for completion.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

/// Runs a command, given without its slash. One that does not exist is an error, and never a question.
pub(super) fn run(repl: &mut Repl, line: &str) -> Result<Flow> {
    let (name, arguments) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(repl, arguments.trim()),
        None => Err(unknown(name)),
    }
}

fn help(repl: &mut Repl, of: &str) -> Result<Flow> {
    let of = of.trim_start_matches('/');
    let mut text = String::new();
    for Command {
        name,
        arguments,
        help,
        ..
    } in COMMANDS
        .iter()
        .filter(|command| of.is_empty() || command.name == of)
    {
        text += &format!("{:<21}{help}\n", format!("/{name} {arguments}"));
    }
    if text.is_empty() {
        return Err(unknown(of));
    }
    repl.config.screen.say(&text);
    Ok(Flow::Continue)
}

fn unknown(name: &str) -> Error {
    let near = did_you_mean(name, names());
    Error::config_hint(
        format!("no command `/{name}`{near}"),
        "/help lists the commands",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_help_fits_a_line() {
        for (at, command) in COMMANDS.iter().enumerate() {
            assert!(
                COMMANDS[..at]
                    .iter()
                    .all(|other| other.name != command.name)
            );
            assert!(command.name.len() + command.arguments.len() < 19);
            assert!(command.help.len() < 60);
        }
    }
}
