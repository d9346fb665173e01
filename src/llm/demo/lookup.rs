//! Questions that a tool has to look up: prices and their comparison, the temperature of a place.

use super::arithmetic::mentions;

/// What is to be looked up.
#[derive(Debug, PartialEq)]
pub(super) enum Lookup {
    /// The prices of these coins, and which of them is wanted, if they are to be compared.
    Prices(Vec<String>, Option<Extreme>),
    /// The temperature of this place.
    Temperature { place: String, fahrenheit: bool },
}

/// The end of a comparison that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extreme {
    Highest,
    Lowest,
}

/// Words of a question about prices that name no coin.
const ABOUT_PRICES: &[&str] = &[
    "what",
    "what's",
    "whats",
    "is",
    "are",
    "the",
    "of",
    "price",
    "prices",
    "cost",
    "costs",
    "worth",
    "how",
    "much",
    "does",
    "do",
    "current",
    "currently",
    "latest",
    "today",
    "now",
    "right",
    "a",
    "an",
    "one",
    "please",
    "tell",
    "me",
    "get",
    "for",
    "in",
    "usd",
    "dollars",
    "us",
    "which",
    "more",
    "most",
    "less",
    "least",
    "expensive",
    "cheap",
    "cheaper",
    "cheapest",
    "dearer",
    "dearest",
    "highest",
    "lowest",
    "higher",
    "lower",
    "these",
    "those",
    "coin",
    "coins",
    "cryptocurrency",
    "cryptocurrencies",
    "has",
    "have",
    "compare",
    "between",
    "among",
    "being",
    "it",
    "s",
    "show",
];

/// Words that end the name of a place.
const AFTER_PLACE: &[&str] = &[
    "right",
    "now",
    "today",
    "currently",
    "at",
    "in",
    "please",
    "like",
    "outside",
];

impl Lookup {
    /// Reads a question that is about prices or a temperature and nothing else.
    pub(super) fn read(question: &str) -> Option<Self> {
        if question.len() > 500 {
            return None;
        }
        if mentions(question, &["temperature", "warm", "cold", "hot"]) {
            return temperature(question);
        }
        let about = [
            "price",
            "prices",
            "cost",
            "costs",
            "worth",
            "expensive",
            "cheap",
            "cheaper",
            "cheapest",
        ];
        mentions(question, &about)
            .then(|| prices(question))
            .flatten()
    }
}

fn prices(question: &str) -> Option<Lookup> {
    let mut coins = vec![String::new()];
    for word in question.split_inclusive(|c: char| !(c.is_alphanumeric() || c == '-')) {
        let name = word
            .trim_end_matches(|c: char| !(c.is_alphanumeric() || c == '-'))
            .to_lowercase();
        match name.as_str() {
            "and" | "or" | "than" | "vs" | "versus" | "with" => coins.push(String::new()),
            name if ABOUT_PRICES.contains(&name) => {}
            name => {
                let last = coins.last_mut()?;
                last.push_str(if last.is_empty() { "" } else { " " });
                last.push_str(name);
            }
        }
        if word.ends_with([',', ':', ';']) {
            coins.push(String::new());
        }
    }
    coins.retain(|coin| !coin.is_empty());
    let extreme = match () {
        () if mentions(
            question,
            &[
                "cheap", "cheaper", "cheapest", "least", "less", "lowest", "lower",
            ],
        ) =>
        {
            Some(Extreme::Lowest)
        }
        () if mentions(
            question,
            &["expensive", "dearer", "dearest", "highest", "higher"],
        ) =>
        {
            Some(Extreme::Highest)
        }
        () => None,
    };
    let enough = if extreme.is_some() { 2..=5 } else { 1..=5 };
    let names = coins.iter().all(|coin| coin.split(' ').count() < 3);
    (enough.contains(&coins.len()) && names).then_some(Lookup::Prices(coins, extreme))
}

fn temperature(question: &str) -> Option<Lookup> {
    let words: Vec<&str> = question.split_whitespace().collect();
    let before = |word: &&str| matches!(*word, "in" | "at" | "of" | "for");
    let start = words.iter().position(before)? + 1;
    let mut place = Vec::new();
    for word in &words[start..] {
        let bare = word.trim_end_matches(['?', '.', '!', ',']);
        if AFTER_PLACE.contains(&bare.to_lowercase().as_str()) && !place.is_empty() {
            break;
        }
        place.push(bare);
        if bare.len() < word.len() {
            break;
        }
    }
    let place = place.join(" ");
    // A place is named; "the city that won" has to be found out first.
    let named = place.chars().next().is_some_and(char::is_uppercase) && !place.contains('"');
    let fahrenheit = mentions(question, &["fahrenheit"]);
    named.then_some(Lookup::Temperature { place, fahrenheit })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_with_their_comparison() {
        let lookup = |question: &str| match Lookup::read(question) {
            Some(Lookup::Prices(coins, extreme)) => Some((coins.join("|"), extreme)),
            _ => None,
        };
        for (question, coins, extreme) in [
            ("What is the price of Bitcoin?", "bitcoin", None),
            (
                "What are the prices of Ethereum and Dash?",
                "ethereum|dash",
                None,
            ),
            ("How much does bitcoin cash cost?", "bitcoin cash", None),
            (
                "Which is more expensive, bitcoin or ethereum?",
                "bitcoin|ethereum",
                Some(Extreme::Highest),
            ),
            (
                "Which of bitcoin, dash and litecoin is the cheapest?",
                "bitcoin|dash|litecoin",
                Some(Extreme::Lowest),
            ),
            (
                "Is dash less expensive than monero?",
                "dash|monero",
                Some(Extreme::Lowest),
            ),
        ] {
            assert_eq!(
                lookup(question),
                Some((coins.to_owned(), extreme)),
                "{question}"
            );
        }
        for other in [
            "What is the price?",
            "Which is cheaper?",
            "How much is the fish in the market here worth?",
        ] {
            assert_eq!(lookup(other), None, "{other}");
        }
    }

    #[test]
    fn a_temperature_is_that_of_a_named_place() {
        let lookup = |question: &str| match Lookup::read(question) {
            Some(Lookup::Temperature { place, fahrenheit }) => Some((place, fahrenheit)),
            _ => None,
        };
        for (question, place, fahrenheit) in [
            (
                "What is the temperature in San Francisco?",
                "San Francisco",
                false,
            ),
            ("How warm is it in Oslo right now?", "Oslo", false),
            ("temperature of Paris in fahrenheit", "Paris", true),
        ] {
            assert_eq!(
                lookup(question),
                Some((place.to_owned(), fahrenheit)),
                "{question}"
            );
        }
        assert_eq!(
            lookup("What is the temperature in the city that won?"),
            None
        );
        assert_eq!(lookup("What is the weather in London?"), None);
    }
}
