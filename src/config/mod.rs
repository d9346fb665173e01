//! What is meant: flags, environment and files, brought together once. Nothing else reads the
//! environment or decides by flags.

mod file;
mod keys;
mod origin;
mod places;

use std::env;
use std::fs;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use clap::ValueEnum;

use crate::agent::{Agent, Builder, Task};
use crate::cli::{EngineName, OnLimit, Options};
use crate::engine::approval::Ask;
use crate::engine::{Answer, Reasoning, limits};
use crate::error::{Error, Result};
use crate::llm::provider::PROVIDERS;
use crate::llm::resolve::Source;
use crate::llm::{self, Choice};
use crate::session::Sink;
use crate::session::audit::Audit;
use crate::session::store::Store;
use crate::tape::Tape;
use crate::tool::manifest::{self, Manifest};
use crate::tool::rule::Rules;
use crate::tool::{Approval, Toolchain};
use crate::ui::screen::{Color, Screen};
use crate::ui::theme::Theme;
use file::File;
use keys::Keys;
pub(crate) use origin::DEFAULT;
pub(crate) use places::{Folders, ToolsFile, tools_file};

/// The largest file that is given with a question.
const FILE_LIMIT: u64 = 2 << 20;
/// How long a silent pipe is waited for.
const STDIN_WAIT: Duration = Duration::from_secs(10);

/// What was given, before anything is made of it: flags over environment over the person's file.
#[derive(Clone)]
pub struct Layers {
    flags: Options,
    environment: Options,
    file: File,
}

impl Layers {
    /// Reads the environment and the person's `config.toml`.
    pub fn read(flags: Options) -> Result<Self> {
        let ttl = variable("REAGENT_TTL").map(|text| {
            text.trim().parse().map_err(|_| {
                Error::config(format!(
                    "REAGENT_TTL is `{text}`, which is not a number of at least 1"
                ))
            })
        });
        let environment = Options {
            model: variable("REAGENT_MODEL"),
            base_url: variable("REAGENT_BASE_URL"),
            ttl: ttl.transpose()?,
            ..Options::default()
        };
        let path = Folders::find().settings();
        let file = match path.filter(|path| path.exists()) {
            Some(path) => file::load(&read_file(&path)?, &path.display().to_string())?,
            None => File::default(),
        };
        Ok(Self {
            flags,
            environment,
            file,
        })
    }

    /// What they come to together.
    pub fn options(&self) -> Options {
        let own = self.environment.clone().over(&self.file.options);
        self.flags.clone().over(&own)
    }

    /// What the person's rules say.
    pub(crate) fn rules(&self) -> &Rules {
        &self.file.rules
    }

    /// The styles of what is shown.
    pub(crate) fn theme(&self) -> Theme {
        self.file.theme
    }

    /// What the person's file says about them: role and words.
    pub(crate) fn theme_settings(&self) -> &[(String, String)] {
        &self.file.theme_settings
    }

    /// Other names for models.
    pub(crate) fn aliases(&self) -> &[(String, String)] {
        &self.file.aliases
    }

    /// The model that all this comes to, and why, if nobody named it.
    pub(crate) fn choice(self) -> Result<(Choice, Option<String>)> {
        let options = self.options();
        Keys::read(self).resolve(options.model.as_deref(), &options)
    }

    /// The same where only the endpoint matters: no model has to be named there, and a provider's name
    /// alone is enough.
    pub(crate) fn for_any_model(mut self) -> Self {
        const ANY: &str = "any";
        let options = self.options();
        self.flags.model = match options.model {
            None => options.base_url.map(|_| ANY.to_owned()),
            Some(name) if !name.contains('/') && self.is_provider(&name) => {
                Some(format!("{name}/{ANY}"))
            }
            Some(name) if name.ends_with('/') => Some(name + ANY),
            name => name,
        };
        self
    }

    fn is_provider(&self, name: &str) -> bool {
        let mut rows = self.file.providers.iter().chain(PROVIDERS);
        rows.any(|provider| provider.name == name)
    }

    /// Who gave the base URL.
    fn base_url_source(&self) -> Source {
        match (&self.flags.base_url, &self.environment.base_url) {
            (Some(_), _) => Source::Flag,
            (None, Some(_)) => Source::Environment,
            (None, None) => Source::UserConfig,
        }
    }
}

/// Everything that was decided.
pub struct Config {
    /// The flags, and what stands for them elsewhere.
    pub options: Options,
    /// What the program writes to.
    pub screen: Screen,
    /// The model.
    pub model: Choice,
    /// How the model is asked.
    pub llm: llm::Options,
    /// Model calls per question.
    pub ttl: NonZeroU32,
    /// The tools.
    pub tools: Rc<Toolchain>,
    /// How long a silent pipe is waited for.
    pub stdin_wait: Duration,
    /// Files given with each question.
    pub attachments: String,
    /// The folder for what the program keeps, if there is a home for it.
    pub state: Option<PathBuf>,
    /// What the person should know before the first question.
    pub notices: Vec<String>,
    /// How to reason.
    pub engine: EngineName,
    /// What is recorded, or played.
    pub(crate) tape: Option<Tape>,
    context: String,
    /// The person's own instructions for engines.
    prompts: Vec<(Reasoning, String)>,
    keys: Keys,
}

