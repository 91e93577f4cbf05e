//! Which changes of a pod's definition can be applied to the running pod: the API server's rules for pod
//! updates.

use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::{Container, Pod, PodSpec, ResourceRequirements};
use serde_json::Value;
use types::keys;

/// Annotations that admission, the runtime or the wrapper reads when the pod starts, to decide on its
/// isolation. They are immutable while it runs.
const FIXED_PREFIXES: [&str; 3] = [
    "wardlet.dev/",
    "container.apparmor.security.beta.kubernetes.io/",
    "container.seccomp.security.alpha.kubernetes.io/",
];
const FIXED_KEY: &str = "seccomp.security.alpha.kubernetes.io/pod";

/// How two definitions of a pod differ. Fields are paths, e.g. `spec.containers[0].image`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// They are the same.
    None,
    /// Only these mutable fields differ.
    Update(Vec<String>),
    /// These immutable fields differ: the pod must be created anew.
    Immutable(Vec<String>),
}

/// Whether CPU and memory of a pod change while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resizes {
    /// They do.
    InPlace,
    /// They are immutable.
    No,
}

/// Compares two definitions of a pod, both with the API's defaults.
pub(crate) fn between(old: &Pod, new: &Pod, resizes: Resizes) -> Change {
    let Annotations { mut updated, mut immutable } = annotations(old, new);
    let given = |uid: &Option<String>| uid.clone().filter(|uid| !uid.is_empty());
    // A definition without a UID is for the running pod, whatever its UID.
    if given(&new.metadata.uid).is_some_and(|uid| Some(uid) != given(&old.metadata.uid)) {
        immutable.push("metadata.uid".to_owned());
    }
    if old.metadata.labels.iter().flatten().ne(new.metadata.labels.iter().flatten()) {
        updated.push("metadata.labels".to_owned());
    }
    let (before, after) = (old.spec.clone().unwrap_or_default(), new.spec.clone().unwrap_or_default());
    let mut rest = with_updates_undone(&before, after, &mut updated);
    if resizes == Resizes::InPlace {
        undo_resize(&before, &mut rest, &mut updated);
    }
    let value = |spec: &PodSpec| serde_json::to_value(spec).unwrap_or_default();
    differences("spec", &value(&before), &value(&rest), &mut immutable);
    match (immutable.is_empty(), updated.is_empty()) {
        (false, _) => Change::Immutable(immutable),
        (true, false) => Change::Update(updated),
        (true, true) => Change::None,
    }
}

/// The annotations that differ, as fields.
#[derive(Default)]
struct Annotations {
    updated: Vec<String>,
    immutable: Vec<String>,
}

