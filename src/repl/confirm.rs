//! Asking the person about an action: on the terminal itself, whatever the streams of the program are.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;

use rustix::event::PollFlags;
use rustix::termios::{QueueSelector, tcflush};

use super::LINE_LIMIT;
use crate::engine::approval::{Ask, Question, Said};
use crate::interrupt;
use crate::secret::scrub;
use crate::ui::screen::Screen;
use crate::ui::text::strict;

/// The terminal itself.
pub(super) struct Terminal(File);

impl Terminal {
    /// The terminal, if there is one.
    pub(super) fn open() -> Option<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).open("/dev/tty");
        file.ok().map(Self)
    }

    /// Writes there. What outside text is in it has been cleaned.
    pub(super) fn say(&mut self, text: &str) {
        let _ = self.0.write_all(scrub(text).as_bytes());
    }

    /// What is typed after this; nothing at the end, or when the wait is ended. What was typed before is no
    /// answer. The time for the work stands still.
    pub(super) fn ask(&mut self, prompt: &str) -> Option<String> {
        let _pause = interrupt::pause();
        tcflush(&self.0, QueueSelector::IFlush).ok()?;
        self.say(prompt);
        interrupt::wait(Some((self.0.as_fd(), PollFlags::IN)), None).ok()?;
        let mut line = String::new();
        let mut reader = BufReader::new((&self.0).take(LINE_LIMIT));
        match reader.read_line(&mut line).ok()? {
            0 => None,
            _ => Some(line),
        }
    }
}

/// Asks on the terminal, if there is one.
pub(crate) fn at_terminal(screen: Screen) -> Option<Ask> {
    Terminal::open()?;
    Some(Box::new(move |question| {
        // Takes away what stands on the last line.
        screen.say("");
        ask(question, screen).unwrap_or(Said::Nothing)
    }))
}

fn ask(question: &Question<'_>, screen: Screen) -> Option<Said> {
    let mut terminal = Terminal::open()?;
    let theme = screen.theme();
    let call = theme.action.style(strict(question.call));
    let why = theme
        .notice
        .style(format!("because: {}", strict(question.why)));
    let keys = match question.for_good {
        true => "y yes, a always in this conversation, n no, or why not: ",
        false => "y yes, n no, or why not: ",
    };
    let line = terminal.ask(&format!("Run {call} ?\n{why}\n{keys}"))?;
    Some(match line.trim() {
        "y" | "Y" | "yes" => Said::Yes,
        "a" | "A" | "always" => Said::Always,
        "" | "n" | "N" | "no" => Said::No(None),
        reason => Said::No(Some(reason.to_owned())),
    })
}
