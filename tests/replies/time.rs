//! The time that hostile replies take.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use reagent::engine::parse::live::Live;
use reagent::engine::parse::parse;
use reagent::llm::Finish;

/// The shapes that bring other parsers to a halt, at any size.
fn floods(n: usize) -> Vec<String> {
    let long = |part: &str| part.repeat(n / part.len());
    vec![
        long("<think>"),
        long("</think>\n"),
        long("Question: x\n\n"),
        long("```\n"),
        long("`"),
        long("Action: a b\n"),
        long("Action: I think\nObservation: x\n"),
        long("Action: search\n"),
        long("Thought: x\n"),
        long("<|eot_id|> "),
        long("</s> a "),
        format!("Action{}Input:", long("\t")),
        format!("Action{}\nInput:", long("\n")),
        format!("Answer: {}", long(" \n")),
        format!("Answer: {}", long("**")),
        format!("Answer: {}", long("Question:\n")),
        format!("Action1: tag_items({}", long("[")),
        format!("Action1: add({}", long("1,")),
        format!("Action1: search(\"{}", long("\\\"")),
        format!("Action1: add(1, 2){}", long(" ")),
        format!("Action: search\nAction Input: ```json{}x", long(" ")),
        format!(
            "Action: search\nAction Input: \"{}",
            long("\nAction: x\nPAUSE\n")
        ),
        format!("Action1: search(\"{}", long("\nObservation: x\nPAUSE\n")),
        format!(
            "Thought: {}\nAction1: add(20, 22)",
            long("The tide tables list every harbour. ")
        ),
    ]
}

/// Processor time of this thread: on a busy machine the clock on the wall says nothing.
fn spent() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.try_into().unwrap(),
        time.tv_nsec.try_into().unwrap(),
    )
}

fn fastest(mut work: impl FnMut()) -> Duration {
    let times = (0..3).map(|_| {
        let start = spent();
        work();
        spent() - start
    });
    times.min().unwrap_or_default()
}

#[test]
fn time_grows_with_the_length_and_no_faster() {
    let (small, large) = (floods(1 << 14), floods(1 << 17));
    for (small, large) in small.iter().zip(&large) {
        let name: String = small.chars().take(40).collect();
        let parsing = |text: &str| fastest(|| drop(parse(text, Finish::Stop)));
        let streaming = |text: &str| {
            let chars: Vec<String> = text
                .chars()
                .collect::<Vec<_>>()
                .chunks(16)
                .map(|chunk| chunk.iter().collect())
                .collect();
            fastest(|| {
                let mut live = Live::new();
                chars
                    .iter()
                    .for_each(|chunk| live.push(chunk, &mut |_, _| {}));
            })
        };
        // Eight times the text; quadratic work would take 64 times as long.
        for (what, small, large) in [
            ("parsing", parsing(small), parsing(large)),
            ("streaming", streaming(small), streaming(large)),
        ] {
            let bound = 40 * small.max(Duration::from_millis(1));
            assert!(large < bound, "{what} {name:?}: {small:?}, then {large:?}");
        }
    }
}
