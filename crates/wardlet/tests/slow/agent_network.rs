//! Network, DNS and runtime classes of `wardlet agent` at a real API server.

use serde_json::{Value, json};
use testbed::yardstick;
use testkit::{wait_for, wait_until};

use super::agent::{Cluster, NODE, container_id, pod};

/// Four servers: one more than a resolv.conf may have.
const RESOLV_CONF: &str = "nameserver 10.0.0.1\nnameserver 10.0.0.2\nnameserver 10.0.0.3\nnameserver 10.0.0.4\n\
    search node.test\n";
/// What a pod sees of itself.
const REPORT: &str = "{ hostname; grep ^Seccomp: /proc/self/status; cat /etc/resolv.conf; cat /etc/hosts; } > /dev/termination-log";

/// A pod that runs on, with these fields in its spec. It references nothing.
pub(super) fn plain(name: &str, fields: &Value) -> Value {
    let mut pod = pod(name);
    let spec = pod["spec"].as_object_mut().unwrap();
    spec.remove("volumes");
    spec["containers"][0].as_object_mut().unwrap().remove("volumeMounts");
    spec.extend(fields.as_object().unwrap().clone());
    pod
}

/// A pod that says what it sees, and ends.
fn reporting(name: &str, fields: &Value) -> Value {
    let mut pod = plain(name, fields);
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["spec"]["containers"][0]["command"] = json!(["sh", "-c", REPORT]);
    pod
}

fn ready(cluster: &Cluster) -> Value {
    let conditions = cluster.get(&["node", NODE]).unwrap_or_default()["status"]["conditions"].clone();
    let mut all = conditions.as_array().cloned().unwrap_or_default().into_iter();
    all.find(|one| one["type"] == "Ready").unwrap_or_default()
}

/// The message of the pod's first event with this reason.
fn event(cluster: &Cluster, pod: &str, reason: &str) -> String {
    wait_for(&format!("{reason} of {pod}"), || {
        let events = cluster.get(&["events"])?["items"].as_array().cloned()?;
        let is_it = |event: &&Value| event["reason"] == reason && event["involvedObject"]["name"] == pod;
        Some(events.iter().find(is_it)?["message"].as_str()?.to_owned())
    })
}

fn said(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.pod(name, "succeeds", |pod| pod["status"]["phase"] == "Succeeded");
    let message = &pod["status"]["containerStatuses"][0]["state"]["terminated"]["message"];
    message.as_str().unwrap().to_owned()
}

fn ips(pod: &Value) -> Vec<String> {
    let all = pod["status"]["podIPs"].as_array().cloned().unwrap_or_default();
    all.iter().map(|one| one["ip"].as_str().unwrap().to_owned()).collect()
}

fn flags(cluster: &Cluster) -> Vec<String> {
    let resolv_conf = cluster.dir.path().join("resolv.conf");
    std::fs::write(&resolv_conf, RESOLV_CONF).unwrap();
    let own = ["--cluster-dns=10.96.0.10", "--cluster-domain=kube.test", "--seccomp-default"];
    let own = own.into_iter().map(str::to_owned);
    let own = own.chain([format!("--resolv-conf={}", resolv_conf.display())]);
    cluster.joined().into_iter().chain(own).collect()
}

#[test]
fn pods_get_addresses_of_the_cluster_and_keep_them_and_those_of_the_host_do_not_wait() {
    let cluster = Cluster::start();
    let agent = cluster.agent_without_network(&flags(&cluster));
    let condition = wait_for("the node is not ready for its network", || {
        let condition = ready(&cluster);
        condition["message"].as_str().is_some_and(|text| text.contains("network")).then_some(condition)
    });
    assert_eq!((&condition["status"], &condition["reason"]), (&json!("False"), &json!("KubeletNotReady")));
    let message = condition["message"].as_str().unwrap();
    let start =
        "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:";
    assert!(message.starts_with(start), "{message}");

    cluster.apply(&plain("waits", &json!({})));
    cluster.apply(&plain("host", &json!({"hostNetwork": true, "hostUsers": true})));
    assert_eq!(ips(&cluster.running("host")), ["10.240.0.10"]);
    let waiting = event(&cluster, "waits", "NetworkNotReady");
    assert!(waiting.starts_with("network is not ready: container runtime network not ready: "), "{waiting}");
    assert_eq!(cluster.get(&["pod", "waits"]).unwrap()["status"]["phase"], "Pending");

    yardstick::assign_pod_cidrs(&cluster.testbed, NODE, &["10.244.9.0/24", "fd00:9::/64"]).unwrap();
    wait_until("the node is ready", || ready(&cluster)["status"] == "True");
    let started = cluster.running("waits");
    assert_eq!(ips(&started), ["10.244.9.2", "fd00:9::2"]);

    drop(agent);
    let _agent = cluster.agent_without_network(&flags(&cluster));
    cluster.apply(&plain("later", &json!({})));
    assert_eq!(ips(&cluster.running("later")), ["10.244.9.3", "fd00:9::3"]);
    let adopted = cluster.running("waits");
    assert_eq!((ips(&adopted), container_id(&adopted)), (ips(&started), container_id(&started)));
    ["waits", "host", "later"].into_iter().for_each(|name| cluster.delete(name));
}

