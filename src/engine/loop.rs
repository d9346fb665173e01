//! The loop: limits, plan, policy, execute, observe. One turn of it is [`Loop::step`].

use std::rc::Rc;

use serde_json::Value;

use super::approval::{Clearance, Desk};
use super::executor::{Executor, Observation};
use super::fence::line;
use super::limits::{Admission, Limits};
use super::parse::INVENTED;
use super::planner::{Asked, Next, Outcome, Plan, Planner};
use super::policy::{Circumstances, Decision, Policy, Verdict};
use super::steer::{Hand, Steered};
use super::{Answer, Engine, Run, Step, state};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::session::event::{Fact, Message, SpanKind, ToolCall};
use crate::tool::call::Call;
use crate::tool::{Effect, Toolchain, text_of};

/// The longest reason that the model is given.
const REASON: usize = 1000;

/// The loop of every engine; the planner makes the difference.
pub struct Loop {
    planner: Box<dyn Planner>,
    policy: Box<dyn Policy>,
    desk: Desk,
    executor: Executor,
    limits: Limits,
    pub(super) tools: Rc<Toolchain>,
    pub(super) hand: Option<Box<dyn Hand>>,
}

impl Loop {
    /// A loop of these parts.
    pub fn new(
        planner: Box<dyn Planner>,
        policy: Box<dyn Policy>,
        desk: Desk,
        tools: Rc<Toolchain>,
        limits: Limits,
    ) -> Self {
        Self {
            planner,
            policy,
            desk,
            executor: Executor::new(tools.clone()),
            limits,
            tools,
            hand: None,
        }
    }

    /// With a hand on the wheel.
    pub fn with_hand(self, hand: Option<Box<dyn Hand>>) -> Self {
        Self { hand, ..self }
    }
}

impl Engine for Loop {
    fn name(&self) -> &'static str {
        self.planner.name()
    }

    fn model(&self) -> &str {
        self.planner.model()
    }

    fn ttl(&self) -> u32 {
        self.limits.ttl.get()
    }

    fn instructions(&self) -> &str {
        self.planner.instructions()
    }

    fn pose(&self, question: &str) -> String {
        self.planner.pose(question)
    }

    fn recall(&self, answer: &str) -> String {
        self.planner.recall(answer)
    }

    fn resume(&mut self, run: &mut Run, again: bool) -> Result<Step> {
        self.pick_up(run, again)
    }

    fn step(&mut self, run: &mut Run) -> Result<Step> {
        interrupt::deadline(run.tally.deadline);
        let step = self.turn(run);
        run.tally.deadline = interrupt::deadline(None);
        step
    }
}

impl Loop {
    /// Every call that the model made is answered before it is asked again.
    fn pick_up(&mut self, run: &mut Run, again: bool) -> Result<Step> {
        run.session.set_step(run.tally.steps);
        let mut calls = run.transcript.unanswered().into_iter();
        let mut step = Step::Continue(None);
        match run.session.pending() {
            Some(pending) if again => {
                let call = Call {
                    tool: pending.tool,
                    args: pending.args,
                };
                step = self.act(&call, calls.next().as_ref(), None, run)?;
            }
            Some(pending) => {
                let text = match pending.effect {
                    true => {
                        "the program was stopped; this may have happened, and is not done again"
                    }
                    false => "the program was stopped before this was done",
                };
                let text = format!("Error: {text}");
                run.session.record(Fact::Observation {
                    tool: pending.tool,
                    ok: false,
                    text: text.clone(),
                    ms: 0,
                })?;
                self.tell(calls.next().as_ref(), None, &text, run)?;
            }
            None if calls.len() == 0 && run.transcript.ends_with_the_model() => {
                self.tell(
                    None,
                    None,
                    "Error: the program was stopped here; go on",
                    run,
                )?;
            }
            None => {}
        }
        for call in calls {
            let text = "Error: the program was stopped before this was done";
            self.tell(Some(&call), None, text, run)?;
        }
        Ok(step)
    }

