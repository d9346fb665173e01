//! Ctrl-C, and being told to end. Everything that waits, waits here, and so notices at once.
//!
//! There is one state for the process, because signals are sent to processes. Where nothing has been
//! installed, nothing is ever interrupted.

use std::cell::Cell;
use std::fmt;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, pipe};

/// The signal of Ctrl-C.
pub(crate) const CTRL_C: i32 = SIGINT;
/// How long work that was told to end may take to do so.
const GRACE: Duration = Duration::from_secs(2);

/// How often somebody is told that the program still waits.
const TICK: Duration = Duration::from_millis(100);

static STATE: OnceLock<State> = OnceLock::new();
static TOLD: OnceLock<fn()> = OnceLock::new();

struct State {
    /// The last signal since the work began; none is 0.
    hit: Arc<AtomicUsize>,
    /// A second Ctrl-C during the same work ends the program where it is.
    again: Arc<AtomicBool>,
    /// Nothing is being worked on: a signal ends the program.
    idle: Arc<AtomicBool>,
    /// Readable from a signal on until the next work begins.
    woken: UnixStream,
}

thread_local! {
    /// When the time for the work is over.
    static DEADLINE: Cell<Option<Deadline>> = const { Cell::new(None) };
}

/// When the time for some work is over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    at: Instant,
    limit: Duration,
}

impl Deadline {
    /// After this time from now.
    pub(crate) fn after(limit: Duration) -> Self {
        Self {
            at: Instant::now() + limit,
            limit,
        }
    }
}

/// Why work was stopped where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupted {
    /// This signal came.
    Signal(i32),
    /// The time for it, which was this long, is over.
    Time(Duration),
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Signal(_) => "interrupted",
            Self::Time(_) => "the time is over",
        })
    }
}

impl std::error::Error for Interrupted {}

/// From here on a signal stops the work under way, and ends the program only when there is none. A
/// signal that the program was started to ignore stays ignored. At a prompt Ctrl-C ends nothing but
/// work; and as its terminal is in a mode of its own, somebody watches who restores it first and writes `at_prompt`, which ends the
/// mode that the terminal itself is in.
pub fn install(at_prompt: Option<&'static str>) -> io::Result<()> {
    if STATE.get().is_some() {
        return Ok(());
    }
    let (woken, waker) = UnixStream::pair()?;
    woken.set_nonblocking(true)?;
    waker.set_nonblocking(true)?;
    let state = State {
        hit: Arc::default(),
        again: Arc::default(),
        idle: Arc::new(AtomicBool::new(true)),
        woken,
    };
    for signal in [SIGINT, SIGTERM, SIGHUP]
        .into_iter()
        .filter(|signal| !is_ignored(*signal))
    {
        if at_prompt.is_none() {
            flag::register_conditional_shutdown(signal, 128 + signal, state.idle.clone())?;
        }
        if signal == SIGINT {
            flag::register_conditional_shutdown(signal, 128 + signal, state.again.clone())?;
            flag::register(signal, state.again.clone())?;
        }
        flag::register_usize(
            signal,
            state.hit.clone(),
            usize::try_from(signal).unwrap_or_default(),
        )?;
        pipe::register(signal, waker.try_clone()?)?;
    }
    if let Some(last) = at_prompt {
        watch(state.idle.clone(), last)?;
    }
    let _ = STATE.set(state);
    Ok(())
}

/// Restores the terminal when the program is told to end while nothing is being worked on, or while
/// the work does not notice.
fn watch(idle: Arc<AtomicBool>, last: &'static str) -> io::Result<()> {
    let ends = [SIGTERM, SIGHUP]
        .into_iter()
        .filter(|signal| !is_ignored(*signal));
    let mut signals = Signals::new(ends)?;
    let before = tcgetattr(io::stdin()).ok();
    let watcher = move || {
        let Some(signal) = signals.forever().next() else {
            return;
        };
        if !idle.load(Ordering::SeqCst) {
            std::thread::sleep(GRACE);
        }
        if let Some(mode) = &before {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, mode);
        }
        // Past the lock of the standard output, which who does not notice may hold.
        let _ = rustix::io::write(io::stdout(), last.as_bytes());
        let _ = emulate_default_handler(signal);
    };
    std::thread::Builder::new()
        .name("watcher".to_owned())
        .spawn(watcher)
        .map(|_| ())
}

/// Whether the program was started with this signal ignored, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// While it lives, signals stop the work and not the program.
pub(crate) struct Working(());

