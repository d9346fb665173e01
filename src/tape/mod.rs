//! A recording of runs: all that model, tools and person said, with every time that was told, so that the
//! same question can be answered once more without any of them, and with the same bytes.
//!
//! A file of JSON lines, one a question, each written at once when the question has come to its end:
//! `{"v":1,"query":…,"model":…,"engine":…,"notices":[…],"ticks":[…],"exchanges":[…],"answer":…}`. A request
//! is written as what is new in it since the one before.

mod reel;
mod taped;

use std::cell::RefCell;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::agent::{Agent, Task};
use crate::engine::Answer;
use crate::engine::approval::{Ask, Said};
use crate::error::{Error, Result};
use crate::llm::Llm;
use crate::near::nearest;
use crate::secret::scrub;
use crate::session::clock;
use crate::session::log::{Log, RealDisk, readable};
use crate::tool::Tool;
use crate::ui::text::json_line;
use reel::{Exchange, Reel};
use taped::{TapedLlm, TapedTool};

/// The largest recording.
const LARGEST: u64 = 256 << 20;

/// A question with all that was said until its answer.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Line {
    v: u32,
    query: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    attachments: String,
    model: String,
    engine: String,
    #[serde(default)]
    notices: Vec<String>,
    ticks: Vec<Value>,
    exchanges: Vec<Exchange>,
    answer: Option<String>,
}

/// A recording that is made or played.
#[derive(Clone)]
pub(crate) struct Tape {
    lines: Rc<RefCell<Vec<Line>>>,
    log: Option<Rc<RefCell<Log>>>,
    reel: Rc<RefCell<Reel>>,
}

impl Tape {
    /// Records into this file, after what it has.
    pub(crate) fn record(path: &Path) -> Result<Self> {
        let lines = match path.exists() {
            true => read(path)?,
            false => Vec::new(),
        };
        let cannot = |error| Error::config(format!("cannot write {}: {error}", path.display()));
        let log = Log::go_on(&RealDisk, path, false).map_err(cannot)?;
        Ok(Self::of(lines, Some(log)))
    }

    /// Plays what is in this file.
    pub(crate) fn rerun(path: &Path) -> Result<Self> {
        Ok(Self::of(read(path)?, None))
    }

    fn of(lines: Vec<Line>, log: Option<Log>) -> Self {
        Self {
            lines: Rc::new(RefCell::new(lines)),
            reel: Rc::new(RefCell::new(Reel::new(log.is_some()))),
            log: log.map(|log| Rc::new(RefCell::new(log))),
        }
    }

    /// Whether it is played.
    pub(crate) fn plays(&self) -> bool {
        self.log.is_none()
    }

    /// The engine of what is played.
    pub(crate) fn engine(&self) -> Option<String> {
        self.lines.borrow().first().map(|line| line.engine.clone())
    }

    /// What the person was told before the first question of what is played.
    pub(crate) fn notices(&self) -> Vec<String> {
        let lines = self.lines.borrow();
        lines
            .first()
            .map_or(Vec::new(), |line| line.notices.clone())
    }

    /// The model, on tape; the real one is not needed where it is played.
    pub(crate) fn llm(&self, llm: Box<dyn Llm>) -> Box<dyn Llm> {
        let name = match self.plays() {
            true => self.lines.borrow().first().map(|line| line.model.clone()),
            false => Some(llm.name().to_owned()),
        };
        Box::new(TapedLlm {
            llm,
            name: name.unwrap_or_default(),
            reel: self.reel.clone(),
        })
    }

    /// A tool, on tape.
    pub(crate) fn tool(&self, tool: Box<dyn Tool>) -> Box<dyn Tool> {
        Box::new(TapedTool {
            tool,
            reel: self.reel.clone(),
        })
    }

    /// What the person says, on tape.
    pub(crate) fn ask(&self, ask: Option<Ask>) -> Option<Ask> {
        let reel = self.reel.clone();
        if self.plays() {
            return Some(Box::new(move |question| {
                let said = reel.borrow_mut().said(question.call);
                said.unwrap_or(Said::Nothing)
            }));
        }
        let mut ask = ask?;
        Some(Box::new(move |question| {
            let said = ask(question);
            reel.borrow_mut().add(Exchange::Person {
                call: question.call.to_owned(),
                said: said.clone(),
            });
            said
        }))
    }

