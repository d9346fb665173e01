//! The tools that read Wikipedia, the weather and prices, against a server that answers as the services do.

use serde_json::{Value, json};

use crate::server::{Reply, Server};
use crate::test::{Run, Test, ms};

const BUILT_IN: &str = include_str!("../tools.toml");
const WIKIPEDIA: &str = "/w/api.php";
const WEATHER: &str = "/v1/forecast";
const PRICES: &str = "/api/v3/simple/price";

/// The tools that come with the program, with this server in the place of all services.
pub(crate) fn tools(web: &Server) -> String {
    tools_at(&web.url(""))
}

fn tools_at(base_url: &str) -> String {
    let on_the_web = |line: &str| {
        let function = line.strip_prefix("function = \"");
        function.is_some_and(|name| {
            ["wikipedia.", "weather.", "crypto."]
                .iter()
                .any(|family| name.starts_with(family))
        })
    };
    let mut tools = String::new();
    let mut moved = 0;
    for line in BUILT_IN.lines() {
        tools += &format!("{line}\n");
        if on_the_web(line) {
            tools += &format!("bind.base_url = \"{base_url}\"\n");
            moved += 1;
        }
    }
    assert_eq!(moved, 5, "all five tools are moved");
    tools
}

/// A tools file with one tool, `it`.
fn one(function: &str, base_url: &str, more: &str) -> String {
    format!(
        "[[tool]]\nname = \"it\"\nfunction = \"{function}\"\nbind.base_url = \"{base_url}\"\n{more}\n"
    )
}

/// The prices as CoinGecko gives them.
pub(crate) fn prices(web: Server, known: &[(&str, f64)]) -> Server {
    let web = known.iter().fold(web, |web, (coin, price)| {
        let route = format!("{PRICES}?ids={coin}&vs_currencies=usd");
        web.route(&route, Reply::json(&json!({*coin: {"usd": price}})))
    });
    web.route(PRICES, Reply::json(&json!({})))
}

/// The temperature as Open-Meteo gives it; the place is that of its own grid.
pub(crate) fn weather(degrees: &Value, unit: &str) -> Reply {
    Reply::json(&json!({
        "latitude": 37.763_283, "longitude": -122.412_85, "generationtime_ms": 0.028, "utc_offset_seconds": 0,
        "timezone": "GMT", "timezone_abbreviation": "GMT", "elevation": 18.0,
        "current_units": {"time": "iso8601", "interval": "seconds", "temperature_2m": unit},
        "current": {"time": "2025-06-01T12:00", "interval": 900, "temperature_2m": degrees},
    }))
}

/// What MediaWiki says of one title. `more` is what was asked for.
pub(crate) fn article(title: &str, more: &Value) -> Reply {
    let mut page = json!({"pageid": 49728, "ns": 0, "title": title});
    let members = more.as_object().unwrap().clone();
    page.as_object_mut().unwrap().extend(members);
    pages(&json!([page]))
}

pub(crate) fn missing(title: &str) -> Reply {
    pages(&json!([{"ns": 0, "title": title, "missing": true}]))
}

fn pages(pages: &Value) -> Reply {
    Reply::json(&json!({"batchcomplete": true, "query": {"pages": pages}}))
}

fn found(titles: &[&str]) -> Reply {
    let hit = |title: &&str| {
        json!({"ns": 0, "title": title, "pageid": 28_120, "size": 92_000, "wordcount": 9_000,
               "snippet": "<span class=\"searchmatch\">Super</span> Bowl", "timestamp": "2025-06-01T12:00:00Z"})
    };
    let hits: Vec<Value> = titles.iter().map(hit).collect();
    Reply::json(&json!({
        "batchcomplete": true, "continue": {"sroffset": 10, "continue": "-||"},
        "query": {"searchinfo": {"totalhits": hits.len()}, "search": hits},
    }))
}

/// Calls a tool by hand.
fn call(web: &Server, words: &[&str]) -> Run {
    call_at(&web.url(""), words)
}

fn call_at(base_url: &str, words: &[&str]) -> Run {
    let test = Test::new().tools(&tools_at(base_url));
    test.args(["tools", "call"]).args(words).run()
}

/// Calls the tool of a tools file, `it`.
fn call_it(tools: &str, words: &[&str]) -> Run {
    let test = Test::new().tools(tools);
    test.args(["tools", "call", "it"]).args(words).run()
}

/// The path and the parts of the query that came last, in the order of the alphabet.
fn asked(web: &Server) -> (String, Vec<String>) {
    let address = web.request(web.calls() - 1).path;
    let (path, query) = address.split_once('?').unwrap_or((&address, ""));
    let mut parts: Vec<String> = query.split('&').map(str::to_owned).collect();
    parts.sort();
    (path.to_owned(), parts)
}

#[track_caller]
fn assert_asked(web: &Server, path: &str, parts: &[&str]) {
    let (asked_path, asked_parts) = asked(web);
    assert_eq!(asked_path, path);
    assert_eq!(asked_parts, parts);
}

