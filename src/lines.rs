//! `--lines`: a question a line, an answer a line. Nothing is remembered from one to the next.

use std::cell::RefCell;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use crate::agent::{Agent, Task};
use crate::config::Config;
use crate::error::{Error, Result};
use crate::interrupt;
use crate::repl::confirm;
use crate::session::Sink;
use crate::session::event::{Event, Fact};
use crate::tool::output;
use crate::ui::status;
use crate::ui::text::clean;

/// The longest line.
const LONGEST: u64 = 1 << 20;

/// What went wrong with a question, as its session had it.
#[derive(Clone, Default)]
struct Wrong(Rc<RefCell<Option<String>>>);

impl Sink for Wrong {
    fn see(&mut self, event: &Event) -> Result<()> {
        if let Fact::Error { text, .. } = &event.fact {
            *self.0.borrow_mut() = Some(text.clone());
        }
        Ok(())
    }
}

/// Answers each line of standard input, with `before` put before each. Line N of the output is the answer
/// to line N: line breaks in it are `\n` and backslashes `\\`; it is empty where there is no answer. Gives 0
/// if all were answered, else 1.
pub(crate) fn run(before: &str, config: &Config) -> Result<u8> {
    let screen = config.screen;
    let wrong = Wrong::default();
    let mut agent = config
        .agent(None, confirm::at_terminal(screen))
        .sinks(crate::records(config))
        .sink(wrong.clone())
        .sessions(1);
    if config.options.json {
        agent = agent.sinks(crate::views(&config.options, screen));
    }
    if screen.live {
        agent = agent.sink(status::Status::new(screen.theme()));
    }
    let mut agent = agent.build()?;
    interrupt::install(None)?;
    let (mut answered, mut failed) = (0_u64, 0_u64);
    while let Some(line) = next()? {
        let number = answered + failed + 1;
        if screen.live {
            status::progress(format!(
                "{answered} answered, {failed} failed, line {number}: "
            ));
        }
        let answer = match line {
            Ok(line) => ask(&mut agent, before, &line, config),
            Err(why) => Err(Error::config(why)),
        };
        let text = match answer {
            Ok(text) => {
                answered += 1;
                text
            }
            Err(error @ Error::Write(_)) => return Err(error),
            Err(error @ Error::Interrupted(_)) => return Ok(error.exit_code()),
            Err(error) => {
                failed += 1;
                let why = wrong.0.take().unwrap_or_else(|| error.to_string());
                screen.notice(&format!("line {number}: {why}"));
                String::new()
            }
        };
        if !config.options.json {
            let text = clean(&text).replace('\\', "\\\\").replace('\n', "\\n");
            screen.put(&format!("{text}\n"))?;
        }
    }
    if !config.options.quiet && !config.options.json {
        let all = answered + failed;
        let s = if all == 1 { "" } else { "s" };
        screen.notice(&format!(
            "{all} question{s}: {answered} answered, {failed} failed"
        ));
    }
    Ok(u8::from(failed > 0))
}

fn ask(agent: &mut Agent, before: &str, line: &str, config: &Config) -> Result<String> {
    agent.forget();
    output::forget();
    let query = format!("{before} {line}").trim().to_owned();
    // What goes before it asks nothing by itself.
    if line.trim().is_empty() {
        return Err(Error::EmptyTask);
    }
    let task = Task {
        query,
        attachments: config.attachments.clone(),
        ..Task::default()
    };
    // What is on tape is not asked again to be recorded once more.
    let recorded = config.tape.as_ref().filter(|tape| !tape.plays());
    let answered = recorded.and_then(|tape| tape.answered(&task.query, &task.attachments));
    match answered {
        Some(text) => Ok(text),
        None => Ok(config.ask(agent, task)?.text),
    }
}

/// The next line, or why it cannot be taken; none at the end.
fn next() -> Result<Option<std::result::Result<String, String>>> {
    let mut stdin = io::stdin().lock();
    let mut bytes = Vec::new();
    let cannot = |error: io::Error| Error::config(format!("cannot read standard input: {error}"));
    (&mut stdin)
        .take(LONGEST)
        .read_until(b'\n', &mut bytes)
        .map_err(cannot)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() as u64 == LONGEST && !bytes.ends_with(b"\n") {
        stdin.skip_until(b'\n').map_err(cannot)?;
        return Ok(Some(Err(format!("it is longer than {LONGEST} bytes"))));
    }
    Ok(Some(Ok(String::from_utf8_lossy(&bytes).trim().to_owned())))
}
