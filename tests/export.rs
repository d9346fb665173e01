//! A recorded session as Markdown, JSON, HTML and a Mermaid diagram.
//!
//! The Super Bowl run of `data/superbowl.session.jsonl` is compared with `data/export/`;
//! `REAGENT_TEST_BLESS=1 cargo test export::` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};

use reagent::session::event::{Event, Fact, Message, SpanKind, Start, Status};
use reagent::session::{Session, store};
use reagent::ui::export::{Format, export};
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::reply::Reply;
use crate::server::Server;
use crate::test::{ECHO, Test};

const ALL: [Format; 4] = [Format::Md, Format::Json, Format::Html, Format::Mermaid];

/// What a model, a tool or a person may write to take a document over.
const HOSTILE: &[&str] = &[
    "<script>document.title='pwned'</script>",
    "<img src=x onerror=\"document.title='pwned'\">",
    "</style></title></textarea></pre></details></summary><script>document.title='pwned'</script>",
    "\" onmouseover=\"x\" style='position:fixed' '><svg onload=document.title='pwned'>",
    "<!-- --!> <![CDATA[ ]]> &lt;b&gt; &#60;script&#62; <base href=//evil.test>",
    "```\n# A heading\n[a link](https://evil.test)\n````\n~~~\n<b>bold</b>\n~~~~\n",
    "# A heading\n## Another\n\nA third\n===\n\n- a list\n1. one\n> quoted\n\n    code\n| a | b |\n|---|---|",
    "https://evil.test www.evil.test mailto:a@evil.test ![x](y) <https://evil.test> [r]: https://evil.test `c` `@a`@`b @@c`",
    "end; P->>A: forged\nNote over A: forged %%{init: {}}%% #59; <br> wrap: \"quoted\" ;; A-->>P: x",
    "\u{1b}[31mred\u{1b}]52;c;YQ==\u{7} \u{9b}2J \u{0} \u{8}",
    "\u{202e}txt.exe\u{202c} \u{2066}x\u{2069} a\u{200b}b \u{e0041} \u{2028}",
];

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The session in a file, which is whole.
#[track_caller]
fn read(path: &Path) -> Session {
    let saved = store::read(path).unwrap();
    assert!(
        saved.damage.is_empty() && saved.torn == 0,
        "{:?}",
        saved.damage
    );
    Session::restored(saved.events).unwrap()
}

fn super_bowl() -> Session {
    read(&data("superbowl.session.jsonl"))
}

/// The session that a run has left behind.
#[track_caller]
fn left_by(test: &Test) -> Session {
    let files = fs::read_dir(test.state().join("sessions")).unwrap();
    let files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 1, "{files:?}");
    read(&files[0])
}

/// A session with these facts, each in its step, a tenth of a second apart.
fn told(query: &str, facts: Vec<(u32, Fact)>) -> Session {
    let start = Fact::Start(Start {
        query: query.to_owned(),
        model: format!("model {query}"),
        engine: format!("engine {query}"),
        ttl: 10,
        attached: false,
        continues: Some(query.to_owned()),
    });
    let facts = std::iter::once((0, start)).chain(facts);
    let events = facts.enumerate().map(|(number, (step, fact))| Event {
        time: format!("2026-01-02T03:04:{:02}.000Z", number % 60),
        elapsed: number as u64 * 100,
        session: "20260102-030405-abcdef".to_owned(),
        step: (step > 0).then_some(step),
        fact,
    });
    Session::restored(events.collect()).unwrap()
}

