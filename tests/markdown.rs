//! Answers in markdown: rendered for a person at a terminal, as they are for everything else.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use reagent::ui::markdown::{Flow, render};
use reagent::ui::theme::Theme;
use unicode_width::UnicodeWidthStr;

use crate::server::{Reply, Server};
use crate::terminal::{OUTPUT, STDERR, STDOUT, Screen, Terminal};
use crate::test::Test;

/// Everything that there is.
const ALL: &str = "It is **forty**, see `x + 1` and *this*.\n\n# Steps\n\n1. Multiply ten by three, which takes a moment and more than one line\n2. Add ten\n   - once\n     - only\n\n> As they say,\n> with care.\n\n```rust\nfn main() {\n    let answer = 40;\n}\n```\n\n| Name | Amount |\n|------|-------:|\n| ten | 10 |\n| 日本 | 4 |\n\nMore at [the site](https://example.com/a) and <https://example.com>.\n\n---\n\nDone 👩‍👧.";

/// How the answer to a question looks, behind the prompt's trace.
fn answered(answer: &str, flags: &[&str], columns: u16) -> (String, Screen) {
    let server = Server::replies([Reply::chat(format!("Answer: {answer}"))]);
    let test = Test::with(&server).args(flags).arg("q");
    let screen = Terminal::start_in(&test, OUTPUT, columns).finish();
    assert_eq!(screen.code, 0, "{}", screen.plain);
    let start = screen.plain.find("Answer: ").unwrap();
    (screen.plain[start..].to_owned(), screen)
}

#[test]
fn a_plain_answer_in_one_line_is_as_it_was() {
    for flags in [&[][..], &["--no-stream"]] {
        let (shown, screen) = answered("40", flags, 80);
        assert!(shown.starts_with("Answer: 40\n"), "{shown}");
        assert!(
            screen
                .raw
                .contains("\u{1b}[92mAnswer: \u{1b}[0m\u{1b}[92m40\u{1b}[0m\r\n"),
            "{:?}",
            screen.raw
        );
    }
}

