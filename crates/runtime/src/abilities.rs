//! What works here. Trying it takes a container; what worked is not tried again before the next boot, unless one of the
//! programs is another one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use container::Engine;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::error::Result;
use crate::files;
use crate::settings::Settings;
use crate::status::{self, Abilities};
use crate::work::blocking;

/// What worked, and with what.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Worked {
    version: u32,
    boot_id: String,
    helper: Program,
    /// `None` for the built-in one.
    engine: Option<(Program, Vec<String>)>,
    recursive_read_only: bool,
}

/// A program as it is on disk.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Program {
    path: PathBuf,
    device: u64,
    inode: u64,
    size: u64,
    /// When it changed, in seconds and the nanoseconds beyond.
    changed: (i64, i64),
}

impl Program {
    fn at(path: &Path) -> Option<Self> {
        let found = fs::metadata(path).ok()?;
        Some(Self {
            path: path.to_owned(),
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            changed: (found.ctime(), found.ctime_nsec()),
        })
    }
}

/// Finds out what works, with a line of the log for what does not. The answer is kept in the file.
pub(crate) async fn find(settings: &Settings, file: PathBuf, boot_id: &str) -> Result<Abilities> {
    let (state, helper) = (settings.state.clone(), settings.programs.container.clone());
    let (engine, boot_id) = (settings.engine.clone(), boot_id.to_owned());
    let handler = status::handler_name(&settings.engine);
    blocking(move || {
        let about = About { boot_id: &boot_id, helper: &helper, engine: &engine };
        if let Some(known) = known(&file, &about) {
            return Ok(known);
        }
        let tried = status::user_namespaces(&state).and_then(|()| status::try_engine(&helper, &engine));
        let recursive_read_only = status::recursive_read_only(&state);
        let found = Abilities { user_namespaces: tried.is_ok(), recursive_read_only };
        match tried {
            Err(cause) => warn!(handler, "user namespaces are not offered: {handler}: {cause}"),
            Ok(()) => worked(&about, found).map_or(Ok(()), |worked| files::write(&file, &worked))?,
        }
        Ok(found)
    })
    .await
}

/// The boot and the programs that an answer is about.
struct About<'a> {
    boot_id: &'a str,
    helper: &'a Path,
    engine: &'a Engine,
}

fn worked(about: &About<'_>, found: Abilities) -> Option<Worked> {
    let engine = match about.engine {
        Engine::Libcontainer => None,
        Engine::Oci { path, args } => Some((Program::at(path)?, args.clone())),
    };
    let recursive_read_only = found.recursive_read_only;
    Some(Worked {
        version: 1,
        boot_id: about.boot_id.to_owned(),
        helper: Program::at(about.helper)?,
        engine,
        recursive_read_only,
    })
}

/// A file that cannot be read is as good as none: everything is tried again.
fn known(file: &Path, about: &About<'_>) -> Option<Abilities> {
    let kept: Worked = files::read(file).ok().flatten()?;
    let found = Abilities { user_namespaces: true, recursive_read_only: kept.recursive_read_only };
    (worked(about, found)? == kept).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_of_one_boot_and_of_the_programs_as_they_were() {
        let dir = tempfile::tempdir().unwrap();
        let (file, helper) = (dir.path().join("worked.json"), dir.path().join("helper"));
        fs::write(&helper, "one").unwrap();
        let found = Abilities { user_namespaces: true, recursive_read_only: true };
        let about = |boot_id| About { boot_id, helper: &helper, engine: &Engine::Libcontainer };
        assert_eq!(known(&file, &about("a")), None);
        files::write(&file, &worked(&about("a"), found).unwrap()).unwrap();
        assert_eq!(known(&file, &about("a")), Some(found));
        assert_eq!(known(&file, &about("b")), None);
        let other = Engine::Oci { path: helper.clone(), args: vec![] };
        assert_eq!(known(&file, &About { engine: &other, ..about("a") }), None);
        fs::write(&helper, "another").unwrap();
        assert_eq!(known(&file, &about("a")), None);
        fs::write(&file, "{").unwrap();
        assert_eq!(known(&file, &about("a")), None);
    }
}
