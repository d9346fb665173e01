//! `reagent sessions` and `reagent replay`: what was recorded, read again. Nothing runs.

use std::path::Path;
use std::time::Duration;

use jiff::{Timestamp, Unit};
use serde_json::json;

use crate::cli::{Options, SessionsAction};
use crate::config::Folders;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::session::event::{Fact, Role};
use crate::session::listing::{self, Found, Summary};
use crate::session::log::readable;
use crate::session::store::{self, Saved, Store};
use crate::session::{Session, Sinks};
use crate::ui::export::export;
use crate::ui::screen::Screen;
use crate::ui::text::{clean, indented, json_line, strict};

/// How wide a question is in a list.
const WIDE: usize = 60;
/// The longest wait between two events of a replay.
const LONGEST: Duration = Duration::from_secs(60);

/// The person's sessions.
pub(crate) fn store() -> Result<Store> {
    let state = Folders::find().state;
    let state = state.ok_or_else(|| Error::config("there is no home folder"))?;
    Ok(Store::new(state.join("sessions")))
}

/// A session from its file. What is wrong with the file is said.
pub(crate) fn load(path: &Path, screen: Screen) -> Result<(Session, Saved)> {
    let mut saved = store::read(path)?;
    for damage in &saved.damage {
        screen.notice(&format!("{}: {damage}", path.display()));
    }
    if saved.torn > 0 {
        let torn = saved.torn;
        screen.notice(&format!(
            "{}: its last {torn} bytes are torn",
            path.display()
        ));
    }
    let events = std::mem::take(&mut saved.events);
    let none = || Error::config(format!("{} is no session", path.display()));
    Ok((Session::restored(events).ok_or_else(none)?, saved))
}

/// `reagent replay`: gives 1 if the record is damaged.
pub(crate) fn replay(which: &str, speed: Option<f64>, sinks: Sinks, screen: Screen) -> Result<u8> {
    let (session, saved) = load(&store()?.find(which)?, screen)?;
    let mut sinks = sinks;
    let mut before = 0;
    interrupt::install(None)?;
    let _working = interrupt::working();
    for event in session.events() {
        if let Some(speed) = speed {
            let passed = event.elapsed.saturating_sub(before) as f64 / 1000.0 / speed;
            let passed = Duration::try_from_secs_f64(passed).unwrap_or(LONGEST);
            interrupt::sleep(passed.min(LONGEST))?;
            before = event.elapsed;
        }
        for sink in &mut sinks {
            sink.see(event)?;
        }
    }
    if session.is_active() {
        screen.notice("the record ends here: the session is under way, or was cut off");
    }
    Ok(u8::from(!saved.damage.is_empty()))
}

/// `reagent sessions`.
pub(crate) fn run(action: Option<SessionsAction>, options: &Options, screen: Screen) -> Result<u8> {
    let store = store()?;
    let list = SessionsAction::List { n: 20, all: false };
    match action.unwrap_or(list) {
        SessionsAction::List { n, all } => {
            let most = if all { usize::MAX } else { n };
            let sessions = listing::list(&store, most)?;
            let lines = sessions.iter().map(|summary| match options.json {
                true => json_line(&object(summary).to_string()),
                false => line(summary),
            });
            screen.put(&lines.collect::<String>())?;
        }
        SessionsAction::Search { words, n } => {
            for Found {
                summary,
                rank,
                text,
            } in listing::search(&store, &words)?.into_iter().take(n)
            {
                screen.put(&match options.json {
                    true => {
                        let mut object = object(&summary);
                        object["rank"] = rank.into();
                        object["text"] = text.into();
                        json_line(&object.to_string())
                    }
                    false if text == summary.start.query => line(&summary),
                    false => format!("{}    {}\n", line(&summary), short(&text)),
                })?;
            }
        }
        SessionsAction::Show { session, messages } => {
            let (session, _) = load(&store.find(&session)?, screen)?;
            show(&session, messages, screen)?;
        }
        SessionsAction::Export {
            session,
            format,
            output,
        } => {
            let (session, _) = load(&store.find(&session)?, screen)?;
            let text = export(&session, format);
            match output {
                None => screen.put(&text)?,
                Some(path) => std::fs::write(&path, text).map_err(|error| {
                    Error::config(format!("cannot write {}: {error}", path.display()))
                })?,
            }
        }
        SessionsAction::Rm { sessions } => {
            // All are found before any is removed.
            let paths: Result<Vec<_>> = sessions.iter().map(|which| store.find(which)).collect();
            for path in paths? {
                remove(&path)?;
                screen.put(&format!("removed {}\n", name(&path)))?;
            }
        }
        SessionsAction::Prune { older_than } => {
            let mut removed = 0;
            for id in store.ids()? {
                let path = store.path(&id);
                let summary = listing::summary(&path)?;
                let old = summary.is_some_and(|summary| age(&summary.time) >= older_than);
                if old && remove(&path).is_ok() {
                    removed += 1;
                }
            }
            screen.put(&format!("removed {removed} sessions\n"))?;
        }
    }
    Ok(0)
}

