//! The program at a pseudo-terminal: what it types, in which colours, and what it makes of keys.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};

use crate::test::{Test, wait};

const PATIENCE: Duration = Duration::from_secs(20);

/// Which of the program's streams are the terminal; the others are `/dev/null` and pipes.
#[derive(Clone, Copy)]
pub(crate) struct On {
    pub(crate) stdin: bool,
    pub(crate) stdout: bool,
    pub(crate) stderr: bool,
}

pub(crate) const ALL: On = On {
    stdin: true,
    stdout: true,
    stderr: true,
};
pub(crate) const OUTPUT: On = On {
    stdin: false,
    stdout: true,
    stderr: true,
};
pub(crate) const STDOUT: On = On {
    stdin: false,
    stdout: true,
    stderr: false,
};
pub(crate) const STDERR: On = On {
    stdin: false,
    stdout: false,
    stderr: true,
};

/// The person's side of the terminal.
pub(crate) struct Terminal {
    keyboard: File,
    child: Child,
    shown: Arc<Mutex<Vec<u8>>>,
    screen: JoinHandle<()>,
    pipes: Vec<JoinHandle<String>>,
    prompts: usize,
    /// How the terminal was set before the program began.
    before: String,
}

impl Terminal {
    /// Starts the program at a terminal of 100 by 40.
    pub(crate) fn start(test: &Test, on: On) -> Self {
        Self::start_in(test, on, 100)
    }

    /// Starts the program at a terminal with so many columns.
    pub(crate) fn start_in(test: &Test, on: On, columns: u16) -> Self {
        let keyboard =
            openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let size = Winsize {
            ws_row: 40,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&keyboard, size).unwrap();
        let before = settings(&keyboard);
        let name = ptsname(&keyboard, Vec::new()).unwrap();
        let device = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true);
            // Without this the tests themselves would take the terminal as theirs.
            options.custom_flags(OFlags::NOCTTY.bits() as i32);
            options.open(name.to_str().unwrap()).unwrap()
        };
        let stdio = |terminal: bool, otherwise: Stdio| {
            if terminal {
                Stdio::from(device())
            } else {
                otherwise
            }
        };
        let mut command = test.command(if on.stdin { &["--ctty"] } else { &[] });
        command.stdin(stdio(on.stdin, Stdio::null()));
        command.stdout(stdio(on.stdout, Stdio::piped()));
        command.stderr(stdio(on.stderr, Stdio::piped()));
        let mut child = command.spawn().expect("starting setsid and reagent");
        // The command holds the terminal's other end; the last byte is known only when the child alone has it.
        drop(command);
        let mut pipes = Vec::new();
        if let Some(pipe) = child.stdout.take() {
            pipes.push(drain(pipe));
        }
        if let Some(pipe) = child.stderr.take() {
            pipes.push(drain(pipe));
        }
        let keyboard = File::from(keyboard);
        let shown = Arc::new(Mutex::new(Vec::new()));
        let screen = watch(keyboard.try_clone().unwrap(), Arc::clone(&shown));
        Terminal {
            keyboard,
            child,
            shown,
            screen,
            pipes,
            prompts: 0,
            before,
        }
    }

    /// Types this. Enter is `\r`, Ctrl-D is `\x04`.
    pub(crate) fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until this text stands on the screen.
    #[track_caller]
    pub(crate) fn wait_for(&self, text: &str) {
        self.wait_until(text, |screen| screen.plain.contains(text));
    }

    /// Waits until one of these texts stands on the screen so many times, all together.
    #[track_caller]
    pub(crate) fn wait_for_times(&self, texts: &[&str], times: usize) {
        self.wait_until(&texts.join(" or "), |screen| {
            let count = texts.iter().map(|text| screen.plain.matches(text).count());
            count.sum::<usize>() >= times
        });
    }

    /// Waits for the next prompt: the editor switches bracketed paste on when it starts to read.
    #[track_caller]
    pub(crate) fn prompt(&mut self) {
        self.prompts += 1;
        let wanted = self.prompts;
        self.wait_until("a prompt", |screen| {
            screen.raw.matches("\u{1b}[?2004h").count() >= wanted
        });
    }

    #[track_caller]
    fn wait_until(&self, what: &str, holds: impl Fn(&Screen) -> bool) {
        let end = Instant::now() + PATIENCE;
        loop {
            let screen = Screen::of(&self.shown.lock().unwrap());
            if holds(&screen) {
                return;
            }
            assert!(
                Instant::now() < end,
                "waited for {what:?} in vain; the screen:\n{:?}",
                screen.raw
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the terminal is set as it was before the program began, as it is while the program works.
    pub(crate) fn is_as_before(&self) -> bool {
        settings(&self.keyboard) == self.before
    }

    /// What stands on the screen now.
    pub(crate) fn shown(&self) -> String {
        Screen::of(&self.shown.lock().unwrap()).plain
    }

    /// Sends a signal to the program.
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the program's end. It leaves the terminal set as it was.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Screen {
        let (status, _) = wait(&mut self.child, PATIENCE);
        self.screen.join().unwrap();
        let mut screen = Screen::of(&self.shown.lock().unwrap());
        screen.pipes = self
            .pipes
            .into_iter()
            .map(|pipe| pipe.join().unwrap())
            .collect();
        let status =
            status.unwrap_or_else(|| panic!("it did not end; the screen:\n{:?}", screen.raw));
        screen.code = status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        assert_eq!(
            settings(&self.keyboard),
            self.before,
            "the terminal's settings"
        );
        assert!(
            !screen.plain.contains("panicked at"),
            "it panicked:\n{}",
            screen.plain
        );
        screen
    }
}

fn settings(terminal: &impl AsFd) -> String {
    format!("{:?}", tcgetattr(terminal).unwrap())
}

fn drain(mut pipe: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Reads until the other end is closed, which a pseudo-terminal reports as an error.
fn watch(mut keyboard: File, shown: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = keyboard.read(&mut buffer) {
            shown.lock().unwrap().extend_from_slice(&buffer[..count]);
        }
    })
}

