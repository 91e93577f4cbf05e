//! The table of fields: every field can be set, and does what the table says.

use std::collections::BTreeSet;

use node::kubelet::{Class, FIELDS, Field, Kind, Origin, ProblemKind};
use serde_json::{Value, json};

use crate::support::Files;

/// A valid value that is not the default.
fn sample(field: &Field) -> Value {
    match (field.path, field.kind) {
        ("address" | "healthzBindAddress", _) => json!("10.1.2.3"),
        ("preloadedImagesVerificationAllowlist", _) => json!(["quay.io/sample/*"]),
        ("clusterDNS", _) => json!(["10.1.2.3"]),
        ("podLogsDir", _) => json!("/srv/pods"),
        ("cgroupRoot", _) => json!("/kube"),
        ("containerLogMaxSize", _) => json!("20Mi"),
        ("reservedSystemCPUs", _) => json!("0-1"),
        ("enforceNodeAllocatable", _) => json!(["none"]),
        ("allowedUnsafeSysctls", _) => json!(["net.core.somaxconn"]),
        ("tlsCipherSuites", _) => json!(["TLS_AES_128_GCM_SHA256"]),
        ("evictionHard" | "evictionMinimumReclaim", _) => json!({"memory.available": "7%"}),
        ("evictionSoft", _) => json!({"memory.available": "7%"}),
        ("evictionSoftGracePeriod", _) => json!({"memory.available": "7s"}),
        ("systemReserved" | "kubeReserved", _) => json!({"cpu": "7m"}),
        ("featureGates", _) => json!({"ExtendWebSocketsToKubelet": false}),
        // By default it counts as false.
        ("enableSystemLogHandler", _) => json!(true),
        ("registerWithTaints", _) => json!([{"key": "a", "value": "b", "effect": "NoExecute"}]),
        ("shutdownGracePeriodByPodPriority", _) => json!([{"priority": 7, "shutdownGracePeriodSeconds": 8}]),
        ("reservedMemory", _) => json!([{"numaNode": 0, "limits": {"memory": "1Gi"}}]),
        ("logging.vmodule", _) => json!([{"filePattern": "a", "verbosity": 7}]),
        ("userNamespaces.idsPerPod", _) => json!(131_072),
        ("imageGCLowThresholdPercent", _) => json!(70),
        ("imageGCHighThresholdPercent", _) => json!(90),
        ("imageMaximumGCAge", _) => json!("24h0m0s"),
        ("cpuCFSQuotaPeriod", _) => json!("50ms"),
        (_, Kind::Bool) => json!(field.default != "true"),
        (_, Kind::Int32 | Kind::Int64) => json!(17),
        (_, Kind::Float) => json!(0.5),
        (_, Kind::OneOf(values)) => {
            let other = values.iter().rev().find(|value| **value != field.default);
            json!(other.unwrap())
        }
        (_, Kind::Text | Kind::Path) => json!("/sample"),
        (_, Kind::Duration | Kind::DurationOrNanoseconds) => json!("7s"),
        (_, Kind::Quantity) => json!("7Ki"),
        (_, Kind::TextList) => json!(["sample"]),
        (_, Kind::IntList) => json!([23]),
        (_, Kind::TextMap) => json!({"sample": "a"}),
        (_, Kind::BoolMap) => json!({"sample": true}),
        (_, Kind::TextListMap) => json!({"sample": ["a"]}),
        (_, Kind::Object | Kind::ObjectList) => panic!("{} has no sample", field.path),
    }
}

/// Fields without which a field is invalid.
fn beside(path: &str) -> Option<(&'static str, Value)> {
    Some(match path {
        "tlsCertFile" => ("tlsPrivateKeyFile", json!("/k")),
        "tlsPrivateKeyFile" => ("tlsCertFile", json!("/c")),
        "evictionSoft" => ("evictionSoftGracePeriod", json!({"memory.available": "7s"})),
        "shutdownGracePeriodCriticalPods" => ("shutdownGracePeriod", json!("7s")),
        "preloadedImagesVerificationAllowlist" => {
            ("imagePullCredentialsVerificationPolicy", json!("NeverVerifyAllowlistedImages"))
        }
        "maxParallelImagePulls" => ("serializeImagePulls", json!(false)),
        _ => return None,
    })
}

fn document(path: &str, value: Value) -> Files {
    let nest = |path: &str, value: Value| path.rsplit('.').fold(value, |inner, name| json!({ name: inner }));
    let mut tree = nest(path, value);
    let map = tree.as_object_mut().unwrap();
    map.insert("apiVersion".into(), json!("kubelet.config.k8s.io/v1beta1"));
    map.insert("kind".into(), json!("KubeletConfiguration"));
    Files::whole(&tree.to_string())
}

