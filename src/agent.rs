//! An agent is given questions. It keeps the sessions of a conversation, one for each question.

mod builder;

use std::mem;

pub use builder::Builder;

use crate::engine::limits::Tally;
use crate::engine::state::State;
use crate::engine::transcript::Transcript;
use crate::engine::{Answer, Engine, Run, Step};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::llm::Llm;
use crate::session::event::{Fact, Message, Role, SpanKind, Start, Status};
use crate::session::{Session, Sinks};

/// How many sessions are kept, unless somebody wants it otherwise.
const SESSIONS: usize = 100;
/// How many bytes of text the sessions that are kept may hold; the last one is kept in any case.
const SESSIONS_SIZE: usize = 4 << 20;
/// How many earlier questions and answers the model sees.
const MEMORY: usize = 20;
/// How many bytes they may have together; the latest come first.
const MEMORY_SIZE: usize = 64 << 10;

/// An agent: an engine, those who watch, and the conversation so far.
pub struct Agent {
    engine: Box<dyn Engine>,
    sinks: Sinks,
    sessions: Vec<Session>,
    /// How many of them are kept, at least one.
    kept: usize,
    current: Option<Run>,
    /// The state that the last run ended with.
    state: State,
    /// Sessions before this one are forgotten.
    remembered_from: usize,
    /// Whether something from outside went into one that is not.
    tainted: bool,
}

/// A question with what belongs to it.
#[derive(Debug, Clone, Default)]
pub struct Task {
    /// The question as the person put it.
    pub query: String,
    /// What the model is given with it: files, piped data.
    pub attachments: String,
    /// What the run's state begins with.
    pub state: State,
}

impl From<&str> for Task {
    fn from(query: &str) -> Self {
        query.to_owned().into()
    }
}

impl From<String> for Task {
    fn from(query: String) -> Self {
        Self {
            query,
            ..Self::default()
        }
    }
}

impl Agent {
    /// An agent that asks this model, in the making: [`Builder`] has its tools, its way of reasoning, its
    /// policy and its limits. Nothing is asked before the first question.
    pub fn builder(llm: impl Llm + 'static) -> Builder {
        Builder::new(Box::new(llm))
    }

    /// An agent with an engine of the caller's own, and without a conversation yet.
    pub fn new(engine: Box<dyn Engine>, sinks: Sinks) -> Self {
        Self {
            engine,
            sinks,
            sessions: Vec::new(),
            kept: SESSIONS,
            current: None,
            state: State::default(),
            remembered_from: 0,
            tainted: false,
        }
    }

    /// Another engine from the next question on; the conversation stays.
    pub fn set_engine(&mut self, engine: Box<dyn Engine>) {
        self.engine = engine;
    }

    /// The model that its engine asks.
    pub fn model(&self) -> &str {
        self.engine.model()
    }

    /// What its engine is called.
    pub fn engine(&self) -> &str {
        self.engine.name()
    }

    /// The sessions so far, oldest first.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The session under way, else the last one.
    pub fn session(&self) -> Option<&Session> {
        self.current
            .as_ref()
            .map(|run| &run.session)
            .or(self.sessions.last())
    }

    /// The state of the run under way, else what the last one ended with.
    pub fn state(&self) -> &State {
        self.current.as_ref().map_or(&self.state, |run| &run.state)
    }

    /// Whether a question is being worked on.
    pub fn is_running(&self) -> bool {
        self.current.is_some()
    }

    /// The model sees nothing of the questions so far from now on.
    pub fn forget(&mut self) {
        self.remembered_from = self.sessions.len();
        self.tainted = false;
    }

    /// Answers one question: [`Agent::start`], and [`Agent::step`] until there is an answer.
    pub fn run(&mut self, task: impl Into<Task>) -> Result<Answer> {
        let _working = interrupt::working();
        self.start(task)?;
        self.finish()
    }

