//! `tools.toml`: which tools there are, made of built-in functions.
//!
//! ```toml
//! [[tool]]
//! name = "multiply_numbers"
//! function = "math.multiply"
//! description = "Multiply two numbers."
//! example = "multiply_numbers(10, 3)"
//! ```
//!
//! `name` and `function` are enough. Every mistake is an error with its line and column.

use std::collections::HashSet;

use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

use super::function::{self, Body, Escape, Function, Limits};
use super::params::{Param, Type, filled};
use super::rule::{self, Rules};
use super::template::Template;
use super::{
    Approval, Arithmetic, Effect, MAX_OUTPUT, NAME, Spec, TIMEOUT, Tool, is_name, math, output,
};
use crate::error::Result;
use crate::near::did_you_mean;
use crate::tables::{self, Item, Read, known_keys, mistake, sub_table, text, value};

/// The tools that come with the program.
pub const DEFAULT: &str = include_str!("../../tools.toml");
/// The longest description; it is part of every prompt.
const DESCRIPTION: usize = 1000;

/// What a manifest declares.
pub struct Manifest {
    /// The tools, in order.
    pub tools: Vec<Box<dyn Tool>>,
    /// Rules about their calls.
    pub rules: Rules,
}

/// Reads a manifest; `file` is its name in errors.
pub fn load(text: &str, file: &str) -> Result<Manifest> {
    tables::read(text, file, |document| {
        known_keys(document, &["tool", "policy"], "key")?;
        Ok(Manifest {
            tools: tools(document)?,
            rules: match document.get("policy") {
                Some(item) => rule::read(item, file)?,
                None => Rules::default(),
            },
        })
    })
}

type Bindings = Vec<(String, Bound)>;

fn tools(document: &DeTable<'_>) -> Read<Vec<Box<dyn Tool>>> {
    let Some(list) = document.get("tool") else {
        return Ok(Vec::new());
    };
    let DeValue::Array(items) = list.get_ref() else {
        return mistake(list, "`tool` must be a list: write [[tool]]");
    };
    let mut tools: Vec<Box<dyn Tool>> = Vec::new();
    let mut names = HashSet::new();
    for item in items.iter() {
        let tool = Declared::read(item)?;
        if !names.insert(tool.spec.name.to_lowercase()) {
            return mistake(item, format!("a second tool named `{}`", tool.spec.name));
        }
        tools.push(Box::new(tool));
    }
    Ok(tools)
}

/// A tool made of a function, with some of its arguments bound.
struct Declared {
    spec: Spec,
    function: &'static Function,
    bound: Bindings,
    limits: Limits,
}

/// What a tool gives for an argument of its function.
enum Bound {
    /// A text with the model's arguments in it.
    Text(Template, Escape),
    /// A value as it is.
    Value(Value),
}

impl Tool for Declared {
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, args: &Map<String, Value>) -> std::result::Result<Value, String> {
        self.function.run(&self.full(args), &self.limits)
    }

    fn host(&self, args: &Map<String, Value>) -> Option<String> {
        let full = self.full(args);
        let url = ["url", "base_url"]
            .iter()
            .find_map(|name| function::text(&full, name))?;
        let uri: ureq::http::Uri = url.parse().ok()?;
        uri.host().map(str::to_owned)
    }

    fn pages(&self) -> bool {
        self.bound.is_empty() && self.function.name == output::MORE
    }

    fn arithmetic(&self) -> Option<Arithmetic> {
        match self.function.body {
            _ if !self.bound.is_empty() => None,
            Body::Numbers(operation) => Some(Arithmetic::Sign(operation.sign())),
            Body::Call(_) => (self.function.name == math::CALCULATE).then_some(Arithmetic::Whole),
        }
    }
}

impl Declared {
    /// All arguments of the function: the model's, the defaults, and what is bound.
    fn full(&self, args: &Map<String, Value>) -> Map<String, Value> {
        let mut full = filled(&self.spec.params, args);
        let bound: Vec<(String, Value)> = self
            .bound
            .iter()
            .map(|(name, bound)| match bound {
                Bound::Text(template, escape) => {
                    (name.clone(), template.fill(&full, *escape).into())
                }
                Bound::Value(value) => (name.clone(), value.clone()),
            })
            .collect();
        full.extend(bound);
        full
    }

