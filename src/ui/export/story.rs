//! The events of a session, folded into what a document tells: steps, spans and messages.

use crate::session::Session;
use crate::session::event::{Closed, Event, Fact, Message, SpanKind, Status, Usage, Verdict};

/// What is said where a session was gone on with.
const RESUMED: &str = "the session was broken off here, and gone on with later";

/// A session in the order of a document.
pub(super) struct Story<'a> {
    pub(super) id: &'a str,
    pub(super) query: &'a str,
    pub(super) model: &'a str,
    pub(super) engine: &'a str,
    /// How many model calls were allowed.
    pub(super) ttl: u32,
    /// The session that this one goes on from.
    pub(super) continues: Option<&'a str>,
    pub(super) started: &'a str,
    /// None while it has no end on record.
    pub(super) status: Option<Status>,
    pub(super) ms: u64,
    pub(super) usage: Usage,
    pub(super) tool_calls: usize,
    pub(super) answer: Option<&'a str>,
    /// Why there is no answer.
    pub(super) failure: Option<Failure<'a>>,
    /// The model calls, each with what came of it, and what was said before the first.
    pub(super) steps: Vec<Step<'a>>,
    /// In the order of their beginning.
    pub(super) spans: Vec<Span<'a>>,
    pub(super) talk: Vec<Said<'a>>,
}

/// How a session came to no answer.
#[derive(Clone, Copy)]
pub(super) struct Failure<'a> {
    pub(super) status: Status,
    pub(super) text: &'a str,
    pub(super) hint: Option<&'a str>,
}

/// What belongs to one model call.
pub(super) struct Step<'a> {
    /// None for what came before the first.
    pub(super) number: Option<u32>,
    pub(super) at: u64,
    pub(super) ms: u64,
    /// Of its model calls, with failed attempts.
    pub(super) model_ms: u64,
    pub(super) tool_ms: u64,
    pub(super) usage: Usage,
    pub(super) parts: Vec<Part<'a>>,
}

