//! Which workloads can have a user namespace of their own, asked of the real binary.

use crate::support;

use serde_json::{Value, json};
use support::Host;

/// A Deployment `shop/web` with these lines in its pods' spec.
fn deployment(spec: &str, container: &str) -> String {
    let indented = |text: &str, by: usize| -> String {
        text.lines().map(|line| format!("{}{line}\n", " ".repeat(by))).collect()
    };
    format!(
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web, namespace: shop}}\nspec:\n  \
         selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    \
         spec:\n{}      containers:\n      - name: app\n        image: registry.example/web:1\n{}",
        indented(spec, 6),
        indented(container, 8)
    )
}

fn check(text: &str, words: &str) -> Value {
    let host = Host::new();
    host.write("m.yaml", text);
    host.json(&format!("check HOST/m.yaml {words}"))
}

fn only(report: &Value) -> &Value {
    assert_eq!(report["workloads"].as_array().unwrap().len(), 1, "{report}");
    &report["workloads"][0]
}

#[test]
fn a_plain_workload_is_ready_and_the_answer_has_what_the_contract_promises() {
    let report = check(&deployment("", ""), "");
    let web = only(&report);
    assert_eq!(web["kind"], "Deployment");
    assert_eq!((&web["namespace"], &web["name"]), (&json!("shop"), &json!("web")));
    assert_eq!(web["userNamespace"], json!({"verdict": "ready", "now": "host", "reasons": []}));
    let patch = json!({"spec": {"template": {"spec": {"hostUsers": false}}}});
    assert_eq!(web["patch"]["body"], patch);
    assert_eq!(web["patch"]["fields"], 1);
    assert_eq!(web["patch"]["apiVersion"], "apps/v1");
    let command = "kubectl patch deployment web -n shop --patch-file FILE";
    assert_eq!(web["patch"]["command"], command);
    assert_eq!(web["source"]["line"], 1);
    assert_eq!(report["conflicts"], json!([]));
    assert_eq!(report["upgrade"]["from"]["version"], "1.36");
    assert_eq!(report["upgrade"]["to"]["gates"]["SELinuxMount"], true);
}

#[test]
fn a_ready_and_a_blocked_workload_are_told_in_one_screen() {
    let host = Host::new();
    host.write("m.yaml", &deployment("hostPID: true", ""));
    host.write(
        "p.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {hostUsers: false, \
        containers: [{name: c, image: i}]}}",
    );
    host.shows(
        "check HOST/m.yaml HOST/p.yaml",
        "WORKLOAD             USER NAMESPACE    PODS  POD SECURITY
Deployment shop/web  blocked           0     privileged
Pod default/p        ready, asked for  1     baseline

Deployment shop/web: blocked
  blocks: spec.template.spec.hostPID: a pod with a user namespace of its own
    cannot have the host's processes
    hint: remove spec.hostPID, or set spec.hostUsers to true if the pod must
      have it

2 workloads: 1 ready, 0 risky, 1 blocked; 0 conflicts; the upgrade to 1.37
  breaks nothing
~ stderr
note: no node was shown: runtime handlers taken to support user namespaces: default
",
    );
}

const NFS: &str = "volumes: [{name: v, nfs: {server: s, path: /p}}]";
const HOST_PATH: &str = "volumes: [{name: v, hostPath: {path: /srv}}]";
const CLAIM: &str = "volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]";
const SCRATCH: &str = "volumes: [{name: v, emptyDir: {}}]";
const MOUNT: &str = "volumeMounts: [{name: v, mountPath: /v}]";

