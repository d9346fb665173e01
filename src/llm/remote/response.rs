//! What a response comes to: a reply that is whole, or the reason why there is none.

use std::io::{BufRead, BufReader, Read};
use std::ops::ControlFlow;

use serde_json::Value;

use super::Remote;
use crate::error::Class;
use crate::interrupt;
use crate::json;
use crate::llm::draft::{self, Draft, TEXT_LIMIT, written_out};
use crate::llm::http::{BODY_LIMIT, Response, Trouble};
use crate::llm::wire::{Framing, Wire, sse};
use crate::llm::{Finish, Listener, Reply};
use crate::secret;

/// How much a stream may hold in all; it is read in pieces.
const STREAM_LIMIT: u64 = 64 << 20;

impl Remote {
    /// Reads a response, whatever its form: whole, or streamed.
    pub(super) fn read(
        &self,
        response: Response,
        native: bool,
        listener: &mut dyn Listener,
    ) -> std::result::Result<Reply, Trouble> {
        let (kind, page) = (response.kind.clone(), response.is_page());
        let mut reader = BufReader::new(response.reader(STREAM_LIMIT));
        let head = reader
            .fill_buf()
            .map_err(|error| self.client.broken(error))?;
        let start = head.trim_ascii_start();
        let events = kind.contains("event-stream")
            || ["data:", "event:", ":", "id:"]
                .iter()
                .any(|field| start.starts_with(field.as_bytes()));
        let draft = if events {
            self.streamed(reader, Framing::Events, listener)?
        } else if kind.contains("ndjson")
            || self.options.stream && self.endpoint.wire.framing() == Framing::Lines
        {
            self.streamed(reader, Framing::Lines, listener)?
        } else {
            self.whole(reader, page, listener)?
        };
        let unheard = draft.text.trim().is_empty();
        let reply = self.reply(draft, native)?;
        if unheard {
            let _ = listener.hear(&reply.text);
        }
        Ok(reply)
    }

    fn whole(
        &self,
        reader: impl BufRead,
        page: bool,
        listener: &mut dyn Listener,
    ) -> std::result::Result<Draft, Trouble> {
        let mut bytes = Vec::new();
        let read = reader.take(BODY_LIMIT + 1).read_to_end(&mut bytes);
        read.map_err(|error| self.client.broken(error))?;
        if bytes.len() as u64 > BODY_LIMIT {
            return Err(self
                .client
                .trouble(
                    Class::Decode,
                    format!("the reply is larger than {BODY_LIMIT} bytes"),
                )
                .last());
        }
        let body = json::parse(&bytes).map_err(|why| match page {
            true => self
                .client
                .trouble(Class::Decode, "a web page came instead of a reply")
                .hint("the base URL of an API often ends in /v1")
                .last(),
            false => self
                .client
                .trouble(Class::Decode, format!("the reply is not JSON: {why}")),
        })?;
        let mut draft = Draft::default();
        let said = self.endpoint.wire.whole(&body);
        if let Some(trouble) = self.hidden(&body, said.known) {
            return Err(trouble);
        }
        draft.add(said);
        if !draft.over {
            return Err(self.client.trouble(Class::Decode, "the reply is not whole"));
        }
        draft.text = secret::scrub(&draft.text).into_owned();
        if draft.text.len() > TEXT_LIMIT {
            draft
                .text
                .truncate(draft.text.floor_char_boundary(TEXT_LIMIT));
            draft.reason = Some("length".to_owned());
        }
        let _ = listener.hear(&draft.text);
        Ok(draft)
    }

    fn streamed(
        &self,
        reader: impl BufRead,
        framing: Framing,
        listener: &mut dyn Listener,
    ) -> std::result::Result<Draft, Trouble> {
        let wire = self.endpoint.wire;
        let mut draft = Draft::default();
        let ended = |draft: &Draft| draft.over || draft.reason.is_some() && wire.ends_by_reason();
        let (mut done, mut heard) = (false, 0);
        let mut trouble = None;
        let take = |data: &str| {
            // Read on to the end of the body: a connection with a rest in it cannot be used again.
            if done || data.trim() == "[DONE]" {
                done = true;
                self.client.enough.say();
                return ControlFlow::Continue(());
            }
            let Ok(piece) = json::parse(data.as_bytes()) else {
                let what = "a piece of the stream is not JSON";
                trouble = Some(self.client.trouble(Class::Decode, what));
                return ControlFlow::Break(());
            };
            let said = wire.piece(&piece);
            trouble = self.hidden(&piece, said.known);
            if trouble.is_some() {
                return ControlFlow::Break(());
            }
            draft.add(said);
            done |= draft.over;
            if ended(&draft) {
                self.client.enough.say();
            }
            if draft.text.len() > TEXT_LIMIT {
                draft.reason = Some("length".to_owned());
                done = true;
                return ControlFlow::Break(());
            }
            // What may be the beginning of the key waits for what comes after it.
            let sure = draft.text.len() - secret::begun(&draft.text);
            if sure <= heard {
                return ControlFlow::Continue(());
            }
            let wanted = listener.hear(&secret::scrub(&draft.text[heard..sure]));
            heard = sure;
            done |= wanted.is_break();
            wanted
        };
        let read = match framing {
            Framing::Events => sse::events(reader, take),
            Framing::Lines => sse::lines(reader, take),
        };
        let whole = done || ended(&draft);
        match (trouble, read) {
            (Some(trouble), _) => return Err(trouble),
            (None, Err(error)) if !whole => return Err(self.client.broken(error)),
            (None, Ok(())) if !whole => {
                return Err(self
                    .client
                    .trouble(Class::Decode, "the stream broke off before its end"));
            }
            _ => {}
        }
        if !done && interrupt::reason().is_some() {
            return Err(Trouble::interrupted());
        }
        let _ = listener.hear(&secret::scrub(&draft.text[heard..]));
        draft.text = secret::scrub(&draft.text).into_owned();
        Ok(draft)
    }

