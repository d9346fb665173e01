//! `reagent` reasons, acts and observes until it has an answer.
//!
//! The story of one query, in the order of the modules below:
//! [`run`] reads the command line ([`cli`]), brings it together with environment and files
//! ([`config`]), and takes the question from the words, a pipe ([`input`]) or a prompt ([`repl`]).
//! The [`agent`] opens a session for it and lets its [`engine`] take steps: the limits admit a model
//! call, the planner asks the model ([`llm`]) and parses its reply into a decision, the policy judges
//! it, the executor runs the tool ([`tool`]), and the model is told what came of it; until the
//! decision is to answer. Everything that happens is recorded in the [`session`] as a list of events,
//! and everything that is shown ([`ui`]) is read from that list.
//!
//! # In a program of one's own
//!
//! An [`Agent`](agent::Agent) is built of a model, tools and whatever else differs from the defaults, and
//! asked:
//!
//! ```
//! use reagent::agent::Agent;
//! use reagent::llm::scripted::Scripted;
//! use reagent::tool::Spec;
//! use reagent::tool::params::{Param, Type};
//! use serde_json::json;
//!
//! let model = Scripted::new([
//!     "Thought1: I look it up.\nAction1: price_tool(\"bitcoin\")",
//!     "Answer: It costs 67012 dollars.",
//! ]);
//! let price_tool = Spec::new("price_tool", "Get the price of a cryptocurrency.")
//!     .param(Param::new("coin", Type::String))
//!     .runs(|args| match args["coin"].as_str() {
//!         Some("bitcoin") => Ok(json!(67012)),
//!         _ => Err("no such coin".to_owned()),
//!     });
//! let mut agent = Agent::builder(model).tool(price_tool).build()?;
//!
//! assert_eq!(agent.run("What does Bitcoin cost?")?.text, "It costs 67012 dollars.");
//! # Ok::<(), reagent::error::Error>(())
//! ```
//!
//! | to | see |
//! |---|---|
//! | ask a real model | [`llm::connect`], with an [`Endpoint`](llm::Endpoint) |
//! | add a tool | [`Spec::runs`](tool::Spec::runs), the trait [`Tool`](tool::Tool), or a file: [`tool::manifest`] |
//! | reason in another of the three ways | [`Reasoning`](engine::Reasoning) |
//! | reason in a way of one's own | [`Planner`](engine::planner::Planner) within the loop, [`Engine`](engine::Engine) in its place |
//! | say what may run | [`Policy`](engine::policy::Policy), or rules: [`tool::rule`]; asking: [`engine::approval`] |
//! | end what goes on for too long | [`Limits`](engine::limits::Limits) |
//! | take one step at a time | [`Agent::start`](agent::Agent::start), [`Agent::step`](agent::Agent::step) |
//! | carry something through a run | [`State`](engine::state::State) |
//! | watch, keep or show what happens | [`Sink`](session::Sink); those of the program are in [`ui`] and [`session::audit`] |
//! | look at what happened | [`Session`](session::Session): events, spans, messages, usage; `replay` shows it again |
//! | handle what goes wrong | [`Error`] |
//!
//! The folder `examples` has the three ancestors' own examples, an engine of one's own, and stepping by hand.

// In reading order; blank lines keep them in it.

pub mod cli;

pub mod config;

pub mod input;

mod commands;

mod resume;

mod lines;

mod tape;

pub mod repl;

pub mod agent;

pub mod engine;

pub mod llm;

pub mod tool;

pub mod session;

pub mod ui;

pub mod report;

pub mod error;

pub mod secret;

pub mod interrupt;

pub(crate) mod transport;

pub(crate) mod route;

pub(crate) mod near;

pub(crate) mod tables;

pub(crate) mod duration;

pub(crate) mod json;

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

use agent::Task;
use cli::{AuditAction, Cli, Command, Options, Trace};
use config::{Config, Layers};
use error::{Error, Result};
use input::{Input, LateInput};
use resume::Conversation;
use session::Sinks;
use ui::screen::{Color, Screen};

/// The whole program: from the arguments, the program's own name first, to its exit code.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    std::panic::set_hook(Box::new(|panic| {
        Config::screen(Color::Never).say(&format!("error: a mistake in reagent: {panic}\n"));
    }));
    let Cli { options, command } = match Cli::read(arguments) {
        Ok(cli) => cli,
        Err(error) => return ExitCode::from(commands::usage(&error, Config::screen(Color::Auto))),
    };
    let given = options.clone();
    let layers = Layers::read(options);
    let options = layers.as_ref().map_or(given, Layers::options);
    let screen = Config::screen(options.color.unwrap_or_default());
    let screen = layers
        .as_ref()
        .map_or(screen, |layers| screen.styled(layers.theme()));
    let outcome = carry_out(command, layers, &options, screen);
    ExitCode::from(outcome.unwrap_or_else(|error| report::tell(&error, &screen)))
}

