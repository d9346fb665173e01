//! The worked examples of the articles that this program comes from: TinyReAct's and Regent's. The models are
//! scripted with what the articles print; the tools are the real ones, over services that answer as theirs did.
//!
//! The traces are compared with `data/seeds/`; `REAGENT_TEST_BLESS=1 cargo test seeds::` writes them anew.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::server::{Reply, Request, Server};
use crate::test::Test;
use crate::web;

/// The messages after the system prompt.
fn conversation(request: &Request) -> Vec<(String, String)> {
    request.messages().into_iter().skip(1).collect()
}

/// Checks that the model was sent its own replies and what its actions gave, each in its turn.
#[track_caller]
fn assert_turns(request: &Request, question: &str, replies: &[&str], observations: &[&str]) {
    let mut wanted = vec![("user", format!("Question: {question}"))];
    for (number, (reply, observation)) in replies.iter().zip(observations).enumerate() {
        wanted.push(("assistant", (*reply).to_owned()));
        wanted.push(("user", format!("Observation{}: {observation}", number + 1)));
    }
    let wanted: Vec<(String, String)> = wanted
        .into_iter()
        .map(|(role, text)| (role.to_owned(), text))
        .collect();
    assert_eq!(conversation(request), wanted);
}

/// Compares with a file, or writes it.
#[track_caller]
fn assert_golden(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/seeds")
        .join(name);
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

/// The trace with every duration, such as `[0.12s]` or `[1.0s]`, as `[0.0s]`.
fn timeless(trace: &str) -> String {
    let mut pieces = trace.split('[');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let duration = piece.split_once("s]").filter(|(digits, _)| {
            digits.contains('.') && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
        });
        match duration {
            Some((_, rest)) => text += &format!("[0.0s]{rest}"),
            None => text += &format!("[{piece}"),
        }
    }
    text
}

/// The text without colours.
fn plain(text: &str) -> String {
    let mut pieces = text.split("\u{1b}[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain += piece.split_once('m').expect("only colours are set").1;
    }
    plain
}

// TinyReAct: the temperature in the city that won the Super Bowl.

const SUPER_BOWL: &str =
    "What is the current tempurature (in fahrenheit) in the city that won the superbowl in 1995?";

/// The article's replies with its thoughts cut short. Its numbers are kept, also where its tool gave more digits.
const TURNS: [&str; 7] = [
    "Thought1: The first step is to identify which city won the Super Bowl in 1995.\n\
     Action1: wikipedia_summary(\"Super Bowl 1995 winner\", 2)",
    "Thought2: My previous search failed; the 1995 Super Bowl is officially Super Bowl XXIX.\n\
     Action2: wikipedia_summary(\"Super Bowl XXIX\", 2)",
    "Thought3: The San Francisco 49ers won, so I need the coordinates of San Francisco.\n\
     Action3: wikipedia_coordinates(\"San Francisco\")",
    "Thought4: Now I can find the current temperature there.\n\
     Action4: get_temperature(37.78333333, -122.41666667)",
    "Thought5: To convert to Fahrenheit I first multiply by 9/5.\n\
     Action5: multiply_numbers(10.290999412536621, 1.8)",
    "Thought6: The final step is to add 32.\n\
     Action6: add_numbers(18.523798942565918, 32)",
    "Thought7: I have the temperature in Fahrenheit.\n\
     Answer: The current temperature in the city that won the Super Bowl in 1995 is approximately 50.52 degrees \
     Fahrenheit.\n\n\
     1. Identified that the San Francisco 49ers won Super Bowl XXIX (1995).\n\
     2. Obtained the geographical coordinates for San Francisco.\n\
     3. Retrieved the temperature for San Francisco in Celsius.\n\
     4. Converted the temperature from Celsius to Fahrenheit.",
];

