//! What `check` reads, and what it says of what it cannot read.

use crate::support;

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use support::Host;

fn pod(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "shop", "uid": name},
        "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Running"}})
}

fn list(items: &[Value]) -> Value {
    json!({"apiVersion": "v1", "items": items, "kind": "List"})
}

fn names(report: &Value) -> Vec<&str> {
    report["workloads"].as_array().unwrap().iter().map(|w| w["name"].as_str().unwrap()).collect()
}

#[test]
fn a_bad_object_is_named_by_file_line_and_field_and_the_rest_is_judged() {
    let host = Host::new();
    host.write("m.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: good}\nspec: {containers: [{name: c, image: i}]}\n---\n\
        apiVersion: v1\nkind: Pod\nmetadata: {name: typo}\nspec:\n  hostUser: false\n  containers: [{name: c, image: i}]\n");
    host.write("broken.yaml", "a: [\n");
    let report = host.json("check HOST/m.yaml HOST/broken.yaml HOST/missing.yaml");
    assert_eq!(names(&report), ["good"]);
    let problems = report["problems"].as_array().unwrap();
    let typo = problems.iter().find(|p| p["field"] == "spec.hostUser").unwrap();
    assert_eq!((&typo["place"]["line"], &typo["place"]["column"]), (&json!(10), &json!(3)));
    assert_eq!(typo["hint"], "did you mean hostUsers?");
    let file = |p: &Value| p["place"]["file"].as_str().unwrap().to_owned();
    assert!(problems.iter().any(|p| file(p).ends_with("broken.yaml")), "{problems:?}");
    assert!(
        problems.iter().any(|p| p["cause"].as_str().unwrap().starts_with("cannot be read: No such file"))
    );
    let ran = host.run("check HOST/m.yaml HOST/broken.yaml");
    assert!(
        ran.stderr.contains("error: HOST/m.yaml:10:3: spec.hostUser: unknown field hostUser"),
        "{}",
        ran.stderr
    );
    assert_eq!(ran.code, Some(0));
}

#[test]
fn a_gate_is_not_passed_by_what_could_not_be_read() {
    let host = Host::new();
    host.write("good.json", &pod("a").to_string());
    host.write("bad.yaml", "kind: Pod\n");
    assert_eq!(host.run("check HOST/good.json --gate").code, Some(0));
    assert_eq!(host.run("check HOST/good.json HOST/bad.yaml --gate").code, Some(2));
    assert_eq!(host.run("check HOST/good.json HOST/bad.yaml").code, Some(0));
}

#[test]
fn nothing_to_read_is_no_answer() {
    let host = Host::new();
    host.write("empty.yaml", "");
    host.shows(
        "check HOST/empty.yaml",
        "~ stderr
error: no object could be read

hint: name manifests, a directory of them, or a dump made by kubectl get -o yaml
~ exit 2
",
    );
    assert_eq!(host.run("check HOST/empty.yaml --feature-gates SELinuxMonut=true").code, Some(2));
    assert_eq!(host.run("check").code, Some(2));
}

/// As `oc adm inspect` lays it out, with what else is there.
#[test]
fn a_directory_is_read_with_all_below_it() {
    let host = Host::new();
    host.write(
        "gather/namespaces/shop/core/pods.yaml",
        "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  \
        metadata: {name: a, uid: a}\n  spec: {containers: [{name: c, image: i}]}\nkind: PodList\n",
    );
    host.write("gather/namespaces/shop/pods/b/b.yaml", &pod("b").to_string());
    host.write(
        "gather/cluster-scoped-resources/core/events.json",
        &json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}}).to_string(),
    );
    host.write("gather/values.yaml", "replicas: 3\n");
    host.write("gather/pod.log", "kind: [");
    let report = host.json("check HOST/gather");
    assert_eq!(names(&report), ["a", "b"]);
    assert_eq!(report["problems"], json!([]));
    let notes = report["notes"].to_string();
    assert!(notes.contains("values.yaml holds no objects") && notes.contains("1 Event"), "{notes}");
}

