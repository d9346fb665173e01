//! The step debugger: stops before actions, shows what was and will be sent, and takes what is to become of
//! it from the person, on the terminal itself.

use std::cell::RefCell;
use std::rc::Rc;

use super::confirm::Terminal;
use crate::engine::parse::{self, Next};
use crate::engine::steer::{Hand, Moment, Steer};
use crate::error::{Error, Result};
use crate::llm::Finish;
use crate::session::event::Role;
use crate::tool::Toolchain;
use crate::tool::call::Call;
use crate::ui::screen::Screen;
use crate::ui::text::{clean, indented, strict};

const KEYS: &str = "Enter runs it; e CALL another one, t THOUGHT another thought, s WHY skip it, a RESULT answer \
    for the tool, m what was sent, c go on without stopping, q stop";

/// Where the person wants to stop.
#[derive(Debug, Default)]
pub(crate) struct Breaks {
    /// Before every action.
    pub(crate) every: bool,
    /// Before actions of this tool, of this step, or with this text in call or thought.
    pub(crate) at: Vec<String>,
}

impl Breaks {
    fn fits(&self, moment: &Moment<'_>) -> bool {
        let named = |at: &String| {
            *at == moment.call.tool
                || *at == moment.step.to_string()
                || moment.shown.contains(at.as_str())
                || moment
                    .thought
                    .is_some_and(|thought| thought.contains(at.as_str()))
        };
        self.every || self.at.iter().any(named)
    }
}

/// Stops before every action. Fails if there is no terminal to stop at.
pub(crate) fn at_terminal(screen: Screen) -> Result<Stepper> {
    let none = || Error::config_hint("`--step` needs a terminal", "reagent --step \"2 + 3 * 4\"");
    Terminal::open().ok_or_else(none)?;
    let breaks = Breaks {
        every: true,
        at: Vec::new(),
    };
    Ok(Stepper::new(screen, Rc::new(RefCell::new(breaks))))
}

/// Steers by what the person types.
pub(crate) struct Stepper {
    screen: Screen,
    breaks: Rc<RefCell<Breaks>>,
    /// Whether the action under way was stopped at.
    stopped: bool,
}

impl Stepper {
    /// Stops there.
    pub(crate) fn new(screen: Screen, breaks: Rc<RefCell<Breaks>>) -> Self {
        Self {
            screen,
            breaks,
            stopped: false,
        }
    }

    /// What the person wants with an action; nothing if they have to be asked again.
    fn take(&self, line: &str, moment: &Moment<'_>, terminal: &mut Terminal) -> Option<Steer> {
        let (key, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim().to_owned();
        Some(match (key, rest.is_empty()) {
            ("", _) => Steer::Run,
            ("e", false) => match read(&rest, moment.tools) {
                Ok(call) => Steer::Change(call),
                Err(why) => {
                    terminal.say(&format!("{}\n", strict(&why)));
                    return None;
                }
            },
            ("t", false) => Steer::Think(rest),
            ("s", true) => Steer::Skip("no reason was given".to_owned()),
            ("s", false) => Steer::Skip(rest),
            ("a", false) => Steer::Answer(rest),
            ("c", true) => {
                *self.breaks.borrow_mut() = Breaks::default();
                Steer::Run
            }
            ("q", true) => Steer::Stop,
            ("m", true) => {
                for message in moment.messages {
                    let role = match message.role {
                        Role::System => "system",
                        Role::User => "user",
                        Role::Assistant => "assistant",
                        Role::Tool => "tool",
                    };
                    let text = indented(&clean(&message.content));
                    terminal.say(&format!("{role}: {text}\n"));
                }
                return None;
            }
            _ => {
                terminal.say(&format!("{KEYS}\n"));
                return None;
            }
        })
    }
}

/// The call that was typed, as a model would write it.
fn read(text: &str, tools: &Toolchain) -> std::result::Result<Call, String> {
    match parse::parse(&format!("Action: {text}"), Finish::Stop).next {
        Next::Action(proposal) => tools.bind(&proposal).map_err(|rejection| rejection.0),
        Next::Malformed(why) => Err(why),
        _ => Err("this is no call".to_owned()),
    }
}

impl Hand for Stepper {
    fn before(&mut self, moment: &Moment<'_>) -> Steer {
        self.stopped = self.breaks.borrow().fits(moment);
        if !self.stopped {
            return Steer::Run;
        }
        // Takes away what stands on the last line.
        self.screen.say("");
        let Some(mut terminal) = Terminal::open() else {
            return Steer::Run;
        };
        let theme = self.screen.theme();
        let call = theme.action.style(strict(moment.shown));
        let keys = theme.notice.style(KEYS);
        terminal.say(&format!("Step {}: {call}\n{keys}\n", moment.step));
        loop {
            let Some(line) = terminal.ask("step> ") else {
                return Steer::Stop;
            };
            if let Some(steer) = self.take(line.trim(), moment, &mut terminal) {
                // What the person gave is not shown to them once more.
                self.stopped = matches!(steer, Steer::Run | Steer::Change(_));
                return steer;
            }
        }
    }

    fn after(&mut self, observation: &str) -> Option<String> {
        if !std::mem::take(&mut self.stopped) || !self.breaks.borrow().every {
            return None;
        }
        let mut terminal = Terminal::open()?;
        let text = indented(&clean(observation));
        terminal.say(&format!("It gave: {text}\n"));
        let line = terminal.ask("Enter keeps it; or what the model is told: ")?;
        let line = line.trim();
        (!line.is_empty()).then(|| line.to_owned())
    }
}
