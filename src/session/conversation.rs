//! A conversation from its record: the sessions that go on from one another.

use super::Session;
use super::store::{self, Store};
use crate::error::{Error, Result};

/// How many sessions of a conversation are read, the latest.
const MOST: usize = 20;

/// The conversation that ends with this session (`last`, an id or its beginning, a file), oldest first. Sessions
/// before it that are gone or damaged end it there; says whether there are none.
pub fn load(store: &Store, which: &str) -> Result<(Vec<Session>, bool)> {
    let path = store.find(which)?;
    let none = || Error::config(format!("{} is no session", path.display()));
    let last = Session::restored(store::read(&path)?.events).ok_or_else(none)?;
    let mut sessions = vec![last];
    while sessions.len() < MOST {
        let before = sessions[sessions.len() - 1].continues();
        let before = before.map(|id| store::read(&store.path(id)));
        match before.and_then(|saved| Session::restored(saved.ok()?.events)) {
            // A record that goes round in circles is no conversation.
            Some(session) if sessions.iter().all(|other| other.id() != session.id()) => {
                sessions.push(session);
            }
            _ => break,
        }
    }
    sessions.reverse();
    let whole = sessions[0].continues().is_none();
    Ok((sessions, whole))
}
