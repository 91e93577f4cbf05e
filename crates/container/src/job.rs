use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::container_spec::ContainerSpec;

/// One container to run, recorded for `wardlet-container`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Job {
    /// The version of this record: 1.
    pub version: u32,
    /// The engine that starts it.
    pub engine: Engine,
    /// The directory for state that does not survive a reboot.
    pub run_dir: PathBuf,
    /// The container.
    pub start: ContainerSpec,
}

impl durable::Record for Job {
    const VERSION: u32 = 1;
}

/// An engine that starts containers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Engine {
    /// libcontainer, built in.
    Libcontainer,
    /// A program with the command line of an OCI runtime.
    Oci {
        /// The program.
        path: PathBuf,
        /// Its first arguments.
        args: Vec<String>,
    },
}

impl Engine {
    /// The engine of this name: `libcontainer`, or the absolute path of an OCI runtime. `None` if it is neither.
    #[must_use]
    pub fn named(text: &str) -> Option<Self> {
        let path = Path::new(text);
        if text == "libcontainer" {
            return Some(Self::Libcontainer);
        }
        (path.is_absolute() && path.is_file()).then(|| Self::Oci { path: path.to_owned(), args: vec![] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_built_in_or_a_program() {
        assert_eq!(Engine::named("libcontainer"), Some(Engine::Libcontainer));
        assert!(matches!(Engine::named("/bin/sh"), Some(Engine::Oci { .. })));
        for wrong in ["runc", "/no/such/runc", ""] {
            assert_eq!(Engine::named(wrong), None, "{wrong}");
        }
    }
}
