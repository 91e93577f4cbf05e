use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::json;
use crate::platform::Platform;

/// The configuration of an image. No default is filled in: an empty field was empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageConfig {
    /// `user`, `user:group`, names or numbers.
    pub user: String,
    /// `NAME=value`.
    pub env: Vec<String>,
    /// The entrypoint.
    pub entrypoint: Vec<String>,
    /// Its arguments, or the command if there is no entrypoint.
    pub cmd: Vec<String>,
    /// The working directory.
    pub working_dir: String,
    /// Paths that are volumes.
    pub volumes: Vec<String>,
    /// `80/tcp`.
    pub exposed_ports: Vec<String>,
    /// `SIGTERM`, `15`.
    pub stop_signal: Option<String>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
}

/// An image's configuration file, as far as it is needed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Its platform.
    pub platform: Platform,
    /// Its run configuration.
    pub config: ImageConfig,
    /// The digests of its layers, uncompressed, the lowest first.
    pub diff_ids: Vec<Digest>,
    /// Its creation time, as in the file.
    pub created: Option<String>,
}

#[derive(Deserialize)]
struct Raw {
    #[serde(flatten)]
    platform: Platform,
    #[serde(default)]
    created: Option<String>,
    #[serde(default, deserialize_with = "json::null_is_default")]
    config: RawConfig,
    rootfs: RootFs,
}

#[derive(Deserialize)]
struct RootFs {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default, deserialize_with = "json::null_is_default")]
    diff_ids: Vec<Digest>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase", default)]
struct RawConfig {
    #[serde(deserialize_with = "json::null_is_default")]
    user: String,
    #[serde(deserialize_with = "json::null_is_default")]
    env: Vec<String>,
    #[serde(deserialize_with = "json::null_is_default")]
    entrypoint: Vec<String>,
    #[serde(deserialize_with = "json::null_is_default")]
    cmd: Vec<String>,
    #[serde(deserialize_with = "json::null_is_default")]
    working_dir: String,
    #[serde(deserialize_with = "json::null_is_default")]
    volumes: BTreeMap<String, Value>,
    #[serde(deserialize_with = "json::null_is_default")]
    exposed_ports: BTreeMap<String, Value>,
    stop_signal: Option<String>,
    #[serde(deserialize_with = "json::null_is_default")]
    labels: BTreeMap<String, String>,
}

impl Configuration {
    /// Parses the configuration `what`.
    ///
    /// # Errors
    /// If it is not a valid one.
    pub fn parse(what: &str, bytes: &[u8]) -> Result<Self> {
        let raw: Raw = json::read(what, bytes)?;
        if raw.rootfs.kind != "layers" {
            let why = format!("rootfs.type is {:?}, not \"layers\"", raw.rootfs.kind);
            return Err(Error::Document { what: what.to_owned(), why });
        }
        let RawConfig { user, env, entrypoint, cmd, working_dir, stop_signal, labels, .. } = raw.config;
        let config = ImageConfig {
            user,
            env,
            entrypoint,
            cmd,
            working_dir,
            volumes: raw.config.volumes.into_keys().collect(),
            exposed_ports: raw.config.exposed_ports.into_keys().collect(),
            stop_signal: stop_signal.filter(|signal| !signal.is_empty()),
            labels,
        };
        Ok(Self { platform: raw.platform, config, diff_ids: raw.rootfs.diff_ids, created: raw.created })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_image_says_is_taken_as_it_is() {
        let diff = Digest::of(b"layer");
        let text = format!(
            r#"{{"architecture":"amd64","os":"linux","created":"2026-01-02T03:04:05Z","config":{{
               "User":"1000:1000","Env":["A=b"],"Entrypoint":["/init"],"Cmd":["-v"],"WorkingDir":"/srv",
               "Volumes":{{"/data":{{}}}},"ExposedPorts":{{"80/tcp":{{}}}},"StopSignal":"SIGINT",
               "Labels":{{"a":"b"}},"Healthcheck":{{"Test":["CMD"]}}}},
               "rootfs":{{"type":"layers","diff_ids":["{diff}"]}},"history":[]}}"#
        );
        let found = Configuration::parse("config", text.as_bytes()).unwrap();
        assert_eq!((found.platform.to_string().as_str(), found.diff_ids), ("linux/amd64", vec![diff]));
        assert_eq!((found.config.user.as_str(), found.config.working_dir.as_str()), ("1000:1000", "/srv"));
        assert_eq!((found.config.entrypoint, found.config.cmd), (vec!["/init".into()], vec!["-v".into()]));
        assert_eq!(found.config.volumes, ["/data"]);
        assert_eq!(found.config.exposed_ports, ["80/tcp"]);
        assert_eq!(found.config.stop_signal.as_deref(), Some("SIGINT"));
    }

    #[test]
    fn nulls_are_empty_and_a_missing_root_is_an_error() {
        let text = r#"{"architecture":"amd64","os":"linux","variant":null,"config":{"Env":null,"Cmd":null,
                       "Volumes":null,"Labels":null,"User":null},"rootfs":{"type":"layers","diff_ids":null}}"#;
        assert_eq!(Configuration::parse("c", text.as_bytes()).unwrap().config, ImageConfig::default());
        assert!(Configuration::parse("c", br#"{"architecture":"amd64","os":"linux"}"#).is_err());
        let squash = br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"squash","diff_ids":[]}}"#;
        assert!(Configuration::parse("c", squash).is_err());
    }
}
