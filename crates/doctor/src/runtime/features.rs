//! What an OCI runtime says it can do, by its `features` command.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Deserialize;

/// How long the command may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Whether a runtime can give a pod a user namespace of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Features {
    pub(super) user_namespaces: bool,
    /// A missing field means no: runc 1.1 silently ignores the mappings of mounts.
    pub(super) idmapped_mounts: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Document {
    linux: Linux,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Linux {
    namespaces: Vec<String>,
    mount_extensions: Option<MountExtensions>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MountExtensions {
    idmap: Option<Idmap>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Idmap {
    enabled: Option<bool>,
}

/// A program as it was written: another one at its path differs in some of these.
type Written = (u64, u64, u64, [i64; 4]);

/// How long an answer is kept: many pods that start at once ask for it once. A program may call another one, which may be
/// replaced without it.
const KEPT: Duration = Duration::from_secs(10);

/// What `BINARY features` says; if there is no answer, why.
pub(super) fn of(binary: &Path) -> Result<Features, String> {
    static KEPT_ANSWERS: Mutex<BTreeMap<PathBuf, (Instant, Written, Features)>> = Mutex::new(BTreeMap::new());
    let binary = found(binary).ok_or_else(|| format!("there is no program {}", binary.display()))?;
    let written = written(&binary).map_err(|e| format!("{} cannot be read: {e}", binary.display()))?;
    let mut answers = KEPT_ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_of_this =
        |(at, asked, _): &&(Instant, Written, Features)| at.elapsed() < KEPT && *asked == written;
    if let Some((_, _, features)) = answers.get(&binary).filter(is_of_this) {
        return Ok(*features);
    }
    let features = ask(&binary)?;
    answers.insert(binary, (Instant::now(), written, features));
    Ok(features)
}

fn written(binary: &Path) -> std::io::Result<Written> {
    let stat = std::fs::metadata(binary)?;
    let times = [stat.mtime(), stat.mtime_nsec(), stat.ctime(), stat.ctime_nsec()];
    Ok((stat.dev(), stat.ino(), stat.size(), times))
}

fn ask(binary: &Path) -> Result<Features, String> {
    let mut command = Command::new(binary);
    command.arg("features").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let child = command.spawn().map_err(|e| format!("{} cannot be run: {e}", binary.display()))?;
    let text = said(child).map_err(|cause| format!("{} features {cause}", binary.display()))?;
    parse(&text).ok_or_else(|| format!("{} features says nothing that is understood", binary.display()))
}

fn parse(text: &str) -> Option<Features> {
    let Document { linux } = serde_json::from_str(text).ok()?;
    let idmap =
        linux.mount_extensions.and_then(|extensions| extensions.idmap).and_then(|idmap| idmap.enabled);
    Some(Features {
        user_namespaces: linux.namespaces.iter().any(|namespace| namespace == "user"),
        idmapped_mounts: idmap == Some(true),
    })
}

/// A name without a directory is looked up as the runtime's own service would, and on our PATH.
fn found(binary: &Path) -> Option<PathBuf> {
    if binary.is_absolute() {
        return binary.is_file().then(|| binary.to_owned());
    }
    const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    let path = std::env::var("PATH").unwrap_or_default();
    let directories = USUAL.split(':').chain(path.split(':')).filter(|directory| directory.starts_with('/'));
    directories.map(|directory| Path::new(directory).join(binary)).find(|path| path.is_file())
}

/// What the child prints, which is far less than a pipe holds.
fn said(mut child: Child) -> Result<String, String> {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => break,
            Ok(Some(status)) => return Err(format!("ends with {status}")),
            Ok(None) if began.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(2)),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("does not end within {} s", PATIENCE.as_secs()));
            }
        }
    }
    let mut text = String::new();
    let read = child.stdout.take().map(|mut out| out.read_to_string(&mut text));
    match read {
        Some(Ok(_)) => Ok(text),
        _ => Err("says nothing".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_spoken_of_is_not_there() {
        let features = |text: &str| parse(text).map(|f| (f.user_namespaces, f.idmapped_mounts));
        let new = r#"{"ociVersionMin":"1.0.0","linux":{"namespaces":["mount","user"],"mountExtensions":{"idmap":{"enabled":true}}}}"#;
        assert_eq!(features(new), Some((true, true)));
        assert_eq!(features(r#"{"linux":{"namespaces":["user"]}}"#), Some((true, false)));
        let youki = r#"{"linux":{"namespaces":["user"],"mountExtensions":{"idmap":{"enabled":false}}}}"#;
        assert_eq!(features(youki), Some((true, false)));
        assert_eq!(features("unknown command"), None);
    }

    #[test]
    fn a_program_that_is_missing_or_fails_is_named() {
        assert_eq!(of(Path::new("/no/runc")), Err("there is no program /no/runc".to_owned()));
        let failing = of(Path::new("false")).unwrap_err();
        assert!(failing.contains("false features ends with exit status: 1"), "{failing}");
    }
}
