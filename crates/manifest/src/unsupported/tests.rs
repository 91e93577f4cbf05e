//! docs/podspec.md against the API's schema and against what is refused.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::Pod;

use super::*;
use crate::typed::Schema;

const DOCUMENT: &str = include_str!("../../../../docs/podspec.md");

type TypedField = (String, String);

/// Every field below a pod's spec, with the type that has it.
fn schema() -> BTreeMap<String, TypedField> {
    let schema = Schema::of::<Pod>().unwrap();
    let kinds: BTreeMap<&str, &str> =
        schema.fields().iter().map(|f| (f.path.as_str(), f.kind.as_str())).collect();
    let is_field = |path: &str| path.starts_with("spec.") && !path.ends_with("[]") && !path.ends_with('*');
    let fields = schema.fields().iter().filter(|f| is_field(&f.path));
    fields
        .map(|f| {
            let (parent, name) = f.path.rsplit_once('.').unwrap();
            (f.path.clone(), (kinds[parent].to_owned(), name.to_owned()))
        })
        .collect()
}

/// Rows `| Type | fields | how | why |`.
fn rows() -> Vec<(String, Vec<String>, String)> {
    let cells = |line: &str| line.split('|').map(|c| c.trim().replace('`', "")).collect::<Vec<_>>();
    let rows = DOCUMENT.lines().filter(|l| l.starts_with("| `")).map(cells);
    rows.map(|c| (c[1].clone(), c[2].split_whitespace().map(str::to_owned).collect(), c[3].clone())).collect()
}

#[test]
fn every_field_of_a_pod_is_listed_once() {
    let mut listed = BTreeSet::new();
    for (kind, fields, how) in rows() {
        assert!(["honoured", "refused", "not run", "harmless"].contains(&how.as_str()), "{kind}: {how}");
        for field in fields {
            assert!(listed.insert((kind.clone(), field.clone())), "{kind}.{field} is listed twice");
        }
    }
    let known: BTreeSet<TypedField> = schema().into_values().collect();
    let unlisted: Vec<_> = known.difference(&listed).collect();
    let stale: Vec<_> = listed.difference(&known).collect();
    assert!(
        unlisted.is_empty() && stale.is_empty(),
        "not in docs/podspec.md: {unlisted:?}, only there: {stale:?}"
    );
}

/// The fields that the code refuses, as paths of the schema.
fn refused_paths() -> Vec<String> {
    let containers = CONTAINERS
        .iter()
        .flat_map(|list| OF_CONTAINER.iter().map(move |(p, _)| format!("spec.{list}[].{p}")));
    OF_POD.iter().map(|(p, _)| format!("spec.{p}")).chain(containers).collect()
}

#[test]
fn what_is_listed_as_refused_is_refused_and_nothing_else() {
    let schema = schema();
    let in_code: BTreeSet<TypedField> = refused_paths().iter().map(|p| schema[p].clone()).collect();
    // Fields of a refused field's own type are refused with it.
    let in_document: BTreeSet<TypedField> = rows()
        .into_iter()
        .filter(|(_, _, how)| how == "refused")
        .flat_map(|(kind, fields, _)| fields.into_iter().map(move |f| (kind.clone(), f)))
        .collect();
    assert!(in_code.is_subset(&in_document), "{:?}", in_code.difference(&in_document).collect::<Vec<_>>());
    let refused = refused_paths();
    let is_refused = |path: &str| {
        refused
            .iter()
            .any(|r| path.strip_prefix(r).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '['])))
    };
    let listed = schema.iter().filter(|(_, field)| in_document.contains(field));
    let kept: Vec<&String> = listed.map(|(path, _)| path).filter(|path| !is_refused(path)).collect();
    assert!(kept.is_empty(), "listed as refused, but run: {kept:?}");
}

#[test]
fn a_pod_that_sets_one_is_refused_with_its_place() {
    let text = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      resourceClaims: []\n      \
        containers:\n      - {name: c, resources: {claims: [{name: d}]}}\n      volumes:\n      - {name: v, gitRepo: {repository: x}}\n";
    let reading = crate::read("d.yaml", text.as_bytes());
    let pod = reading.objects[0].pod().unwrap();
    let found: Vec<String> = unsupported(&pod).iter().map(|f| format!("{} {}", f.at.line, f.path)).collect();
    assert_eq!(
        found,
        [
            "6 spec.template.spec.resourceClaims",
            "10 spec.template.spec.volumes[0].gitRepo",
            "8 spec.template.spec.containers[0].resources.claims"
        ]
    );
}

#[test]
fn windows_is_refused_and_linux_is_not() {
    let found = |os: &str| {
        let text =
            format!("apiVersion: v1\nkind: Pod\nspec:\n  os: {{name: {os}}}\n  containers: [{{name: c}}]\n");
        let reading = crate::read("p.yaml", text.as_bytes());
        unsupported(&reading.objects[0].pod().unwrap()).len()
    };
    assert_eq!((found("windows"), found("linux")), (1, 0));
}

/// The API server lets a pod that names no system have them, and a kubelet on Linux reads over them.
#[test]
fn options_for_windows_refuse_no_pod_that_may_run_on_linux() {
    let text = "apiVersion: v1\nkind: Pod\nspec:\n  hostNetwork: true\n  securityContext: {windowsOptions: {hostProcess: true}}\n  \
        containers:\n  - {name: c, securityContext: {windowsOptions: {runAsUserName: 'NT AUTHORITY\\SYSTEM', hostProcess: true}}}\n";
    let reading = crate::read("p.yaml", text.as_bytes());
    let found = unsupported(&reading.objects[0].pod().unwrap());
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn a_medium_that_no_node_knows_is_refused() {
    let found = |medium: &str| {
        let text = format!(
            "apiVersion: v1\nkind: Pod\nspec:\n  volumes: [{{name: v, emptyDir: {{medium: {medium}}}}}]\n  containers: [{{name: c}}]\n"
        );
        let reading = crate::read("p.yaml", text.as_bytes());
        unsupported(&reading.objects[0].pod().unwrap()).iter().map(|f| f.path.clone()).collect::<Vec<_>>()
    };
    assert_eq!(found("Paper"), ["spec.volumes[0].emptyDir.medium"]);
    for medium in ["''", "Memory", "HugePages", "HugePages-2Mi"] {
        assert!(found(medium).is_empty(), "{medium}");
    }
}
