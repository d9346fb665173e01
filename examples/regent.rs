//! Regent's agent: a model, a tool for prices, and a session that can be looked at and shown again.
//!
//!     cargo run --example regent
//!
//! It prints:
//!
//! ```text
//! Bitcoin costs 67012 US dollars.
//! INPUT  What is the price of Bitcoin?
//! LLM    scripted
//! TOOL   price_tool("bitcon") -> Error: there is no coin `bitcon`; did you mean `bitcoin`?
//! LLM    scripted
//! TOOL   price_tool("bitcoin") -> {"bitcoin":{"usd":67012}}
//! LLM    scripted
//! ANSWER success
//! 7 messages, 1 session, running: false
//! ```

use reagent::agent::Agent;
use reagent::error::Result;
use reagent::llm::scripted::Scripted;
use reagent::session::Sink;
use reagent::session::event::{Event, Fact, SpanKind};
use reagent::tool::params::{Param, Type};
use reagent::tool::{Spec, Tool};
use serde_json::json;

/// A real one would ask a service; errors are told to the model, which can act on them.
fn price_tool() -> impl Tool {
    Spec::new("price_tool", "Get the price of a cryptocurrency.")
        .param(Param::new("coin", Type::String))
        .example("price_tool(\"ethereum\")")
        .runs(|args| match args["coin"].as_str() {
            Some("bitcoin") => Ok(json!({ "bitcoin": { "usd": 67012 } })),
            Some(coin) => Err(format!(
                "there is no coin `{coin}`; did you mean `bitcoin`?"
            )),
            None => Err("which coin?".to_owned()),
        })
}

/// A line a span, as in Regent's log.
struct Spans;

impl Sink for Spans {
    fn see(&mut self, event: &Event) -> Result<()> {
        if let Fact::Closed(span) = &event.fact {
            let came_to = match span.kind {
                SpanKind::Tool => format!(" -> {}", span.output),
                _ => String::new(),
            };
            println!("{:<6} {}{came_to}", span.kind.label(), span.title);
        }
        Ok(())
    }
}

fn main() -> Result<()> {
    // In the place of a real model, which `reagent::llm::connect` gives.
    let model = Scripted::new([
        "Thought1: I look up the price.\nAction1: price_tool(\"bitcon\")",
        "Thought2: The name was wrong.\nAction2: price_tool(\"bitcoin\")",
        "Thought3: I now know the answer.\nAnswer: Bitcoin costs 67012 US dollars.",
    ]);
    let mut agent = Agent::builder(model)
        .tool(price_tool())
        .context("You are an assistant of a broker.")
        .build()?;

    let answer = agent.run("What is the price of Bitcoin?")?;
    println!("{}", answer.text);

    if let Some(session) = agent.session() {
        session.replay(&mut Spans)?;
        println!(
            "{} messages, {} session, running: {}",
            session.messages().count(),
            agent.sessions().len(),
            agent.is_running()
        );
    }
    Ok(())
}