    /// Takes steps of the question under way until there is an answer.
    pub fn finish(&mut self) -> Result<Answer> {
        loop {
            if let Step::Finished(answer) = self.step()? {
                return Ok(answer);
            }
        }
    }

    /// The last question is forgotten, as if it had not been asked; its record stays. Gives it.
    pub fn undo(&mut self) -> Option<String> {
        if self.sessions.len() <= self.remembered_from {
            return None;
        }
        let session = self.sessions.pop()?;
        Some(session.query().to_owned())
    }

    /// Others watch from the next question on.
    pub fn set_sinks(&mut self, sinks: Sinks) {
        self.sinks = sinks;
    }

    /// The conversation goes on from these sessions, oldest first, in the place of those it has. `tainted` says
    /// that others came before them, of which it is not known whether the model read something from outside.
    pub fn recall(&mut self, sessions: Vec<Session>, tainted: bool) {
        self.tainted = tainted || sessions.iter().any(Session::is_tainted);
        self.sessions = sessions;
        self.remembered_from = 0;
    }

    /// Goes on with a session that was cut off, to its answer. An action that was under way is done
    /// `again`, or else the model is told that it may have happened.
    pub fn resume(&mut self, mut session: Session, again: bool) -> Result<Answer> {
        let _working = interrupt::working();
        if !session.is_active() {
            return Err(Error::InactiveSession);
        }
        let asked = session
            .messages()
            .any(|message| message.role == Role::User && message.content.contains(session.query()));
        if !asked {
            let what = "the session was cut off before the question was put: ask it again";
            return Err(Error::config(what));
        }
        session.resume(mem::take(&mut self.sinks))?;
        let mut run = Run {
            transcript: Transcript::of(&session),
            state: State::of(&session),
            tally: Tally::of(&session),
            tainted: self.tainted || session.is_tainted(),
            session,
        };
        let step = match run.session.answer() {
            // Only its end was missing.
            Some(text) => Ok(Step::Finished(Answer {
                text: text.to_owned(),
                truncated: false,
                unformatted: false,
            })),
            None => self.engine.resume(&mut run, again),
        };
        self.current = Some(run);
        match self.came_to(step)? {
            Step::Finished(answer) => Ok(answer),
            Step::Continue(_) => self.finish(),
        }
    }

    /// Takes up a question: its session is open from here on. One that was under way is ended first.
    pub fn start(&mut self, task: impl Into<Task>) -> Result<()> {
        let task = task.into();
        if task.query.trim().is_empty() {
            return Err(Error::EmptyTask);
        }
        if let Some(run) = self.current.take() {
            self.end(run, Status::Interrupted, 130)?;
        }
        let start = Start {
            query: task.query.clone(),
            model: self.engine.model().to_owned(),
            engine: self.engine.name().to_owned(),
            ttl: self.engine.ttl(),
            attached: !task.attachments.is_empty(),
            continues: self
                .remembered()
                .last()
                .map(|session| session.id().to_owned()),
        };
        let session = Session::start(start, mem::take(&mut self.sinks))?;
        let mut run = Run {
            session,
            transcript: Transcript::default(),
            state: task.state.clone(),
            tally: Tally::default(),
            tainted: self.tainted || !task.attachments.is_empty(),
        };
        let opened = self.open(&task, &mut run);
        self.current = Some(run);
        opened.or_else(|error| self.fail(error).map(|_| ()))
    }

    /// Takes one step of the question under way. The last one ends its session, also with an error.
    pub fn step(&mut self) -> Result<Step> {
        let Some(run) = &mut self.current else {
            return Err(Error::InactiveSession);
        };
        let step = self.engine.step(run);
        self.came_to(step)
    }

    /// Ends the session if the step was the last one.
    fn came_to(&mut self, step: Result<Step>) -> Result<Step> {
        match step {
            Ok(Step::Continue(result)) => Ok(Step::Continue(result)),
            Ok(Step::Finished(answer)) => {
                if let Some(run) = self.current.take() {
                    self.end(run, Status::Answered, 0)?;
                }
                Ok(Step::Finished(answer))
            }
            Err(error) => self.fail(error),
        }
    }

