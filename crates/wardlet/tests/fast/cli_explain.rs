//! What would happen to a pod here, and why, asked of the real binary.

use crate::support;

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use support::Host;

const NOT_TRIED: &str = "note: the container runtime was not asked: it is taken to support user namespaces, \
but not with the host's network\n";

/// A pod `web` with these lines in its spec.
pub(crate) fn pod(lines: &[&str]) -> String {
    let spec: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n{spec}  containers:\n  - name: app\n    \
         image: registry.example/web:1\n    volumeMounts: [{{name: scratch, mountPath: /scratch}}]\n  \
         volumes: [{{name: scratch, emptyDir: {{medium: Memory}}}}]\n"
    )
}

pub(crate) fn host_with(lines: &[&str]) -> Host {
    let host = Host::new();
    host.write("pod.yaml", &pod(lines));
    host
}

fn mode(host: &Host, words: &str) -> Value {
    host.json(words)["pods"][0]["userNamespace"]["mode"].clone()
}

#[test]
fn host_users_false_true_and_unset_each_get_what_they_say() {
    for (lines, expected) in
        [(&["hostUsers: false"][..], "own"), (&["hostUsers: true"][..], "host"), (&[][..], "host")]
    {
        let host = host_with(lines);
        assert_eq!(mode(&host, "explain HOST/pod.yaml"), expected, "{lines:?}");
        assert_eq!(host.run("explain HOST/pod.yaml").code, Some(0), "{lines:?}");
    }
}

#[test]
fn a_pod_without_a_wish_for_isolation_is_told_in_one_screen() {
    host_with(&[]).shows(
        "explain HOST/pod.yaml",
        "Pod default/web: runs
  user namespace: the host's, because spec.hostUsers is not set
  app /scratch: volume scratch, not idmapped, label left alone
    the pod has the host's users; SELinux is off on this node
",
    );
}

#[test]
fn what_was_not_found_out_is_said() {
    let ran = host_with(&["hostUsers: false"]).run("explain HOST/pod.yaml");
    assert!(ran.stderr.contains("note: the kernel was not tried, for --host-root is not /"), "{ran:?}");
    assert!(ran.stderr.contains(NOT_TRIED), "{ran:?}");
    assert!(ran.stdout.contains("tried before the pod starts"), "{ran:?}");
}

/// The typo that would run a pod without the isolation that somebody thinks it has.
#[test]
fn a_misspelt_host_users_is_found_and_nothing_is_planned() {
    host_with(&["hostUser: false"]).shows(
        "explain HOST/pod.yaml",
        "~ stderr
error: HOST/pod.yaml:6:3: spec.hostUser: unknown field hostUser

hint: did you mean hostUsers?
~ exit 2
",
    );
}

#[test]
fn one_doubtful_manifest_among_good_ones_keeps_all_from_being_planned() {
    let host = host_with(&["hostUsers: false"]);
    host.write("bad.yaml", &pod(&["hostUsers: \"false\""]));
    let ran = host.run("explain HOST/pod.yaml HOST/bad.yaml");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.contains("HOST/bad.yaml:6:14: spec.hostUsers: expected a boolean"), "{ran:?}");
    assert!(ran.stderr.contains("hint: write it without quotes"), "{ran:?}");
}

#[test]
fn a_closed_gate_leaves_the_pod_as_before_but_not_silently() {
    let host = host_with(&["hostUsers: false"]);
    let words = "explain HOST/pod.yaml --kubernetes 1.35 --feature-gates UserNamespacesSupport=false";
    let pod = &host.json(words)["pods"][0];
    assert_eq!(pod["userNamespace"], json!({"mode": "host", "length": null}));
    assert_eq!(pod["closedGate"], "UserNamespacesSupport");
    assert_eq!(pod["warnings"][0]["field"], "spec.hostUsers");
    assert_eq!(host.run(words).code, Some(0));
}

#[test]
fn another_version_has_other_gates() {
    let host = host_with(&["hostUsers: false"]);
    assert_eq!(mode(&host, "explain HOST/pod.yaml --kubernetes 1.32"), "host");
    assert_eq!(mode(&host, "explain HOST/pod.yaml --kubernetes v1.36.1"), "own");
    let words = "explain HOST/pod.yaml --kubernetes 1.32 --feature-gates UserNamespacesSupport=true";
    assert_eq!(mode(&host, words), "own");
    assert_eq!(host.run("explain HOST/pod.yaml --kubernetes 1.99").code, Some(2));
}

