//! What the commands of the prompt do.

use std::fs;
use std::io;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::ValueEnum;

use super::Repl;
use super::command::Flow;
use crate::cli::{EngineName, PolicyAction};
use crate::commands;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::near::did_you_mean;
use crate::session::event::{Role, Usage};
use crate::ui::export::{Format, export};
use crate::ui::text::{clean, indented, strict};

pub(super) fn leave(_: &mut Repl, _: &str) -> Result<Flow> {
    Ok(Flow::Leave)
}

pub(super) fn clear(repl: &mut Repl, _: &str) -> Result<Flow> {
    repl.agent.forget();
    repl.config
        .screen
        .notice("the model sees nothing of the questions so far from now on");
    Ok(Flow::Continue)
}

pub(super) fn model(repl: &mut Repl, name: &str) -> Result<Flow> {
    if !name.is_empty() {
        repl.set("model", Some(name))?;
    }
    repl.config
        .screen
        .say(&format!("{}\n", strict(repl.config.model.name())));
    Ok(Flow::Continue)
}

pub(super) fn engine(repl: &mut Repl, name: &str) -> Result<Flow> {
    if !name.is_empty() {
        if EngineName::from_str(name, true).is_err() {
            let near = did_you_mean(name, ["react", "native", "plan"].into_iter());
            let what = format!("no engine `{name}`{near}");
            return Err(Error::config_hint(what, "/engine native"));
        }
        repl.set("engine", Some(&name.to_lowercase()))?;
    }
    let name = repl.config.engine.to_possible_value();
    let name = name.map_or(String::new(), |name| name.get_name().to_owned());
    repl.config.screen.say(&format!("{name}\n"));
    Ok(Flow::Continue)
}

pub(super) fn tools(repl: &mut Repl, arguments: &str) -> Result<Flow> {
    match arguments.split_once(' ').unwrap_or((arguments, "")) {
        ("", _) => {}
        ("reload", _) => repl.reload()?,
        (switch @ ("on" | "off"), name) => {
            let name = name.trim();
            let known = repl.all_tools()?;
            if !known.iter().any(|known| known == name) {
                let near = did_you_mean(name, known.iter().map(String::as_str));
                let what = format!("no tool `{name}`{near}");
                return Err(Error::config_hint(what, "/tools lists them"));
            }
            repl.off.retain(|off| off != name);
            if switch == "off" {
                repl.off.push(name.to_owned());
            }
            repl.reload()?;
        }
        _ => return Err(wrong("/tools off price_tool")),
    }
    for spec in repl.config.tools.specs() {
        let line = format!("{}: {}", spec.signature(), spec.description);
        repl.config.screen.say(&format!("{}\n", strict(&line)));
    }
    for name in &repl.off {
        repl.config
            .screen
            .say(&format!("{} is off\n", strict(name)));
    }
    Ok(Flow::Continue)
}

/// Arguments that do not fit; with a command that does.
fn wrong(example: &str) -> Error {
    let name = example.split(' ').next().unwrap_or_default();
    Error::config_hint(format!("`{name}` needs other arguments"), example)
}

pub(super) fn undo(repl: &mut Repl, _: &str) -> Result<Flow> {
    let text = match repl.agent.undo() {
        Some(query) => format!("forgot: {query}"),
        None => "there is no question to forget".to_owned(),
    };
    repl.config.screen.notice(&text);
    Ok(Flow::Continue)
}

pub(super) fn retry(repl: &mut Repl, of: &str) -> Result<Flow> {
    if !of.is_empty() {
        repl.set("model", Some(of))?;
    }
    let Some(query) = repl.agent.undo() else {
        return Err(Error::config("there is no question to ask again"));
    };
    repl.ask(&query)?;
    Ok(Flow::Continue)
}

pub(super) fn set(repl: &mut Repl, arguments: &str) -> Result<Flow> {
    if let Some((name, value)) = arguments.split_once(' ') {
        repl.set(name, Some(value.trim()))?;
    } else if !arguments.is_empty() {
        repl.set(arguments, None)?;
    }
    for (name, value) in repl.config.options.given() {
        let line = format!("{name} = {value}");
        repl.config.screen.say(&format!("{}\n", strict(&line)));
    }
    Ok(Flow::Continue)
}

pub(super) fn trace(repl: &mut Repl, look: &str) -> Result<Flow> {
    if look.is_empty() {
        return Err(wrong("/trace tree"));
    }
    repl.set("trace", Some(look))?;
    Ok(Flow::Continue)
}

pub(super) fn step(repl: &mut Repl, switch: &str) -> Result<Flow> {
    match switch {
        "on" | "off" => repl.breaks.borrow_mut().every = switch == "on",
        _ => return Err(wrong("/step on")),
    }
    said(repl, &format!("stepping is {switch}"))
}

pub(super) fn break_at(repl: &mut Repl, at: &str) -> Result<Flow> {
    let mut breaks = repl.breaks.borrow_mut();
    match at {
        "" => {}
        "off" => breaks.at.clear(),
        at => breaks.at.push(at.to_owned()),
    }
    let all = breaks.at.join(", ");
    drop(breaks);
    said(
        repl,
        &format!(
            "stops at: {}",
            if all.is_empty() { "nothing" } else { &all }
        ),
    )
}

