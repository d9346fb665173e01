//! The commands that are no question: usage errors, `tools`, `models`, `parse`, and in files of their own
//! `config` and `doctor`.

pub(crate) mod audit;
pub(crate) mod doctor;
pub(crate) mod sessions;
pub(crate) mod settings;

use std::io::{self, Read};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use crate::cli::{Options, PolicyAction, ToolsAction, Usage};
use crate::config::{self, Config, Layers};
use crate::engine::approval::{Clearance, Desk};
use crate::engine::executor::Executor;
use crate::engine::parse::{self, Next};
use crate::engine::policy::{ByRules, Circumstances, Decision, Policy, Verdict};
use crate::error::{Error, Result};
use crate::llm::{self, Finish};
use crate::near::did_you_mean;
use crate::repl::confirm;
use crate::session::Session;
use crate::session::event::{Start, Status};
use crate::tool::call::{Args, Proposal};
use crate::tool::literal::literal;
use crate::tool::params::Type;
use crate::tool::{Spec, Toolchain};
use crate::ui::printer::failure;
use crate::ui::screen::Screen;
use crate::ui::text::{clean, json_line, strict};

/// The longest reply that is read.
const REPLY_LIMIT: u64 = 8 << 20;

/// Prints help and the version to standard output, and what is wrong with the arguments to standard
/// error. Gives the exit code.
pub(crate) fn usage(usage: &Usage, screen: Screen) -> u8 {
    let text = usage.error.render().to_string();
    if !usage.error.use_stderr() {
        return screen
            .put(&text)
            .map_or_else(|error| error.exit_code(), |()| 0);
    }
    screen.say(&clean(&text));
    if let Some(question) = &usage.question {
        screen.say(&format!(
            "hint: to ask this as a question: reagent ask {}\n",
            strict(question)
        ));
    }
    2
}

/// `reagent tools`.
pub(crate) fn tools(action: Option<ToolsAction>, layers: &Layers, screen: Screen) -> Result<u8> {
    let mut notices = Vec::new();
    let tools = config::tools(&layers.options(), &mut notices)?;
    for notice in &notices {
        screen.notice(notice);
    }
    match action.unwrap_or(ToolsAction::List) {
        ToolsAction::List => {
            for spec in tools.specs() {
                screen.put(&format!(
                    "{}\n    {}\n",
                    strict(&spec.signature()),
                    strict(&spec.description)
                ))?;
            }
            Ok(0)
        }
        ToolsAction::Show { name } => {
            screen.put(&clean(&described(find(&tools, &name)?)))?;
            Ok(0)
        }
        ToolsAction::Call { name, args } => call(tools, &name, &args, layers, screen),
        ToolsAction::Check => {
            screen.put(&format!("{} tools, no mistakes\n", tools.specs().count()))?;
            Ok(0)
        }
    }
}

fn find<'a>(tools: &'a Toolchain, name: &str) -> Result<&'a Spec> {
    let near = || did_you_mean(name, tools.specs().map(|spec| spec.name.as_str()));
    let tool = tools.find(name);
    tool.map(|tool| tool.spec()).ok_or_else(|| {
        Error::config_hint(
            format!("there is no tool `{name}`{}", near()),
            "reagent tools list",
        )
    })
}

fn described(spec: &Spec) -> String {
    let mut text = format!("{}\n\n{}\n", spec.signature(), spec.description);
    for param in spec
        .params
        .iter()
        .filter(|param| !param.description.is_empty())
    {
        text += &format!("    {}: {}\n", param.name, param.description);
    }
    if let Some(example) = &spec.example {
        text += &format!("\nexample:    {example}\n");
    }
    text + &format!(
        "effect:     {}\ntimeout:    {:?}\n",
        spec.effect.name(),
        spec.timeout
    )
}

/// Calls a tool by hand, under the same policy and limits as in a run.
fn call(
    tools: Toolchain,
    name: &str,
    words: &[String],
    layers: &Layers,
    screen: Screen,
) -> Result<u8> {
    let options = layers.options();
    let spec = &find(&tools, name)?.clone();
    let args = arguments(spec, words)?;
    let proposal = Proposal {
        tool: name.to_owned(),
        args,
    };
    let call = tools
        .bind(&proposal)
        .map_err(|rejection| Error::config(rejection.0))?;
    let tools = Rc::new(tools);
    let policy = ByRules::new(tools.clone(), layers.rules().clone(), options.yes);
    let verdict = policy.judge(&Decision::Act(call.clone()), &Circumstances::default());
    let shown = tools.display(&call);
    let clearance = Desk::new(confirm::at_terminal(screen)).clear(verdict, spec, &shown);
    if let Clearance::Denied(why) | Clearance::Unapproved(why) = clearance {
        return Err(Error::PolicyViolation(why));
    }
    let start = Start {
        query: shown,
        ..Start::default()
    };
    let mut session = Session::start(start, Vec::new())?;
    let observation = Executor::new(tools).execute(&call, clearance, &mut session)?;
    match observation
        .text
        .strip_prefix("Error: ")
        .filter(|_| observation.value.is_none())
    {
        Some(why) => failure(&screen, Status::Failed, why, None),
        None => screen.put(&format!("{}\n", clean(&observation.text)))?,
    }
    Ok(u8::from(observation.value.is_none()))
}

