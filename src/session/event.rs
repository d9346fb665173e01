//! The facts that a session is made of: plain data in the past tense, without behaviour.
//!
//! Trace, tree, JSON lines, totals and replay all read this one list.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One fact, with the moment and the session it belongs to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When it happened, RFC 3339 in UTC, to the millisecond.
    pub time: String,
    /// Milliseconds since the session began, by a clock that cannot be set.
    pub elapsed: u64,
    /// The session's id.
    pub session: String,
    /// The number of the model call it belongs to; none before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
    /// What happened.
    #[serde(flatten)]
    pub fact: Fact,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Fact {
    /// The session began.
    Start(Start),
    /// A span was opened.
    Opened {
        /// Counted from 1 in each session.
        id: u32,
        /// What kind of work.
        kind: SpanKind,
        /// What about: the question, the model, the call.
        title: String,
    },
    /// A span was closed, whatever its outcome.
    Closed(Closed),
    /// A message joined what the model sees. Folding these rebuilds the transcript exactly.
    Message(Message),
    /// What the model sees begins anew: the messages before this count no more.
    Anew,
    /// A message of those that the model sees is another one from here on: it was shortened.
    Replaced {
        /// Which one, counted from 0 since they last began anew.
        at: usize,
        /// What stands there now.
        message: Message,
    },
    /// Text that surely belongs to the thought or the answer, while it streams.
    /// It is for the eye: sinks see it, the session's list does not keep it.
    Text {
        /// Which of the two.
        part: Part,
        /// The next piece.
        text: String,
    },
    /// What the model thought.
    Thought {
        /// Without its marker.
        text: String,
    },
    /// The model decided to act. Recorded before anything is run.
    Action {
        /// The tool's name.
        tool: String,
        /// The arguments by parameter name.
        args: Map<String, Value>,
        /// The call as one line of text.
        call: String,
    },
    /// What was said to the action. Recorded before anything is run.
    Verdict(Verdict),
    /// What the action came to.
    Observation {
        /// The tool's name.
        tool: String,
        /// Whether the tool succeeded.
        ok: bool,
        /// What the model is shown.
        text: String,
        /// How long the tool took, in milliseconds.
        ms: u64,
    },
    /// An answer that the policy did not let pass. What the model is told about it follows.
    Withheld {
        /// The answer.
        text: String,
        /// Why not.
        why: String,
    },
    /// A reply that could not be used.
    Malformed {
        /// What was wrong with it, in the words that the model is told.
        why: String,
    },
    /// The session was cut off before this, and goes on.
    Resumed,
    /// The person took a hand in it.
    Intervened {
        /// What they did: `another action`, `another thought`, `skipped`, `answered for the tool`, `another
        /// observation`, `stopped`.
        what: String,
        /// The other action, thought, reason or result.
        text: String,
    },
    /// Something the person should know.
    Notice {
        /// One line.
        text: String,
    },
    /// The answer.
    Answer {
        /// Without its marker.
        text: String,
    },
    /// The query ended without an answer.
    Error {
        /// How the session will end.
        status: Status,
        /// What went wrong.
        text: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The session ended.
    End(End),
}

/// What was said to an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Whether it may run.
    pub allowed: bool,
    /// Who said so: `policy` or `person`.
    pub by: String,
    /// Why not, if it may not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether running it has an effect outside, or one that lasts.
    pub effect: bool,
    /// Whether its result comes from outside.
    #[serde(default)]
    pub reads: bool,
}

/// How a session begins.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The question as the person put it.
    pub query: String,
    /// The model, as `provider/name` or the name alone.
    pub model: String,
    /// The engine.
    pub engine: String,
    /// How many model calls are allowed.
    pub ttl: u32,
    /// Whether the model was given files or piped data with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub attached: bool,
    /// The session that this one goes on from, in a conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continues: Option<String>,
}

/// How a span ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Closed {
    /// The id it was opened with.
    pub id: u32,
    /// What kind of work.
    pub kind: SpanKind,
    /// What about.
    pub title: String,
    /// Whether the work succeeded.
    pub ok: bool,
    /// What it came to, or the error's text if it failed.
    pub output: String,
    /// How long it took, in milliseconds, by a clock that cannot be set.
    pub ms: u64,
    /// Tokens, where the work was a model call and the endpoint said so.
    pub usage: Usage,
}

/// How a session ends.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// How it came out.
    pub status: Status,
    /// The exit code that says the same.
    pub exit_code: u8,
    /// Model calls.
    pub steps: u32,
    /// Actions that were run.
    pub tool_calls: u32,
    /// Tokens of all model calls together.
    #[serde(flatten)]
    pub usage: Usage,
    /// From start to end, in milliseconds.
    pub ms: u64,
}

