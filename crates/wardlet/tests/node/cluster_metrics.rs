//! metrics-server as a pod of our node, which it asks over port 10250, and what `kubectl top` prints of that.

use serde_json::json;
use testbed::Part;
use testkit::{wait_for, wait_until};

use crate::cluster::pods::{deployment, spec, workload};
use crate::cluster::{Cluster, NODE, Runtime, name};
use crate::cluster_services::{announce_api_server, in_system, kube_proxy, service_account};

const SERVER: &str = "metrics-server";
/// Clients of the cluster find the server under this name.
const SERVICE: &str = "v1beta1.metrics.k8s.io";
/// Memory that a pod keeps in use.
const MEBIBYTES: u64 = 40;

/// What a metrics server may do, as in its own manifests.
fn rights(cluster: &Cluster) {
    cluster.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": SERVER},
        "rules": [
            {"apiGroups": [""], "resources": ["nodes/metrics"], "verbs": ["get"]},
            {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]},
        ],
    }));
    service_account(cluster, SERVER, SERVER);
    let subjects = json!([{"kind": "ServiceAccount", "name": SERVER, "namespace": "kube-system"}]);
    cluster.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": format!("{SERVER}:system:auth-delegator")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:auth-delegator"},
        "subjects": subjects,
    }));
    cluster.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": format!("{SERVER}-auth-reader"), "namespace": "kube-system"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
            "name": "extension-apiserver-authentication-reader",
        },
        "subjects": subjects,
    }));
}

/// An isolated pod, with the settings of its own manifests; but it believes the node's certificate only if the cluster's
/// authority has signed it.
fn server(cluster: &Cluster) {
    rights(cluster);
    let image = cluster.import_component(SERVER);
    let probe = |path: &str| json!({"httpGet": {"path": path, "port": "https", "scheme": "HTTPS"}, "periodSeconds": 1});
    let spec = json!({
        "serviceAccountName": SERVER, "priorityClassName": "system-cluster-critical", "hostUsers": false,
        "volumes": [{"name": "tmp", "emptyDir": {}}],
        "containers": [{
            "name": SERVER, "image": image.name, "imagePullPolicy": "IfNotPresent",
            "command": [
                image.program, "--cert-dir=/tmp", "--secure-port=10250", "--metric-resolution=15s",
                "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname", "--kubelet-use-node-status-port",
                "--kubelet-certificate-authority=/var/run/secrets/kubernetes.io/serviceaccount/ca.crt",
            ],
            "ports": [{"name": "https", "containerPort": 10250, "protocol": "TCP"}],
            "readinessProbe": probe("/readyz"), "livenessProbe": probe("/livez"),
            "securityContext": {
                "readOnlyRootFilesystem": true, "runAsNonRoot": true, "runAsUser": 1000,
                "allowPrivilegeEscalation": false, "seccompProfile": {"type": "RuntimeDefault"},
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
        }],
    });
    cluster.apply(&in_system(workload("Deployment", SERVER, &spec)));
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": SERVER, "namespace": "kube-system"},
        "spec": {"selector": {"app": SERVER}, "ports": [{"name": "https", "port": 443, "targetPort": "https"}]},
    }));
    cluster.apply(&json!({
        "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": SERVICE},
        "spec": {
            "service": {"name": SERVER, "namespace": "kube-system"}, "group": "metrics.k8s.io", "version": "v1beta1",
            "insecureSkipTLSVerify": true, "groupPriorityMinimum": 100, "versionPriority": 100,
        },
    }));
}

/// A line of `kubectl top`, once there is one: thousandths of a core, and mebibytes.
fn top(cluster: &Cluster, words: &str, first: &str) -> (u64, u64) {
    wait_for(&format!("kubectl top {words} answers"), || {
        let mut command = cluster.testbed.command("kubectl");
        command.arg("top").args(words.split_whitespace()).arg("--no-headers");
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find(|line| line.split_whitespace().next() == Some(first))?;
        let number =
            |word: &str| word.trim_end_matches(|letter: char| letter.is_ascii_alphabetic()).parse().ok();
        let words: Vec<&str> = line.split_whitespace().collect();
        // Of a node: name, CPU, its part in per cent, memory, its part.
        let memory = words.get(if words.len() > 3 { 3 } else { 2 })?;
        Some((number(words.get(1)?)?, number(memory)?))
    })
}

fn answers(runtime: Runtime) {
    let cluster = Cluster::of(runtime, &[Part::ControllerManager, Part::Scheduler]);
    cluster.import();
    let _agent = cluster.agent();
    cluster.await_node_ready();
    announce_api_server(&cluster);
    kube_proxy(&cluster);
    cluster.kubectl("rollout status -n kube-system daemonset/kube-proxy --timeout=120s");
    let script = format!("head -c {} /dev/zero > /dev/shm/kept; while :; do :; done", MEBIBYTES << 20);
    let mut busy = spec(&script);
    busy["containers"][0]["resources"] = json!({"limits": {"cpu": "300m"}});
    cluster.apply(&workload("Deployment", "busy", &busy));
    cluster.apply(&deployment("web", 2));
    server(&cluster);
    cluster.kubectl(&format!("rollout status -n kube-system deployment/{SERVER} --timeout=180s"));
    cluster.kubectl(&format!("wait --for=condition=Available apiservice/{SERVICE} --timeout=120s"));
    let busy = cluster.await_ready_pods("busy", 1);
    let busy = name(&busy[0]);

    let (cpu, memory) = top(&cluster, "node", NODE);
    assert!(cpu > 0 && memory > MEBIBYTES, "{cpu}m {memory}Mi");
    let (cpu, memory) = top(&cluster, "pod", busy);
    // Its limit, with some tolerance, and what it has written into memory.
    assert!((100..400).contains(&cpu) && (MEBIBYTES..4 * MEBIBYTES).contains(&memory), "{cpu}m {memory}Mi");
    wait_until("each container of the namespace is listed", || {
        cluster.kubectl("top pod --containers --no-headers").lines().count() == 3
    });
    let own = cluster.await_ready_pods_in("kube-system", SERVER, 1);
    top(&cluster, "pod -n kube-system", name(&own[0]));
    let log = cluster.kubectl(&format!("logs -n kube-system deployment/{SERVER}"));
    let complaints: Vec<&str> = log.lines().filter(|line| line.contains("Failed to scrape node")).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));

    cluster.kubectl("delete deployment busy web --timeout=60s");
    cluster.kubectl(&format!("delete apiservice {SERVICE} --timeout=60s"));
    cluster.kubectl(&format!("delete -n kube-system deployment/{SERVER} daemonset/kube-proxy --timeout=60s"));
    cluster.await_no_leases();
}

#[test]
fn kubectl_top_answers_through_metrics_server_on_the_node() {
    answers(Runtime::BuiltIn);
}

#[test]
fn kubectl_top_answers_through_metrics_server_on_a_node_with_containerd() {
    answers(Runtime::Containerd);
}
