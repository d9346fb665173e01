//! The audit log: one line a decision, chained so that nothing in it can be changed unseen.
//!
//! After AgentRuntime's audit log. Each session has a file of its own, `audit/SESSION.jsonl`, with one
//! writer. A line is a JSON object that begins with `v` and `seq` and ends with `prev`, the hash of the
//! line before:
//!
//! ```text
//! hash of a line   = SHA-256("reagent-audit-v1\n" + the line's bytes, without the line break)
//! prev of the first = SHA-256("reagent-audit-v1\n" + the session's id)
//! ```
//!
//! When a session ends, its last hash, the head, is put into `audit/heads.jsonl`, which is a chain of the
//! same kind for the id `heads`: so also a cut tail and a missing file are seen. Somebody who owns the
//! account while the program runs can write what they like; they cannot change what was written before
//! a head that is kept elsewhere.

use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::Sink;
use super::event::{Event, Fact};
use super::log::{self, Disk, Log, RealDisk, readable};
use crate::error::Result;
use crate::secret::scrub;
use crate::ui::text::json_line;

/// What stands before everything that is hashed.
const DOMAIN: &str = "reagent-audit-v1\n";
/// The id of the chain of heads.
const HEADS: &str = "heads";
/// How much of a text is on record.
const EXCERPT: usize = 2000;
/// The largest log that is read.
const LARGEST: u64 = 64 << 20;

/// A chain of lines that is being written.
struct Chain {
    log: Log,
    seq: u64,
    prev: String,
}

/// The hash of a line, or of the id that a chain begins with.
fn hash(text: &str) -> String {
    log::hash(&[DOMAIN, text], 32)
}

impl Chain {
    fn begin(log: Log, id: &str) -> Self {
        Self {
            log,
            seq: 0,
            prev: hash(id),
        }
    }

    /// After its last line.
    fn go_on(mut log: Log, id: &str) -> io::Result<Self> {
        let Some(line) = log.last_line()? else {
            return Ok(Self::begin(log, id));
        };
        let last: Value = serde_json::from_str(&line).unwrap_or_default();
        Ok(Self {
            log,
            seq: last["seq"].as_u64().map_or(0, |seq| seq + 1),
            prev: hash(&line),
        })
    }

    /// Adds a line with these members, in one write.
    fn add(&mut self, members: Map<String, Value>) -> io::Result<()> {
        let mut line = Map::new();
        line.insert("v".to_owned(), 1.into());
        line.insert("seq".to_owned(), self.seq.into());
        line.extend(members);
        line.insert("prev".to_owned(), self.prev.as_str().into());
        let line = json_line(&scrub(&Value::Object(line).to_string()));
        self.log.add(&line)?;
        self.prev = hash(line.trim_end_matches('\n'));
        self.seq += 1;
        Ok(())
    }
}

/// Writes the audit log of each session that it sees.
pub struct Audit {
    folder: PathBuf,
    disk: Rc<dyn Disk>,
    chain: Option<Chain>,
    /// What the model decided upon, until it is known what came of it.
    input: String,
    pending: Map<String, Value>,
    /// Whether something with an effect has run.
    effects: bool,
    trouble: Option<String>,
}

