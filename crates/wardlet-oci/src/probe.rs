//! Identifies the runtime by the output of its `--version`.
//!
//! To run the runtime takes longer than all other steps for a container, so the output is cached until the runtime's
//! file changes.

use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use durable::{AtomicFile, Lifetime};

use crate::error::{Error, Result};
use crate::isolation::{JoinOrder, MappingsWithPath, RuntimeKind, RuntimeTraits};

/// The traits of the runtime in this file. It is an error if the runtime fails or is not a known one.
pub(crate) fn traits(runtime: &Path, run_dir: &Path) -> Result<RuntimeTraits> {
    let kept = kept(runtime, run_dir);
    let known = kept.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
    if let Some(traits) = known.as_deref().and_then(read) {
        return Ok(traits);
    }
    let said = ask(runtime)?;
    let traits = read(&said).ok_or_else(|| Error::Version {
        runtime: runtime.to_owned(),
        cause: format!(
            "it is none of runc, crun, youki and runsc: {:?}",
            said.lines().next().unwrap_or_default()
        ),
    })?;
    if let Some(file) = kept {
        keep(&file, &said);
    }
    Ok(traits)
}

fn ask(runtime: &Path) -> Result<String> {
    let failed = |source| Error::Run { runtime: runtime.to_owned(), source };
    let output = Command::new(runtime).arg("--version").stdin(Stdio::null()).output().map_err(failed)?;
    if !output.status.success() {
        let cause = format!("it failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        return Err(Error::Version { runtime: runtime.to_owned(), cause });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The cache file for this version of the runtime's file: device, inode, size and change time.
fn kept(runtime: &Path, run_dir: &Path) -> Option<PathBuf> {
    let found = std::fs::metadata(runtime).ok()?;
    let state = [found.dev().to_string(), found.ino().to_string(), found.size().to_string()];
    let changed = format!("{}.{:09}", found.ctime(), found.ctime_nsec());
    Some(run_dir.join("runtimes").join(format!("{}-{changed}", state.join("-"))))
}

/// Writes the cache file. After an error, the next call runs `--version` again.
fn keep(file: &Path, said: &str) {
    let temporary = file.with_extension(std::process::id().to_string());
    let _ = file.parent().map(|dir| std::fs::DirBuilder::new().recursive(true).mode(0o755).create(dir));
    let whole = AtomicFile::at(file).temporary(temporary.file_name().unwrap_or_default());
    let _ = whole.mode(0o644).lifetime(Lifetime::Boot).replace(said.as_bytes());
}

/// The traits that follow from the output of `--version`.
fn read(said: &str) -> Option<RuntimeTraits> {
    let first = said.lines().next()?;
    let kind = match first.split_ascii_whitespace().next()? {
        "runc" => RuntimeKind::Runc,
        "crun" => RuntimeKind::Crun,
        "youki" => RuntimeKind::Youki,
        "runsc" => RuntimeKind::Runsc,
        _ => return None,
    };
    let old_runc = kind == RuntimeKind::Runc && version(first).is_none_or(|version| version < (1, 2));
    // youki, up to 0.7 at least, behaves as runc before 1.2.
    let as_of_old = old_runc || kind == RuntimeKind::Youki;
    Some(RuntimeTraits {
        kind,
        joins: if as_of_old { JoinOrder::UsersFirst } else { JoinOrder::HostsFirst },
        mappings_with_path: if as_of_old { MappingsWithPath::Wanted } else { MappingsWithPath::Unwanted },
    })
}

/// Major and minor of the first version in a line.
fn version(line: &str) -> Option<(u32, u32)> {
    let word = line.split_ascii_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut numbers = word.split(['.', '-', '+', '~']).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_known_by_its_first_line() {
        let of = |text| read(text).map(|traits| (traits.kind, traits.joins));
        assert_eq!(of("runc version 1.1.5+ds1\ncommit: x"), Some((RuntimeKind::Runc, JoinOrder::UsersFirst)));
        assert_eq!(of("runc version 1.4.0-rc.2"), Some((RuntimeKind::Runc, JoinOrder::HostsFirst)));
        assert_eq!(of("runc version unknown"), Some((RuntimeKind::Runc, JoinOrder::UsersFirst)));
        assert_eq!(of("youki version: 0.7.0\ncommit: x"), Some((RuntimeKind::Youki, JoinOrder::UsersFirst)));
        assert_eq!(of("crun version 1.8.1"), Some((RuntimeKind::Crun, JoinOrder::HostsFirst)));
        assert_eq!(of("runsc version release-20260520.0"), Some((RuntimeKind::Runsc, JoinOrder::HostsFirst)));
        assert_eq!(of("kata-runtime  : 3"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn a_runtime_is_asked_once_until_its_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let (program, asked) = (dir.path().join("rt"), dir.path().join("asked"));
        let write = |version: &str| {
            let text = format!("#!/bin/sh\necho x >> {}\necho runc version {version}\n", asked.display());
            let new = dir.path().join("new");
            std::fs::write(&new, text).unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&new, mode).unwrap();
            std::fs::rename(&new, &program).unwrap();
        };
        write("1.1.0");
        let joins = || traits(&program, dir.path()).unwrap().joins;
        assert_eq!((joins(), joins()), (JoinOrder::UsersFirst, JoinOrder::UsersFirst));
        assert_eq!(std::fs::read_to_string(&asked).unwrap().lines().count(), 1);
        write("1.2.0 with more words");
        assert_eq!(joins(), JoinOrder::HostsFirst);
    }
}
