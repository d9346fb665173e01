//! What a tool takes, and whether the arguments of an action fit it.
//! Every refusal is one line for the model: what is wrong, with the parameter's name, and the whole signature.

use serde_json::{Map, Number, Value, json};

use super::call::Args;
use super::literal::{literal, literals};

/// The kind of value that a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names of JSON's types say it")]
pub enum Type {
    String,
    Number,
    Integer,
    Boolean,
    Array,
    Object,
    Null,
    Any,
}

impl Type {
    /// The names of all types.
    pub const NAMES: [&'static str; 8] = [
        "string", "number", "integer", "boolean", "array", "object", "null", "any",
    ];

    /// The type of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        use Type::{Any, Array, Boolean, Integer, Null, Number, Object, String};
        [String, Number, Integer, Boolean, Array, Object, Null, Any]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// The type's name in `tools.toml` and in signatures.
    pub fn name(self) -> &'static str {
        match self {
            Type::String => "string",
            Type::Number => "number",
            Type::Integer => "integer",
            Type::Boolean => "boolean",
            Type::Array => "array",
            Type::Object => "object",
            Type::Null => "null",
            Type::Any => "any",
        }
    }

    fn of(value: &Value) -> Type {
        match value {
            Value::Null => Type::Null,
            Value::Bool(_) => Type::Boolean,
            Value::Number(_) => Type::Number,
            Value::String(_) => Type::String,
            Value::Array(_) => Type::Array,
            Value::Object(_) => Type::Object,
        }
    }
}

/// One declared parameter of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Param {
    /// What the model calls it.
    pub name: String,
    /// The types it takes, any of them.
    pub types: Vec<Type>,
    /// What it means, for the model.
    pub description: String,
    /// The value it has when it is not given.
    pub default: Option<Value>,
    /// It may be left out although it has no default.
    pub optional: bool,
    /// The only values it takes, if there are any here.
    pub choices: Vec<Value>,
}

impl Param {
    /// A parameter of one type that has to be given.
    pub fn new(name: &str, kind: Type) -> Self {
        Self {
            name: name.to_owned(),
            types: vec![kind],
            description: String::new(),
            default: None,
            optional: false,
            choices: Vec::new(),
        }
    }

    /// Whether the parameter takes this value, or one line that says why not.
    pub fn check(&self, value: &Value) -> Result<(), String> {
        self.fit(value.clone())
            .map(|_| ())
            .ok_or_else(|| refusal(self, value))
    }

    /// The same with a value for when it is not given.
    pub fn or(self, default: Value) -> Self {
        Self {
            default: Some(default),
            ..self
        }
    }

    /// Whether an action without it is refused.
    pub fn required(&self) -> bool {
        self.default.is_none() && !self.optional
    }

    fn takes(&self, kind: Type) -> bool {
        self.types
            .iter()
            .any(|&own| own == kind || own == Type::Any)
    }

    /// What it takes, in words: `string | null`, or the choices.
    fn kind(&self) -> String {
        match self.choices.is_empty() {
            true => self
                .types
                .iter()
                .map(|kind| kind.name())
                .collect::<Vec<_>>()
                .join(" | "),
            false => self
                .choices
                .iter()
                .map(Value::to_string)
                .collect::<Vec<_>>()
                .join(" | "),
        }
    }

    /// The value as this parameter takes it, or nothing if it does not.
    fn fit(&self, value: Value) -> Option<Value> {
        let value = match &value {
            Value::Number(number) if !self.takes(Type::Number) => Value::Number(whole(number)?),
            // Small models quote numbers; one that is wholly a number, where a text is not wanted, cannot mean another thing.
            Value::String(text) if !self.takes(Type::String) => match literal(text) {
                Ok((number @ Value::Number(_), used)) if used == text.len() => {
                    return self.fit(number);
                }
                _ => value,
            },
            _ => value,
        };
        let kind = Type::of(&value);
        let fits = self.takes(kind) || kind == Type::Number && self.takes(Type::Integer);
        (fits && (self.choices.is_empty() || self.choices.contains(&value))).then_some(value)
    }
}

/// `city, days, unit: string = "celsius"`: the same without the types of what has to be given, as it
/// stands in a call. Small models that read a type there write one.
pub fn usage(params: &[Param]) -> String {
    let written = params.iter().map(|param| {
        let plain = param.choices.is_empty()
            && matches!(
                param.types[..],
                [Type::String | Type::Number | Type::Integer]
            );
        match plain && param.required() {
            true => param.name.clone(),
            false => signature(std::slice::from_ref(param)),
        }
    });
    written.collect::<Vec<_>>().join(", ")
}

/// `city: string, unit: string = "celsius"`; a `?` after the name of one that may be left out and has no default.
pub fn signature(params: &[Param]) -> String {
    let written = params.iter().map(|param| match &param.default {
        Some(default) => format!("{}: {} = {default}", param.name, param.kind()),
        None => format!(
            "{}{}: {}",
            param.name,
            if param.optional { "?" } else { "" },
            param.kind()
        ),
    });
    written.collect::<Vec<_>>().join(", ")
}

/// The arguments, with its default for each parameter that was not given and has one.
pub(crate) fn filled(params: &[Param], args: &Map<String, Value>) -> Map<String, Value> {
    let mut full = args.clone();
    for param in params {
        if let Some(default) = &param.default {
            full.entry(&param.name).or_insert_with(|| default.clone());
        }
    }
    full
}