    fn read(item: &Item<'_>) -> Read<Self> {
        const KEYS: &[&str] = &[
            "name",
            "function",
            "description",
            "example",
            "params",
            "bind",
            "approval",
            "timeout",
            "max_output",
        ];
        let DeValue::Table(table) = item.get_ref() else {
            return mistake(item, "a tool must be a table: write [[tool]]");
        };
        known_keys(table, KEYS, "key")?;
        let text = |key: &str| table.get(key).map(|item| (text(item, key), item));
        let (name, name_item) = match text("name") {
            Some((name, item)) => (name?, item),
            None => return mistake(item, "a tool needs a `name`"),
        };
        if !is_name(name) {
            return mistake(name_item, NAME);
        }
        let function = match text("function") {
            Some((function, item)) => self::function(function?, item)?,
            None => return mistake(item, format!("`{name}` needs a `function`")),
        };
        let description = match text("description") {
            Some((description, item)) => prose(description?, item)?,
            None => function.description.to_owned(),
        };
        let example = match text("example") {
            Some((example, item)) => Some(prose(example?, item)?),
            None => None,
        };
        let (params, bound) = params(function, table)?;
        if let Some(slot) = function
            .slots
            .iter()
            .find(|s| s.required && !bound.iter().any(|(b, _)| b == s.name))
        {
            return mistake(
                item,
                format!("`{}` needs bind.{}", function.name, slot.name),
            );
        }
        let approval = match text("approval") {
            None => Approval::Allow,
            Some((_, item)) => rule::approval(item, "approval")?,
        };
        let timeout = match text("timeout") {
            None => TIMEOUT,
            Some((words, item)) => match crate::duration::parse(words?) {
                Some(duration) if !duration.is_zero() => duration,
                _ => return mistake(item, "`timeout` is a duration such as \"10s\" or \"500ms\""),
            },
        };
        let max_output = match table.get("max_output") {
            None => MAX_OUTPUT,
            Some(item) => match value(item)?.as_u64() {
                Some(bytes @ 1..=1_048_576) => usize::try_from(bytes).unwrap_or(MAX_OUTPUT),
                _ => return mistake(item, "`max_output` is a number of bytes up to 1048576"),
            },
        };
        let spec = Spec {
            example,
            params,
            effect: function.effect,
            ends: function.ends,
            approval,
            timeout,
            max_output,
            ..Spec::new(name, description)
        };
        Ok(Self {
            spec,
            function,
            bound,
            limits: Limits { timeout },
        })
    }
}