    /// Everything the model sees before its first step.
    fn open(&self, task: &Task, run: &mut Run) -> Result<()> {
        let Run {
            session,
            transcript,
            ..
        } = run;
        session.span(SpanKind::Input, &task.query, |span| {
            span.output(task.query.as_str());
            Ok(())
        })?;
        transcript.say(session, Message::system(self.engine.instructions()))?;
        let mut size = 0;
        let mut earlier: Vec<(&str, &str)> = self
            .remembered()
            .rev()
            .filter_map(|session| Some((session.query(), session.answer()?)))
            .take(MEMORY)
            .take_while(|(query, answer)| {
                size += query.len() + answer.len();
                size <= MEMORY_SIZE
            })
            .collect();
        earlier.reverse();
        if !earlier.is_empty() {
            let title = format!("{} earlier in this conversation", earlier.len());
            session.span(SpanKind::Memo, &title, |span| {
                span.output(
                    earlier
                        .iter()
                        .map(|(query, _)| *query)
                        .collect::<Vec<_>>()
                        .join("\n"),
                );
                Ok(())
            })?;
            for (query, answer) in earlier {
                transcript.say(session, Message::user(self.engine.pose(query)))?;
                transcript.say(session, Message::assistant(self.engine.recall(answer)))?;
            }
        }
        let question = match task.attachments.is_empty() {
            true => task.query.clone(),
            false => format!("{}\n\n{}", task.query, task.attachments),
        };
        transcript.say(session, Message::user(self.engine.pose(&question)))
    }

    fn remembered(&self) -> impl DoubleEndedIterator<Item = &Session> {
        self.sessions.iter().skip(self.remembered_from)
    }

    /// Ends the question under way with an error, which is on record before it is passed on.
    fn fail(&mut self, mut error: Error) -> Result<Step> {
        if let Some(mut run) = self.current.take() {
            if let (Status::Failed | Status::Limit, Some(why)) =
                (error.status(), run.tally.unapproved.take())
            {
                error = Error::PolicyViolation(format!("{why}; {error}"));
            }
            let status = error.status();
            let told = match error.is_closed_pipe() {
                // There is nobody left to tell.
                true => Ok(()),
                false => give_up(&error, &mut run.session),
            };
            let ended = self.end(run, status, error.exit_code());
            if let (false, Err(worse)) = (error.is_closed_pipe(), told.and(ended)) {
                return Err(worse);
            }
        }
        Err(error)
    }

    fn end(&mut self, mut run: Run, status: Status, exit_code: u8) -> Result<()> {
        let Tally {
            steps, tool_calls, ..
        } = run.tally;
        self.tainted |= run.tainted;
        let (told, sinks) = run.session.end(status, exit_code, steps, tool_calls);
        self.sinks = sinks;
        self.state = run.state;
        self.sessions.push(run.session);
        let size = |sessions: &[Session]| sessions.iter().map(Session::size).sum::<usize>();
        while self.sessions.len() > 1
            && (self.sessions.len() > self.kept || size(&self.sessions) > SESSIONS_SIZE)
        {
            self.sessions.remove(0);
            self.remembered_from = self.remembered_from.saturating_sub(1);
        }
        told
    }
}

/// Puts an end without an answer on record.
fn give_up(error: &Error, session: &mut Session) -> Result<()> {
    let status = error.status();
    let answered = session
        .spans()
        .last()
        .is_some_and(|span| span.kind == SpanKind::Answer);
    // The loop gave up: that is its answer. Other errors have failed a span of their own already.
    if matches!(status, Status::Failed | Status::Limit) && !answered {
        session.span(SpanKind::Answer, "failure", |span| {
            span.failed(error.to_string());
            Ok(())
        })?;
    }
    session.record(Fact::Error {
        status,
        text: error.to_string(),
        hint: error.hint(),
    })
}