/// Each word is the next parameter's value, or `name=value` for a parameter's name.
fn arguments(spec: &Spec, words: &[String]) -> Result<Args> {
    let mut positional = Vec::new();
    let mut named = Vec::new();
    for word in words {
        let by_name = word.split_once('=').and_then(|(name, value)| {
            Some((spec.params.iter().find(|param| param.name == name)?, value))
        });
        let param = by_name
            .map(|(param, _)| param)
            .or_else(|| spec.params.get(positional.len()));
        let text = by_name.map_or(word.as_str(), |(_, value)| value);
        let is_text = param.is_none_or(|param| param.types.contains(&Type::String));
        // What is no literal is taken as text, and refused for its type where it is bound.
        let value = match literal(text) {
            Ok((value, length)) if !is_text && length == text.len() => value,
            _ => Value::from(text),
        };
        match by_name {
            Some((param, _)) => named.push((param.name.clone(), value)),
            None if named.is_empty() => positional.push(value),
            None => {
                return Err(Error::config(format!(
                    "`{text}` comes after a named argument"
                )));
            }
        }
    }
    Ok(Args::Values { positional, named })
}

/// `reagent models`: what can be asked where the chosen model is.
pub(crate) fn models(layers: Layers, screen: Screen) -> Result<u8> {
    let config = Config::new(layers.for_any_model(), screen)?;
    for notice in &config.notices {
        screen.notice(notice);
    }
    let mut names = llm::connect(&config.model, &config.llm).models()?;
    names.sort();
    for name in names {
        screen.put(&format!("{}\n", strict(&name)))?;
    }
    Ok(0)
}

/// `reagent policy test`: what would be said to a call, and why. Nothing runs.
pub(crate) fn policy(action: &PolicyAction, layers: &Layers, screen: Screen) -> Result<u8> {
    let PolicyAction::Test { call, tainted } = action;
    let options = layers.options();
    let tools = Rc::new(config::tools(&options, &mut Vec::new())?);
    let written = format!("Action: {}", call.join(" "));
    let wrong = |why: String| Error::config_hint(why, "reagent policy test 'add_numbers(1, 2)'");
    let call = match parse::parse(&written, Finish::Stop).next {
        Next::Action(proposal) => tools.bind(&proposal).map_err(|why| wrong(why.0))?,
        Next::Malformed(why) => return Err(wrong(why)),
        _ => return Err(wrong("this is no call".to_owned())),
    };
    let policy = ByRules::new(tools, layers.rules().clone(), options.yes);
    let circumstances = Circumstances {
        tainted: *tainted,
        ..Circumstances::default()
    };
    let (word, why) = match policy.judge(&Decision::Act(call), &circumstances) {
        Verdict::Allow => ("allow", None),
        Verdict::Ask { why, .. } => ("ask", Some(why)),
        Verdict::Deny(why) => ("deny", Some(why)),
    };
    screen.put(&match (options.json, why) {
        (true, why) => json_line(&json!({ "verdict": word, "why": why }).to_string()),
        (false, Some(why)) => format!("{word}: {}\n", strict(&why)),
        (false, None) => format!("{word}\n"),
    })?;
    Ok(0)
}

/// `reagent parse`: by the very functions that the engine uses.
pub(crate) fn parse(finish_reason: &str, options: &Options, screen: Screen) -> Result<u8> {
    let tools = config::tools(options, &mut Vec::new())?;
    let mut reply = Vec::new();
    let read = io::stdin().lock().take(REPLY_LIMIT).read_to_end(&mut reply);
    read.map_err(|error| Error::config(format!("cannot read standard input: {error}")))?;
    let parsed = parse::parse(
        &String::from_utf8_lossy(&reply),
        Finish::from_reason(finish_reason),
    );
    let malformed = |why: String| json!({ "kind": "malformed", "why": why });
    let mut object = match parsed.next {
        Next::Action(proposal) => match tools.bind(&proposal) {
            Ok(call) => json!({ "kind": "action", "tool": call.tool, "args": call.args }),
            Err(rejection) => malformed(rejection.0),
        },
        Next::Answer {
            text,
            truncated: true,
        } => {
            json!({ "kind": "answer", "text": text, "truncated": true })
        }
        Next::Answer { text, .. } => json!({ "kind": "answer", "text": text }),
        Next::Prose(_) => malformed("there is no `Action:` or `Answer:` line".to_owned()),
        Next::Malformed(why) => malformed(why),
    };
    if let (Some(thought), Some(map)) = (parsed.thought, object.as_object_mut()) {
        let map: &mut Map<String, Value> = map;
        map.insert("thought".to_owned(), thought.into());
    }
    screen.put(&json_line(&object.to_string()))?;
    Ok(0)
}