/// A session in which this text stands wherever a text can.
fn full_of(text: &str) -> Session {
    let own = || text.to_owned();
    let call = json!({"role": "assistant", "content": text, "calls": [{"id": text, "name": text, "args": text}]});
    let result = json!({"role": "tool", "content": text, "answers": {"id": text, "name": text}});
    let message = |value: Value| serde_json::from_value::<Message>(value).unwrap();
    let span = |id, kind, ok| {
        let usage = json!({"input_tokens": 3, "output_tokens": null});
        let closed = json!({"type": "closed", "id": id, "kind": kind, "title": text, "ok": ok, "output": text, "ms": 50,
            "usage": usage});
        serde_json::from_value::<Fact>(closed).unwrap()
    };
    let opened = |id, kind| Fact::Opened {
        id,
        kind,
        title: own(),
    };
    let verdict =
        json!({"type": "verdict", "allowed": false, "by": text, "why": text, "effect": true});
    let mut facts = vec![
        (0, Fact::Notice { text: own() }),
        (0, Fact::Message(Message::system(text))),
    ];
    facts.extend(
        [
            opened(1, SpanKind::Llm),
            span(1, "LLM", false),
            Fact::Message(message(call)),
            Fact::Thought { text: own() },
            Fact::Action {
                tool: own(),
                args: serde_json::Map::new(),
                call: own(),
            },
            serde_json::from_value(verdict).unwrap(),
            opened(2, SpanKind::Tool),
            span(2, "TOOL", true),
            Fact::Observation {
                tool: own(),
                ok: true,
                text: own(),
                ms: 3,
            },
            Fact::Observation {
                tool: own(),
                ok: false,
                text: own(),
                ms: 3,
            },
            Fact::Message(message(result)),
            Fact::Anew,
            Fact::Replaced {
                at: 1,
                message: Message::user(text),
            },
            Fact::Malformed { why: own() },
            Fact::Answer { text: own() },
            Fact::Error {
                status: Status::Failed,
                text: own(),
                hint: Some(own()),
            },
            opened(3, SpanKind::Memo),
        ]
        .map(|fact| (1, fact)),
    );
    told(text, facts)
}

/// The names of all tags of a page behind its style, and of their attributes. Panics if they do not nest.
#[track_caller]
fn tags(page: &str) -> Vec<String> {
    let (_, mut rest) = page.split_once("</style>").expect("the style");
    let mut names = Vec::new();
    let mut open = Vec::new();
    while let Some((text, tag)) = rest.split_once('<') {
        assert!(!text.contains(['>', '"', '\'']), "{text}");
        let (tag, after) = tag.split_once('>').expect("a tag has an end");
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            if !["head", "html"].contains(&name) {
                assert_eq!(open.pop(), Some(name), "{tag}");
            }
            continue;
        }
        let name = tag.split(' ').next().unwrap();
        open.push(name);
        names.push(name.to_owned());
        // Outside of quotes there are only names.
        for (number, piece) in tag[name.len()..].split('"').enumerate() {
            if number % 2 == 0 && !piece.is_empty() {
                let attribute = piece
                    .strip_prefix(' ')
                    .and_then(|piece| piece.strip_suffix('='));
                names.push(format!("{name} {}", attribute.expect(tag)));
            }
        }
    }
    assert!(open.is_empty(), "{open:?}");
    names
}

#[track_caller]
fn assert_golden(name: &str, text: &str) {
    let path = data("export").join(name);
    if std::env::var("REAGENT_TEST_BLESS").is_ok_and(|value| value == "1") {
        fs::write(&path, text).unwrap();
        return;
    }
    let wanted = fs::read_to_string(&path).unwrap_or_default();
    for (number, (line, wanted)) in text.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(
            line,
            wanted,
            "line {} of {name} (REAGENT_TEST_BLESS=1 accepts it)",
            number + 1
        );
    }
    assert_eq!(
        text, wanted,
        "the length of {name} (REAGENT_TEST_BLESS=1 accepts it)"
    );
}

#[test]
fn the_super_bowl_session_is_exported_as_it_was() {
    let session = super_bowl();
    assert_golden("superbowl.md", &export(&session, Format::Md));
    assert_golden("superbowl.json", &export(&session, Format::Json));
    assert_golden("superbowl.html", &export(&session, Format::Html));
    assert_golden("superbowl.mmd", &export(&session, Format::Mermaid));
}

