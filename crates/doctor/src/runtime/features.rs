//! What an OCI runtime says it can do, by its `features` command.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
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

/// Runs `BINARY features`; if there is no answer, says why.
pub(super) fn of(binary: &Path) -> Result<Features, String> {
    let binary = found(binary).ok_or_else(|| format!("there is no program {}", binary.display()))?;
    let mut command = Command::new(&binary);
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
