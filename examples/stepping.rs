//! A hand on the wheel: the steps of a question are taken one by one, and each action is asked about.
//!
//!     cargo run --example stepping
//!
//! It prints:
//!
//! ```text
//! asked about send("Hello"), as the tool `send` wants it so: the person says no, and why
//! step 1: nothing was run
//! asked about send("Good morning"), as the tool `send` wants it so: the person says yes
//! sending: Good morning
//! step 2: "sent"
//! answered in 3 steps: The greeting is sent.
//! ```

use reagent::agent::Agent;
use reagent::engine::Step;
use reagent::engine::approval::Said;
use reagent::error::Result;
use reagent::llm::scripted::Scripted;
use reagent::tool::params::{Param, Type};
use reagent::tool::{Approval, Effect, Spec};
use serde_json::json;

fn main() -> Result<()> {
    let model = Scripted::new([
        "Thought1: I greet them.\nAction1: send(\"Hello\")",
        "Thought2: In other words, then.\nAction2: send(\"Good morning\")",
        "Answer: The greeting is sent.",
    ]);
    let send = Spec::new("send", "Sends a text to everybody.")
        .param(Param::new("text", Type::String))
        .effect(Effect::Outward)
        .approval(Approval::Ask)
        .runs(|args| {
            println!("sending: {}", args["text"].as_str().unwrap_or_default());
            Ok(json!("sent"))
        });
    let mut agent = Agent::builder(model)
        .tool(send)
        .ask(Box::new(|question| {
            print!("asked about {}, as {}: ", question.call, question.why);
            match question.call.contains("Hello") {
                true => {
                    println!("the person says no, and why");
                    Said::No(Some("it is morning".to_owned()))
                }
                false => {
                    println!("the person says yes");
                    Said::Yes
                }
            }
        }))
        .build()?;

    agent.start("Greet everybody")?;
    for step in 1.. {
        match agent.step()? {
            Step::Continue(Some(result)) => println!("step {step}: {result}"),
            Step::Continue(None) => println!("step {step}: nothing was run"),
            Step::Finished(answer) => {
                println!("answered in {step} steps: {}", answer.text);
                break;
            }
        }
    }
    Ok(())
}