#[test]
fn the_same_session_gives_the_same_bytes() {
    for session in [super_bowl(), full_of("x"), told("unfinished", Vec::new())] {
        for format in ALL {
            assert_eq!(
                export(&session, format),
                export(&session, format),
                "{format:?}"
            );
        }
    }
}

#[test]
fn every_step_of_the_super_bowl_session_is_in_every_document() {
    let session = super_bowl();
    for format in ALL {
        let text = export(&session, format);
        for wanted in [
            "49ers",
            "50.523798942566",
            "The current ",
            "18.523798942566",
            "answered",
        ] {
            assert!(text.contains(wanted), "{format:?} has no {wanted}:\n{text}");
        }
    }
    let page = export(&session, Format::Html);
    for step in 1..=7 {
        assert!(page.contains(&format!("id=\"step-{step}\"")), "step {step}");
    }
    assert_eq!(
        page.matches("class=\"track\"").count(),
        15,
        "each span is a bar"
    );
    assert_eq!(page.matches("<li class=\"tool failed\">").count(), 1);
    assert_eq!(page.matches("<details class=\"message ").count(), 15);
}

#[test]
fn the_json_document_is_the_whole_record() {
    for session in [super_bowl(), full_of(&HOSTILE.join("\n"))] {
        let text = export(&session, Format::Json);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'));
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["session"], &value["query"]),
            (&json!(session.id()), &json!(session.query()))
        );
        assert_eq!(value["status"], json!(session.status()));
        let events: Vec<Event> = serde_json::from_value(value["events"].clone()).unwrap();
        assert_eq!(events, session.events());
        assert_eq!(
            text.lines().count(),
            events.len() + 2,
            "an event has a line of its own"
        );
    }
}

#[test]
fn no_text_is_markup_in_the_page() {
    let harmless = tags(&export(&full_of("harmless"), Format::Html));
    for tag in &harmless {
        let (name, attribute) = tag.split_once(' ').unwrap_or((tag, "class"));
        assert!(
            !["script", "img", "a", "link"].contains(&name) || tag.starts_with("a"),
            "{tag}"
        );
        let known = [
            "class",
            "id",
            "href",
            "style",
            "dir",
            "datetime",
            "aria-hidden",
            "aria-labelledby",
        ];
        assert!(known.contains(&attribute), "{tag}");
    }
    for text in HOSTILE {
        let page = export(&full_of(text), Format::Html);
        assert_eq!(tags(&page), harmless, "{text}");
        let own = page
            .replace("href=\"#step-1\"", "")
            .replace("href=\"#outcome\"", "");
        assert!(
            !own.contains("href=\""),
            "the only links are to steps of the page: {text}"
        );
        assert_eq!(page.matches("<style>").count(), 1);
    }
}

/// A line of Markdown without the characters that a backslash has made ordinary.
fn without_escapes(line: &str) -> String {
    let pieces: Vec<&str> = line.split('\\').collect();
    let rest = pieces[1..]
        .iter()
        .map(|piece| piece.get(1..).unwrap_or_default());
    format!("{}{}", pieces[0], rest.collect::<String>())
}

#[test]
fn no_text_is_markup_in_markdown() {
    for text in HOSTILE {
        let document = export(&full_of(text), Format::Md);
        let (mut fence, mut headings): (Option<&str>, usize) = (None, 0);
        for line in document.lines() {
            if let Some(open) = fence {
                if line == open {
                    fence = None;
                }
                continue;
            }
            if line.starts_with("```") {
                fence = Some(line.strip_suffix("text").expect(line));
                continue;
            }
            // The facts are in code of their own, which the first backtick begins.
            let line = match line.starts_with("- **") {
                true => line.split('`').next().unwrap(),
                false => line,
            };
            headings += usize::from(line.starts_with('#'));
            let own = [
                "# ",
                "## Question",
                "## Answer",
                "## No answer",
                "## Step 1",
                "## Before",
                "## Totals",
            ];
            assert!(
                !line.starts_with('#') || own.iter().any(|own| line.starts_with(own)),
                "{line}"
            );
            let line = without_escapes(&line.replace("`@`", "at").replace("`@@`", "at"));
            for word in ["<", "\t", "](", "://", "www.", "mailto:", "`", "_", "@"] {
                assert!(!line.contains(word), "{line}");
            }
            for start in ["===", "~~~", "    ", "- a", "1. ", "|---|"] {
                assert!(!line.starts_with(start), "{line}");
            }
        }
        assert_eq!(fence, None, "{document}");
        // The question once more, where it is of several lines.
        assert_eq!(
            headings,
            if text.contains('\n') { 7 } else { 6 },
            "{document}"
        );
    }
}

