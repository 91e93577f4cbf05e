//! Reads from annotations of containerd and CRI-O which pod a container belongs to.
//!
//! Annotations prove nothing: CRI-O writes a pod's own annotations and labels over the keys that it uses itself. This
//! module checks that they do not contradict each other, and `create` compares them with the container's network
//! namespace.

use std::collections::BTreeMap;

use oci_records::Pod;
use types::keys;

/// The keys for each value: containerd's, then CRI-O's.
const KIND: [&str; 2] = [keys::CRI_CONTAINER_TYPE, "io.kubernetes.cri-o.ContainerType"];
const SANDBOX: [&str; 2] = [keys::CRI_SANDBOX_ID, "io.kubernetes.cri-o.SandboxID"];
const NAMESPACE: [&str; 2] = [keys::CRI_SANDBOX_NAMESPACE, "io.kubernetes.cri-o.Namespace"];
const NAME: [&str; 2] = [keys::CRI_SANDBOX_NAME, "io.kubernetes.cri-o.KubeName"];
const UID: [&str; 2] = [keys::CRI_SANDBOX_UID, keys::POD_UID];

/// The role of a container in its pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Role {
    /// The sandbox container, or a container without a pod: its annotations decide.
    Sandbox,
    /// Any other container: it gets what its sandbox has.
    Container {
        /// The ID of the sandbox.
        sandbox: String,
    },
}

/// Annotations that contradict each other: no container runtime writes them about one container.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    /// containerd's key and CRI-O's key for one thing have different values.
    #[error("annotations {} and {} differ: {:?} and {:?}", keys[0], keys[1], values[0], values[1])]
    Differing {
        /// containerd's key, then CRI-O's.
        keys: [&'static str; 2],
        /// Their values.
        values: [String; 2],
    },
    /// A key without a value.
    #[error("annotation {key} is empty")]
    Empty {
        /// The key.
        key: &'static str,
    },
    /// A type of container that neither containerd nor CRI-O has.
    #[error("annotation {key}: {value:?} is neither \"sandbox\" nor \"container\"")]
    Kind {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// A container that does not name its sandbox.
    #[error("annotation {key} says \"container\", and {} names no sandbox", SANDBOX.join(" or "))]
    NoSandbox {
        /// The key of the type.
        key: &'static str,
    },
    /// A sandbox that names another one as its own, or a container that names itself as its sandbox.
    #[error("annotation {key} names sandbox {named:?}, and container {container:?} says to be a {kind}")]
    Sandbox {
        /// The key of the sandbox.
        key: &'static str,
        /// Its value.
        named: String,
        /// The container's ID.
        container: String,
        /// Its type.
        kind: &'static str,
    },
}

/// The pod that these annotations name; a field without annotation is empty.
#[must_use]
pub fn pod_of(annotations: &BTreeMap<String, String>) -> Pod {
    let text = |keys: [&str; 2]| {
        let found = keys.iter().find_map(|key| annotations.get(*key)).filter(|value| !value.is_empty());
        found.cloned().unwrap_or_default()
    };
    Pod { namespace: text(NAMESPACE), name: text(NAME), uid: text(UID) }
}

impl Role {
    /// The role that these annotations give to the container with this ID; a sandbox, if they name no type. It is an
    /// error if they contradict each other or the ID.
    pub fn of(annotations: &BTreeMap<String, String>, container: &str) -> Result<Self, Contradiction> {
        for keys in [NAMESPACE, NAME, UID] {
            agreed(annotations, keys)?;
        }
        let (kind, sandbox) = (said(annotations, KIND)?, said(annotations, SANDBOX)?);
        let other = |key, named: &str, kind| {
            let (named, container) = (super::shortened(named), container.to_owned());
            Contradiction::Sandbox { key, named, container, kind }
        };
        match (kind, sandbox) {
            (None, _) | (Some((_, "sandbox")), None) => Ok(Self::Sandbox),
            (Some((_, "sandbox")), Some((key, named))) if named != container => {
                Err(other(key, named, "sandbox"))
            }
            (Some((_, "sandbox")), Some(_)) => Ok(Self::Sandbox),
            (Some((key, "container")), None) => Err(Contradiction::NoSandbox { key }),
            (Some((_, "container")), Some((key, named))) if named == container => {
                Err(other(key, named, "container"))
            }
            (Some((_, "container")), Some((_, named))) => Ok(Self::Container { sandbox: named.to_owned() }),
            (Some((key, value)), _) => Err(Contradiction::Kind { key, value: super::shortened(value) }),
        }
    }
}

type Found<'a> = Option<(&'static str, &'a str)>;

/// The value of one of the two keys. If both exist, they must have the same value.
fn agreed<'a>(
    annotations: &'a BTreeMap<String, String>,
    keys: [&'static str; 2],
) -> Result<Found<'a>, Contradiction> {
    let found = |key: &'static str| annotations.get(key).map(|value| (key, value.as_str()));
    let [containerds, crios] = keys.map(found);
    match (containerds, crios) {
        (Some((_, first)), Some((_, second))) if first != second => {
            let values = [first, second].map(super::shortened);
            Err(Contradiction::Differing { keys, values })
        }
        (first, second) => Ok(first.or(second)),
    }
}