#[test]
fn pods_have_dns_names_seccomp_and_handlers_as_the_kubelet_is_configured() {
    let cluster = Cluster::start();
    let _agent = cluster.agent(&flags(&cluster));
    let named = json!({
        "hostname": "db", "subdomain": "back", "setHostnameAsFQDN": true,
        "hostAliases": [{"ip": "10.5.5.5", "hostnames": ["other.test", "other"]}],
    });
    cluster.apply(&reporting("named", &named));
    cluster.apply(&reporting("default", &json!({"dnsPolicy": "Default"})));
    let own = json!({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.9.9.9"], "options": [{"name": "edns0"}]}});
    cluster.apply(&reporting("own", &own));

    let named = said(&cluster, "named");
    let (full, pod) = ("db.back.default.svc.kube.test", cluster.get(&["pod", "named"]).unwrap());
    for line in [
        full,
        "Seccomp:\t2",
        "search default.svc.kube.test svc.kube.test kube.test node.test",
        "nameserver 10.96.0.10",
        "options ndots:5",
        "# Kubernetes-managed hosts file.",
        &format!("{}\t{full}\tdb", pod["status"]["podIP"].as_str().unwrap()),
        "# Entries added by HostAliases.",
        "10.5.5.5\tother.test\tother",
    ] {
        assert_eq!(named.lines().filter(|found| *found == line).count(), 1, "{line:?} in\n{named}");
    }
    let default = said(&cluster, "default");
    let servers: Vec<&str> = default.lines().filter_map(|line| line.strip_prefix("nameserver ")).collect();
    assert_eq!(servers, ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    assert!(default.contains("search node.test\n") && !default.contains("ndots"), "{default}");
    let event_of_default = event(&cluster, "default", "DNSConfigForming");
    assert!(
        event_of_default.ends_with("nameserver line is: 10.0.0.1 10.0.0.2 10.0.0.3"),
        "{event_of_default}"
    );
    let own = said(&cluster, "own");
    assert!(own.contains("nameserver 10.9.9.9\noptions edns0\n") && !own.contains("search"), "{own}");

    // The API server puts the overhead of the class into the pod.
    let class = |name: &str, handler: &str| {
        cluster.apply(&json!({
            "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler,
            "overhead": {"podFixed": {"cpu": "10m", "memory": "16Mi"}},
        }));
    };
    class("usual", "libcontainer");
    class("odd", "no-such-handler");
    cluster.apply(&plain("usual", &json!({"runtimeClassName": "usual"})));
    cluster.apply(&plain("odd", &json!({"runtimeClassName": "odd", "hostUsers": true})));
    assert_eq!(cluster.running("usual")["spec"]["overhead"], json!({"cpu": "10m", "memory": "16Mi"}));
    let message = event(&cluster, "odd", "FailedCreatePodSandBox");
    assert!(message.contains("no-such-handler"), "{message}");
    assert_eq!(cluster.get(&["pod", "odd"]).unwrap()["status"]["phase"], "Pending");
    let handlers = cluster.get(&["node", NODE]).unwrap()["status"]["runtimeHandlers"].clone();
    let names: Vec<&str> =
        handlers.as_array().unwrap().iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.contains(&"libcontainer") && names.contains(&""), "{names:?}");
    ["named", "default", "own", "usual", "odd"].into_iter().for_each(|name| cluster.delete(name));
}
