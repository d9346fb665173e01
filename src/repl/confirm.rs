//! Asking the person about an action: on the terminal itself, whatever the streams of the program are.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;

use rustix::event::PollFlags;
use rustix::termios::{QueueSelector, tcflush};

use super::LINE_LIMIT;
use crate::engine::approval::{Ask, Question, Said};
use crate::interrupt;
use crate::ui::screen::Screen;
use crate::ui::text::strict;

/// Asks on the terminal, if there is one.
pub(crate) fn at_terminal(screen: Screen) -> Option<Ask> {
    terminal()?;
    Some(Box::new(move |question| {
        // Takes away what stands on the last line.
        screen.say("");
        ask(question, screen).unwrap_or(Said::Nothing)
    }))
}

fn terminal() -> Option<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .ok()
}

fn ask(question: &Question<'_>, screen: Screen) -> Option<Said> {
    let mut terminal = terminal()?;
    let theme = screen.theme();
    let _pause = interrupt::pause();
    let call = theme.action.style(strict(question.call));
    let why = theme
        .notice
        .style(format!("because: {}", strict(question.why)));
    let keys = match question.for_good {
        true => "y yes, a always in this conversation, n no, or why not: ",
        false => "y yes, n no, or why not: ",
    };
    // What was typed before the question is no answer to it.
    tcflush(&terminal, QueueSelector::IFlush).ok()?;
    write!(terminal, "Run {call} ?\n{why}\n{keys}").ok()?;
    interrupt::wait(Some((terminal.as_fd(), PollFlags::IN)), None).ok()?;
    let mut line = String::new();
    let mut reader = BufReader::new((&terminal).take(LINE_LIMIT));
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    Some(match line.trim() {
        "y" | "Y" | "yes" => Said::Yes,
        "a" | "A" | "always" => Said::Always,
        "" | "n" | "N" | "no" => Said::No(None),
        reason => Said::No(Some(reason.to_owned())),
    })
}
