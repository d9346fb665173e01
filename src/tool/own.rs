//! Tools in Rust: a description and a closure.

use serde_json::{Map, Value};

use super::{Spec, Tool, params};

/// A tool that is a closure; [`Spec::runs`] makes one.
pub struct Own<F> {
    spec: Spec,
    work: F,
}

impl Spec {
    /// A tool of this description whose work is this closure. Its arguments fit the parameters, by name;
    /// one that was not given has its default, if it has one. The error is told to the model, so it says
    /// what to do instead.
    ///
    /// ```
    /// use reagent::tool::params::{Param, Type};
    /// use reagent::tool::{Spec, Tool};
    /// use serde_json::json;
    ///
    /// let double = Spec::new("double", "Doubles a number.")
    ///     .param(Param::new("x", Type::Number))
    ///     .runs(|args| Ok(json!(args["x"].as_f64().unwrap_or(0.0) * 2.0)));
    /// let args = json!({ "x": 21 });
    /// assert_eq!(double.call(args.as_object().unwrap()), Ok(json!(42.0)));
    /// ```
    pub fn runs<F>(self, work: F) -> Own<F>
    where
        F: Fn(&Map<String, Value>) -> Result<Value, String>,
    {
        Own { spec: self, work }
    }
}

impl<F> Tool for Own<F>
where
    F: Fn(&Map<String, Value>) -> Result<Value, String>,
{
    fn spec(&self) -> &Spec {
        &self.spec
    }

    fn call(&self, args: &Map<String, Value>) -> Result<Value, String> {
        (self.work)(&params::filled(&self.spec.params, args))
    }
}
