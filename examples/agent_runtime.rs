//! AgentRuntime's agent: a planner that decides in JSON, a policy, a state, `step` and `run`, and a builder
//! of the next input.
//!
//!     cargo run --example agent_runtime
//!
//! It prints:
//!
//! ```text
//! step: {"result":50}
//! state: {"result":50}
//! finished: 5 * 10 is 50.
//! told: Step 1 gave {"result":50}. What next?
//! run: It cannot be sent without approval.
//! denied: not allowed: `send_email`: mail goes out on weekdays only
//! ```

use reagent::agent::Agent;
use reagent::engine::policy::{Circumstances, Decision, Policy, Verdict};
use reagent::engine::{Reasoning, Step};
use reagent::error::Result;
use reagent::llm::scripted::Scripted;
use reagent::session::event::SpanKind;
use reagent::tool::params::{Param, Type};
use reagent::tool::{Effect, Spec, Tool};
use serde_json::json;

fn multiply() -> impl Tool {
    Spec::new("multiply", "Multiplies two numbers.")
        .param(Param::new("x", Type::Number))
        .param(Param::new("y", Type::Number))
        .effect(Effect::Pure)
        .keeps()
        .runs(|args| {
            let number = |name: &str| args[name].as_f64().unwrap_or_default();
            Ok(json!({ "result": (number("x") * number("y")) as i64 }))
        })
}

fn send_email() -> impl Tool {
    Spec::new("send_email", "Sends a message.")
        .param(Param::new("text", Type::String))
        .effect(Effect::Outward)
        .runs(|_| Ok(json!("sent")))
}

/// Lets nobody send mail, whatever the model decides.
struct NoMail;

impl Policy for NoMail {
    fn judge(&self, decision: &Decision, _: &Circumstances) -> Verdict {
        match decision {
            Decision::Act(call) if call.tool == "send_email" => {
                Verdict::Deny("`send_email`: mail goes out on weekdays only".to_owned())
            }
            _ => Verdict::Allow,
        }
    }
}

fn main() -> Result<()> {
    let planner = Scripted::new([
        r#"{"action": "multiply", "params": {"x": 5, "y": 10}, "confidence": 0.9}"#,
        r#"{"action": "finish", "params": {"answer": "5 * 10 is 50."}, "confidence": 0.9}"#,
        r#"{"action": "send_email", "params": {"text": "50"}, "confidence": 0.8}"#,
        r#"{"action": "finish", "params": {"answer": "It cannot be sent without approval."}}"#,
    ]);
    let mut agent = Agent::builder(planner)
        .reasoning(Reasoning::Plan)
        .tool(multiply())
        .tool(send_email())
        .policy(NoMail)
        .input_builder(|result, step| format!("Step {step} gave {result}. What next?"))
        .build()?;

    // One cycle at a time: plan, validate, execute, apply, record.
    agent.start("Calculate 5 * 10")?;
    loop {
        match agent.step()? {
            Step::Continue(Some(result)) => println!("step: {result}"),
            Step::Continue(None) => println!("step: nothing came of it"),
            Step::Finished(answer) => {
                println!("state: {}", agent.state().snapshot());
                println!("finished: {}", answer.text);
                break;
            }
        }
    }
    if let Some(session) = agent.session() {
        let told = session
            .messages()
            .filter(|message| message.content.starts_with("Step"));
        told.for_each(|message| println!("told: {}", message.content));
    }

    // All cycles, to the answer.
    let answer = agent.run("Send the result by mail")?;
    println!("run: {}", answer.text);
    if let Some(session) = agent.session() {
        let failed = session
            .spans()
            .filter(|span| span.kind == SpanKind::Tool && !span.ok);
        failed.for_each(|span| println!("denied: {}", span.output.trim_start_matches("Error: ")));
    }
    Ok(())
}