    /// One turn of the loop.
    fn turn(&mut self, run: &mut Run) -> Result<Step> {
        interrupt::check()?;
        let used = run.session.usage();
        let admission = self.limits.admit(&mut run.tally, used)?;
        let last = admission == Admission::OnlyToAnswer;
        run.session.set_step(run.tally.steps);
        if last {
            let words = self.planner.words().last_call;
            run.transcript.say(&mut run.session, Message::user(words))?;
        }
        if let Some(most) = self.limits.max_context {
            run.transcript.fit(&mut run.session, most)?;
        }
        let Plan {
            thought,
            confidence,
            next,
        } = self.planner.plan(run)?;
        if let Some(text) = thought {
            run.session.record(Fact::Thought { text })?;
        }
        let words = self.planner.words();
        match next {
            Next::Decided(Decision::Finish(answer)) => self.finish(answer, confidence, run),
            Next::Decided(Decision::Act(_)) | Next::Called(_) if last => {
                Err(Error::MaxIterationsExceeded {
                    limit: self.limits.ttl.get(),
                })
            }
            Next::Decided(Decision::Act(call)) => self.act(&call, None, confidence, run),
            Next::Called(calls) => self.act_in_order(&calls, run),
            Next::Prose(text) if last || !run.tally.first_prose() => {
                let answer = Answer {
                    text,
                    truncated: false,
                    unformatted: true,
                };
                self.finish(answer, confidence, run)
            }
            Next::Prose(_) => {
                let why = "there is no `Action:` or `Answer:` line";
                self.reject(why, words.wanted, run)
            }
            // Most often the last one once more: the model has it, and does not know how to go on.
            Next::Malformed(why) if why == INVENTED && run.tally.tool_calls > 0 => {
                self.reject(&why, "", run)
            }
            Next::Malformed(why) if !why.ends_with('?') => self.reject(&why, words.wanted, run),
            Next::Rejected(why) if self.limits.strict_tools => Err(Error::ToolNotFound(why)),
            Next::Malformed(why) | Next::Rejected(why) => {
                let wanted = match run.tally.results().is_empty() {
                    true => words.another,
                    false => "",
                };
                self.reject(&why, wanted, run)
            }
        }
    }

    /// Runs the calls of one reply, one after the other. What was wrong with one is its result.
    fn act_in_order(&mut self, calls: &[Asked], run: &mut Run) -> Result<Step> {
        let mut wrong = None;
        let mut step = Step::Continue(None);
        for Asked { call, decision } in calls {
            match decision {
                Ok(Decision::Act(action)) => {
                    step = self.act(action, Some(call), None, run)?;
                    if matches!(step, Step::Finished(_)) {
                        break;
                    }
                }
                Ok(Decision::Finish(_)) => {}
                Err(why) if self.limits.strict_tools => {
                    return Err(Error::ToolNotFound(why.clone()));
                }
                Err(why) => {
                    let why: String = why.chars().take(REASON).collect();
                    run.session.record(Fact::Malformed { why: why.clone() })?;
                    self.tell(Some(call), None, &line(&format!("Error: {why}")), run)?;
                    wrong = Some(why);
                }
            }
        }
        match wrong {
            Some(why) if calls.iter().all(|asked| asked.decision.is_err()) => {
                self.limits.bad_reply(&mut run.tally, &why)?;
                Ok(step)
            }
            _ => Ok(step),
        }
    }