#[test]
fn gates_that_cannot_be_are_refused_with_the_way_out() {
    let host = host_with(&[]);
    let ran = host.run("explain HOST/pod.yaml --feature-gates UserNamespaceSupport=true");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("hint: did you mean UserNamespacesSupport?"), "{ran:?}");
    let ran = host
        .run("explain HOST/pod.yaml --kubernetes 1.35 --feature-gates SELinuxMount=true,SELinuxMountReadWriteOncePod=false");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("SELinuxMountReadWriteOncePod=true"), "{ran:?}");
    let ran = host.run("explain HOST/pod.yaml --feature-gates UserNamespacesSupport=false");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("Kubernetes 1.37 has it locked to true"), "{ran:?}");
    assert!(ran.stderr.contains("policy.disabledFeatures"), "{ran:?}");
    let ran = host.run("explain HOST/pod.yaml --kubernetes 1.31 --feature-gates SELinuxChangePolicy=true");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("Kubernetes 1.31 has no feature gate SELinuxChangePolicy"), "{ran:?}");
}

#[test]
fn the_nodes_configuration_sets_gates_and_switches_features_off_on_every_version() {
    let host = host_with(&["hostUsers: false"]);
    host.config("kubernetesVersion: \"1.35\"\nfeatureGates: {UserNamespacesSupport: false}\n");
    assert_eq!(mode(&host, "explain HOST/pod.yaml"), "host");
    assert_eq!(mode(&host, "explain HOST/pod.yaml --feature-gates UserNamespacesSupport=true"), "own");
    assert_eq!(mode(&host, "explain HOST/pod.yaml --kubernetes 1.37"), "own");
    host.config("policy: {disabledFeatures: [UserNamespacesSupport]}\n");
    for version in ["1.33", "1.36", "1.37"] {
        let words = format!("explain HOST/pod.yaml --kubernetes {version}");
        assert_eq!(mode(&host, &words), "host");
        assert_eq!(host.json(&words)["pods"][0]["closedGate"], "UserNamespacesSupport");
    }
    let refused = [
        ("featureGates: {UserNamespacesSupport: false}\n", "locked to true"),
        ("featureGates: {UserNamespaceSupport: true}\n", "did you mean UserNamespacesSupport?"),
        (
            "kubernetesVersion: \"1.31\"\nfeatureGates: {SELinuxChangePolicy: true}\n",
            "it came with Kubernetes 1.32",
        ),
        ("kubernetesVersion: \"1.99\"\n", "kubernetesVersion"),
        ("policy: {disabledFeatures: [UserNamespaces]}\n", "policy.disabledFeatures"),
        (
            "featureGates: {SELinuxMount: true}\npolicy: {disabledFeatures: [SELinuxMount]}\n",
            "policy.disabledFeatures has it off",
        ),
    ];
    for (config, said) in refused {
        host.config(config);
        let ran = host.run("explain HOST/pod.yaml");
        assert_eq!(ran.code, Some(2), "{config}: {ran:?}");
        let words = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(said), "{config}: {ran:?}");
    }
}

#[test]
fn a_refused_pod_names_field_cause_hint_and_place() {
    let host = host_with(&["hostUsers: false", "hostPID: true"]);
    assert_eq!(host.run("explain HOST/pod.yaml").code, Some(1));
    let pod = &host.json("explain HOST/pod.yaml")["pods"][0];
    assert_eq!(pod["verdict"], "refused");
    assert_eq!(pod["userNamespace"], Value::Null);
    let refusals = pod["refusals"].as_array().unwrap();
    assert_eq!(refusals.len(), 1, "the reader and the planner say it once: {pod}");
    assert_eq!(refusals[0]["field"], "spec.hostPID");
    assert!(refusals[0]["at"].as_str().unwrap().ends_with("/pod.yaml:7:3"), "{pod}");
    assert!(refusals[0]["hint"].as_str().unwrap().starts_with("remove spec.hostPID"), "{pod}");
}

