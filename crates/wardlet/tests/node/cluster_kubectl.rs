//! What kubectl prints of a node that is `wardlet agent`, beside what it prints of a node with a kubelet in the same cluster.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use testbed::Part;
use testbed::images::BUSYBOX;
use testkit::wait_until;

use crate::cluster::pods::{LASTING, spec, workload};
use crate::cluster::{Cluster, NODE, Runtime, name, text};

/// The node of the kubelet.
const KUBELET: &str = "node0";
/// The cgroup of our node: each node removes what it does not know below its own.
const CGROUP: &str = "ours";

/// Makes the cgroup of our node in every hierarchy.
fn make_cgroup(cluster: &Cluster) {
    let script = format!(
        "for d in /sys/fs/cgroup /sys/fs/cgroup/*; do [ -e $d/cgroup.procs ] || continue; mkdir -p $d/{CGROUP}; \
         for f in cpus mems; do [ ! -e $d/cpuset.$f ] || cat $d/cpuset.$f > $d/{CGROUP}/cpuset.$f; done; done"
    );
    let made = cluster.testbed.command("sh").args(["-c", &script]).output().unwrap();
    assert!(made.status.success(), "{}", text(&made));
}

/// A cluster with both nodes, and a DaemonSet that has a pod on each.
fn both() -> (Cluster, crate::cluster::Agent) {
    let mut cluster =
        Cluster::of(Runtime::BuiltIn, &[Part::ControllerManager, Part::Scheduler, Part::Kubelet]);
    cluster.import();
    make_cgroup(&cluster);
    // Both have the address of the testbed, and the kubelet's ports are taken.
    cluster.kubelet = json!({"port": 10350, "healthzPort": 10348, "cgroupRoot": format!("/{CGROUP}")});
    // A kubelet removes what it does not know from its own.
    cluster.flags = vec![format!("--root-dir={}", cluster.path("kubelet").display())];
    let agent = cluster.agent();
    cluster.await_node_ready();
    for node in [KUBELET, NODE] {
        let lease = format!("lease {node} -n kube-node-lease");
        wait_until("the node has its Lease", || cluster.get(&lease).is_some());
        let events = format!("events --field-selector reason=RegisteredNode,involvedObject.name={node}");
        wait_until("the node's controller has seen the node", || !cluster.list(&events).is_empty());
    }
    (cluster, agent)
}

/// The lines of an output without what differs between any two pods or nodes: names, numbers, times, addresses, IDs, and how often
/// an event was repeated.
fn shape(text: &str) -> Vec<String> {
    text.lines()
        .map(|line| {
            let indent: String = line.chars().take_while(|letter| *letter == ' ').collect();
            let words = line.split_whitespace().map(|word| {
                if word.chars().any(|letter| letter.is_ascii_digit()) || word.contains("://") {
                    "N"
                } else {
                    word
                }
            });
            let mut words: Vec<&str> = words.collect();
            words.dedup_by(|one, other| one == other && *one == "N");
            format!("{indent}{}", words.join(" ").replace("N over N", "N"))
        })
        .filter(|line| !line.trim().is_empty())
        .collect()
}

/// Lines that only one of two outputs has.
fn differences(what: &str, kubelet: &str, ours: &str) -> Vec<String> {
    let [theirs, own] = [kubelet, ours].map(|text| shape(text).into_iter().collect::<BTreeSet<_>>());
    let only = |of: &str, one: &BTreeSet<String>, other: &BTreeSet<String>| {
        let lines = one.difference(other);
        lines.map(|line| format!("{what}: only the {of}: {line}")).collect::<Vec<_>>()
    };
    [only("kubelet's", &theirs, &own), only("agent's", &own, &theirs)].concat()
}

/// What the same command prints of the one and of the other.
struct Compared<'a> {
    cluster: &'a Cluster,
    found: Vec<String>,
}

impl Compared<'_> {
    fn beside(&mut self, words: &str, theirs: &str, ours: &str) {
        let [theirs, ours] = [theirs, ours].map(|of| {
            let printed = self.cluster.kubectl(&words.replace("{}", of));
            printed.replace(of, "NAME").replace(KUBELET, "NODE").replace(NODE, "NODE")
        });
        self.found.extend(differences(words, &theirs, &ours));
    }
}

fn pod_on<'a>(pods: &'a [Value], node: &str) -> &'a str {
    name(pods.iter().find(|pod| pod["spec"]["nodeName"] == node).unwrap())
}

#[test]
fn kubectl_prints_of_our_node_what_it_prints_of_a_kubelets() {
    let (cluster, _agent) = both();
    let mut spec = spec(&format!("echo first; echo second; {LASTING}"));
    spec["containers"][0]["resources"] = json!({"requests": {"cpu": "10m"}, "limits": {"memory": "64Mi"}});
    spec["containers"][0]["livenessProbe"] = json!({"exec": {"command": ["true"]}});
    spec["volumes"] = json!([{"name": "scratch", "emptyDir": {}}]);
    spec["containers"][0]["volumeMounts"] = json!([{"name": "scratch", "mountPath": "/scratch"}]);
    cluster.apply(&workload("DaemonSet", "each", &spec));
    cluster.kubectl("rollout status daemonset/each --timeout=120s");
    let pods = cluster.await_ready_pods("each", 2);
    let (theirs, ours) = (pod_on(&pods, KUBELET), pod_on(&pods, NODE));
    let mut compared = Compared { cluster: &cluster, found: Vec::new() };
    for words in ["get node {} -o wide", "describe node {}", "get node {} --show-labels"] {
        compared.beside(words, KUBELET, NODE);
    }
    let of_pods = [
        "get pod {} -o wide",
        "describe pod {}",
        "logs {}",
        "logs {} --tail=1 --timestamps",
        "logs {} --since=1h --limit-bytes=3",
        "annotate pod {} note=written",
        "label pod {} colour=blue",
    ];
    for words in of_pods {
        compared.beside(words, theirs, ours);
    }
    compared.beside(
        &format!("debug {{}} --image={BUSYBOX} --image-pull-policy=IfNotPresent --profile=general -c debugger -- id -u"),
        theirs,
        ours,
    );
    cluster.await_pods("each", 2, |pod| {
        pod["status"]["ephemeralContainerStatuses"][0]["state"]["terminated"].is_object()
    });
    compared.beside("logs {} -c debugger", theirs, ours);
    compared.beside("describe pod {}", theirs, ours);
    for words in [
        "cordon {}",
        "get node {} --no-headers",
        "drain {} --ignore-daemonsets --delete-emptydir-data",
        "uncordon {}",
    ] {
        compared.beside(words, KUBELET, NODE);
    }
    compared.beside("delete pod {} --timeout=60s", theirs, ours);
    assert!(compared.found.is_empty(), "{}", compared.found.join("\n"));
    cluster.kubectl("delete daemonset each --timeout=60s");
    cluster.await_no_leases();
}
