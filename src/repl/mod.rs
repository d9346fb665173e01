//! The prompt: a line is a command or a question, until there are no more.

mod action;
mod command;
pub(crate) mod confirm;
mod editor;
pub(crate) mod stepper;

use std::cell::RefCell;
use std::io::{self, BufRead, IsTerminal, Read};
use std::os::fd::AsFd;
use std::rc::Rc;

use rustix::event::PollFlags;

use crate::agent::{Agent, Task};
use crate::config::{self, Config};
use crate::engine::limits::GoOn;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::report;
use crate::resume::Conversation;
use command::Flow;
use editor::{Editor, Line};
use stepper::{Breaks, Stepper};

/// The exit codes of a program that was told to end, or whose terminal has gone.
const ENDED: u8 = 143;
const HUNG_UP: u8 = 129;
/// The longest line that is taken from a pipe.
const LINE_LIMIT: u64 = 1 << 20;

/// What the prompt works with.
pub(crate) struct Repl {
    config: Config,
    agent: Agent,
    /// Tools that are left out.
    off: Vec<String>,
    /// Where the person wants to stop.
    breaks: Rc<RefCell<Breaks>>,
    /// The exit code of the last question.
    code: u8,
}

/// Takes questions until the end; `first` is asked before the first line is read, if it is not empty, and
/// goes on from the conversation `earlier`, if there is one.
/// Gives the exit code of the last question.
pub fn run(config: Config, first: &str, earlier: Option<&str>) -> Result<u8> {
    let mut editor = Editor::open(&config)?;
    interrupt::install(editor.is_terminal().then_some(editor::UNMARKED))?;
    let breaks = Rc::new(RefCell::new(Breaks {
        every: config.options.step,
        at: Vec::new(),
    }));
    let agent = config
        .agent(go_on(&config), confirm::at_terminal(config.screen))
        .hand(Stepper::new(config.screen, breaks.clone()))
        .sinks(crate::sinks(&config))
        .build()?;
    let mut repl = Repl {
        config,
        agent,
        off: Vec::new(),
        breaks,
        code: 0,
    };
    if editor.is_terminal() {
        let model = repl.config.model.name();
        repl.config.screen.notice(&format!(
            "{model} answers; /help lists the commands, Ctrl-D leaves"
        ));
    }
    if let Some(which) = earlier {
        repl.resume(which)?;
    }
    if !first.trim().is_empty() && repl.take(first)? == Flow::Leave {
        return Ok(repl.code);
    }
    loop {
        let flow = match editor.read()? {
            Line::Text(line) => repl.take(&line)?,
            Line::Interrupted => {
                repl.config.screen.notice("Ctrl-D or /exit leaves");
                Flow::Continue
            }
            Line::End => Flow::Leave,
        };
        if flow == Flow::Leave || repl.code == ENDED || repl.code == HUNG_UP {
            return Ok(repl.code);
        }
    }
}

impl Repl {
    /// A line is a command, a question, or nothing.
    fn take(&mut self, line: &str) -> Result<Flow> {
        let line = line.trim();
        let done = match line {
            "" => Ok(Flow::Continue),
            "exit" | "quit" => Ok(Flow::Leave),
            _ => match line.strip_prefix('/') {
                Some(command) => command::run(self, command),
                None => self.ask(line).map(|()| Flow::Continue),
            },
        };
        match done {
            Err(error) if error.is_closed_pipe() => Err(error),
            Err(error) => {
                self.code = report::tell(&error, &self.config.screen);
                Ok(Flow::Continue)
            }
            done => done,
        }
    }

    fn ask(&mut self, question: &str) -> Result<()> {
        let attachments = self.config.attachments.clone();
        let task = Task {
            query: question.to_owned(),
            attachments,
            ..Task::default()
        };
        match self.config.ask(&mut self.agent, task) {
            Ok(_) => self.code = 0,
            Err(error @ (Error::Write(_) | Error::Miss(_))) => return Err(error),
            // Everything else is on record, and was shown from there.
            Err(error) => self.code = error.exit_code(),
        }
        Ok(())
    }

    /// Goes on with a recorded conversation, and with its last question if that was cut off.
    fn resume(&mut self, which: &str) -> Result<()> {
        let conversation = Conversation::load(&self.config, which)?;
        if conversation.cut_off.is_none() {
            conversation.recall(&mut self.agent, &self.config);
            return Ok(());
        }
        let ask = confirm::at_terminal(self.config.screen);
        self.code = conversation.go_on(&mut self.agent, &self.config, ask)?;
        Ok(())
    }

    /// The names of all tools, also of those that are left out.
    fn all_tools(&self) -> Result<Vec<String>> {
        let tools = config::tools(&self.config.options, &mut Vec::new())?;
        Ok(tools.specs().map(|spec| spec.name.clone()).collect())
    }

    /// Reads the tools anew, without those that are left out.
    fn reload(&mut self) -> Result<()> {
        self.config.reload(&self.off)?;
        self.renew()
    }

    /// Changes an option for the rest of the conversation. Nothing changes if it cannot be.
    fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let name = name.replace('_', "-");
        self.config = self.config.with(&name, value)?;
        self.reload()?;
        self.agent.set_sinks(crate::sinks(&self.config));
        Ok(())
    }

    /// Another engine, made from the settings as they are now.
    fn renew(&mut self) -> Result<()> {
        let approve = confirm::at_terminal(self.config.screen);
        let hand = Stepper::new(self.config.screen, self.breaks.clone());
        let agent = self.config.agent(go_on(&self.config), approve).hand(hand);
        self.agent.set_engine(agent.engine()?);
        Ok(())
    }
}

/// Asks on the terminal whether a query may go on when its model calls are used up.
fn go_on(config: &Config) -> Option<GoOn> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return None;
    }
    let screen = config.screen;
    Some(Box::new(move |used| {
        let _pause = interrupt::pause();
        let question = format!("no answer after {used}; allow as many again? [y/N] ");
        let mut reply = String::new();
        screen.say(&question);
        if interrupt::wait(Some((io::stdin().as_fd(), PollFlags::IN)), None).is_err() {
            return false;
        }
        io::stdin()
            .lock()
            .take(LINE_LIMIT)
            .read_line(&mut reply)
            .is_ok()
            && matches!(reply.trim(), "y" | "Y" | "yes")
    }))
}