#[test]
fn standard_input_is_read() {
    let host = Host::new();
    let mut child = host
        .command("check - -o json")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(list(&[pod("a"), pod("b")]).to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(names(&report), ["a", "b"]);
}

/// A dump that is too large to be read as a whole gives the same answer as its parts, with the lines of the
/// whole.
#[test]
fn a_large_dump_is_read_in_parts_in_json_and_in_yaml() {
    let host = Host::new();
    let filler = "x".repeat(10_000);
    let mut items: Vec<Value> = (0..440)
        .map(|n| {
            let mut pod = pod(&format!("p{n:03}"));
            pod["metadata"]["annotations"] = json!({"filler": filler});
            pod
        })
        .collect();
    items[400]["spec"]["hostUser"] = json!(false);
    let pretty = serde_json::to_string_pretty(&list(&items)).unwrap();
    let bad_line = pretty.lines().position(|line| line.contains("hostUser\"")).unwrap() + 1;
    host.write("dump.json", &pretty);
    host.write("line.json", &list(&items).to_string());
    let body: String = items
        .iter()
        .map(|item| {
            let text = serde_saphyr::to_string(item).unwrap();
            let lines: Vec<String> = text.lines().map(|line| format!("  {line}\n")).collect();
            lines.concat().replacen("  ", "- ", 1)
        })
        .collect();
    let yaml = format!("apiVersion: v1\nitems:\n{body}kind: List\nmetadata:\n  resourceVersion: \"\"\n");
    let yaml_line = yaml.lines().position(|line| line.contains("hostUser:")).unwrap() + 1;
    host.write("dump.yaml", &yaml);
    for (file, line) in [("dump.json", bad_line), ("line.json", 1), ("dump.yaml", yaml_line)] {
        let report = host.json(&format!("check HOST/{file}"));
        assert_eq!(report["workloads"].as_array().unwrap().len(), 439, "{file}");
        let problems = report["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{file}: {problems:?}");
        assert_eq!(problems[0]["field"], "items[400].spec.hostUser");
        assert_eq!(problems[0]["place"]["line"], line, "{file}");
    }
}

#[test]
fn a_dump_that_breaks_off_is_judged_as_far_as_it_goes() {
    let host = Host::new();
    let filler = "x".repeat(10_000);
    let items: Vec<Value> = (0..440)
        .map(|n| {
            let mut pod = pod(&format!("p{n:03}"));
            pod["metadata"]["annotations"] = json!({"filler": filler});
            pod
        })
        .collect();
    let whole = list(&items).to_string();
    host.write("dump.json", &whole[..whole.len() / 2]);
    let report = host.json("check HOST/dump.json");
    let count = report["workloads"].as_array().unwrap().len();
    assert!((215..=220).contains(&count), "{count}");
    assert!(!report["problems"].as_array().unwrap().is_empty());
}

#[test]
fn a_document_that_is_no_yaml_leaves_the_others_of_its_file() {
    let host = Host::new();
    let pod = |name: &str| {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: c, image: i}}]}}}}\n"
        )
    };
    host.write("m.yaml", &format!("# all\n---\n{}---\na: [\n---\n{}", pod("a"), pod("b")));
    let report = host.json("check HOST/m.yaml");
    assert_eq!(names(&report), ["a", "b"]);
    let problems = report["problems"].as_array().unwrap();
    assert_eq!(problems.len(), 1);
    assert!((4..=6).contains(&problems[0]["place"]["line"].as_u64().unwrap()), "{problems:?}");
}

#[test]
fn lists_of_one_kind_need_not_say_it_for_every_item() {
    let host = Host::new();
    let bare =
        json!({"metadata": {"name": "a", "uid": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    host.write("raw.json", &json!({"kind": "PodList", "apiVersion": "v1", "items": [bare]}).to_string());
    assert_eq!(names(&host.json("check HOST/raw.json")), ["a"]);
}
