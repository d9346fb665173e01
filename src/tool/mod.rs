//! Tools: what the model can call, and the toolchain that holds them.
//!
//! A tool describes itself, so that the model knows it, arguments are checked before it runs, and
//! policy can judge it. Which tools there are is declared in `tools.toml` (see [`manifest`]).

pub mod call;
pub(crate) mod crypto;
pub(crate) mod cursor;
pub(crate) mod function;
pub(crate) mod http;
pub mod literal;
pub mod manifest;
pub(crate) mod math;
pub(crate) mod output;
pub mod own;
pub mod params;
pub mod rule;
pub(crate) mod template;
pub(crate) mod time;
pub(crate) mod weather;
pub(crate) mod web;
pub(crate) mod wikipedia;

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::near::nearest;
use call::{Args, Call, Proposal};
use params::Param;
use rule::Rules;

/// Something that the model can call.
pub trait Tool {
    /// How it is called and what may be expected of it. The same at every call.
    fn spec(&self) -> &Spec;

    /// Runs it with arguments that fit its parameters; those not given take their defaults.
    /// The error is told to the model, so it says what to do instead.
    fn call(&self, args: &Map<String, Value>) -> std::result::Result<Value, String>;

    /// The host that a call with these arguments would speak to, if that can be told.
    fn host(&self, args: &Map<String, Value>) -> Option<String> {
        let _ = args;
        None
    }

    /// Whether it shows more of a result that was too long.
    fn pages(&self) -> bool {
        false
    }

    /// What it can do for an arithmetic expression, if anything.
    fn arithmetic(&self) -> Option<Arithmetic> {
        None
    }
}

/// What a tool can do for an arithmetic expression.
#[derive(Debug, Clone, Copy)]
pub enum Arithmetic {
    /// The operation of this sign on two numbers.
    Sign(char),
    /// All of it.
    Whole,
}

/// How a tool is called and what may be expected of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// What the model calls: letters of any script, digits and `_`, 1 to 64 of them.
    pub name: String,
    /// What it does, in a sentence.
    pub description: String,
    /// A call as an example.
    pub example: Option<String>,
    /// The parameters in the order of positional arguments.
    pub params: Vec<Param>,
    /// What running it can change or reveal.
    pub effect: Effect,
    /// Whether a result of it with `"done": true` ends the query; its `answer`, or else all of it, is
    /// the answer then. The same in a result of any other tool means nothing.
    pub ends: bool,
    /// Whether an object that it gives is merged into the state of the run.
    pub keeps: bool,
    /// Whether it may run without asking.
    pub approval: Approval,
    /// How long it may take.
    pub timeout: Duration,
    /// How many bytes of its result the model is shown.
    pub max_output: usize,
}

/// How long a tool may take, unless it says otherwise.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);
/// How many bytes of a result the model is shown, unless the tool says otherwise.
pub(crate) const MAX_OUTPUT: usize = 8192;

impl Spec {
    /// A tool without parameters that reads the world and may run without asking, with the limits that
    /// tools have by default: 10 seconds, 8192 bytes.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            example: None,
            params: Vec::new(),
            effect: Effect::ReadsWorld,
            ends: false,
            keeps: false,
            approval: Approval::Allow,
            timeout: TIMEOUT,
            max_output: MAX_OUTPUT,
        }
    }

    /// With one more parameter, after those it has.
    pub fn param(mut self, param: Param) -> Self {
        self.params.push(param);
        self
    }

    /// With a call as an example.
    pub fn example(mut self, call: impl Into<String>) -> Self {
        self.example = Some(call.into());
        self
    }

    /// With this effect.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// With this approval.
    pub fn approval(mut self, approval: Approval) -> Self {
        self.approval = approval;
        self
    }

    /// A result of it with `"done": true` ends the query.
    pub fn ends(mut self) -> Self {
        self.ends = true;
        self
    }

    /// An object that it gives is merged into the state of the run.
    pub fn keeps(mut self) -> Self {
        self.keeps = true;
        self
    }

    /// `name(x: number, y: number)`, as shown to people.
    pub fn signature(&self) -> String {
        format!("{}({})", self.name, params::signature(&self.params))
    }

    /// Whether running it sends something out, or changes something that stays changed.
    pub fn has_effect(&self) -> bool {
        self.effect >= Effect::Outward
    }

    /// `name(x, y)`, as shown to the model.
    pub fn usage(&self) -> String {
        format!("{}({})", self.name, params::usage(&self.params))
    }
}

