//! What a terminal says while the program waits, and that none of it stays.

use std::time::Duration;

use crate::server::{Reply, Server};
use crate::terminal::{OUTPUT, STDERR, Terminal};
use crate::test::Test;

const SLOW: Duration = Duration::from_millis(1300);

fn slow(text: &str) -> Reply {
    Reply::chat(text).after(SLOW)
}

#[test]
fn a_wait_at_a_terminal_says_how_long_it_is_and_what_it_has_cost() {
    for flags in [&[][..], &["--trace", "tree"], &["-q"]] {
        let server = Server::replies([slow("Action1: add_numbers(1, 2)"), slow("Answer: 3")]);
        let test = Test::with(&server).args(flags).arg("What is 1 + 2?");
        let screen = Terminal::start(&test, OUTPUT).finish();
        assert!(
            screen.raw.contains("\r\u{1b}[K\u{1b}[2mthinking 0."),
            "{:?}",
            screen.raw
        );
        assert!(screen.raw.contains("thinking 1."), "{:?}", screen.raw);
        assert!(screen.raw.contains(" tokens so far"), "{:?}", screen.raw);
        assert!(
            !screen.plain.contains("thinking"),
            "it stays: {}",
            screen.plain
        );
    }
}

#[test]
fn a_terminal_that_cannot_take_a_line_away_and_a_pipe_get_none() {
    for (flags, on, term) in [
        (&[][..], STDERR, "dumb"),
        (&["--json"], STDERR, "xterm"),
        (&[], crate::terminal::STDOUT, "xterm"),
    ] {
        let server = Server::replies([slow("Answer: 3")]);
        let test = Test::with(&server).args(flags).arg("q").env("TERM", term);
        let screen = Terminal::start(&test, on).finish();
        let all = [screen.raw, screen.pipes.concat()].concat();
        assert!(!all.contains("thinking"), "{all:?}");
    }
}

#[test]
fn an_attempt_that_is_made_again_is_said_to_be() {
    let refusal = Reply::error(503, "busy").header("retry-after", "1");
    let server = Server::replies([refusal, Reply::chat("Answer: 3")]);
    let screen = Terminal::start(&Test::with(&server).arg("q"), OUTPUT).finish();
    assert!(screen.raw.contains("trying again 0."), "{:?}", screen.raw);
}
