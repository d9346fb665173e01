//! Sessions on disk: one file a session, one line an event, readable while it is written and after a crash.
//!
//! `sessions/ID.jsonl` in the state folder, in UTF-8. Each line is a JSON object:
//!
//! ```text
//! {"v":1,"n":0,"time":"…","elapsed":0,"session":"ID","type":"start",…,"sum":"0123456789abcdef"}
//! ```
//!
//! `v` is the version of the format, `n` the number of the line from 0, `sum` the first 16 digits of
//! SHA-256("reagent-session-v1\n" + the line's bytes before `,"sum"`). What is between `n` and `sum` is an
//! [`Event`]. Members and types may come, none is renamed while `v` stays.
//!
//! A line is written before what it tells of has a consequence: a decision before its effect, a message
//! before it is sent. The file is synced before something with an effect runs, after its result, and at the
//! answer. Its writer has it locked. A last line without a line break was torn by a crash: readers pass
//! over it, and who goes on writing sets it aside as `ID.jsonl.torn-1`. A line that is wrong otherwise is
//! named by its number and first byte, and the others still count.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::Sink;
use super::event::{Event, Fact};
use super::log::{Disk, Log, RealDisk, hash, readable};
use crate::error::{Error, Result};
use crate::secret::scrub;
use crate::ui::text::{is_plain, json_line};

/// How a line begins, before its number. The first number is the version of the format.
const BEGIN: &str = "{\"v\":1,\"n\":";
/// What stands before everything that is summed up.
const DOMAIN: &str = "reagent-session-v1\n";
/// How a line ends, after its sum.
const END: &str = "\"}";
/// The largest file that is read.
const LARGEST: u64 = 256 << 20;

/// The folder of sessions.
#[derive(Clone)]
pub struct Store {
    folder: PathBuf,
    disk: Rc<dyn Disk>,
}

/// What a file holds.
#[derive(Debug, Default)]
pub struct Saved {
    /// Every event that is whole, in order.
    pub events: Vec<Event>,
    /// What is wrong, a line each: `line 3 (byte 812): …`.
    pub damage: Vec<String>,
    /// How many bytes at the end were torn by a crash.
    pub torn: usize,
}

impl Store {
    /// The sessions in this folder, which need not exist yet.
    pub fn new(folder: impl Into<PathBuf>) -> Self {
        Self::on(folder, Rc::new(RealDisk))
    }

    /// The same on another disk.
    pub fn on(folder: impl Into<PathBuf>, disk: Rc<dyn Disk>) -> Self {
        Self {
            folder: folder.into(),
            disk,
        }
    }

    /// Who writes down the sessions that it sees.
    pub fn keeper(&self) -> Keeper {
        Keeper {
            store: self.clone(),
            log: None,
            lines: 0,
            effects: false,
            trouble: None,
        }
    }

    /// Where a session of this id is. An id is a name: what would lead elsewhere leads nowhere.
    pub fn path(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{}.jsonl", id.replace('/', "_")))
    }

    /// Whether a session can be gone on with: that its file is not damaged, and nobody is writing it.
    pub fn check(&self, id: &str) -> Result<()> {
        let path = self.path(id);
        if let Some(damage) = read(&path)?.damage.first() {
            let what = format!("{} is damaged: {damage}", path.display());
            return Err(Error::config_hint(what, format!("reagent replay {id}")));
        }
        let free = readable(&path).map(|file| file.try_lock().is_ok());
        match free {
            Ok(true) => Ok(()),
            _ => Err(Error::config(format!(
                "session {id} is under way in another program"
            ))),
        }
    }

    /// The ids of all sessions, the newest first.
    pub fn ids(&self) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            if let Some(id) = name.to_str().and_then(|name| name.strip_suffix(".jsonl")) {
                ids.push(id.to_owned());
            }
        }
        ids.sort_unstable_by(|a, b| b.cmp(a));
        Ok(ids)
    }

    /// The file of the session that is meant: `last`, an id or the only one that begins so, or a path.
    pub fn find(&self, which: &str) -> Result<PathBuf> {
        let cannot = |error: io::Error| {
            Error::config(format!("cannot read {}: {error}", self.folder.display()))
        };
        if which.contains(['/', '.']) {
            return Ok(PathBuf::from(which));
        }
        let ids = self.ids().map_err(cannot)?;
        let none = |what: String| Error::config_hint(what, "reagent sessions");
        if which == "last" {
            let mut paths = ids.iter().map(|id| self.path(id));
            let newest = paths.find(|path| readable(path).is_ok());
            return newest.ok_or_else(|| none("there are no sessions yet".to_owned()));
        }
        let mut fitting = ids.iter().filter(|id| {
            // The time alone is seldom typed; the end of an id tells as well.
            id.starts_with(which) || id.ends_with(which) && which.len() >= 4
        });
        match (fitting.next(), fitting.next()) {
            (Some(id), None) => Ok(self.path(id)),
            (None, _) => Err(none(format!("there is no session `{which}`"))),
            (Some(first), Some(second)) => Err(none(format!(
                "`{which}` is the beginning of several sessions: {first}, {second}"
            ))),
        }
    }
}

/// Reads a file of a session.
pub fn read(path: &Path) -> Result<Saved> {
    let cannot =
        |error: io::Error| Error::config(format!("cannot read {}: {error}", path.display()));
    let mut bytes = Vec::new();
    let file = readable(path).map_err(cannot)?;
    file.take(LARGEST).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(parse(&bytes))
}

