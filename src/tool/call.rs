//! An action on its way from the model's words to a tool: as it was written, then as it fits the tool.

use std::fmt;

use serde_json::{Map, Value};

use super::params::Param;

/// The arguments of an action as the model wrote them, before they are bound to a tool's parameters.
#[derive(Debug, Clone, PartialEq)]
pub enum Args {
    /// `name(1, "b", key=3)`, `{"args": [...]}`, `{"args": {...}}`, a JSON `Action Input`; positional ones come first.
    Values {
        /// The values without a name, in their order.
        positional: Vec<Value>,
        /// The values with a name, in their order; a name may occur twice.
        named: Vec<(String, Value)>,
    },
    /// Unquoted text after a bar or `Action Input:`, already trimmed: its meaning depends on the tool's parameters.
    Text(String),
}

impl Args {
    /// No arguments at all.
    pub fn none() -> Args {
        Args::positional(Vec::new())
    }

    /// Values without names.
    pub fn positional(positional: Vec<Value>) -> Args {
        Args::Values {
            positional,
            named: Vec::new(),
        }
    }

    /// The members of a JSON object, each by its name.
    pub fn named(members: Map<String, Value>) -> Args {
        Args::Values {
            positional: Vec::new(),
            named: members.into_iter().collect(),
        }
    }
}

/// An action that is valid in form; whether the tool exists and takes these arguments is decided when it is bound.
#[derive(Debug, Clone, PartialEq)]
pub struct Proposal {
    /// The name as the model meant it: markdown and a namespace such as `functions.` are gone.
    pub tool: String,
    /// The arguments as written.
    pub args: Args,
}

/// A call whose tool exists and whose arguments fit its parameters (by parameter name, in declared order).
/// Displays as `name(x=10, y=3)`: the same text, read as an action, gives the same call again.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// The tool's own name.
    pub tool: String,
    /// Argument by parameter name; parameters that were not given are absent.
    pub args: Map<String, Value>,
}

impl Call {
    /// The call as a model would write it, `add_numbers(10, 3)`: by position for as long as the declared parameters
    /// are given without a gap, by name from there on. Read as an action it gives the same call again.
    pub fn display(&self, params: &[Param]) -> String {
        let leading = params.iter().map_while(|param| self.args.get(&param.name));
        let mut written: Vec<String> = leading.map(Value::to_string).collect();
        let rest = params
            .iter()
            .skip(written.len())
            .filter_map(|param| self.args.get_key_value(&param.name));
        written.extend(rest.map(|(name, value)| format!("{name}={value}")));
        format!("{}({})", self.tool, written.join(", "))
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self
            .args
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        write!(f, "{}({})", self.tool, named.join(", "))
    }
}