/// The same, for keys that no container runtime leaves empty.
fn said<'a>(
    annotations: &'a BTreeMap<String, String>,
    keys: [&'static str; 2],
) -> Result<Found<'a>, Contradiction> {
    match agreed(annotations, keys)? {
        Some((key, "")) => Err(Contradiction::Empty { key }),
        found => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &[(&str, &str)], id: &str) -> Result<Role, Contradiction> {
        Role::of(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(), id)
    }

    #[test]
    fn containerd_and_cri_o_name_the_sandbox_each_in_its_way() {
        let container = Ok(Role::Container { sandbox: "s".into() });
        for at in [0, 1] {
            let (kind, id) = (KIND[at], SANDBOX[at]);
            assert_eq!(of(&[(kind, "container"), (id, "s")], "c"), container);
            assert_eq!(of(&[(kind, "sandbox"), (id, "s")], "s"), Ok(Role::Sandbox));
            assert_eq!(of(&[(kind, "sandbox")], "s"), Ok(Role::Sandbox));
            assert_eq!(of(&[(kind, "container")], "c"), Err(Contradiction::NoSandbox { key: kind }));
        }
        assert_eq!(of(&[], "c"), Ok(Role::Sandbox));
        assert_eq!(
            of(&[(KIND[0], "container"), (KIND[1], "container"), (SANDBOX[1], "s"), (SANDBOX[0], "s")], "c"),
            container
        );
    }

    #[test]
    fn keys_that_contradict_each_other_or_the_containers_id_name_no_role() {
        let both = |keys: [&'static str; 2], one, two| of(&[(keys[0], one), (keys[1], two)], "c");
        for (keys, one, two) in [
            (KIND, "sandbox", "container"),
            (KIND, "", "container"),
            (SANDBOX, "c", "s"),
            (NAMESPACE, "a", "b"),
            (NAME, "a", "b"),
            (UID, "a", "b"),
        ] {
            assert!(matches!(both(keys, one, two), Err(Contradiction::Differing { .. })), "{keys:?}");
        }
        for at in [0, 1] {
            let (kind, id) = (KIND[at], SANDBOX[at]);
            for (named, own) in [("sandbox", "s"), ("container", "c")] {
                let found = of(&[(kind, named), (id, own)], "c");
                assert!(matches!(found, Err(Contradiction::Sandbox { .. })), "{found:?}");
            }
            assert_eq!(of(&[(kind, "")], "c"), Err(Contradiction::Empty { key: kind }));
            assert_eq!(of(&[(kind, "container"), (id, "")], "c"), Err(Contradiction::Empty { key: id }));
            let found = of(&[(kind, "Sandbox"), (id, "s")], "c");
            assert!(matches!(found, Err(Contradiction::Kind { .. })), "{found:?}");
        }
    }
}
