//! Which trust bundles a pod selects.

use std::collections::BTreeMap;

use agent::ports::TrustBundles;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use super::bundle::merged;

/// A trust bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bundle {
    pub(super) signer: String,
    pub(super) labels: BTreeMap<String, String>,
    /// As DER.
    pub(super) certificates: Vec<Vec<u8>>,
}

/// The certificates of the selected bundles as PEM; `None` if no bundle is selected.
pub(super) fn select(bundles: &BTreeMap<String, Bundle>, selected: &TrustBundles) -> Option<String> {
    let chosen: Vec<&Bundle> = match selected {
        TrustBundles::Named(name) => bundles.get(name).into_iter().collect(),
        TrustBundles::OfSigner { labels: None, .. } => Vec::new(),
        TrustBundles::OfSigner { signer, labels: Some(labels) } => {
            let is_chosen = |bundle: &&Bundle| bundle.signer == *signer && matches(labels, &bundle.labels);
            bundles.values().filter(is_chosen).collect()
        }
    };
    (!chosen.is_empty()).then(|| merged(chosen.into_iter().map(|bundle| &bundle.certificates)))
}

fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> bool {
    let mut exact = selector.match_labels.iter().flatten();
    exact.all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().flatten().all(|requirement| holds(requirement, labels))
}

fn holds(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let is_listed = || value.is_some_and(|value| requirement.values.iter().flatten().any(|one| one == value));
    match requirement.operator.as_str() {
        "In" => is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::trust_bundles::certificates;

    #[test]
    fn a_name_selects_one_and_a_selector_those_of_its_signer() {
        let bundle = |signer: &str, labels: &[(&str, &str)], byte: u8| Bundle {
            signer: signer.into(),
            labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            certificates: vec![vec![byte]],
        };
        let all = BTreeMap::from([
            ("plain".to_owned(), bundle("", &[], 1)),
            ("a.b:c:live".to_owned(), bundle("a.b/c", &[("ring", "live")], 2)),
            ("a.b:c:next".to_owned(), bundle("a.b/c", &[("ring", "next"), ("new", "")], 3)),
            ("x.y:z:live".to_owned(), bundle("x.y/z", &[("ring", "live")], 4)),
        ]);
        let bytes = |selected: &TrustBundles| {
            let text = select(&all, selected)?;
            Some(certificates(&text).unwrap().concat())
        };
        let named = |name: &str| bytes(&TrustBundles::Named(name.into()));
        assert_eq!((named("plain"), named("none")), (Some(vec![1]), None));
        let of_signer = |selector: Value| {
            let labels = serde_json::from_value(selector).unwrap();
            bytes(&TrustBundles::OfSigner { signer: "a.b/c".into(), labels })
        };
        assert_eq!(of_signer(json!(null)), None, "no selector matches nothing");
        assert_eq!(of_signer(json!({})), Some(vec![2, 3]), "an empty one matches all");
        assert_eq!(of_signer(json!({"matchLabels": {"ring": "live"}})), Some(vec![2]));
        let expression = |operator: &str, values: Value| {
            let one = json!({"key": "ring", "operator": operator, "values": values});
            of_signer(json!({"matchExpressions": [one]}))
        };
        assert_eq!(expression("In", json!(["next", "x"])), Some(vec![3]));
        assert_eq!(expression("NotIn", json!(["next"])), Some(vec![2]));
        assert_eq!(expression("Exists", json!(null)), Some(vec![2, 3]));
        assert_eq!(expression("DoesNotExist", json!(null)), None);
        assert_eq!(expression("Unknown", json!(null)), None);
    }
}