const XXIX: &str = "Super Bowl XXIX was an American football game between the American Football Conference (AFC) champion \
    San Diego Chargers and the National Football Conference (NFC) champion San Francisco 49ers to decide the National \
    Football League (NFL) champion for the 1994 season. The 49ers defeated the Chargers by a score of 49–26, the most \
    points ever earned in a Super Bowl game, becoming the first team to win five Super Bowl championships.";

fn super_bowl_web() -> Server {
    let place =
        json!({"lat": 37.783_333_33, "lon": -122.416_666_67, "primary": true, "globe": "earth"});
    let wikipedia = |title: &str| format!("/w/api.php?titles={title}");
    Server::web()
        .route(
            &wikipedia("Super%20Bowl%201995%20winner"),
            web::missing("Super Bowl 1995 winner"),
        )
        .route(
            &wikipedia("Super%20Bowl%20XXIX"),
            web::article("Super Bowl XXIX", &json!({"extract": XXIX})),
        )
        .route(
            &wikipedia("San%20Francisco"),
            web::article("San Francisco", &json!({"coordinates": [place]})),
        )
        .route(
            "/v1/forecast?latitude=37.78333333&longitude=-122.41666667&temperature_unit=celsius",
            web::weather(&json!(10.290_999_412_536_621), "°C"),
        )
}

fn the_answer(reply: &str) -> String {
    format!(
        "{}\n",
        reply.split_once("Answer: ").expect("it has an answer").1
    )
}

#[test]
fn the_super_bowl_temperature_is_found_in_six_actions() {
    let (web, server) = (super_bowl_web(), Server::replies(TURNS));
    let test = Test::with(&server).tools(&web::tools(&web));
    let run = test
        .arg(SUPER_BOWL)
        .run()
        .success()
        .stdout(&the_answer(TURNS[6]));
    let run = run
        .out_has("50.52")
        .out_has("\n1. Identified")
        .out_has("\n4. Converted");
    let started = |label: &str| {
        run.trace()
            .iter()
            .filter(|line| line.starts_with(label))
            .count()
    };
    for kind in ["Thought", "Action", "Observation"] {
        for number in 1..=6 {
            run.check(
                started(&format!("{kind}{number}: ")) == 1,
                &format!("{kind}{number} is shown once"),
            );
        }
    }
    run.check(
        started("Query: ") == 1 && started("Answer: ") == 1,
        "question and answer frame the trace",
    );
    run.check(
        started("Malformed") == 0 && started("error: ") == 0,
        "a lookup that fails is no mistake",
    );

    assert_eq!(server.calls(), 7);
    assert_eq!(web.calls(), 4, "two lookups, a place and its weather");
    let last = server.request(6);
    assert!(
        last.system().contains("wikipedia_summary(") && last.system().contains("get_temperature(")
    );
    let first = "Error: Wikipedia page for 'Super Bowl 1995 winner' not found";
    let seen = conversation(&last);
    assert!(
        seen[2].1.starts_with(&format!("Observation1: {first}")),
        "{}",
        seen[2].1
    );
    let observations = [
        seen[2].1.strip_prefix("Observation1: ").unwrap(),
        XXIX,
        seen[6].1.strip_prefix("Observation3: ").unwrap(),
        "The temperature at 37.78333333, -122.41666667 is 10.29°C",
        "18.523798942566",
        "50.523798942566",
    ];
    let place: Value = serde_json::from_str(observations[2]).unwrap();
    assert_eq!(
        place,
        json!({"latitude": 37.783_333_33, "longitude": -122.416_666_67})
    );
    assert_turns(&last, SUPER_BOWL, &TURNS[..6], &observations);
}

