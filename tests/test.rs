//! One run of the real program, in a folder of its own, with an empty home and nothing inherited from the environment.

use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::server::Server;

/// The program under test.
pub(crate) const REAGENT: &str = env!("CARGO_BIN_EXE_reagent");

/// A tool that returns its one argument, for tests that look at what a tool was given.
pub(crate) const ECHO: &str = r#"
[[tool]]
name = "echo"
function = "debug.echo"
description = "Returns its text."
params.text = { type = "string" }
"#;

/// What stands at the other end of the program's standard input.
#[derive(Clone)]
enum Input {
    Null,
    Closed,
    Pipe {
        writes: Vec<(Duration, Vec<u8>)>,
        then: Then,
    },
}

#[derive(Clone, Copy, PartialEq)]
enum Then {
    Close,
    StayOpen,
}

/// What is done with the program's standard output.
#[derive(Clone, Copy, PartialEq)]
enum Output {
    Keep,
    CloseAfterOneLine,
}

/// The description of a run; `run` may be called more than once, in the same folder.
pub(crate) struct Test {
    folder: TempDir,
    args: Vec<OsString>,
    env: Vec<(String, String)>,
    input: Input,
    output: Output,
    deadline: Duration,
}

impl Test {
    /// The program without arguments, `/dev/null` as its input.
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new()
            .prefix("reagent-test-")
            .tempdir()
            .unwrap();
        fs::create_dir(folder.path().join("work")).unwrap();
        fs::create_dir(folder.path().join("home")).unwrap();
        Test {
            folder,
            args: Vec::new(),
            env: Vec::new(),
            input: Input::Null,
            output: Output::Keep,
            deadline: Duration::from_secs(25),
        }
    }

    /// The program with the scripted model.
    pub(crate) fn with(server: &Server) -> Self {
        Test::new().args(["--base-url", &server.base_url(), "-m", "scripted"])
    }

    /// The program with the built-in demo model.
    pub(crate) fn demo() -> Self {
        Test::new().args(["-m", "demo"])
    }

    pub(crate) fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(crate) fn args<S: Into<OsString>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<String>) -> Self {
        self.env.push((name.to_owned(), value.into()));
        self
    }

    /// Writes a file into the working folder.
    pub(crate) fn file(self, name: &str, content: impl AsRef<[u8]>) -> Self {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self
    }

    /// Gives the program a tools file by `--tools`, which is trust.
    pub(crate) fn tools(self, content: &str) -> Self {
        self.file("given.toml", content)
            .args(["--tools", "given.toml"])
    }

    /// A pipe that gives these bytes at once and ends.
    pub(crate) fn stdin(self, text: impl Into<Vec<u8>>) -> Self {
        self.stdin_after(Duration::ZERO, text)
    }

    /// A pipe that gives these bytes after a while and ends.
    pub(crate) fn stdin_after(mut self, delay: Duration, text: impl Into<Vec<u8>>) -> Self {
        self.input = Input::Pipe {
            writes: vec![(delay, text.into())],
            then: Then::Close,
        };
        self
    }

    /// A pipe that gives each of these, waiting before each, and ends.
    pub(crate) fn stdin_parts(mut self, parts: &[(Duration, &str)]) -> Self {
        self.input = Input::Pipe {
            writes: parts
                .iter()
                .map(|(d, t)| (*d, t.as_bytes().to_vec()))
                .collect(),
            then: Then::Close,
        };
        self
    }

    /// A pipe that says nothing and stays open until the program has ended.
    pub(crate) fn silent_stdin(mut self) -> Self {
        self.input = Input::Pipe {
            writes: Vec::new(),
            then: Then::StayOpen,
        };
        self
    }

    /// No standard input at all, as with `<&-`.
    pub(crate) fn closed_stdin(mut self) -> Self {
        self.input = Input::Closed;
        self
    }

    /// Reads one line of the program's output and closes it, as `| head -1` does.
    pub(crate) fn close_stdout_after_one_line(mut self) -> Self {
        self.output = Output::CloseAfterOneLine;
        self
    }

    /// The program's working folder.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Where the program keeps sessions and history.
    pub(crate) fn state(&self) -> PathBuf {
        self.folder.path().join("home/.local/state/reagent")
    }

    /// The audit log of the one session that there was.
    #[track_caller]
    pub(crate) fn audit(&self) -> Vec<Value> {
        let entries = fs::read_dir(self.state().join("audit")).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let mut logs = paths.filter(|path| !path.ends_with("heads.jsonl"));
        let log = logs.next().expect("a session");
        assert!(logs.next().is_none(), "one session");
        let log = fs::read_to_string(log).unwrap();
        log.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    /// The command, in a session of its own so that it cannot reach the terminal of whoever runs the tests.
    pub(crate) fn command(&self, setsid: &[&str]) -> Command {
        let mut command = Command::new("setsid");
        command.args(setsid);
        if matches!(self.input, Input::Closed) {
            command.args(["/bin/sh", "-c", r#"exec "$0" "$@" <&-"#]);
        }
        command
            .arg(REAGENT)
            .args(&self.args)
            .current_dir(self.work())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path().join("home"))
            .env("LANG", "C.UTF-8")
            .env("TERM", "xterm-256color")
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs the program to its end. A panic, an escape byte in a pipe and a hang fail the test whatever else it asks.
    #[track_caller]
    pub(crate) fn run(&self) -> Run {
        self.start().finish()
    }

    /// Starts the program.
    pub(crate) fn start(&self) -> Running {
        let mut command = self.command(&[]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.stdin(match self.input {
            Input::Null | Input::Closed => Stdio::null(),
            Input::Pipe { .. } => Stdio::piped(),
        });
        let started = Instant::now();
        let mut child = command.spawn().expect("starting setsid and reagent");
        let (done, until_done) = mpsc::channel();
        Running {
            args: format!("{:?}", self.args),
            started,
            deadline: self.deadline,
            done,
            writer: child.stdin.take().map(|pipe| self.feed(pipe, until_done)),
            stdout: collect(child.stdout.take().unwrap(), self.output),
            stderr: collect(child.stderr.take().unwrap(), Output::Keep),
            child,
        }
    }

    fn feed(&self, mut pipe: ChildStdin, until_done: mpsc::Receiver<()>) -> JoinHandle<()> {
        let Input::Pipe { writes, then } = self.input.clone() else {
            unreachable!("only a pipe is fed");
        };
        thread::spawn(move || {
            for (delay, bytes) in writes {
                // Waiting on the channel instead of sleeping: a program that has ended need not be waited for.
                if !delay.is_zero() && until_done.recv_timeout(delay).is_ok() {
                    return;
                }
                if pipe.write_all(&bytes).and_then(|()| pipe.flush()).is_err() {
                    return;
                }
            }
            if then == Then::StayOpen {
                let _ = until_done.recv();
            }
        })
    }
}

/// The program under way.
pub(crate) struct Running {
    args: String,
    started: Instant,
    deadline: Duration,
    done: mpsc::Sender<()>,
    writer: Option<JoinHandle<()>>,
    stdout: JoinHandle<(String, Instant)>,
    stderr: JoinHandle<(String, Instant)>,
    child: Child,
}

impl Running {
    /// The program itself: `setsid` has become it.
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Waits for the end that a signal brings; says how long it took from there.
    #[track_caller]
    pub(crate) fn end_by(self, signal: Signal) -> (Run, Duration) {
        let sent = Instant::now();
        kill_process(self.pid(), signal).unwrap();
        let started = self.started;
        let run = self.finish();
        let took = started + run.duration - sent;
        (run, took)
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn finish(mut self) -> Run {
        let (status, peak_kib) = wait(&mut self.child, self.deadline);
        let duration = self.started.elapsed();
        let _ = self.done.send(());
        if let Some(writer) = self.writer {
            writer.join().unwrap();
        }
        let (stdout, first) = self.stdout.join().unwrap();
        let run = Run {
            command: self.args,
            status,
            stdout,
            stderr: self.stderr.join().unwrap().0,
            duration,
            first_output: first - self.started,
            peak_kib,
        };
        run.check(run.status.is_some(), "it ends before the deadline");
        run.check(!run.stderr.contains("panicked at"), "it never panics");
        run.check(
            !run.stdout.contains('\u{1b}') && !run.stderr.contains('\u{1b}'),
            "no escape byte reaches a pipe",
        );
        run
    }
}

/// Reads to the end, and notes when the first byte came.
fn collect(pipe: impl Read + Send + 'static, output: Output) -> JoinHandle<(String, Instant)> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut pipe = BufReader::new(pipe);
        let _ = pipe.fill_buf();
        let first = Instant::now();
        let _ = match output {
            Output::Keep => pipe.read_to_end(&mut bytes),
            Output::CloseAfterOneLine => pipe.read_until(b'\n', &mut bytes),
        };
        (String::from_utf8_lossy(&bytes).into_owned(), first)
    })
}

/// Waits for the child, kills it at the deadline, and reads the largest resident size seen on the way.
pub(crate) fn wait(child: &mut Child, deadline: Duration) -> (Option<ExitStatus>, u64) {
    let end = Instant::now() + deadline;
    let mut peak = 0;
    loop {
        peak = peak.max(resident_peak(child.id()));
        if let Some(status) = child.try_wait().unwrap() {
            return (Some(status), peak);
        }
        if Instant::now() > end {
            child.kill().unwrap();
            child.wait().unwrap();
            return (None, peak);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// `VmHWM` in KiB: the kernel's own high-water mark, so looking now and then misses nothing but the last moment.
fn resident_peak(pid: u32) -> u64 {
    fs::read_to_string(format!("/proc/{pid}/status"))
        .unwrap_or_default()
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse().ok())
        .unwrap_or(0)
}

/// What came of a run. Every check prints the whole run when it fails.
pub(crate) struct Run {
    command: String,
    status: Option<ExitStatus>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) duration: Duration,
    /// When the first byte came on stdout, or its end.
    pub(crate) first_output: Duration,
    pub(crate) peak_kib: u64,
}

impl Run {
    #[track_caller]
    pub(crate) fn check(&self, holds: bool, what: &str) {
        assert!(
            holds,
            "expected that {what}\n  reagent {}\n  status {:?} after {:?}\n--- stdout\n{}\n--- stderr\n{}\n---",
            self.command,
            self.status,
            self.duration,
            excerpt(&self.stdout),
            excerpt(&self.stderr),
        );
    }

    /// The exit code; a signal counts as 128 and its number, as a shell has it.
    pub(crate) fn exit_code(&self) -> i32 {
        let status = self.status.expect("the run has ended");
        status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    }

    #[track_caller]
    pub(crate) fn code(self, code: i32) -> Self {
        self.check(
            self.exit_code() == code,
            &format!("the exit code is {code}"),
        );
        self
    }

    #[track_caller]
    pub(crate) fn success(self) -> Self {
        self.code(0)
    }

    #[track_caller]
    pub(crate) fn stdout(self, text: &str) -> Self {
        self.check(self.stdout == text, &format!("stdout is exactly {text:?}"));
        self
    }

    #[track_caller]
    pub(crate) fn out_has(self, text: &str) -> Self {
        self.check(self.stdout.contains(text), &format!("stdout has {text:?}"));
        self
    }

    #[track_caller]
    pub(crate) fn stdout_lacks(self, text: &str) -> Self {
        self.check(
            !self.stdout.contains(text),
            &format!("stdout lacks {text:?}"),
        );
        self
    }

    #[track_caller]
    pub(crate) fn err_has(self, text: &str) -> Self {
        self.check(self.stderr.contains(text), &format!("stderr has {text:?}"));
        self
    }

    #[track_caller]
    pub(crate) fn err_lacks(self, text: &str) -> Self {
        self.check(
            !self.stderr.contains(text),
            &format!("stderr lacks {text:?}"),
        );
        self
    }

    /// A line on stderr that begins so.
    #[track_caller]
    pub(crate) fn err_line(self, start: &str) -> Self {
        self.check(
            self.stderr.lines().any(|line| line.starts_with(start)),
            &format!("a line on stderr starts with {start:?}"),
        );
        self
    }

    /// An `error:` line that holds this text, whatever its case.
    #[track_caller]
    pub(crate) fn error(self, text: &str) -> Self {
        self.labelled("error: ", text)
    }

    /// An `error` of `--json` that holds this text.
    #[track_caller]
    pub(crate) fn error_event(self, text: &str) -> Self {
        let events = self.events();
        let told = events.of("error").iter().any(|error| {
            error["text"]
                .as_str()
                .is_some_and(|told| told.contains(text))
        });
        self.check(told, &format!("an error has {text:?}"));
        self
    }

    /// A `hint:` line that holds this text, whatever its case.
    #[track_caller]
    pub(crate) fn hint(self, text: &str) -> Self {
        self.labelled("hint: ", text)
    }

    /// A `notice:` line that holds this text, whatever its case.
    #[track_caller]
    pub(crate) fn notice(self, text: &str) -> Self {
        self.labelled("notice: ", text)
    }

    #[track_caller]
    fn labelled(self, label: &str, text: &str) -> Self {
        let wanted = text.to_lowercase();
        self.check(
            self.stderr
                .lines()
                .filter(|line| line.starts_with(label))
                .any(|line| line.to_lowercase().contains(&wanted)),
            &format!("a `{label}` line has {text:?}"),
        );
        self
    }

    #[track_caller]
    pub(crate) fn within(self, limit: Duration) -> Self {
        self.check(
            self.duration < limit,
            &format!("it takes less than {limit:?}"),
        );
        self
    }

    /// The trace on stderr without blank lines and notices.
    pub(crate) fn trace(&self) -> Vec<&str> {
        self.stderr
            .lines()
            .filter(|line| !line.trim().is_empty() && !line.starts_with("notice: "))
            .collect()
    }

    /// What `--json` wrote.
    #[track_caller]
    pub(crate) fn events(&self) -> Events {
        let lines = self.stdout.lines().map(|line| {
            let event: Option<Value> = serde_json::from_str(line).ok();
            self.check(
                event.as_ref().is_some_and(Value::is_object),
                &format!("this line is a JSON object: {line}"),
            );
            event.unwrap()
        });
        Events(lines.collect())
    }
}

fn excerpt(text: &str) -> String {
    if text.len() < 6000 {
        return text.to_owned();
    }
    let head: String = text.chars().take(3000).collect();
    format!("{head}\n... ({} bytes in all)", text.len())
}

/// The events of one or more queries.
pub(crate) struct Events(pub(crate) Vec<Value>);

impl Events {
    /// Those of one type, in order.
    pub(crate) fn of(&self, kind: &str) -> Vec<&Value> {
        self.0
            .iter()
            .filter(|event| event["type"] == kind)
            .collect()
    }

    /// The kinds of the spans, in the order in which they closed.
    pub(crate) fn spans(&self) -> Vec<&str> {
        let kinds = self.of("span").into_iter();
        kinds.map(|span| span["kind"].as_str().unwrap()).collect()
    }

    /// The last event of the last query.
    #[track_caller]
    pub(crate) fn end(&self) -> &Value {
        let last = self.0.last().expect("at least one event");
        assert_eq!(last["type"], "end", "the last event is `end`: {last}");
        last
    }
}

/// The permission bits of a file.
pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Milliseconds.
pub(crate) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}