#[test]
fn golden_screens_in_colour() {
    let wide = "\
Answer: It is forty, see x + 1 and this.

  Steps

  1. Multiply ten by three, which takes a moment and more than one line
  2. Add ten
     ◦ once
       ▪ only

  │ As they say,
  │ with care.

    fn main() {
        let answer = 40;
    }

  Name │ Amount
  ─────┼───────
  ten  │     10
  日本 │      4

  More at the site (https://example.com/a) and https://example.com.

  ────────────────────────────────────────────────────────────

  Done 👩‍👧.
";
    let narrow = "\
Answer: It is forty, see x + 1 and this.

  Steps

  1. Multiply ten by three, which takes
     a moment and more than one line
  2. Add ten
     ◦ once
       ▪ only

  │ As they say,
  │ with care.

    fn main() {
        let answer = 40;
    }

  Name │ Amount
  ─────┼───────
  ten  │     10
  日本 │      4

  More at the site
  (https://example.com/a) and
  https://example.com.

  ──────────────────────────────────────

  Done 👩‍👧.
";
    for (columns, wanted) in [(80, wide), (40, narrow)] {
        for flags in [&[][..], &["--no-stream"]] {
            let (shown, screen) = answered(ALL, flags, columns);
            let shown = shown.split("notice: ").next().unwrap();
            assert_eq!(shown, wanted, "{columns} columns, {flags:?}");
            assert!(screen.style("Steps").contains(&1));
            assert!(screen.style("forty").contains(&1));
            assert_eq!(screen.style("x + 1"), [36]);
            assert!(screen.style("https://example.com/a").contains(&4));
        }
    }
}

#[test]
fn golden_screen_without_colour() {
    let wanted = "\
Answer: It is **forty**, see `x + 1` and
  *this*.

  # Steps

  1. Multiply ten by three, which takes
     a moment and more than one line
  2. Add ten
     ◦ once
       ▪ only
";
    let (shown, screen) = answered(ALL, &["--color", "never"], 40);
    assert!(shown.starts_with(wanted), "{shown}");
    assert!(!screen.is_styled(), "{:?}", screen.raw);
}

#[test]
fn what_does_not_go_to_a_terminal_is_as_it_is() {
    let raw = format!("{ALL}\n");
    for flags in [&[][..], &["-q"]] {
        let server = Server::replies([Reply::chat(format!("Answer: {ALL}"))]);
        let run = Test::with(&server).args(flags).arg("q").run();
        run.success().stdout(&raw);
    }
    let server = Server::replies([Reply::chat(format!("Answer: {ALL}"))]);
    let run = Test::with(&server).args(["--json", "q"]).run().success();
    assert_eq!(run.events().of("answer")[0]["text"], ALL);
    // The trace of a person whose answer goes into a file is theirs to read.
    let server = Server::replies([Reply::chat(format!("Answer: {ALL}"))]);
    let screen = Terminal::start(&Test::with(&server).arg("q"), STDERR).finish();
    assert_eq!(screen.pipes, [raw]);
    assert!(
        screen.plain.contains("\n  Name │ Amount\n"),
        "{}",
        screen.plain
    );
    let server = Server::replies([Reply::chat(format!("Answer: {ALL}"))]);
    let screen = Terminal::start(&Test::with(&server).arg("q"), STDOUT).finish();
    assert!(
        screen.plain.contains("\nName │ Amount\n"),
        "{}",
        screen.plain
    );
}

#[test]
fn every_view_that_has_an_answer_renders_it() {
    let (_, screen) = answered_in_tree("It is:\n\n- **one**\n- two");
    assert!(
        screen.plain.contains(": It is:\n\n  • one\n  • two\n"),
        "{}",
        screen.plain
    );
}

fn answered_in_tree(answer: &str) -> (Server, Screen) {
    let server = Server::replies([Reply::chat(format!("Answer: {answer}"))]);
    let test = Test::with(&server).args(["--trace", "tree", "q"]);
    let screen = Terminal::start(&test, OUTPUT).finish();
    (server, screen)
}

#[test]
fn an_answer_cannot_pass_for_a_line_of_the_trace() {
    let spoofs = [
        "x\nerror: forged",
        "x\n\nerror: forged",
        "- x\n\nerror: forged",
        "```\nerror: forged\n```",
        "# x\nerror: forged",
        "<pre>\nerror: forged\n</pre>",
        "| a |\n|---|\n| error: forged |",
        "x&#10;error: forged",
        "x&#13;error: forged",
        "x\rerror: forged",
        "[error: forged]: http://x",
        "a bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb\u{a0}error: forged error: forged",
    ];
    for spoof in spoofs {
        let (shown, screen) = answered(spoof, &[], 40);
        let flat: String = shown.split_whitespace().collect();
        assert!(flat.contains("forged"), "{spoof:?} loses text: {shown}");
        let told = screen
            .plain
            .lines()
            .filter(|line| line.starts_with("error"));
        assert_eq!(told.count(), 0, "{spoof:?}: {}", screen.plain);
    }
}

#[test]
fn no_byte_that_a_terminal_obeys_can_be_spelled() {
    let answer = "&#27;]52;c;YQ==&#7; &#x9b;31m [a](http://x/&#27;[2J \"t\") `\u{1b}[1m` &#x202e;evil <a\u{1b}[0m>";
    let (shown, screen) = answered(answer, &["--color", "never"], 80);
    assert!(
        !screen
            .raw
            .contains(['\u{1b}', '\u{7}', '\u{9b}', '\u{202e}']),
        "{:?}",
        screen.raw
    );
    assert!(shown.contains("^[]52;c;YQ==^G"), "{shown}");
    assert!(shown.contains("<U+202E>evil"), "{shown}");
}

#[test]
fn a_link_is_its_text_and_its_address_without_a_sequence_of_its_own() {
    let (shown, screen) = answered(
        "Go to [https://bank.example](https://evil.example).",
        &[],
        80,
    );
    assert!(
        shown.contains("Go to https://bank.example (https://evil.example)."),
        "{shown}"
    );
    assert!(!screen.raw.contains("\u{1b}]"), "{:?}", screen.raw);
}

#[test]
fn words_are_shown_as_they_come_and_blocks_when_they_are_complete() {
    let mut flow = Flow::new(Theme::bare(), 2, 8);
    let pieces = [
        ("It is ", "It is"),
        ("fine", ""),
        (" today", " fine"),
        (", **ve", " today,"),
        ("ry** fine.\n", ""),
        ("\n", ""),
        ("- one\n", " **very** fine."),
        ("- two\n\n", "\n\n  • one"),
        ("`", "\n  • two"),
    ];
    for (piece, wanted) in pieces {
        assert_eq!(flow.push(piece), wanted, "after {piece:?}");
    }
    assert_eq!(flow.finish(), "\n\n  `");
}

#[test]
fn another_width_counts_from_the_next_block_on() {
    let mut flow = Flow::new(Theme::bare(), 2, 8);
    flow.resize(40);
    let mut shown = flow.push("Words are shown as they come, and ");
    flow.resize(24);
    shown += &flow.push("go on as they began.\n\nThen a paragraph of the new width.");
    shown += &flow.finish();
    assert_eq!(
        shown,
        "Words are shown as they come,\n  and go on as they began.\n\n  Then a paragraph of\n  the new width."
    );
}

#[test]
fn wide_letters_and_emoji_take_the_columns_that_they_take() {
    let table = "| a | b |\n|---|---|\n| 日本 | 1 |\n| 👩‍👧 | 2 |\n| ☎\u{fe0f} | 3 |\n| e\u{301} | 4 |\n| שלום | 5 |";
    let shown = render(table, 40, &Theme::bare());
    for line in shown.lines().filter(|line| line.contains('│')) {
        let before = line.split('│').next().unwrap_or_default();
        assert_eq!(before.width(), 5, "{shown}");
    }
    let line = "日本語日本語日本語日本語日本語";
    assert_eq!(
        render(line, 20, &Theme::bare()),
        "日本語日本語日本語日\n本語日本語"
    );
}

#[test]
fn a_product_keeps_its_asterisks() {
    for text in ["2*3*4 = 24", "2**3**4", "(a+b)*c*(d+e)", "x*y*(z)"] {
        assert_eq!(render(text, 80, &Theme::bare()), text);
        let shown = render(text, 80, &Theme::plain());
        assert!(shown.contains(text), "{shown:?}");
    }
    let shown = render("这是**重要**的", 80, &Theme::plain());
    assert!(!shown.contains('*'), "{shown:?}");
}

#[test]
fn a_key_is_not_shown_because_a_line_breaks_in_it() {
    let key = "gsk-render-0123456789-abcdefghijklmnopqrstuvwxyz";
    let _known = reagent::secret::Secret::new(key).unwrap();
    for text in [
        format!("The key is {key} as you know"),
        format!("Look:\n\n```\nkey = {key}\n```"),
        format!("**{key}**"),
    ] {
        let mut flow = Flow::new(Theme::bare(), 2, 8);
        flow.resize(30);
        let shown = flow.push(&text) + &flow.finish();
        assert!(!shown.contains("render-0"), "{shown}");
    }
}

#[test]
fn an_item_is_shown_when_the_next_one_begins() {
    let mut flow = Flow::new(Theme::bare(), 2, 8);
    let pieces = [
        ("The steps:\n1", "The"),
        (". Add", " steps:"),
        (" ten.\n2. ", ""),
        ("Sub", "\n  1. Add ten."),
        ("tract.\n   - so\n4. on\n", ""),
    ];
    for (piece, wanted) in pieces {
        assert_eq!(flow.push(piece), wanted, "after {piece:?}");
    }
    assert_eq!(flow.finish(), "\n  2. Subtract.\n     ◦ so\n  3. on");
}

#[test]
fn a_definition_is_shown_and_not_swallowed() {
    let shown = render(
        "[1]: https://example.com/a\n[b]: http://b",
        80,
        &Theme::bare(),
    );
    assert_eq!(shown, "[1]: https://example.com/a\n[b]: http://b");
}

#[test]
fn a_table_that_does_not_fit_is_wrapped_or_a_list_of_rows() {
    let table =
        "| Name | What it is |\n|---|---|\n| one | a long description of one |\n| two | short |";
    assert_eq!(
        render(table, 30, &Theme::bare()),
        "Name │ What it is\n─────┼────────────────────────\none  │ a long description of\n     │ one\ntwo  │ short"
    );
    let row = |cell: &str| format!("|{}", format!(" {cell} |").repeat(8));
    let table = format!("{}\n{}\n{}", row("head"), row("---"), row("cell cell"));
    let shown = render(&table, 30, &Theme::bare());
    assert!(
        shown.starts_with("head: cell cell\nhead: cell cell\n"),
        "{shown}"
    );
}

#[test]
fn hostile_texts_take_no_longer_than_others() {
    let half = 1 << 19;
    let texts = [
        "a ".repeat(half),
        "a".repeat(2 * half),
        "> ".repeat(half),
        format!("{}\n{}", "> ".repeat(30), "> x\n".repeat(half / 4)),
        "- ".repeat(half),
        "- a\n".repeat(half / 2),
        "*a **b ".repeat(half / 4),
        "[".repeat(half),
        "[a](".repeat(half / 2),
        "![[a]".repeat(half / 4),
        "`a``".repeat(half / 2),
        "<".repeat(half),
        "<!-- ".repeat(half / 4),
        "&".repeat(half),
        "|".repeat(half),
        format!(
            "{}\n{}\n{}",
            "|a".repeat(2000),
            "|-".repeat(2000),
            "x\n".repeat(half / 4)
        ),
        "```\n".repeat(half / 4),
        "\n".repeat(half),
        "- x\n\n".repeat(half / 4),
        "1. x\n\n   y\n".repeat(half / 8),
        "[a]: b\n".repeat(half / 8),
        "\u{200d}".repeat(half / 2),
        "日本".repeat(half / 4),
        "a\n===\n".repeat(half / 4),
        (0..700)
            .map(|depth| format!("{}- a\n", "  ".repeat(depth)))
            .collect(),
    ];
    for text in texts {
        let start = Instant::now();
        let shown = render(&text, 80, &Theme::dark());
        let what: String = text.chars().take(20).collect();
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{what:?} took {:?}",
            start.elapsed()
        );
        assert!(
            shown.len() < 60 * text.len() + 1000,
            "{what:?} became {}",
            shown.len()
        );
    }
}

#[test]
fn a_long_text_in_small_pieces_takes_no_longer_than_whole() {
    for text in [
        "a word ".repeat(70_000),
        "a".repeat(500_000),
        "```\nx\n".repeat(80_000),
    ] {
        let start = Instant::now();
        let mut flow = Flow::new(Theme::dark(), 2, 8);
        for at in (0..text.len()).step_by(3) {
            flow.push(&text[at..text.len().min(at + 3)]);
        }
        flow.finish();
        assert!(
            start.elapsed() < Duration::from_secs(10),
            "{:?}",
            start.elapsed()
        );
    }
}

/// Texts in which markdown is likely.
fn texts() -> impl Strategy<Value = String> {
    let words = prop::sample::select(vec![
        "a",
        "word",
        "longer-word",
        "**",
        "*",
        "_",
        "`",
        "```",
        "~~~",
        "\n",
        "\n\n",
        "\n",
        " ",
        " ",
        "  ",
        "    ",
        "- ",
        "1. ",
        "12) ",
        "> ",
        "# ",
        "### ",
        "|",
        "|---|",
        "\n|-|-|\n",
        "[",
        "](",
        ")",
        "http://x.y/z",
        "<",
        ">",
        "&lt;",
        "&#27;",
        "\\",
        "---",
        "===",
        "日本",
        "👩‍👧",
        "é",
        "\t",
        "\r",
        "\u{1b}[31m",
        "\u{202e}",
        "!",
        "[a]: b",
        "<b>",
        "é\u{301}",
    ]);
    prop_oneof![
        prop::collection::vec(words, 0..60).prop_map(|words| words.concat()),
        any::<String>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_fits_and_has_nothing_that_a_terminal_obeys(text in texts(), width in 0_usize..120) {
        let shown = render(&text, width, &Theme::bare());
        let width = width.max(20);
        prop_assert_eq!(reagent::ui::text::clean(&shown), shown.as_str());
        let obeyed = shown.contains(|c: char| c.is_control() && c != '\n');
        prop_assert!(!obeyed);
        for line in shown.lines() {
            // An address stays whole.
            prop_assert!(line.width() <= width || line.contains("://"), "{line:?} is wider than {width}");
        }
        // The same words in colour.
        let coloured = render(&text, width, &Theme::plain());
        let coloured = coloured.replace("\u{1b}[", "");
        let obeyed = coloured.contains(|c: char| c.is_control() && c != '\n');
        prop_assert!(!obeyed);
    }

    #[test]
    fn no_line_after_the_first_begins_at_the_edge(text in texts(), width in 20_usize..100) {
        let mut flow = Flow::new(Theme::bare(), 2, 8);
        flow.resize(width);
        let shown = flow.push(&text) + &flow.finish();
        for line in shown.lines().skip(1) {
            prop_assert!(line.is_empty() || line.starts_with("  "), "{shown:?}");
        }
    }

    #[test]
    fn it_is_the_same_however_it_comes(text in texts(), width in 20_usize..100, size in 1_usize..9) {
        // The beginning of a table without a bar at its edge is shown as the words that it may be.
        let text = text.replace("-|", "-").replace("|-", "-");
        let mut whole = Flow::new(Theme::bare(), 2, 8);
        whole.resize(width);
        let wanted = whole.push(&text) + &whole.finish();
        let mut pieces = Flow::new(Theme::bare(), 2, 8);
        pieces.resize(width);
        let mut shown = String::new();
        for piece in text.chars().collect::<Vec<_>>().chunks(size) {
            shown += &pieces.push(&piece.iter().collect::<String>());
        }
        shown += &pieces.finish();
        prop_assert_eq!(shown, wanted);
    }
}
