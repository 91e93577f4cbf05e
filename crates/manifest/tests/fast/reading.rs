//! Manifests as people write them: right or refused, never misread.

use manifest::{Finding, Problem, Resource, Unknowns, Value, read, read_with};

fn findings(text: &str) -> Vec<Finding> {
    let reading = read("pod.yaml", text.as_bytes());
    assert!(reading.objects.is_empty(), "read in spite of a fault: {text}");
    reading.findings
}

fn pod(spec: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n{spec}")
}

#[test]
fn a_typo_in_host_users_is_refused_with_line_path_and_suggestion() {
    let found = findings(&pod("  hostUser: false\n  containers: []\n"));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].to_string(), "pod.yaml:5:3: spec.hostUser: unknown field hostUser");
    assert_eq!(found[0].hint().unwrap(), "did you mean hostUsers?");
}

#[test]
fn a_field_at_the_wrong_place_is_refused_with_the_right_one() {
    let hint = |spec: &str| findings(&pod(spec))[0].hint().unwrap();
    assert_eq!(hint("  containers:\n  - name: c\n    hostUsers: false\n"), "it belongs to spec.hostUsers");
    assert_eq!(hint("  securityContext: {hostUsers: false}\n"), "it belongs to spec.hostUsers");
    assert!(hint("  privileged: true\n").contains("spec.containers[].securityContext.privileged"));
    assert!(
        hint("  containers:\n  - {name: c, runAsUser: 5}\n")
            .starts_with("it belongs to spec.containers[].securityContext.runAsUser")
    );
    assert_eq!(hint("  containers:\n  - {name: c, hostUser: false}\n"), "it belongs to spec.hostUsers");
    assert_eq!(hint("  HostUsers: false\n"), "did you mean hostUsers?");
}

#[test]
fn text_is_no_boolean_and_a_number_is_no_text() {
    let found = findings(&pod("  hostUsers: \"false\"\n"));
    assert_eq!(
        found[0].to_string(),
        "pod.yaml:5:14: spec.hostUsers: expected a boolean, found string \"false\""
    );
    assert_eq!(found[0].hint().unwrap(), "write it without quotes");
    let found = findings(&pod("  containers:\n  - name: 12\n"));
    assert_eq!(
        found[0].to_string(),
        "pod.yaml:6:11: spec.containers[0].name: expected a string, found integer 12"
    );
    assert_eq!(found[0].hint().unwrap(), "put it in quotes");
    for bad in
        ["hostUsers: 0", "hostUsers: []", "hostUsers: {a: b}", "containers: {}", "priority: 5000000000"]
    {
        assert_eq!(findings(&pod(&format!("  {bad}\n"))).len(), 1, "{bad}");
    }
}

fn host_users(text: &str) -> Option<bool> {
    let reading = read("pod.yaml", text.as_bytes());
    assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    reading.objects[0].pod().unwrap().spec.host_users
}

#[test]
fn yamls_other_words_for_false_are_false() {
    for word in ["false", "no", "off", "False", "NO", "n"] {
        assert_eq!(host_users(&pod(&format!("  hostUsers: {word}\n"))), Some(false), "{word}");
    }
    for word in ["null", "~", ""] {
        assert_eq!(host_users(&pod(&format!("  hostUsers: {word}\n"))), None, "{word}");
    }
}

#[test]
fn octal_modes_are_octal() {
    for (written, mode) in [("0400", 256), ("0o400", 256), ("256", 256), ("0x100", 256), ("256.0", 256)] {
        let text =
            pod(&format!("  volumes:\n  - name: v\n    secret: {{secretName: s, defaultMode: {written}}}\n"));
        let reading = read("pod.yaml", text.as_bytes());
        let spec = reading.objects[0].pod().unwrap().spec;
        assert_eq!(spec.volumes.as_ref().unwrap()[0].secret.as_ref().unwrap().default_mode, Some(mode));
    }
    let json = r#"{"apiVersion":"v1","kind":"Pod","spec":{"volumes":[{"name":"v","secret":{"defaultMode":256.0}}]}}"#;
    assert_eq!(findings(json).len(), 1, "JSON has no whole number with a fraction");
}

#[test]
fn keys_that_are_there_twice_are_refused_in_yaml_and_json() {
    for text in [
        pod("  hostUsers: false\n  hostUsers: true\n"),
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"spec\":{\"hostUsers\":false,\"hostUsers\":true}}"
            .to_owned(),
    ] {
        let found = findings(&text);
        assert!(
            matches!(&found[0].problem, Problem::DuplicateKey { key, .. } if key == "hostUsers"),
            "{text}"
        );
    }
}

#[test]
fn anchors_and_merge_keys_reach_the_typed_object() {
    let text = pod("  containers:\n  - &c {name: a, image: x}\n  - <<: *c\n    name: b\n");
    let reading = read("pod.yaml", text.as_bytes());
    let containers = &reading.objects[0].pod().unwrap().spec.containers;
    assert_eq!((containers[1].name.as_str(), containers[1].image.as_deref()), ("b", Some("x")));
    let wrong = pod("  containers:\n  - &c {name: a, imagee: x}\n  - <<: *c\n    name: b\n");
    let found = findings(&wrong);
    assert_eq!((found.len(), found[1].at.line), (2, 6), "both point at the key as it is written");
}

