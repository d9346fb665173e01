//! The live view against the parser.

use reagent::engine::parse::live::Live;
use reagent::engine::parse::{Next, parse};
use reagent::llm::Finish;
use reagent::session::event::Part;

use super::rows;

/// What the live view shows of the thought and of the answer, and the text after which it was over.
fn watch(chunks: &[&str]) -> (String, String, Option<String>) {
    let (mut thought, mut answer, mut over, mut seen) =
        (String::new(), String::new(), None, String::new());
    let mut live = Live::new();
    for chunk in chunks {
        seen.push_str(chunk);
        live.push(chunk, &mut |part, text| match part {
            Part::Thought => thought.push_str(text),
            Part::Answer => answer.push_str(text),
        });
        if live.is_over() && over.is_none() {
            over = Some(seen.clone());
        }
    }
    (thought, answer, over)
}

fn by_char(text: &str) -> Vec<&str> {
    let ends = text
        .char_indices()
        .map(|(at, c)| &text[at..at + c.len_utf8()]);
    ends.collect()
}

/// What must hold of the live view of any reply, except for the one that its docs name.
pub(crate) fn check_live(reply: &str) {
    let parsed = parse(reply, Finish::Stop);
    let (thought, answer, over) = watch(&by_char(reply));
    assert_eq!(watch(&[reply]).0, thought, "thought by chunk");
    assert_eq!(watch(&[reply]).1, answer, "answer by chunk");
    if reply.to_lowercase().contains("</") {
        return;
    }
    match &parsed.next {
        Next::Prose(text) => assert!(
            text.starts_with(&thought),
            "prose {text:?} shown as {thought:?}"
        ),
        _ => {
            let whole = parsed.thought.as_deref().unwrap_or_default();
            assert!(
                whole.starts_with(&thought),
                "thought {whole:?} shown as {thought:?}"
            );
        }
    }
    match &parsed.next {
        Next::Answer { text, .. } => assert!(
            text.starts_with(&answer),
            "answer {text:?} shown as {answer:?}"
        ),
        next => assert_eq!(answer, "", "no answer, but {next:?}"),
    }
    if let Some(seen) = over {
        assert_eq!(
            parse(&seen, Finish::Stop).next,
            parsed.next,
            "over after {seen:?}"
        );
    }
}

#[test]
fn the_live_view_agrees_with_the_parser_on_every_recorded_shape() {
    for row in rows() {
        check_live(row["reply"].as_str().expect("a reply"));
    }
}

#[test]
fn the_live_view_shows_early_and_stops_early() {
    let show = |reply: &str| watch(&by_char(reply));
    assert_eq!(show("Thought: I look").0, "I look");
    assert_eq!(show("Thought: I look\nAct").0, "I look");
    assert_eq!(show("Thought: I look\nActing").0, "I look\nActing");
    assert_eq!(show("Answer: 5 bo").1, "5 bo");
    assert_eq!(show("Answer: 5 boats\nObs").1, "5 boats");
    assert_eq!(show("**Answer: 5 boats**").1, "5 boats");
    assert_eq!(show("<think>no</think>Thought: yes").0, "yes");
    assert_eq!(show("```\nThought: no\nAction1: get_time()\n```").0, "");
    assert_eq!(
        show("As in\n```\nAction1: f()\n```\nAnswer: 5").0,
        "As in\n```\nAction1: f()\n```"
    );
    assert_eq!(show("{\"name\": \"search\", \"args\": [\"x\"]}").0, "");
    let over = |reply: &str| show(reply).2.map(|seen| seen.len());
    assert_eq!(over("Action1: search(\"x\")\nPAUSE\nmore"), Some(27));
    assert_eq!(
        over("Action: search\nAction Input: x\nObservation: more"),
        Some(43)
    );
    assert_eq!(over("Action1: search(\"x\nObservation: y\nPAUSE\n"), None);
    assert_eq!(over("Action1: tag_items([\nAnswer: y\n"), None);
    assert_eq!(over("Answer: 5\nObservation: more"), Some(22));
    assert_eq!(over("Answer: 5\nmore"), None);
}

#[test]
fn finishing_hands_on_what_was_held_back() {
    let reply = "Answer: press\nPAUS";
    let mut shown = String::new();
    let mut live = Live::new();
    live.push(reply, &mut |_, text| shown.push_str(text));
    live.finish(
        &parse("Answer: press\nPAUS now", Finish::Stop),
        &mut |_, text| shown.push_str(text),
    );
    assert_eq!(shown, "press\nPAUS now");
}