#[test]
fn no_text_is_syntax_in_a_diagram() {
    let lines = |text| export(&full_of(text), Format::Mermaid).lines().count();
    for text in HOSTILE {
        assert_eq!(lines(text), lines("harmless"), "{text}");
        let diagram = export(&full_of(text), Format::Mermaid);
        for line in diagram.lines().skip(5) {
            let (arrow, label) = line.split_once(": ").unwrap();
            let known = [
                "Note over M",
                "P->>A",
                "A->>M",
                "M-->>A",
                "A->>T",
                "T-->>A",
                "T--xA",
                "M--xA",
                "A->>P",
                "A--xP",
                "Note over A",
                "Note over P,T",
            ];
            assert!(known.contains(&arrow.trim()), "{line}");
            assert!(!label.contains(['<', '>', ':', '%', '{']), "{line}");
        }
    }
}

#[test]
fn no_document_has_a_character_that_is_obeyed() {
    let session = full_of(&HOSTILE.join("\n"));
    for format in ALL {
        let text = export(&session, format);
        let obeyed = |c: char| {
            c.is_control() && c != '\n'
                || matches!(c, '\u{200b}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{e0041}')
        };
        assert!(!text.contains(obeyed), "{format:?}");
    }
    let page = export(&session, Format::Html);
    assert!(
        page.contains("^[[31mred") && page.contains("&lt;U+202E&gt;txt.exe"),
        "a trick can be seen"
    );
}

#[test]
fn an_enormous_text_is_cut_but_in_json() {
    let text = format!("begin {} end", "<&\"`é\n".repeat(1 << 17));
    let session = full_of(&text);
    let size = |format| export(&session, format).len();
    assert!(size(Format::Html) < 16 << 20, "{}", size(Format::Html));
    assert!(size(Format::Md) < 4 << 20, "{}", size(Format::Md));
    assert!(size(Format::Mermaid) < 50_000, "{}", size(Format::Mermaid));
    for format in [Format::Html, Format::Md] {
        assert!(
            export(&session, format).contains("more bytes are not shown"),
            "{format:?}"
        );
    }
    let value: Value = serde_json::from_str(&export(&session, Format::Json)).unwrap();
    assert_eq!(value["query"], json!(text));
    tags(&export(&session, Format::Html));
}

#[test]
fn what_is_more_than_a_screenful_is_folded() {
    let text = format!("{}the end", "one two three ".repeat(200));
    let page = export(&full_of(&text), Format::Html);
    assert!(
        page.matches("<details class=\"more\">").count() >= 8,
        "question, thought, call, observations, …: {page}"
    );
    assert!(page.contains(" more characters</summary>"), "{page}");
    assert!(!export(&super_bowl(), Format::Html).contains("<details class=\"more\">"));
}

#[test]
fn a_diagram_of_many_steps_ends_with_the_answer() {
    let text = "<".repeat(80);
    let mut facts: Vec<(u32, Fact)> = (1..500)
        .map(|step| (step, Fact::Thought { text: text.clone() }))
        .collect();
    facts.push((
        500,
        Fact::Answer {
            text: "the end".to_owned(),
        },
    ));
    let diagram = export(&told("many", facts), Format::Mermaid);
    assert!(diagram.len() < 50_000);
    assert!(
        diagram.contains("more steps not shown\n    A->>P: Answer#58; the end\n"),
        "{diagram}"
    );
}

