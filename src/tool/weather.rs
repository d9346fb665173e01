//! `weather.*`: the temperature now, from Open-Meteo: <https://open-meteo.com/en/docs>.

use serde_json::{Map, Value, json};

use super::function::{Body, Function, Limits, text};
use super::math::number_text;
use super::params::{Param, Type};
use super::{Effect, web};

pub(super) const FUNCTIONS: &[Function] = &[Function {
    name: "weather.temperature",
    description: "The temperature now at a place; north and east are positive.",
    params: || {
        let mut unit = Param::new("unit", Type::String).or(json!("celsius"));
        unit.choices = vec![json!("celsius"), json!("fahrenheit")];
        vec![
            Param::new("latitude", Type::Number),
            Param::new("longitude", Type::Number),
            unit,
        ]
    },
    slots: web::BASE_URL,
    effect: Effect::ReadsWorld,
    body: Body::Call(temperature),
    ..Function::PURE
}];

fn temperature(args: &Map<String, Value>, limits: &Limits) -> Result<Value, String> {
    let degree = |name: &str, most: f64| {
        let degree = args
            .get(name)
            .and_then(Value::as_f64)
            .filter(|value| value.abs() <= most);
        degree
            .map(number_text)
            .ok_or_else(|| format!("`{name}` is a number from -{most} to {most}"))
    };
    let (latitude, longitude) = (degree("latitude", 90.0)?, degree("longitude", 180.0)?);
    let unit = text(args, "unit").unwrap_or("celsius");
    let wanted = [
        ("latitude", latitude.as_str()),
        ("longitude", &longitude),
        ("current", "temperature_2m"),
        ("temperature_unit", unit),
    ];
    let base = text(args, "base_url").unwrap_or("https://api.open-meteo.com");
    let reply = web::json(&web::address(base, "/v1/forecast", &wanted), limits)?;
    let Some(degrees) = reply["current"]["temperature_2m"].as_f64() else {
        return Err(format!(
            "there is no temperature for {latitude}, {longitude}"
        ));
    };
    let letter = if unit == "fahrenheit" { 'F' } else { 'C' };
    let degrees = number_text((degrees * 100.0).round() / 100.0);
    Ok(format!("The temperature at {latitude}, {longitude} is {degrees}°{letter}").into())
}
