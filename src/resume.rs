//! Going on with what was recorded: `-c`, `-r`, `/resume`.

use crate::agent::Agent;
use crate::config::Config;
use crate::engine::approval::{Ask, Question, Said};
use crate::error::{Error, Result};
use crate::session::store::Store;
use crate::session::{Session, conversation};

/// A recorded conversation.
#[derive(Default)]
pub(crate) struct Conversation {
    /// Its sessions that came to an end, oldest first.
    sessions: Vec<Session>,
    /// Whether others came before them that are gone.
    incomplete: bool,
    /// The last one, if it was cut off before its end.
    pub(crate) cut_off: Option<Session>,
}

impl Conversation {
    /// The one that ends with this session: `last`, an id or its beginning, a file.
    pub(crate) fn load(config: &Config, which: &str) -> Result<Self> {
        let (mut sessions, whole) = conversation::load(&store(config)?, which)?;
        let cut_off = sessions.pop_if(|session| session.is_active());
        Ok(Self {
            sessions,
            incomplete: !whole,
            cut_off,
        })
    }

    /// The agent goes on from it, with another question. What was cut off stays so.
    pub(crate) fn recall(self, agent: &mut Agent, config: &Config) {
        if let Some(session) = &self.cut_off {
            let happened = happened(session).map_or(String::new(), |what| format!(": {what}"));
            config.screen.notice(&format!(
                "session {} was cut off{happened}; reagent -r {0} goes on with it",
                session.id()
            ));
        }
        agent.recall(self.sessions, self.incomplete);
    }

    /// The agent goes on with the session that was cut off. Somebody is asked about an action that was under
    /// way, if somebody can be; else it is done again only where it has no effect. Gives the exit code.
    pub(crate) fn go_on(self, agent: &mut Agent, config: &Config, ask: Option<Ask>) -> Result<u8> {
        let Some(session) = self.cut_off else {
            return Ok(0);
        };
        if !config.options.no_save {
            store(config)?.check(session.id())?;
        }
        agent.recall(self.sessions, self.incomplete);
        let again = again(&session, ask);
        if let Some(what) = happened(&session) {
            let does = if again {
                "done again"
            } else {
                "not done again"
            };
            config.screen.notice(&format!("{what}; it is {does}"));
        }
        match agent.resume(session, again) {
            Ok(_) => Ok(0),
            Err(error @ (Error::Config { .. } | Error::Write(_))) => Err(error),
            Err(error) => Ok(error.exit_code()),
        }
    }
}

fn store(config: &Config) -> Result<Store> {
    let store = config.store();
    store.ok_or_else(|| Error::config("there is no home folder"))
}

/// Whether an action that was under way is to be done again.
fn again(session: &Session, ask: Option<Ask>) -> bool {
    let (Some(pending), Some(what)) = (session.pending(), happened(session)) else {
        return true;
    };
    let Some(mut ask) = ask else {
        return !pending.effect;
    };
    let why = format!("{what}; `y` does it again, `n` tells the model so");
    let said = ask(&Question {
        tool: &pending.tool,
        call: &pending.call,
        why: &why,
        for_good: false,
    });
    matches!(said, Said::Yes | Said::Always)
}

/// What may have happened when a session was cut off.
fn happened(session: &Session) -> Option<String> {
    let pending = session.pending()?;
    Some(match pending.effect {
        true => format!(
            "`{}` may have happened before the program was stopped",
            pending.call
        ),
        false => format!(
            "`{}` was under way when the program was stopped",
            pending.call
        ),
    })
}
