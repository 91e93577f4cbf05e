//! The labels of a Node: those of the machine, and which others a node may give itself.

use std::collections::BTreeMap;

use types::Refusal;

use super::settings::NodeSettings;

pub(super) const HOSTNAME: &str = "kubernetes.io/hostname";
const OS: [&str; 2] = ["kubernetes.io/os", "beta.kubernetes.io/os"];
const ARCH: [&str; 2] = ["kubernetes.io/arch", "beta.kubernetes.io/arch"];

/// Labels of Kubernetes' own name space that a node may set, and that are corrected on a Node that exists.
const OWNED: &[&str] = &[
    HOSTNAME,
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// Prefixes of Kubernetes' own name space that are free for nodes.
const OWNED_PREFIXES: &[&str] = &["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The labels of a new Node. Those of the machine win over the operator's.
pub(super) fn initial(settings: &NodeSettings, architecture: &str) -> BTreeMap<String, String> {
    let mut labels = settings.labels.clone();
    labels.insert(HOSTNAME.to_owned(), settings.name.clone());
    labels.extend(OS.map(|key| (key.to_owned(), "linux".to_owned())));
    labels.extend(ARCH.map(|key| (key.to_owned(), architecture.to_owned())));
    labels
}

/// Those of our labels that are corrected on a Node that exists; all others apply at creation only.
pub(super) fn reconciled(ours: &BTreeMap<String, String>) -> impl Iterator<Item = (&String, &String)> {
    ours.iter().filter(|(key, _)| OWNED.contains(&key.as_str()))
}

/// Why a label cannot be set by a node, if it cannot.
pub(super) fn check(key: &str, value: &str) -> Option<Refusal> {
    let field = format!("node-labels[{key}]");
    if !is_key(key) {
        let hint = "a key is a name of at most 63 letters, digits, -, _ and ., after an optional DNS name and a slash";
        return Some(Refusal::hinted(field, format!("{key:?} is not a label key"), hint));
    }
    if !is_value(value) {
        let hint = "a value is empty or at most 63 letters, digits, -, _ and ., and begins and ends with a letter or digit";
        return Some(Refusal::hinted(field, format!("{value:?} is not a label value"), hint));
    }
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    let reserved = ["kubernetes.io", "k8s.io"].iter().any(|domain| is_within(prefix, domain));
    let free = OWNED_PREFIXES.iter().any(|domain| is_within(prefix, domain));
    if !reserved || free || OWNED.contains(&key) {
        return None;
    }
    let hint = format!(
        "in kubernetes.io and k8s.io a node may set only keys under {}, and {}; an administrator can set others",
        OWNED_PREFIXES.join(" and "),
        OWNED.join(", ")
    );
    Some(Refusal::hinted(field, format!("a node may not set the label {key}"), hint))
}

/// Whether `name` is the domain or one below it.
fn is_within(name: &str, domain: &str) -> bool {
    name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

fn is_key(key: &str) -> bool {
    match key.split_once('/') {
        Some((prefix, name)) => is_dns_name(prefix) && !name.is_empty() && is_value(name),
        None => !key.is_empty() && is_value(key),
    }
}

fn is_value(value: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    value.len() <= 63 && value.chars().all(inner) && has_alphanumeric_ends(value)
}

pub(super) fn is_dns_name(name: &str) -> bool {
    let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let part = |part: &str| !part.is_empty() && part.chars().all(inner) && has_alphanumeric_ends(part);
    name.len() <= 253 && name.split('.').all(part)
}

fn has_alphanumeric_ends(text: &str) -> bool {
    let ends = [text.chars().next(), text.chars().next_back()];
    ends.into_iter().flatten().all(|c| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_of_kubernetes_own_name_space_are_refused_unless_they_are_for_nodes() {
        let allowed = |key: &str| check(key, "x").is_none();
        for key in [
            "team",
            "example.com/team",
            "notkubernetes.io/x",
            "kubelet.kubernetes.io/x",
            "a.node.kubernetes.io/x",
            "node.kubernetes.io/anything",
            "topology.kubernetes.io/zone",
            "beta.kubernetes.io/arch",
        ] {
            assert!(allowed(key), "{key}");
        }
        for key in [
            "kubernetes.io/role",
            "node-role.kubernetes.io/worker",
            "node-restriction.kubernetes.io/x",
            "k8s.io/x",
            "a.k8s.io/x",
            "topology.kubernetes.io/rack",
        ] {
            assert!(!allowed(key), "{key}");
        }
    }

    #[test]
    fn text_that_is_no_label_is_refused() {
        for key in ["", "/a", "a/", "a/b/c", "-a", "A.example/x", "a..b/x", &"a".repeat(64)] {
            assert!(check(key, "x").is_some(), "{key}");
        }
        for value in ["-", "a b", "a-", &"a".repeat(64)] {
            assert!(check("team", value).is_some(), "{value}");
        }
        assert!(check("team", "").is_none());
    }

    #[test]
    fn the_machines_labels_win_and_only_owned_ones_are_reconciled() {
        let mut settings = NodeSettings::new("a", "v1.37.1");
        settings.labels.insert(HOSTNAME.to_owned(), "other".to_owned());
        settings.labels.insert("team".to_owned(), "blue".to_owned());
        let labels = initial(&settings, "amd64");
        assert_eq!(labels[HOSTNAME], "a");
        assert_eq!(labels["beta.kubernetes.io/arch"], "amd64");
        assert_eq!(labels["team"], "blue");
        let reconciled: Vec<&String> = reconciled(&labels).map(|(key, _)| key).collect();
        assert_eq!(reconciled.len(), 5, "{reconciled:?}");
        assert!(!reconciled.contains(&&"team".to_owned()));
    }
}
