//! Many sessions at a glance, and the search in them: straight over their files.

use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

use super::event::{End, Fact, Start};
use super::log::readable;
use super::store::{self, Store};
use crate::error::Result;

/// How much of a file's beginning and end is read for a summary.
const GLANCE: u64 = 8192;
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
    let mut file = readable(path)?;
    let mut bytes = Vec::with_capacity(GLANCE as usize + 1);
    (&mut file).take(GLANCE).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < GLANCE {
        return Ok(of(&bytes, &bytes));
    }
    // A long question is longer than a glance.
    while !bytes.contains(&b'\n') && bytes.len() as u64 <= LARGEST {
        let before = bytes.len();
        (&mut file).take(1 << 20).read_to_end(&mut bytes)?;
        if bytes.len() == before {
            break;
        }
    }
    let size = file.metadata()?.len();
    file.seek(SeekFrom::Start(size.saturating_sub(GLANCE)))?;
    let mut end = Vec::with_capacity(GLANCE as usize + 1);
    file.take(GLANCE).read_to_end(&mut end)?;
    Ok(of(&bytes, &end))
}

/// The same from the beginning and the end of a file.
fn of(begin: &[u8], end: &[u8]) -> Option<Summary> {
    let (_, event) = store::line(begin.split(|byte| *byte == b'\n').next()?).ok()?;
    let Fact::Start(start) = event.fact else {
        return None;
    };
    // After the last line break there is nothing, or what was torn.
    let last = end.rsplit(|byte| *byte == b'\n').nth(1);
    let end = last.and_then(|line| match store::line(line).ok()?.1.fact {
        Fact::End(end) => Some(end),
        _ => None,
    });
    Some(Summary {
        id: event.session,
        time: event.time,
        start,
        end,
    })
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
    let (mut bytes, mut small) = (Vec::new(), Vec::new());
    for id in store.ids()? {
        bytes.clear();
        let file = readable(&store.path(&id));
        let read = file.and_then(|file| file.take(LARGEST).read_to_end(&mut bytes));
        if read.is_err() {
            continue;
        }
        small.clone_from(&bytes);
        small.make_ascii_lowercase();
        // Most files have none of it, which is seen without reading their lines.
        if may_have(&small, &words) {
            found.extend(look(&bytes, &small, &words));
        }
    }
    // The order of those that are equal stays.
    found.sort_by_key(|found| std::cmp::Reverse(found.rank));
    Ok(found)
}

/// Whether all words that can be looked for in raw JSON are there.
fn may_have(small: &[u8], words: &[String]) -> bool {
    let Ok(text) = std::str::from_utf8(small) else {
        return true;
    };
    let mut plain = words.iter().filter(|word| is_plain(word));
    plain.all(|word| text.contains(word.as_str()))
}

fn look(bytes: &[u8], small: &[u8], words: &[String]) -> Option<Found> {
    let mut rank = 0;
    let mut missing: Vec<&String> = words.iter().collect();
    let mut shown = None;
    let lines = bytes.split(|byte| *byte == b'\n');
    for (line, small) in lines.zip(small.split(|byte| *byte == b'\n')) {
        if !has_words(small, words) {
            continue;
        }
        let Ok((_, event)) = store::line(line) else {
            continue;
        };
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
    let text = shown.filter(|_| missing.is_empty())?;
    Some(Found {
        summary: of(bytes, bytes)?,
        rank,
        text,
    })
}

/// Whether a line is of a kind that is searched, and may have one of the words.
fn has_words(line: &[u8], words: &[String]) -> bool {
    const KINDS: [&str; 5] = ["start", "answer", "thought", "observation", "action"];
    let text = String::from_utf8_lossy(line);
    // It comes before anything that somebody wrote.
    let kind = text.split_once("\"type\":\"").map(|(_, rest)| rest);
    kind.is_some_and(|kind| KINDS.iter().any(|name| kind.starts_with(name)))
        && words
            .iter()
            .any(|word| !is_plain(word) || text.contains(word.as_str()))
}

/// Whether a word is the same in JSON, and its capitals are.
fn is_plain(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric())
}
