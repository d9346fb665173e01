//! Reads what stands behind an `Action:` marker. The shape tells the form, not the marker:
//! `name(…)`, `name | argument`, `name` with an `Action Input:` below, a JSON object, `<tool_call>` around one.

use serde_json::Value;

use super::line::{Line, Marker, eat, first_line, look};
use super::scan::end_of_answer;
use crate::tool::call::{Args, Proposal};
use crate::tool::cursor::{Cursor, blank};
use crate::tool::literal::{WIDTH, literal, quote};

/// Words that models write where a tool's name belongs, to say that they use none.
const NOTHING: [&str; 6] = ["", "none", "null", "nothing", "no", "na"];

/// Where models trained on other agents believe their tools to live.
const NAMESPACES: [&str; 3] = ["functions.", "default_api.", "tools."];

#[derive(Debug, PartialEq)]
pub(super) enum Act {
    /// An action.
    Call(String, Input),
    /// The tool is called `Final Answer`: its input is the answer.
    Answer(String),
    /// Words that do not try to be an action.
    Prose,
    /// An action that is none: what is wrong with it.
    Broken(String),
}

/// The arguments of an action, and where it ends; `closed` if a bracket or a quote shows that it is whole.
#[derive(Debug, PartialEq)]
pub(super) struct Input {
    pub(super) args: Args,
    pub(super) end: usize,
    pub(super) closed: bool,
}

/// Reads the one action that begins at `from`; `open` asterisks before its marker are still to be closed.
pub(super) fn read(text: &str, from: usize, open: usize) -> Act {
    let mut cursor = Cursor { text, at: from };
    let gap = cursor.take(|c| blank(c) || c == '*');
    let marker = matches!(look(cursor.rest(), true), Line::Marker(..) | Line::Pause);
    if gap.contains('\n') && marker {
        return Act::Prose;
    }
    let act = match fence(&mut cursor) {
        Ok(None) => form(cursor, open),
        Ok(Some(text)) => form(Cursor { text, at: 0 }, 0).map(|act| match act {
            Act::Call(tool, input) => Act::Call(
                tool,
                Input {
                    end: cursor.at,
                    ..input
                },
            ),
            other => other,
        }),
        Err(why) => Err(why),
    };
    match act {
        Ok(Act::Call(tool, input)) => {
            let end = input.end + wrapping(&text[input.end..]);
            Act::Call(tool, Input { end, ..input })
        }
        Ok(act) => act,
        Err(why) => Act::Broken(why),
    }
}

/// The call that a JSON value stands for, in any of the shapes in use, if it has a tool and arguments.
pub(super) fn native(mut value: Value) -> Option<Proposal> {
    let object = value.as_object_mut()?;
    for around in ["tool_call", "function_call", "function"] {
        if object.get(around).is_some_and(Value::is_object) {
            return native(object.remove(around)?);
        }
    }
    let mut names = ["tool", "name", "action", "function"].iter();
    let tool = names.find_map(|key| object.get(*key)?.as_str().map(clean))?;
    let mut inputs = ["args", "arguments", "action_input", "parameters", "input"].iter();
    let args = match inputs.find_map(|key| object.remove(*key))? {
        Value::Null => Args::none(),
        Value::Array(values) => Args::positional(values),
        // OpenAI's wire has the arguments as JSON inside a string.
        Value::String(text) => match whole(&text) {
            Some(object @ Value::Object(_)) => members(object),
            _ => Args::positional(vec![Value::String(text)]),
        },
        other => members(other),
    };
    Some(Proposal { tool, args })
}

/// The value of a text that is one literal and nothing else.
pub(super) fn whole(text: &str) -> Option<Value> {
    let text = text.trim_matches(blank);
    let (value, used) = literal(text).ok()?;
    (used == text.len()).then_some(value)
}

fn form(mut cursor: Cursor, open: usize) -> Result<Act, String> {
    let rest = cursor.rest();
    let inner = eat(rest, "<tool_call>").map_or(rest, |inner| inner.trim_start_matches(blank));
    if inner.starts_with('{') {
        cursor.at += rest.len() - inner.len();
        json(cursor)
    } else if look(rest, true) == Line::ToolTag {
        Err("a tool call in such tags is not read".into())
    } else {
        named(cursor, open)
    }
}