#[test]
fn one_refused_pod_among_others_is_exit_one_and_all_are_shown() {
    let host = host_with(&["hostUsers: false"]);
    host.write(
        "other.yaml",
        &pod(&["hostUsers: false", "hostIPC: true"]).replace("name: web", "name: other"),
    );
    let ran = host.run("explain HOST/pod.yaml HOST/other.yaml");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.starts_with("Pod default/web: runs\n"), "{ran:?}");
    assert!(ran.stdout.contains("\nPod default/other: refused\n"), "{ran:?}");
    assert!(ran.stdout.ends_with("\n2 pods: 1 run, 1 refused\n"), "{ran:?}");
}

#[test]
fn what_the_api_takes_and_is_not_run_here_is_refused() {
    let host = host_with(&["hostUsers: false", "resourceClaims: [{name: gpu, resourceClaimName: gpu}]"]);
    let pod = &host.json("explain HOST/pod.yaml")["pods"][0];
    assert_eq!(pod["verdict"], "refused");
    assert_eq!(pod["refusals"][0]["field"], "spec.resourceClaims");
}

/// `explain` said that these run, and `run` refused them.
#[test]
fn fields_of_a_pod_that_run_refuses_are_refused_with_their_place() {
    for (line, field) in [
        ("schedulingGates: [{name: example.com/wait}]", "schedulingGates"),
        ("resources: {limits: {cpu: '1'}}", "resources"),
        ("overhead: {cpu: '1'}", "overhead"),
    ] {
        let host = host_with(&["hostUsers: false", line]);
        assert_eq!(host.run("explain HOST/pod.yaml").code, Some(1), "{field}");
        let pod = &host.json("explain HOST/pod.yaml")["pods"][0];
        assert_eq!(pod["verdict"], "refused", "{pod}");
        assert_eq!(pod["userNamespace"], Value::Null, "{pod}");
        let refusals = pod["refusals"].as_array().unwrap();
        let found = refusals.iter().find(|r| r["field"] == format!("spec.{field}"));
        let found = found.unwrap_or_else(|| panic!("{field}: {pod}"));
        assert!(found["cause"].as_str().unwrap().ends_with(" is not run here"), "{pod}");
        assert!(!found["hint"].as_str().unwrap().is_empty(), "{pod}");
        assert!(found["at"].as_str().unwrap().ends_with("/pod.yaml:7:3"), "{pod}");
    }
    // The API refuses these when a pod is created.
    let line = "ephemeralContainers: [{name: debug, image: 'registry.example/debug:1'}]";
    let pod = &host_with(&["hostUsers: false", line]).json("explain HOST/pod.yaml")["pods"][0];
    assert_eq!(
        (&pod["verdict"], &pod["refusals"][0]["field"]),
        (&"refused".into(), &"spec.ephemeralContainers".into())
    );
    let host = Host::new();
    host.write("shop.yaml", &deployment(&["schedulingGates: [{name: example.com/wait}]"]));
    let refusals = &host.json("explain HOST/shop.yaml")["pods"][0]["refusals"];
    assert_eq!(refusals[0]["field"], "spec.template.spec.schedulingGates", "{refusals}");
}

/// The pod indented into a Deployment.
fn deployment(lines: &[&str]) -> String {
    let pod = pod(lines);
    let spec: String =
        pod.split_once("spec:\n").unwrap().1.lines().map(|line| format!("    {line}\n")).collect();
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: shop, namespace: prod}}\nspec:\n  \
         selector: {{matchLabels: {{app: shop}}}}\n  template:\n    metadata: {{labels: {{app: shop}}}}\n    \
         spec:\n{spec}"
    )
}

#[test]
fn a_deployments_template_is_planned_under_the_deployments_name() {
    let host = Host::new();
    host.write("shop.yaml", &deployment(&["hostUsers: false"]));
    let pod = &host.json("explain HOST/shop.yaml")["pods"][0];
    assert_eq!(
        (&pod["kind"], &pod["namespace"], &pod["name"]),
        (&json!("Deployment"), &json!("prod"), &json!("shop"))
    );
    assert_eq!(pod["userNamespace"]["mode"], "own");
    host.write("shop.yaml", &deployment(&["hostUsers: false", "hostPID: true"]));
    let refusals = &host.json("explain HOST/shop.yaml")["pods"][0]["refusals"];
    assert_eq!(refusals[0]["field"], "spec.template.spec.hostPID");
    assert_eq!(refusals.as_array().unwrap().len(), 1, "{refusals}");
}