#[test]
fn an_unfinished_session_says_so_and_does_not_age() {
    let events = super_bowl().events()[..20].to_vec();
    let open = [&events[..], &super_bowl().events()[20..22]].concat();
    let session = Session::restored(open).unwrap();
    let page = export(&session, Format::Html);
    assert!(
        page.contains("</span> unfinished</p>") && page.contains("No answer yet"),
        "{page}"
    );
    assert!(
        page.contains("<li class=\"tool open\">") && page.contains(">unfinished</b>"),
        "{page}"
    );
    assert!(
        page.contains("<dt>Time</dt><dd>2.77 s</dd>"),
        "up to the last event"
    );
    let value: Value = serde_json::from_str(&export(&session, Format::Json)).unwrap();
    assert_eq!(
        (&value["status"], &value["tool_calls"]),
        (&Value::Null, &json!(2))
    );
    assert!(export(&session, Format::Md).contains("the session is unfinished"));
    assert!(
        export(&session, Format::Mermaid).ends_with("Note over P,T: unfinished, 2 steps, 2.77 s\n")
    );
}

#[test]
fn a_session_that_was_gone_on_with_says_where() {
    let opened = |id, kind| Fact::Opened {
        id,
        kind,
        title: "scripted".to_owned(),
    };
    let facts = vec![
        (1, opened(1, SpanKind::Llm)),
        (
            1,
            Fact::Notice {
                text: "slow".to_owned(),
            },
        ),
        (1, Fact::Resumed),
        (2, opened(2, SpanKind::Llm)),
        (
            2,
            Fact::Answer {
                text: "yes".to_owned(),
            },
        ),
    ];
    let session = told("Is it?", facts);
    for format in [Format::Md, Format::Html, Format::Mermaid] {
        assert!(
            export(&session, format).contains("gone on with later"),
            "{format:?}"
        );
    }
    let page = export(&session, Format::Html);
    let spans = page.matches("<li class=\"llm open\">").count();
    assert_eq!(spans, 2, "{page}");
    assert!(
        page.contains("200 ms<span class=\"unseen\"> from 100 ms"),
        "up to the break: {page}"
    );
}

#[test]
fn a_session_that_failed_tells_why() {
    let server = Server::always("Action1: no_such_tool(1)");
    let test = Test::with(&server).arg("What is it?");
    test.run().code(1);
    let session = left_by(&test);
    let page = export(&session, Format::Html);
    assert!(
        page.contains("class=\"badge bad\"") && page.contains("<section class=\"outcome error\""),
        "{page}"
    );
    assert_eq!(page.matches(">Malformed</h4>").count(), 3, "{page}");
    assert!(page.contains("<li class=\"answer failed\">"), "{page}");
    let document = export(&session, Format::Md);
    assert!(
        document.contains("- **Status:** failed\n")
            && document.contains("\n## No answer\n\n**Error:** "),
        "{document}"
    );
    let diagram = export(&session, Format::Mermaid);
    assert!(
        diagram.contains("    M--xA: Malformed#58; ") && diagram.contains("    A--xP: Error#58; "),
        "{diagram}"
    );
}

#[test]
fn a_session_at_its_limit_tells_so() {
    let server = Server::replies(["Action1: add_numbers(1, 2)"]);
    let test = Test::with(&server).args(["--ttl", "1", "What is it?"]);
    test.run().code(3);
    let session = left_by(&test);
    assert!(export(&session, Format::Md).contains("**Terminate:** "));
    assert!(export(&session, Format::Mermaid).contains("A--xP: Terminate#58; "));
    assert!(export(&session, Format::Html).contains("</span> limit</p>"));
}