#[test]
fn every_obstacle_and_every_loss_has_its_verdict_field_and_way_out() {
    let spec = "spec.template.spec";
    let container = "spec.template.spec.containers[0]";
    let context = |text: &str| format!("securityContext: {{{text}}}");
    let cases: Vec<(&str, String, &str, String)> = vec![
        ("hostNetwork: true", String::new(), "blocked", format!("{spec}.hostNetwork")),
        ("hostIPC: true", String::new(), "blocked", format!("{spec}.hostIPC")),
        (
            CLAIM,
            "volumeDevices: [{name: v, devicePath: /dev/x}]".into(),
            "blocked",
            format!("{container}.volumeDevices"),
        ),
        (NFS, MOUNT.into(), "blocked", format!("{spec}.volumes[0]")),
        ("", context("runAsUser: 70000"), "blocked", format!("{container}.securityContext.runAsUser")),
        (
            "securityContext: {fsGroup: 65536}",
            String::new(),
            "blocked",
            format!("{spec}.securityContext.fsGroup"),
        ),
        ("runtimeClassName: kata-qemu", String::new(), "blocked", format!("{spec}.hostUsers")),
        ("os: {name: windows}", String::new(), "blocked", format!("{spec}.os.name")),
        (HOST_PATH, MOUNT.into(), "risky", format!("{spec}.volumes[0]")),
        (CLAIM, MOUNT.into(), "risky", format!("{spec}.volumes[0]")),
        ("", context("privileged: true"), "risky", format!("{container}.securityContext.privileged")),
        (
            "",
            context("capabilities: {add: [SYS_MODULE]}"),
            "risky",
            format!("{container}.securityContext.capabilities.add[SYS_MODULE]"),
        ),
        (
            "",
            "resources: {limits: {nvidia.com/gpu: 1}}".into(),
            "risky",
            format!("{container}.resources.limits[nvidia.com/gpu]"),
        ),
        (
            "securityContext: {sysctls: [{name: net.ipv4.ping_group_range, value: 0 2147483647}]}",
            String::new(),
            "risky",
            format!("{spec}.securityContext.sysctls[0].value"),
        ),
        (SCRATCH, MOUNT.into(), "ready", String::new()),
        ("", context("capabilities: {add: [NET_ADMIN, CAP_CHOWN]}"), "ready", String::new()),
        (
            "runtimeClassName: crun",
            "resources: {limits: {cpu: 1, hugepages-2Mi: 2Mi}}".into(),
            "ready",
            String::new(),
        ),
    ];
    for (lines, in_container, verdict, field) in cases {
        let report = check(&deployment(lines, &in_container), "");
        let found = &only(&report)["userNamespace"];
        assert_eq!(found["verdict"], verdict, "{lines} {in_container}: {found}");
        if verdict == "ready" {
            continue;
        }
        let first = &found["reasons"][0];
        assert_eq!(first["field"], field, "{lines} {in_container}: {found}");
        assert!(!first["cause"].as_str().unwrap().is_empty() && !first["hint"].as_str().unwrap().is_empty());
        assert_eq!(first["weight"], if verdict == "risky" { "risks" } else { "blocks" });
    }
}

#[test]
fn a_claim_is_followed_to_its_filesystem() {
    let volume = |csi: &str| {
        format!(
            "{}---\napiVersion: v1\nkind: PersistentVolume\nmetadata: {{name: pv}}\nspec:\n  accessModes: [ReadWriteOnce]\n  \
             capacity: {{storage: 1Gi}}\n  claimRef: {{namespace: shop, name: c}}\n  csi: {{volumeHandle: h, {csi}}}\n",
            deployment(CLAIM, MOUNT)
        )
    };
    let class = |driver: &str| {
        format!(
            "{}---\napiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {{name: c, namespace: shop}}\nspec: {{accessModes: [ReadWriteOnce], \
             storageClassName: s, resources: {{requests: {{storage: 1Gi}}}}}}\n---\napiVersion: storage.k8s.io/v1\nkind: StorageClass\n\
             metadata: {{name: s}}\nprovisioner: {driver}\n",
            deployment(CLAIM, MOUNT)
        )
    };
    for (text, verdict) in [
        (volume("driver: d.example.com, fsType: xfs"), "ready"),
        (volume("driver: d.example.com"), "risky"),
        (volume("driver: ebs.csi.aws.com"), "ready"),
        (volume("driver: nfs.csi.k8s.io"), "blocked"),
        (class("ebs.csi.aws.com"), "ready"),
        (class("efs.csi.aws.com"), "blocked"),
        (class("d.example.com"), "risky"),
    ] {
        assert_eq!(only(&check(&text, ""))["userNamespace"]["verdict"], verdict, "{text}");
    }
}

#[test]
fn facts_of_a_node_say_what_lies_under_a_path_of_the_host() {
    let host = Host::new();
    host.write("m.yaml", &deployment(HOST_PATH, MOUNT));
    let mut facts = host.json("explain HOST/m.yaml")["facts"].clone();
    facts["filesystems"]["paths"] = json!({"/srv": "nfs"});
    facts["filesystems"]["idmap"] = json!({"nfs": {"no": "EINVAL"}});
    host.write("facts.json", &facts.to_string());
    let report = host.json("check HOST/m.yaml --facts HOST/facts.json");
    assert_eq!(only(&report)["userNamespace"]["verdict"], "blocked", "{report}");
    let cause = only(&report)["userNamespace"]["reasons"][0]["cause"].as_str().unwrap();
    assert!(cause.contains("nfs") && cause.contains("EINVAL"), "{cause}");
}

