//! Services of a cluster: kube-proxy and CoreDNS as pods of our node, and an isolated pod that finds Services by name and
//! reaches them by their addresses.

use serde_json::{Value, json};
use testbed::Part;
use testkit::{wait_for, wait_until};

use crate::cluster::pods::{deployment, spec, template, workload};
use crate::cluster::{Cluster, NODE, Runtime, name};

/// The address of the cluster's DNS.
const DNS: &str = "10.96.0.10";
const DOMAIN: &str = "cluster.local";

const COREFILE: &str = ".:53 {
    errors
    health
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        ttl 30
    }
    cache 5
}
";

/// The host does not allow a change of the size of its connection tracking.
const PROXY: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: iptables
clientConnection: {kubeconfig: /var/lib/kube-proxy/kubeconfig}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
iptables: {localhostNodePorts: false}
";

const PROXY_KUBECONFIG: &str = "apiVersion: v1
kind: Config
clusters:
- name: default
  cluster:
    server: https://10.240.0.10:6443
    certificate-authority: /var/run/secrets/kubernetes.io/serviceaccount/ca.crt
users:
- name: default
  user: {tokenFile: /var/run/secrets/kubernetes.io/serviceaccount/token}
contexts:
- name: default
  context: {cluster: default, user: default}
current-context: default
";

pub(crate) fn service_account(cluster: &Cluster, name: &str, role: &str) {
    let metadata = json!({"name": name, "namespace": "kube-system"});
    cluster.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}));
    cluster.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}],
    }));
}

fn config_map(cluster: &Cluster, name: &str, data: &Value) {
    let metadata = json!({"name": name, "namespace": "kube-system"});
    cluster.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}));
}

/// The testbed's API server does not announce its own address.
pub(crate) fn announce_api_server(cluster: &Cluster) {
    cluster.apply(&json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"}},
        "endpoints": [{"addresses": ["10.240.0.10"], "conditions": {"ready": true}}],
        "ports": [{"name": "https", "port": 6443, "protocol": "TCP"}],
    }));
}

pub(crate) fn kube_proxy(cluster: &Cluster) {
    service_account(cluster, "kube-proxy", "system:node-proxier");
    config_map(cluster, "kube-proxy", &json!({"config.conf": PROXY, "kubeconfig": PROXY_KUBECONFIG}));
    let image = cluster.import_component("kube-proxy");
    let spec = json!({
        "serviceAccountName": "kube-proxy", "hostNetwork": true, "priorityClassName": "system-node-critical",
        "tolerations": [{"operator": "Exists"}],
        "volumes": [
            {"name": "settings", "configMap": {"name": "kube-proxy"}},
            {"name": "lock", "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"}},
        ],
        "containers": [{
            "name": "kube-proxy", "image": image.name, "imagePullPolicy": "IfNotPresent",
            "command": [image.program, "--config=/var/lib/kube-proxy/config.conf", "--hostname-override=$(NODE_NAME)"],
            "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
            "securityContext": {"privileged": true},
            "readinessProbe": {"httpGet": {"path": "/healthz", "port": 10256}, "periodSeconds": 1},
            "volumeMounts": [
                {"name": "settings", "mountPath": "/var/lib/kube-proxy"},
                {"name": "lock", "mountPath": "/run/xtables.lock"},
            ],
        }],
    });
    cluster.apply(&in_system(workload("DaemonSet", "kube-proxy", &spec)));
}

/// An isolated pod, as everything that does not need the host.
fn coredns(cluster: &Cluster) {
    cluster.apply(&json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "coredns"},
        "rules": [
            {"apiGroups": [""], "resources": ["services", "pods", "namespaces"], "verbs": ["list", "watch"]},
            {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]},
        ],
    }));
    service_account(cluster, "coredns", "coredns");
    config_map(cluster, "coredns", &json!({"Corefile": COREFILE}));
    let image = cluster.import_component("coredns");
    let spec = json!({
        "serviceAccountName": "coredns", "dnsPolicy": "Default", "hostUsers": false,
        "volumes": [{"name": "settings", "configMap": {"name": "coredns"}}],
        "containers": [{
            "name": "coredns", "image": image.name, "imagePullPolicy": "IfNotPresent",
            "command": [image.program, "-conf", "/etc/coredns/Corefile"],
            "env": [{"name": "POD_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}}],
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]},
            },
            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
            "volumeMounts": [{"name": "settings", "mountPath": "/etc/coredns", "readOnly": true}],
        }],
    });
    cluster.apply(&in_system(workload("Deployment", "coredns", &spec)));
    let ports = json!([{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]);
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"clusterIP": DNS, "selector": {"app": "coredns"}, "ports": ports},
    }));
}