#[test]
fn calls_side_by_side_are_told_each_with_its_result() {
    let calls = [
        ("add_numbers", json!({"x": 1, "y": 2})),
        ("multiply_numbers", json!({"x": 3, "y": 4})),
    ];
    let server = Server::replies([Reply::calls("Both.", &calls), Reply::chat("3 and 12.")]);
    let test = Test::with(&server).args(["--engine", "native", "Both?"]);
    test.run().success();
    let session = left_by(&test);
    let document = export(&session, Format::Md);
    let places = [
        "add_numbers(1, 2)",
        "\n3\n",
        "multiply_numbers(3, 4)",
        "\n12\n",
        "## Step 2",
    ];
    let places = places.map(|text| {
        document
            .find(text)
            .unwrap_or_else(|| panic!("no {text}: {document}"))
    });
    assert!(places.is_sorted(), "{document}");
    let page = export(&session, Format::Html);
    assert!(
        page.contains("<details class=\"message tool\">") && page.contains("result of add_numbers"),
        "{page}"
    );
    assert!(page.contains("<p class=\"meta\">calls</p>"), "{page}");
}

#[test]
fn decisions_of_the_engine_plan_are_told_alike() {
    let server = Server::replies([
        r#"{"action": "echo", "params": {"text": "<b>hi</b>"}, "confidence": 0.9}"#,
        r#"{"action": "finish", "params": {"answer": "It said <b>hi</b>."}, "confidence": 1}"#,
    ]);
    let test = Test::with(&server)
        .tools(ECHO)
        .args(["--engine", "plan", "Say hi"]);
    test.run().success();
    let session = left_by(&test);
    let page = export(&session, Format::Html);
    assert!(
        page.contains("<dd>plan</dd>") && page.contains("It said &lt;b&gt;hi&lt;/b&gt;."),
        "{page}"
    );
    assert!(export(&session, Format::Mermaid).contains("A->>T: echo("));
}

#[test]
fn a_browser_shows_every_step() {
    let Some(browser) = Browser::find() else {
        return;
    };
    let dom = browser.dom(&export(&super_bowl(), Format::Html));
    for event in super_bowl().events() {
        let text = match &event.fact {
            Fact::Thought { text } | Fact::Observation { text, .. } | Fact::Answer { text } => text,
            Fact::Action { call, .. } => call,
            _ => continue,
        };
        // As the browser writes text down.
        let text = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        assert!(dom.contains(&text), "{text}\n{dom}");
    }
}

#[test]
fn no_script_of_a_text_runs_in_a_browser() {
    const POLICY: &str = "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">";
    let Some(browser) = Browser::find() else {
        return;
    };
    let page = export(&full_of(&HOSTILE.join("\n")), Format::Html);
    let unguarded = page.replace(POLICY, "");
    assert_ne!(page, unguarded);
    let title = browser.title(&page);
    assert!(
        title.starts_with("&lt;script&gt;document.title='pwned'"),
        "{title}"
    );
    assert_eq!(
        browser.title(&unguarded),
        title,
        "what is escaped needs no policy"
    );
    // The same as markup: it runs without the policy, and with the policy it does not.
    let broken = unguarded.replace("</main>", HOSTILE[0]);
    assert_eq!(browser.title(&broken), "pwned");
    assert_eq!(browser.title(&page.replace("</main>", HOSTILE[0])), title);
}

#[test]
fn the_page_is_no_wider_than_the_screen_of_a_phone() {
    const SCREENS: [u32; 4] = [320, 360, 768, 1200];
    let Some(browser) = Browser::find() else {
        return;
    };
    let unbroken = format!(
        "{}\nhttps://example.org/{}",
        "W".repeat(3000),
        "a/b-c_d".repeat(500)
    );
    for session in [
        super_bowl(),
        full_of(&unbroken),
        full_of(&HOSTILE.join("\n")),
    ] {
        let page = export(&session, Format::Html);
        assert_eq!(browser.widths(&page, &SCREENS), SCREENS);
    }
    let wide = export(&super_bowl(), Format::Html)
        .replace("<main>", "<main><p style=\"width:900px\">wide</p>");
    let widths = browser.widths(&wide, &SCREENS);
    assert!(widths[1] >= 900 && widths[3] == 1200, "{widths:?}");
}