/// Work begins: signals from before it do not count.
pub(crate) fn working() -> Working {
    if let Some(state) = STATE.get() {
        let mut bytes = [0; 64];
        while (&state.woken).read(&mut bytes).is_ok_and(|read| read > 0) {}
        state.hit.store(0, Ordering::SeqCst);
        state.again.store(false, Ordering::SeqCst);
        state.idle.store(false, Ordering::SeqCst);
    }
    Working(())
}

impl Drop for Working {
    fn drop(&mut self) {
        if let Some(state) = STATE.get() {
            state.idle.store(true, Ordering::SeqCst);
        }
    }
}

/// Sets when the time for the work on this thread is over, or that it never is. Gives what was set
/// before.
pub(crate) fn deadline(deadline: Option<Deadline>) -> Option<Deadline> {
    DEADLINE.replace(deadline)
}

/// The time for the work on this thread is over, as it was once before, after so long.
pub(crate) fn time_is_over(limit: Duration) {
    let at = Instant::now();
    deadline(Some(Deadline { at, limit }));
}

/// While it lives, somebody thinks, and the time for the work stands still.
pub(crate) struct Pause(Instant, Option<Deadline>);

/// Has the time stand still.
pub(crate) fn pause() -> Pause {
    Pause(Instant::now(), deadline(None))
}

impl Drop for Pause {
    fn drop(&mut self) {
        deadline(self.1.map(|Deadline { at, limit }| Deadline {
            at: at + self.0.elapsed(),
            limit,
        }));
    }
}

/// Why the work under way is to stop, if it is.
pub(crate) fn reason() -> Option<Interrupted> {
    let signal = STATE.get().map(|state| state.hit.load(Ordering::SeqCst));
    match signal.and_then(|signal| i32::try_from(signal).ok()) {
        Some(signal) if signal != 0 => Some(Interrupted::Signal(signal)),
        _ => {
            let over = DEADLINE
                .get()
                .filter(|deadline| deadline.at <= Instant::now());
            over.map(|deadline| Interrupted::Time(deadline.limit))
        }
    }
}

/// Fails if the work is to stop.
pub(crate) fn check() -> Result<(), Interrupted> {
    reason().map_or(Ok(()), Err)
}

/// Has this called again and again while the program waits.
pub(crate) fn while_waiting(tell: fn()) {
    let _ = TOLD.set(tell);
}

/// Waits for so long.
pub(crate) fn sleep(time: Duration) -> Result<(), Interrupted> {
    match wait(None, Some(Instant::now() + time)) {
        Err(error) => Err(error
            .get_ref()
            .and_then(|error| error.downcast_ref())
            .copied()
            .unwrap_or(Interrupted::Signal(SIGINT))),
        Ok(_) => Ok(()),
    }
}

/// Waits until something can be read from or written to `what`, or until the time is over; says
/// whether it can. A signal ends the wait as an error of a kind that nobody retries.
pub(crate) fn wait(
    what: Option<(BorrowedFd<'_>, PollFlags)>,
    until: Option<Instant>,
) -> io::Result<bool> {
    let state = STATE.get();
    loop {
        if let Err(interrupted) = check() {
            return Err(io::Error::other(interrupted));
        }
        let deadline = DEADLINE.get().map(|deadline| deadline.at);
        let over = until.into_iter().chain(deadline).min();
        let mut left = over.map(|until| until.saturating_duration_since(Instant::now()));
        if let Some(tell) = TOLD.get() {
            tell();
            left = Some(left.map_or(TICK, |left| left.min(TICK)));
        }
        let left = left.map(|left| {
            Timespec::try_from(left).unwrap_or(Timespec {
                tv_sec: i64::from(u32::MAX),
                tv_nsec: 0,
            })
        });
        let mut watched: Vec<PollFd<'_>> = Vec::with_capacity(2);
        if let Some((fd, flags)) = &what {
            watched.push(PollFd::from_borrowed_fd(*fd, *flags));
        }
        if let Some(state) = state {
            watched.push(PollFd::from_borrowed_fd(state.woken.as_fd(), PollFlags::IN));
        }
        match poll(&mut watched, left.as_ref()) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
            // Anything about it, also an error, is for who reads or writes it.
            Ok(_) if what.is_some() && !watched[0].revents().is_empty() => return Ok(true),
            Ok(_) => {}
        }
        if reason().is_none() && until.is_some_and(|until| until <= Instant::now()) {
            return Ok(false);
        }
    }
}
