//! The program from the outside in: the real binary, a scripted model on loopback, pipes and a pseudo-terminal.

#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop right there"
)]

mod browser;
mod certificate;
mod proxy;
mod reply;
mod server;
mod service;
mod stall;
mod terminal;
mod test;

mod answer;
mod audit;
mod canary;
mod cassettes;
mod cli;
mod commands;
mod confinement;
mod defects_regent;
mod defects_runtime;
mod defects_tinyreact;
mod doctor;
mod endpoints;
mod engines;
mod errors;
mod export;
mod faults;
mod floors;
mod hostile;
mod interrupt;
mod keys;
mod library;
mod limits;
mod lines;
mod markdown;
mod models;
mod parity;
mod parse;
mod pipes;
mod policy;
mod repl;
mod replies;
mod rerun;
mod rulings;
mod runaway;
mod seeds;
mod sessions;
mod settings;
mod status;
mod stepping;
mod store;
mod theme;
mod tls;
mod tools;
mod trace;
mod web;
mod wires;