/// What a step consists of.
pub(super) enum Part<'a> {
    Thought(&'a str),
    Action {
        call: &'a str,
        verdict: Option<&'a Verdict>,
    },
    Observation {
        ok: bool,
        text: &'a str,
        ms: u64,
    },
    Malformed(&'a str),
    Notice(&'a str),
    Answer(&'a str),
    Failure(Failure<'a>),
    /// A span that failed, of those that nothing else tells of.
    Failed(&'a Closed),
}

/// A span with its place in time.
pub(super) struct Span<'a> {
    pub(super) id: u32,
    pub(super) kind: SpanKind,
    pub(super) title: &'a str,
    pub(super) step: Option<u32>,
    pub(super) at: u64,
    pub(super) ms: u64,
    /// None if it is open, or was broken off.
    pub(super) closed: Option<&'a Closed>,
}

impl Span<'_> {
    pub(super) fn has_failed(&self) -> bool {
        self.closed.is_some_and(|closed| !closed.ok)
    }
}

/// What was done to the conversation with the model.
pub(super) enum Said<'a> {
    Message(Option<u32>, &'a Message),
    Anew,
    Replaced(usize, &'a Message),
}

impl<'a> Story<'a> {
    pub(super) fn of(session: &'a Session) -> Self {
        let events = session.events();
        let mut story = Self {
            id: session.id(),
            query: "",
            model: "",
            engine: "",
            ttl: 0,
            continues: None,
            started: session.started(),
            status: session.status(),
            // Not what the clock says now: a document of an unfinished session is the same tomorrow.
            ms: events.last().map_or(0, |event| event.elapsed),
            usage: session.usage(),
            tool_calls: 0,
            answer: session.answer(),
            failure: None,
            steps: Vec::new(),
            spans: Vec::new(),
            talk: Vec::new(),
        };
        for event in events {
            story.take(event);
        }
        story.break_off(story.ms);
        story
    }

    /// How many model calls there were.
    pub(super) fn calls(&self) -> usize {
        let numbered = self.steps.iter().filter(|step| step.number.is_some());
        numbered.count()
    }

    /// One word.
    pub(super) fn status(&self) -> &'static str {
        self.status.map_or("unfinished", word)
    }

    /// What is open at this moment goes no further.
    fn break_off(&mut self, at: u64) {
        let open = self.spans.iter_mut();
        for span in open.filter(|span| span.closed.is_none() && span.ms == 0) {
            span.ms = at.saturating_sub(span.at);
        }
    }

    fn take(&mut self, event: &'a Event) {
        match &event.fact {
            Fact::Start(start) => {
                (self.query, self.model) = (&start.query, &start.model);
                (self.engine, self.ttl) = (&start.engine, start.ttl);
                self.continues = start.continues.as_deref();
                return;
            }
            Fact::End(end) => {
                self.ms = end.ms;
                self.tool_calls = usize::try_from(end.tool_calls).unwrap_or(usize::MAX);
                return;
            }
            Fact::Message(message) => self.talk.push(Said::Message(event.step, message)),
            Fact::Resumed => self.break_off(event.elapsed),
            Fact::Anew => self.talk.push(Said::Anew),
            Fact::Replaced { at, message } => self.talk.push(Said::Replaced(*at, message)),
            Fact::Opened { id, kind, title } => self.spans.push(Span {
                id: *id,
                kind: *kind,
                title,
                step: event.step,
                at: event.elapsed,
                ms: 0,
                closed: None,
            }),
            Fact::Closed(closed) => {
                let open = self.spans.iter_mut().rev();
                if let Some(span) = open.into_iter().find(|span| span.id == closed.id) {
                    // An attempt is put on record when it is over.
                    span.at = span.at.min(event.elapsed.saturating_sub(closed.ms));
                    span.ms = closed.ms;
                    span.closed = Some(closed);
                }
            }
            _ => {}
        }
        self.step(event);
    }

    /// Adds to the step that the event belongs to.
    fn step(&mut self, event: &'a Event) {
        let part = match &event.fact {
            Fact::Thought { text } => Some(Part::Thought(text)),
            Fact::Action { call, .. } => Some(Part::Action {
                call,
                verdict: None,
            }),
            Fact::Observation { ok, text, ms, .. } => Some(Part::Observation {
                ok: *ok,
                text,
                ms: *ms,
            }),
            Fact::Malformed { why } => Some(Part::Malformed(why)),
            Fact::Notice { text } => Some(Part::Notice(text)),
            Fact::Resumed => Some(Part::Notice(RESUMED)),
            Fact::Answer { text } => Some(Part::Answer(text)),
            Fact::Error { status, text, hint } => {
                let failure = Failure {
                    status: *status,
                    text,
                    hint: hint.as_deref(),
                };
                self.failure = Some(failure);
                Some(Part::Failure(failure))
            }
            Fact::Closed(span) if !span.ok => match span.kind {
                SpanKind::Llm | SpanKind::Memo => Some(Part::Failed(span)),
                _ => None,
            },
            _ => None,
        };
        if part.is_none() && event.step.is_none() {
            return;
        }
        if self
            .steps
            .last()
            .is_none_or(|last| last.number != event.step)
        {
            self.steps.push(Step {
                number: event.step,
                at: event.elapsed,
                ms: 0,
                model_ms: 0,
                tool_ms: 0,
                usage: Usage::default(),
                parts: Vec::new(),
            });
        }
        let Some(step) = self.steps.last_mut() else {
            return;
        };
        step.ms = event.elapsed.saturating_sub(step.at);
        match &event.fact {
            Fact::Closed(span) => {
                step.usage += span.usage;
                match span.kind {
                    SpanKind::Llm => step.model_ms += span.ms,
                    SpanKind::Tool => step.tool_ms += span.ms,
                    _ => {}
                }
            }
            Fact::Verdict(said) => {
                if let Some(Part::Action { verdict, .. }) = step.parts.last_mut() {
                    *verdict = Some(said);
                }
                if self.status.is_none() {
                    self.tool_calls += usize::from(said.allowed);
                }
            }
            _ => {}
        }
        step.parts.extend(part);
    }
}

/// What a status is called everywhere.
pub(super) fn word(status: Status) -> &'static str {
    match status {
        Status::Answered => "answered",
        Status::Failed => "failed",
        Status::Limit => "limit",
        Status::Denied => "denied",
        Status::Auth => "auth",
        Status::Unreachable => "unreachable",
        Status::Interrupted => "interrupted",
    }
}

/// What was said to an action, if it is worth a word: that it was not allowed, or that a person was asked.
pub(super) fn ruling(verdict: &Verdict) -> Option<String> {
    let why = verdict.why.as_deref();
    match (verdict.allowed, verdict.by.as_str()) {
        (true, "policy") => None,
        (true, by) => Some(format!("allowed by {by}")),
        (false, by) => Some(match why {
            Some(why) => format!("not allowed by {by}: {why}"),
            None => format!("not allowed by {by}"),
        }),
    }
}
