//! Where things are: the person's folders, and the file that declares the tools.

use std::env;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::cli::Options;

/// Where the person's own files are, if there is a home for them.
pub(crate) struct Folders {
    /// What the person wrote.
    pub(crate) config: Option<PathBuf>,
    /// What the program keeps.
    pub(crate) state: Option<PathBuf>,
}

impl Folders {
    /// The person's settings.
    pub(crate) fn settings(&self) -> Option<PathBuf> {
        Some(self.config.as_ref()?.join("config.toml"))
    }

    /// The audit log.
    pub(crate) fn audit(&self) -> Option<PathBuf> {
        Some(self.state.as_ref()?.join("audit"))
    }

    pub(crate) fn find() -> Self {
        let folder = |name: &str| {
            env::var_os(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let home = || folder("HOME");
        let place = |xdg: &str, default: &str| {
            folder(xdg)
                .or_else(|| Some(home()?.join(default)))
                .map(|base| base.join("reagent"))
        };
        Self {
            config: folder("REAGENT_CONFIG_DIR").or_else(|| place("XDG_CONFIG_HOME", ".config")),
            state: place("XDG_STATE_HOME", ".local/state"),
        }
    }
}

/// Where the tools are declared.
pub(crate) enum ToolsFile {
    /// In a file that was named, which is trust.
    Given(PathBuf),
    /// In a file that merely lies in the working folder.
    Project(PathBuf),
    /// In the person's own file.
    Own(PathBuf),
    /// In the file that comes with the program.
    BuiltIn,
}

impl fmt::Display for ToolsFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Given(path) | Self::Project(path) | Self::Own(path) => path.display().fmt(f),
            Self::BuiltIn => f.write_str("the built-in tools.toml"),
        }
    }
}

/// The first place that has tools.
pub(crate) fn tools_file(options: &Options) -> ToolsFile {
    if let Some(path) = &options.tools {
        return ToolsFile::Given(path.clone());
    }
    let project = PathBuf::from("tools.toml");
    if is_ordinary(&project) {
        return ToolsFile::Project(project);
    }
    let own = Folders::find()
        .config
        .map(|folder| folder.join("tools.toml"));
    own.filter(|path| path.exists())
        .map_or(ToolsFile::BuiltIn, ToolsFile::Own)
}

/// Whether a file that merely lies in the working folder may be read: a pipe or a device may not.
pub(super) fn is_ordinary(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|data| data.is_file())
}