#[test]
fn the_super_bowl_run_is_recorded_with_one_failed_and_five_good_actions() {
    let (web, server) = (super_bowl_web(), Server::replies(TURNS));
    let test = Test::with(&server).tools(&web::tools(&web));
    let run = test.args(["--json", SUPER_BOWL]).run().success();
    let events = run.events();
    let tools: Vec<&Value> = events
        .of("action")
        .iter()
        .map(|action| &action["tool"])
        .collect();
    let wanted = [
        "wikipedia_summary",
        "wikipedia_summary",
        "wikipedia_coordinates",
        "get_temperature",
        "multiply_numbers",
        "add_numbers",
    ];
    assert_eq!(tools, wanted);
    assert_eq!(
        events.of("action")[0]["args"],
        json!({"title": "Super Bowl 1995 winner", "sentences": 2})
    );
    let fine: Vec<&Value> = events
        .of("observation")
        .iter()
        .map(|seen| &seen["ok"])
        .collect();
    assert_eq!(fine, [false, true, true, true, true, true]);
    let end = events.end();
    assert_eq!(
        (&end["status"], &end["exit_code"]),
        (&json!("answered"), &json!(0))
    );
    assert_eq!((&end["steps"], &end["tool_calls"]), (&json!(7), &json!(6)));
    assert_eq!(end["input_tokens"], 700);
    let kinds = events.spans();
    let count = |kind: &str| kinds.iter().filter(|other| **other == kind).count();
    assert_eq!(
        [count("INPUT"), count("LLM"), count("TOOL"), count("ANSWER")],
        [1, 7, 6, 1]
    );
}

#[test]
fn the_super_bowl_run_needs_seven_steps_and_stops_at_fewer() {
    // TinyReAct allowed five by default, and one more for the answer.
    let (web, server) = (super_bowl_web(), Server::replies(TURNS[..5].to_vec()));
    let test = Test::with(&server).tools(&web::tools(&web));
    let run = test.args(["--ttl", "5", SUPER_BOWL]).run();
    run.code(3)
        .stdout("")
        .err_line("Terminate: ")
        .err_line("Observation5: ");
    let (web, server) = (super_bowl_web(), Server::replies(TURNS));
    let test = Test::with(&server).tools(&web::tools(&web));
    test.args(["--ttl", "7", SUPER_BOWL])
        .run()
        .success()
        .out_has("50.52");
}

/// Runs the Super Bowl question with this look; gives stdout and the trace without its durations.
fn super_bowl_trace(flags: [&str; 4]) -> (String, String) {
    let (web, server) = (super_bowl_web(), Server::replies(TURNS));
    let test = Test::with(&server)
        .tools(&web::tools(&web))
        .args(flags)
        .arg(SUPER_BOWL);
    // Not `run`, which allows no escape byte on stderr; `--color always` is there to have them.
    let output = test.command(&[]).output().unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert_eq!(server.calls(), 7);
    (stdout, timeless(&stderr))
}

#[test]
fn the_super_bowl_trace_in_lines_is_as_it_was() {
    let (stdout, trace) = super_bowl_trace(["--trace", "lines", "--color", "never"]);
    assert_eq!(stdout, the_answer(TURNS[6]));
    assert!(!trace.contains('\u{1b}'), "{trace}");
    assert_golden("super-bowl-lines.txt", &trace);
}

#[test]
fn the_super_bowl_trace_as_a_tree_is_as_it_was() {
    let (stdout, trace) = super_bowl_trace(["--trace", "tree", "--color", "never"]);
    assert_eq!(stdout, the_answer(TURNS[6]));
    assert!(!trace.contains('\u{1b}'), "{trace}");
    assert!(
        trace.matches("[0.0s]").count() == 15,
        "every span has its duration:\n{trace}"
    );
    assert_golden("super-bowl-tree.txt", &trace);
}

#[test]
fn the_super_bowl_trace_in_coloured_lines_is_as_it_was() {
    let (stdout, trace) = super_bowl_trace(["--trace", "lines", "--color", "always"]);
    assert_eq!(
        stdout,
        the_answer(TURNS[6]),
        "the answer has no colours in a pipe"
    );
    for (color, label) in [
        (95, "Query: "),
        (94, "Thought1: "),
        (96, "Action1: "),
        (93, "Observation1: "),
        (92, "Answer: "),
    ] {
        assert!(
            trace.contains(&format!("\u{1b}[{color}m{label}")),
            "{label}\n{trace}"
        );
    }
    assert_golden("super-bowl-lines-color.txt", &trace);
}

