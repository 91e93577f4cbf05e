#![no_main]
//! A container's configuration, as it comes and as it goes: a glance and a whole reading agree, nothing is lost,
//! what is let through has its namespaces and no power over the network, and an edit that takes a restriction
//! away is noticed. The first byte chooses what is taken away.

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use wardlet_oci::gate::{Subject, check};
use wardlet_oci::spec::{Users, glance, parse, weakened};
use wardlet_oci::ward::RuntimeKind;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, text)) = bytes.split_first() else { return };
    let (Ok(seen), Ok(spec)) = (glance(text), parse(text)) else { return };
    assert_eq!(parse(spec.to_string().as_bytes()).as_ref(), Ok(&spec));

    let list = |at: &str| spec.pointer(at).and_then(Value::as_array).cloned().unwrap_or_default();
    let of_kind = |kind: &str| list("/linux/namespaces").iter().any(|space| space["type"] == kind);
    let maps = !list("/linux/uidMappings").is_empty() || !list("/linux/gidMappings").is_empty();
    assert_eq!(seen.users == Users::Given, of_kind("user") || maps);
    let annotations: BTreeMap<String, String> = spec
        .get("annotations")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    assert_eq!(seen.annotations, annotations);

    let runtime = RuntimeKind::Runc;
    let subject = Subject { spec: &spec, annotations: &annotations, ids: 65_536, runtime };
    if check(&subject).is_ok() {
        assert!(["network", "pid", "ipc", "mount"].into_iter().all(of_kind));
        let sets = spec.pointer("/process/capabilities").map(Value::to_string).unwrap_or_default();
        assert!(!sets.contains("\"CAP_NET_ADMIN\"") || annotations.contains_key("wardlet.dev/network-capabilities"));
        let uid = spec.pointer("/process/user/uid");
        assert!(uid.is_none_or(|uid| uid.as_u64().is_some_and(|uid| uid < 65_536)));
    }

    let mut edited = spec.clone();
    if !spec.get("linux").is_none_or(Value::is_object) || of_kind("user") || maps {
        return;
    }
    let spaces = list("/linux/namespaces").into_iter().chain([json!({"type": "user"})]).collect::<Vec<_>>();
    if !list("/linux/namespaces").iter().all(Value::is_object) {
        return;
    }
    edited["linux"]["namespaces"] = Value::Array(spaces);
    assert_eq!(weakened(&spec, &edited), None);
    take_away(&mut edited, *choice);
    let same = {
        let mut again = spec.clone();
        again["linux"]["namespaces"] = edited["linux"]["namespaces"].clone();
        again == edited
    };
    assert_eq!(weakened(&spec, &edited).is_none(), same);
});

/// Takes one restriction away, if it is there.
fn take_away(spec: &mut Value, choice: u8) {
    let parts = [
        ("", "process"),
        ("", "hooks"),
        ("/linux", "seccomp"),
        ("/linux", "maskedPaths"),
        ("/linux", "readonlyPaths"),
        ("/linux", "resources"),
        ("/root", "readonly"),
    ];
    let (above, part) = parts[usize::from(choice) % parts.len()];
    if let Some(above) = spec.pointer_mut(above).and_then(Value::as_object_mut) {
        above.remove(part);
    }
}
