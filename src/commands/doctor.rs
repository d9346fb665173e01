//! `reagent doctor`: everything that an answer depends on, tried in order. A line each, with what to do
//! about what is wrong.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};
use serde_json::json;

use crate::config::{self, Config, Folders, Layers};
use crate::error::{Class, Error, Result};
use crate::interrupt;
use crate::llm::{self, Choice, Endpoint, Finish, Listener, Llm, Request};
use crate::near::nearest;
use crate::session::event::Message;
use crate::ui::screen::Screen;
use crate::ui::text::{json_line, strict};

/// How long a model may take for a few words.
const PATIENCE: Duration = Duration::from_secs(60);
/// The longest reply to the trial call: room for a model that reasons first.
const WORDS: u32 = 512;
/// What the trial call asks for; a model that respects the stop text does not get to the last line.
const TRIAL: &str =
    "Repeat these three lines, and write nothing else:\nalpha\nObservation: beta\ngamma";
/// The stop text of the engine `react`.
const STOP: &str = "\nObservation";
/// Room for a conversation, besides the instructions.
const ROOM: u64 = 2048;

#[derive(Clone, Copy, PartialEq)]
enum Health {
    Good,
    /// It works, but not as well as it could.
    Fair,
    Failed,
}

/// What was found, printed as it is found.
struct Report {
    screen: Screen,
    json: bool,
    failed: bool,
}

impl Report {
    fn line(&mut self, what: &str, health: Health, text: &str, hint: Option<&str>) -> Result<()> {
        self.failed |= health == Health::Failed;
        let (status, mark) = match health {
            Health::Good => ("ok", "✔"),
            Health::Fair => ("warning", "!"),
            Health::Failed => ("failed", "✖"),
        };
        if self.json {
            let line = json!({ "check": what, "status": status, "text": text, "hint": hint });
            return self.screen.put(&json_line(&line.to_string()));
        }
        let theme = self.screen.answer_theme();
        let style = match health {
            Health::Good => theme.answer,
            Health::Fair => theme.observation,
            Health::Failed => theme.error,
        };
        let mark = style.style(mark);
        self.screen
            .put(&format!("{mark} {what:<9} {}\n", strict(text)))?;
        match hint {
            Some(hint) => self
                .screen
                .put(&format!("  {:<9} hint: {}\n", "", strict(hint))),
            None => Ok(()),
        }
    }

    fn good(&mut self, what: &str, text: &str) -> Result<()> {
        self.line(what, Health::Good, text, None)
    }

    fn failed(&mut self, what: &str, error: &Error) -> Result<()> {
        self.line(
            what,
            Health::Failed,
            &error.to_string(),
            error.hint().as_deref(),
        )
    }
}

/// Tries everything. Gives 1 if something failed.
pub(crate) fn run(layers: Result<Layers>, json: bool, screen: Screen) -> Result<u8> {
    interrupt::install(None)?;
    let _working = interrupt::working();
    let mut report = Report {
        screen,
        json,
        failed: false,
    };
    match layers {
        Ok(layers) => examine(layers, &mut report)?,
        Err(error) => report.failed("settings", &error)?,
    }
    interrupt::check()?;
    Ok(u8::from(report.failed))
}

fn examine(layers: Layers, report: &mut Report) -> Result<()> {
    let folders = Folders::find();
    let written = folders.settings().filter(|path| path.exists());
    report.good(
        "settings",
        &match written {
            Some(path) => path.display().to_string(),
            None => "no config.toml, which is fine".to_owned(),
        },
    )?;
    folder("config", folders.config.as_deref(), report)?;
    folder("state", folders.state.as_deref(), report)?;
    let options = layers.options();
    let mut notices = Vec::new();
    let tools = config::tools(&options, &mut notices);
    match &tools {
        Ok(tools) => {
            let text = format!(
                "{} from {}",
                tools.specs().count(),
                config::tools_file(&options)
            );
            let hint = notices.first().map(String::as_str);
            let health = hint.map_or(Health::Good, |_| Health::Fair);
            report.line("tools", health, &text, hint)?;
        }
        Err(error) => report.failed("tools", error)?,
    }
    let (choice, why) = match layers.clone().choice() {
        Ok(chosen) => chosen,
        Err(error) => return report.failed("model", &error),
    };
    let endpoint = match &choice {
        Choice::Demo => {
            let hint = Error::Declined(String::new()).hint();
            let text = why.unwrap_or_else(|| "demo answers".to_owned());
            return report.line("model", Health::Fair, &text, hint.as_deref());
        }
        Choice::Remote(endpoint) => endpoint.clone(),
    };
    report.good("model", &why.unwrap_or_else(|| endpoint.name.clone()))?;
    let url = endpoint.url(!options.no_stream);
    report.good(
        "address",
        &format!("{url}, from {}", endpoint.base_url_from),
    )?;
    let key = endpoint
        .key_from
        .as_ref()
        .filter(|_| endpoint.key.is_some());
    report.good(
        "key",
        &match key {
            Some(from) => format!("from {from}"),
            None => "none is sent".to_owned(),
        },
    )?;
    let asked = llm::Options {
        timeout: options.timeout.unwrap_or(PATIENCE).min(PATIENCE),
        max_tokens: Some(WORDS),
        retries: 0,
        ..config::llm_options(&options)
    };
    let mut llm = llm::connect(&choice, &asked);
    if !reach(&*llm, &endpoint, report)? || !trial(&mut *llm, report)? {
        return Ok(());
    }
    let Ok(config) = Config::new(layers, report.screen) else {
        return Ok(());
    };
    context(
        &*llm,
        config.agent(None, None).engine()?.instructions(),
        report,
    )
}

