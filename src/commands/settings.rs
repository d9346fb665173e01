//! `reagent config`: every value and where it comes from; where the file is; the file in an editor.

use std::fs::{DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::cli::{ConfigAction, Options};
use crate::config::{self, DEFAULT, Folders, Layers};
use crate::error::{Error, Result};
use crate::llm::Choice;
use crate::ui::screen::Screen;
use crate::ui::text::{json_line, strict};

/// What a new settings file says.
const FIRST: &str = "\
# Settings of reagent: any long flag, with _ for -. `reagent config show` lists them.
# model = \"fast\"
# ttl = 20

[aliases]
# fast = \"groq/llama-3.3-70b-versatile\"

# [providers.corp]                 # asked as -m corp/NAME
# base_url = \"https://llm.corp.example/v1\"
# key = \"CORP_API_KEY\"             # the variable that holds the key

# [theme]
# name = \"light\"                   # dark, light or plain
# thought = \"bright blue bold\"     # or any role of it
";

/// `reagent config`. A settings file that cannot be read can be shown the way to, and edited.
pub(crate) fn run(
    action: Option<ConfigAction>,
    layers: Result<Layers>,
    screen: Screen,
) -> Result<u8> {
    match action.unwrap_or(ConfigAction::Show) {
        ConfigAction::Show => show(layers?, screen),
        ConfigAction::Path => {
            screen.put(&format!("{}\n", strict(&file()?.display().to_string())))?;
            Ok(0)
        }
        ConfigAction::Edit => edit(),
    }
}

fn file() -> Result<PathBuf> {
    Folders::find().settings().ok_or_else(|| {
        Error::config_hint("there is no home folder", "export REAGENT_CONFIG_DIR=...")
    })
}

/// A line: a name, its value, where that comes from, and the values that it stands before.
struct Row {
    name: String,
    value: Value,
    from: String,
    over: Vec<(Value, String)>,
}

impl Row {
    fn fact(name: &str, value: impl Into<Value>, from: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            value: value.into(),
            from: from.into(),
            over: Vec::new(),
        }
    }
}

/// The settings, as they would stand in `config.toml`; behind them, what they come to.
fn show(layers: Layers, screen: Screen) -> Result<u8> {
    let options = layers.options();
    let mut settings: Vec<Row> = Vec::new();
    for setting in layers.settings() {
        let mut values = setting.values.into_iter();
        if let Some((value, from)) = values.next() {
            settings.push(Row {
                name: setting.name,
                value,
                from,
                over: values.collect(),
            });
        }
    }
    for (alias, model) in layers.aliases() {
        settings.push(Row::fact(
            &format!("aliases.{alias}"),
            model.as_str(),
            "config.toml",
        ));
    }
    for (role, words) in layers.theme_settings() {
        settings.push(Row::fact(
            &format!("theme.{role}"),
            words.as_str(),
            "config.toml",
        ));
    }
    let facts = facts(layers, &options);
    if options.json {
        let rows = settings.into_iter().chain(facts).map(|row| {
            let over: Vec<Value> = row
                .over
                .iter()
                .map(|(value, from)| json!({ "value": value, "from": from }))
                .collect();
            (
                row.name,
                json!({ "value": row.value, "from": row.from, "over": over }),
            )
        });
        screen.put(&json_line(
            &Value::Object(rows.collect::<Map<_, _>>()).to_string(),
        ))?;
        return Ok(0);
    }
    let left = |row: &Row| format!("{} = {}", row.name, row.value);
    let widths = settings.iter().map(|row| left(row).chars().count());
    let column = widths.filter(|width| *width < 60).max().unwrap_or(0);
    for row in &settings {
        let over = row.over.iter().filter(|(_, from)| from != DEFAULT);
        let over: String = over
            .map(|(value, from)| format!(", over {value} from {from}"))
            .collect();
        let line = format!("{:column$}  # {}{over}", left(row), row.from);
        screen.put(&format!("{}\n", strict(&line)))?;
    }
    screen.put("\n")?;
    for row in facts {
        let value = row.value.as_str().unwrap_or("none");
        let from = if row.from.is_empty() {
            String::new()
        } else {
            format!(" ({})", row.from)
        };
        screen.put(&format!(
            "{}\n",
            strict(&format!("# {}: {value}{from}", row.name))
        ))?;
    }
    Ok(0)
}

/// What the settings come to: files, folders, and who answers. A key is never among them.
fn facts(layers: Layers, options: &Options) -> Vec<Row> {
    let folders = Folders::find();
    let path = |path: Option<PathBuf>| path.map(|path| path.display().to_string());
    let mut facts = vec![
        Row::fact("settings_file", path(folders.settings()), ""),
        Row::fact("state_folder", path(folders.state), ""),
        Row::fact("tools_file", config::tools_file(options).to_string(), ""),
    ];
    match layers.choice() {
        Ok((choice @ Choice::Demo, why)) => {
            facts.push(Row::fact("answers", choice.name(), why.unwrap_or_default()))
        }
        Ok((Choice::Remote(endpoint), why)) => {
            let url = endpoint.url(!options.no_stream);
            let key = endpoint.key.map(|_| "(secret)");
            facts.push(Row::fact("answers", endpoint.name, why.unwrap_or_default()));
            facts.push(Row::fact(
                "endpoint",
                url,
                format!("from {}", endpoint.base_url_from),
            ));
            facts.push(Row::fact(
                "key",
                key,
                endpoint
                    .key_from
                    .map(|from| format!("from {from}"))
                    .unwrap_or_default(),
            ));
        }
        Err(error) => facts.push(Row::fact("answers", Value::Null, error.to_string())),
    }
    facts
}

/// Opens the file; afterwards says what is wrong with it.
fn edit() -> Result<u8> {
    let path = file()?;
    let cannot =
        |error: std::io::Error| Error::config(format!("cannot write {}: {error}", path.display()));
    if let Some(folder) = path.parent() {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(folder).map_err(cannot)?;
    }
    let new = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path);
    match new {
        Ok(mut file) => file.write_all(FIRST.as_bytes()).map_err(cannot)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(cannot(error)),
    }
    let words = config::editor();
    let failed = |why: String| {
        Error::config_hint(
            format!("the editor `{}` {why}", words.join(" ")),
            "export EDITOR=nano",
        )
    };
    let status = Command::new(&words[0])
        .args(&words[1..])
        .arg(&path)
        .status();
    let status = status.map_err(|error| failed(format!("cannot be run: {error}")))?;
    if !status.success() {
        return Err(failed(format!("failed: {status}")));
    }
    Layers::read(crate::cli::Options::default()).map(|_| 0)
}
