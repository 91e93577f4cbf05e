#![no_main]
//! A container's configuration, as it comes and as it goes: a partial and a whole parse agree, nothing is lost,
//! what is let through has its namespaces and no power over the network, and the wrapper's own edit
//! passes its guard, and one that gives the container more is noticed. The first four bytes choose such an edit.

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use wardlet_fuzz::edits::{spoil, wrapped};
use wardlet_fuzz::power::gained;
use wardlet_oci::gate::{Subject, check};
use wardlet_oci::isolation::RuntimeKind;
use wardlet_oci::spec::{Users, parse, parse_partial, weakened};

fuzz_target!(|bytes: &[u8]| {
    let Some((how, text)) = bytes.split_first_chunk() else { return };
    let (Ok(seen), Ok(spec)) = (parse_partial(text), parse(text)) else { return };
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
        assert!(
            !sets.contains("\"CAP_NET_ADMIN\"")
                || annotations.contains_key("wardlet.dev/network-capabilities")
        );
        let uid = spec.pointer("/process/user/uid");
        assert!(uid.is_none_or(|uid| uid.as_u64().is_some_and(|uid| uid < 65_536)));
    }

    let Some(mut edited) = wrapped(&spec).filter(|_| !of_kind("user") && !maps) else { return };
    assert_eq!((weakened(&spec, &edited), gained(&spec, &edited)), (None, None), "the wrapper's own edit");
    spoil(&mut edited, *how);
    if let Some(what) = gained(&spec, &edited) {
        assert!(weakened(&spec, &edited).is_some(), "{what}: {spec} became {edited}");
    }
});
