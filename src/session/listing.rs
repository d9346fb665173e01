//! Many sessions at a glance, and the search in them: straight over their files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::event::{End, Event, Fact, Start};
use super::store::{self, Store};
use crate::error::{Error, Result};

/// How much of a file's beginning and end is read for a summary.
const GLANCE: u64 = 4096;
/// The largest file that is searched.
const LARGEST: u64 = 16 << 20;

/// What a session was about, and how it came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The session's id.
    pub id: String,
    /// When it began, RFC 3339 in UTC.
    pub time: String,
    /// How it began.
    pub start: Start,
    /// How it ended; not at all if it is under way, or was cut off.
    pub end: Option<End>,
}

/// A session that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Which one.
    pub summary: Summary,
    /// How well it fits: words in a question count most, then those in an answer, a thought, an observation.
    pub rank: u32,
    /// The text with the first word in it.
    pub text: String,
}

/// A glance at a file: its first line and its last one. None if it does not begin as a session does.
pub fn summary(path: &Path) -> io::Result<Option<Summary>> {
    let mut file = File::open(path)?;
    let mut bytes = Vec::with_capacity(8192);
    (&mut file).take(GLANCE).read_to_end(&mut bytes)?;
    // A long question is longer than a glance.
    while !bytes.contains(&b'\n') {
        let before = bytes.len();
        (&mut file).take(1 << 20).read_to_end(&mut bytes)?;
        if bytes.len() == before || bytes.len() > 4 << 20 {
            return Ok(None);
        }
    }
    let first = bytes.split(|byte| *byte == b'\n').next();
    let Some(Ok((_, event))) = first.map(store::line) else {
        return Ok(None);
    };
    let Fact::Start(start) = event.fact else {
        return Ok(None);
    };
    if bytes.len() as u64 >= GLANCE {
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(GLANCE)))?;
        bytes.clear();
        (&mut file).take(GLANCE).read_to_end(&mut bytes)?;
    }
    // After the last line break there is nothing, or what was torn.
    let last = bytes.rsplit(|byte| *byte == b'\n').nth(1);
    let end = match last.map(store::line) {
        Some(Ok((
            _,
            Event {
                fact: Fact::End(end),
                ..
            },
        ))) => Some(end),
        _ => None,
    };
    Ok(Some(Summary {
        id: event.session,
        time: event.time,
        start,
        end,
    }))
}

/// The newest sessions, as many as are wanted. What is no session is passed over.
pub fn list(store: &Store, most: usize) -> Result<Vec<Summary>> {
    let ids = store.ids()?;
    let glances = ids.iter().filter_map(|id| summary(&store.path(id)).ok()?);
    Ok(glances.take(most).collect())
}

/// The sessions that have all of the words, whatever the case of their letters: the best first, and of
/// those that fit equally the newest.
pub fn search(store: &Store, words: &[String]) -> Result<Vec<Found>> {
    let words: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let mut found = Vec::new();
    let mut bytes = Vec::new();
    for id in store.ids()? {
        let path = store.path(&id);
        bytes.clear();
        let file = File::open(&path);
        if file
            .and_then(|file| file.take(LARGEST).read_to_end(&mut bytes))
            .is_err()
        {
            continue;
        }
        // Most files have none of it, which is seen without reading their lines.
        if !may_have(&mut bytes, &words) {
            continue;
        }
        found.extend(look(&path, &words)?);
    }
    // The order of those that are equal stays.
    found.sort_by_key(|found| std::cmp::Reverse(found.rank));
    Ok(found)
}

/// Whether all words that can be looked for in raw JSON are there. Makes its letters small.
fn may_have(bytes: &mut [u8], words: &[String]) -> bool {
    bytes.make_ascii_lowercase();
    let Ok(text) = std::str::from_utf8(bytes) else {
        return true;
    };
    let plain = |word: &&String| word.chars().all(|c| c.is_ascii_alphanumeric());
    words
        .iter()
        .filter(plain)
        .all(|word| text.contains(word.as_str()))
}

fn look(path: &Path, words: &[String]) -> Result<Option<Found>> {
    let Some(summary) = summary(path).map_err(Error::from)? else {
        return Ok(None);
    };
    let mut rank = 0;
    let mut missing: Vec<&String> = words.iter().collect();
    let mut shown = None;
    for event in store::read(path)?.events {
        let (text, weight) = match event.fact {
            Fact::Start(start) => (start.query, 8),
            Fact::Answer { text } => (text, 4),
            Fact::Thought { text } => (text, 2),
            Fact::Observation { text, .. } => (text, 1),
            Fact::Action { call, .. } => (call, 1),
            _ => continue,
        };
        let small = text.to_lowercase();
        for word in words.iter().filter(|word| small.contains(word.as_str())) {
            rank += weight;
            missing.retain(|other| *other != word);
            shown.get_or_insert_with(|| text.clone());
        }
    }
    Ok(shown.filter(|_| missing.is_empty()).map(|text| Found {
        summary,
        rank,
        text,
    }))
}