fn function(name: &str, item: &Item<'_>) -> Read<&'static Function> {
    let names = || function::all().map(|function| function.name);
    match function::all().find(|function| function.name == name) {
        Some(function) => Ok(function),
        None => mistake(
            item,
            format!("unknown function `{name}`{}", did_you_mean(name, names())),
        ),
    }
}

/// The parameters that the model sees, and what the tool binds.
fn params(function: &Function, table: &DeTable<'_>) -> Read<(Vec<Param>, Bindings)> {
    let own = (function.params)();
    let empty = DeTable::new();
    let declared = match table.get("params") {
        None => &empty,
        Some(item) => sub_table(item, "params")?,
    };
    let binds = match table.get("bind") {
        None => &empty,
        Some(item) => sub_table(item, "bind")?,
    };
    let is_bound = |name: &str| binds.get(name).is_some();
    let mut params: Vec<Param> = own.iter().filter(|p| !is_bound(&p.name)).cloned().collect();
    for (key, item) in declared.iter() {
        let name = key.get_ref();
        match params.iter_mut().find(|param| param.name == **name) {
            Some(param) => read_param(param, item)?,
            None if is_bound(name) => return mistake(key, format!("`{name}` is bound already")),
            None if !is_name(name) => return mistake(key, NAME),
            None => {
                let mut param = Param::new(name, Type::Any);
                read_param(&mut param, item)?;
                params.push(param);
            }
        }
    }
    let mut bound = Vec::new();
    let mut used: Vec<String> = Vec::new();
    for (key, item) in binds.iter() {
        let name = key.get_ref();
        let slot = function.slots.iter().find(|slot| slot.name == &**name);
        if slot.is_none() && !function.open && !own.iter().any(|param| param.name == **name) {
            let names = own
                .iter()
                .map(|p| p.name.as_str())
                .chain(function.slots.iter().map(|s| s.name));
            return mistake(
                key,
                format!(
                    "`{}` has no `{name}` to bind{}",
                    function.name,
                    did_you_mean(name, names)
                ),
            );
        }
        let escape = slot.map_or(Escape::None, |slot| slot.escape);
        let value = match item.get_ref() {
            DeValue::String(text) => {
                let template = Template::read(text, &params).or_else(|why| mistake(item, why))?;
                if escape == Escape::Url && !template.host_is_fixed() {
                    return mistake(
                        item,
                        "a URL begins with http:// or https:// and a host without placeholders",
                    );
                }
                if escape == Escape::Pointer && !template.begins_with_slash() {
                    return mistake(item, "a JSON pointer begins with `/`");
                }
                used.extend(template.names().map(str::to_owned));
                Bound::Text(template, escape)
            }
            _ if escape != Escape::None => {
                return mistake(item, format!("`{name}` must be a text in quotes"));
            }
            _ => Bound::Value(value(item)?),
        };
        bound.push((name.to_string(), value));
    }
    for (key, _) in declared.iter() {
        let name = key.get_ref();
        let known = function.open || own.iter().any(|param| param.name == **name);
        if !known && !used.iter().any(|other| *other == **name) {
            let names = own.iter().map(|param| param.name.as_str());
            return mistake(
                key,
                format!(
                    "`{}` has no parameter `{name}`, and nothing bound uses it{}",
                    function.name,
                    did_you_mean(name, names)
                ),
            );
        }
    }
    Ok((params, bound))
}

fn read_param(param: &mut Param, item: &Item<'_>) -> Read<()> {
    let table = sub_table(item, "a parameter")?;
    known_keys(
        table,
        &["type", "description", "default", "optional", "enum"],
        "key",
    )?;
    if let Some(item) = table.get("type") {
        let words: Vec<&Item<'_>> = match item.get_ref() {
            DeValue::Array(items) => items.iter().collect(),
            _ => vec![item],
        };
        param.types = words.into_iter().map(kind).collect::<Read<_>>()?;
        if param.types.is_empty() {
            return mistake(item, "`type` is a type or a list of some");
        }
    }
    if let Some(item) = table.get("description") {
        param.description = prose(text(item, "description")?, item)?;
    }
    if let Some(item) = table.get("optional") {
        let DeValue::Boolean(optional) = item.get_ref() else {
            return mistake(item, "`optional` is true or false");
        };
        param.optional = *optional;
    }
    if let Some(item) = table.get("enum") {
        let Value::Array(choices) = value(item)? else {
            return mistake(item, "`enum` is a list of the values that may be given");
        };
        param.choices = choices;
    }
    if let Some(item) = table.get("default") {
        let default = value(item)?;
        if let Err(why) = param.check(&default) {
            return mistake(item, format!("the default does not fit: {why}"));
        }
        param.default = Some(default);
    }
    Ok(())
}

fn kind(item: &Item<'_>) -> Read<Type> {
    let word = text(item, "type")?;
    match Type::from_name(word) {
        Some(kind) => Ok(kind),
        None => {
            let names = Type::NAMES.iter().copied();
            mistake(
                item,
                format!("unknown type `{word}`{}", did_you_mean(word, names)),
            )
        }
    }
}

/// A text that goes into the prompt: short, and without anything that a terminal would obey.
fn prose(text: &str, item: &Item<'_>) -> Read<String> {
    if text.len() > DESCRIPTION {
        return mistake(item, format!("longer than {DESCRIPTION} bytes"));
    }
    if text.chars().any(|c| c.is_control() && c != '\n') {
        return mistake(item, "a control character in it");
    }
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Leaves only what a project's own file may have before it is trusted: tools that compute.
/// Says how many were left out.
pub fn only_pure(tools: Vec<Box<dyn Tool>>) -> (Vec<Box<dyn Tool>>, usize) {
    let all = tools.len();
    let pure: Vec<_> = tools
        .into_iter()
        .filter(|tool| tool.spec().effect == Effect::Pure)
        .collect();
    let left_out = all - pure.len();
    (pure, left_out)
}
