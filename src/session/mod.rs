//! A session is one query from task to outcome: the list of its events, and those who watch it grow.
//!
//! It knows nothing of colours, models or tools. Trace, JSON lines, totals and replay are readers of
//! the list; the session itself only keeps it, in order.

pub mod audit;
pub(crate) mod clock;
pub mod conversation;
pub mod event;
pub mod listing;
pub mod log;
mod restored;
pub mod store;

use std::time::{Duration, Instant};

pub use clock::millis;
pub use restored::Pending;

use event::{Closed, End, Event, Fact, Message, SpanKind, Start, Status, Usage};

use crate::error::{Error, Result};

/// Somebody who watches a session: a printer, a file, a test.
pub trait Sink {
    /// Takes the next event. An error ends the query: what cannot be recorded is not done.
    fn see(&mut self, event: &Event) -> Result<()>;

    /// Why what happens is not on record any more, if so. Nothing with an effect runs then.
    fn trouble(&self) -> Option<&str> {
        None
    }
}

/// The watchers in the order they are told: those that keep the record before those that show it.
pub type Sinks = Vec<Box<dyn Sink>>;

/// The record of one query. It is started once, when made, and ended once, also after an error.
pub struct Session {
    id: String,
    events: Vec<Event>,
    sinks: Sinks,
    clock: Instant,
    step: Option<u32>,
    spans: u32,
    usage: Usage,
    ended: bool,
    /// Whether the person knows that it cannot be recorded.
    in_trouble: bool,
}

impl Session {
    /// Starts a session and tells the sinks so.
    pub fn start(start: Start, sinks: Sinks) -> Result<Self> {
        let mut session = Self {
            id: clock::id(),
            events: Vec::new(),
            sinks,
            clock: Instant::now(),
            step: None,
            spans: 0,
            usage: Usage::default(),
            ended: false,
            in_trouble: false,
        };
        session.record(Fact::Start(start))?;
        Ok(session)
    }

    /// The id: sortable by time, unique.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether it has not ended yet.
    pub fn is_active(&self) -> bool {
        !self.ended
    }

    /// When it began, RFC 3339 in UTC.
    pub fn started(&self) -> &str {
        self.events.first().map_or("", |event| &event.time)
    }

    /// How it came out, once it has ended.
    pub fn status(&self) -> Option<Status> {
        self.end_fact().map(|end| end.status)
    }

    /// From its start to its end, or to now.
    pub fn duration(&self) -> Duration {
        let ended = self.end_fact().map(|end| Duration::from_millis(end.ms));
        ended.unwrap_or_else(|| self.clock.elapsed())
    }

    fn end_fact(&self) -> Option<&End> {
        self.events.last().and_then(|event| match &event.fact {
            Fact::End(end) => Some(end),
            _ => None,
        })
    }

    /// The span under way, the innermost if one is within another: its kind and what it is about.
    pub fn current_span(&self) -> Option<(SpanKind, &str)> {
        let mut closed = Vec::new();
        self.events
            .iter()
            .rev()
            .find_map(|event| match &event.fact {
                Fact::Closed(span) => {
                    closed.push(span.id);
                    None
                }
                Fact::Opened { id, kind, title } if !closed.contains(id) => {
                    Some((*kind, title.as_str()))
                }
                _ => None,
            })
    }