#[test]
fn the_answer_in_json_keeps_its_contract() {
    let answer = host_with(&["hostUsers: false"]).json("explain HOST/pod.yaml");
    let pod = &answer["pods"][0];
    for (field, expected) in [
        ("namespace", json!("default")),
        ("name", json!("web")),
        ("verdict", json!("runs")),
        ("userNamespace", json!({"mode": "own", "length": 65536})),
        ("refusals", json!([])),
        ("warnings", json!([])),
    ] {
        assert_eq!(pod[field], expected, "{field}");
    }
    let mount = &pod["mounts"][0];
    assert_eq!(mount["container"], "app");
    assert_eq!(mount["volume"], "scratch");
    assert_eq!(mount["path"], "/scratch");
    assert_eq!(mount["idmap"], "own");
    assert_eq!(mount["label"], json!({"how": "none", "context": null}));
    assert_eq!((&mount["readOnly"], &mount["propagation"]), (&json!(false), &json!("None")));
    assert!(mount["why"].as_str().is_some_and(|why| why.starts_with("tmpfs")), "{mount}");
}

const FACTS: &str = "
kernel: {userNamespaces: yes, maxUserNamespaces: 1000, idmappedMounts: yes}
filesystems: {idmap: {tmpfs: {no: EINVAL}}, kinds: {}, paths: {}}
runtime: {handlers: {'': {userNamespaces: true, recursiveReadOnlyMounts: true}}, userNamespacesHostNetwork: false}
selinux: {state: enforcing, defaults: null}
pool: {length: 65536, longest: 65536, blocks: 10, origin: a test}
";

#[test]
fn facts_of_another_node_are_taken_from_a_file() {
    let host = host_with(&["hostUsers: false"]);
    host.write("facts.yaml", FACTS);
    let ran = host.run("explain HOST/pod.yaml --facts HOST/facts.yaml");
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    assert!(
        ran.stdout.contains("tmpfs cannot be idmapped (EINVAL): made with the pod's host IDs"),
        "{ran:?}"
    );
    host.write("facts.yaml", &FACTS.replace("{no: EINVAL}", "yes"));
    let ran = host.run("explain HOST/pod.yaml --facts HOST/facts.yaml");
    assert!(ran.code == Some(0) && ran.stdout.contains("tmpfs can be idmapped"), "{ran:?}");
    host.write("facts.yaml", &FACTS.replace("userNamespaces: yes", "userNamespaces: {no: EPERM}"));
    let ran = host.run("explain HOST/pod.yaml --facts HOST/facts.yaml");
    assert!(ran.code == Some(1) && ran.stdout.contains("EPERM"), "{ran:?}");
}

#[test]
fn facts_that_a_node_shows_can_be_given_back() {
    let host = host_with(&["hostUsers: false"]);
    let answer = host.json("explain HOST/pod.yaml");
    host.write("facts.json", &answer["facts"].to_string());
    assert_eq!(host.json("explain HOST/pod.yaml --facts HOST/facts.json")["pods"], answer["pods"]);
}

#[test]
fn a_misspelt_fact_is_refused() {
    let host = host_with(&[]);
    host.write("facts.yaml", &FACTS.replace("pool:", "pools:"));
    let ran = host.run("explain HOST/pod.yaml --facts HOST/facts.yaml");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
    assert!(ran.stderr.contains("HOST/facts.yaml") && ran.stderr.contains("pools"), "{ran:?}");
}

const CONTEXTS: &str = "process = \"system_u:system_r:container_t:s0\"\n\
                        file = \"system_u:object_r:container_file_t:s0\"\n";

#[test]
fn the_hosts_own_contexts_file_gives_the_label() {
    let host = host_with(&["securityContext: {seLinuxOptions: {level: \"s0:c2,c1\"}}"]);
    host.write("sys/fs/selinux/enforce", "1");
    host.write("usr/share/containers/selinux/contexts", CONTEXTS);
    let answer = host.json("explain HOST/pod.yaml");
    assert_eq!(answer["facts"]["selinux"]["state"], "enforcing");
    let label = &answer["pods"][0]["mounts"][0]["label"];
    assert_eq!(*label, json!({"how": "relabel", "context": "system_u:object_r:container_file_t:s0:c1,c2"}));
}