/// What running a tool can change or reveal, from harmless to lasting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effect {
    /// Computes from its arguments; at most reads the clock.
    Pure,
    /// Reads public things outside the program.
    ReadsWorld,
    /// Reads private things.
    PrivateRead,
    /// Sends something out.
    Outward,
    /// Changes something that stays changed.
    Lasting,
}

impl Effect {
    /// The name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::ReadsWorld => "reads the world",
            Self::PrivateRead => "private read",
            Self::Outward => "outward",
            Self::Lasting => "lasting",
        }
    }
}

/// Whether a tool may run without asking, from the most lenient to the strictest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Approval {
    /// It runs.
    Allow,
    /// The person is asked each time.
    Ask,
    /// It never runs.
    Deny,
}

/// The tools that are loaded, in order, with names that differ.
#[derive(Default)]
pub struct Toolchain {
    tools: Vec<Box<dyn Tool>>,
    rules: Rules,
}

/// What a tool and a parameter may be called.
pub(crate) const NAME: &str = "a name is 1 to 64 letters, digits and `_`";

/// Whether it is.
pub(crate) fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_alphanumeric() || c == '_';
    (1..=64).contains(&name.chars().count()) && name.chars().all(letter)
}

impl Toolchain {
    /// Holds these tools. A name that is none, and two tools of one name, whatever the case of its
    /// letters, are an error.
    pub fn new(tools: Vec<Box<dyn Tool>>) -> Result<Self> {
        let mut names = HashSet::new();
        for tool in &tools {
            let name = &tool.spec().name;
            if !is_name(name) {
                return Err(Error::config(format!(
                    "`{name}` is no name of a tool: {NAME}"
                )));
            }
            if !names.insert(name.to_lowercase()) {
                return Err(Error::config(format!("two tools are named `{name}`")));
            }
        }
        Ok(Self {
            tools,
            rules: Rules::default(),
        })
    }

    /// Without the tools of these names.
    pub(crate) fn without(mut self, names: &[String]) -> Self {
        self.tools.retain(|tool| !names.contains(&tool.spec().name));
        self
    }

    /// With each tool made into another one of the same description.
    pub(crate) fn wrapped(self, wrap: impl FnMut(Box<dyn Tool>) -> Box<dyn Tool>) -> Self {
        Self {
            tools: self.tools.into_iter().map(wrap).collect(),
            ..self
        }
    }

    /// With these rules about their calls.
    pub fn with_rules(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }

    /// The rules that came with the tools.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// The descriptions of all tools, in order.
    pub fn specs(&self) -> impl Iterator<Item = &Spec> {
        self.tools.iter().map(|tool| tool.spec())
    }

    /// The tool of this name; the case of its letters does not matter.
    pub fn find(&self, name: &str) -> Option<&dyn Tool> {
        let name = name.trim();
        let exact = self.tools.iter().find(|tool| tool.spec().name == name);
        let lower = name.to_lowercase();
        exact
            .or_else(|| {
                self.tools
                    .iter()
                    .find(|tool| tool.spec().name.to_lowercase() == lower)
            })
            .map(|tool| &**tool)
    }

