//! Models, tools and servers that never come to an end: each query does, within its limit, and its record is closed.

use std::any::Any;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::reply::{ENGINES, Reply};
use crate::server::Server;
use crate::stall::{At, Over, Stall};
use crate::test::{ECHO, Run, Test, ms};

/// The limit of time of those that nothing else ends.
const LIMIT: u64 = 500;
/// What may pass between a limit of time and the end of the program.
const GRACE: u64 = 100;
/// How many run at once.
const AT_ONCE: usize = 3;

/// What ends a script.
#[derive(Debug, Clone, Copy)]
enum By {
    /// `--max-time`, which is [`LIMIT`].
    Time,
    /// This many model calls.
    Calls(u32),
}

use By::{Calls, Time};

/// A query that something keeps from ending.
struct Script {
    what: String,
    test: Test,
    code: i32,
    by: By,
    /// The model and the web.
    _world: Vec<Box<dyn Any + Send>>,
}

impl Script {
    fn new(what: &str, server: Server, code: i32, by: By) -> Self {
        Script::at(what, &server.base_url(), code, by).and(server)
    }

    fn at(what: &str, base_url: &str, code: i32, by: By) -> Self {
        let test = Test::new().args(["--base-url", base_url, "-m", "scripted", "--json"]);
        Script {
            what: what.to_owned(),
            test: match by {
                Time => test
                    .args(["--max-time", &format!("{LIMIT}ms")])
                    .env("REAGENT_TTL", "1000000"),
                Calls(_) => test,
            },
            code,
            by,
            _world: Vec::new(),
        }
    }

    /// Something that lives as long.
    fn and(mut self, world: impl Any + Send) -> Self {
        self._world.push(Box::new(world));
        self
    }

    fn flags(mut self, flags: &str) -> Self {
        self.test = self.test.args(flags.split_whitespace());
        self
    }

    fn tools(mut self, tools: &str) -> Self {
        self.test = self.test.tools(tools);
        self
    }

    fn settings(mut self, settings: &str) -> Self {
        let path = "../home/.config/reagent/config.toml";
        self.test = self.test.file(path, settings);
        self
    }

    /// Runs it. Being late once may be the machine, which does other things too; every time, it is the program.
    fn end(mut self) {
        self.test = self.test.arg("q");
        for last in [false, false, true] {
            let run = self.test.run();
            let took = self.is_ended(&run);
            println!("{}: {:?}, exit {}, {took}", self.what, self.by, self.code);
            if took <= LIMIT + GRACE || matches!(self.by, Calls(_)) {
                break;
            }
            run.check(!last, &format!("{}: it ends in time", self.what));
        }
        self.is_on_record();
    }

    /// Checks how it came out; says how long it took, in milliseconds, by its own clock and by ours.
    fn is_ended(&self, run: &Run) -> u64 {
        let check = |holds, what| run.check(holds, &format!("{}: {what}", self.what));
        check(run.exit_code() == self.code, "the exit code");
        let events = run.events();
        let end = events.end();
        let status = match self.code {
            0 => "answered",
            1 => "failed",
            3 => "limit",
            4 => "denied",
            _ => "unreachable",
        };
        check(
            (&end["status"], &end["exit_code"]) == (&json!(status), &json!(self.code)),
            "the end says so",
        );
        match self.by {
            Calls(calls) => check(end["steps"] == calls, "the calls are counted"),
            Time => {
                let texts = events.of("error");
                let limit = format!("no answer within --max-time {LIMIT}ms");
                check(
                    texts.iter().any(|error| error["text"] == limit.as_str()),
                    "the limit is named",
                );
            }
        }
        // The first thing that comes out is that the session has begun.
        let ours = run.duration.saturating_sub(run.first_output);
        end["ms"].as_u64().unwrap().max(ours.as_millis() as u64)
    }