fn json(mut cursor: Cursor) -> Result<Act, String> {
    let mut value = read_value(&mut cursor)?;
    if let Some(object) = value.as_object_mut() {
        object.entry("input").or_insert(Value::Null);
    }
    let shape = "a JSON action has the form {\"tool\": \"name\", \"args\": {…}}";
    let Proposal { tool, args } = native(value).ok_or(shape)?;
    match values(&args).pop() {
        Some(Value::String(answer)) if is_final_answer(&tool) => Ok(Act::Answer(answer)),
        _ => Ok(Act::Call(tool, closed(args, cursor))),
    }
}

/// An action that begins with the name of a tool.
fn named(mut cursor: Cursor, open: usize) -> Result<Act, String> {
    let line = cursor.line();
    let below = input_below(cursor);
    if let Some((Cursor { text, at }, _)) = below
        && is_final_answer(line)
    {
        let answer = text[at..end_of_answer(text, at)].trim_matches(blank);
        return Ok(Act::Answer(answer.to_owned()));
    }
    let wraps = |c| matches!(c, '`' | '"' | '\'' | '[' | ']' | '*');
    let wrapped = !cursor.take(wraps).is_empty() || open > 0;
    let named = |c: char| c.is_alphanumeric() || matches!(c, '_' | '\\' | '.' | '-');
    let tool = clean(cursor.take(named));
    if NOTHING.contains(&tool.to_lowercase().as_str()) {
        return match holds_call(line) {
            true => {
                Err("the call has to stand right behind `Action:`, and nothing before it".into())
            }
            false => Ok(Act::Prose),
        };
    }
    if wrapped || cursor.rest().starts_with("**") {
        cursor.take(wraps);
    }
    let end = cursor;
    let apart = !cursor.take(|c| blank(c) && c != '\n').is_empty();
    let rest = cursor;
    let input = match cursor.bump() {
        Some('(' | '（') => call(cursor).map_err(|why| unquoted(&tool, cursor.line(), why))?,
        Some('|' | '｜') => argument(cursor, open, false)?,
        _ if rest.line().chars().all(|c| blank(c) || c == '*') => match below {
            Some((cursor, open)) => argument(cursor, open, true)?,
            None => Input {
                closed: false,
                ..closed(Args::none(), end)
            },
        },
        Some(c) if matches!(c, ':' | '：' | '=' | '[' | '{') || quote(c) && apart => {
            return Err(format!("`{}` is not a call", short(line)));
        }
        _ => match input_marker(rest) {
            Some((cursor, open)) => argument(cursor, open, true)?,
            None if below.is_some() => {
                return Err(format!("`{}` is not the name of a tool", short(line)));
            }
            None if holds_call(line) => {
                return Err(
                    "the call has to stand right behind `Action:`, and nothing before it".into(),
                );
            }
            None => return Ok(Act::Prose),
        },
    };
    Ok(Act::Call(tool, input))
}

/// The arguments of a call, from behind its opening bracket on.
fn call(mut cursor: Cursor) -> Result<Input, String> {
    let (mut positional, mut named) = (Vec::new(), Vec::new());
    while !cursor.eat(&[')', '）']) {
        let name = name(&mut cursor);
        let (value, len) = literal(cursor.rest()).map_err(|error| error.why)?;
        cursor.at += len;
        match name {
            Some(name) => named.push((name.to_owned(), value)),
            None if positional.len() >= WIDTH => return Err("there are too many arguments".into()),
            None if named.is_empty() => positional.push(value),
            None => return Err("an argument without a name stands behind one with a name".into()),
        }
        if cursor.eat(&[',', '，']) || cursor.ahead(&[')', '）']) {
            continue;
        }
        return Err(
            match cursor.rest().starts_with(['+', '-', '*', '/', '%', '^']) {
                true => {
                    "an argument is an expression; a text needs quotes, and a number has to be worked out first"
                        .into()
                }
                false => "`,` or `)` is missing behind an argument".into(),
            },
        );
    }
    unchanged(cursor.line())?;
    let own = closed(Args::Values { positional, named }, cursor);
    let Some((below, open)) = input_below(cursor) else {
        return Ok(own);
    };
    let input = argument(below, open, true)?;
    let (here, there) = (values(&own.args), values(&input.args));
    if here.is_empty() {
        Ok(input)
    } else if there.is_empty() || here == there {
        Ok(Input {
            end: input.end,
            ..own
        })
    } else {
        Err("the arguments differ from the `Action Input`".into())
    }
}

/// What was wrong in a call. Where its one argument is a text without quotes, how it is written with
/// them: the model is told, and nothing is run.
fn unquoted(tool: &str, line: &str, why: String) -> String {
    let argument = line
        .rsplit_once(')')
        .map(|(argument, _)| argument.trim_matches(blank));
    match argument.filter(|text| !text.is_empty() && !text.contains(|c| quote(c) || c == ',')) {
        Some(text) => format!(
            "text needs quotes; did you mean `{tool}(\"{}\")`?",
            short(text)
        ),
        None => format!("in the call of `{tool}`, {why}"),
    }
}

