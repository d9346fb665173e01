//! What people see: sinks over the stream of events, and the screen that they write to.

pub mod export;
pub mod json;
pub mod markdown;
pub mod printer;
pub mod quiet;
pub mod screen;
pub mod status;
pub mod text;
pub mod theme;
pub mod tree;
mod wrap;
