//! What many sessions cost: listing and searching ten thousand of them, as whole processes.
//!
//! `cargo bench --bench sessions` prints the median of several runs.

#![allow(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on should stop right there"
)]

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reagent::agent::Agent;
use reagent::engine::limits::Limits;
use reagent::error::Result;
use reagent::llm::scripted::Scripted;
use reagent::session::store::Store;
use reagent::tool::Spec;
use reagent::tool::params::{Param, Type};

/// How many sessions there are.
const SESSIONS: usize = 10_000;
/// How often each command is run.
const ROUNDS: usize = 9;

fn main() -> Result<()> {
    let home = std::env::temp_dir().join(format!("reagent-bench-{}", std::process::id()));
    let store = Store::new(home.join("reagent/sessions"));
    for number in 0..SESSIONS {
        let say = Spec::new("say", "Says it.")
            .param(Param::new("text", Type::String))
            .runs(|args| Ok(args["text"].clone()));
        let replies = [
            format!("Thought1: I say number {number}.\nAction1: say(\"It is {number}\")"),
            format!("Thought2: I know it.\nAnswer: It is {number}."),
        ];
        let agent = Agent::builder(Scripted::new(replies))
            .tool(say)
            .sink(store.keeper());
        let mut agent = agent.limits(Limits::default()).build()?;
        agent.run(format!("What is number {number} of the list?"))?;
    }
    let bytes: u64 = store
        .ids()?
        .iter()
        .map(|id| fs::metadata(store.path(id)).unwrap().len())
        .sum();
    println!("{SESSIONS} sessions, {} MB", bytes >> 20);
    for args in [
        &["sessions"][..],
        &["sessions", "list", "--all"],
        &["sessions", "search", "9876"],
        &["sessions", "search", "number", "list"],
    ] {
        let mut times: Vec<Duration> = (0..ROUNDS)
            .map(|_| {
                let begun = Instant::now();
                let status = Command::new(env!("CARGO_BIN_EXE_reagent"))
                    .args(args)
                    .env("XDG_STATE_HOME", &home)
                    .stdout(Stdio::null())
                    .status();
                assert!(status.unwrap().success());
                begun.elapsed()
            })
            .collect();
        times.sort();
        println!(
            "{:<32} {:>7.1} ms",
            args.join(" "),
            times[ROUNDS / 2].as_secs_f64() * 1000.0
        );
    }
    fs::remove_dir_all(&home)?;
    Ok(())
}