    /// Everything that happened, oldest first, except the pieces of streamed text.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What the model was sent and sent, in order.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.events.iter().filter_map(|event| match &event.fact {
            Fact::Message(message) => Some(message),
            _ => None,
        })
    }

    /// The spans that have been closed, in the order of their closing.
    pub fn spans(&self) -> impl Iterator<Item = &Closed> {
        self.events.iter().filter_map(|event| match &event.fact {
            Fact::Closed(span) => Some(span),
            _ => None,
        })
    }

    fn start_fact(&self) -> Option<&Start> {
        self.events.iter().find_map(|event| match &event.fact {
            Fact::Start(start) => Some(start),
            _ => None,
        })
    }

    /// The question.
    pub fn query(&self) -> &str {
        self.start_fact().map_or("", |start| start.query.as_str())
    }

    /// The engine that it began with.
    pub fn engine(&self) -> &str {
        self.start_fact().map_or("", |start| start.engine.as_str())
    }

    /// The session that it goes on from, in a conversation.
    pub fn continues(&self) -> Option<&str> {
        self.start_fact()?.continues.as_deref()
    }

    /// The answer, if there is one.
    pub fn answer(&self) -> Option<&str> {
        self.events
            .iter()
            .rev()
            .find_map(|event| match &event.fact {
                Fact::Answer { text } => Some(text.as_str()),
                _ => None,
            })
    }

    /// What the model thought last, in the call that events belong to now.
    pub fn thought(&self) -> Option<&str> {
        let mut events = self.events.iter().rev();
        events.find_map(|event| match &event.fact {
            Fact::Thought { text } if event.step == self.step => Some(text.as_str()),
            _ => None,
        })
    }

    /// How many bytes of text it holds, about.
    pub fn size(&self) -> usize {
        let text = |event: &Event| match &event.fact {
            Fact::Message(message) => message.content.len(),
            Fact::Closed(span) => span.output.len() + span.title.len(),
            Fact::Thought { text } | Fact::Answer { text } | Fact::Observation { text, .. } => {
                text.len()
            }
            _ => 0,
        };
        self.events
            .iter()
            .map(|event| size_of::<Event>() + text(event))
            .sum()
    }

    /// The tokens of all closed spans.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Events from now on belong to this model call.
    pub fn set_step(&mut self, step: u32) {
        self.step = Some(step);
    }

    /// Adds a fact to the list, after every sink has taken it.
    pub fn record(&mut self, fact: Fact) -> Result<()> {
        if self.ended {
            return Err(Error::InactiveSession);
        }
        // Pieces of text come as they like, and are not kept: they have the time of what was before them.
        let (time, elapsed) = match (&fact, self.events.last()) {
            (Fact::Text { .. }, Some(before)) => (before.time.clone(), before.elapsed),
            _ => (clock::now(), millis(self.clock)),
        };
        let event = Event {
            time,
            elapsed,
            session: self.id.clone(),
            step: self.step,
            fact,
        };
        for sink in &mut self.sinks {
            sink.see(&event)?;
        }
        if let Fact::Closed(span) = &event.fact {
            self.usage += span.usage;
        }
        if !matches!(event.fact, Fact::Text { .. }) {
            self.events.push(event);
        }
        match self.trouble() {
            Some(why) if !self.in_trouble => {
                let text = format!("{why}; nothing with an effect runs");
                self.in_trouble = true;
                self.record(Fact::Notice { text })
            }
            _ => Ok(()),
        }
    }

    /// Why what happens is not on record any more, if so.
    pub fn trouble(&self) -> Option<&str> {
        self.sinks.iter().find_map(|sink| sink.trouble())
    }

    /// Runs `work` inside a new span: opened before, closed after, whatever the outcome.
    /// An error of `work` closes the span as failed and is passed on.
    pub fn span<T>(
        &mut self,
        kind: SpanKind,
        title: &str,
        work: impl FnOnce(&mut Span<'_>) -> Result<T>,
    ) -> Result<T> {
        self.spans += 1;
        let id = self.spans;
        self.record(Fact::Opened {
            id,
            kind,
            title: title.to_owned(),
        })?;
        let begun = Instant::now();
        let mut span = Span {
            session: self,
            kind,
            ok: true,
            output: String::new(),
            usage: Usage::default(),
        };
        let result = work(&mut span);
        if let Err(error) = &result {
            span.failed(error.to_string());
        }
        let Span {
            ok, output, usage, ..
        } = span;
        let ms = millis(begun);
        let closed = self.record(Fact::Closed(Closed {
            id,
            kind,
            title: title.to_owned(),
            ok,
            output,
            ms,
            usage,
        }));
        let value = result?;
        closed?;
        Ok(value)
    }

    /// An attempt within a span that came to nothing: a failed span of its own.
    fn attempt(&mut self, kind: SpanKind, title: &str, why: &str, after: Duration) -> Result<()> {
        self.spans += 1;
        let id = self.spans;
        let title = title.to_owned();
        self.record(Fact::Opened {
            id,
            kind,
            title: title.clone(),
        })?;
        self.record(Fact::Closed(Closed {
            id,
            kind,
            title,
            ok: false,
            output: why.to_owned(),
            ms: u64::try_from(after.as_millis()).unwrap_or(u64::MAX),
            usage: Usage::default(),
        }))
    }

    /// Ends the session and gives the sinks back. What the sinks say to the last event is the caller's to weigh.
    pub fn end(
        &mut self,
        status: Status,
        exit_code: u8,
        steps: u32,
        tool_calls: u32,
    ) -> (Result<()>, Sinks) {
        self.step = None;
        let told = self.record(Fact::End(End {
            status,
            exit_code,
            steps,
            tool_calls,
            usage: self.usage(),
            ms: millis(self.clock),
        }));
        self.ended = true;
        (told, std::mem::take(&mut self.sinks))
    }

    /// Shows the recorded events to another sink, in order. Nothing runs, nothing changes.
    pub fn replay(&self, sink: &mut dyn Sink) -> Result<()> {
        self.events.iter().try_for_each(|event| sink.see(event))
    }
}

