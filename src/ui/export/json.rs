//! The session as one JSON object, for programs.
//!
//! ```text
//! {"session":"ID","query":"…","model":"…","engine":"react","status":"answered","started":"…","ms":9492,
//!  "steps":7,"tool_calls":6,"input_tokens":700,"output_tokens":156,"events":[
//! {"time":"…","elapsed":0,"session":"ID","type":"start",…},
//! …
//! ]}
//! ```
//!
//! `events` has every [`Event`](crate::session::event::Event) of the record, whole, one a line; `status` is
//! null if there is no end among them; tokens that nobody told are null.

use serde_json::json;

use super::story::Story;
use crate::secret::scrub;
use crate::session::Session;
use crate::ui::text::json_line;

/// The document.
pub(super) fn document(session: &Session, story: &Story<'_>) -> String {
    let head = json!({
        "session": story.id,
        "query": story.query,
        "model": story.model,
        "engine": story.engine,
        "status": story.status,
        "started": story.started,
        "ms": story.ms,
        "steps": story.calls(),
        "tool_calls": story.tool_calls,
        "input_tokens": story.usage.input_tokens,
        "output_tokens": story.usage.output_tokens,
    });
    let head = scrub(&head.to_string()).into_owned();
    let mut out = json_line(&format!("{},\"events\":[", head.trim_end_matches('}')));
    let events = session.events();
    for (number, event) in events.iter().enumerate() {
        // Plain data of texts and numbers always has a form in JSON.
        let line = serde_json::to_string(event).unwrap_or_else(|_| "null".to_owned());
        let comma = if number + 1 < events.len() { "," } else { "" };
        out += &json_line(&format!("{}{comma}", scrub(&line)));
    }
    out += "]}\n";
    out
}