fn annotations(old: &Pod, new: &Pod) -> Annotations {
    let mut found = Annotations::default();
    let (before, after) =
        (old.metadata.annotations.iter().flatten(), new.metadata.annotations.iter().flatten());
    let fixed = |all: &mut dyn Iterator<Item = (&String, &String)>| -> Vec<(String, String)> {
        all.filter(|(key, _)| is_fixed(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    };
    let (old_fixed, new_fixed) = (fixed(&mut before.clone()), fixed(&mut after.clone()));
    if old_fixed != new_fixed {
        let changed = old_fixed.iter().find(|one| !new_fixed.contains(one));
        let changed = changed.or_else(|| new_fixed.iter().find(|one| !old_fixed.contains(one)));
        found.immutable.extend(changed.map(|(key, _)| format!("metadata.annotations[{key}]")));
    } else if before.ne(after) {
        found.updated.push("metadata.annotations".to_owned());
    }
    found
}

fn is_fixed(key: &str) -> bool {
    FIXED_PREFIXES.iter().any(|prefix| key.starts_with(prefix))
        || key == FIXED_KEY
        || key == keys::GVISOR_USER_NAMESPACE
        || keys::CRIO_USER_NAMESPACE.contains(&key)
}

/// Returns the new spec with all mutable fields set to their old values: a field that still differs is
/// immutable. The mutable fields that differed are added to `updated`.
fn with_updates_undone(old: &PodSpec, mut new: PodSpec, updated: &mut Vec<String>) -> PodSpec {
    images("spec.containers", &old.containers, &mut new.containers, updated);
    if let (Some(before), Some(after)) = (&old.init_containers, &mut new.init_containers) {
        images("spec.initContainers", before, after, updated);
    }
    let (before, after) =
        (old.ephemeral_containers.iter().flatten(), new.ephemeral_containers.iter().flatten());
    // Containers are added to a running pod, and never changed or removed.
    if old.ephemeral_containers != new.ephemeral_containers
        && before.clone().all(|one| after.clone().any(|other| one == other))
    {
        updated.push("spec.ephemeralContainers".to_owned());
        new.ephemeral_containers.clone_from(&old.ephemeral_containers);
    }
    let is_earlier = match (old.active_deadline_seconds, new.active_deadline_seconds) {
        (None, Some(_)) => true,
        (Some(before), Some(after)) => after < before,
        _ => false,
    };
    if is_earlier {
        updated.push("spec.activeDeadlineSeconds".to_owned());
        new.active_deadline_seconds = old.active_deadline_seconds;
    }
    let (before, after) = (old.tolerations.iter().flatten(), new.tolerations.clone().unwrap_or_default());
    if old.tolerations != new.tolerations && before.into_iter().all(|toleration| after.contains(toleration)) {
        updated.push("spec.tolerations".to_owned());
        new.tolerations.clone_from(&old.tolerations);
    }
    let (before, after) = (old.termination_grace_period_seconds, new.termination_grace_period_seconds);
    if before.is_some_and(|seconds| seconds < 0) && after == Some(1) {
        updated.push("spec.terminationGracePeriodSeconds".to_owned());
        new.termination_grace_period_seconds = before;
    }
    new
}

/// Resets CPU and memory to their old values.
fn undo_resize(old: &PodSpec, new: &mut PodSpec, updated: &mut Vec<String>) {
    if undone(old.resources.as_ref(), &mut new.resources) {
        updated.push("spec.resources".to_owned());
    }
    let init = (old.init_containers.iter().flatten(), new.init_containers.iter_mut().flatten());
    for (index, (before, after)) in init.0.zip(init.1).enumerate() {
        if before.name == after.name && undone(before.resources.as_ref(), &mut after.resources) {
            updated.push(format!("spec.initContainers[{index}].resources"));
        }
    }
    for (index, (before, after)) in old.containers.iter().zip(&mut new.containers).enumerate() {
        if before.name == after.name && undone(before.resources.as_ref(), &mut after.resources) {
            updated.push(format!("spec.containers[{index}].resources"));
        }
    }
}

/// Resets CPU and memory of one list of requirements. Returns whether they differed.
fn undone(old: Option<&ResourceRequirements>, new: &mut Option<ResourceRequirements>) -> bool {
    let before = new.clone();
    let nothing = ResourceRequirements::default();
    let known = old.unwrap_or(&nothing);
    let changed = new.get_or_insert_default();
    for (old, new) in [(&known.requests, &mut changed.requests), (&known.limits, &mut changed.limits)] {
        for name in ["cpu", "memory"] {
            match old.as_ref().and_then(|old| old.get(name)) {
                Some(amount) => drop(new.get_or_insert_default().insert(name.to_owned(), amount.clone())),
                None => drop(new.as_mut().and_then(|new| new.remove(name))),
            }
        }
        if old.is_none() && new.as_ref().is_some_and(BTreeMap::is_empty) {
            *new = None;
        }
    }
    if old.is_none() && *changed == nothing {
        *new = None;
    }
    *new != before
}

/// Resets images to their old values, and imagePullPolicy with them, because its default depends on the
/// image.
fn images(field: &str, old: &[Container], new: &mut [Container], updated: &mut Vec<String>) {
    for (index, (before, after)) in old.iter().zip(new).enumerate() {
        if before.name == after.name && before.image != after.image {
            updated.push(format!("{field}[{index}].image"));
            after.image.clone_from(&before.image);
            after.image_pull_policy.clone_from(&before.image_pull_policy);
        }
    }
}

/// Adds the paths of the values that differ to `found`; for a list of another length, the path of the list.
fn differences(path: &str, old: &Value, new: &Value, found: &mut Vec<String>) {
    match (old, new) {
        _ if old == new => {}
        (Value::Object(before), Value::Object(after)) => {
            let added = after.keys().filter(|key| !before.contains_key(*key));
            for key in before.keys().chain(added) {
                let of = |map: &serde_json::Map<String, Value>| map.get(key).cloned().unwrap_or_default();
                differences(&format!("{path}.{key}"), &of(before), &of(after), found);
            }
        }
        (Value::Array(before), Value::Array(after)) if before.len() == after.len() => {
            for (index, (before, after)) in before.iter().zip(after).enumerate() {
                differences(&format!("{path}[{index}]"), before, after, found);
            }
        }
        _ => found.push(path.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = r#"{"metadata":{"name":"web","uid":"u-1","labels":{"app":"web"},"annotations":{"note":"a"}},
        "spec":{"terminationGracePeriodSeconds":30,"tolerations":[{"key":"a"}],
        "initContainers":[{"name":"init","image":"i:1"}],
        "containers":[{"name":"app","image":"a:1","imagePullPolicy":"IfNotPresent","env":[{"name":"A","value":"1"}]},
        {"name":"log","image":"l:1"}]}}"#;

    /// The change between the test pod and a copy of it in which `from` is replaced by `to`.
    fn change(from: &str, to: &str) -> Change {
        let pod = |text: &str| serde_json::from_str::<Pod>(text).unwrap();
        assert!(POD.contains(from), "{from}");
        between(&pod(POD), &pod(&POD.replace(from, to)), Resizes::No)
    }

    fn update(fields: &[&str]) -> Change {
        Change::Update(fields.iter().map(|&field| field.to_owned()).collect())
    }

    fn immutable(fields: &[&str]) -> Change {
        Change::Immutable(fields.iter().map(|&field| field.to_owned()).collect())
    }

    #[test]
    fn what_the_api_server_lets_change_is_an_update() {
        assert_eq!(change("a:1", "a:1"), Change::None);
        assert_eq!(change(r#""app":"web""#, r#""app":"shop""#), update(&["metadata.labels"]));
        assert_eq!(change(r#""note":"a""#, r#""note":"b""#), update(&["metadata.annotations"]));
        assert_eq!(change("a:1", "a:2"), update(&["spec.containers[0].image"]));
        let latest = change(r#""a:1","imagePullPolicy":"IfNotPresent""#, r#""a","imagePullPolicy":"Always""#);
        assert_eq!(latest, update(&["spec.containers[0].image"]));
        assert_eq!(change("i:1", "i:2"), update(&["spec.initContainers[0].image"]));
        let more = change(r#"[{"key":"a"}]"#, r#"[{"key":"a"},{"key":"b"}]"#);
        assert_eq!(more, update(&["spec.tolerations"]));
    }

    #[test]
    fn a_deadline_may_be_set_and_come_earlier_and_no_more() {
        let with = |seconds: Option<i64>| {
            let mut pod: Pod = serde_json::from_str(POD).unwrap();
            pod.spec.as_mut().unwrap().active_deadline_seconds = seconds;
            pod
        };
        let of = |old, new| between(&with(old), &with(new), Resizes::No);
        let field = ["spec.activeDeadlineSeconds"];
        assert_eq!((of(None, Some(9)), of(Some(9), Some(5))), (update(&field), update(&field)));
        assert_eq!((of(Some(5), Some(9)), of(Some(5), None)), (immutable(&field), immutable(&field)));
    }

    #[test]
    fn cpu_and_memory_change_in_place_where_pods_are_resized_and_nothing_else_does() {
        let with = |app: &str, whole: &str| {
            let mut pod: Pod = serde_json::from_str(POD).unwrap();
            let spec = pod.spec.as_mut().unwrap();
            spec.containers[0].resources = serde_json::from_str(app).unwrap();
            spec.resources = serde_json::from_str(whole).unwrap();
            pod
        };
        let (one, two) =
            (r#"{"requests":{"cpu":"1","a.b/c":"1"}}"#, r#"{"requests":{"cpu":"2","a.b/c":"1"}}"#);
        let field = ["spec.containers[0].resources"];
        let of = |old: &Pod, new: &Pod| between(old, new, Resizes::InPlace);
        assert_eq!(of(&with(one, "null"), &with(two, "null")), update(&field));
        let more = r#"{"requests":{"cpu":"1","a.b/c":"1"},"limits":{"memory":"1Gi"}}"#;
        assert_eq!(of(&with(one, "null"), &with(more, "null")), update(&field));
        assert_eq!(of(&with("null", "null"), &with(r#"{"limits":{"cpu":"1"}}"#, "null")), update(&field));
        let whole = r#"{"limits":{"cpu":"4"}}"#;
        assert_eq!(of(&with(one, "null"), &with(one, whole)), update(&["spec.resources"]));
        let device = r#"{"requests":{"cpu":"2","a.b/c":"2"}}"#;
        let immutable_field = "spec.containers[0].resources.requests.a.b/c";
        assert_eq!(of(&with(one, "null"), &with(device, "null")), immutable(&[immutable_field]));
        let change = between(&with(one, "null"), &with(two, "null"), Resizes::No);
        assert_eq!(change, immutable(&["spec.containers[0].resources.requests.cpu"]));
    }

    #[test]
    fn ephemeral_containers_are_added_and_never_changed_or_removed() {
        let with = |list: &str| {
            let mut pod: Pod = serde_json::from_str(POD).unwrap();
            pod.spec.as_mut().unwrap().ephemeral_containers = serde_json::from_str(list).unwrap();
            pod
        };
        let of = |old: &str, new: &str| between(&with(old), &with(new), Resizes::No);
        let (one, two) = (r#"[{"name":"d","image":"d:1"}]"#, r#"[{"name":"d","image":"d:1"},{"name":"e"}]"#);
        let field = ["spec.ephemeralContainers"];
        assert_eq!((of("null", one), of(one, two)), (update(&field), update(&field)));
        assert_eq!((of(one, one), of(two, one)), (Change::None, immutable(&field)));
        assert_eq!(
            of(one, r#"[{"name":"d","image":"d:2"}]"#),
            immutable(&["spec.ephemeralContainers[0].image"])
        );
    }

    #[test]
    fn everything_else_makes_it_another_pod_and_is_named() {
        assert_eq!(
            change(r#""value":"1""#, r#""value":"2""#),
            immutable(&["spec.containers[0].env[0].value"])
        );
        assert_eq!(
            change(r#","image":"l:1"}"#, r#","image":"l:1"},{"name":"new"}"#),
            immutable(&["spec.containers"])
        );
        assert_eq!(change(r#""name":"log""#, r#""name":"other""#), immutable(&["spec.containers[1].name"]));
        assert_eq!(change("30", "5"), immutable(&["spec.terminationGracePeriodSeconds"]));
        assert_eq!(change(r#"[{"key":"a"}]"#, "[]"), immutable(&["spec.tolerations"]));
        assert_eq!(change("u-1", "u-2"), immutable(&["metadata.uid"]));
        let both = change(r#""a:1","imagePullPolicy":"IfNotPresent","env""#, r#""a:2","tty":true,"env""#);
        assert_eq!(both, immutable(&["spec.containers[0].tty"]));
    }

    #[test]
    fn annotations_that_decide_isolation_do_not_change_while_the_pod_runs() {
        for key in ["wardlet.dev/ids", "io.kubernetes.cri-o.userns-mode", "dev.gvisor.spec.user-namespace"] {
            let added = change(r#""note":"a""#, &format!(r#""note":"a","{key}":"1""#));
            assert_eq!(added, immutable(&[&format!("metadata.annotations[{key}]")]));
        }
    }

    #[test]
    fn a_definition_without_a_uid_is_of_the_pod_that_runs() {
        assert_eq!(change(r#""uid":"u-1","#, ""), Change::None);
    }
}