impl Config {
    /// What the environment says about colours: `NO_COLOR` over `CLICOLOR_FORCE` over `TERM=dumb`.
    pub fn screen(color: Color) -> Screen {
        let set = |name: &str| env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
        let wanted = match () {
            () if set("NO_COLOR") => Some(false),
            () if set("CLICOLOR_FORCE")
                && env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0") =>
            {
                Some(true)
            }
            () if dumb => Some(false),
            () => None,
        };
        Screen::look(color, wanted, dumb)
    }

    /// Decides everything that can be decided before the first question.
    pub fn new(layers: Layers, screen: Screen) -> Result<Self> {
        let options = layers.options();
        let keys = Keys::read(layers);
        let folders = Folders::find();
        let mut notices = Vec::new();
        let mut tools = tools(&options, &mut notices)?;
        let tape = match (&options.record, &options.rerun) {
            (Some(path), _) => Some(Tape::record(path)?),
            (None, Some(path)) => Some(Tape::rerun(path)?),
            (None, None) => None,
        };
        if let Some(tape) = &tape {
            tools = tools.wrapped(|tool| tape.tool(tool));
        }
        let played = tape.as_ref().filter(|tape| tape.plays());
        // What is played needs no endpoint and no key.
        let (model, why) = match played {
            Some(_) => (Choice::Demo, None),
            None => keys.resolve(options.model.as_deref(), &options)?,
        };
        notices.extend(why.filter(|_| !options.quiet || matches!(model, Choice::Demo)));
        if let Some(tape) = played {
            notices = tape.notices();
        } else if options.verbose {
            let (file, count) = (tools_file(&options), tools.specs().count());
            notices.push(format!("{count} tools from {file}"));
            notices.extend(model.described(!options.no_stream));
        }
        let ttl = options.ttl.unwrap_or(limits::Limits::default().ttl);
        let llm = llm_options(&options);
        let mut context = options.system.clone().unwrap_or_default();
        if let Some(path) = &options.system_file {
            context = format!("{context}\n{}", read_file(path)?);
        }
        let mut attachments = String::new();
        for path in &options.file {
            attachments += &attachment(&path.display().to_string(), &read_file(path)?);
        }
        let mut prompts = Vec::new();
        for (name, reasoning) in [
            ("react", Reasoning::React),
            ("native", Reasoning::Native),
            ("plan", Reasoning::Plan),
        ] {
            let path = folders.config.as_ref();
            let path = path.map(|folder| folder.join(format!("prompts/{name}.md")));
            if let Some(path) = path.filter(|path| path.exists()) {
                prompts.push((reasoning, read_file(&path)?));
            }
        }
        Ok(Self {
            stdin_wait: options.stdin_wait.unwrap_or(STDIN_WAIT),
            engine: options
                .engine
                .or_else(|| EngineName::from_str(&played?.engine()?, true).ok())
                .unwrap_or_default(),
            tape,
            state: folders.state,
            tools: Rc::new(tools),
            options,
            screen,
            model,
            llm,
            ttl,
            attachments,
            notices,
            context,
            prompts,
            keys,
        })
    }

    /// The audit log, if there is a home for it.
    pub fn audit(&self) -> Option<Box<dyn Sink>> {
        let folder = self.state.as_ref()?.join("audit");
        Some(Box::new(Audit::new(folder)))
    }

    /// Where sessions are kept, if there is a home for them.
    pub fn store(&self) -> Option<Store> {
        Some(Store::new(self.state.as_ref()?.join("sessions")))
    }

    /// What it was made of.
    pub(crate) fn layers(&self) -> &Layers {
        &self.keys.layers
    }

    /// The same with another value of a flag, given by its long name.
    pub(crate) fn with(&self, name: &str, value: Option<&str>) -> Result<Self> {
        if self.tape.is_some() {
            return Err(Error::config("what is recorded stays as it began"));
        }
        let mut layers = self.keys.layers.clone();
        layers.flags = crate::cli::option(name, value)?.over(&layers.flags);
        Self::new(layers, self.screen)
    }

    /// Reads the tools anew, and leaves some out.
    pub(crate) fn reload(&mut self, off: &[String]) -> Result<()> {
        if self.tape.is_some() {
            return Err(Error::config("what is recorded stays as it began"));
        }
        let tools = tools(&self.options, &mut Vec::new())?;
        self.tools = Rc::new(tools.without(off));
        Ok(())
    }

    /// Has the agent answer, on tape if there is one.
    pub(crate) fn ask(&self, agent: &mut Agent, task: Task) -> Result<Answer> {
        match &self.tape {
            Some(tape) => tape.run(agent, task, &self.notices),
            None => agent.run(task),
        }
    }