// Wikipedia: searching.

#[test]
fn a_search_gives_the_titles_that_wikipedia_found_one_a_line() {
    let web = Server::web().route(
        WIKIPEDIA,
        found(&["Super Bowl XXIX", "Super Bowl", "1995 in sports"]),
    );
    let run = call(&web, &["search_wikipedia_page", "Super Bowl 1995"]);
    run.success()
        .stdout("Super Bowl XXIX\nSuper Bowl\n1995 in sports\n");
    let parts = [
        "action=query",
        "format=json",
        "formatversion=2",
        "list=search",
        "srlimit=10",
        "srsearch=Super%20Bowl%201995",
    ];
    assert_asked(&web, WIKIPEDIA, &parts);
    assert_eq!(web.request(0).method, "GET");
}

#[test]
fn a_search_that_finds_nothing_says_to_try_other_words() {
    let web = Server::web().route(WIKIPEDIA, found(&[]));
    let run = call(&web, &["search_wikipedia_page", "supperbowl winer"]);
    run.code(1)
        .stdout("")
        .error("'supperbowl winer'")
        .error("other words");
}

#[test]
fn what_is_searched_for_cannot_become_another_part_of_the_address() {
    let rows = [
        ("AC/DC & Motörhead", "AC%2FDC%20%26%20Mot%C3%B6rhead"),
        ("a&action=edit", "a%26action%3Dedit"),
        ("C# 100%?", "C%23%20100%25%3F"),
        ("1+1=2", "1%2B1%3D2"),
        ("サッカー", "%E3%82%B5%E3%83%83%E3%82%AB%E3%83%BC"),
    ];
    for (query, encoded) in rows {
        let web = Server::web().route(WIKIPEDIA, found(&["A page"]));
        call(&web, &["search_wikipedia_page", query])
            .success()
            .stdout("A page\n");
        let (path, parts) = asked(&web);
        assert_eq!(path, WIKIPEDIA);
        assert!(parts.contains(&format!("srsearch={encoded}")), "{parts:?}");
        assert!(parts.contains(&"action=query".to_owned()), "{parts:?}");
        assert_eq!(parts.len(), 6, "{parts:?}");
    }
}

// Wikipedia: the beginning of an article.

#[test]
fn a_summary_is_the_text_of_the_article_and_nothing_else() {
    let text = "San Francisco is a city in California.\nIt lies on a bay.";
    let web = Server::web().route(
        WIKIPEDIA,
        article("San Francisco", &json!({"extract": format!("{text}\n")})),
    );
    let run = call(&web, &["wikipedia_summary", "San Francisco", "2"]);
    run.success().stdout(&format!("{text}\n"));
    let parts = [
        "action=query",
        "explaintext=1",
        "exsentences=2",
        "format=json",
        "formatversion=2",
        "ppprop=disambiguation",
        "prop=extracts%7Cpageprops",
        "redirects=1",
        "titles=San%20Francisco",
    ];
    assert_asked(&web, WIKIPEDIA, &parts);
}

#[test]
fn the_number_of_sentences_is_kept_to_what_wikipedia_gives() {
    let rows: [(&[&str], &str); 7] = [
        (&[], "10"),
        (&["1"], "1"),
        (&["10"], "10"),
        (&["11"], "10"),
        (&["1000000"], "10"),
        (&["0"], "1"),
        (&["sentences=-3"], "1"),
    ];
    for (words, sent) in rows {
        let web = Server::web().route(WIKIPEDIA, article("Rome", &json!({"extract": "A city."})));
        call(&web, &[&["wikipedia_summary", "Rome"], words].concat()).success();
        let (_, parts) = asked(&web);
        assert!(
            parts.contains(&format!("exsentences={sent}")),
            "{words:?}: {parts:?}"
        );
    }
}

#[test]
fn a_number_of_sentences_that_is_no_number_is_a_usage_error() {
    let web = Server::untouched();
    for words in ["two", "1.5"] {
        call(&web, &["wikipedia_summary", "Rome", words])
            .code(2)
            .stdout("")
            .error("sentences");
    }
}

#[test]
fn a_redirect_of_wikipedia_leads_to_the_article_that_is_meant() {
    let page = json!({"pageid": 49728, "ns": 0, "title": "San Francisco", "extract": "A city."});
    let reply = json!({"batchcomplete": true, "query": {
        "normalized": [{"fromencoded": false, "from": "san_Fran", "to": "San Fran"}],
        "redirects": [{"from": "San Fran", "to": "San Francisco"}],
        "pages": [page],
    }});
    let web = Server::web().route(
        &format!("{WIKIPEDIA}?redirects=1&titles=san_Fran"),
        Reply::json(&reply),
    );
    call(&web, &["wikipedia_summary", "san_Fran"])
        .success()
        .stdout("A city.\n");
    assert_eq!(web.calls(), 1);
}

