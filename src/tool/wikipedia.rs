//! `wikipedia.*`: search, the beginning of an article, and where its subject lies.
//!
//! Uses the MediaWiki action API: <https://www.mediawiki.org/wiki/API:Query>. A title must be exact;
//! redirects are followed. What is not found is said in a way that leads to the next try.

use serde_json::{Map, Value, json};

use super::function::{Body, Function, Limits, text};
use super::params::{Param, Type};
use super::{Effect, web};

/// How many titles a search gives.
const TITLES: &str = "10";
/// How many meanings of an ambiguous title are listed.
const MEANINGS: usize = 10;
/// The longest summary that the service gives, in sentences.
const SENTENCES: i64 = 10;

pub(super) const FUNCTIONS: &[Function] = &[
    Function {
        name: "wikipedia.search",
        description: "Find the titles of Wikipedia articles about something.",
        params: || vec![Param::new("query", Type::String), language()],
        body: Body::Call(search),
        ..READS
    },
    Function {
        name: "wikipedia.summary",
        description: "The first sentences of the Wikipedia article with this exact title.",
        params: || {
            let sentences = Param::new("sentences", Type::Integer).or(json!(SENTENCES));
            vec![Param::new("title", Type::String), sentences, language()]
        },
        body: Body::Call(summary),
        ..READS
    },
    Function {
        name: "wikipedia.coordinates",
        description: "The latitude and longitude of the subject of the Wikipedia article with this exact title.",
        params: || vec![Param::new("title", Type::String), language()],
        body: Body::Call(coordinates),
        ..READS
    },
];

const READS: Function = Function {
    slots: web::BASE_URL,
    effect: Effect::ReadsWorld,
    ..Function::PURE
};

fn language() -> Param {
    let mut language = Param::new("language", Type::String).or(json!("en"));
    language.description = "Wikipedia's code of the language".to_owned();
    language
}

fn search(args: &Map<String, Value>, limits: &Limits) -> Result<Value, String> {
    let query = given(args, "query")?;
    let reply = ask(
        args,
        limits,
        &[("list", "search"), ("srsearch", query), ("srlimit", TITLES)],
    )?;
    let found = reply["query"]["search"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let titles: Vec<&str> = found
        .iter()
        .filter_map(|page| page["title"].as_str())
        .collect();
    match titles.is_empty() {
        true => Err(format!(
            "Wikipedia has no article about '{query}'; try other words"
        )),
        false => Ok(titles.join("\n").into()),
    }
}

fn summary(args: &Map<String, Value>, limits: &Limits) -> Result<Value, String> {
    let sentences = args
        .get("sentences")
        .and_then(Value::as_i64)
        .unwrap_or(SENTENCES);
    let sentences = sentences.clamp(1, SENTENCES).to_string();
    let wanted = [
        ("prop", "extracts|pageprops"),
        ("ppprop", "disambiguation"),
        ("explaintext", "1"),
    ];
    let page = page(
        args,
        limits,
        &[&wanted[..], &[("exsentences", &sentences)]].concat(),
    )?;
    let title = page["title"].as_str().unwrap_or_default();
    if !page["pageprops"]["disambiguation"].is_null() {
        return Err(ambiguous(args, title, limits));
    }
    match page["extract"]
        .as_str()
        .map(str::trim)
        .filter(|text| !text.is_empty())
    {
        Some(text) => Ok(text.into()),
        None => Err(format!(
            "the Wikipedia page '{title}' has no text; try another title"
        )),
    }
}

fn coordinates(args: &Map<String, Value>, limits: &Limits) -> Result<Value, String> {
    let page = page(
        args,
        limits,
        &[
            ("prop", "coordinates|pageprops"),
            ("ppprop", "disambiguation"),
        ],
    )?;
    let title = page["title"].as_str().unwrap_or_default();
    let place = &page["coordinates"][0];
    match (place["lat"].as_f64(), place["lon"].as_f64()) {
        (Some(latitude), Some(longitude)) => {
            Ok(json!({ "latitude": latitude, "longitude": longitude }))
        }
        _ if !page["pageprops"]["disambiguation"].is_null() => Err(ambiguous(args, title, limits)),
        _ => Err(format!(
            "the Wikipedia page '{title}' has no coordinates; try the title of a place"
        )),
    }
}

/// The one page of this exact title, redirects followed.
fn page(
    args: &Map<String, Value>,
    limits: &Limits,
    wanted: &[(&str, &str)],
) -> Result<Value, String> {
    let title = given(args, "title")?;
    if title.contains(['|', '#', '<', '>', '[', ']', '{', '}']) {
        return Err(format!(
            "'{title}' is no title; search for it first or try another"
        ));
    }
    let mut reply = ask(
        args,
        limits,
        &[&[("titles", title), ("redirects", "1")][..], wanted].concat(),
    )?;
    let page = reply
        .pointer_mut("/query/pages/0")
        .map(Value::take)
        .unwrap_or_default();
    let missing = |key: &str| {
        page.get(key)
            .is_some_and(|mark| mark != &Value::Bool(false))
    };
    match page.is_null() || missing("missing") || missing("invalid") {
        true => Err(format!(
            "Wikipedia page for '{title}' not found; titles are exact, so search for it first or try another"
        )),
        false => Ok(page),
    }
}

/// What an ambiguous title can mean.
fn ambiguous(args: &Map<String, Value>, title: &str, limits: &Limits) -> String {
    let wanted = [
        ("titles", title),
        ("prop", "links"),
        ("plnamespace", "0"),
        ("pllimit", "50"),
    ];
    let reply = ask(args, limits, &wanted).unwrap_or_default();
    let links = reply["query"]["pages"][0]["links"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let titles = links.iter().filter_map(|link| link["title"].as_str());
    // Those that begin with the word itself are meanings of it; the rest stands in their descriptions.
    let (near, far): (Vec<&str>, Vec<&str>) = titles.partition(|link| link.starts_with(title));
    let meanings: Vec<&str> = near.into_iter().chain(far).take(MEANINGS).collect();
    match meanings.is_empty() {
        true => format!("'{title}' may mean several things; search for the one that is meant"),
        false => format!(
            "'{title}' may mean several things; use one of these titles: {}",
            meanings.join("; ")
        ),
    }
}

fn ask(
    args: &Map<String, Value>,
    limits: &Limits,
    wanted: &[(&str, &str)],
) -> Result<Value, String> {
    let language = text(args, "language").unwrap_or("en");
    let is_code = |c: char| c.is_ascii_lowercase() || c == '-';
    if !(2..=12).contains(&language.len()) || !language.chars().all(is_code) {
        return Err(format!(
            "'{language}' is not a language code such as en, de or simple"
        ));
    }
    let own = format!("https://{language}.wikipedia.org");
    let base = text(args, "base_url").unwrap_or(&own);
    let fixed = [
        ("action", "query"),
        ("format", "json"),
        ("formatversion", "2"),
    ];
    let reply = web::json(
        &web::address(base, "/w/api.php", &[&fixed[..], wanted].concat()),
        limits,
    )?;
    match reply["error"]["info"].as_str() {
        Some(why) => Err(format!("Wikipedia refused the request: {why}")),
        None => Ok(reply),
    }
}

fn given<'a>(args: &'a Map<String, Value>, name: &str) -> Result<&'a str, String> {
    let given = text(args, name)
        .map(str::trim)
        .filter(|text| !text.is_empty());
    given.ok_or_else(|| format!("`{name}` is empty"))
}