/// A folder that is not there yet is made when it is needed, if it can be.
fn folder(what: &str, path: Option<&Path>, report: &mut Report) -> Result<()> {
    let Some(path) = path else {
        let hint = Some("export HOME=... or XDG_CONFIG_HOME and XDG_STATE_HOME");
        return report.line(what, Health::Fair, "no home folder: nothing is kept", hint);
    };
    let shown = path.display().to_string();
    let there = path.ancestors().find(|path| path.exists());
    let writable =
        there.is_some_and(|path| access(path, Access::WRITE_OK | Access::EXEC_OK).is_ok());
    let open = std::os::unix::fs::PermissionsExt::mode;
    let open = std::fs::metadata(path).is_ok_and(|data| open(&data.permissions()) & 0o077 != 0);
    if !writable {
        return report.line(
            what,
            Health::Fair,
            &format!("{shown} cannot be written"),
            None,
        );
    }
    if open {
        let hint = format!("chmod 700 {shown}");
        return report.line(
            what,
            Health::Fair,
            &format!("{shown} is open to others"),
            Some(&hint),
        );
    }
    report.good(what, &shown)
}

/// Whether the endpoint answers at all, and knows the model.
fn reach(llm: &dyn Llm, endpoint: &Endpoint, report: &mut Report) -> Result<bool> {
    let begun = Instant::now();
    let names = match llm.models() {
        Ok(names) => names,
        Err(error @ (Error::Auth { .. } | Error::Interrupted(_))) => {
            report.failed("endpoint", &error)?;
            return Ok(false);
        }
        // Not every gateway lists its models.
        Err(Error::Endpoint {
            class: Class::NotFound | Class::BadRequest | Class::Decode,
            ..
        }) => {
            report.line(
                "endpoint",
                Health::Fair,
                "answers, but lists no models",
                None,
            )?;
            return Ok(true);
        }
        Err(error) => {
            report.failed("endpoint", &error)?;
            return Ok(false);
        }
    };
    let text = format!(
        "answers in {} ms, {} models",
        begun.elapsed().as_millis(),
        names.len()
    );
    report.good("endpoint", &text)?;
    let model = &endpoint.model;
    let latest = format!("{model}:latest");
    if !names.is_empty() && !names.iter().any(|name| name == model || *name == latest) {
        let near = nearest(model, names.iter().map(String::as_str));
        let hint = near
            .or(names.first().map(String::as_str))
            .map(|name| format!("-m {name}, or another of `reagent models`"));
        report.line(
            "listed",
            Health::Fair,
            &format!("`{model}` is not in the list"),
            hint.as_deref(),
        )?;
    }
    Ok(true)
}

/// Hears the trial reply as it came.
#[derive(Default)]
struct Heard {
    text: String,
    notes: Vec<String>,
}

impl Listener for Heard {
    fn hear(&mut self, piece: &str) -> ControlFlow<()> {
        self.text += piece;
        ControlFlow::Continue(())
    }

    fn again(&mut self) -> bool {
        self.text.clear();
        true
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

/// One tiny call: whether there is a reply, and whether it stops where it should.
fn trial(llm: &mut dyn Llm, report: &mut Report) -> Result<bool> {
    let mut heard = Heard::default();
    let request = Request {
        messages: &[Message::user(TRIAL)],
        stop: &[STOP],
        ..Request::default()
    };
    let begun = Instant::now();
    let reply = llm.ask(&request, &mut heard);
    let took = begun.elapsed().as_millis();
    for note in &heard.notes {
        report.line("adapted", Health::Fair, note, None)?;
    }
    let reply = match reply {
        Ok(reply) => reply,
        Err(Error::Endpoint {
            class: Class::Length,
            ..
        }) => {
            report.good("reply", &format!("in {took} ms, all of it reasoning"))?;
            return Ok(true);
        }
        Err(error) => {
            report.failed("reply", &error)?;
            return Ok(false);
        }
    };
    let counted = match (reply.usage.input_tokens, reply.usage.output_tokens) {
        (Some(read), Some(written)) => format!("{read} tokens read, {written} written"),
        _ => "tokens are not counted".to_owned(),
    };
    report.good("reply", &format!("in {took} ms; {counted}"))?;
    let repeated = reply.text.trim() == "alpha" && reply.finish == Finish::Stop;
    let (health, text) = match () {
        () if heard.notes.iter().any(|note| note.contains("stop texts")) => return Ok(true),
        () if reply.text.contains(STOP) => (
            Health::Fair,
            "are ignored: replies are cut here, and cost more tokens",
        ),
        () if repeated => (Health::Good, "are respected"),
        () => (
            Health::Good,
            "could not be tried: the model did not repeat a text",
        ),
    };
    report.line("stop", health, text, None)?;
    Ok(true)
}

/// Whether instructions and tools leave room for a conversation.
fn context(llm: &dyn Llm, instructions: &str, report: &mut Report) -> Result<()> {
    let needed = llm::about(instructions);
    let Some(window) = llm.window() else {
        let text = format!(
            "the endpoint does not say how much it reads; instructions and tools take about {needed} tokens"
        );
        return report.good("context", &text);
    };
    let text = format!("{window} tokens; instructions and tools take about {needed}");
    let hint = "start the server with more context (llama-server -c 16384, OLLAMA_CONTEXT_LENGTH=16384), or use fewer tools";
    match window {
        window if window < needed => report.line("context", Health::Failed, &text, Some(hint)),
        window if window < needed + ROOM => report.line("context", Health::Fair, &text, Some(hint)),
        _ => report.good("context", &text),
    }
}