impl Audit {
    /// Writes into this folder, which is made if need be.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::on(folder, Rc::new(RealDisk))
    }

    /// The same on another disk.
    pub fn on(folder: impl Into<PathBuf>, disk: Rc<dyn Disk>) -> Self {
        Self {
            folder: folder.into(),
            disk,
            chain: None,
            input: String::new(),
            pending: Map::new(),
            effects: false,
            trouble: None,
        }
    }

    fn add(&mut self, event: &Event, kind: &str, members: Value) -> io::Result<()> {
        let Some(chain) = &mut self.chain else {
            return Ok(());
        };
        let mut line = Map::new();
        line.insert("time".to_owned(), event.time.as_str().into());
        line.insert("session".to_owned(), event.session.as_str().into());
        line.insert("kind".to_owned(), kind.into());
        if let Some(step) = event.step {
            line.insert("iteration".to_owned(), step.into());
        }
        if let Value::Object(members) = members {
            line.extend(members);
        }
        chain.add(line)
    }

    /// A decision and what it was made on.
    fn deciding(&self, decision: Value) -> Map<String, Value> {
        let mut members = Map::new();
        members.insert("input".to_owned(), self.input.as_str().into());
        members.insert("decision".to_owned(), decision);
        members
    }

    /// What went wrong, with the decision that it went wrong at if there is one.
    fn failed(&mut self, why: &str) -> Value {
        let mut members = std::mem::take(&mut self.pending);
        if members.is_empty() {
            members = self.deciding(Value::Null);
        }
        members.insert("error".to_owned(), excerpt(why).into());
        Value::Object(members)
    }

    fn write(&mut self, event: &Event) -> io::Result<()> {
        match &event.fact {
            Fact::Start(start) => {
                let file = self.folder.join(format!("{}.jsonl", event.session));
                let log = Log::begin(&*self.disk, &file)?;
                self.chain = Some(Chain::begin(log, &event.session));
                self.input = excerpt(&start.query);
                self.effects = false;
                self.pending = Map::new();
                let members =
                    json!({ "task": self.input, "model": start.model, "engine": start.engine });
                self.add(event, "start", members)
            }
            Fact::Resumed => {
                let path = self.folder.join(format!("{}.jsonl", event.session));
                let log = Log::go_on(&*self.disk, &path, false)?;
                self.chain = Some(Chain::go_on(log, &event.session)?);
                self.effects = true;
                self.add(event, "resumed", json!({}))
            }
            Fact::Action { tool, args, .. } => {
                self.pending = self.deciding(json!({ "action": tool, "params": args }));
                Ok(())
            }
            Fact::Withheld { text, why } => {
                self.pending = self.deciding(finish(text));
                let said = json!({ "allowed": false, "by": "policy", "why": why, "effect": false });
                self.pending.insert("verdict".to_owned(), said);
                Ok(())
            }
            Fact::Verdict(verdict) => {
                let said = json!(verdict);
                self.pending.insert("verdict".to_owned(), said);
                if !(verdict.allowed && verdict.effect) {
                    return Ok(());
                }
                self.effects = true;
                let intent = Value::Object(self.pending.clone());
                self.add(event, "intent", intent)?;
                self.sync()
            }
            Fact::Intervened { what, text } => {
                let members = json!({ "what": what, "text": excerpt(text) });
                self.add(event, "intervention", members)
            }
            Fact::Observation { ok, text, ms, .. } => {
                let text = excerpt(text);
                let mut members = std::mem::take(&mut self.pending);
                let outcome = if *ok { "result" } else { "error" };
                members.insert(outcome.to_owned(), text.as_str().into());
                members.insert("ms".to_owned(), (*ms).into());
                self.input = text;
                self.add(event, "decision", Value::Object(members))?;
                match self.effects {
                    true => self.sync(),
                    false => Ok(()),
                }
            }
            Fact::Malformed { why } => {
                let members = self.failed(why);
                self.add(event, "decision", members)
            }
            Fact::Answer { text } => {
                let mut members = self.deciding(finish(text));
                members.insert("verdict".to_owned(), "allowed".into());
                self.add(event, "decision", Value::Object(members))
            }
            Fact::Error { text, .. } => {
                let members = self.failed(text);
                self.add(event, "failure", members)
            }
            Fact::End(end) => {
                let members = json!({
                    "status": end.status, "iterations": end.steps, "tool_calls": end.tool_calls, "ms": end.ms,
                });
                self.add(event, "end", members)?;
                if self.effects {
                    self.sync()?;
                }
                self.close(event)
            }
            _ => Ok(()),
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        match &mut self.chain {
            Some(chain) => chain.log.sync(&*self.disk),
            None => Ok(()),
        }
    }

    /// Puts the head of the session's chain to the others, one writer at a time.
    fn close(&mut self, event: &Event) -> io::Result<()> {
        let Some(Chain { seq, prev, .. }) = self.chain.take() else {
            return Ok(());
        };
        let path = self.folder.join(format!("{HEADS}.jsonl"));
        let log = Log::go_on(&*self.disk, &path, true)?;
        let mut heads = Chain::go_on(log, HEADS)?;
        let members =
            json!({ "time": event.time, "session": event.session, "records": seq, "head": prev });
        match members {
            Value::Object(members) => heads.add(members),
            _ => Ok(()),
        }
    }
}

impl Sink for Audit {
    /// Never fails: what cannot be written is missing, nothing follows it, and [`Sink::trouble`] says so.
    fn see(&mut self, event: &Event) -> Result<()> {
        if matches!(event.fact, Fact::Start(_) | Fact::Resumed) {
            self.trouble = None;
        }
        if let Err(error) = self.write(event) {
            self.chain = None;
            self.trouble = Some(format!("the audit log cannot be written: {error}"));
        }
        Ok(())
    }

    fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

/// The decision to end with this answer.
fn finish(answer: &str) -> Value {
    json!({ "action": "finish", "params": { "answer": excerpt(answer) } })
}

fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT).collect()
}

/// What a chain that is whole comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// How many records it has.
    pub records: u64,
    /// The hash of the last one.
    pub head: String,
}

/// Checks a log from its first line to its last; `id` is what its chain begins with. The error names the
/// first record that is wrong, its line and its first byte.
pub fn check(text: &[u8], id: &str) -> std::result::Result<Whole, String> {
    let mut prev = hash(id);
    let (mut at, mut records) = (0, 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let wrong = |why: &str| {
            let number = records + 1;
            Err(format!(
                "record {records} (line {number}, byte {at}): {why}"
            ))
        };
        let Some(line) = line.strip_suffix(b"\n") else {
            return wrong("it is not whole");
        };
        let Ok(line) = std::str::from_utf8(line) else {
            return wrong("it is not text");
        };
        let Ok(record) = serde_json::from_str::<Value>(line) else {
            return wrong("it is not JSON");
        };
        // Read by its place as well: members of one name could stand in it twice.
        let begins = format!("{{\"v\":1,\"seq\":{records},");
        let ends = format!(",\"prev\":\"{prev}\"}}");
        if record["seq"] != records || !line.starts_with(&begins) {
            return wrong("it is out of order");
        }
        if record["prev"] != prev.as_str() || !line.ends_with(&ends) {
            return wrong("it, or the one before it, is not what was written");
        }
        prev = hash(line);
        at += line.len() + 1;
        records += 1;
    }
    Ok(Whole {
        records,
        head: prev,
    })
}

/// What came of checking one log.
#[derive(Debug)]
pub struct Checked {
    /// The session.
    pub session: String,
    /// The chain, or what is wrong.
    pub found: std::result::Result<Whole, String>,
    /// Whether a head vouches for its end.
    pub anchored: bool,
}

/// Checks one log, against the heads in its folder if there are some.
pub fn check_file(path: &Path) -> io::Result<Checked> {
    let id = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new("."));
    let heads = heads(folder).unwrap_or_default();
    Ok(against(&heads, &id, check(&read(path)?, &id)))
}

/// Checks the heads and every log of a folder; a log that is missing is wrong.
pub fn check_folder(folder: &Path) -> io::Result<Vec<Checked>> {
    let path = folder.join(format!("{HEADS}.jsonl"));
    let found = check(&read(&path)?, HEADS);
    let mut all = vec![Checked {
        session: HEADS.to_owned(),
        found,
        anchored: true,
    }];
    let heads = heads(folder)?;
    let mut ids: Vec<String> = heads.iter().map(|(id, _)| id.clone()).collect();
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if let Some(id) = name.strip_suffix(".jsonl")
            && id != HEADS
            && !ids.iter().any(|known| known == id)
        {
            ids.push(id.to_owned());
        }
    }
    ids.sort();
    for id in ids {
        let found = match read(&folder.join(format!("{id}.jsonl"))) {
            Ok(text) => check(&text, &id),
            Err(error) => Err(format!("it cannot be read: {error}")),
        };
        all.push(against(&heads, &id, found));
    }
    Ok(all)
}

fn against(
    heads: &[(String, Whole)],
    id: &str,
    found: std::result::Result<Whole, String>,
) -> Checked {
    let head = heads.iter().rev().find(|(session, _)| session == id);
    let found = found.and_then(|whole| match head {
        Some((_, head)) if *head != whole && whole.records < head.records => Err(format!(
            "its end is missing: {} of {} records are there",
            whole.records, head.records
        )),
        Some((_, head)) if *head != whole => Err(format!(
            "record {} (line {}): it is not what was written",
            whole.records.saturating_sub(1),
            whole.records
        )),
        _ => Ok(whole),
    });
    Checked {
        session: id.to_owned(),
        found,
        anchored: head.is_some(),
    }
}

/// The heads of a folder, in order.
fn heads(folder: &Path) -> io::Result<Vec<(String, Whole)>> {
    let text = read(&folder.join(format!("{HEADS}.jsonl")))?;
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).ok()?;
        let whole = Whole {
            records: line["records"].as_u64()?,
            head: line["head"].as_str()?.to_owned(),
        };
        Some((line["session"].as_str()?.to_owned(), whole))
    });
    Ok(lines.collect())
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    readable(path)?.take(LARGEST).read_to_end(&mut bytes)?;
    Ok(bytes)
}