fn name(path: &Path) -> String {
    let name = path.file_stem().unwrap_or_default();
    strict(&name.to_string_lossy()).into_owned()
}

/// Removes a session, unless it is under way.
fn remove(path: &Path) -> Result<()> {
    let cannot = |why: String| Error::config(format!("cannot remove {}: {why}", path.display()));
    let file = readable(path).map_err(|error| cannot(error.to_string()))?;
    file.try_lock()
        .map_err(|_| cannot("it is under way".to_owned()))?;
    std::fs::remove_file(path).map_err(|error| cannot(error.to_string()))
}

/// How long ago something was.
fn age(time: &str) -> Duration {
    let then = time.parse::<Timestamp>().unwrap_or_default();
    let seconds = Timestamp::now().since((Unit::Second, then));
    let seconds = seconds.map_or(0, |span| span.get_seconds());
    Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// The same in the largest unit that fits.
fn ago(time: &str) -> String {
    let seconds = age(time).as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86400),
    }
}

fn object(summary: &Summary) -> serde_json::Value {
    let Summary {
        id,
        time,
        start,
        end,
    } = summary;
    let mut object = json!({
        "id": id, "time": time, "query": start.query, "model": start.model, "engine": start.engine,
        "status": null,
    });
    if let (Some(end), Some(object)) = (end, object.as_object_mut())
        && let serde_json::Value::Object(end) = json!(end)
    {
        object.extend(end);
    }
    object
}

/// `20261201-151403-1c2d3e   5m answered    2 steps   340 tokens  What is …`
fn line(summary: &Summary) -> String {
    let Summary {
        id,
        time,
        start,
        end,
    } = summary;
    let status = end
        .as_ref()
        .map_or("cut off".to_owned(), |end| word(&end.status));
    let steps = end.as_ref().map_or(0, |end| end.steps);
    let steps = format!("{steps} step{}", if steps == 1 { "" } else { "s" });
    let usage = end.as_ref().map(|end| end.usage).unwrap_or_default();
    let tokens = match (usage.input_tokens, usage.output_tokens) {
        (None, None) => String::new(),
        (input, output) => format!("{} tokens", input.unwrap_or(0) + output.unwrap_or(0)),
    };
    let id = strict(id);
    format!(
        "{id:<24} {:>4}  {status:<11} {steps:>8} {tokens:>13}  {}\n",
        ago(time),
        short(&start.query)
    )
}

/// The beginning of a text, on one line.
fn short(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut shown: String = text.chars().take(WIDE).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    strict(&shown).into_owned()
}

/// The name of a value that is a plain word in JSON.
fn word(value: &impl serde::Serialize) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

fn show(session: &Session, messages: bool, screen: Screen) -> Result<()> {
    let mut text = String::new();
    let mut add = |name: &str, value: &str| {
        text += &format!("{name:<9} {}\n", indented(&clean(value)));
    };
    add("session", session.id());
    let began = session.started();
    add("began", &format!("{began}, {} ago", ago(began)));
    for event in session.events() {
        let step = event.step.unwrap_or(0);
        match &event.fact {
            Fact::Start(start) => {
                add(
                    "model",
                    &format!("{}, engine {}", start.model, start.engine),
                );
                if let Some(before) = &start.continues {
                    add("after", before);
                }
                add("question", &start.query);
            }
            Fact::Message(message) if messages => {
                let role = match message.role {
                    Role::System => "system",
                    Role::User => "user",
                    Role::Assistant => "assistant",
                    Role::Tool => "tool",
                };
                let calls = message
                    .calls
                    .iter()
                    .map(|call| format!("\n{}({})", call.name, call.args));
                add(
                    role,
                    &format!("{}{}", message.content, calls.collect::<String>()),
                );
            }
            _ if messages => {}
            Fact::Thought { text } => add(&format!("thought{step}"), text),
            Fact::Action { call, .. } => add(&format!("action{step}"), call),
            Fact::Observation { text, .. } => add(&format!("result{step}"), text),
            Fact::Malformed { why } => add(&format!("bad{step}"), why),
            Fact::Notice { text } => add("notice", text),
            Fact::Answer { text } => add("answer", text),
            Fact::Error { text, .. } => add("error", text),
            _ => {}
        }
    }
    let usage = session
        .usage()
        .meta()
        .map_or(String::new(), |meta| format!(", {meta}"));
    let status = session
        .status()
        .map_or("cut off".to_owned(), |status| word(&status));
    let seconds = session.duration().as_millis() as f64 / 1000.0;
    match session.is_active() {
        true => add("outcome", &format!("{status}{usage}")),
        false => add("outcome", &format!("{status} after {seconds:.2}s{usage}")),
    }
    screen.put(&text)
}
