//! The program from the outside in: the real binary, a scripted model on loopback, pipes and a pseudo-terminal.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

mod reply;
mod server;
mod terminal;
mod test;

mod answer;
mod cli;
mod errors;
mod floors;
mod keys;
mod parse;
mod pipes;
mod repl;
mod replies;
mod rulings;
mod tools;
mod trace;