#[test]
fn the_super_bowl_trace_as_a_coloured_tree_is_as_it_was() {
    let (stdout, trace) = super_bowl_trace(["--trace", "tree", "--color", "always"]);
    assert_eq!(
        stdout,
        the_answer(TURNS[6]),
        "the answer has no colours in a pipe"
    );
    assert!(trace.contains('\u{1b}'), "{trace}");
    assert_golden("super-bowl-tree-color.txt", &trace);
}

#[test]
fn colours_change_nothing_but_the_colours() {
    for trace in ["lines", "tree"] {
        let (_, with) = super_bowl_trace(["--trace", trace, "--color", "always"]);
        let (_, without) = super_bowl_trace(["--trace", trace, "--color", "never"]);
        assert_eq!(timeless(&plain(&with)), without);
    }
}

// TinyReAct: the arithmetic of its prompt.

#[test]
fn the_arithmetic_of_tiny_react_s_prompt_takes_two_actions() {
    let question = "What is 10 * 3 + 10?";
    let replies = [
        "Thought1: First, I need to multiply 10 by 3.\nAction1: multiply_numbers(10, 3)",
        "Thought2: Now I need to add 10 to this result.\nAction2: add_numbers(30, 10)",
        "Thought3: I have the final answer.\nAnswer: 10 * 3 + 10 is 40.\n\n1. Multiplied 10 by 3: 30\n2. Added 10: 40",
    ];
    let server = Server::replies(replies);
    let run = Test::with(&server).arg(question).run().success();
    let run = run.stdout(&the_answer(replies[2]));
    run.err_line("Action1: multiply_numbers(10, 3)")
        .err_line("Observation1: 30")
        .err_line("Action2: add_numbers(30, 10)")
        .err_line("Observation2: 40")
        .err_lacks("without using any tool");
    assert_turns(&server.request(2), question, &replies[..2], &["30", "40"]);
}

#[test]
fn an_observation_that_tiny_react_s_model_makes_up_is_not_believed() {
    let made_up = "Thought1: First, I multiply.\nAction1: multiply_numbers(10, 3)\n\nObservation1: 31\n\n\
                   Thought2: Now I add.\nAction2: add_numbers(31, 10)\n\nAnswer: 41";
    let rest = ["Action2: add_numbers(30, 10)", "Answer: 40"];
    let server = Server::replies([made_up, rest[0], rest[1]]);
    let run = Test::with(&server)
        .arg("What is 10 * 3 + 10?")
        .run()
        .success();
    run.stdout("40\n")
        .err_line("Observation1: 30")
        .err_lacks("31");
    let said = server.request(1).conversation();
    assert!(
        !said.contains("31") && said.ends_with("Observation1: 30"),
        "{said}"
    );
}

// Regent: prices, in its own way of writing an action.

/// The one tool that Regent's agent has.
fn price_tool(web: &Server) -> String {
    format!(
        "[[tool]]\nname = \"price_tool\"\nfunction = \"crypto.price\"\n\
         description = \"Get cryptocurrencies prices\"\nbind.base_url = \"{}\"\n",
        web.url("")
    )
}

/// The conversation, with Regent's `PAUSE` gone from the replies.
fn without_pause(replies: &[&str]) -> Vec<String> {
    let shorten = |reply: &&str| reply.trim_end_matches("PAUSE").trim_end().to_owned();
    replies.iter().map(shorten).collect()
}

#[track_caller]
fn assert_regent_turns(request: &Request, question: &str, replies: &[&str], observations: &[&str]) {
    let replies = without_pause(replies);
    let replies: Vec<&str> = replies.iter().map(String::as_str).collect();
    assert_turns(request, question, &replies, observations);
}

