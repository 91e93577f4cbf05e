//! Runtime handlers of containerd: which shim, and which program it calls as the OCI runtime.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::record::Record;
use crate::{Error, Result};

/// The handler of pods that name none. A handler of this name in [`crate::Options`] takes its place.
pub const DEFAULT: &str = "runc";

/// What stands between containerd and the OCI runtime.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shim {
    /// containerd's own.
    Runc,
    /// gVisor's.
    Runsc,
}

/// A runtime handler besides, or in place of, the usual one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handler {
    /// What pods name it by.
    pub name: String,
    /// Which shim.
    pub shim: Shim,
    /// What the shim calls as the OCI runtime.
    pub binary: PathBuf,
}

impl FromStr for Handler {
    type Err = Error;

    /// `NAME=SHIM:BINARY`.
    fn from_str(text: &str) -> Result<Self> {
        let parsed = text.split_once('=').and_then(|(name, rest)| {
            let (shim, binary) = rest.split_once(':')?;
            let shim = match shim {
                "runc" => Shim::Runc,
                "runsc" => Shim::Runsc,
                _ => return None,
            };
            Some(Self { name: name.to_owned(), shim, binary: binary.into() })
        });
        parsed.ok_or_else(|| Error::Unknown {
            kind: "handler",
            name: text.to_owned(),
            known: "NAME=runc:BINARY, NAME=runsc:BINARY".into(),
        })
    }
}

/// Annotations of pods that the shims are given: ours, gVisor's, CRI-O's.
const ANNOTATIONS: &str = r#"["wardlet.dev/*", "dev.gvisor.*", "io.kubernetes.cri-o.*"]"#;

/// A sandbox without gVisor's own overlay over the root, so that what a pod writes can be seen from outside.
const RUNSC: &str = r#"binary_name = "@BINARY@"
log_path = "@RUN@/log/runsc-%ID%/shim.log"
log_level = "debug"

[runsc_config]
  overlay2 = "none"
  debug = "true"
  debug-log = "@RUN@/log/runsc-%ID%/runsc.%COMMAND%.log"
"#;

/// The tables of all handlers, `runc` being what the usual one calls. `plugin` has the tables of CRI.
pub(crate) fn tables(record: &Record, plugin: &str, runc: &Path) -> Result<String> {
    let usual = Handler { name: DEFAULT.into(), shim: Shim::Runc, binary: runc.to_owned() };
    let replaced = record.handlers.iter().any(|handler| handler.name == DEFAULT);
    let mut text = String::new();
    for handler in record.handlers.iter().chain((!replaced).then_some(&usual)) {
        let table = format!("plugins.\"{plugin}\".containerd.runtimes.{}", handler.name);
        let options = options(record, handler)?;
        let runtime = match handler.shim {
            Shim::Runc => "io.containerd.runc.v2",
            Shim::Runsc => "io.containerd.runsc.v1",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "[{table}]\nruntime_type = \"{runtime}\"\npod_annotations = {ANNOTATIONS}\n\
             container_annotations = {ANNOTATIONS}\n[{table}.options]\n{options}"
        );
    }
    Ok(text)
}

fn options(record: &Record, handler: &Handler) -> Result<String> {
    let binary = handler.binary.display().to_string();
    match handler.shim {
        Shim::Runc => Ok(format!("BinaryName = \"{binary}\"\nSystemdCgroup = false\n")),
        Shim::Runsc => {
            let path = record.places.data.join(format!("{}.toml", handler.name));
            let text = super::daemons::fill(record, &RUNSC.replace("@BINARY@", &binary));
            fs::write(&path, text).map_err(Error::file("write", &path))?;
            let config = path.display();
            Ok(format!("TypeUrl = \"io.containerd.runsc.v1.options\"\nConfigPath = \"{config}\"\n"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_is_read_from_its_name_its_shim_and_its_binary() {
        let handler: Handler = "ward=runsc:/usr/bin/wardlet-oci".parse().expect("a handler");
        assert_eq!((handler.name.as_str(), handler.shim), ("ward", Shim::Runsc));
        assert_eq!(handler.binary, Path::new("/usr/bin/wardlet-oci"));
        for bad in ["ward", "ward=runc", "ward=crun:/usr/bin/crun"] {
            assert!(bad.parse::<Handler>().is_err(), "{bad}");
        }
    }
}