#[test]
fn what_nodes_say_of_their_runtimes_decides() {
    let node = |name: &str, able: bool| {
        format!(
            "---\napiVersion: v1\nkind: Node\nmetadata: {{name: {name}, uid: u}}\nstatus:\n  runtimeHandlers:\n  - name: \"\"\n    \
             features: {{userNamespaces: {able}}}\n"
        )
    };
    let verdict =
        |nodes: &str| only(&check(&format!("{}{nodes}", deployment("", "")), ""))["userNamespace"].clone();
    assert_eq!(verdict(&node("a", true))["verdict"], "ready");
    assert_eq!(verdict(&node("a", false))["verdict"], "blocked");
    let mixed = verdict(&(node("a", true) + &node("b", false)));
    assert_eq!(mixed["verdict"], "risky");
    assert!(mixed["reasons"][0]["cause"].as_str().unwrap().contains("node b"), "{mixed}");
}

#[test]
fn under_an_older_version_nobody_is_ready() {
    let report = check(&deployment("", ""), "--to 1.32");
    let reasons = &only(&report)["userNamespace"]["reasons"];
    assert!(reasons[0]["cause"].as_str().unwrap().contains("UserNamespacesSupport is off"), "{reasons}");
    assert_eq!(only(&report)["patch"], Value::Null);
}

#[test]
fn annotations_of_other_tools_become_host_users() {
    for annotation in [
        "io.kubernetes.cri-o.userns-mode",
        "userns-mode.crio.io",
        "io.podman.annotations.userns",
        "dev.gvisor.spec.user-namespace",
    ] {
        let text = deployment("", "").replace(
            "metadata: {labels: {app: web}}",
            &format!("metadata: {{labels: {{app: web}}, annotations: {{{annotation}: \"auto\"}}}}"),
        );
        let report = check(&text, "");
        let web = only(&report);
        assert_eq!(web["userNamespace"]["reasons"][0]["weight"], "note", "{web}");
        let template = &web["patch"]["body"]["spec"]["template"];
        assert_eq!(template["spec"]["hostUsers"], false);
        assert_eq!(template["metadata"]["annotations"][annotation], Value::Null, "{template}");
        assert_eq!(web["patch"]["fields"], 2);
    }
}

/// Nodes that are not upgraded yet have nothing else to go by.
#[test]
fn the_annotation_for_the_wrapper_stays_beside_host_users() {
    let text = deployment("", "").replace(
        "metadata: {labels: {app: web}}",
        "metadata: {labels: {app: web}, annotations: {wardlet.dev/user-namespace: \"true\"}}",
    );
    let report = check(&text, "");
    let web = only(&report);
    let hint = web["userNamespace"]["reasons"][0]["hint"].as_str().unwrap();
    assert!(hint.contains("leave it until every node understands that"), "{hint}");
    assert_eq!(web["patch"]["body"]["spec"]["template"], json!({"spec": {"hostUsers": false}}));
    assert_eq!(web["patch"]["fields"], 1);
}

#[test]
fn a_patch_that_takes_something_away_says_so_and_one_that_cannot_help_is_not_offered() {
    let report = check(&deployment("hostPID: true\nhostNetwork: true", ""), "");
    let patch = &only(&report)["patch"];
    let body =
        json!({"spec": {"template": {"spec": {"hostUsers": false, "hostPID": null, "hostNetwork": null}}}});
    assert_eq!(patch["body"], body);
    assert_eq!(patch["givesUp"], json!(["the host's network", "the host's processes"]));
    assert_eq!(only(&check(&deployment(NFS, MOUNT), ""))["patch"], Value::Null);
    assert_eq!(only(&check(&deployment("hostUsers: false", ""), ""))["patch"], Value::Null);
}