    /// The record of each of its sessions is whole and closed.
    fn is_on_record(&self) {
        let state = self.test.state();
        for events in records(&state.join("sessions")) {
            let ids = |kind: &str| {
                let spans = events.iter().filter(|event| event["type"] == kind);
                let mut ids: Vec<u64> = spans.filter_map(|span| span["id"].as_u64()).collect();
                ids.sort_unstable();
                ids
            };
            assert_eq!(ids("opened"), ids("closed"), "{}: spans", self.what);
            assert_eq!(events.last().unwrap()["type"], "end", "{}", self.what);
        }
        for log in records(&state.join("audit")) {
            assert_eq!(log.last().unwrap()["kind"], "end", "{}", self.what);
        }
        let verify = Test::new().args(["audit", "verify"]);
        let home = state.parent().unwrap().to_str().unwrap();
        let run = verify.env("XDG_STATE_HOME", home).run().success();
        run.check(!run.stdout.contains("no head"), "every end is vouched for");
    }
}

/// The lines of the file of each session in a folder.
fn records(folder: &Path) -> Vec<Vec<Value>> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let records: Vec<Vec<Value>> = paths
        .filter(|path| !path.ends_with("heads.jsonl"))
        .map(|path| fs::read_to_string(path).unwrap())
        .map(|text| {
            text.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()
        })
        .collect();
    assert!(!records.is_empty(), "nothing in {}", folder.display());
    records
}

/// Runs them, a few at once.
fn end(scripts: Vec<Script>) {
    let scripts = Mutex::new(scripts);
    let next = || scripts.lock().unwrap().pop();
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(script) = next() {
                    script.end();
                }
            });
        }
    });
}

fn always(reply: impl Into<Reply>) -> Server {
    Server::always(reply)
}

/// A reply for each number.
fn each(reply: impl Fn(usize) -> String + Send + Sync + 'static) -> Server {
    Server::endless(move |n| Reply::chat(reply(n)))
}

/// A model that never does the same again.
fn adding() -> Server {
    each(|n| format!("Action: add_numbers({n}, 1)"))
}

/// A tool that gets a page, and at least tries to.
fn page(web: &Server) -> String {
    let url = web.url("/page?n={n}");
    format!(
        "[[tool]]\nname = \"page\"\nfunction = \"http.get_json\"\nparams.n = {{ type = \"number\" }}\nbind.url = \"{url}\"\n"
    )
}

fn paging() -> Server {
    each(|n| format!("Action: page({n})"))
}

fn web(reply: Reply) -> Server {
    Server::web().route("/page", reply).at_will()
}

fn late() -> Reply {
    Reply::chat("Answer: late").after(Duration::from_secs(20))
}

#[test]
fn actions_without_end_end_by_count() {
    let mut scripts = Vec::new();
    for engine in ENGINES {
        let flags = format!("--engine {engine} --ttl 7");
        let sum = |n: usize| json!({"x": n, "y": 1});
        let new = |what: &str, server: Server, code, calls| {
            Script::new(&format!("{engine}: {what}"), server, code, Calls(calls)).flags(&flags)
        };
        let other = Server::endless(move |n| Reply::action(engine, "add_numbers", &sum(n)));
        scripts.push(new("always another action", other, 3, 7));
        let same = Reply::action(engine, "add_numbers", &sum(1));
        scripts.push(new("the same action", always(same), 1, 4));
        let two = Server::endless(move |n| Reply::action(engine, "add_numbers", &sum(n % 2)));
        scripts.push(new("two actions in turn", two, 1, 7));
        let denied = Server::endless(move |n| {
            Reply::action(engine, "echo", &json!({"text": n.to_string()}))
        });
        let deny = format!("{ECHO}approval = \"deny\"\n");
        scripts.push(new("always denied", denied, 3, 7).tools(&deny));
        let asked = Server::endless(move |n| {
            Reply::action(engine, "echo", &json!({"text": n.to_string()}))
        });
        let ask = format!("{ECHO}approval = \"ask\"\n");
        scripts.push(new("asked about, and nobody there", asked, 4, 7).tools(&ask));
        let never = "[[tool]]\nname = \"submit\"\nfunction = \"debug.end\"\nparams.done = { type = \"any\" }\n";
        let submit = Server::endless(move |n| Reply::action(engine, "submit", &json!({"done": n})));
        scripts.push(new("always almost done", submit, 3, 7).tools(never));
        let unknown =
            Server::endless(move |n| Reply::action(engine, &format!("launch_{n}"), &json!({})));
        scripts.push(new("tools that are not there", unknown, 1, 3));
        let unfit = Server::endless(move |n| {
            Reply::action(engine, "add_numbers", &json!({"x": "?", "z": n}))
        });
        scripts.push(new("arguments that do not fit", unfit, 1, 3));
        scripts.push(new("nothing at all", always(""), 6, 1));
    }
    end(scripts);
}