/// The JSON schema of an object with these parameters.
pub fn schema(params: &[Param]) -> Value {
    let property = |param: &Param| {
        let mut property = Map::new();
        if !param.takes(Type::Any) {
            let mut kinds: Vec<Value> = param.types.iter().map(|kind| kind.name().into()).collect();
            let kind = match kinds.len() {
                1 => kinds.remove(0),
                _ => Value::Array(kinds),
            };
            property.insert("type".to_owned(), kind);
        }
        if !param.description.is_empty() {
            property.insert("description".to_owned(), param.description.as_str().into());
        }
        if !param.choices.is_empty() {
            property.insert("enum".to_owned(), param.choices.clone().into());
        }
        if let Some(default) = &param.default {
            property.insert("default".to_owned(), default.clone());
        }
        (param.name.clone(), Value::Object(property))
    };
    let required = params.iter().filter(|param| param.required());
    let required: Vec<&str> = required.map(|param| param.name.as_str()).collect();
    let properties: Map<String, Value> = params.iter().map(property).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Binds the arguments to the parameters: a map in declared order, without those that were not given, or a one-line
/// reason for the model. Free text is the one needed argument, or else has to read as values or as a JSON object.
pub fn bind(tool: &str, params: &[Param], args: &Args) -> Result<Map<String, Value>, String> {
    let bound = match args {
        Args::Values { positional, named } => bind_values(params, positional, named),
        Args::Text(text) => bind_text(params, text.trim()),
    };
    bound.map_err(|why| format!("`{tool}` {why}: {tool}({})", signature(params)))
}

fn bind_text(params: &[Param], text: &str) -> Result<Map<String, Value>, String> {
    if params.is_empty() {
        let nothing =
            ["", "none", "null", "n/a", "()", "{}"].contains(&text.to_lowercase().as_str());
        return nothing
            .then(Map::new)
            .ok_or_else(|| "takes no arguments".to_owned());
    }
    if text.is_empty() {
        return bind_values(params, &[], &[]);
    }
    let needed: Vec<&Param> = params
        .iter()
        .filter(|param| param.required() || params.len() == 1)
        .collect();
    if let [param] = needed[..] {
        let value = if param.takes(Type::String) {
            Value::String(unquoted(text))
        } else {
            whole_literal(text)
                .ok_or_else(|| format!("needs `{}` ({})", param.name, param.kind()))?
        };
        return bind_values(params, &[], &[(param.name.clone(), value)]);
    }
    if let Some(Value::Object(members)) = whole_literal(text) {
        return bind_values(params, &[], &members.into_iter().collect::<Vec<_>>());
    }
    let Some(values) = literals(text) else {
        let names: Vec<String> = params
            .iter()
            .map(|param| format!("`{}`", param.name))
            .collect();
        return Err(format!(
            "needs its arguments one by one, text in quotes ({})",
            names.join(", ")
        ));
    };
    bind_values(params, &values, &[])
}

fn bind_values(
    params: &[Param],
    positional: &[Value],
    named: &[(String, Value)],
) -> Result<Map<String, Value>, String> {
    if let ([Value::Object(members)], []) = (positional, named)
        && !members.is_empty()
        && params
            .first()
            .is_some_and(|param| !param.takes(Type::Object))
        && members
            .keys()
            .all(|name| params.iter().any(|param| param.name == *name))
    {
        let named: Vec<_> = members.clone().into_iter().collect();
        return bind_values(params, &[], &named);
    }
    if positional.len() > params.len() {
        return Err(match params.len() {
            0 => "takes no arguments".to_owned(),
            most => format!("takes at most {most}, not {} arguments", positional.len()),
        });
    }
    let mut given: Vec<Option<&Value>> = positional.iter().map(Some).collect();
    given.resize(params.len(), None);
    for (name, value) in named {
        let Some(place) = params.iter().position(|param| param.name == *name) else {
            return Err(format!("has no parameter `{name}`"));
        };
        if given[place].replace(value).is_some() {
            return Err(format!("got `{name}` twice"));
        }
    }
    let mut bound = Map::new();
    for (param, value) in params.iter().zip(given) {
        let Some(value) = value else {
            if param.required() {
                return Err(format!("needs `{}` ({})", param.name, param.kind()));
            }
            continue;
        };
        let fitting = param
            .fit(value.clone())
            .ok_or_else(|| refusal(param, value))?;
        bound.insert(param.name.clone(), fitting);
    }
    Ok(bound)
}

fn refusal(param: &Param, value: &Value) -> String {
    let found = match value {
        Value::Array(_) | Value::Object(_) | Value::Null => Type::of(value).name().to_owned(),
        Value::String(text) if text.chars().count() > 40 => "such a text".to_owned(),
        scalar => scalar.to_string(),
    };
    format!("wants {} for `{}`, not {found}", param.kind(), param.name)
}

/// The number as an integer, if it is one: 3 and 3.0 are.
fn whole(number: &Number) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0; // beyond 2^53 a float may have lost the digits that were written
    if !number.is_f64() {
        return Some(number.clone());
    }
    let value = number
        .as_f64()
        .filter(|value| value.fract() == 0.0 && value.abs() <= EXACT)?;
    Some(Number::from(value as i64))
}

fn whole_literal(text: &str) -> Option<Value> {
    literal(text)
        .ok()
        .filter(|(_, used)| *used == text.len())
        .map(|(value, _)| value)
}

/// The text without the one pair of quotes or backticks that encloses all of it.
fn unquoted(text: &str) -> String {
    let inner = text
        .strip_prefix('`')
        .and_then(|text| text.strip_suffix('`'));
    match (whole_literal(text), inner) {
        (Some(Value::String(inner)), _) => inner,
        (_, Some(inner)) if !inner.contains('`') => inner.to_owned(),
        _ => text.to_owned(),
    }
}
