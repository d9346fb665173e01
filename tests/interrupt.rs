//! Ctrl-C and its kin, at every point where the program waits or works: it is back at once, and everything is as before.
//!
//! At once is a tenth of a second. Two of twenty, and one of five, may take longer, up to half a second:
//! the machine that runs the tests does other things too.

use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};

use crate::certificate::{HOST, TRUSTED};
use crate::proxy::{Proxy, Tunnel};
use crate::server::{Reply, Server};
use crate::stall::{At, Over, Stall};
use crate::terminal::{ALL, Terminal};
use crate::test::{Run, Test, ms, wait};

const TIMES: u64 = 20;

/// All of these are at once.
#[track_caller]
fn at_once(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let late = times.iter().filter(|time| **time > ms(100)).count();
    let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
    println!("{what}: median {median:?}, worst {worst:?}");
    assert!(
        late <= times.len() / 10 && worst < ms(500),
        "{what}: {times:?}"
    );
}

/// The program with this as its model.
fn asking(base_url: &str) -> Test {
    Test::new()
        .trusting(&TRUSTED)
        .args(["--base-url", base_url, "-m", "scripted"])
}

/// Waits for the stall, and a little longer each time, so that the signal finds the program elsewhere.
fn interrupt(test: &Test, reached: impl Fn(), number: u64, signal: Signal) -> (Run, Duration) {
    let running = test.start();
    reached();
    thread::sleep(ms(number * 2));
    running.end_by(signal)
}

/// Twenty times, streamed and not.
#[track_caller]
fn twenty(what: &str, test: impl Fn() -> Test, reached: impl Fn()) {
    let tests = [test().arg("q"), test().args(["--no-stream", "q"])];
    let once = |number: u64| {
        let test = &tests[number as usize % 2];
        let (run, took) = interrupt(test, &reached, number, Signal::INT);
        run.code(130).stdout("").error("interrupted");
        took
    };
    at_once(what, (0..TIMES).map(once).collect());
}

#[track_caller]
fn one_shot(at: At, over: Over) {
    let stall = Stall::new(at, over);
    let what = format!("{at:?} over {over:?}");
    twenty(&what, || asking(&stall.base_url()), || stall.reached());
}

#[test]
fn ctrl_c_ends_the_wait_for_a_connection() {
    one_shot(At::Connect, Over::Tcp);
}

#[test]
fn ctrl_c_ends_a_tls_handshake() {
    one_shot(At::Handshake, Over::Tls);
}

#[test]
fn ctrl_c_ends_the_wait_for_headers() {
    one_shot(At::Headers, Over::Tcp);
    one_shot(At::Headers, Over::Tls);
}

#[test]
fn ctrl_c_ends_the_wait_for_the_rest_of_a_reply() {
    one_shot(At::Body, Over::Tcp);
    one_shot(At::Body, Over::Tls);
}

#[test]
fn ctrl_c_ends_a_reply_that_drips() {
    one_shot(At::Drip, Over::Tcp);
    one_shot(At::Drip, Over::Tls);
}

#[test]
fn ctrl_c_ends_the_wait_before_another_try() {
    one_shot(At::Retry, Over::Tcp);
    one_shot(At::Retry, Over::Tls);
}

/// Asks at the prompt, twenty times in vain, and once more when the server answers.
#[track_caller]
fn at_the_prompt(at: At, over: Over) {
    let mut stall = Stall::new(at, over);
    let test = asking(&stall.base_url());
    let mut terminal = Terminal::start(&test, ALL);
    terminal.prompt();
    let mut times = Vec::new();
    for number in 0..TIMES {
        terminal.send("q\r");
        stall.reached();
        assert!(
            terminal.is_as_before(),
            "in a wait the terminal is as before"
        );
        thread::sleep(ms(number * 2));
        let sent = Instant::now();
        terminal.send("\x03");
        terminal.prompt();
        times.push(sent.elapsed());
    }
    at_once(&format!("{at:?} over {over:?} at the prompt"), times);
    stall.answer();
    terminal.send("again?\r");
    terminal.wait_for("It is fine.");
    terminal.prompt();
    terminal.send("\x04");
    let screen = terminal.finish();
    assert_eq!(screen.code, 0);
    let told = screen.plain.matches("interrupted").count() as u64;
    assert_eq!(told, TIMES, "{}", screen.plain);
}

