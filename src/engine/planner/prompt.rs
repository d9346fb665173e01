//! The instructions: a template with the tools, the person's context and the wish for steps in it.

use crate::error::{Error, Result};
use crate::tool::Toolchain;

/// What the instructions are made with, besides the tools.
#[derive(Debug, Clone, Copy)]
pub struct Style<'a> {
    /// The template: the engine's own, unless the person has one.
    pub prompt: &'a str,
    /// What the person wants the model to know or be.
    pub context: &'a str,
    /// Whether the answer is followed by the steps that led to it.
    pub steps: bool,
}

/// The instructions with the tools in them.
pub(super) fn instructions(tools: &Toolchain, style: Style<'_>) -> Result<String> {
    let mut list = String::new();
    for spec in tools.specs() {
        list += &format!("- {}: {}", spec.usage(), spec.description);
        for param in spec
            .params
            .iter()
            .filter(|param| !param.description.is_empty())
        {
            list += &format!(
                " `{}`: {}.",
                param.name,
                param.description.trim_end_matches('.')
            );
        }
        if let Some(example) = &spec.example {
            list += &format!(" Example: {example}");
        }
        list.push('\n');
    }
    if list.is_empty() {
        list = "(none)\n".to_owned();
    }
    let steps = match style.steps {
        true => {
            " If it took more than one action, list the steps under the answer as a numbered list."
        }
        false => " Give the answer only, in one line if you can.",
    };
    let context = match style.context.trim() {
        "" => String::new(),
        context => format!("\n{context}\n"),
    };
    let text = fill(
        style.prompt,
        &[
            ("tools", list.trim_end()),
            ("steps", steps),
            ("context", &context),
        ],
    )?;
    Ok(text.trim_end().to_owned())
}

/// Puts values in the place of `{name}`. A brace with anything else behind it is a brace, and the
/// values themselves are not looked at again.
fn fill(template: &str, values: &[(&str, &str)]) -> Result<String> {
    let mut text = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text += before;
        let end = after
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        let known = values.iter().find(|(known, _)| *known == name);
        rest = match (behind.strip_prefix('}').filter(|_| end > 0), known) {
            (None, _) => {
                text.push('{');
                after
            }
            (Some(behind), Some((_, value))) => {
                text += value;
                behind
            }
            (Some(_), None) => {
                let what = format!("the prompt has an unknown placeholder `{{{name}}}`");
                return Err(Error::config(what));
            }
        };
    }
    Ok(text + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_named_and_values_are_not_templates() {
        assert_eq!(fill("a {x} b", &[("x", "{y}")]).unwrap(), "a {y} b");
        assert!(fill("a {z} b", &[("x", "1")]).is_err());
        assert_eq!(
            fill("a { b {} {\"t\": {x}}", &[("x", "1")]).unwrap(),
            "a { b {} {\"t\": 1}"
        );
    }
}