#[test]
fn warnings_of_wikipedia_do_not_spoil_an_answer() {
    let page = json!({"pageid": 1, "ns": 0, "title": "Rome", "extract": "A city."});
    let reply = json!({"batchcomplete": true, "query": {"pages": [page]},
        "warnings": {"extracts": {"warnings": "\"exlimit\" was too large for a whole article extracts request."}}});
    let web = Server::web().route(WIKIPEDIA, Reply::json(&reply));
    call(&web, &["wikipedia_summary", "Rome"])
        .success()
        .stdout("A city.\n");
}

/// What MediaWiki says of titles that lead to no article.
fn no_article(title: &str) -> [(&'static str, Reply); 3] {
    let reason = "The requested page title contains invalid UTF-8 sequences.";
    [
        ("missing", missing(title)),
        (
            "invalid",
            pages(&json!([{"title": title, "invalidreason": reason, "invalid": true}])),
        ),
        (
            "special",
            pages(&json!([{"ns": -1, "title": title, "special": true, "missing": true}])),
        ),
    ]
}

#[test]
fn a_title_without_an_article_leads_to_a_search() {
    let title = "Super Bowl 1995 winner";
    for tool in ["wikipedia_summary", "wikipedia_coordinates"] {
        for (why, reply) in no_article(title) {
            let web = Server::web().route(WIKIPEDIA, reply);
            let run = call(&web, &[tool, title]);
            run.check(
                run.exit_code() == 1,
                &format!("{tool} fails when the page is {why}"),
            );
            run.stdout("").error(&format!("'{title}'")).error("search");
        }
    }
}

#[test]
fn a_title_of_another_wiki_is_not_found() {
    let reply =
        json!({"batchcomplete": true, "query": {"interwiki": [{"title": "de:Rom", "iw": "de"}]}});
    for tool in ["wikipedia_summary", "wikipedia_coordinates"] {
        let web = Server::web().route(WIKIPEDIA, Reply::json(&reply));
        call(&web, &[tool, "de:Rom"])
            .code(1)
            .stdout("")
            .error("'de:Rom' not found");
    }
}

#[test]
fn a_title_with_a_bar_in_it_is_not_two_titles() {
    // MediaWiki takes `titles=Cat|Dog` for two titles, and gives both pages.
    let page = |title: &str| json!({"pageid": 1, "ns": 0, "title": title, "extract": format!("{title} text.")});
    for (title, encoded) in [("Cat|Dog", "Cat%7CDog"), (" Cat | Dog ", "Cat%20%7C%20Dog")] {
        let web = Server::web()
            .route(&format!("{WIKIPEDIA}?list=search"), found(&["Cat"]))
            .route(
                &format!("{WIKIPEDIA}?titles={encoded}"),
                pages(&json!([page("Cat"), page("Dog")])),
            )
            .route(WIKIPEDIA, missing(title));
        // The server wants to be called, and the tool may refuse such a title without asking.
        call(&web, &["search_wikipedia_page", "cat"]).success();
        call(&web, &["wikipedia_summary", title])
            .code(1)
            .stdout("")
            .error("Dog");
    }
}

#[test]
fn an_empty_title_or_query_is_refused_without_asking() {
    let web = Server::untouched();
    let rows = [
        ("search_wikipedia_page", "query"),
        ("wikipedia_summary", "title"),
        ("wikipedia_coordinates", "title"),
    ];
    for (tool, param) in rows {
        for empty in ["", "  \t"] {
            let run = call(&web, &[tool, empty]);
            run.code(1).stdout("").error(param).error("empty");
        }
    }
}

#[test]
fn an_article_without_text_is_an_error_and_not_an_empty_answer() {
    for page in [json!({"extract": ""}), json!({"extract": " \n"}), json!({})] {
        let web = Server::web().route(WIKIPEDIA, article("Blank", &page));
        call(&web, &["wikipedia_summary", "Blank"])
            .code(1)
            .stdout("")
            .error("'Blank'")
            .error("no text");
    }
}

#[test]
fn what_an_article_says_cannot_command_the_terminal() {
    let text = "A \u{1b}[2Jcity\u{1b}]0;x\u{7} with \u{202e}a name.";
    let web = Server::web().route(WIKIPEDIA, article("Trick", &json!({"extract": text})));
    let run = call(&web, &["wikipedia_summary", "Trick"]).success();
    run.check(
        !run.stdout.contains(['\u{1b}', '\u{7}', '\u{202e}']),
        "all of it is visible",
    );
    run.out_has("city").out_has("a name.");
}

// Wikipedia: titles with several meanings.

const MEANINGS: [&str; 14] = [
    "Ancient Rome",
    "Chemical element",
    "Freddie Mercury",
    "Mercury (element)",
    "Mercury (mythology)",
    "Mercury (planet)",
    "Mercury 13",
    "Mercury Cougar",
    "Mercury Records",
    "Mercury, Nevada",
    "NASA",
    "Planet",
    "Roman god",
    "The Mercury",
];

fn ambiguous(title: &str) -> Reply {
    let extract = format!("{title} most commonly refers to:");
    article(
        title,
        &json!({"pageprops": {"disambiguation": ""}, "extract": extract}),
    )
}

fn links(title: &str, links: &[&str]) -> Reply {
    let links: Vec<Value> = links
        .iter()
        .map(|link| json!({"ns": 0, "title": link}))
        .collect();
    article(title, &json!({"links": links}))
}

#[test]
fn a_title_with_several_meanings_gives_their_titles() {
    let about_links = format!("{WIKIPEDIA}?prop=links&titles=Mercury&plnamespace=0");
    for tool in ["wikipedia_summary", "wikipedia_coordinates"] {
        let web = Server::web()
            .route(&about_links, links("Mercury", &MEANINGS))
            .route(WIKIPEDIA, ambiguous("Mercury"));
        let run = call(&web, &[tool, "Mercury"]).code(1).stdout("");
        let run = run
            .error("'Mercury' may mean several things")
            .error("Mercury (planet)");
        let listed = MEANINGS
            .iter()
            .filter(|title| run.stderr.contains(*title))
            .count();
        run.check(
            (5..=10).contains(&listed),
            "a handful of meanings is listed",
        );
        let place = |text: &str| run.stderr.find(text).unwrap_or(usize::MAX);
        run.check(
            place("Mercury, Nevada") < place("Freddie Mercury"),
            "meanings of the word stand before what only belongs to them",
        );
        run.check(run.stderr.lines().count() == 1, "it is one line");
        assert_eq!(web.calls(), 2);
    }
}

#[test]
fn meanings_that_cannot_be_had_leave_a_whole_sentence() {
    for second in [
        Reply::error(500, "no"),
        links("Mercury", &[]),
        Reply::hang_up(),
    ] {
        let web = Server::web()
            .route(&format!("{WIKIPEDIA}?prop=links"), second)
            .route(WIKIPEDIA, ambiguous("Mercury"));
        let run = call(&web, &["wikipedia_summary", "Mercury"])
            .code(1)
            .stdout("");
        let run = run.error("'Mercury' may mean several things");
        run.check(
            !run.stderr.trim_end().ends_with(':'),
            "it does not announce a list that is empty",
        );
    }
}

#[test]
fn a_place_with_several_meanings_and_coordinates_has_coordinates() {
    let page = json!({"pageprops": {"disambiguation": ""}, "coordinates": [{"lat": 1.5, "lon": -2, "primary": true, "globe": "earth"}]});
    let web = Server::web().route(WIKIPEDIA, article("Springfield", &page));
    let run = call(&web, &["wikipedia_coordinates", "Springfield"]).success();
    run.out_has("1.5").out_has("-2");
}

// Wikipedia: coordinates.

fn at(latitude: f64, longitude: f64) -> Value {
    json!({"coordinates": [{"lat": latitude, "lon": longitude, "primary": true, "globe": "earth"}]})
}

#[test]
fn coordinates_are_two_numbers_with_their_names() {
    let rows = [
        (
            37.783_333_333,
            -122.416_666_667,
            "37.783333333",
            "-122.416666667",
        ),
        (-33.867_5, 151.21, "-33.8675", "151.21"),
        (0.0, 0.0, "0", "0"),
        (90.0, -180.0, "90", "-180"),
    ];
    for (latitude, longitude, north, east) in rows {
        let web = Server::web().route(WIKIPEDIA, article("Somewhere", &at(latitude, longitude)));
        let run = call(&web, &["wikipedia_coordinates", "Somewhere"]).success();
        let said: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(said["latitude"].as_f64(), Some(latitude));
        assert_eq!(said["longitude"].as_f64(), Some(longitude));
        assert_eq!(said.as_object().unwrap().len(), 2);
        run.out_has(north).out_has(east);
        let parts = [
            "action=query",
            "format=json",
            "formatversion=2",
            "ppprop=disambiguation",
            "prop=coordinates%7Cpageprops",
            "redirects=1",
            "titles=Somewhere",
        ];
        assert_asked(&web, WIKIPEDIA, &parts);
    }
}

#[test]
fn an_article_about_no_place_has_no_coordinates() {
    for page in [
        json!({}),
        json!({"coordinates": []}),
        json!({"coordinates": [{"lat": "north"}]}),
    ] {
        let web = Server::web().route(WIKIPEDIA, article("Love", &page));
        call(&web, &["wikipedia_coordinates", "Love"])
            .code(1)
            .stdout("")
            .error("'Love'")
            .error("no coordinates");
    }
}

// Wikipedia: its own errors, its languages.

#[test]
fn an_error_of_the_api_is_passed_on() {
    let body = json!({"error": {"code": "maxlag", "info": "Waiting for a database server: 5 seconds lagged.", "docref": "See …"}});
    for tool in [
        "search_wikipedia_page",
        "wikipedia_summary",
        "wikipedia_coordinates",
    ] {
        let web = Server::web().route(WIKIPEDIA, Reply::json(&body));
        let run = call(&web, &[tool, "Rome"]).code(1).stdout("");
        run.error("Wikipedia").error("5 seconds lagged");
    }
}

#[test]
fn the_language_chooses_the_wikipedia() {
    let rows: [(&str, &[&str], &str, &str); 3] = [
        (
            "wikipedia.search",
            &["Rom", "de"],
            "/de/w/api.php",
            "srsearch=Rom",
        ),
        (
            "wikipedia.summary",
            &["Rom", "language=simple"],
            "/simple/w/api.php",
            "titles=Rom",
        ),
        (
            "wikipedia.coordinates",
            &["Rom"],
            "/en/w/api.php",
            "titles=Rom",
        ),
    ];
    for (function, words, path, part) in rows {
        let page = json!({"pageid": 1, "ns": 0, "title": "Rom", "extract": "Stadt.", "coordinates": [{"lat": 41.9, "lon": 12.5}]});
        let reply = Reply::json(&json!({"query": {"search": [{"title": "Rom"}], "pages": [page]}}));
        let web = Server::web().route(path, reply);
        call_it(&one(function, &web.url("/{language}"), ""), words).success();
        let (asked_path, parts) = asked(&web);
        assert_eq!(asked_path, path, "{words:?}");
        assert!(parts.contains(&part.to_owned()), "{parts:?}");
    }
}

#[test]
fn a_language_that_the_tool_binds_is_not_the_model_s_to_choose() {
    let web = Server::web().route("/de/w/api.php", found(&["Rom"]));
    let tools = one(
        "wikipedia.search",
        &web.url("/de"),
        "bind.language = \"de\"",
    );
    call_it(&tools, &["Rom"]).success().stdout("Rom\n");
    call_it(&tools, &["Rom", "language=fr"]).code(2).stdout("");
    assert_eq!(web.calls(), 1);
}

#[test]
fn what_is_no_code_of_a_language_is_refused_without_asking() {
    let web = Server::untouched();
    let tools = one("wikipedia.search", &web.url("/{language}"), "");
    for language in [
        "",
        "e",
        "EN",
        "../x",
        "en.example.org/",
        "en@host",
        "english language",
        "deutschdeutschdeutsch",
    ] {
        call_it(&tools, &["Rome", language])
            .code(1)
            .stdout("")
            .error("language")
            .error("en, de");
    }
}

// Weather.

#[test]
fn the_temperature_is_told_with_its_place_and_unit() {
    let rows: [(&[&str], Value, &str, &str); 8] = [
        (
            &["37.78333333", "-122.41666667"],
            json!(10.3),
            "°C",
            "The temperature at 37.78333333, -122.41666667 is 10.3°C\n",
        ),
        (
            &["-33.9", "151.2", "fahrenheit"],
            json!(50.5),
            "°F",
            "The temperature at -33.9, 151.2 is 50.5°F\n",
        ),
        (
            &["0", "0", "unit=celsius"],
            json!(27),
            "°C",
            "The temperature at 0, 0 is 27°C\n",
        ),
        (
            &["90", "-180"],
            json!(-31.25),
            "°C",
            "The temperature at 90, -180 is -31.25°C\n",
        ),
        (
            &["longitude=2.35", "latitude=48.85"],
            json!(0),
            "°C",
            "The temperature at 48.85, 2.35 is 0°C\n",
        ),
        (
            &["1", "2"],
            json!(-0.001),
            "°C",
            "The temperature at 1, 2 is 0°C\n",
        ),
        (
            &["1.50", "2e1"],
            json!(-0.5),
            "°C",
            "The temperature at 1.5, 20 is -0.5°C\n",
        ),
        (
            &["1", "2"],
            json!(19.799_999_237_060_547),
            "°C",
            "The temperature at 1, 2 is 19.8°C\n",
        ),
    ];
    for (words, degrees, unit, said) in rows {
        let web = Server::web().route(WEATHER, weather(&degrees, unit));
        call(&web, &[&["get_temperature"], words].concat())
            .success()
            .stdout(said);
    }
}

#[test]
fn the_weather_is_asked_for_with_place_and_unit() {
    for (unit, words) in [("celsius", &[][..]), ("fahrenheit", &["fahrenheit"])] {
        let web = Server::web().route(WEATHER, weather(&json!(10), "°C"));
        let place = &["get_temperature", "37.78333333", "-122.41666667"][..];
        call(&web, &[place, words].concat()).success();
        let unit = format!("temperature_unit={unit}");
        let parts = [
            "current=temperature_2m",
            "latitude=37.78333333",
            "longitude=-122.41666667",
            &unit,
        ];
        assert_asked(&web, WEATHER, &parts);
    }
}

#[test]
fn a_place_that_is_not_on_earth_is_refused_without_asking() {
    let web = Server::untouched();
    let rows = [
        ("90.1", "0", "latitude"),
        ("-122.4", "37.8", "latitude"),
        ("0", "180.5", "longitude"),
        ("0", "-1e9", "longitude"),
    ];
    for (latitude, longitude, wrong) in rows {
        let run = call(&web, &["get_temperature", latitude, longitude]);
        run.code(1)
            .stdout("")
            .error(&format!("`{wrong}` is a number from -"));
    }
}

#[test]
fn a_wrong_unit_or_a_place_in_words_is_a_usage_error() {
    let web = Server::untouched();
    call(&web, &["get_temperature", "1", "2", "kelvin"])
        .code(2)
        .error("unit")
        .error("fahrenheit");
    call(&web, &["get_temperature", "north", "2"])
        .code(2)
        .error("latitude");
    call(&web, &["get_temperature", "1"])
        .code(2)
        .error("longitude");
}

#[test]
fn a_place_without_a_temperature_says_so() {
    for reply in [
        weather(&Value::Null, "°C"),
        weather(&json!("mild"), "°C"),
        Reply::json(&json!({"latitude": 1.0})),
    ] {
        let web = Server::web().route(WEATHER, reply);
        call(&web, &["get_temperature", "1", "2"])
            .code(1)
            .stdout("")
            .error("no temperature for 1, 2");
    }
}

// Prices.

#[test]
fn a_price_is_told_in_its_currency() {
    let rows: [(&[&str], &str, Value, &str); 9] = [
        (
            &["bitcoin"],
            "bitcoin",
            json!({"usd": 107_000.5}),
            "$107000.5\n",
        ),
        (
            &["bitcoin"],
            "bitcoin",
            json!({"usd": 107_000}),
            "$107000\n",
        ),
        (&["Bitcoin"], "bitcoin", json!({"usd": 1}), "$1\n"),
        (&["  DASH "], "dash", json!({"usd": 23.04}), "$23.04\n"),
        (
            &["Bitcoin Cash"],
            "bitcoin-cash",
            json!({"usd": 400.2}),
            "$400.2\n",
        ),
        (
            &["bitcoin", "EUR"],
            "bitcoin",
            json!({"eur": 98_000.25}),
            "98000.25 EUR\n",
        ),
        (
            &["bitcoin", "currency=jpy"],
            "bitcoin",
            json!({"jpy": 15_000_000}),
            "15000000 JPY\n",
        ),
        (
            &["shiba-inu"],
            "shiba-inu",
            json!({"usd": 1.234e-5}),
            "$0.00001234\n",
        ),
        (&["worthless"], "worthless", json!({"usd": 0}), "$0\n"),
    ];
    for (words, coin, price, said) in rows {
        let web = Server::web().route(PRICES, Reply::json(&json!({coin: price})));
        call(&web, &[&["price_tool"], words].concat())
            .success()
            .stdout(said);
        let (_, parts) = asked(&web);
        assert!(parts.contains(&format!("ids={coin}")), "{parts:?}");
    }
}

#[test]
fn a_price_is_asked_for_in_small_letters() {
    let web = Server::web().route(PRICES, Reply::json(&json!({"ethereum": {"eur": 2}})));
    call(&web, &["price_tool", "EtheREUM", "Eur"]).success();
    assert_asked(&web, PRICES, &["ids=ethereum", "vs_currencies=eur"]);
}

#[test]
fn a_coin_cannot_become_another_part_of_the_address() {
    let web = Server::web().route(PRICES, Reply::json(&json!({})));
    call(&web, &["price_tool", "x&vs_currencies=eur#/ü"]).code(1);
    assert_asked(
        &web,
        PRICES,
        &[
            "ids=x%26vs_currencies%3Deur%23%2F%C3%BC",
            "vs_currencies=usd",
        ],
    );
}

#[test]
fn an_unknown_coin_leads_to_a_better_spelling() {
    let web = Server::web().route(PRICES, Reply::json(&json!({})));
    call(&web, &["price_tool", "etherium"])
        .code(1)
        .stdout("")
        .error("'etherium'")
        .error("spelling")
        .error("ethereum");
}

#[test]
fn an_unknown_currency_is_told_from_an_unknown_coin() {
    for body in [
        json!({"bitcoin": {}}),
        json!({"bitcoin": {"xyz": null}}),
        json!({"bitcoin": {"usd": 5}}),
    ] {
        let web = Server::web().route(PRICES, Reply::json(&body));
        let run = call(&web, &["price_tool", "bitcoin", "XYZ"])
            .code(1)
            .stdout("");
        run.error("'bitcoin'").error("'xyz'").err_lacks("spelling");
    }
}

#[test]
fn an_empty_coin_or_currency_is_refused_without_asking() {
    let web = Server::untouched();
    for words in [&["price_tool", " "][..], &["price_tool", "bitcoin", ""]] {
        call(&web, words).code(1).stdout("").error("empty");
    }
}

// All of them: who asks, and what can go wrong on the way.

/// A call of each function that reads the web.
const CALLS: [(&str, &[&str]); 5] = [
    ("wikipedia.search", &["Rome"]),
    ("wikipedia.summary", &["Rome"]),
    ("wikipedia.coordinates", &["Rome"]),
    ("weather.temperature", &["1", "2"]),
    ("crypto.price", &["bitcoin"]),
];

/// A server that gives every service's address this reply.
fn always(reply: &Reply) -> Server {
    [WIKIPEDIA, WEATHER, PRICES]
        .iter()
        .fold(Server::web(), |web, path| web.route(path, reply.clone()))
}

#[test]
fn a_request_says_who_asks_and_gives_nothing_away() {
    let page =
        json!({"title": "Rome", "extract": "A city.", "coordinates": [{"lat": 41.9, "lon": 12.5}]});
    let good = json!({
        "query": {"search": [{"title": "Rome"}], "pages": [page]},
        "current": {"temperature_2m": 20},
        "bitcoin": {"usd": 7},
    });
    for (function, words) in CALLS {
        let web = always(&Reply::json(&good));
        let test = Test::new()
            .tools(&one(function, &web.url(""), ""))
            .env("OPENAI_API_KEY", "sk-canary")
            .env("REAGENT_API_KEY", "sk-canary")
            .args(["tools", "call", "it"]);
        test.args(words).run().success();
        let request = web.request(0);
        let agent = request.header("user-agent").unwrap();
        let own = format!("reagent/{}", env!("CARGO_PKG_VERSION"));
        assert!(
            agent.starts_with(&own) && !agent.contains("Mozilla"),
            "{function}: {agent}"
        );
        let seen = format!("{} {:?}", request.path, request.headers);
        assert!(!seen.contains("canary"), "{function}: {seen}");
        for name in ["authorization", "cookie", "referer"] {
            assert_eq!(request.header(name), None, "{function} sends no {name}");
        }
        assert_eq!(web.calls(), 1, "{function} asks once");
    }
}

#[test]
fn what_goes_wrong_on_the_way_is_one_clear_line() {
    let nested = "[".repeat(200_000);
    let rows = [
        (
            "a missing page",
            Reply::page(404, "<h1>nothing here</h1>"),
            "404",
        ),
        (
            "too many requests",
            Reply::page(429, "<h1>nothing here</h1>").header("retry-after", "60"),
            "later",
        ),
        (
            "a fault of the server",
            Reply::page(500, "<h1>nothing here</h1>"),
            "500",
        ),
        (
            "a gateway without a server",
            Reply::page(503, "<h1>nothing here</h1>"),
            "503",
        ),
        (
            "a page instead of JSON",
            Reply::page(200, "<h1>nothing here</h1>"),
            "JSON",
        ),
        ("no body", Reply::bytes("application/json", ""), "JSON"),
        (
            "a body that is no text",
            Reply::bytes("application/json", [b'"', 0xff, 0xfe, b'"']),
            "JSON",
        ),
        (
            "half a document",
            Reply::bytes("application/json", r#"{"query": {"pages": ["#),
            "JSON",
        ),
        (
            "a document of brackets",
            Reply::bytes("application/json", nested),
            "JSON",
        ),
        ("a cut body", Reply::cut("Answer: 1"), ""),
        ("a closed connection", Reply::hang_up(), ""),
        (
            "a body of two megabytes",
            Reply::long_json(2 << 20),
            "larger",
        ),
    ];
    for (what, reply, named) in rows {
        for (function, words) in CALLS {
            let web = always(&reply);
            let run = call_it(&one(function, &web.url(""), "timeout = \"5s\""), words);
            run.check(run.exit_code() == 1, &format!("{function} fails on {what}"));
            run.check(
                run.stderr.lines().count() == 1,
                &format!("{function} says it in a line: {what}"),
            );
            run.check(
                !run.stderr.contains("nothing here"),
                "the page is not repeated",
            );
            run.stdout("").error("error: 127.0.0.1").error(named);
            assert_eq!(web.calls(), 1, "{function} asks once: {what}");
        }
    }
}

#[test]
fn the_reason_that_a_service_gives_for_an_error_is_passed_on() {
    let weather: &[&str] = &["get_temperature", "1", "2"];
    let price: &[&str] = &["price_tool", "bitcoin"];
    let rows = [
        (
            price,
            422,
            json!({"error": "Missing parameter vs_currencies"}),
            "Missing parameter",
        ),
        (
            weather,
            400,
            json!({"error": true, "reason": "Data corrupted at path ''."}),
            "Data corrupted",
        ),
        (
            weather,
            429,
            json!({"error": true, "reason": "Minutely API request limit exceeded."}),
            "limit exceeded",
        ),
        (
            price,
            429,
            json!({"status": {"error_code": 429, "error_message": "You've exceeded the Rate Limit."}}),
            "exceeded the Rate Limit",
        ),
    ];
    for (words, status, body, reason) in rows {
        let web = always(&Reply::json(&body).status(status));
        let run = call(&web, words).code(1).stdout("");
        run.error("error: 127.0.0.1: ").error(reason);
    }
}

#[test]
fn json_of_another_shape_is_an_error_and_no_crash() {
    let bodies = [
        json!(null),
        json!(7),
        json!("text"),
        json!([]),
        json!([{"query": {"pages": [{}]}}]),
        json!({}),
        json!({"batchcomplete": true}),
        json!({"query": {"pages": [], "search": []}}),
        json!({"query": null, "current": null, "bitcoin": null}),
        json!({"query": [], "current": [], "bitcoin": []}),
        json!({"query": "q", "current": "c", "bitcoin": "b"}),
        json!({"query": {"pages": {}, "search": {}}, "current": {}, "bitcoin": {}}),
        json!({"query": {"pages": "p", "search": "s"}, "current": {"temperature_2m": []}, "bitcoin": {"usd": "dear"}}),
        json!({"query": {"pages": [7], "search": [7]}, "current": {"temperature_2m": true}, "bitcoin": {"usd": {}}}),
        // The shape of formatversion=1, which old mirrors give.
        json!({"query": {"pages": {"-1": {"ns": 0, "title": "Rome", "missing": ""}}}}),
        json!({"error": "no"}),
        json!({"error": {"code": "no"}}),
    ];
    let mut crashed = Vec::new();
    for (function, words) in CALLS {
        for body in &bodies {
            let web = always(&Reply::json(body));
            let test = Test::new().tools(&one(function, &web.url(""), ""));
            let output = test
                .args(["tools", "call", "it"])
                .args(words)
                .command(&[])
                .output()
                .unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let clear = said.starts_with("error: ") && said.trim_end().len() > "error: ".len();
            if output.status.code() != Some(1) || !clear || !output.stdout.is_empty() {
                let why = said
                    .lines()
                    .find(|line| !line.trim().is_empty() && !line.starts_with("thread"));
                crashed.push(format!(
                    "{function} {body}: {:?} {why:?}",
                    output.status.code()
                ));
            }
        }
    }
    assert!(
        crashed.is_empty(),
        "{} of them:\n{}",
        crashed.len(),
        crashed.join("\n")
    );
}

#[test]
fn silence_ends_at_the_tool_s_timeout() {
    let silence = Reply::json(&json!({})).after(ms(20_000));
    for (function, words) in CALLS {
        let web = always(&silence);
        let run = call_it(&one(function, &web.url(""), "timeout = \"300ms\""), words);
        run.code(1)
            .stdout("")
            .error("error: 127.0.0.1")
            .error("300ms")
            .within(ms(5000));
    }
}

#[test]
fn nobody_at_the_address_is_a_clear_error() {
    for (function, words) in CALLS {
        let run = call_it(&one(function, &Server::nobody(), ""), words);
        run.code(1)
            .stdout("")
            .error("error: 127.0.0.1")
            .error("refused");
    }
}

#[test]
fn a_redirect_is_named_and_not_followed() {
    let elsewhere = Server::untouched();
    for status in [301, 302, 307] {
        for (function, words) in CALLS {
            let moved =
                Reply::page(status, "moved").header("location", elsewhere.url("/elsewhere"));
            let web = always(&moved);
            let run = call_it(&one(function, &web.url(""), ""), words);
            run.code(1)
                .stdout("")
                .error("error: 127.0.0.1")
                .error("elsewhere");
        }
    }
}

#[test]
fn an_address_that_ends_in_a_slash_is_the_same_address() {
    let web = always(&Reply::json(&json!({"bitcoin": {"usd": 7}})));
    call_it(&one("crypto.price", &web.url("/"), ""), &["bitcoin"])
        .success()
        .stdout("$7\n");
}

#[test]
fn the_model_cannot_choose_the_host() {
    for base_url in [
        "http://{language}.example",
        "https://{query}/",
        "{query}",
        "ftp://example.org",
    ] {
        let run = call_it(&one("wikipedia.search", base_url, ""), &["Rome"]);
        run.code(2).stdout("").error("given.toml:4:");
    }
    let elsewhere = Server::untouched();
    let action = format!("Action1: it(\"Rome\", base_url=\"{}\")", elsewhere.url(""));
    let server = Server::replies([action.as_str(), "Answer: I cannot."]);
    let tools = one("wikipedia.search", &Server::nobody(), "");
    let run = Test::with(&server)
        .tools(&tools)
        .args(["--json", "q"])
        .run()
        .success();
    let events = run.events();
    assert!(
        events.of("malformed")[0]["why"]
            .as_str()
            .unwrap()
            .contains("base_url")
    );
    assert_eq!(events.end()["tool_calls"], 0);
}
