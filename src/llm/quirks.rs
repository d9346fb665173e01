//! What an endpoint does not take, found out from its refusals: one thing is changed and the request
//! sent again. What was learned holds for the conversation.

use std::borrow::Cow;

use crate::session::event::{Message, Role};

/// How requests to an endpoint differ from what its format says.
#[derive(Debug, Default, Clone)]
pub(crate) struct Quirks {
    pub(crate) no_stop: bool,
    pub(crate) no_temperature: bool,
    pub(crate) no_stream_options: bool,
    /// No schema is sent for the reply.
    pub(crate) no_schema: bool,
    /// The longest reply is called `max_completion_tokens`.
    pub(crate) completion_tokens: bool,
    /// The instructions go into the first question.
    pub(crate) fold_system: bool,
    /// Neighbouring turns of one role are put together.
    pub(crate) merge_roles: bool,
    /// Old observations are shortened.
    pub(crate) shorten: bool,
    renamed: bool,
}

impl Quirks {
    /// Learns from a refusal, if it is about something that can be changed and has not been changed
    /// yet. Gives what was changed, for the person.
    pub(crate) fn learn(&mut self, refusal: &str) -> Option<&'static str> {
        let said = refusal.to_lowercase();
        let any = |words: &[&str]| words.iter().any(|word| said.contains(word));
        let refused = any(&[
            "unsupported",
            "not support",
            "n't support",
            "unrecognized",
            "not permitted",
            "not allowed",
            "extra_forbidden",
            "unknown",
            "unexpected",
            "deprecated",
            "at most",
            "only the default",
        ]);
        let turn = |on: &mut bool, what| (!std::mem::replace(on, true)).then_some(what);
        if too_long(&said) {
            return turn(
                &mut self.shorten,
                "the conversation is too long: old observations are sent shortened",
            );
        }
        if any(&["must alternate", "roles must", "alternating"]) {
            self.fold_system = true;
            return turn(
                &mut self.merge_roles,
                "the endpoint wants questions and replies in turn: sent so",
            );
        }
        if any(&[
            "only user and assistant roles",
            "system role",
            "role 'system'",
            "role: system",
            "developer instruction",
            "\"system\" role",
        ]) {
            return turn(
                &mut self.fold_system,
                "the endpoint takes no instructions apart: sent with the question",
            );
        }
        if !refused {
            return None;
        }
        let sent = match self.completion_tokens {
            true => "max_completion_tokens",
            false => "max_tokens",
        };
        if names(&said, sent) {
            self.completion_tokens = !self.completion_tokens;
            return turn(
                &mut self.renamed,
                "the endpoint has another name for the longest reply: sent so",
            );
        }
        if names(&said, "stream_options") {
            return turn(
                &mut self.no_stream_options,
                "the endpoint takes no `stream_options`: sent without",
            );
        }
        if names(&said, "stop") || names(&said, "stop_sequences") || names(&said, "stopsequences") {
            return turn(
                &mut self.no_stop,
                "the endpoint takes no stop texts: replies are cut here",
            );
        }
        if [
            "response_format",
            "json_schema",
            "format",
            "responsemimetype",
        ]
        .iter()
        .any(|name| names(&said, name))
        {
            return turn(
                &mut self.no_schema,
                "the endpoint takes no schema for its replies: sent without",
            );
        }
        if names(&said, "temperature") {
            return turn(
                &mut self.no_temperature,
                "the endpoint takes no temperature: sent without",
            );
        }
        None
    }

    /// The messages as this endpoint takes them; `alternates` says that its format wants turns.
    pub(crate) fn shape<'a>(
        &self,
        messages: &'a [Message],
        alternates: bool,
    ) -> Cow<'a, [Message]> {
        // Results of calls belong to their calls, one by one.
        let neighbours = messages
            .windows(2)
            .any(|pair| pair[0].role == pair[1].role && pair[0].role != Role::Tool);
        let merge = neighbours && (alternates || self.merge_roles);
        let is_empty = |message: &Message| {
            message.content.trim().is_empty()
                && message.calls.is_empty()
                && message.answers.is_none()
        };
        let empty = messages.iter().any(is_empty);
        if !(merge || empty || self.fold_system || self.shorten) {
            return Cow::Borrowed(messages);
        }
        let last = messages.len().saturating_sub(1);
        let mut shaped: Vec<Message> = Vec::with_capacity(messages.len());
        let mut folded = String::new();
        for (at, message) in messages.iter().enumerate() {
            let mut message = message.clone();
            if is_empty(&message) {
                continue;
            }
            if self.fold_system && message.role == Role::System {
                folded += &message.content;
                folded += "\n\n";
                continue;
            }
            if message.role == Role::User && !folded.is_empty() {
                message.content = std::mem::take(&mut folded) + &message.content;
            } else if self.shorten && at != last {
                message = message.shortened().unwrap_or(message);
            }
            match shaped.last_mut() {
                Some(before)
                    if (alternates || self.merge_roles)
                        && before.role == message.role
                        && message.role != Role::Tool
                        && before.calls.is_empty()
                        && message.calls.is_empty() =>
                {
                    before.content += "\n\n";
                    before.content += &message.content;
                }
                _ => shaped.push(message),
            }
        }
        Cow::Owned(shaped)
    }
}