#[test]
fn debians_contexts_file_is_found_by_the_policys_name() {
    let host = host_with(&["securityContext: {seLinuxOptions: {level: \"s0:c1,c2\"}}"]);
    host.write("sys/fs/selinux/enforce", "0");
    host.write("etc/selinux/config", "SELINUX=permissive\nSELINUXTYPE=default\n");
    host.write("etc/selinux/default/contexts/lxc_contexts", CONTEXTS);
    let answer = host.json("explain HOST/pod.yaml");
    assert_eq!(answer["facts"]["selinux"]["state"], "permissive");
    assert_eq!(answer["facts"]["selinux"]["defaults"]["process"], "system_u:system_r:container_t:s0");
}

#[test]
fn a_directory_stands_for_the_manifests_in_it() {
    let host = Host::new();
    host.write("all/b.yaml", &pod(&[]).replace("name: web", "name: b"));
    host.write("all/a.yml", &pod(&[]).replace("name: web", "name: a"));
    host.write("all/notes.txt", "no manifest");
    let pods = host.json("explain HOST/all")["pods"].clone();
    let names: Vec<&str> = pods.as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn manifests_are_read_from_standard_input() {
    let host = Host::new();
    let mut command = host.command("explain -");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(pod(&["hostUser: false"]).as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: standard input:6:3: spec.hostUser: "), "{stderr}");
}

#[test]
fn where_there_is_no_pod_there_is_no_answer() {
    let host = Host::new();
    host.write("service.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n");
    host.shows(
        "explain HOST/service.yaml",
        "~ stderr
note: ignored (makes no pods): 1 Service
error: the input has no pod

hint: name a manifest with a Pod, or with a workload that makes pods
~ exit 2
",
    );
    assert_eq!(host.run("explain HOST/missing.yaml").code, Some(2));
}

/// `isolate: whenSafe` isolates a pod that says nothing where nothing is lost by it, and else says what.
#[test]
fn the_operators_policy_decides_for_pods_that_say_nothing() {
    let host = host_with(&[]);
    host.write(
        "plain.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: plain}\nspec:\n  containers: [{name: app, image: x}]\n",
    );
    assert_eq!(mode(&host, "explain HOST/plain.yaml"), "host");
    host.config("policy: {isolate: whenSafe}\n");
    assert_eq!(mode(&host, "explain HOST/plain.yaml"), "own");
    let ran = host.run("explain HOST/pod.yaml");
    assert!(
        ran.stdout.contains("the host's, because the pod does not ask for one and volume\n    scratch"),
        "{ran:?}"
    );
}

#[test]
fn a_closed_gate_refuses_where_the_operator_says_so() {
    let host = host_with(&["hostUsers: false"]);
    let words = "explain HOST/pod.yaml --kubernetes 1.35 --feature-gates UserNamespacesSupport=false";
    assert_eq!(host.run(words).code, Some(0));
    host.config("policy: {onClosedGate: refuse}\n");
    assert_eq!(host.run(words).code, Some(1));
}

#[test]
fn a_rule_for_a_kind_of_volume_gives_the_shared_block() {
    let host = host_with(&["hostUsers: false"]);
    host.config("policy: {volumes: {rules: [{kinds: [emptyDir], rule: sharedBlock}]}}\n");
    assert_eq!(mode(&host, "explain HOST/pod.yaml"), "shared");
}

#[test]
fn a_misspelt_policy_is_refused_with_the_nearest() {
    let host = host_with(&["hostUsers: false"]);
    host.config("policy: {onClosedGates: refuse}\n");
    let ran = host.run("explain HOST/pod.yaml");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("did you mean policy.onClosedGate?"), "{ran:?}");
    host.config("policy: {isolate: sometimes}\n");
    let ran = host.run("explain HOST/pod.yaml");
    assert!(ran.code == Some(2) && ran.stderr.contains("policy.isolate"), "{ran:?}");
}