/// Reads the name in `name=` or `name:`, if there is one.
fn name<'a>(cursor: &mut Cursor<'a>) -> Option<&'a str> {
    let mut ahead = *cursor;
    let name = ahead.take(|c| c.is_alphanumeric() || c == '_');
    if name.is_empty() || !ahead.eat(&['=', '＝', ':', '：']) {
        return None;
    }
    *cursor = ahead;
    Some(name)
}

/// The argument behind a bar or an `Action Input:`: JSON, a quoted text, a code block, or the line as it is.
/// `below`: it may stand on the next line instead, and must not go on over several.
fn argument(mut cursor: Cursor, open: usize, below: bool) -> Result<Input, String> {
    let none = Input {
        closed: false,
        ..closed(Args::none(), cursor)
    };
    let breaks = cursor.take(blank).matches('\n').count();
    let text = matches!(look(cursor.rest(), true), Line::Text | Line::Fence);
    if cursor.rest().is_empty() || breaks > usize::from(below) || breaks > 0 && !text {
        return Ok(none);
    }
    if cursor.rest().starts_with("** ") {
        cursor.take(|c| blank(c) || c == '*');
    }
    if let Some(inside) = fence(&mut cursor)? {
        let args = if inside.starts_with(['{', '[']) {
            members(whole(inside).ok_or("the JSON in the code block is broken")?)
        } else {
            Args::Text(inside.to_owned())
        };
        return Ok(closed(args, cursor));
    }
    let mut inside = cursor;
    if inside.rest().starts_with('`') {
        inside.bump();
    }
    if inside.rest().starts_with(['{', '[']) {
        return Ok(closed(members(read_value(&mut inside)?), inside));
    }
    if inside.rest().starts_with(quote) {
        let error = "the input has quotes inside its quotes (there, write `\\\"`)";
        let value = read_value(&mut inside)?;
        let tail = inside.line();
        let idle = tail.chars().all(|c| blank(c) || matches!(c, '`' | '*'));
        if idle || look(tail, true) == Line::Pause {
            return Ok(closed(Args::positional(vec![value]), inside));
        } else if tail.starts_with(char::is_alphanumeric)
            || inside.at > cursor.at + cursor.line().len()
        {
            return Err(error.into());
        }
    }
    let line = cursor.line();
    cursor.at += line.len();
    let next = cursor.rest().get(1..).unwrap_or_default();
    if below && !first_line(next).chars().all(blank) && look(next, true) == Line::Text {
        return Err("the input goes on over several lines, as only a quoted text may".into());
    }
    let args = Args::Text(plain(line, open).to_owned());
    Ok(Input {
        closed: false,
        ..closed(args, cursor)
    })
}

/// A line of free text without what is around it: emphasis, PAUSE, one pair of backticks.
fn plain(line: &str, open: usize) -> &str {
    let text = line
        .strip_suffix("*".repeat(open).as_str())
        .unwrap_or(line)
        .trim_matches(blank);
    let text = match text.strip_suffix("PAUSE") {
        Some(before) if before.ends_with(blank) => before.trim_end_matches(blank),
        _ => text,
    };
    match text
        .strip_prefix('`')
        .and_then(|text| text.strip_suffix('`'))
    {
        Some(inner) if !inner.contains('`') => inner,
        _ => text,
    }
}

/// Behind the `Action Input:` on the next line that is not blank, if there is one, and its open asterisks.
fn input_below(mut cursor: Cursor) -> Option<(Cursor, usize)> {
    cursor.at += cursor.line().len();
    cursor.take(blank);
    input_marker(cursor)
}

fn input_marker(mut cursor: Cursor) -> Option<(Cursor, usize)> {
    let (len, open) = match look(cursor.rest(), true) {
        Line::Marker(Marker::Input, len, open) => (len, open),
        _ => eat(cursor.rest(), "input:").map(|_| ("input:".len(), 0))?,
    };
    cursor.at += len;
    Some((cursor, open))
}

/// Reads a literal and makes sure that nothing behind it changes it.
fn read_value(cursor: &mut Cursor) -> Result<Value, String> {
    let broken = |why| format!("the input is no valid JSON or text: {why}");
    let (value, len) = literal(cursor.rest()).map_err(|error| broken(error.why))?;
    cursor.at += len;
    if !value.is_string() {
        unchanged(cursor.line())?;
    }
    Ok(value)
}

