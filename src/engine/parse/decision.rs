//! A decision written as a JSON object, as the engine `plan` wants it: `action`, `params`, `confidence`.
//!
//! After AgentRuntime's decision. Text around the object is tolerated, as is a fence; other members are
//! ignored. Nothing is repaired.

use serde_json::{Deserializer, Value};

/// How many places in a reply are tried as the beginning of the object.
const PLACES: usize = 200;

/// A decision as it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Written {
    /// What the model thought.
    pub thought: Option<String>,
    /// The tool, or `finish`; blanks around it are gone.
    pub action: String,
    /// The arguments, or null.
    pub params: Value,
    /// How sure the model says it is, of whatever kind that is.
    pub confidence: Option<Value>,
    /// The object as it was written, for the transcript.
    pub text: String,
}

/// Reads the first object with an `action`. The error is one line for the model.
pub fn read(reply: &str) -> Result<Written, String> {
    let text = &super::text_of(reply)?;
    let mut incomplete = false;
    let mut after = 0;
    for (at, _) in text.match_indices('{').take(PLACES) {
        // What is inside of an object that was read is no decision of its own.
        if at < after {
            continue;
        }
        let mut values = Deserializer::from_str(&text[at..]).into_iter::<Value>();
        match values.next() {
            Some(Ok(Value::Object(mut object))) => {
                let end = at + values.byte_offset();
                after = end;
                let Some(action) = object.remove("action") else {
                    continue;
                };
                let Value::String(action) = action else {
                    return Err("`action` is not a text".to_owned());
                };
                let thought = object.remove("thought");
                let thought = thought.and_then(|thought| thought.as_str().map(str::to_owned));
                return Ok(Written {
                    thought: thought.filter(|thought| !thought.trim().is_empty()),
                    action: action.trim().to_owned(),
                    params: object.remove("params").unwrap_or(Value::Null),
                    confidence: object.remove("confidence").filter(|value| !value.is_null()),
                    text: text[at..end].to_owned(),
                });
            }
            Some(Err(error)) => incomplete |= error.is_eof(),
            _ => {}
        }
    }
    Err(match incomplete {
        true => "the JSON object is not complete".to_owned(),
        false => "there is no JSON object with an `action`".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_decision_is_found_in_what_surrounds_it() {
        let object =
            r#"{"action": " add ", "params": {"x": 1}, "confidence": 0.9, "reason": "{}"}"#;
        for reply in [
            object.to_owned(),
            format!("```json\n{object}\n```"),
            format!("<think>{{\"action\": \"no\"}}</think>I decide: {object} {object}"),
            format!("{{}} {{\"x\": {{\"action\": \"no\"}}}} {object}"),
        ] {
            let read = read(&reply).unwrap();
            assert_eq!(
                (read.action.as_str(), &read.params),
                ("add", &json!({"x": 1})),
                "{reply}"
            );
            assert_eq!(
                (read.confidence, read.text),
                (Some(json!(0.9)), object.to_owned())
            );
        }
        for (reply, why) in [
            ("", "no JSON object"),
            ("add(1, 2)", "no JSON object"),
            (r#"{"params": {}}"#, "no JSON object"),
            (r#"{"action": 7}"#, "not a text"),
            (r#"{"action": "add", "params": {"x""#, "not complete"),
        ] {
            assert!(read(reply).unwrap_err().contains(why), "{reply}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text: String) {
            let _ = read(&text);
        }
    }
}
