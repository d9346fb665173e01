//! An agent put together of its parts. Whatever is not given has its default.

use std::rc::Rc;

use super::{Agent, SESSIONS};
use crate::engine::approval::{Ask, Desk};
use crate::engine::cycle::Loop;
use crate::engine::limits::Limits;
use crate::engine::planner::native::Native;
use crate::engine::planner::plan::{InputBuilder, Planned};
use crate::engine::planner::react::React;
use crate::engine::planner::{Planner, Style};
use crate::engine::policy::{ByRules, Policy};
use crate::engine::steer::Hand;
use crate::engine::{Engine, Reasoning};
use crate::error::Result;
use crate::llm::Llm;
use crate::session::{Sink, Sinks};
use crate::tool::rule::Rules;
use crate::tool::{Tool, Toolchain};

/// Makes a planner of a model and the tools.
type MakePlanner = Box<dyn FnOnce(Box<dyn Llm>, Rc<Toolchain>) -> Result<Box<dyn Planner>>>;

/// An agent in the making; see [`Agent::builder`].
pub struct Builder {
    llm: Box<dyn Llm>,
    tools: Vec<Box<dyn Tool>>,
    toolchain: Option<Rc<Toolchain>>,
    reasoning: Reasoning,
    planner: Option<MakePlanner>,
    input: Option<InputBuilder>,
    prompts: Vec<(Reasoning, String)>,
    context: String,
    brief: bool,
    watched: bool,
    policy: Option<Box<dyn Policy>>,
    rules: Rules,
    yes: bool,
    ask: Option<Ask>,
    hand: Option<Box<dyn Hand>>,
    no_effects: Option<String>,
    limits: Limits,
    sinks: Sinks,
    sessions: usize,
}

impl Builder {
    pub(super) fn new(llm: Box<dyn Llm>) -> Self {
        Self {
            llm,
            tools: Vec::new(),
            toolchain: None,
            reasoning: Reasoning::default(),
            planner: None,
            input: None,
            prompts: Vec::new(),
            context: String::new(),
            brief: false,
            watched: false,
            policy: None,
            rules: Rules::default(),
            yes: false,
            ask: None,
            hand: None,
            no_effects: None,
            limits: Limits::default(),
            sinks: Sinks::new(),
            sessions: SESSIONS,
        }
    }

    /// One more tool. There are none without this.
    pub fn tool(self, tool: impl Tool + 'static) -> Self {
        self.tools([Box::new(tool) as Box<dyn Tool>])
    }

    /// More tools, such as those that [`manifest::load`](crate::tool::manifest::load) reads from a file.
    pub fn tools(mut self, tools: impl IntoIterator<Item = Box<dyn Tool>>) -> Self {
        self.tools.extend(tools);
        self
    }

    /// These tools, which others hold as well, in the place of any others.
    pub(crate) fn toolchain(mut self, tools: Rc<Toolchain>) -> Self {
        self.toolchain = Some(tools);
        self
    }

    /// What the model is to know or be: Regent's context. Part of its instructions.
    pub fn context(mut self, context: impl Into<String>) -> Self {
        self.context = context.into();
        self
    }

    /// One of the three ways of reasoning; [`Reasoning::React`] without this.
    pub fn reasoning(mut self, reasoning: Reasoning) -> Self {
        self.reasoning = reasoning;
        self
    }