/// What was written to the terminal.
pub(crate) struct Screen {
    /// Every byte.
    pub(crate) raw: String,
    /// Without escape sequences and carriage returns.
    pub(crate) plain: String,
    /// The style in force at each byte of `plain`: the parameters of `ESC [ … m` since the last reset.
    styles: Vec<Vec<u16>>,
    /// What the streams that are not the terminal said.
    pub(crate) pipes: Vec<String>,
    pub(crate) code: i32,
}

impl Screen {
    fn of(bytes: &[u8]) -> Self {
        let raw = String::from_utf8_lossy(bytes).into_owned();
        let mut plain = String::new();
        let mut styles = Vec::new();
        let mut style: Vec<u16> = Vec::new();
        let mut letters = raw.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\u{1b}' => {
                    if escape(&mut letters, &mut style) == Some('K') {
                        plain.truncate(plain.rfind('\n').map_or(0, |at| at + 1));
                        styles.truncate(plain.len());
                    }
                }
                '\r' => {}
                letter => {
                    plain.push(letter);
                    styles.resize(plain.len(), style.clone());
                }
            }
        }
        Screen {
            raw,
            plain,
            styles,
            pipes: Vec::new(),
            code: -1,
        }
    }

    /// The style of the first letter of this text.
    #[track_caller]
    pub(crate) fn style(&self, text: &str) -> &[u16] {
        let found = self.plain.find(text);
        let start =
            found.unwrap_or_else(|| panic!("{text:?} is not on the screen:\n{}", self.plain));
        &self.styles[start]
    }

    /// Whether any letter has a colour or another style.
    pub(crate) fn is_styled(&self) -> bool {
        self.styles.iter().any(|style| !style.is_empty())
    }
}

/// Reads the rest of an escape sequence; gives its last letter if it is one that moves or paints.
fn escape(letters: &mut std::str::Chars<'_>, style: &mut Vec<u16>) -> Option<char> {
    match letters.next() {
        Some('[') => {
            let mut params = String::new();
            for letter in letters.by_ref() {
                if ('@'..='~').contains(&letter) {
                    if letter == 'm' {
                        apply(&params, style);
                    }
                    return Some(letter);
                }
                params.push(letter);
            }
        }
        // An operating system command runs to BEL, or to ESC and a backslash.
        Some(']') => {
            for letter in letters.by_ref() {
                match letter {
                    '\u{7}' => return None,
                    '\u{1b}' => {
                        letters.next();
                        return None;
                    }
                    _ => {}
                }
            }
        }
        _ => {}
    }
    None
}

fn apply(params: &str, style: &mut Vec<u16>) {
    for param in params.split(';') {
        match param.parse().unwrap_or(0) {
            0 => style.clear(),
            22 => style.retain(|p| !matches!(p, 1 | 2)),
            39 => style.retain(|p| !matches!(p, 30..=37 | 90..=97)),
            param => style.push(param),
        }
    }
}
