//! What a question costs besides the model: the program against `curl` that sends the very same
//! requests over one connection, to a scripted model on loopback, in turn.
//!
//! `cargo bench --bench steps` prints the medians of whole processes: wall time, processor time and
//! peak memory, for questions of 5, 50 and 200 actions, and for starting alone. `curl` must be
//! installed. Only ratios mean something: the machine may be shared.

#![allow(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on should stop right there"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How often each command is run.
const ROUNDS: usize = 15;

fn main() {
    let model = Model::start();
    let folder = std::env::temp_dir().join(format!("reagent-bench-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    println!(
        "{:<10} {:>22} {:>22} {:>22}",
        "", "wall ms", "processor ms", "peak MB"
    );
    println!(
        "{:<10} {:>22} {:>22} {:>22}",
        "actions", "us  curl  ratio", "us  curl  ratio", "us  curl  ratio"
    );
    for steps in [5, 50, 200] {
        model.record(&folder);
        model.connections.store(0, Ordering::Relaxed);
        let ask = model.ask(steps, &folder);
        run(&ask);
        let requests = model.stop_recording();
        assert_eq!(requests, steps + 1, "every request was seen");
        assert_eq!(
            model.connections.swap(0, Ordering::Relaxed),
            1,
            "over one connection"
        );
        let curl = curl(&model.url, &folder, requests);
        report(&steps.to_string(), &ask, &curl);
    }
    let version = |program: &str| vec![program.to_owned(), "--version".to_owned()];
    report(
        "--version",
        &version(env!("CARGO_BIN_EXE_reagent")),
        &version("curl"),
    );
    fs::remove_dir_all(&folder).unwrap();
}

/// Runs both commands in turn and prints their medians.
fn report(name: &str, us: &[String], other: &[String]) {
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(run(us));
        others.push(run(other));
    }
    let column = |pick: fn(&Cost) -> f64| {
        let (us, other) = (median(&ours, pick), median(&others, pick));
        format!("{us:.1}  {other:.1}  {:.2}", us / other)
    };
    let (wall, cpu, peak) = (column(|c| c.wall), column(|c| c.cpu), column(|c| c.peak));
    println!("{name:<10} {wall:>22} {cpu:>22} {peak:>22}");
}

/// What one run of a process cost: milliseconds, and megabytes.
struct Cost {
    wall: f64,
    cpu: f64,
    peak: f64,
}

fn median(costs: &[Cost], pick: fn(&Cost) -> f64) -> f64 {
    let mut values: Vec<f64> = costs.iter().map(pick).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What a process used stands in `/proc` until it is waited for; its peak memory, only while it runs.
fn run(command: &[String]) -> Cost {
    let begun = Instant::now();
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let stat = PathBuf::from(format!("/proc/{}", child.id()));
    let mut peak = 0.0;
    while !is_zombie(&stat) {
        peak = memory(&stat).unwrap_or(peak);
        std::thread::sleep(Duration::from_micros(300));
    }
    let wall = begun.elapsed().as_secs_f64() * 1000.0;
    let cpu = processor(&stat);
    assert!(child.wait().unwrap().success(), "{command:?}");
    Cost { wall, cpu, peak }
}

fn is_zombie(folder: &Path) -> bool {
    let stat = fs::read_to_string(folder.join("stat")).unwrap();
    stat.rsplit(')')
        .next()
        .unwrap()
        .trim_start()
        .starts_with('Z')
}

/// Time on a processor in milliseconds, from the scheduler's own count in nanoseconds.
fn processor(folder: &Path) -> f64 {
    let stat = fs::read_to_string(folder.join("schedstat")).unwrap();
    stat.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e6
}

fn memory(folder: &Path) -> Option<f64> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().trim_end_matches(" kB").parse::<f64>().ok()? / 1024.0)
}

/// A `curl` that sends the recorded requests again, one after the other over one connection.
fn curl(url: &str, folder: &Path, requests: usize) -> Vec<String> {
    let one = |number| {
        let body = folder.join(format!("{number}.json"));
        format!(
            "silent\nurl = \"{url}/chat/completions\"\nheader = \"Content-Type: application/json\"\n\
             header = \"Expect:\"\ndata-binary = \"@{}\"\noutput = \"/dev/null\"\n",
            body.display()
        )
    };
    let all: Vec<String> = (0..requests).map(one).collect();
    let config = folder.join("curl.conf");
    fs::write(&config, all.join("next\n")).unwrap();
    vec![
        "curl".to_owned(),
        "-K".to_owned(),
        config.display().to_string(),
    ]
}

/// A model that plays the same conversation to everybody: so many actions, then the answer.
struct Model {
    url: String,
    connections: Arc<AtomicUsize>,
    recording: Arc<Mutex<Option<(PathBuf, usize)>>>,
}

impl Model {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let model = Self {
            url: format!("http://{}/v1", listener.local_addr().unwrap()),
            connections: Arc::default(),
            recording: Arc::default(),
        };
        let (connections, recording) = (model.connections.clone(), model.recording.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                connections.fetch_add(1, Ordering::Relaxed);
                let recording = recording.clone();
                std::thread::spawn(move || serve(stream.unwrap(), &recording));
            }
        });
        model
    }

    fn ask(&self, steps: usize, folder: &Path) -> Vec<String> {
        let ttl = (steps + 1).to_string();
        let state = folder.display().to_string();
        let model = format!("steps-{steps}");
        let words = [
            "env",
            "-i",
            &format!("HOME={state}"),
            env!("CARGO_BIN_EXE_reagent"),
            "--base-url",
            &self.url,
            "-m",
            &model,
            "--ttl",
            &ttl,
            "Add up.",
        ];
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn record(&self, folder: &Path) {
        *self.recording.lock().unwrap() = Some((folder.to_owned(), 0));
    }

    fn stop_recording(&self) -> usize {
        self.recording.lock().unwrap().take().unwrap().1
    }
}

fn serve(stream: TcpStream, recording: &Mutex<Option<(PathBuf, usize)>>) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    while let Some(body) = request(&mut reader) {
        if let Some((folder, number)) = &mut *recording.lock().unwrap() {
            fs::write(folder.join(format!("{number}.json")), &body).unwrap();
            *number += 1;
        }
        let text = String::from_utf8(body).unwrap();
        let step = text.matches("\"Observation").count() + 1;
        let steps: usize = text
            .split("steps-")
            .nth(1)
            .unwrap()
            .split('"')
            .next()
            .unwrap()
            .parse()
            .unwrap();
        let reply = match step > steps {
            true => format!(
                "Thought{step}: Everything is added up.\nAnswer: It is done after {steps} steps."
            ),
            false => format!(
                "Thought{step}: I add the next number.\nAction{step}: add_numbers({step}, 1)"
            ),
        };
        if stream.write_all(&response(&reply)).is_err() {
            return;
        }
    }
}

/// The body of the next request on a connection.
fn request(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(body)
}

/// A streamed reply, word by word, as endpoints send it.
fn response(reply: &str) -> Vec<u8> {
    let mut events = String::new();
    for word in reply.split_inclusive(' ') {
        let content = word.replace('\n', "\\n");
        events += &format!(
            "data: {{\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"choices\":[{{\"index\":0,\
             \"delta\":{{\"content\":\"{content}\"}},\"finish_reason\":null}}]}}\n\n"
        );
    }
    events += "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
        data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":10}}\n\ndata: [DONE]\n\n";
    let head =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
    format!("{head}{:x}\r\n{events}\r\n0\r\n\r\n", events.len()).into_bytes()
}