    /// The agent that all this comes to. `go_on` is asked at the limit, and `approve` about actions, if
    /// somebody can be.
    pub fn agent(&self, go_on: Option<limits::GoOn>, approve: Option<Ask>) -> Builder {
        let on_limit = match (self.options.on_limit.unwrap_or_default(), go_on) {
            (OnLimit::Answer, _) => limits::OnLimit::Answer,
            (OnLimit::Stop, Some(go_on)) => limits::OnLimit::Ask(go_on),
            (OnLimit::Stop, None) => limits::OnLimit::Stop,
        };
        let Options {
            strict_tools,
            max_time,
            max_total_tokens,
            max_total_bytes,
            max_context,
            ..
        } = self.options;
        let llm = llm::connect(&self.model, &self.llm);
        let (llm, approve) = match &self.tape {
            Some(tape) => (tape.llm(llm), tape.ask(approve)),
            None => (llm, approve),
        };
        let mut agent = Agent::builder(llm)
            .toolchain(self.tools.clone())
            .reasoning(self.engine.into())
            .context(&self.context)
            .rules(self.keys.layers.rules().clone())
            .limits(limits::Limits {
                ttl: self.ttl,
                on_limit,
                strict_tools,
                max_time,
                max_total_tokens,
                max_total_bytes,
                max_context,
            });
        for (reasoning, template) in &self.prompts {
            agent = agent.prompt(*reasoning, template);
        }
        if self.options.quiet {
            agent = agent.brief();
        }
        if self.screen.err.terminal && !self.options.quiet && !self.options.json {
            agent = agent.watched();
        }
        if self.options.yes {
            agent = agent.yes();
        }
        if let Some(approve) = approve {
            agent = agent.ask(approve);
        }
        if self.state.is_none() {
            agent = agent.without_effects("there is no home folder for the audit log");
        }
        agent
    }
}

/// How the model is asked.
pub(crate) fn llm_options(options: &Options) -> llm::Options {
    let defaults = llm::Options::default();
    llm::Options {
        temperature: options.temperature,
        max_tokens: options.max_tokens,
        stream: !options.no_stream,
        timeout: options.timeout.unwrap_or(defaults.timeout),
        retries: options.retries.unwrap_or(defaults.retries),
        connect_timeout: options.connect_timeout.unwrap_or(defaults.connect_timeout),
        first_byte_timeout: options.first_byte_timeout,
        idle_timeout: options.idle_timeout,
        verbose: options.verbose,
    }
}

/// A text that is given with the question, with a frame that says where it comes from.
pub fn attachment(name: &str, content: &str) -> String {
    format!(
        "--- {name} ---\n{}\n--- end of {name} ---\n",
        content.trim_end_matches('\n')
    )
}

/// The tools, read from the first place that has some.
///
/// A `tools.toml` that merely lies in the working folder is somebody else's word: unless it is the
/// built-in one, only its tools that compute are used.
pub(crate) fn tools(options: &Options, notices: &mut Vec<String>) -> Result<Toolchain> {
    let file = tools_file(options);
    let text = match &file {
        ToolsFile::Given(path) | ToolsFile::Project(path) | ToolsFile::Own(path) => {
            read_file(path)?
        }
        ToolsFile::BuiltIn => manifest::DEFAULT.to_owned(),
    };
    let Manifest { tools, mut rules } = manifest::load(&text, &file.to_string())?;
    if matches!(file, ToolsFile::Project(_)) && text != manifest::DEFAULT {
        let (pure, left_out) = manifest::only_pure(tools);
        notices.push(format!(
            "./tools.toml is not trusted: {} of its tools are used, which only compute, {left_out} are \
             left out; --tools tools.toml uses them all",
            pure.len()
        ));
        // Nobody has vouched for it: it can only narrow.
        rules.rules.retain(|rule| rule.then != Approval::Allow);
        return Ok(Toolchain::new(pure)?.with_rules(rules));
    }
    Ok(Toolchain::new(tools)?.with_rules(rules))
}

fn read_file(path: &Path) -> Result<String> {
    let cannot = |why: String| Error::config(format!("cannot read {}: {why}", path.display()));
    let file = fs::File::open(path).map_err(|error| cannot(error.to_string()))?;
    let mut bytes = Vec::new();
    file.take(FILE_LIMIT + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| cannot(error.to_string()))?;
    if bytes.len() as u64 > FILE_LIMIT {
        return Err(cannot(format!("it is larger than {FILE_LIMIT} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| cannot("it is not text".to_owned()))
}

/// A variable of the environment; empty is missing.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// The editor that the person prefers, word by word.
pub(crate) fn editor() -> Vec<String> {
    let named = variable("VISUAL").or_else(|| variable("EDITOR"));
    let words = named.unwrap_or_else(|| "vi".to_owned());
    words.split_whitespace().map(str::to_owned).collect()
}