#[test]
fn ctrl_c_while_connecting_brings_the_prompt_back() {
    at_the_prompt(At::Connect, Over::Tcp);
}

#[test]
fn ctrl_c_in_a_handshake_brings_the_prompt_back() {
    at_the_prompt(At::Handshake, Over::Tls);
}

#[test]
fn ctrl_c_before_the_headers_brings_the_prompt_back() {
    at_the_prompt(At::Headers, Over::Tcp);
}

#[test]
fn ctrl_c_within_a_reply_brings_the_prompt_back() {
    at_the_prompt(At::Body, Over::Tcp);
    at_the_prompt(At::Body, Over::Tls);
}

#[test]
fn ctrl_c_in_a_reply_that_drips_brings_the_prompt_back() {
    at_the_prompt(At::Drip, Over::Tcp);
}

#[test]
fn ctrl_c_before_another_try_brings_the_prompt_back() {
    at_the_prompt(At::Retry, Over::Tcp);
}

/// The model behind a proxy, which alone knows where it is.
fn behind(proxy: &Proxy, port: u16) -> Test {
    asking(&format!("https://{HOST}:{port}/v1")).env("HTTPS_PROXY", proxy.url())
}

#[test]
fn ctrl_c_ends_the_wait_for_a_proxy() {
    let stall = Stall::new(At::Headers, Over::Tls);
    let proxy = Proxy::to(stall.address, Tunnel::Stall);
    let port = stall.address.port();
    twenty("CONNECT", || behind(&proxy, port), || proxy.reached());
}

#[test]
fn ctrl_c_ends_a_wait_behind_a_proxy() {
    for at in [At::Handshake, At::Body, At::Drip] {
        let stall = Stall::new(at, Over::Tls);
        let proxy = Proxy::to(stall.address, Tunnel::Open);
        let port = stall.address.port();
        let what = format!("{at:?} through a proxy");
        twenty(&what, || behind(&proxy, port), || stall.reached());
    }
}

#[test]
fn being_told_to_end_ends_a_wait_with_its_own_exit_code() {
    let stall = Stall::new(At::Body, Over::Tcp);
    let test = asking(&stall.base_url()).arg("q");
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let once = |number| {
            let (run, took) = interrupt(&test, || stall.reached(), number, signal);
            run.code(code).stdout("");
            took
        };
        at_once(&format!("{signal:?}"), (0..5).map(once).collect());
    }
}

#[test]
fn an_interrupted_query_has_its_end_on_record() {
    let stall = Stall::new(At::Body, Over::Tcp);
    for flags in [&["--json"][..], &["--json", "--no-stream"]] {
        let test = asking(&stall.base_url())
            .args(flags.iter().copied())
            .arg("q");
        let (run, _) = interrupt(&test, || stall.reached(), 0, Signal::INT);
        let run = run.code(130);
        let events = run.events();
        assert_eq!(events.end()["status"], "interrupted");
        assert_eq!(events.end()["exit_code"], 130);
    }
}

#[test]
fn ctrl_c_ends_the_wait_for_a_tool() {
    for at in [At::Connect, At::Headers, At::Body] {
        let web = Stall::new(at, Over::Tcp);
        let server = Server::always("Action1: look(\"otters\")");
        let tools = format!(
            "[[tool]]\nname = \"look\"\nfunction = \"wikipedia.search\"\nbind.base_url = \"http://{}/w\"\n",
            web.address
        );
        let test = || Test::with(&server).tools(&tools);
        twenty(&format!("a tool in {at:?}"), test, || web.reached());
    }
}

#[test]
fn ctrl_c_ends_a_long_calculation() {
    let server = Server::always("Action1: calculate(\"99999999!\")");
    let test = Test::with(&server).arg("q");
    let once = |number: u64| {
        let called = || {
            wait_until("the model is asked", || server.calls() as u64 > number);
            // Nobody outside sees when the calculation begins.
            thread::sleep(ms(100));
        };
        let (run, took) = interrupt(&test, called, number, Signal::INT);
        run.code(130).err_line("Action1: ");
        took
    };
    at_once("a calculation", (0..5).map(once).collect());
}