    /// The decision is recorded before anything is run, the result after.
    fn act(
        &mut self,
        call: &Call,
        asked: Option<&ToolCall>,
        confidence: Option<Value>,
        run: &mut Run,
    ) -> Result<Step> {
        run.tally.good_reply();
        let shown = self.tools.display(call);
        run.session.record(Fact::Action {
            tool: call.tool.clone(),
            args: call.args.clone(),
            call: shown.clone(),
        })?;
        run.tally.check_repeats(call, &shown)?;
        let call = &match self.steer(call, run)? {
            Steered::Run(call) => call,
            Steered::Gave(observation) => return self.observed(call, asked, observation, run),
        };
        let shown = self.tools.display(call);
        let decision = Decision::Act(call.clone());
        let verdict = self
            .policy
            .judge(&decision, &circumstances(confidence, run));
        let Some(tool) = self.tools.find(&call.tool) else {
            return self.reject(&format!("there is no tool `{}`", call.tool), "", run);
        };
        let spec = tool.spec();
        let mut clearance = self.desk.clear(verdict, spec, &shown);
        run.session
            .record(Fact::Verdict(clearance.on_record(spec)))?;
        // What could not be put on record does not happen.
        if let Some(why) = run.session.trouble().filter(|_| spec.has_effect()) {
            clearance = Clearance::Denied(why.to_owned());
            run.session
                .record(Fact::Verdict(clearance.on_record(spec)))?;
        }
        let reads = spec.effect > Effect::Pure;
        let allowed = matches!(clearance, Clearance::Cleared { .. });
        if let Clearance::Unapproved(why) = &clearance {
            run.tally.unapproved = Some(why.clone());
        }
        let observation = self.executor.execute(call, clearance, &mut run.session)?;
        run.tainted |= allowed && reads;
        run.tally.tool_calls += u32::from(allowed);
        self.observed(call, asked, observation, run)
    }

    /// What came of an action is recorded, and the model is told.
    fn observed(
        &mut self,
        call: &Call,
        asked: Option<&ToolCall>,
        observation: Observation,
        run: &mut Run,
    ) -> Result<Step> {
        let Observation {
            value,
            size,
            mut text,
            mut told,
            ms,
        } = observation;
        let ok = value.is_some();
        let shown = self.tools.display(call);
        let spec = self.tools.find(&call.tool).map(|tool| tool.spec());
        let (ends, keeps) = spec.map_or((false, false), |spec| (spec.ends, spec.keeps));
        run.tally.bytes += size as u64;
        self.look_over(&mut text, &mut told, run)?;
        let times = run.tally.note(call, &text);
        if ok {
            run.tally.result(&line(&shown), &told);
        }
        let enough = self.planner.words().enough;
        if times > 1 {
            let note = format!("You have done this before.{} {enough}", so_far(run));
            let note = format!("\n({})", note.trim_end());
            told += &note;
            text += &note;
        } else if run.tally.tool_calls == 1 && run.tally.steps > 1 {
            // Small models that were corrected once do not see that they are done.
            if !enough.is_empty() && !run.tally.results().is_empty() {
                told = format!("{told}\n({enough})");
            }
        }
        run.session.record(Fact::Observation {
            tool: call.tool.clone(),
            ok,
            text,
            ms,
        })?;
        self.tell(asked, value.as_ref(), &told, run)?;
        if let Some(object @ Value::Object(_)) = value.as_ref().filter(|_| keeps) {
            keep(object, run)?;
        }
        match value {
            Some(value) if ends && value["done"] == true => {
                let text = match value.get("answer") {
                    Some(answer) => text_of(answer),
                    None => text_of(&value),
                };
                let answer = Answer {
                    text,
                    truncated: false,
                    unformatted: false,
                };
                self.finish(answer, None, run)
            }
            value => Ok(Step::Continue(value)),
        }
    }

