//! A session from its record: to be looked at, shown again, or gone on with.

use std::time::{Duration, Instant};

use serde_json::{Map, Value};

use super::event::{Closed, Event, Fact, Usage};
use super::{Session, Sinks};
use crate::error::Result;

/// An action of which nothing is known since it was decided upon.
#[derive(Debug, Clone, PartialEq)]
pub struct Pending {
    /// The tool's name.
    pub tool: String,
    /// The arguments by parameter name.
    pub args: Map<String, Value>,
    /// The call as one line of text.
    pub call: String,
    /// Whether it was allowed, and has an effect: it may have happened.
    pub effect: bool,
}

impl Session {
    /// A session as its record has it: nothing is told to anybody. It is active if its end is missing. No
    /// session comes of events that do not begin with a start.
    pub fn restored(events: Vec<Event>) -> Option<Self> {
        let first = events.first()?;
        // An id is the name of a file.
        let named = !first.session.is_empty() && !first.session.contains(['/', '.']);
        if !named || !matches!(first.fact, Fact::Start(_)) {
            return None;
        }
        let last = events.last()?;
        let elapsed = Duration::from_millis(last.elapsed);
        let opened = events.iter().filter_map(|event| match event.fact {
            Fact::Opened { id, .. } => Some(id),
            _ => None,
        });
        let mut usage = Usage::default();
        for event in &events {
            if let Fact::Closed(span) = &event.fact {
                usage += span.usage;
            }
        }
        Some(Self {
            usage,
            id: first.session.clone(),
            sinks: Sinks::new(),
            clock: Instant::now()
                .checked_sub(elapsed)
                .unwrap_or_else(Instant::now),
            step: last.step,
            spans: opened.max().unwrap_or(0),
            ended: events
                .iter()
                .any(|event| matches!(event.fact, Fact::End(_))),
            in_trouble: false,
            events,
        })
    }

    /// Whether the model has seen something from outside in it.
    pub fn is_tainted(&self) -> bool {
        let attached = self.start_fact().is_some_and(|start| start.attached);
        let read = |event: &Event| matches!(&event.fact, Fact::Verdict(said) if said.allowed && said.reads);
        attached || self.events.iter().any(read)
    }

    /// The action that was decided upon and of which nothing is known since.
    pub fn pending(&self) -> Option<Pending> {
        let mut pending: Option<Pending> = None;
        for event in &self.events {
            match &event.fact {
                Fact::Action { tool, args, call } => {
                    pending = Some(Pending {
                        tool: tool.clone(),
                        args: args.clone(),
                        call: call.clone(),
                        effect: false,
                    });
                }
                Fact::Verdict(said) => {
                    if let Some(pending) = &mut pending {
                        pending.effect = said.allowed && said.effect;
                    }
                }
                Fact::Observation { .. } | Fact::Malformed { .. } | Fact::Error { .. } => {
                    pending = None
                }
                _ => {}
            }
        }
        pending
    }

    /// A session that was cut off goes on, with these watching: spans that were open are closed as failed.
    pub fn resume(&mut self, sinks: Sinks) -> Result<()> {
        self.sinks = sinks;
        self.record(Fact::Resumed)?;
        let mut open: Vec<Closed> = Vec::new();
        for event in &self.events {
            match &event.fact {
                Fact::Opened { id, kind, title } => open.push(Closed {
                    id: *id,
                    kind: *kind,
                    title: title.clone(),
                    ok: false,
                    output: "cut off".to_owned(),
                    ms: 0,
                    usage: Usage::default(),
                }),
                Fact::Closed(span) => open.retain(|other| other.id != span.id),
                _ => {}
            }
        }
        open.into_iter()
            .rev()
            .try_for_each(|span| self.record(Fact::Closed(span)))
    }
}