    /// The answer to a question that is on it already, for who only adds to it.
    pub(crate) fn answered(&self, query: &str, attachments: &str) -> Option<String> {
        let lines = self.lines.borrow();
        let mut fitting = lines
            .iter()
            .filter(|line| line.query == query && line.attachments == attachments);
        fitting.find_map(|line| line.answer.clone())
    }

    /// Has the agent answer, and records how; or plays how it did.
    pub(crate) fn run(&self, agent: &mut Agent, task: Task, notices: &[String]) -> Result<Answer> {
        match self.plays() {
            true => self.play(agent, task),
            false => self.take(agent, task, notices),
        }
    }

    fn take(&self, agent: &mut Agent, task: Task, notices: &[String]) -> Result<Answer> {
        let Task {
            query, attachments, ..
        } = task.clone();
        clock::keep();
        let answer = agent.run(task);
        let ticks = clock::kept();
        let exchanges = self.reel.borrow_mut().take();
        if matches!(
            answer,
            Err(Error::Interrupted(_) | Error::Write(_) | Error::EmptyTask)
        ) {
            return answer;
        }
        let (model, engine) = (agent.model().to_owned(), agent.engine().to_owned());
        let line = Line {
            v: 1,
            query,
            attachments,
            model,
            engine,
            notices: notices.to_vec(),
            ticks,
            exchanges,
            answer: answer.as_ref().ok().map(|answer| answer.text.clone()),
        };
        if let Some(log) = &self.log {
            let text = serde_json::to_string(&line).map_err(std::io::Error::from)?;
            let mut log = log.borrow_mut();
            log.add(&json_line(&scrub(&text)))?;
            log.sync(&RealDisk)?;
        }
        self.lines.borrow_mut().push(line);
        answer
    }

    fn play(&self, agent: &mut Agent, task: Task) -> Result<Answer> {
        let line = self.find(&task)?;
        let differs = |what: &str, was: &str, is: &str| {
            Err(Error::Miss(format!("{what} was `{was}`, and is `{is}`")))
        };
        if line.model != agent.model() {
            return differs("the model", &line.model, agent.model());
        }
        if line.engine != agent.engine() {
            return differs("the engine", &line.engine, agent.engine());
        }
        clock::again(line.ticks);
        self.reel.borrow_mut().load(line.exchanges);
        let answer = agent.run(task);
        clock::again(Vec::new());
        match (answer, self.reel.borrow_mut().missed()) {
            (_, Some(what)) => Err(Error::Miss(what)),
            (answer, None) => answer,
        }
    }

    /// Takes out the recording of a question; one that is there twice was asked twice.
    fn find(&self, task: &Task) -> Result<Line> {
        let mut lines = self.lines.borrow_mut();
        let at = lines
            .iter()
            .position(|line| line.query == task.query && line.attachments == task.attachments);
        if let Some(at) = at {
            // The last one stays, to be asked again.
            let more = lines[at + 1..].iter().any(|line| line.query == task.query);
            return Ok(match more {
                true => lines.remove(at),
                false => lines[at].clone(),
            });
        }
        let near = nearest(&task.query, lines.iter().map(|line| line.query.as_str()));
        let near = near.map_or(String::new(), |near| format!("; the nearest is `{near}`"));
        let what = match lines.iter().any(|line| line.query == task.query) {
            true => "the files and data given with the question differ".to_owned(),
            false => format!("there is no question `{}`{near}", task.query),
        };
        Err(Error::Miss(what))
    }
}

/// The lines of a recording. A last one that was torn counts as not there; any other that cannot be read is
/// an error.
fn read(path: &Path) -> Result<Vec<Line>> {
    let cannot = |why: String| Error::config(format!("cannot read {}: {why}", path.display()));
    let mut text = Vec::new();
    let file = readable(path).map_err(|error| cannot(error.to_string()))?;
    let read = file.take(LARGEST + 1).read_to_end(&mut text);
    read.map_err(|error| cannot(error.to_string()))?;
    if text.len() as u64 > LARGEST {
        return Err(cannot(format!("it is larger than {LARGEST} bytes")));
    }
    let text = String::from_utf8_lossy(&text);
    let mut lines = Vec::new();
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let Some(line) = line.strip_suffix('\n') else {
            break;
        };
        let line: Line = serde_json::from_str(line)
            .map_err(|error| cannot(format!("line {}: {error}", number + 1)))?;
        if line.v != 1 {
            let what = format!("line {}: it is of another version", number + 1);
            return Err(cannot(what));
        }
        lines.push(line);
    }
    Ok(lines)
}
