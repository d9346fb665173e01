//! The loop: limits, plan, policy, execute, observe. One turn of it is [`Loop::step`].

use std::rc::Rc;

use super::executor::{Executor, Observation};
use super::limits::{Admission, Limits};
use super::parse::INVENTED;
use super::planner::{Next, Planner};
use super::policy::{Decision, Policy, Verdict};
use super::{Answer, Engine, Run, Step};
use crate::error::{Error, Result};
use crate::interrupt;
use crate::session::event::{Fact, Message, SpanKind};
use crate::tool::Toolchain;
use crate::tool::call::Call;

/// What the model is told to write, after what was wrong. Small models call whatever looks like a call,
/// so there is none in it.
const WANTED: &str = "Write an `Action:` line with one of the tools and its arguments, or `Answer:` and \
    the answer.";
/// The same where a call was tried. Without it, small models explain the error.
const ANOTHER: &str = "Write an `Action:` line with one of the tools.";
/// What the model is told when only an answer is left to it.
const LAST_CALL: &str = "No more actions are possible. Write `Answer:` and the best answer from what \
    you know now; say what is missing.";
/// What the model is told when it repeats an action, after its results so far.
const ENOUGH: &str = "If this answers the question, write `Answer:` and the answer.";
/// The longest reason that the model is given.
const REASON: usize = 1000;

/// The loop of every engine; the planner makes the difference.
pub struct Loop {
    planner: Box<dyn Planner>,
    policy: Box<dyn Policy>,
    executor: Executor,
    limits: Limits,
    tools: Rc<Toolchain>,
}

impl Loop {
    /// A loop of these parts.
    pub fn new(
        planner: Box<dyn Planner>,
        policy: Box<dyn Policy>,
        tools: Rc<Toolchain>,
        limits: Limits,
    ) -> Self {
        Self {
            planner,
            policy,
            executor: Executor::new(tools.clone()),
            limits,
            tools,
        }
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

    fn step(&mut self, run: &mut Run) -> Result<Step> {
        interrupt::check()?;
        let admission = self.limits.admit(&mut run.tally)?;
        run.session.set_step(run.tally.steps);
        if admission == Admission::OnlyToAnswer {
            run.transcript
                .say(&mut run.session, Message::user(LAST_CALL))?;
        }
        let plan = self.planner.plan(run)?;
        if let Some(text) = plan.thought {
            run.session.record(Fact::Thought { text })?;
        }
        let decision = match plan.next {
            Next::Decided(decision) => decision,
            Next::Prose(text)
                if admission == Admission::OnlyToAnswer || !run.tally.first_prose() =>
            {
                Decision::Finish(Answer {
                    text,
                    truncated: false,
                    unformatted: true,
                })
            }
            Next::Prose(_) => {
                return self.reject("there is no `Action:` or `Answer:` line", WANTED, run);
            }
            // Most often the last one once more: the model has it, and does not know how to go on.
            Next::Malformed(why) if why == INVENTED && run.tally.tool_calls > 0 => {
                return self.reject(&why, "", run);
            }
            Next::Malformed(why) if !why.ends_with('?') => return self.reject(&why, WANTED, run),
            Next::Rejected(why) if self.limits.strict_tools => {
                return Err(Error::ToolNotFound(why));
            }
            Next::Malformed(why) | Next::Rejected(why) => {
                let wanted = match run.tally.results().is_empty() {
                    true => ANOTHER,
                    false => "",
                };
                return self.reject(&why, wanted, run);
            }
        };
        let verdict = self.policy.judge(&decision);
        match decision {
            Decision::Finish(answer) => finish(answer, verdict, &self.tools, run),
            Decision::Act(_) if admission == Admission::OnlyToAnswer => {
                Err(Error::MaxIterationsExceeded {
                    limit: self.limits.ttl.get(),
                })
            }
            Decision::Act(call) => self.act(&call, verdict, run),
        }
    }
}

impl Loop {
    /// The decision is recorded before anything is run, the result after.
    fn act(&mut self, call: &Call, verdict: Verdict, run: &mut Run) -> Result<Step> {
        run.tally.good_reply();
        let shown = self.tools.display(call);
        run.session.record(Fact::Action {
            tool: call.tool.clone(),
            args: call.args.clone(),
            call: shown.clone(),
        })?;
        run.tally.check_repeats(call, &shown)?;
        let allowed = verdict == Verdict::Allow;
        if let Verdict::Unapproved(why) = &verdict {
            run.tally.unapproved = Some(why.clone());
        }
        let Observation { ok, mut text, ms } =
            self.executor.execute(call, verdict, &mut run.session)?;
        run.tally.tool_calls += u32::from(allowed);
        let times = run.tally.note(call, &text);
        if ok {
            run.tally.result(&shown, &text);
        }
        if times > 1 {
            text = format!(
                "{text}\n(You have done this before.{} {ENOUGH})",
                so_far(run)
            );
        }
        // Small models that were corrected once do not see that they are done.
        let corrected = run.tally.tool_calls == 1 && run.tally.steps > 1;
        let message = match corrected && times == 1 && !run.tally.results().is_empty() {
            true => observation(run, &format!("{text}\n({ENOUGH})")),
            false => observation(run, &text),
        };
        run.session.record(Fact::Observation {
            tool: call.tool.clone(),
            ok,
            text,
            ms,
        })?;
        run.transcript.say(&mut run.session, message)?;
        Ok(Step::Continue)
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
        let results = so_far(run);
        if !results.is_empty() {
            text = format!("{text}{results} {ENOUGH}");
        }
        let message = observation(run, &text);
        run.transcript.say(&mut run.session, message)?;
        Ok(Step::Continue)
    }
}

/// The answer passes the policy too; then it is given, with what the person should know about it.
fn finish(answer: Answer, verdict: Verdict, tools: &Toolchain, run: &mut Run) -> Result<Step> {
    if let Verdict::Deny(why) | Verdict::Unapproved(why) = verdict {
        return Err(Error::PolicyViolation(why));
    }
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

/// The short results of this query, if there are any, for a model that has lost its way.
fn so_far(run: &Run) -> String {
    match run.tally.results() {
        results if results.is_empty() => results,
        results => format!(" Results so far: {results}."),
    }
}

fn observation(run: &Run, text: &str) -> Message {
    Message::user(format!("Observation{}: {text}", run.tally.steps))
}
