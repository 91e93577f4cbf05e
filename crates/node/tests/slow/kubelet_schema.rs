//! The tables of fields, flags and gates beside upstream's own definitions, which `testbed install kubelet-types` takes out
//! of their Go modules. `testbed::manifests` has the modules, paths and digests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use node::kubelet::{FIELDS, FLAGS, Field, GoDuration, Kind, feature_gates};
use serde_json::Value;

use crate::go::{self, GoField};

fn source(name: &str) -> String {
    let directory = testbed::manifests::kubelet_types().unwrap_or_else(|error| {
        panic!("{error}\n\nhint: {}", error.hint().unwrap_or_else(|| "make components".to_owned()))
    });
    fs::read_to_string(directory.join(name)).unwrap()
}

/// A field of upstream's type, by its path in JSON.
#[derive(Debug)]
struct Upstream {
    path: String,
    /// Its path in Go, for defaults.
    go_path: String,
    kind: String,
}

/// Every field of KubeletConfiguration, with those of the types below it.
fn upstream() -> Vec<Upstream> {
    let mut types: BTreeMap<String, Vec<GoField>> = BTreeMap::new();
    for (file, package) in
        [("config.go", ""), ("logging.go", "logsapi."), ("tracing.go", "tracingapi."), ("core.go", "v1.")]
    {
        for (name, fields) in go::structs(&source(file)) {
            // Names inside a package are written without it; no two files share one that matters here.
            types.entry(format!("{package}{name}")).or_insert_with(|| fields.clone());
            if package != "v1." {
                types.entry(name).or_insert(fields);
            }
        }
    }
    let mut found = Vec::new();
    walk(&types, "KubeletConfiguration", &Prefix::default(), &mut found);
    found
}

#[derive(Default)]
struct Prefix {
    json: String,
    go: String,
}

/// Types of one value in JSON although Go has a struct for them, and lists with a name of their own.
const LEAVES: [&str; 4] = ["metav1.Duration", "TimeOrMetaDuration", "metav1.Time", "resource.QuantityValue"];

fn walk(types: &BTreeMap<String, Vec<GoField>>, name: &str, prefix: &Prefix, found: &mut Vec<Upstream>) {
    let join = |prefix: &str, name: &str| {
        if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
    };
    for field in types.get(name).unwrap_or_else(|| panic!("no type {name}")) {
        if field.json.is_empty() {
            // TypeMeta is apiVersion and kind, which every object has.
            if field.kind != "metav1.TypeMeta" {
                walk(types, &field.kind, prefix, found);
            }
            continue;
        }
        let (path, go_path) = (join(&prefix.json, &field.json), join(&prefix.go, &field.name));
        let kind = if field.kind == "VModuleConfiguration" { "[]VModuleItem" } else { &field.kind };
        let bare = kind.trim_start_matches('*');
        let item = bare.strip_prefix("[]");
        let below = item.unwrap_or(bare);
        found.push(Upstream { path: path.clone(), go_path: go_path.clone(), kind: kind.to_owned() });
        if types.contains_key(below) && !LEAVES.contains(&below) {
            let list = if item.is_some() { "[]" } else { "" };
            walk(types, below, &Prefix { json: format!("{path}{list}"), go: go_path }, found);
        }
    }
}

/// Whether the table's type is that of a Go type.
fn fits(field: &Field, upstream: &str) -> bool {
    let bare = upstream.trim_start_matches('*');
    match bare {
        "bool" => field.kind == Kind::Bool,
        "int32" | "VerbosityLevel" => field.kind == Kind::Int32,
        "int64" => field.kind == Kind::Int64,
        "float64" => field.kind == Kind::Float,
        "metav1.Duration" => field.kind == Kind::Duration,
        "TimeOrMetaDuration" => field.kind == Kind::DurationOrNanoseconds,
        "resource.QuantityValue" => field.kind == Kind::Quantity,
        "[]string" => field.kind == Kind::TextList,
        "[]int32" => field.kind == Kind::IntList,
        "map[string]string" | "v1.ResourceList" => field.kind == Kind::TextMap,
        "map[string]bool" => field.kind == Kind::BoolMap,
        "map[string][]string" => field.kind == Kind::TextListMap,
        "metav1.Time" => field.kind == Kind::Text,
        "string"
        | "TaintEffect"
        | "KubeletAuthorizationMode"
        | "ResourceChangeDetectionStrategy"
        | "ImagePullCredentialsVerificationPolicy"
        | "MemoryReservationPolicy" => {
            matches!(field.kind, Kind::Text | Kind::Path | Kind::OneOf(_))
        }
        list if list.starts_with("[]") => field.kind == Kind::ObjectList,
        _ => field.kind == Kind::Object,
    }
}

#[test]
fn the_table_has_exactly_the_fields_of_upstreams_type() {
    let upstream = upstream();
    let theirs: BTreeSet<&str> = upstream.iter().map(|field| field.path.as_str()).collect();
    let ours: BTreeSet<&str> = FIELDS.iter().map(|field| field.path).collect();
    assert!(theirs.len() > 150, "{}", theirs.len());
    let missing: Vec<_> = theirs.difference(&ours).collect();
    let unknown: Vec<_> = ours.difference(&theirs).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
}