#[test]
fn pod_security_is_told_with_and_without_a_user_namespace() {
    let strict = "allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}";
    let report = check(&deployment("", &format!("securityContext: {{{strict}}}")), "");
    let security = &only(&report)["podSecurity"];
    assert_eq!(
        (&security["now"], &security["withUserNamespace"]),
        (&json!("baseline"), &json!("restricted"))
    );
    assert_eq!(security["violations"][0]["check"], "runAsNonRoot");
    assert_eq!(security["violations"][0]["allowedInUserNamespace"], true);
    let older = check(&deployment("", &format!("securityContext: {{{strict}}}")), "--to 1.34");
    assert_eq!(only(&older)["podSecurity"]["withUserNamespace"], "baseline");
}

/// A pod of a dump, owned so.
fn pod(name: &str, owner: Option<(&str, &str)>, labels: &str) -> String {
    let owner = owner.map(|(kind, name)| {
        format!("ownerReferences: [{{apiVersion: x, kind: {kind}, name: {name}, uid: u, controller: true}}]")
    });
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\n  namespace: shop\n  uid: {name}\n  labels: {{{labels}}}\n  {}\n\
         spec:\n  nodeName: n1\n  containers: [{{name: c, image: i}}]\nstatus: {{phase: Running}}\n",
        owner.unwrap_or_default()
    )
}

#[test]
fn pods_of_a_dump_are_counted_for_who_made_them() {
    let set = |kind: &str, name: &str, owner: &str| {
        let group = if kind == "Job" { "batch/v1" } else { "apps/v1" };
        let selector = if kind == "Job" { "" } else { "selector: {matchLabels: {a: b}}, " };
        let restart = if kind == "Job" { "restartPolicy: Never, " } else { "" };
        format!(
            "---\napiVersion: {group}\nkind: {kind}\nmetadata: {{name: {name}, namespace: shop, uid: u, ownerReferences: [{owner}]}}\n\
             spec: {{{selector}template: {{metadata: {{labels: {{a: b}}}}, spec: {{{restart}containers: [{{name: c, image: i}}]}}}}}}\n"
        )
    };
    let owned = |kind: &str, name: &str| {
        format!("{{apiVersion: x, kind: {kind}, name: {name}, uid: u, controller: true}}")
    };
    let mut text = deployment("", "");
    text += &set("ReplicaSet", "web-5d", &owned("Deployment", "web"));
    text += &pod("web-5d-a", Some(("ReplicaSet", "web-5d")), "pod-template-hash: 5d");
    text += &pod("web-5d-b", Some(("ReplicaSet", "web-5d")), "pod-template-hash: 5d");
    text += &pod("unseen-7f-a", Some(("ReplicaSet", "unseen-7f")), "pod-template-hash: 7f");
    text += &set("Job", "night-1", &owned("CronJob", "night"));
    text += &pod("night-1-x", Some(("Job", "night-1")), "");
    text += &set("DaemonSet", "agent", &owned("Agent", "main"));
    text += &pod("agent-x", Some(("DaemonSet", "agent")), "");
    text += &pod("etcd-n1", Some(("Node", "n1")), "");
    text += &pod("alone", None, "");
    text += &pod("over", None, "").replace("Running", "Succeeded");
    let report = check(&text, "");
    let found: Vec<String> = report["workloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| format!("{} {} {}", w["kind"].as_str().unwrap(), w["name"].as_str().unwrap(), w["pods"]))
        .collect();
    assert_eq!(
        found,
        [
            "CronJob night 1",
            "DaemonSet agent 1",
            "Deployment unseen 1",
            "Deployment web 2",
            "Pod alone 1",
            "Pod etcd-n1 1"
        ]
    );
    let agent = &report["workloads"][1]["userNamespace"]["reasons"][0];
    assert!(agent["cause"].as_str().unwrap().contains("Agent main manages it"), "{agent}");
    assert_eq!(report["workloads"][2]["patch"]["apply"], "atItsSource");
    assert_eq!(report["workloads"][4]["patch"]["apply"], "recreate");
    assert!(report["notes"].to_string().contains("pods that have ended and do not count: 1"));
}

#[test]
fn a_stateful_set_with_claim_templates_is_judged() {
    let text = "
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  serviceName: db
  replicas: 2
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: c, image: i, volumeMounts: [{name: data, mountPath: /d}]}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1Gi}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: fast}
provisioner: pd.csi.storage.gke.io
";
    let report = check(text, "");
    assert_eq!(only(&report)["userNamespace"]["verdict"], "ready", "{report}");
    assert_eq!(report["problems"], json!([]));
}
