//! `reagent audit verify`: whether the audit log is as it was written.

use std::path::PathBuf;

use crate::config::Folders;
use crate::error::{Error, Result};
use crate::session::audit::{Checked, check_file, check_folder};
use crate::ui::screen::Screen;
use crate::ui::text::strict;

/// Checks one log, or all of them. Gives 1 if something is not as it was written.
pub(crate) fn verify(file: Option<PathBuf>, screen: Screen) -> Result<u8> {
    let cannot =
        |path: &PathBuf, error| Error::config(format!("cannot read {}: {error}", path.display()));
    let checked = match file {
        Some(file) => vec![check_file(&file).map_err(|error| cannot(&file, error))?],
        None => {
            let folder = Folders::find().audit();
            let folder = folder.ok_or_else(|| Error::config("there is no home folder"))?;
            check_folder(&folder).map_err(|error| cannot(&folder, error))?
        }
    };
    let mut code = 0;
    for Checked {
        session,
        found,
        anchored,
    } in checked
    {
        let line = match found {
            Ok(whole) => {
                let end = if anchored {
                    ""
                } else {
                    "; no head vouches for its end"
                };
                format!(
                    "{session}: {} records, intact{end}; head {}",
                    whole.records, whole.head
                )
            }
            Err(why) => {
                code = 1;
                format!("{session}: {why}")
            }
        };
        screen.put(&format!("{}\n", strict(&line)))?;
    }
    Ok(code)
}