#[test]
fn the_price_of_bitcoin_takes_one_action() {
    let web = web::prices(Server::web(), &[("bitcoin", 107_000.5)]);
    let replies = [
        "Thought: I need to get the price of Bitcoin.\nAction: price_tool | \"Bitcoin\"\nPAUSE",
        "Thought: I know the final answer\nAnswer: The price of Bitcoin is $107000.5.",
    ];
    let server = Server::replies(replies);
    let question = "What is the price of Bitcoin?";
    let run = Test::with(&server)
        .tools(&price_tool(&web))
        .arg(question)
        .run();
    let run = run.success().stdout("The price of Bitcoin is $107000.5.\n");
    run.err_line("Action1: price_tool(\"Bitcoin\")")
        .err_line("Observation1: $107000.5")
        .err_lacks("PAUSE");
    assert_eq!(
        web.request(0).path,
        "/api/v3/simple/price?ids=bitcoin&vs_currencies=usd"
    );
    assert_eq!(web.calls(), 1);
    assert_regent_turns(&server.request(1), question, &replies[..1], &["$107000.5"]);
}

#[test]
fn a_misspelt_coin_is_healed_by_the_model_that_is_told() {
    let web = web::prices(Server::web(), &[("ethereum", 2500.75), ("dash", 23.04)]);
    let replies = [
        "Thought: I need the price of Etherium first.\nAction: price_tool | \"etherium\"\nPAUSE",
        "Thought: The right spelling is ethereum.\nAction: price_tool | \"ethereum\"\nPAUSE",
        "Thought: Now I need the price of Dash.\nAction: price_tool | \"dash\"\nPAUSE",
        "Thought: I know the final answer\nAnswer: Ethereum costs $2500.75 and Dash costs $23.04.",
    ];
    let server = Server::replies(replies);
    let question = "What are the prices of Etherium and Dash?";
    let run = Test::with(&server)
        .tools(&price_tool(&web))
        .args(["--json", question])
        .run()
        .success();
    let events = run.events();
    let seen = events.of("observation");
    assert_eq!(
        seen.iter().map(|seen| &seen["ok"]).collect::<Vec<_>>(),
        [false, true, true]
    );
    let healed = seen[0]["text"].as_str().unwrap();
    assert!(
        healed.starts_with("Error: ")
            && healed.contains("'etherium'")
            && healed.contains("spelling"),
        "{healed}"
    );
    assert!(
        events.of("malformed").is_empty(),
        "a coin that is not found is no mistake in the reply"
    );
    assert_eq!(
        events.of("answer")[0]["text"],
        "Ethereum costs $2500.75 and Dash costs $23.04."
    );
    assert_eq!(
        (&events.end()["tool_calls"], &events.end()["steps"]),
        (&json!(3), &json!(4))
    );
    assert_eq!(web.calls(), 3);
    assert_regent_turns(
        &server.request(3),
        question,
        &replies[..3],
        &[healed, "$2500.75", "$23.04"],
    );
}

#[test]
fn several_prices_are_compared() {
    let web = web::prices(
        Server::web(),
        &[
            ("bitcoin", 107_000.5),
            ("ethereum", 2500.75),
            ("dash", 23.04),
            ("dogecoin", 0.1923),
        ],
    );
    let replies = [
        "Thought: I need all prices.\nAction: price_tool | \"bitcoin\"\nPAUSE",
        "Action: price_tool | \"ethereum\"\nPAUSE",
        "Action: price_tool | \"dash\"\nPAUSE",
        "Action: price_tool | \"dogecoin\"\nPAUSE",
        "Thought: I can compare them now.\nAnswer: Bitcoin is the most expensive at $107000.5, Dogecoin the least at $0.1923.",
    ];
    let server = Server::replies(replies);
    let question =
        "Which is the most and which the least expensive: Bitcoin, Ethereum, Dash or Dogecoin?";
    let run = Test::with(&server)
        .tools(&price_tool(&web))
        .args(["--trace", "tree", question])
        .run();
    let run = run.success().stdout(&the_answer(replies[4]));
    run.check(
        run.stderr.matches("price_tool").count() == 4,
        "each call stands in the tree",
    );
    run.check(
        run.stderr.matches("→ $").count() == 4,
        "each with its price",
    );
    run.err_has("TOOL ❯ price_tool")
        .err_has("(\"dogecoin\") → $0.1923");
    assert_eq!(web.calls(), 4);
    let prices = ["$107000.5", "$2500.75", "$23.04", "$0.1923"];
    assert_regent_turns(&server.request(4), question, &replies[..4], &prices);
}

