//! Sandboxes: namespaces, files, network and a monitor, kept for as long as the pod is.
//!
//! The record is written first. Whatever then fails or is cut short is taken away again, here or by the next
//! server, by the same steps that stop and remove any sandbox.

mod files;
pub(crate) mod forward;
pub(crate) mod label;
pub(crate) mod namespaces;
pub(crate) mod remove;
pub(crate) mod run;
pub(crate) mod stop;
mod sysctls;
pub(crate) mod update;

use cri::{PodSandboxConfig, PodSandboxMetadata};

use crate::error::{Error, Result};

/// What tells one sandbox from all others of its caller.
pub(crate) fn name(config: &PodSandboxConfig) -> Result<String> {
    let metadata: &PodSandboxMetadata =
        config.metadata.as_ref().ok_or_else(|| Error::invalid("metadata", "it is missing"))?;
    for (field, value) in
        [("name", &metadata.name), ("namespace", &metadata.namespace), ("uid", &metadata.uid)]
    {
        if value.is_empty() {
            return Err(Error::invalid(&format!("metadata.{field}"), "it is empty"));
        }
    }
    let PodSandboxMetadata { name, namespace, uid, attempt } = metadata;
    Ok(format!("{name}_{namespace}_{uid}_{attempt}"))
}

/// In words: `namespace/name`.
pub(crate) fn called(config: &PodSandboxConfig) -> String {
    let metadata = config.metadata.clone().unwrap_or_default();
    format!("{}/{}", metadata.namespace, metadata.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_without_a_name_is_refused_by_field() {
        let metadata =
            PodSandboxMetadata { name: "web".into(), namespace: "a".into(), uid: String::new(), attempt: 1 };
        let config = PodSandboxConfig { metadata: Some(metadata.clone()), ..Default::default() };
        assert!(name(&config).unwrap_err().to_string().starts_with("metadata.uid"));
        let metadata = PodSandboxMetadata { uid: "u".into(), ..metadata };
        let config = PodSandboxConfig { metadata: Some(metadata), ..Default::default() };
        assert_eq!(name(&config).unwrap(), "web_a_u_1");
    }
}