    /// A failure that the server wrote into a good response.
    fn hidden(&self, body: &Value, known: bool) -> Option<Trouble> {
        let empty = |error: &&Value| {
            matches!(error, Value::Null | Value::Bool(false) | Value::Number(_)) || **error == ""
        };
        let body = match body {
            Value::Array(items) => items.first()?,
            body => body,
        };
        if let Some(error) = body.get("error").filter(|error| !empty(error)) {
            let message =
                json::error_text(error).unwrap_or_else(|| json::excerpt(&error.to_string()));
            let code = &error["code"];
            let status = code.as_u64().or_else(|| code.as_str()?.parse().ok());
            let status = status
                .and_then(|status| status.try_into().ok())
                .filter(|status| (400..600).contains(status));
            let kind = error["type"].as_str().unwrap_or_default();
            let refused = [
                "invalid_request",
                "not_found",
                "authentication",
                "permission",
            ]
            .iter()
            .any(|word| kind.contains(word));
            return Some(self.client.rejected(
                status.unwrap_or(if refused { 400 } else { 500 }),
                message,
                body.to_string(),
                None,
            ));
        }
        let said = || {
            json::error_text(body).map(|said| self.client.trouble(Class::BadRequest, said).last())
        };
        if known { None } else { said() }
    }

    /// What a reply that is whole comes to.
    fn reply(&self, mut draft: Draft, native: bool) -> std::result::Result<Reply, Trouble> {
        for call in &mut draft.calls {
            // What is in them goes to tools, and some of those send it on.
            call.name = secret::scrub(&call.name).into_owned();
            call.args = secret::scrub(&call.args).into_owned();
        }
        let calls = match native {
            true => draft::calls(std::mem::take(&mut draft.calls)),
            false => Vec::new(),
        };
        let reason = draft.reason.as_deref().unwrap_or_default();
        let lower = reason.to_lowercase();
        let because = draft.because.as_deref().map_or(String::new(), |because| {
            format!(": {}", json::excerpt(because))
        });
        let told = |class, message: String| Err(self.client.trouble(class, message).last());
        match lower.as_str() {
            "refusal" => {
                return told(
                    Class::Refusal,
                    format!("the model refuses to answer{because}"),
                );
            }
            "content_filter" | "sensitive" | "safety" | "recitation" | "blocklist"
            | "prohibited_content" | "spii" | "image_safety" => {
                return told(
                    Class::Blocked,
                    format!("the reply was withheld ({reason}){because}"),
                );
            }
            "network_error" | "error" | "insufficient_system_resource" => {
                return Err(self.client.trouble(
                    Class::Server,
                    format!("the reply broke off ({reason}){because}"),
                ));
            }
            _ => {}
        }
        let finish = draft
            .reason
            .as_deref()
            .map_or(Finish::Other, Finish::from_reason);
        let mut text = draft.text;
        if text.trim().is_empty() && calls.is_empty() {
            if !draft.refusal.is_empty() {
                return told(
                    Class::Refusal,
                    format!("the model refuses: {}", json::excerpt(&draft.refusal)),
                );
            }
            if let Some(call) = draft.calls.iter().find(|call| !call.name.is_empty()) {
                text = written_out(call);
            } else if lower.contains("block")
                || lower == "other" && self.endpoint.wire == Wire::Gemini
            {
                return told(
                    Class::Blocked,
                    format!("the reply was withheld ({reason}){because}"),
                );
            } else if finish == Finish::Length {
                let hint = "allow a longer reply with --max-tokens 8192";
                let what = "the longest reply was reached before there was any text of it";
                return Err(self.client.trouble(Class::Length, what).hint(hint).last());
            } else {
                let what = match (draft.reasoned, reason) {
                    (true, _) => "the reply holds reasoning only".to_owned(),
                    (false, "") => "the reply is empty".to_owned(),
                    (false, reason) => format!("the reply is empty ({reason}){because}"),
                };
                return Err(self.client.trouble(Class::Empty, what));
            }
        }
        Ok(Reply {
            text,
            calls,
            usage: draft.usage,
            finish,
        })
    }
}