pub(crate) fn in_system(mut workload: Value) -> Value {
    workload["metadata"]["namespace"] = json!("kube-system");
    workload
}

/// Looks up and reaches the API server's Service, and fetches from the other one by each of its names.
const ASKING: &str = "nslookup kubernetes.default.svc.cluster.local || exit 1
nc -w 5 kubernetes.default.svc.cluster.local 443 < /dev/null && echo the API server is reached || exit 1
for host in web web.default web.default.svc.cluster.local $WEB_SERVICE_HOST; do
    echo \"$host: $(wget -q -O - http://$host/ok)\" || exit 1
done
echo backends: $(for n in $(seq 20); do wget -q -O - http://web/name; done | sort -u | wc -l)
cat /proc/self/uid_map";

fn asking_pod() -> Value {
    let mut spec = spec(ASKING);
    spec["restartPolicy"] = json!("Never");
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "asking", "namespace": "default"},
        "spec": {"backoffLimit": 0, "template": template("asking", &spec)},
    });
    job["spec"]["template"]["spec"]["containers"][0]["terminationMessagePolicy"] =
        json!("FallbackToLogsOnError");
    job
}

/// Two pods, each of which serves its own name, too.
fn web_deployment() -> Value {
    let text = deployment("web", 2).to_string();
    serde_json::from_str(&text.replace("echo ok > /www/ok", "echo ok > /www/ok; hostname > /www/name"))
        .unwrap()
}

fn services(runtime: Runtime) {
    let mut cluster = Cluster::of(runtime, &[Part::ControllerManager, Part::Scheduler]);
    cluster.kubelet = json!({"clusterDNS": [DNS], "clusterDomain": DOMAIN});
    cluster.import();
    let _agent = cluster.agent();
    cluster.await_node_ready();
    announce_api_server(&cluster);
    kube_proxy(&cluster);
    cluster.kubectl("rollout status -n kube-system daemonset/kube-proxy --timeout=120s");
    coredns(&cluster);
    cluster.kubectl("rollout status -n kube-system deployment/coredns --timeout=120s");
    cluster.apply(&web_deployment());
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8080}]},
    }));
    let web = cluster.await_ready_pods("web", 2);
    let of_dns = cluster.list("pods -n kube-system -l app=coredns");
    cluster.each_pod_has_its_own_block(&[web, of_dns].concat());
    let address = cluster.get("service web").unwrap()["spec"]["clusterIP"].as_str().unwrap().to_owned();

    cluster.apply(&asking_pod());
    let asked = wait_for("the pod has asked", || {
        let pods = cluster.list("pods -l app=asking");
        let phase =
            |pod: &&Value| ["Succeeded", "Failed"].map(Some).contains(&pod["status"]["phase"].as_str());
        pods.iter().find(phase).cloned()
    });
    let said = cluster.kubectl(&format!("logs {}", name(&asked)));
    assert_eq!(asked["status"]["phase"], "Succeeded", "{said}");
    for line in
        ["Address: 10.96.0.1", "the API server is reached", "web: ok", "web.default: ok", "backends: 2"]
    {
        assert!(said.lines().any(|found| found.trim().starts_with(line)), "{line:?} in\n{said}");
    }
    for host in ["web.default.svc.cluster.local", &address] {
        assert!(said.contains(&format!("{host}: ok")), "{host} in\n{said}");
    }
    let map = said.lines().last().unwrap().split_whitespace().nth(1).unwrap().to_owned();
    assert_ne!(map, "0", "the pod has a user namespace of its own");
    assert_eq!(cluster.get(&format!("node {NODE}")).unwrap()["spec"]["unschedulable"], Value::Null);

    cluster.kubectl("delete job/asking deployment/web --timeout=60s");
    cluster.kubectl("delete -n kube-system deployment/coredns daemonset/kube-proxy --timeout=60s");
    cluster.await_no_leases();
    wait_until("no pod is left", || cluster.json(&["ps"]) == json!([]));
}

#[test]
fn an_isolated_pod_finds_and_reaches_services_through_kube_proxy_and_coredns_of_the_node() {
    services(Runtime::BuiltIn);
}

#[test]
fn an_isolated_pod_on_containerd_finds_and_reaches_services_through_kube_proxy_and_coredns() {
    services(Runtime::Containerd);
}
