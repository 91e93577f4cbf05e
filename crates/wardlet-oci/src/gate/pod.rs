//! Which pod a container is of, as containerd and CRI-O say it in annotations.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Annotations by what they say: containerd's key, then CRI-O's.
const KIND: [&str; 2] = ["io.kubernetes.cri.container-type", "io.kubernetes.cri-o.ContainerType"];
const SANDBOX: [&str; 2] = ["io.kubernetes.cri.sandbox-id", "io.kubernetes.cri-o.SandboxID"];
const NAMESPACE: [&str; 2] = ["io.kubernetes.cri.sandbox-namespace", "io.kubernetes.cri-o.Namespace"];
const NAME: [&str; 2] = ["io.kubernetes.cri.sandbox-name", "io.kubernetes.cri-o.KubeName"];
const UID: [&str; 2] = ["io.kubernetes.cri.sandbox-uid", "io.kubernetes.pod.uid"];

/// A pod, as far as its name is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// What a container is to its pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The first one, or one that is alone: it decides.
    Sandbox,
    /// One of the others: it goes by its sandbox.
    Container {
        /// The sandbox.
        sandbox: String,
    },
}

impl Pod {
    /// The pod that these annotations name.
    #[must_use]
    pub fn of(annotations: &BTreeMap<String, String>) -> Self {
        let text = |keys| said(annotations, keys).unwrap_or_default().to_owned();
        Self { namespace: text(NAMESPACE), name: text(NAME), uid: text(UID) }
    }
}

impl Role {
    /// The role that these annotations name. Nothing where they contradict themselves: a container that
    /// does not say whose.
    #[must_use]
    pub fn of(annotations: &BTreeMap<String, String>) -> Option<Self> {
        match said(annotations, KIND) {
            None | Some("sandbox") => Some(Self::Sandbox),
            Some(_) => said(annotations, SANDBOX).map(|id| Self::Container { sandbox: id.to_owned() }),
        }
    }
}

impl fmt::Display for Pod {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.namespace.as_str(), self.name.as_str()) {
            ("", "") => f.write_str("(unnamed)"),
            ("", name) => f.write_str(name),
            (namespace, name) => write!(f, "{namespace}/{name}"),
        }
    }
}

fn said<'a>(annotations: &'a BTreeMap<String, String>, keys: [&str; 2]) -> Option<&'a str> {
    keys.iter().find_map(|key| annotations.get(*key)).map(String::as_str).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn containerd_and_cri_o_name_the_sandbox_each_in_its_way() {
        let container = Some(Role::Container { sandbox: "s".into() });
        for prefix in [
            "io.kubernetes.cri.container-type io.kubernetes.cri.sandbox-id",
            "io.kubernetes.cri-o.ContainerType io.kubernetes.cri-o.SandboxID",
        ] {
            let (kind, id) = prefix.split_once(' ').unwrap();
            assert_eq!(Role::of(&of(&[(kind, "container"), (id, "s")])), container);
            assert_eq!(Role::of(&of(&[(kind, "sandbox"), (id, "s")])), Some(Role::Sandbox));
            assert_eq!(Role::of(&of(&[(kind, "container")])), None);
        }
        assert_eq!(Role::of(&of(&[])), Some(Role::Sandbox));
    }
}
