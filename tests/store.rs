//! The files of sessions: nothing that was acknowledged is lost, whatever happens to the program or the disk.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::rc::Rc;
use std::thread;

use reagent::agent::Agent;
use reagent::error::Result;
use reagent::llm::scripted::Scripted;
use reagent::session::audit::{Audit, check_folder};
use reagent::session::event::{Event, Fact};
use reagent::session::log::{Disk, Medium, RealDisk};
use reagent::session::store::{self, Store};
use reagent::session::{Session, Sink};
use reagent::tool::params::{Param, Type};
use reagent::tool::{Effect, Spec};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::reply::Reply;
use crate::server::Server;
use crate::test::{ECHO, Test, ms, wait};

/// A session's file of at least so many bytes.
fn file(size: usize) -> Vec<u8> {
    let home = tempfile::tempdir().unwrap();
    let long = "word ".repeat(size / 40);
    let replies = [
        format!("Thought1: Ä \"quoted\" thought.\nAction1: say(\"{long}\")"),
        "Action2: nope(1)".to_owned(),
        "Action3: say(\"short\")".to_owned(),
        "Answer: done".to_owned(),
    ];
    let say = Spec::new("say", "Says it.")
        .param(Param::new("text", Type::String))
        .runs(|args| Ok(args["text"].clone()));
    let store = Store::new(home.path());
    let agent = Agent::builder(Scripted::new(replies))
        .tool(say)
        .sink(store.keeper());
    agent.build().unwrap().run("The question?").unwrap();
    let bytes = fs::read(store.find("last").unwrap()).unwrap();
    assert!(bytes.len() >= size, "{} bytes", bytes.len());
    bytes
}

/// Does this for each number below `count`, on both cores.
fn each(count: usize, work: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for part in 0..2 {
            let work = &work;
            scope.spawn(move || (part..count).step_by(2).for_each(work));
        }
    });
}

#[test]
fn every_beginning_of_a_file_loads_its_whole_records() {
    let bytes = file(20_000);
    let whole = store::parse(&bytes);
    assert!(whole.damage.is_empty() && whole.torn == 0);
    assert!(
        Session::restored(whole.events.clone())
            .unwrap()
            .status()
            .is_some()
    );
    each(bytes.len(), |size| {
        let saved = store::parse(&bytes[..size]);
        let lines = bytes[..size].iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(saved.events, whole.events[..lines], "{size}");
        assert!(saved.damage.is_empty(), "{size}: {:?}", saved.damage);
    });
}

#[test]
fn every_byte_that_is_changed_is_named_and_costs_no_other_record() {
    let bytes = file(20_000);
    let whole = store::parse(&bytes);
    each(bytes.len(), |at| {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 7);
        let saved = store::parse(&changed);
        let named = !saved.damage.is_empty() || saved.torn > 0;
        assert!(named || saved.events == whole.events, "{at}");
        assert!(
            saved
                .events
                .iter()
                .all(|event| whole.events.contains(event)),
            "{at}"
        );
        // A line break that is gone joins two lines.
        assert!(saved.events.len() + 2 >= whole.events.len(), "{at}");
        assert!(
            saved.damage.iter().all(|why| why.starts_with("line ")),
            "{at}"
        );
    });
}

#[test]
fn lines_that_are_gone_or_out_of_order_are_named() {
    let bytes = file(1_000);
    let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 0..lines.len() - 1 {
        let mut without = lines.clone();
        without.remove(at);
        assert!(!store::parse(&without.concat()).damage.is_empty(), "{at}");
        let mut swapped = lines.clone();
        swapped.swap(at, at + 1);
        assert!(!store::parse(&swapped.concat()).damage.is_empty(), "{at}");
    }
}