    /// A planner of the caller's own, made of the model and the tools; the loop around it stays.
    pub fn planner<P: Planner + 'static>(
        mut self,
        make: impl FnOnce(Box<dyn Llm>, Rc<Toolchain>) -> Result<P> + 'static,
    ) -> Self {
        self.planner = Some(Box::new(|llm, tools| Ok(Box::new(make(llm, tools)?))));
        self
    }

    /// With [`Reasoning::Plan`]: what the model is told after each action that gave a result, made of that
    /// result and the number of the step. AgentRuntime's `input_builder`.
    pub fn input_builder(
        mut self,
        build: impl Fn(&serde_json::Value, u32) -> String + 'static,
    ) -> Self {
        self.input = Some(Box::new(build));
        self
    }

    /// Instructions in the place of those that come with this way of reasoning: a template with `{tools}`,
    /// `{context}` and `{steps}` in it, or some of these. [`Reasoning::Native`] falls back on those of
    /// [`Reasoning::React`] where an endpoint takes no functions.
    pub fn prompt(mut self, reasoning: Reasoning, template: impl Into<String>) -> Self {
        self.prompts.push((reasoning, template.into()));
        self
    }

    /// The model is asked for the answer only, without the steps that led to it.
    pub fn brief(mut self) -> Self {
        self.brief = true;
        self
    }

    /// Replies are recorded piece by piece while they come, for sinks that show them.
    pub fn watched(mut self) -> Self {
        self.watched = true;
        self
    }

    /// A policy in the place of the rules.
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policy = Some(Box::new(policy));
        self
    }

    /// Rules about calls; those of the tools' own file can only make them stricter.
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// What would be asked is allowed.
    pub fn yes(mut self) -> Self {
        self.yes = true;
        self
    }

    /// Asks the person about a call that needs approval. Without this, such a call is not run.
    pub fn ask(mut self, ask: Ask) -> Self {
        self.ask = Some(ask);
        self
    }

    /// Somebody who steers: before each action and after it.
    pub fn hand(mut self, hand: impl Hand + 'static) -> Self {
        self.hand = Some(Box::new(hand));
        self
    }

    /// For this reason nothing with an effect outside, or a lasting one, is run, whatever anybody says.
    pub fn without_effects(mut self, why: impl Into<String>) -> Self {
        self.no_effects = Some(why.into());
        self
    }

    /// How far a query may go.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// One more who watches. They are told in the order they are given: who keeps a record comes first.
    pub fn sink(mut self, sink: impl Sink + 'static) -> Self {
        self.sinks.push(Box::new(sink));
        self
    }

    /// More who watch, after those before.
    pub fn sinks(mut self, sinks: Sinks) -> Self {
        self.sinks.extend(sinks);
        self
    }

    /// How many sessions the agent keeps, the latest ones; at least 1. Without this 100, and no more than 4 MiB of
    /// them.
    pub fn sessions(mut self, most: usize) -> Self {
        self.sessions = most.max(1);
        self
    }

    /// The agent. Fails if two tools have one name, or a template a placeholder that nothing stands for.
    pub fn build(mut self) -> Result<Agent> {
        let sinks = std::mem::take(&mut self.sinks);
        let sessions = self.sessions;
        let mut agent = Agent::new(self.engine()?, sinks);
        agent.kept = sessions;
        Ok(agent)
    }

    /// The engine alone. Fails as [`Builder::build`] does.
    pub fn engine(self) -> Result<Box<dyn Engine>> {
        let tools = match self.toolchain {
            Some(tools) => tools,
            None => Rc::new(Toolchain::new(self.tools)?),
        };
        let style = |reasoning| {
            let own = self
                .prompts
                .iter()
                .rev()
                .find(|(whose, _)| *whose == reasoning);
            Style {
                prompt: own.map_or(reasoning.prompt(), |(_, text)| text),
                context: &self.context,
                steps: !self.brief,
            }
        };
        let react = |llm| {
            let style = style(Reasoning::React);
            React::new(llm, tools.clone(), style, self.watched)
        };
        let planner: Box<dyn Planner> = match (self.planner, self.reasoning) {
            (Some(make), _) => make(self.llm, tools.clone())?,
            (None, Reasoning::React) => Box::new(react(self.llm)?),
            (None, Reasoning::Native) => {
                Box::new(Native::new(react(self.llm)?, style(Reasoning::Native))?)
            }
            (None, Reasoning::Plan) => {
                let planned = Planned::new(self.llm, tools.clone(), style(Reasoning::Plan))?;
                Box::new(match self.input {
                    Some(build) => planned.with_input_builder(build),
                    None => planned,
                })
            }
        };
        let mut desk = Desk::new(self.ask);
        if let Some(why) = self.no_effects {
            desk = desk.without_effects(why);
        }
        let policy = self.policy.unwrap_or_else(|| {
            Box::new(ByRules::new(tools.clone(), self.rules, self.yes)) as Box<dyn Policy>
        });
        let engine = Loop::new(planner, policy, desk, tools, self.limits);
        Ok(Box::new(engine.with_hand(self.hand)))
    }
}