/// Whether a refusal says that the conversation is longer than the model can read.
pub(crate) fn too_long(said: &str) -> bool {
    [
        "context length",
        "context size",
        "context window",
        "context_length",
        "maximum context",
        "prompt is too long",
        "input is too long",
        "too many tokens",
        "reduce the length",
        "body too large",
        "entity too large",
        "exceeds the maximum number of tokens",
        "token count exceeds",
    ]
    .iter()
    .any(|words| said.contains(words))
}

/// Whether a text names a parameter: as a word of its own.
fn names(said: &str, name: &str) -> bool {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    said.match_indices(name)
        .any(|(at, _)| !said[..at].ends_with(part) && !said[at + name.len()..].starts_with(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_changes_one_thing_once() {
        for (refusal, changed) in [
            (
                "Unsupported parameter: 'stop' is not supported with this model.",
                true,
            ),
            ("Argument not supported on this model: stop", true),
            (
                "stop: List should have at most 4 items after validation, not 6",
                true,
            ),
            (
                "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is supported.",
                true,
            ),
            (
                "'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
                true,
            ),
            (
                "Conversation roles must alternate user/assistant/user/assistant/...",
                true,
            ),
            ("Only user and assistant roles are supported!", true),
            ("This request exceeds the context size limit.", true),
            ("the model is not supported, stopped", false),
            ("no such thing", false),
        ] {
            let mut quirks = Quirks::default();
            assert_eq!(quirks.learn(refusal).is_some(), changed, "{refusal}");
            assert!(quirks.learn(refusal).is_none(), "twice: {refusal}");
        }
    }

    #[test]
    fn messages_are_shaped_as_an_endpoint_wants_them() {
        let messages = [
            Message::system("be kind"),
            Message::user("q"),
            Message::assistant("  "),
            Message::user(format!("Observation1: {}", "x".repeat(900))),
            Message::assistant("a"),
            Message::user(format!("Observation2: {}", "y".repeat(900))),
        ];
        let quirks = Quirks {
            fold_system: true,
            merge_roles: true,
            shorten: true,
            ..Quirks::default()
        };
        let shaped = quirks.shape(&messages, false);
        let roles: Vec<Role> = shaped.iter().map(|message| message.role).collect();
        assert_eq!(roles, [Role::User, Role::Assistant, Role::User]);
        assert!(
            shaped[0]
                .content
                .starts_with("be kind\n\nq\n\nObservation1: xxx")
        );
        assert!(shaped[0].content.ends_with("more bytes were here]"));
        assert!(shaped[2].content.len() > 900, "the last one is whole");
        assert!(matches!(
            Quirks::default().shape(&messages[..2], true),
            Cow::Borrowed(_)
        ));
    }
}