#[test]
fn a_kill_at_any_moment_loses_nothing_that_was_shown() {
    let server = Server::always(Reply::chat("Thought: On.\nAction: echo(\"x\")")).at_will();
    let test = Test::with(&server)
        .tools(ECHO)
        .args(["--json", "--ttl", "3", "The question?"]);
    for round in 0..200_u64 {
        let mut command = test.command(&[]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // From before its start to after its end, in uneven steps.
        thread::sleep(std::time::Duration::from_micros(round * 7919 % 16_000));
        let _ = kill_process(Pid::from_child(&child), Signal::KILL);
        let mut shown = String::new();
        io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut shown).unwrap();
        wait(&mut child, ms(5000));
        let mut saved = Vec::new();
        let mut id = String::new();
        for line in shown
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'))
        {
            let event: Value = serde_json::from_str(line).unwrap();
            if id.is_empty() {
                event["session"].as_str().unwrap().clone_into(&mut id);
                let path = test.state().join(format!("sessions/{id}.jsonl"));
                let file = store::read(&path).unwrap();
                assert!(file.damage.is_empty(), "{:?}", file.damage);
                saved = file.events;
            }
            let kind = event["type"].as_str().unwrap().replace("span", "closed");
            let at = saved.iter().position(|saved| {
                let saved = serde_json::to_value(saved).unwrap();
                saved["type"] == kind.as_str()
                    && saved["time"] == event["time"]
                    && saved["id"] == event["id"]
            });
            assert!(at.is_some(), "{line} is missing");
        }
        let folder = test.state().join("sessions");
        let files = fs::read_dir(&folder).map_or(0, Iterator::count);
        if files > 0 && round % 10 == 0 {
            let more = Server::always(Reply::chat("Answer: done")).at_will();
            let run = Test::new()
                .env(
                    "XDG_STATE_HOME",
                    folder.parent().unwrap().parent().unwrap().to_str().unwrap(),
                )
                .args(["--base-url", &more.base_url(), "-m", "scripted", "-c"])
                .tools(ECHO)
                .run();
            // Ended already, or cut off before the question was put: both are said.
            run.check(
                [0, 2].contains(&run.exit_code()),
                "it goes on, or says why not",
            );
        }
    }
}

#[test]
fn programs_that_write_at_once_lose_nothing() {
    let test = Test::demo().args(["-i", "--ttl", "5"]);
    let questions = "2 + 3\n".repeat(200);
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = test.command(&[]);
            command
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            let mut child = command.spawn().unwrap();
            io::Write::write_all(&mut child.stdin.take().unwrap(), questions.as_bytes()).unwrap();
            child
        })
        .collect();
    for mut child in children {
        assert!(wait(&mut child, ms(60_000)).0.unwrap().success());
    }
    let store = Store::new(test.state().join("sessions"));
    let ids = store.ids().unwrap();
    assert_eq!(ids.len(), 8 * 200);
    for id in &ids {
        let saved = store::read(&store.path(id)).unwrap();
        assert!(saved.damage.is_empty() && saved.torn == 0);
        assert!(matches!(saved.events.last().unwrap().fact, Fact::End(_)));
        assert!(saved.events.iter().all(|event| event.session == *id));
    }
    let checked = check_folder(&test.state().join("audit")).unwrap();
    assert_eq!(checked.len(), 8 * 200 + 1);
    assert!(checked.iter().all(|log| log.found.is_ok() && log.anchored));
}

/// A disk whose operations fail from the `n`th on, or only that one.
struct Failing {
    left: Rc<Cell<usize>>,
    for_good: bool,
}

impl Failing {
    fn count(left: &Cell<usize>, for_good: bool) -> io::Result<()> {
        match left.get() {
            0 if for_good => Err(io::ErrorKind::StorageFull.into()),
            0 => Ok(()),
            1 => {
                left.set(0);
                Err(io::ErrorKind::StorageFull.into())
            }
            more => {
                left.set(more - 1);
                Ok(())
            }
        }
    }
}

impl Disk for Failing {
    fn folder(&self, path: &Path) -> io::Result<()> {
        Self::count(&self.left, self.for_good)?;
        RealDisk.folder(path)
    }

    fn open(&self, path: &Path, new: bool) -> io::Result<Box<dyn Medium>> {
        Self::count(&self.left, self.for_good)?;
        Ok(Box::new(Torn {
            medium: RealDisk.open(path, new)?,
            left: self.left.clone(),
            for_good: self.for_good,
        }))
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        Self::count(&self.left, self.for_good)?;
        RealDisk.sync_folder(path)
    }
}

/// Takes half of what it is given before it fails.
struct Torn {
    medium: Box<dyn Medium>,
    left: Rc<Cell<usize>>,
    for_good: bool,
}