    /// Makes a call of a proposal, or says in one line what the model should do instead.
    pub fn bind(&self, proposal: &Proposal) -> std::result::Result<Call, Rejection> {
        let Some(tool) = self.find(&proposal.tool) else {
            return Err(Rejection(self.unknown(proposal)));
        };
        let spec = tool.spec();
        let args = params::bind(&spec.name, &spec.params, &proposal.args).map_err(Rejection)?;
        Ok(Call {
            tool: spec.name.clone(),
            args,
        })
    }

    /// The call that an unfit arithmetic action was most likely meant to be: the expression in the question,
    /// or else the action's own words as one expression, for the tool that computes those. It is shown to
    /// the model, and never run. `written` ends with the action.
    pub fn instead(&self, question: &str, written: &str) -> Option<String> {
        let whole = self
            .tools
            .iter()
            .find(|tool| matches!(tool.arithmetic(), Some(Arithmetic::Whole)))?;
        let (_, action) = written.lines().last()?.split_once(':')?;
        let own = self.as_expression(action)?;
        let expression = match math::expression_in(question) {
            Some(expression) => expression.to_owned(),
            None => own?,
        };
        let call = self.bind(&Proposal {
            tool: whole.spec().name.clone(),
            args: Args::positional(vec![expression.into()]),
        });
        Some(self.display(&call.ok()?))
    }

    /// An arithmetic action as one expression, if it can be read as one; none if it is not arithmetic.
    fn as_expression(&self, action: &str) -> Option<Option<String>> {
        if math::is_expression(action) {
            return Some(Some(action.trim().to_owned()));
        }
        let (name, behind) = action.split_once('(')?;
        Some(match self.find(name.trim())?.arithmetic()? {
            Arithmetic::Sign(sign) => math::expression(sign, behind),
            Arithmetic::Whole => rest_behind(behind),
        })
    }

    /// The tool that shows more of a result that was too long, if one is loaded.
    pub fn pager(&self) -> Option<&Spec> {
        let mut tools = self.tools.iter();
        tools.find(|tool| tool.pages()).map(|tool| tool.spec())
    }

    /// The call as one line, as the model would write it.
    pub fn display(&self, call: &Call) -> String {
        call.display(
            self.find(&call.tool)
                .map_or(&[], |tool| &tool.spec().params),
        )
    }

    /// The nearest tool is shown with the arguments as they are, if it takes them.
    fn unknown(&self, Proposal { tool, args }: &Proposal) -> String {
        let names: Vec<&str> = self.specs().map(|spec| spec.name.as_str()).collect();
        let name: String = tool.chars().take(64).collect();
        if names.is_empty() {
            return format!("there is no tool `{name}`: no tools are loaded");
        }
        let near = nearest(&name, names.iter().copied()).map_or(String::new(), |near| {
            let call = self.bind(&Proposal {
                tool: near.to_owned(),
                args: args.clone(),
            });
            let shown = call.map_or_else(|_| near.to_owned(), |call| self.display(&call));
            format!("; did you mean `{shown}`?")
        });
        let stop = if near.is_empty() { "." } else { "" };
        format!(
            "there is no tool `{name}`{near}{stop} The tools are: {}",
            names.join(", ")
        )
    }
}

/// The expression of which a part was put into the call, the rest behind it.
fn rest_behind(behind: &str) -> Option<String> {
    let (text, used) = literal::literal(behind).ok()?;
    let rest = behind[used..].trim_start().strip_prefix(')')?;
    let inner = text.as_str()?.trim();
    let bare = inner
        .strip_prefix('(')
        .and_then(|inner| inner.strip_suffix(')'));
    let inner = bare
        .filter(|bare| !bare.contains(['(', ')']))
        .unwrap_or(inner);
    let whole = format!("({inner}){}", rest.trim_end());
    (!rest.trim().is_empty() && math::is_expression(&whole)).then_some(whole)
}

/// Why a proposal cannot be called, in one line for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejection(pub String);

/// A result as the model reads it: text as it is, numbers as a person writes them, the rest as JSON.
pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => math::number_text(float),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