pub(super) fn status(repl: &mut Repl, _: &str) -> Result<Flow> {
    let Repl { config, agent, .. } = repl;
    let asked = agent.sessions().len();
    let mut usage = Usage::default();
    agent
        .sessions()
        .iter()
        .for_each(|session| usage += session.usage());
    let rows = [
        ("model", config.model.name().to_owned()),
        ("engine", agent.engine().to_owned()),
        ("ttl", config.ttl.to_string()),
        ("tools", config.tools.specs().count().to_string()),
        ("questions", asked.to_string()),
        (
            "tokens",
            usage.meta().unwrap_or_else(|| "not known".to_owned()),
        ),
    ];
    for (name, value) in rows {
        config
            .screen
            .say(&format!("{name:<10} {}\n", strict(&value)));
    }
    Ok(Flow::Continue)
}

pub(super) fn tokens(repl: &mut Repl, _: &str) -> Result<Flow> {
    let mut all = Usage::default();
    let mut text = String::new();
    for session in repl.agent.sessions() {
        let usage = session.usage();
        all += usage;
        let meta = usage.meta().unwrap_or_else(|| "not known".to_owned());
        let query: String = session.query().chars().take(50).collect();
        text += &format!("{meta:<24} {}\n", strict(&query));
    }
    let meta = all.meta().unwrap_or_else(|| "not known".to_owned());
    repl.config
        .screen
        .say(&format!("{text}{meta:<24} in all\n"));
    Ok(Flow::Continue)
}

/// The terminal is asked to put the answer on the clipboard (OSC 52).
pub(super) fn copy(repl: &mut Repl, _: &str) -> Result<Flow> {
    let answer = repl.agent.session().and_then(|session| session.answer());
    let Some(answer) = answer else {
        return Err(Error::config("there is no answer to copy"));
    };
    let screen = repl.config.screen;
    if !screen.err.terminal {
        return Err(Error::config("there is no terminal to copy by"));
    }
    let text = clean(answer);
    screen.say(&format!(
        "\x1b]52;c;{}\x07",
        STANDARD.encode(text.as_bytes())
    ));
    screen.notice(&format!(
        "{} bytes are copied, if the terminal allows it",
        text.len()
    ));
    Ok(Flow::Continue)
}

pub(super) fn save(repl: &mut Repl, file: &str) -> Result<Flow> {
    let Some(session) = repl.agent.session() else {
        return Err(Error::config("there is no session to save"));
    };
    let cannot = |error: io::Error| Error::config(format!("cannot write {file}: {error}"));
    let format = match file.rsplit_once('.').map(|(_, end)| end) {
        Some("md") => Format::Md,
        Some("html") => Format::Html,
        Some("json") => Format::Json,
        Some("mmd") => Format::Mermaid,
        Some("jsonl") => {
            let store = repl.config.store();
            let path = store.map(|store| store.path(session.id()));
            let path = path.ok_or_else(|| Error::config("there is no home folder"))?;
            fs::copy(path, file).map_err(cannot)?;
            return said(repl, &format!("saved {file}"));
        }
        _ => return Err(wrong("/save session.md")),
    };
    fs::write(file, export(session, format)).map_err(cannot)?;
    said(repl, &format!("saved {file}"))
}

fn said(repl: &Repl, what: &str) -> Result<Flow> {
    repl.config.screen.notice(what);
    Ok(Flow::Continue)
}

pub(super) fn load(repl: &mut Repl, file: &str) -> Result<Flow> {
    if !file.contains('.') {
        return Err(wrong("/load session.jsonl"));
    }
    repl.resume(file)?;
    Ok(Flow::Continue)
}

pub(super) fn sessions(repl: &mut Repl, _: &str) -> Result<Flow> {
    commands::sessions::run(None, &repl.config.options, repl.config.screen)?;
    Ok(Flow::Continue)
}

pub(super) fn replay(repl: &mut Repl, which: &str) -> Result<Flow> {
    let which = if which.is_empty() { "last" } else { which };
    let Config {
        options, screen, ..
    } = &repl.config;
    let views = crate::views(options, *screen);
    commands::sessions::replay(which, None, views, *screen)?;
    Ok(Flow::Continue)
}

pub(super) fn policy(repl: &mut Repl, call: &str) -> Result<Flow> {
    if call.is_empty() {
        return Err(wrong("/policy add_numbers(1, 2)"));
    }
    let action = PolicyAction::Test {
        call: vec![call.to_owned()],
        tainted: false,
    };
    commands::policy(&action, repl.config.layers(), repl.config.screen)?;
    Ok(Flow::Continue)
}

pub(super) fn config(repl: &mut Repl, _: &str) -> Result<Flow> {
    let layers = repl.config.layers().clone();
    commands::settings::run(None, Ok(layers), repl.config.screen)?;
    Ok(Flow::Continue)
}

pub(super) fn ttl(repl: &mut Repl, number: &str) -> Result<Flow> {
    if !number.is_empty() {
        let wrong = || {
            Error::config_hint(
                format!("`{number}` is not a number of at least 1"),
                "/ttl 10",
            )
        };
        number.parse::<NonZeroU32>().map_err(|_| wrong())?;
        repl.set("ttl", Some(number))?;
    }
    repl.config.screen.say(&format!("{}\n", repl.config.ttl));
    Ok(Flow::Continue)
}

pub(super) fn resume(repl: &mut Repl, which: &str) -> Result<Flow> {
    repl.resume(if which.is_empty() { "last" } else { which })?;
    Ok(Flow::Continue)
}

pub(super) fn messages(repl: &mut Repl, _: &str) -> Result<Flow> {
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
