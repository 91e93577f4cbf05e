//! What containerd tells of its configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::gvisor;

/// As far as it is looked at; fields come and go between versions.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Config {
    containerd: Containerd,
    containerd_root_dir: Option<PathBuf>,
    pub(super) enable_selinux: bool,
    #[serde(rename = "restrictOOMScoreAdj")]
    pub(super) restrict_oom_score_adj: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Containerd {
    default_runtime_name: String,
    snapshotter: Option<String>,
    runtimes: BTreeMap<String, Runtime>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Runtime {
    runtime_type: String,
    options: Option<Options>,
    /// The one field that containerd begins with a capital.
    #[serde(rename = "PodAnnotations")]
    pod_annotations: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Options {
    binary_name: Option<String>,
    config_path: Option<PathBuf>,
}

const RUNC: &str = "io.containerd.runc.v2";

impl Config {
    /// From `info["config"]` of a verbose status. Other runtimes than containerd say it in other words.
    pub(super) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok().filter(|config: &Self| config.containerd_root_dir.is_some())
    }

    /// Where containerd keeps layers and writable files.
    pub(super) fn root(&self) -> Option<&Path> {
        self.containerd_root_dir.as_deref()
    }

    pub(super) fn default_handler(&self) -> &str {
        &self.containerd.default_runtime_name
    }

    /// Reported only up to 1.7; later versions have it in the configuration of images.
    pub(super) fn snapshotter(&self) -> Option<&str> {
        self.containerd.snapshotter.as_deref().filter(|name| !name.is_empty())
    }

    /// The OCI runtime behind a handler, where it is one that is run as a command like runc.
    pub(super) fn binary(&self, handler: &str) -> Option<PathBuf> {
        let runtime = self.containerd.runtimes.get(handler)?;
        let named = runtime.options.as_ref().and_then(|options| options.binary_name.clone());
        let named = named.filter(|name| !name.is_empty());
        named.or_else(|| (runtime.runtime_type == RUNC).then(|| "runc".to_owned())).map(PathBuf::from)
    }

    /// Whether a handler's shim is gVisor's.
    pub(super) fn is_gvisors(&self, handler: &str) -> bool {
        self.containerd.runtimes.get(handler).is_some_and(|runtime| runtime.runtime_type == gvisor::TYPE)
    }

    /// The file of a shim that has one of its own.
    pub(super) fn shims_file(&self, handler: &str) -> Option<&Path> {
        self.containerd.runtimes.get(handler)?.options.as_ref()?.config_path.as_deref()
    }

    /// The annotations of pods that reach this handler's runtime, as patterns.
    pub(super) fn pod_annotations(&self, handler: &str) -> &[String] {
        let runtime = self.containerd.runtimes.get(handler);
        runtime.and_then(|runtime| runtime.pod_annotations.as_deref()).unwrap_or_default()
    }

    pub(super) fn handlers(&self) -> impl Iterator<Item = &str> {
        self.containerd.runtimes.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_without_a_binary_of_its_own_runs_runc() {
        let text = r#"{"containerd":{"defaultRuntimeName":"runc","runtimes":{
            "runc":{"runtimeType":"io.containerd.runc.v2","options":{"BinaryName":"","SystemdCgroup":true}},
            "crun":{"runtimeType":"io.containerd.runc.v2","PodAnnotations":["a/*"],"options":{"BinaryName":"/usr/bin/crun"}},
            "gvisor":{"runtimeType":"io.containerd.runsc.v1","options":{"TypeUrl":"x","ConfigPath":"/etc/runsc.toml"}},
            "kata":{"runtimeType":"io.containerd.kata.v2","options":null}}},
            "containerdRootDir":"/var/lib/containerd","restrictOOMScoreAdj":true,"newField":[1]}"#;
        let config = Config::parse(text).unwrap();
        assert_eq!(config.binary("runc"), Some(PathBuf::from("runc")));
        assert_eq!(config.binary("crun"), Some(PathBuf::from("/usr/bin/crun")));
        assert_eq!(
            (config.pod_annotations("crun"), config.pod_annotations("runc").len()),
            (&["a/*".to_owned()][..], 0)
        );
        assert_eq!(config.binary("kata"), None);
        assert!(config.is_gvisors("gvisor") && !config.is_gvisors("kata"));
        assert_eq!(config.shims_file("gvisor"), Some(Path::new("/etc/runsc.toml")));
        assert_eq!((config.binary("gvisor"), config.shims_file("runc")), (None, None));
        assert!(config.restrict_oom_score_adj && !config.enable_selinux);
        assert!(Config::parse("[crio]\nroot = 1").is_none());
    }
}