#[test]
fn lists_and_dumps_are_unfolded() {
    let text = "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: \"\"}\nitems:\n\
        - apiVersion: v1\n  kind: Pod\n  metadata:\n    name: a\n    creationTimestamp: \"2026-01-01T00:00:00Z\"\n    \
        managedFields:\n    - {apiVersion: v1, fieldsType: FieldsV1, fieldsV1: {\"f:spec\": {}}, manager: k, operation: Update}\n  \
        spec: {containers: [{name: c}]}\n  status: {phase: Running, qosClass: BestEffort}\n\
        - apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: d}\n  spec: {selector: {}, template: {spec: {hostUsers: false, containers: []}}}\n\
        - apiVersion: v1\n  kind: Service\n  metadata: {name: s}\n  spec: {}\n";
    let reading = read("dump.yaml", text.as_bytes());
    assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    assert_eq!(reading.objects.len(), 2);
    assert_eq!(reading.objects[1].pod().unwrap().spec.host_users, Some(false));
    assert_eq!((reading.skipped[0].kind.as_str(), reading.skipped[0].name.as_str()), ("Service", "s"));
    let wrong = text.replace("hostUsers", "hostusers");
    let found = &read("dump.yaml", wrong.as_bytes()).findings;
    assert_eq!(found[0].path, "items[1].spec.template.spec.hostusers");
}

#[test]
fn items_of_a_typed_list_need_not_say_what_they_are() {
    let reading =
        read("l", br#"{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{}}]}"#);
    assert!(matches!(reading.objects[0].resource, Resource::Pod(_)), "{reading:?}");
}

#[test]
fn an_object_without_kind_or_of_another_version_is_refused() {
    assert_eq!(findings("metadata: {name: a}\n")[0].path, "apiVersion");
    assert_eq!(findings("apiVersion: v1\nmetadata: {name: a}\n")[0].path, "kind");
    assert!(findings("apiVersion: apps/v1beta1\nkind: Deployment\n")[0].to_string().contains("apps/v1"));
    assert_eq!(findings("- a\n- b\n").len(), 1);
    let reading = read("x", b"apiVersion: batch.example.com/v1\nkind: Job\n");
    assert_eq!((reading.skipped.len(), reading.findings.len()), (1, 0));
}

#[test]
fn one_bad_object_does_not_hide_the_good_ones() {
    let text = format!("{}---\n{}", pod("  hostUser: false\n"), pod("  hostUsers: false\n"));
    let reading = read("pods.yaml", text.as_bytes());
    assert_eq!((reading.objects.len(), reading.findings.len()), (1, 1));
}

#[test]
fn a_newer_api_servers_fields_are_read_over_but_not_beside_isolation() {
    let warned = |text: &str| read_with("api", text.as_bytes(), Unknowns::Warn);
    let harmless = warned(&pod("  containers:\n  - {name: c, newThing: 1}\n"));
    assert_eq!((harmless.objects.len(), harmless.objects[0].warnings.len()), (1, 1));
    for bad in [
        "  hostGroups: false\n",
        "  securityContext: {newThing: 1}\n",
        "  containers:\n  - {name: c, securityContext: {newThing: 1}}\n",
        "  containers:\n  - {name: c, securityContext: {capabilities: {newThing: 1}}}\n",
    ] {
        let reading = warned(&pod(bad));
        assert_eq!((reading.objects.len(), reading.findings.len()), (0, 1), "{bad}");
    }
}

#[test]
fn bytes_that_are_no_text_are_refused() {
    let mut bytes = pod("  hostUsers: false\n").into_bytes();
    bytes.extend(b"  nodeName: \xc3\x28\n");
    let reading = read("pod.yaml", &bytes);
    assert!(reading.objects.is_empty());
    assert!(reading.findings[0].to_string().starts_with("pod.yaml:6:13: not UTF-8 from byte"));
}

#[test]
fn a_huge_document_is_read_and_a_secret_may_wrap_its_base64() {
    let lines: String = (0..50_000).map(|i| format!("  k{i}: \"{}\"\n", "x".repeat(50))).collect();
    let text = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n{lines}");
    let reading = read("c.yaml", text.as_bytes());
    let Resource::ConfigMap(map) = &reading.objects[0].resource else { panic!() };
    assert_eq!(map.data.as_ref().unwrap().len(), 50_000);
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\ndata:\n  k: |\n    aGVs\n    bG8=\n";
    let reading = read("s.yaml", secret.as_bytes());
    let Resource::Secret(secret) = &reading.objects[0].resource else { panic!("{reading:?}") };
    assert_eq!(secret.data.as_ref().unwrap()["k"].0, b"hello");
    assert_eq!(findings("apiVersion: v1\nkind: Secret\ndata: {k: \"%%\"}\n").len(), 1);
}

#[test]
fn the_tree_stays_with_the_object() {
    let reading = read("pod.yaml", pod("  hostUsers: false\n").as_bytes());
    let node = reading.objects[0].tree.get("spec").unwrap().get("hostUsers").unwrap();
    assert_eq!((node.at.line, &node.value), (5, &Value::Bool(false)));
}

#[test]
fn a_text_that_is_wrong_everywhere_is_refused_in_few_words() {
    let fields: String = (0..20_000).map(|i| format!("  wrong{i}: 1\n")).collect();
    let text = pod(&fields);
    assert_eq!(findings(&text).len(), 101);
    let many: String = (0..200).map(|i| format!("  - {{name: c{i}, image: i, new{i}: 1}}\n")).collect();
    let text = pod(&format!("  containers:\n{many}  - {{name: c, securityContext: {{newThing: 1}}}}\n"));
    let reading = read_with("api", text.as_bytes(), Unknowns::Warn);
    assert!(reading.objects.is_empty(), "what is left out of the list might ask for isolation");
}

#[test]
fn a_merge_of_many_keys_is_read_to_its_end() {
    let keys: String = (0..40_000).map(|i| format!("  k{i}: \"x\"\n")).collect();
    let text = format!("a: &a\n{keys}b:\n  <<: *a\n");
    let reading = read("m.yaml", text.as_bytes());
    assert_eq!(reading.findings[0].path, "apiVersion");
}
