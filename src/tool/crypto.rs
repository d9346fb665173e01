//! `crypto.*`: prices of cryptocurrencies, from CoinGecko:
//! <https://docs.coingecko.com/reference/simple-price>.

use serde_json::{Map, Value, json};

use super::function::{Body, Function, Limits, text};
use super::math::number_text;
use super::params::{Param, Type};
use super::{Effect, web};

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "crypto.price",
    description: "The latest price of a cryptocurrency.",
    params: || {
        let mut coin = Param::new("coin", Type::String);
        coin.description = "CoinGecko id, such as bitcoin".to_owned();
        vec![coin, Param::new("currency", Type::String).or(json!("usd"))]
    },
    slots: web::BASE_URL,
    effect: Effect::ReadsWorld,
    body: Body::Call(price),
    ..Function::PURE
}];

fn price(args: &Map<String, Value>, limits: &Limits) -> Result<Value, String> {
    let id = |name: &str| text(args, name).unwrap_or_default().trim().to_lowercase();
    let (coin, currency) = (id("coin").replace(' ', "-"), id("currency"));
    if coin.is_empty() || currency.is_empty() {
        return Err("`coin` and `currency` must not be empty".to_owned());
    }
    let base = text(args, "base_url").unwrap_or("https://api.coingecko.com");
    let wanted = [("ids", coin.as_str()), ("vs_currencies", &currency)];
    let reply = web::json(&web::address(base, "/api/v3/simple/price", &wanted), limits)?;
    match (reply[&coin][&currency].as_f64(), reply[&coin].is_object()) {
        (Some(price), _) if currency == "usd" => Ok(format!("${}", number_text(price)).into()),
        (Some(price), _) => {
            Ok(format!("{} {}", number_text(price), currency.to_uppercase()).into())
        }
        (None, true) => Err(format!("there is no price of '{coin}' in '{currency}'")),
        (None, false) => Err(format!(
            "there is no coin '{coin}'; check the spelling: ids are names such as bitcoin, ethereum, dash"
        )),
    }
}
