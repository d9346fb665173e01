//! TinyReAct's agent: arithmetic tools from a file, at most ten turns, the trace in colours.
//!
//!     cargo run --example tiny_react
//!
//! It prints, and before it the trace on standard error:
//!
//! ```text
//! 10 * 3 + 10 = 40
//!
//! 1. 10 * 3 = 30
//! 2. 30 + 10 = 40
//! ```

use std::num::NonZeroU32;

use reagent::agent::Agent;
use reagent::engine::limits::Limits;
use reagent::error::Result;
use reagent::llm::{self, Choice};
use reagent::tool::manifest;
use reagent::ui::printer::Printer;
use reagent::ui::screen::{Color, Screen};

const TOOLS: &str = r#"
[[tool]]
name = "add_numbers"
function = "math.add"

[[tool]]
name = "multiply_numbers"
function = "math.multiply"
"#;

fn main() -> Result<()> {
    let model = llm::connect(&Choice::Demo, &llm::Options::default());
    let screen = Screen::look(Color::Auto, None, false);
    let mut agent = Agent::builder(model)
        .tools(manifest::load(TOOLS, "tools")?.tools)
        .limits(Limits {
            ttl: NonZeroU32::new(10).unwrap_or(NonZeroU32::MIN),
            ..Limits::default()
        })
        .sink(Printer::new(screen))
        .build()?;
    agent.run("What is 10 * 3 + 10?")?;
    Ok(())
}
