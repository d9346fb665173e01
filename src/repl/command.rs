//! The commands of the prompt, as one table.

use std::num::NonZeroU32;

use clap::ValueEnum;

use super::Repl;
use crate::cli::EngineName;
use crate::error::{Error, Result};
use crate::near::did_you_mean;
use crate::session::event::Role;
use crate::ui::text::{clean, indented, strict};

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
        arguments: "",
        help: "List the commands",
        run: help,
    },
    Command {
        name: "exit",
        arguments: "",
        help: "Leave (also Ctrl-D)",
        run: |_, _| Ok(Flow::Leave),
    },
    Command {
        name: "quit",
        arguments: "",
        help: "Leave",
        run: |_, _| Ok(Flow::Leave),
    },
    Command {
        name: "clear",
        arguments: "",
        help: "Forget the questions so far",
        run: clear,
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
        arguments: "",
        help: "List the tools",
        run: tools,
    },
    Command {
        name: "ttl",
        arguments: "[N]",
        help: "Show or set the model calls per question",
        run: ttl,
    },
    Command {
        name: "resume",
        arguments: "[ID]",
        help: "Go on with the last conversation, or with another",
        run: resume,
    },
    Command {
        name: "messages",
        arguments: "",
        help: "Show what the model saw last",
        run: messages,
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
        None => {
            let near = did_you_mean(name, names());
            Err(Error::config_hint(
                format!("no command `/{name}`{near}"),
                "/help lists the commands",
            ))
        }
    }
}

fn help(repl: &mut Repl, _: &str) -> Result<Flow> {
    let mut text = String::new();
    for Command {
        name,
        arguments,
        help,
        ..
    } in COMMANDS
    {
        text += &format!("{:<18}{help}\n", format!("/{name} {arguments}"));
    }
    repl.config.screen.say(&text);
    Ok(Flow::Continue)
}

fn clear(repl: &mut Repl, _: &str) -> Result<Flow> {
    repl.agent.forget();
    repl.config
        .screen
        .notice("the model sees nothing of the questions so far from now on");
    Ok(Flow::Continue)
}

fn model(repl: &mut Repl, name: &str) -> Result<Flow> {
    if !name.is_empty() {
        repl.config.set_model(name)?;
        repl.renew()?;
    }
    repl.config
        .screen
        .say(&format!("{}\n", strict(repl.config.model.name())));
    Ok(Flow::Continue)
}

fn engine(repl: &mut Repl, name: &str) -> Result<Flow> {
    if !name.is_empty() {
        let engine = EngineName::from_str(name, true);
        repl.config.engine = engine.map_err(|_| {
            let names = ["react", "native", "plan"].into_iter();
            let near = did_you_mean(name, names);
            Error::config_hint(format!("no engine `{name}`{near}"), "/engine native")
        })?;
        repl.renew()?;
    }
    let name = repl.config.engine.to_possible_value();
    let name = name.map_or(String::new(), |name| name.get_name().to_owned());
    repl.config.screen.say(&format!("{name}\n"));
    Ok(Flow::Continue)
}

fn tools(repl: &mut Repl, _: &str) -> Result<Flow> {
    for spec in repl.config.tools.specs() {
        let line = format!("{}: {}", spec.signature(), spec.description);
        repl.config.screen.say(&format!("{}\n", strict(&line)));
    }
    Ok(Flow::Continue)
}

fn ttl(repl: &mut Repl, number: &str) -> Result<Flow> {
    if !number.is_empty() {
        let wrong = || {
            Error::config_hint(
                format!("`{number}` is not a number of at least 1"),
                "/ttl 10",
            )
        };
        repl.config.ttl = number.parse::<NonZeroU32>().map_err(|_| wrong())?;
        repl.renew()?;
    }
    repl.config.screen.say(&format!("{}\n", repl.config.ttl));
    Ok(Flow::Continue)
}

fn resume(repl: &mut Repl, which: &str) -> Result<Flow> {
    repl.resume(if which.is_empty() { "last" } else { which })?;
    Ok(Flow::Continue)
}

fn messages(repl: &mut Repl, _: &str) -> Result<Flow> {
    for message in repl
        .agent
        .session()
        .into_iter()
        .flat_map(|session| session.messages())
    {
        let role = match message.role {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        };
        let text = format!("{role}: {}", indented(&clean(&message.content)));
        repl.config.screen.say(&format!("{text}\n"));
    }
    Ok(Flow::Continue)
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
            assert!(command.name.len() + command.arguments.len() < 16);
            assert!(command.help.len() < 60);
        }
    }
}