fn carry_out(
    command: Option<Command>,
    layers: Result<Layers>,
    options: &Options,
    screen: Screen,
) -> Result<u8> {
    match command {
        // Of use above all when something about the settings is wrong.
        Some(Command::Doctor) => commands::doctor::run(layers, options.json, screen),
        Some(Command::Config { action }) => commands::settings::run(action, layers, screen),
        None => query(Vec::new(), layers?, screen),
        Some(Command::Ask { query: words }) => query(words, layers?, screen),
        Some(Command::Replay { session, speed }) => {
            let layers = layers?;
            commands::sessions::replay(&session, speed, views(&layers.options(), screen), screen)
        }
        Some(Command::Sessions { action }) => commands::sessions::run(action, options, screen),
        Some(Command::Tools { action }) => commands::tools(action, &layers?, screen),
        Some(Command::Audit {
            action: AuditAction::Verify { file },
        }) => commands::audit::verify(file, screen),
        Some(Command::Policy { action }) => commands::policy(&action, &layers?, screen),
        Some(Command::Parse { finish_reason }) => {
            layers?;
            commands::parse(&finish_reason, options, screen)
        }
        Some(Command::Completions { shell }) => {
            screen.put(&cli::completions(shell))?;
            Ok(0)
        }
        Some(Command::Models) => commands::models(layers?, screen),
    }
}

/// Asks once, or takes questions at a prompt when there is none and somebody is there.
fn query(words: Vec<String>, layers: Layers, screen: Screen) -> Result<u8> {
    let options = layers.options();
    if options.lines {
        let config = Config::new(layers, screen)?;
        config.notices.iter().for_each(|text| screen.notice(text));
        return lines::run(&words.join(" "), &config);
    }
    let at_prompt = options.interactive || words.is_empty() && io::stdin().is_terminal();
    let earlier = options.resume.or(options.go_on.then(|| "last".to_owned()));
    let config = Config::new(layers, screen)?;
    for notice in &config.notices {
        screen.notice(notice);
    }
    if at_prompt {
        return repl::run(config, &words.join(" "), earlier.as_deref());
    }
    let conversation = earlier.map(|which| Conversation::load(&config, &which));
    let conversation = conversation.transpose()?.unwrap_or_default();
    let ask = || repl::confirm::at_terminal(config.screen);
    if words.is_empty() && conversation.cut_off.is_some() {
        interrupt::install(None)?;
        let mut agent = config.agent(None, ask()).sinks(sinks(&config)).build()?;
        return conversation.go_on(&mut agent, &config, ask());
    }
    let input = Input::gather(words, &config)?;
    interrupt::install(None)?;
    let mut agent = config.agent(None, ask());
    if options.step {
        agent = agent.hand(repl::stepper::at_terminal(config.screen)?);
    }
    if input.left_alone {
        agent = agent.sink(LateInput);
    }
    let mut agent = agent.sinks(sinks(&config)).build()?;
    conversation.recall(&mut agent, &config);
    let attachments = format!("{}{}", config.attachments, input.data);
    let task = Task {
        query: input.question,
        attachments,
        ..Task::default()
    };
    match config.ask(&mut agent, task) {
        Ok(_) => Ok(0),
        // Everything else is on record, and was shown from there.
        Err(error @ (Error::EmptyTask | Error::Write(_))) => Err(error),
        Err(error @ Error::Miss(_)) if agent.session().is_none() => Err(error),
        Err(error) => Ok(error.exit_code()),
    }
}

/// Those who watch, in the order they are told: who keeps the record comes before who shows it.
pub(crate) fn sinks(config: &Config) -> Sinks {
    let mut sinks = records(config);
    sinks.extend(views(&config.options, config.screen));
    if config.screen.live && !config.options.json {
        sinks.push(Box::new(ui::status::Status::new(config.screen.theme())));
    }
    sinks
}

/// Those who keep the record.
fn records(config: &Config) -> Sinks {
    let mut sinks: Sinks = Vec::new();
    if config.options.rerun.is_some() {
        return sinks;
    }
    sinks.extend(config.audit());
    if let Some(store) = config.store().filter(|_| !config.options.no_save) {
        sinks.push(Box::new(store.keeper()));
    }
    sinks
}

/// Those who show what happens.
fn views(options: &Options, screen: Screen) -> Sinks {
    vec![match options.trace.unwrap_or_default() {
        _ if options.json => Box::new(ui::json::Json::new(screen)),
        _ if options.quiet => Box::new(ui::quiet::Quiet::new(screen)),
        Trace::Lines => Box::new(ui::printer::Printer::new(screen)),
        Trace::Tree => Box::new(ui::tree::Tree::new(screen)),
    }]
}