    /// The model is told what was wrong with its reply, unless that has happened too often.
    fn reject(&mut self, why: &str, wanted: &str, run: &mut Run) -> Result<Step> {
        // The model's own words are in it, however many.
        let why: String = why.chars().take(REASON).collect();
        let why = why.as_str();
        run.session.record(Fact::Malformed {
            why: why.to_owned(),
        })?;
        self.limits.bad_reply(&mut run.tally, why)?;
        let stop = if why.ends_with('?') { "" } else { "." };
        let mut text = format!("Error: {}", format!("{why}{stop} {wanted}").trim_end());
        let words = self.planner.words();
        let results = so_far(run);
        if !results.is_empty() {
            text = format!("{text}{results} {}", words.enough);
        }
        // Who has been told once what was meant, and has not seen it, is given the line to write.
        if let (Some(action), Some(call)) =
            (words.action, meant(why).filter(|_| run.tally.is_lost()))
        {
            text = format!(
                "{text} Write this line: {action}{}: {call}",
                run.tally.steps + 1
            );
        }
        self.tell(None, None, &line(text.trim_end()), run)?;
        Ok(Step::Continue(None))
    }

    fn tell(
        &mut self,
        call: Option<&ToolCall>,
        value: Option<&Value>,
        text: &str,
        run: &mut Run,
    ) -> Result<()> {
        let message = self.planner.observation(&Outcome {
            step: run.tally.steps,
            call,
            value,
            text,
        });
        run.transcript.say(&mut run.session, message)
    }

    /// The answer passes the policy too; then it is given, with what the person should know about it.
    fn finish(&mut self, answer: Answer, confidence: Option<Value>, run: &mut Run) -> Result<Step> {
        let decision = Decision::Finish(answer);
        let verdict = self
            .policy
            .judge(&decision, &circumstances(confidence, run));
        let Decision::Finish(answer) = decision else {
            return Ok(Step::Continue(None));
        };
        if let Verdict::Deny(why) | Verdict::Ask { why, .. } = &verdict {
            run.session.record(Fact::Withheld {
                text: answer.text.clone(),
                why: why.clone(),
            })?;
        }
        match verdict {
            Verdict::Allow => give(answer, &self.tools, run),
            Verdict::Ask { why, .. } => Err(Error::PolicyViolation(why)),
            Verdict::Deny(why) => {
                let told = self.reject(&format!("not allowed: {why}"), "", run);
                told.map_err(|error| match error {
                    Error::BadReplies { .. } => Error::PolicyViolation(why),
                    error => error,
                })
            }
        }
    }
}

/// What a decision comes with.
fn circumstances(confidence: Option<Value>, run: &Run) -> Circumstances {
    Circumstances {
        confidence,
        tainted: run.tainted,
        state: run.state.clone(),
    }
}

/// Gives the answer, and says what the person should know about it.
fn give(answer: Answer, tools: &Toolchain, run: &mut Run) -> Result<Step> {
    let mut notices = Vec::new();
    if answer.unformatted {
        notices.push("the model gave its answer as plain text, without the marker of an answer");
    }
    if answer.truncated {
        notices.push("the answer was cut off at the longest reply that is allowed");
    }
    if run.tally.tool_calls == 0 && tools.specs().next().is_some() {
        notices.push("answered without using any tool");
    }
    run.session.span(SpanKind::Answer, "success", |span| {
        span.output(answer.text.as_str());
        span.record(Fact::Answer {
            text: answer.text.clone(),
        })
    })?;
    for text in notices {
        run.session.record(Fact::Notice {
            text: text.to_owned(),
        })?;
    }
    Ok(Step::Finished(answer))
}

/// Puts a result into the state of the run, on record.
fn keep(object: &Value, run: &mut Run) -> Result<()> {
    run.state.apply(object);
    run.session.span(SpanKind::Memo, state::SPAN, |span| {
        span.output(object.to_string());
        Ok(())
    })
}

/// The call that a rejected one was meant to be, if the reason says so.
fn meant(why: &str) -> Option<&str> {
    let (_, call) = why.split_once("did you mean `")?;
    let (call, _) = call.split_once('`')?;
    call.ends_with(')').then_some(call)
}

/// The short results of this query, if there are any, for a model that has lost its way.
fn so_far(run: &Run) -> String {
    match run.tally.results() {
        results if results.is_empty() => results,
        results => format!(" Results so far: {results}."),
    }
}