/// The field with its sample, and the fields that it needs.
fn with_sample(field: &Field) -> Files {
    let others: Vec<String> =
        beside(field.path).into_iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
    let nested = field.path.rsplit('.').fold(sample(field), |inner, name| json!({ name: inner }));
    let (name, value) = nested.as_object().unwrap().iter().next().unwrap();
    Files::with(&format!("{name}: {value}\n{}", others.concat()))
}

fn leaves() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().filter(|field| field.kind != Kind::Object && !field.path.contains("[]"))
}

fn at<'a>(tree: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(tree, |value, name| &value[name])
}

#[test]
fn every_field_that_can_be_set_does_what_its_class_says() {
    let default = serde_json::to_value(document("maxPods", json!(110)).config()).unwrap();
    for field in leaves() {
        match (field.class, with_sample(field).load()) {
            (Class::Honoured { .. } | Class::NotYet { .. }, Ok(loaded)) => {
                // Some samples need another field beside theirs.
                let is_noted = loaded.notices.iter().any(|notice| notice.field == field.path);
                assert_eq!(is_noted, matches!(field.class, Class::NotYet { .. }), "{}", field.path);
                let typed = serde_json::to_value(&loaded.config).unwrap();
                assert_ne!(
                    at(&typed, field.path),
                    at(&default, field.path),
                    "{} is not in the type",
                    field.path
                );
            }
            (Class::NoEffect { .. }, Ok(loaded)) => {
                assert_eq!(loaded.notices.len(), 1, "{}: {:?}", field.path, loaded.notices);
                assert_eq!(loaded.notices[0].field, field.path);
                assert!(matches!(loaded.notices[0].at, Origin::File { line: 3, .. }), "{:?}", loaded.notices);
                assert_eq!(serde_json::to_value(&loaded.config).unwrap(), default, "{}", field.path);
                assert_eq!(at(&loaded.effective, field.path), &sample(field), "{}", field.path);
            }
            (Class::Refused { .. }, Err(error)) => {
                let [problem] = error.problems() else { panic!("{}: {error}", field.path) };
                assert_eq!((problem.kind, problem.field.as_str()), (ProblemKind::Refused, field.path));
            }
            (class, Err(error)) => panic!("{}: {class:?}: {error}", field.path),
            (class, Ok(_)) => panic!("{} is {class:?} and was accepted", field.path),
        }
    }
}

#[test]
fn every_default_is_a_valid_value_and_changes_nothing() {
    let default = document("maxPods", json!(110)).config();
    let effective = document("maxPods", json!(110)).load().unwrap().effective;
    for field in leaves().filter(|field| !field.default.is_empty()) {
        let value = at(&effective, field.path).clone();
        assert!(!value.is_null(), "{}", field.path);
        let loaded = document(field.path, value).load().unwrap_or_else(|e| panic!("{}: {e}", field.path));
        assert_eq!(loaded.notices, [], "{}", field.path);
        // Other defaults depend on the first being set, and the second counts only where it is.
        if !["nodeStatusUpdateFrequency", "enableSystemLogHandler"].contains(&field.path) {
            assert_eq!(loaded.config, default, "{}", field.path);
        }
    }
}

#[test]
fn a_value_of_another_type_is_refused_for_every_field() {
    for field in FIELDS.iter().filter(|field| !field.path.contains("[]")) {
        let wrong = match field.kind {
            Kind::Object | Kind::TextMap | Kind::BoolMap | Kind::TextListMap => json!("text"),
            _ => json!({"a": "b"}),
        };
        let problems = document(field.path, wrong).problems();
        assert_eq!((problems[0].0.kind, problems[0].0.field.as_str()), (ProblemKind::WrongType, field.path));
    }
}

#[test]
fn every_row_has_one_path_below_a_section_or_a_list() {
    let mut seen = BTreeSet::new();
    for field in FIELDS {
        assert!(seen.insert(field.path), "{} is there twice", field.path);
        if let Some((parent, _)) = field.path.rsplit_once('.') {
            let list = parent.strip_suffix("[]");
            let kind = if list.is_some() { Kind::ObjectList } else { Kind::Object };
            let parent = list.unwrap_or(parent);
            assert!(FIELDS.iter().any(|row| row.path == parent && row.kind == kind), "{}", field.path);
        }
    }
}