/// What is handed to the work inside a span. Opening and closing are not its business.
pub struct Span<'a> {
    session: &'a mut Session,
    kind: SpanKind,
    ok: bool,
    output: String,
    usage: Usage,
}

impl Span<'_> {
    /// Sets what the work came to.
    pub fn output(&mut self, text: impl Into<String>) {
        self.output = text.into();
    }

    /// Marks the span as failed, for this reason, though the query goes on.
    pub fn failed(&mut self, why: impl Into<String>) {
        self.ok = false;
        self.output = why.into();
    }

    /// Sets the tokens that the work took.
    pub fn used(&mut self, usage: Usage) {
        self.usage = usage;
    }

    /// Records an attempt that came to nothing, after so long, while the work goes on.
    pub fn attempt(&mut self, title: &str, why: &str, after: Duration) -> Result<()> {
        self.session.attempt(self.kind, title, why, after)
    }

    /// Adds a fact while the span is open.
    pub fn record(&mut self, fact: Fact) -> Result<()> {
        self.session.record(fact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    struct Notes(Rc<RefCell<Vec<Fact>>>);

    impl Sink for Notes {
        fn see(&mut self, event: &Event) -> Result<()> {
            self.0.borrow_mut().push(event.fact.clone());
            Ok(())
        }
    }

    fn session() -> (Session, Rc<RefCell<Vec<Fact>>>) {
        let notes = Rc::new(RefCell::new(Vec::new()));
        let start = Start {
            query: "q".into(),
            model: "m".into(),
            engine: "react".into(),
            ttl: 3,
            ..Start::default()
        };
        (
            Session::start(start, vec![Box::new(Notes(notes.clone()))]).unwrap(),
            notes,
        )
    }

    #[test]
    fn a_failing_span_is_closed_as_failed_and_its_error_is_passed_on() {
        let (mut session, _) = session();
        let result: Result<()> =
            session.span(SpanKind::Tool, "t", |_| Err(Error::config("no such thing")));
        assert!(matches!(result, Err(Error::Config { .. })));
        let span = session.spans().next().unwrap();
        assert_eq!((span.ok, span.output.as_str()), (false, "no such thing"));
    }

    #[test]
    fn replaying_twice_shows_the_same_and_adds_nothing() {
        let (mut session, notes) = session();
        session
            .span(SpanKind::Llm, "m", |span| {
                span.output("Answer: 1");
                span.used(Usage {
                    input_tokens: Some(3),
                    output_tokens: None,
                });
                Ok(())
            })
            .unwrap();
        let seen = notes.borrow().clone();
        for _ in 0..2 {
            notes.borrow_mut().clear();
            session.replay(&mut Notes(notes.clone())).unwrap();
            assert_eq!(*notes.borrow(), seen);
        }
        assert_eq!(
            session.usage(),
            Usage {
                input_tokens: Some(3),
                output_tokens: None
            }
        );
    }

    #[test]
    fn the_current_span_is_the_innermost_that_is_open() {
        let (mut session, _) = session();
        assert_eq!(session.current_span(), None);
        session
            .span(SpanKind::Llm, "outer", |span| {
                span.attempt("try", "no", Duration::ZERO)?;
                assert_eq!(span.session.current_span(), Some((SpanKind::Llm, "outer")));
                span.session.span(SpanKind::Tool, "inner", |span| {
                    assert_eq!(span.session.current_span(), Some((SpanKind::Tool, "inner")));
                    Ok(())
                })
            })
            .unwrap();
        assert_eq!(session.current_span(), None);
    }

    #[test]
    fn an_ended_session_takes_no_more() {
        let (mut session, _) = session();
        let (told, sinks) = session.end(Status::Answered, 0, 1, 0);
        assert!(told.is_ok() && sinks.len() == 1 && !session.is_active());
        assert!(matches!(
            session.record(Fact::Notice {
                text: "late".into()
            }),
            Err(Error::InactiveSession)
        ));
    }

    #[test]
    fn a_record_round_trips_as_json() {
        let (mut session, _) = session();
        session
            .record(Fact::Message(Message::user("hello")))
            .unwrap();
        for event in session.events() {
            let line = serde_json::to_string(event).unwrap();
            assert_eq!(&serde_json::from_str::<Event>(&line).unwrap(), event);
        }
    }
}