#[test]
fn replies_that_are_of_no_use_end_by_count() {
    let new = |what, server, code, calls| Script::new(what, server, code, Calls(calls));
    let low = |action: &str, params: Value| {
        json!({"action": action, "params": params, "confidence": 0.1}).to_string()
    };
    let nested = format!("Action: add_numbers({}", "[".repeat(100_000));
    let many = |calls: Vec<(&str, Value)>| Reply::calls("", &calls);
    let sums = (0..50).map(|n| ("add_numbers", json!({"x": n, "y": 1})));
    let scripts = vec![
        new("no form", each(|n| format!("Action: ({n}, 2)")), 1, 3),
        new(
            "half an action",
            always(Reply::truncated("Action: add_numbers(1,")),
            1,
            3,
        ),
        new("brackets upon brackets", always(nested.as_str()), 1, 3),
        new("a thought that never ends", always("<think>What if"), 1, 3),
        new(
            "invented observations",
            each(|n| format!("Observation: {n}")),
            1,
            3,
        ),
        new(
            "actions with invented ends",
            each(|n| format!("Action: add_numbers({n}, 1)\nObservation: 7\nAnswer: 7")),
            3,
            10,
        ),
        new(
            "prose",
            each(|n| format!("Let me think, for the {n}. time.")),
            0,
            2,
        ),
        new(
            "prose that is cut off",
            always(Reply::truncated("Let me think")),
            1,
            3,
        ),
        new(
            "a good reply after each bad one",
            each(|n| match n % 2 {
                0 => format!("Action: add_numbers({n}, 1)"),
                _ => "Hm.".to_owned(),
            }),
            3,
            10,
        ),
        new(
            "doubtful actions",
            Server::endless(move |n| Reply::chat(low("add_numbers", json!({"x": n, "y": 1})))),
            3,
            10,
        )
        .flags("--engine plan"),
        new(
            "doubtful ends",
            always(low("finish", json!({"answer": "7"}))),
            4,
            3,
        )
        .flags("--engine plan"),
        new(
            "never sure enough",
            always(
                json!({"action": "finish", "params": {"answer": "7"}, "confidence": 0.9})
                    .to_string(),
            ),
            4,
            3,
        )
        .flags("--engine plan")
        .settings("[policy]\nmin_confidence = 0.95\n"),
        new(
            "ends without an answer",
            always(r#"{"action": "finish", "params": {}}"#),
            1,
            3,
        )
        .flags("--engine plan"),
        new(
            "calls that are no JSON",
            always(Reply::raw_call("add_numbers", r#"{"x": 1, "#)),
            1,
            3,
        )
        .flags("--engine native"),
        new(
            "fifty calls in each reply",
            always(many(sums.collect())),
            1,
            4,
        )
        .flags("--engine native"),
        new(
            "fifty other calls in each reply",
            Server::endless(move |n| {
                let sums = (0..50).map(|m| ("add_numbers", json!({"x": n, "y": m})));
                Reply::calls("", &sums.collect::<Vec<_>>())
            }),
            3,
            10,
        )
        .flags("--engine native"),
        new(
            "fifty times the same call",
            always(many(vec![("add_numbers", json!({"x": 1, "y": 1})); 50])),
            1,
            1,
        )
        .flags("--engine native"),
        new(
            "much thought",
            each(|n| {
                format!(
                    "Thought: {}\nAction: add_numbers({n}, 1)",
                    "word ".repeat(160_000)
                )
            }),
            3,
            4,
        )
        .flags("--ttl 4"),
        new(
            "megabytes of thought",
            each(|n| {
                format!(
                    "Thought: {}\nAction: add_numbers({n}, 1)",
                    "word ".repeat(400_000)
                )
            }),
            1,
            3,
        ),
        new(
            "megabytes of prose",
            always(Reply::long("Thought: and ", 2_000_000)),
            1,
            3,
        ),
        new("acts when it may only answer", adding(), 3, 4).flags("--ttl 3 --on-limit answer"),
        new(
            "nonsense when it may only answer",
            always("Action: ()"),
            3,
            2,
        )
        .flags("--ttl 1 --on-limit answer"),
        new("tokens without end", adding(), 3, 3).flags("--max-total-tokens 300"),
    ];
    end(scripts);
}

#[test]
fn tools_and_servers_that_never_have_enough_end_by_count() {
    let new = |what, server, code, calls| Script::new(what, server, code, Calls(calls));
    let counter = Server::web().page("/page", |n| Reply::json(&json!(n)));
    let large = Server::web().route("/page", Reply::long_json(900_000));
    let larger = Server::web().route("/page", Reply::long_json(900_000));
    let round = Server::web().route(
        "/page",
        Reply::page(302, "on").header("location", "/page?n=1"),
    );
    let limited = Server::web().route("/page", Reply::long_json(100_000));
    let scripts = vec![
        new(
            "a page that always changes",
            always("Action: page(1)"),
            3,
            12,
        )
        .tools(&page(&counter))
        .flags("--ttl 12")
        .and(counter),
        new("megabytes again and again", paging(), 3, 6)
            .tools(&page(&large))
            .flags("--ttl 6")
            .and(large),
        new("megabytes for the model", paging(), 3, 4)
            .tools(&format!("{}max_output = 1048576\n", page(&larger)))
            .flags("--ttl 4")
            .and(larger),
        new("bytes without end", paging(), 3, 3)
            .tools(&page(&limited))
            .flags("--max-total-bytes 250000")
            .and(limited),
        new("a page that points to itself", paging(), 3, 5)
            .tools(&page(&round))
            .flags("--ttl 5")
            .and(round),
        new("a server that hangs up", always(Reply::hang_up()), 6, 1),
        new(
            "a server that keeps failing",
            always(Reply::error(500, "no")),
            6,
            1,
        ),
        new(
            "a server that is asked too often",
            always(Reply::error(429, "no").header("retry-after", "0")),
            6,
            1,
        ),
        new(
            "back in a hundred years",
            always(Reply::error(503, "no").header("retry-after", "Fri, 01 Jan 2100 00:00:00 GMT")),
            6,
            1,
        ),
        new(
            "a server that points to itself",
            always(Reply::error(307, "on").header("location", "/v1/chat/completions")),
            6,
            1,
        ),
    ];
    end(scripts);
}

#[test]
fn what_time_alone_can_end_ends_in_time() {
    let new = |what: &str, server| Script::new(what, server, 3, Time);
    let busy =
        |status, after: &str| always(Reply::error(status, "busy").header("retry-after", after));
    let slow = || web(Reply::json(&json!(1)).after(Duration::from_secs(20)));
    let dripping = web(Reply::drip("and "));
    let (one, short, many) = (slow(), slow(), slow());
    let calls: Vec<_> = (0..20).map(|n| ("page", json!({"n": n}))).collect();
    let heavy =
        "[[tool]]\nname = \"calculate\"\nfunction = \"math.calculate\"\ntimeout = \"60s\"\n";
    let silent = Stall::new(At::Headers, Over::Tcp);
    let full = Stall::new(At::Connect, Over::Tcp);
    let mut scripts = vec![
        new("a slow tool", paging()).tools(&page(&one)).and(one),
        new("a tool that drips", paging())
            .tools(&page(&dripping))
            .and(dripping),
        new("a tool that is given up again and again", paging())
            .tools(&format!("{}timeout = \"90ms\"\n", page(&short)))
            .and(short),
        new(
            "slow tools one after the other",
            always(Reply::calls("", &calls)),
        )
        .tools(&format!("{}timeout = \"90ms\"\n", page(&many)))
        .flags("--engine native")
        .and(many),
        new(
            "a slow model",
            Server::endless(|n| Reply::chat(format!("Action: add_numbers({n}, 1)")).after(ms(120))),
        ),
        new("busy for longer", busy(503, "20")),
        new("busy again and again", busy(429, "0")).flags("--retries 1000000"),
        new("a hang-up again and again", always(Reply::hang_up())).flags("--retries 1000000"),
        new(
            "the last call, which never ends",
            Server::endless(|n| match n % 3 {
                0 => Reply::drip("Thought: and "),
                _ => Reply::chat(format!("Action: add_numbers({n}, 1)")),
            }),
        )
        .flags("--ttl 2 --on-limit answer"),
        new("one action after the other", adding()),
        new(
            "one call after the other",
            Server::endless(|n| Reply::action("native", "add_numbers", &json!({"x": n, "y": 1}))),
        )
        .flags("--engine native"),
        Script::at("a server that says nothing", &silent.base_url(), 3, Time).and(silent),
        Script::at(
            "a server that takes no connection",
            &full.base_url(),
            3,
            Time,
        )
        .and(full),
    ];
    for engine in ENGINES {
        let flags = format!("--engine {engine}");
        let named = |what: &str| format!("{engine}: {what}");
        let dripped = always(Reply::drip(if engine == "plan" {
            "{\"thought\": \""
        } else {
            "Thought: "
        }));
        scripts.extend([
            new(&named("a reply that drips"), dripped).flags(&flags),
            new(
                &named("a whole reply that drips"),
                always(Reply::drip("so ")),
            )
            .flags(&flags)
            .flags("--no-stream"),
            new(&named("no reply"), always(late())).flags(&flags),
            new(
                &named("endless calculations"),
                Server::endless(move |n| {
                    Reply::action(
                        engine,
                        "calculate",
                        &json!({"expression": format!("9^9^9^9 + {n}")}),
                    )
                }),
            )
            .tools(heavy)
            .flags(&flags),
        ]);
    }
    end(scripts);
}

#[test]
fn what_never_waits_ends_in_time() {
    let new = |what, server| Script::new(what, server, 3, Time);
    let sum = |n: usize, m: usize| ("add_numbers", json!({"x": n, "y": m}));
    let right = Server::endless(move |n| {
        let calls: Vec<_> = (0..2000).map(|m| sum(n, m)).collect();
        Reply::calls("", &calls)
    });
    let wrong = Server::endless(move |n| {
        let wrong = (0..2000).map(|m| ("launch", json!({"n": m})));
        let calls: Vec<_> = [sum(n, 1)].into_iter().chain(wrong).collect();
        Reply::calls("", &calls)
    });
    let large = web(Reply::long_json(200_000));
    let scripts = vec![
        new("thousands of calls in a reply", right).flags("--engine native"),
        new("thousands of wrong calls in a reply", wrong).flags("--engine native"),
        new(
            "much thought without end",
            each(|n| {
                format!(
                    "Thought: {}\nAction: add_numbers({n}, 1)",
                    "word ".repeat(160_000)
                )
            }),
        ),
        new("large results without end", paging())
            .tools(&format!("{}max_output = 1048576\n", page(&large)))
            .and(large),
    ];
    end(scripts);
}