/// Reads a whole code block, if one begins here; gives its inside, trimmed.
fn fence<'a>(cursor: &mut Cursor<'a>) -> Result<Option<&'a str>, String> {
    let Some(block) = cursor.rest().strip_prefix("```") else {
        return Ok(None);
    };
    let info = first_line(block);
    let (language, close) = match info.contains("```") {
        true => (
            info.len() - info.trim_start_matches(char::is_alphabetic).len(),
            "```",
        ),
        false => (info.len(), "\n```"),
    };
    // Without a blank behind it, the word is no name of a language.
    let named = block[language..].starts_with(|c| blank(c) || c == '{');
    let start = if named { language } else { 0 };
    let len = block[start..]
        .find(close)
        .ok_or("the code block is never closed")?;
    cursor.at += "```".len() + start + len + close.len();
    Ok(Some(block[start..start + len].trim_matches(blank)))
}

/// What follows a value is nobody's, unless it would change it: `[0]`, `.strip()`, `+ 1`.
fn unchanged(line: &str) -> Result<(), String> {
    let member = line
        .strip_prefix('.')
        .is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    let near = line.trim_start_matches(blank);
    let operand = near
        .trim_start_matches(['+', '-', '*', '/', '%'])
        .trim_start_matches(blank);
    let sum = match near.chars().next() {
        // A dash, an arrow or two slashes may begin a remark.
        Some('-') => operand.starts_with(|c: char| c.is_ascii_digit()),
        Some('+' | '*' | '/' | '%') if !near.starts_with("//") => {
            operand.starts_with(|c: char| c.is_alphanumeric() || quote(c) || c == '(')
        }
        Some('=' | '!' | '>') => near.get(1..).is_some_and(|rest| rest.starts_with('=')),
        _ => ["or", "and", "if"]
            .iter()
            .any(|word| eat(near, word).is_some_and(operand_of)),
    };
    if member || sum || line.starts_with(['[', '(']) {
        return Err(format!(
            "`{}` behind it is not read (only plain values are)",
            short(line)
        ));
    }
    Ok(())
}

/// Whether what stands behind the word of an operator is a value or a call, and not prose.
fn operand_of(rest: &str) -> bool {
    let rest = match rest.starts_with(blank) {
        true => rest.trim_start_matches(blank),
        false => return false,
    };
    let name = rest.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
    let next = name.trim_start_matches(blank);
    next.is_empty()
        || name.starts_with(['(', '.'])
        || eat(next, "else").is_some()
        || rest.starts_with(quote)
}

/// The length of what closes a call's wrapping: left out, the transcript would teach the model to leave it open.
fn wrapping(rest: &str) -> usize {
    let close = rest.trim_start_matches(blank).strip_prefix("</tool_call>");
    let behind = close.unwrap_or(rest.trim_start_matches(['`', '*']));
    rest.len() - behind.len()
}

fn closed(args: Args, end: Cursor) -> Input {
    Input {
        args,
        end: end.at,
        closed: true,
    }
}

fn members(value: Value) -> Args {
    match value {
        Value::Object(members) => Args::named(members),
        value => Args::positional(vec![value]),
    }
}

/// All values in their order, whatever their names.
fn values(args: &Args) -> Vec<Value> {
    match args {
        Args::Values { positional, named } => positional
            .iter()
            .chain(named.iter().map(|(_, value)| value))
            .cloned()
            .collect(),
        Args::Text(text) => vec![Value::String(text.clone())],
    }
}

/// Whether a name stands right before a bracket: such a line is no prose, whatever else is in it.
fn holds_call(line: &str) -> bool {
    let before =
        |(at, _): (usize, &str)| line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
    line.match_indices('(').any(before)
}

/// A tool's name without its markdown and its namespace.
fn clean(name: &str) -> String {
    let name = name.replace('\\', "");
    let bare = NAMESPACES
        .iter()
        .find_map(|space| name.strip_prefix(space))
        .unwrap_or(&name);
    bare.trim_end_matches('.').to_owned()
}

fn is_final_answer(name: &str) -> bool {
    let bare = name.trim_matches(|c| blank(c) || matches!(c, '*' | '`'));
    bare.eq_ignore_ascii_case("final answer") || bare.eq_ignore_ascii_case("final_answer")
}

fn short(line: &str) -> String {
    match line.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", line[..end].trim_matches(blank)),
        None => line.trim_matches(blank).to_owned(),
    }
}