/// The kinds of span, after Regent's span types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum SpanKind {
    /// Receiving the question.
    Input,
    /// Asking the model.
    Llm,
    /// Running a tool.
    Tool,
    /// Recalling or storing something.
    Memo,
    /// Giving the answer, or failing to.
    Answer,
}

impl SpanKind {
    /// The label of the kind, as in Regent's log.
    pub fn label(self) -> &'static str {
        match self {
            Self::Input => "INPUT",
            Self::Llm => "LLM",
            Self::Tool => "TOOL",
            Self::Memo => "MEMO",
            Self::Answer => "ANSWER",
        }
    }
}

/// The two parts of a reply that a person may watch while it streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// What comes before the first marker of an action or an answer.
    Thought,
    /// What comes after the marker of the answer.
    Answer,
}

/// How a session came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// There is an answer.
    Answered,
    /// Bad replies, a stall, or a record that could not be written.
    Failed,
    /// A limit was reached first.
    Limit,
    /// Approval was needed and could not be had.
    Denied,
    /// The endpoint rejected the key.
    Auth,
    /// The endpoint could not be reached, kept failing, or refused.
    Unreachable,
    /// The person stopped it.
    Interrupted,
}

/// One message of the conversation with the model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who speaks.
    pub role: Role,
    /// What is said.
    pub content: String,
    /// The calls that the model asks for in its endpoint's own form, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// For the result of such a call: which one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answers: Option<Answered>,
}

/// A call in an endpoint's own form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// What its result is matched by.
    pub id: String,
    /// The tool, by the name that the endpoint was given.
    pub name: String,
    /// The arguments as the model wrote them; they are meant to be a JSON object.
    pub args: String,
}

/// The call that a result belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answered {
    /// The call's id.
    pub id: String,
    /// The tool, by the name that the endpoint was given.
    pub name: String,
}

/// What an observation begins with where it is a text of the person's side.
const OBSERVATION: &str = "Observation";
/// What a long observation is shortened to, in bytes.
const SHORTENED: usize = 300;

impl Message {
    fn new(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            calls: Vec::new(),
            answers: None,
        }
    }

    /// The instructions.
    pub fn system(content: impl Into<String>) -> Self {
        Self::new(Role::System, content)
    }

    /// The person, or an observation.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new(Role::User, content)
    }

    /// The model.
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::new(Role::Assistant, content)
    }

    /// The model, with calls in its endpoint's own form.
    pub fn calls(content: impl Into<String>, calls: Vec<ToolCall>) -> Self {
        Self {
            calls,
            ..Self::assistant(content)
        }
    }

    /// The same, cut to its beginning with a word about it, if it is an observation and a long one.
    pub fn shortened(&self) -> Option<Self> {
        let observation = match self.role {
            Role::Tool => true,
            Role::User => self.content.starts_with(OBSERVATION),
            _ => false,
        };
        if !observation || self.content.len() <= 2 * SHORTENED {
            return None;
        }
        let end = self.content.floor_char_boundary(SHORTENED);
        let missing = self.content.len() - end;
        let content = format!(
            "{} [shortened: {missing} more bytes were here]",
            &self.content[..end]
        );
        Some(Self {
            content,
            ..self.clone()
        })
    }

    /// What came of such a call.
    pub fn result(call: &ToolCall, content: impl Into<String>) -> Self {
        Self {
            answers: Some(Answered {
                id: call.id.clone(),
                name: call.name.clone(),
            }),
            ..Self::new(Role::Tool, content)
        }
    }
}

/// Who speaks in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// The instructions.
    System,
    /// The person, or an observation.
    User,
    /// The model.
    Assistant,
    /// The result of a call in the endpoint's own form.
    Tool,
}

/// Tokens. `None` is unknown, which is not zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens that the model read.
    pub input_tokens: Option<u64>,
    /// Tokens that the model wrote.
    pub output_tokens: Option<u64>,
}

impl Usage {
    /// `120 → 8 tokens`, as in Regent's log, if both are known.
    pub fn meta(self) -> Option<String> {
        let (input, output) = (self.input_tokens?, self.output_tokens?);
        Some(format!("{input} → {output} tokens"))
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => Some(a.saturating_add(b)),
            (known, None) | (None, known) => known,
        };
        self.input_tokens = sum(self.input_tokens, other.input_tokens);
        self.output_tokens = sum(self.output_tokens, other.output_tokens);
    }
}