#[test]
fn the_weather_in_london_is_declined_when_only_prices_can_be_had() {
    let web = Server::untouched();
    let answer =
        "I am not able to help with the weather; I can only look up prices of cryptocurrencies.";
    let server = Server::replies([format!(
        "Thought: No tool gives the weather.\nAnswer: {answer}"
    )]);
    let test = Test::with(&server).tools(&price_tool(&web));
    let run = test
        .arg("What is the weather in London today?")
        .run()
        .success();
    run.stdout(&format!("{answer}\n"))
        .notice("without using any tool");
    let system = server.request(0).system();
    assert!(system.contains("price_tool(coin"), "{system}");
    assert!(system.contains("Get cryptocurrencies prices"), "{system}");
    for absent in [
        "get_temperature",
        "weather",
        "wikipedia",
        "add_numbers",
        "It is 32 degrees",
    ] {
        assert!(
            !system.contains(absent),
            "{absent} is not in the prompt: {system}"
        );
    }
    assert!(
        system.contains("If no tool can help"),
        "declining is asked for: {system}"
    );
}

#[test]
fn a_model_that_reaches_for_a_weather_tool_is_told_what_there_is() {
    let web = Server::untouched();
    let server = Server::replies([
        "Thought: I need to get the weather in London\nAction: weather_tool | \"London\"\nPAUSE",
        "Thought: There is no such tool.\nAnswer: I cannot tell the weather.",
    ]);
    let test = Test::with(&server).tools(&price_tool(&web));
    let run = test
        .args(["--json", "What is the weather in London today?"])
        .run()
        .success();
    let events = run.events();
    assert_eq!(events.of("malformed").len(), 1);
    assert_eq!(events.end()["tool_calls"], 0);
    assert_eq!(events.of("answer")[0]["text"], "I cannot tell the weather.");
    let told = server.request(1).last();
    assert!(
        told.starts_with("Observation1: Error: ") && told.contains("`weather_tool`"),
        "{told}"
    );
    assert!(told.contains("price_tool"), "{told}");
}

#[test]
fn strict_tools_ends_a_query_as_regent_ended_it() {
    let rows = [
        ("Action: weather_tool | \"London\"\nPAUSE", "weather_tool"),
        ("Action: price_tool |\nPAUSE", "coin"),
    ];
    for (reply, named) in rows {
        let web = Server::untouched();
        let server = Server::replies([reply]);
        let test = Test::with(&server).tools(&price_tool(&web));
        let run = test.args(["--strict-tools", "q"]).run().code(1).stdout("");
        run.error(named);
    }
}

#[test]
fn a_price_service_that_fails_does_not_end_the_query() {
    // Regent's tool raised an error here, which ended the run.
    let web = Server::web().route("/api/v3/simple/price", Reply::page(429, "Throttled"));
    let server = Server::replies([
        "Action: price_tool | \"bitcoin\"\nPAUSE",
        "Answer: The price cannot be had now.",
    ]);
    let test = Test::with(&server).tools(&price_tool(&web));
    let run = test.arg("What is the price of Bitcoin?").run().success();
    run.stdout("The price cannot be had now.\n")
        .err_line("Observation1: Error: 127.0.0.1: ");
    assert!(
        server.request(1).last().contains("later"),
        "{}",
        server.request(1).last()
    );
}
