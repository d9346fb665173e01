//! Anything at all, and calls as they are displayed.

use proptest::prelude::*;
use reagent::engine::parse::{Next, parse};
use reagent::llm::Finish;
use reagent::tool::call::Call;
use reagent::tool::params::{Param, Type, bind};
use serde_json::{Map, Value};

use super::live::check_live;
use super::{outcome, tools};

/// Replies pieced together from what parsers stumble over.
fn pieces() -> impl Strategy<Value = String> {
    let fragments = prop::sample::select(vec![
        "Thought:",
        "Action:",
        "Action1:",
        "Action Input:",
        "Observation:",
        "Answer:",
        "Final Answer:",
        "Question:",
        "PAUSE",
        "\n",
        "\n",
        "\n",
        "\n\n",
        " ",
        "**",
        "*",
        "`",
        "```",
        "```json\n",
        "<think>",
        "</think>",
        "<tool_call>",
        "</tool_call>",
        "<|eot_id|>",
        "<|channel|>final<|message|>",
        "<|",
        "</s>",
        "<",
        "search",
        "search(",
        "search(\"x\")",
        "search | ",
        "get_time()",
        "add(1, 2)",
        "\"",
        "'",
        "“",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "{\"tool\": \"x\", \"args\": []}",
        ",",
        ":",
        "：",
        "=",
        "|",
        "1",
        "-2.5",
        "None",
        "text",
        "Obs",
        "Act",
        "\\",
        "\\u12",
        "\u{200b}",
        "\r\n",
        "é",
        "查",
    ]);
    prop::collection::vec(fragments, 0..24).prop_map(|parts| parts.concat())
}

/// JSON values as arguments.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
        // Two control tokens in a row end a reply wherever they stand.
        pieces().prop_map(|text| Value::from(
            text.replace("<|eot_id|>", "<|eot|>").replace("</s>", "<s>")
        )),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

fn calls() -> impl Strategy<Value = (Vec<Param>, Call)> {
    let args = prop::collection::vec(prop::option::of(values()), 0..5);
    args.prop_map(|args| {
        let name = |at: usize| format!("p{at}");
        let params = (0..args.len())
            .map(|at| Param {
                optional: true,
                ..Param::new(&name(at), Type::Any)
            })
            .collect();
        let given = args
            .into_iter()
            .enumerate()
            .filter_map(|(at, value)| Some((name(at), value?)));
        (
            params,
            Call {
                tool: "tool_1".into(),
                args: given.collect::<Map<_, _>>(),
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    #[test]
    fn no_reply_is_too_strange(reply in any::<String>()) {
        parse(&reply, Finish::Other);
        check_live(&reply);
    }

    #[test]
    fn no_mixture_is_too_strange(reply in pieces()) {
        let parsed = outcome(&parse(&reply, Finish::Length), &tools());
        prop_assert!(parsed["why"].as_str().is_none_or(|why| !why.contains('\n')), "{}", parsed);
        check_live(&reply);
    }

    #[test]
    fn a_call_as_displayed_is_the_same_call_again((params, call) in calls()) {
        for text in [call.to_string(), call.display(&params)] {
            let Next::Action(proposal) = parse(&format!("Thought: go\nAction1: {text}"), Finish::Stop).next else {
                return Err(TestCaseError::fail(text));
            };
            let args = bind(&call.tool, &params, &proposal.args).map_err(TestCaseError::fail)?;
            prop_assert_eq!(&Call { tool: proposal.tool, args }, &call);
        }
    }
}