#[test]
fn ctrl_c_ends_the_wait_for_standard_input() {
    for test in [Test::demo().arg("-"), Test::demo().args(["-i", "-"])] {
        let test = test.silent_stdin();
        // Nobody outside sees when the wait begins, and before it nothing else is done.
        let once = |number| {
            let (run, took) = interrupt(&test, || thread::sleep(ms(60)), number, Signal::INT);
            run.code(130).stdout("");
            took
        };
        at_once("standard input", (0..5).map(once).collect());
    }
}

#[test]
fn ctrl_c_ends_a_look_at_the_endpoint() {
    let stall = Stall::new(At::Headers, Over::Tcp);
    for command in ["models", "doctor"] {
        let test = asking(&stall.base_url()).arg(command);
        let once = |number| {
            let (run, took) = interrupt(&test, || stall.reached(), number, Signal::INT);
            run.code(130);
            took
        };
        at_once(command, (0..5).map(once).collect());
    }
}

#[test]
fn a_second_ctrl_c_ends_what_does_not_notice_the_first() {
    // Nobody reads the answer, which is more than a pipe holds.
    let server = Server::always(Reply::chat("Answer: ".to_owned() + &"word ".repeat(40_000)));
    let test = Test::with(&server).arg("q");
    let mut command = test.command(&[]);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    let (unread, stdout) = std::io::pipe().unwrap();
    command.stdout(stdout);
    let mut child = command.spawn().unwrap();
    drop(command);
    wait_until("the pipe is full", || {
        ioctl_fionread(&unread).unwrap() >= 1 << 16
    });
    let pid = Pid::from_child(&child);
    kill_process(pid, Signal::INT).unwrap();
    thread::sleep(ms(50));
    let sent = Instant::now();
    let _ = kill_process(pid, Signal::INT);
    let (status, _) = wait(&mut child, ms(5000));
    assert_eq!(status.unwrap().code(), Some(130));
    assert!(sent.elapsed() < ms(500), "{:?}", sent.elapsed());
}

#[test]
fn being_told_to_end_at_the_prompt_restores_the_terminal() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut terminal = Terminal::start(&Test::demo(), ALL);
        terminal.prompt();
        assert!(!terminal.is_as_before(), "the prompt reads single keys");
        terminal.send("half a quest");
        terminal.wait_for("half a quest");
        terminal.signal(signal);
        let screen = terminal.finish();
        assert_eq!(screen.code, code);
        let last = screen.raw.rfind("\u{1b}[?2004").unwrap();
        assert!(
            screen.raw[last..].starts_with("\u{1b}[?2004l"),
            "pastes are marked no more"
        );
    }
}

#[test]
fn being_told_to_end_in_a_wait_ends_the_conversation() {
    let stall = Stall::new(At::Body, Over::Tcp);
    let test = asking(&stall.base_url());
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
        let mut terminal = Terminal::start(&test, ALL);
        terminal.prompt();
        terminal.send("q\r");
        stall.reached();
        let sent = Instant::now();
        terminal.signal(signal);
        assert_eq!(terminal.finish().code, code);
        assert!(sent.elapsed() < ms(500), "{:?}", sent.elapsed());
    }
}

#[track_caller]
fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + ms(20_000);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        thread::sleep(ms(1));
    }
}

#[test]
fn a_signal_is_no_answer_to_whether_to_go_on() {
    let asked = || {
        let server = Server::always("Action1: add_numbers(1, 2)");
        let mut terminal = Terminal::start(&Test::with(&server).args(["--ttl", "1"]), ALL);
        terminal.prompt();
        terminal.send("q\r");
        terminal.wait_for("[y/N]");
        (server, terminal, Instant::now())
    };
    let (_server, mut terminal, sent) = asked();
    terminal.send("\x03");
    terminal.prompt();
    assert!(sent.elapsed() < ms(500), "{:?}", sent.elapsed());
    terminal.send("\x04");
    let screen = terminal.finish();
    assert_eq!(screen.code, 130);
    assert!(screen.plain.contains("interrupted"), "{}", screen.plain);
    let (_server, terminal, sent) = asked();
    terminal.signal(Signal::TERM);
    assert_eq!(terminal.finish().code, 143);
    assert!(sent.elapsed() < ms(500), "{:?}", sent.elapsed());
}