/// Reads the content of such a file. Every line that is whole counts, whatever is wrong with the others.
pub fn parse(bytes: &[u8]) -> Saved {
    let mut saved = Saved::default();
    let (mut at, mut next) = (0, 0);
    for (number, line) in bytes.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some(whole) = line.strip_suffix(b"\n") else {
            saved.torn = line.len();
            break;
        };
        match self::line(whole) {
            Ok((n, event)) => {
                if n != next {
                    let why = format!("line {} (byte {at}): it is out of order", number + 1);
                    saved.damage.push(why);
                }
                next = n + 1;
                saved.events.push(event);
            }
            Err(why) => {
                let why = format!("line {} (byte {at}): {why}", number + 1);
                saved.damage.push(why);
                next += 1;
            }
        }
        at += line.len();
    }
    saved
}

/// The number and the event of a line.
pub(crate) fn line(line: &[u8]) -> std::result::Result<(u64, Event), &'static str> {
    const ALTERED: &str = "it is not what was written";
    let line = std::str::from_utf8(line).map_err(|_| ALTERED)?;
    let (body, sum) = line.rsplit_once(",\"sum\":\"").ok_or(ALTERED)?;
    if sum.strip_suffix(END) != Some(self::sum(body).as_str()) {
        return Err(ALTERED);
    }
    let number = body
        .strip_prefix(BEGIN)
        .and_then(|rest| rest.split_once(','));
    let Some((number, _)) = number else {
        return Err("it is of a version that this program does not know");
    };
    let number = number.parse().map_err(|_| ALTERED)?;
    let event = serde_json::from_str(line);
    let event = event.map_err(|_| "it is of a kind that this program does not know")?;
    Ok((number, event))
}

fn sum(body: &str) -> String {
    hash(&[DOMAIN, body], 8)
}

/// Writes sessions down as they happen.
pub struct Keeper {
    store: Store,
    log: Option<Log>,
    lines: u64,
    /// Whether something with an effect has run.
    effects: bool,
    trouble: Option<String>,
}

impl Keeper {
    fn write(&mut self, event: &Event) -> io::Result<()> {
        let path = || self.store.path(&event.session);
        match event.fact {
            Fact::Start(_) => {
                self.log = Some(Log::begin(&*self.store.disk, &path())?);
                (self.lines, self.effects) = (0, false);
            }
            Fact::Resumed => self.go_on(&path())?,
            _ => {}
        }
        let Some(log) = &mut self.log else {
            return Ok(());
        };
        let mut line = format!("{BEGIN}{}", self.lines).into_bytes();
        let at = line.len();
        serde_json::to_writer(&mut line, event)?;
        // The event's members follow on those of the line.
        line[at] = b',';
        line.pop();
        let line = String::from_utf8(line).map_err(io::Error::other)?;
        let mut line = match scrub(&line) {
            Cow::Borrowed(_) => line,
            Cow::Owned(scrubbed) => scrubbed,
        };
        if !is_plain(&line) {
            line = json_line(&line);
            line.pop();
        }
        let sum = sum(&line);
        line += ",\"sum\":\"";
        line += &sum;
        line += END;
        line.push('\n');
        log.add(&line)?;
        self.lines += 1;
        let sync = match &event.fact {
            Fact::Verdict(said) => {
                let effect = said.allowed && said.effect;
                self.effects |= effect;
                effect
            }
            Fact::Observation { .. } => self.effects,
            Fact::Answer { .. } => true,
            _ => false,
        };
        if sync {
            log.sync(&*self.store.disk)?;
        }
        if matches!(event.fact, Fact::End(_)) {
            self.log = None;
        }
        Ok(())
    }

    /// Goes on with a file: sets a torn end aside, and writes after what is whole.
    fn go_on(&mut self, path: &Path) -> io::Result<()> {
        let mut log = Log::go_on(&*self.store.disk, path, false)?;
        let bytes = fs::read(path)?;
        let saved = parse(&bytes);
        if saved.torn > 0 {
            let whole = bytes.len() - saved.torn;
            set_aside(path, &bytes[whole..])?;
            log.cut(whole as u64)?;
        }
        self.lines = saved.events.len() as u64;
        self.effects = true;
        self.log = Some(log);
        Ok(())
    }
}

/// Copies the torn end of a file beside it.
fn set_aside(path: &Path, end: &[u8]) -> io::Result<()> {
    for number in 1.. {
        let aside = PathBuf::from(format!("{}.torn-{number}", path.display()));
        match super::log::open(&aside, true) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            file => {
                let mut file = file?;
                io::Write::write_all(&mut file, end)?;
                return file.sync_all();
            }
        }
    }
    Ok(())
}

impl Sink for Keeper {
    /// Never fails: what cannot be written down is missing, and [`Sink::trouble`] says so from then on.
    fn see(&mut self, event: &Event) -> Result<()> {
        if matches!(event.fact, Fact::Text { .. }) {
            return Ok(());
        }
        if matches!(event.fact, Fact::Start(_) | Fact::Resumed) {
            self.trouble = None;
        }
        if let Err(error) = self.write(event) {
            self.log = None;
            self.trouble = Some(format!("the session cannot be saved: {error}"));
        }
        Ok(())
    }

    fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}