#[test]
fn the_page_has_every_field_of_upstreams_type() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let page = fs::read_to_string(root.join("docs/reference/kubelet-configuration.md")).unwrap();
    let is_section = |path: &str| FIELDS.iter().any(|field| field.path == path && field.kind == Kind::Object);
    for field in upstream().iter().filter(|field| !is_section(&field.path)) {
        assert!(page.contains(&format!("\n| `{}` |", field.path)), "{} is not on the page", field.path);
    }
}

#[test]
fn every_field_has_upstreams_type() {
    for theirs in upstream() {
        let Some(ours) = FIELDS.iter().find(|field| field.path == theirs.path) else { continue };
        assert!(fits(ours, &theirs.kind), "{}: {:?} is not {}", ours.path, ours.kind, theirs.kind);
        let is_value = !matches!(ours.kind, Kind::Object | Kind::ObjectList) && !ours.path.contains("[]");
        if is_value {
            assert_eq!(ours.keeps_zero, theirs.kind.starts_with('*'), "{}: {}", ours.path, theirs.kind);
        }
    }
}

/// Our default as upstream's file writes it.
fn expected(value: &str) -> Option<Value> {
    let inner = |prefix: &str| value.strip_prefix(prefix).and_then(|rest| rest.strip_suffix([')', '}']));
    if let Some(product) =
        inner("metav1.Duration{Duration: ").or_else(|| inner("&metav1.Duration{Duration: "))
    {
        let unit = |name: &str| match name {
            "time.Millisecond" => Some(1_000_000),
            "time.Second" => Some(1_000_000_000),
            "time.Minute" => Some(60_000_000_000),
            "time.Hour" => Some(3_600_000_000_000),
            // 300 s, a constant of the same file.
            "MaxContainerBackOff" => Some(300_000_000_000_i64),
            number => number.parse().ok(),
        };
        let nanoseconds = product.split(" * ").map(unit).product::<Option<i64>>()?;
        return Some(GoDuration::from_nanoseconds(nanoseconds).to_string().into());
    }
    let bare = inner("ptr.To[int32](").or_else(|| inner("ptr.To[int64](")).or_else(|| inner("ptr.To("));
    serde_json::from_str(bare.unwrap_or(value)).ok()
}

#[test]
fn every_default_that_upstream_writes_as_a_literal_is_ours() {
    let paths: BTreeMap<String, String> =
        upstream().into_iter().map(|field| (field.go_path, field.path)).collect();
    let flags = node::kubelet::KubeletFlags::default();
    let effective = node::kubelet::KubeletConfig::load(None, None, &flags).unwrap().effective;
    // Set twice by upstream, depending on another field.
    let dependent = ["nodeStatusReportFrequency", "serializeImagePulls"];
    let mut compared = 0;
    for (go_path, value) in go::defaults(&source("defaults.go")) {
        let path = paths.get(&go_path).unwrap_or_else(|| panic!("{go_path} is no field"));
        if dependent.contains(&path.as_str()) {
            continue;
        }
        let Some(theirs) = expected(&value) else { continue };
        let ours = path.split('.').fold(&effective, |tree, name| &tree[name]);
        assert_eq!(ours, &theirs, "{path}");
        compared += 1;
    }
    assert!(compared >= 50, "{compared}");
}

#[test]
fn the_table_has_exactly_the_flags_of_a_kubelet() {
    let mut theirs: BTreeSet<String> = go::flags(&source("flags.go")).into_iter().collect();
    theirs.extend(go::flags(&source("logging-flags.go")));
    // Named by constants of other packages.
    theirs.extend(["log-flush-frequency", "housekeeping-interval"].map(str::to_owned));
    let ours: BTreeSet<String> =
        FLAGS.iter().filter(|flag| !flag.is_removed).map(|flag| flag.name.to_owned()).collect();
    let missing: Vec<_> = theirs.difference(&ours).collect();
    let unknown: Vec<_> = ours.difference(&theirs).collect();
    assert!(theirs.len() > 100, "{}", theirs.len());
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
    for flag in FLAGS.iter().filter(|flag| flag.is_removed) {
        assert!(!theirs.contains(flag.name), "{} is there again", flag.name);
    }
}

#[test]
fn the_gates_and_their_defaults_are_those_of_upstreams_list() {
    let list: Value = serde_saphyr::from_str(&source("feature-gates.yaml")).unwrap();
    let minor =
        |spec: &Value| spec["version"].as_str().unwrap().split_once('.').unwrap().1.parse::<u32>().unwrap();
    let theirs: BTreeMap<String, (bool, bool)> = list
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|gate| {
            let specs = gate["versionedSpecs"].as_array().unwrap();
            let spec = specs.iter().filter(|spec| minor(spec) <= 37).max_by_key(|spec| minor(spec))?;
            let state = (spec["default"].as_bool().unwrap(), spec["lockToDefault"].as_bool().unwrap());
            Some((gate["name"].as_str().unwrap().to_owned(), state))
        })
        .collect();
    let ours: BTreeMap<String, (bool, bool)> =
        feature_gates().map(|gate| (gate.name.to_owned(), (gate.default, gate.is_locked))).collect();
    assert!(theirs.len() > 200, "{}", theirs.len());
    let missing: Vec<_> = theirs.iter().filter(|(name, state)| ours.get(*name) != Some(state)).collect();
    let unknown: Vec<_> = ours.keys().filter(|name| !theirs.contains_key(*name)).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing or other {missing:?}, unknown {unknown:?}");
}