impl Torn {
    fn count(&self) -> io::Result<()> {
        Failing::count(&self.left, self.for_good)
    }
}

impl Medium for Torn {
    fn lock(&self, wait: bool) -> io::Result<()> {
        self.count()?;
        self.medium.lock(wait)
    }

    fn size(&self) -> io::Result<u64> {
        self.count()?;
        self.medium.size()
    }

    fn end(&mut self, most: u64) -> io::Result<Vec<u8>> {
        self.count()?;
        self.medium.end(most)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.left.get() {
            1 if bytes.len() > 1 => {
                let half = self.medium.write(&bytes[..bytes.len() / 2])?;
                self.count().map(|()| half).or(Ok(half))
            }
            _ => {
                self.count()?;
                self.medium.write(bytes)
            }
        }
    }

    fn cut(&mut self, size: u64) -> io::Result<()> {
        self.count()?;
        self.medium.cut(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.count()?;
        self.medium.sync()
    }
}

/// Sees what is acknowledged: what comes after those who keep the record, while they are not in trouble.
struct Acknowledged(Rc<std::cell::RefCell<Vec<Event>>>);

impl Sink for Acknowledged {
    fn see(&mut self, event: &Event) -> Result<()> {
        self.0.borrow_mut().push(event.clone());
        Ok(())
    }
}

#[test]
fn whichever_operation_fails_the_answer_is_given_and_no_effect_is_without_a_record() {
    let mut answered_without_effect = 0;
    for for_good in [true, false] {
        for n in 1.. {
            let home = tempfile::tempdir().unwrap();
            let left = Rc::new(Cell::new(n));
            let disk: Rc<dyn Disk> = Rc::new(Failing {
                left: left.clone(),
                for_good,
            });
            let sessions = home.path().join("sessions");
            let store = Store::on(&sessions, disk.clone());
            let happened = Rc::new(Cell::new(false));
            let happens = happened.clone();
            let seen = sessions.clone();
            let launch = Spec::new("launch", "Launches.").effect(Effect::Lasting).runs(move |_| {
                happens.set(true);
                // At this moment it is on the disk that this may happen.
                let file = fs::read_dir(&seen).unwrap().next().unwrap().unwrap().path();
                let events = store::read(&file).unwrap().events;
                let intent = |event: &Event| matches!(&event.fact, Fact::Verdict(said) if said.allowed && said.effect);
                assert!(events.iter().any(intent), "no effect without a record");
                Ok(json!("launched"))
            });
            let acknowledged = Rc::default();
            let script = Scripted::new(["Action1: launch()", "Answer: done", "Answer: done"]);
            let mut agent = Agent::builder(script)
                .tool(launch)
                .sink(Audit::on(home.path().join("audit"), disk))
                .sink(store.keeper())
                .sink(Acknowledged(Rc::clone(&acknowledged)))
                .build()
                .unwrap();
            let answer = agent.run("q").unwrap();
            assert_eq!(answer.text, "done", "{n}");
            answered_without_effect += usize::from(!happened.get());
            let told = |event: &Event| matches!(&event.fact, Fact::Notice { text } if text.contains("nothing with an effect runs"));
            let trouble = acknowledged.borrow().iter().any(told);
            let file = fs::read_dir(&sessions)
                .ok()
                .and_then(|mut files| Some(files.next()?.unwrap().path()));
            let saved = file
                .map(|file| store::read(&file).unwrap())
                .unwrap_or_default();
            assert!(saved.damage.is_empty(), "{n}: {:?}", saved.damage);
            let all: Vec<Event> = acknowledged.borrow().clone();
            match trouble {
                // What was acknowledged before the trouble is there, in order.
                true => {
                    let until = all.iter().position(told).unwrap();
                    let kept = saved.events.len();
                    assert_eq!(saved.events, all[..kept], "{n}");
                    assert!(kept + 1 >= until || saved.events.len() >= until - 1, "{n}");
                }
                false => assert_eq!(saved.events, all, "{n}"),
            }
            if left.get() > 0 {
                assert!(n > 40, "there are many operations");
                break;
            }
        }
    }
    assert!(answered_without_effect > 20, "{answered_without_effect}");
}
