use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

use super::*;

fn pod(name: &str, spec: Value) -> Pod {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "i"}]}});
    let Value::Object(fields) = spec else { panic!("{spec}") };
    for (key, value) in fields {
        pod["spec"][key] = value;
    }
    serde_json::from_value(pod).unwrap()
}

fn requesting(name: &str, requests: Value) -> Pod {
    let mut container = json!({"name": "a", "image": "i"});
    container["resources"]["requests"] = requests;
    pod(name, json!({"containers": [container]}))
}

fn node() -> NodeFacts {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n1", "labels": {"kubernetes.io/os": "linux", "disk": "ssd"}},
        "status": {"allocatable": {"cpu": "4", "memory": "1Gi", "ephemeral-storage": "10Gi", "pods": "3",
            "example.com/gpu": "2", "hugepages-2Mi": "0"}},
    }))
    .unwrap();
    NodeFacts::of(&node)
}

fn outcome(pod: &Pod, node: &NodeFacts, admitted: &[&Pod]) -> Admission {
    judge(NodePod { pod, phase: "Pending" }, node, admitted)
}

fn rejected(pod: &Pod, node: &NodeFacts, admitted: &[&Pod]) -> Option<(String, String)> {
    match outcome(pod, node, admitted) {
        Admission::Rejected(Rejection { reason, message }) => Some((reason, message)),
        _ => None,
    }
}

fn is(reason: &str, message: &str) -> Option<(String, String)> {
    Some((reason.to_owned(), message.to_owned()))
}

/// Each check alone, with the kubelet's reason and message.
#[test]
fn each_rejection_has_the_kubelets_reason_and_message() {
    let taken =
        pod("taken", json!({"containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 80}]}]}));
    let busy = requesting("busy", json!({"cpu": "3500m", "memory": "1Gi", "example.com/gpu": "2"}));
    let tainted = NodeFacts {
        taints: serde_json::from_value(json!([
            {"key": "k", "value": "v", "effect": "NoExecute"}, {"key": "other", "effect": "NoSchedule"},
        ]))
        .unwrap(),
        ..node()
    };
    let short = |pressure: &[NodeCondition]| NodeFacts { pressure: pressure.to_vec(), ..node() };
    let disk = short(&[NodeCondition::MemoryPressure, NodeCondition::DiskPressure]);
    let plain = node();
    let cases = [
        (
            pod("p", json!({})),
            &disk,
            None,
            "Evicted",
            "The node had condition: [MemoryPressure DiskPressure]. ",
        ),
        (
            pod("p", json!({"securityContext": {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}})),
            &plain,
            None,
            "SysctlForbidden",
            "forbidden sysctl: \"kernel.msgmax\" not allowlisted",
        ),
        (
            pod(
                "p",
                json!({"hostNetwork": true,
                    "securityContext": {"sysctls": [{"name": "net.ipv4.tcp_syncookies", "value": "1"}]}}),
            ),
            &plain,
            None,
            "SysctlForbidden",
            "forbidden sysctl: \"net.ipv4.tcp_syncookies\" not allowed with host net enabled",
        ),
        (
            pod("p", json!({"os": {"name": "windows"}})),
            &plain,
            None,
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ),
        (
            pod("p", json!({"securityContext": {"supplementalGroupsPolicy": "Strict"}})),
            &plain,
            None,
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        ),
        (
            requesting("p", json!({"cpu": "2"})),
            &plain,
            Some(&busy),
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 2000, used: 3500, capacity: 4000",
        ),
        (
            requesting("p", json!({"memory": "1"})),
            &plain,
            Some(&busy),
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 1, used: 1073741824, capacity: 1073741824",
        ),
        (
            requesting("p", json!({"ephemeral-storage": "11Gi"})),
            &plain,
            None,
            "OutOfephemeral-storage",
            "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, capacity: 10737418240",
        ),
        (
            requesting("p", json!({"example.com/gpu": "1"})),
            &plain,
            Some(&busy),
            "OutOfexample.com/gpu",
            "Node didn't have enough resource: example.com/gpu, requested: 1, used: 2, capacity: 2",
        ),
        (
            requesting("p", json!({"hugepages-2Mi": "2Mi"})),
            &plain,
            None,
            "OutOfhugepages-2Mi",
            "Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0",
        ),
        (
            pod("p", json!({"nodeSelector": {"disk": "hdd"}})),
            &plain,
            None,
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            pod("p", json!({"nodeName": "n2"})),
            &plain,
            None,
            "NodeName",
            "Predicate NodeName failed: node(s) didn't match the requested node name",
        ),
        (
            taken.clone(),
            &plain,
            Some(&taken),
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
        (
            pod("p", json!({"tolerations": [{"key": "k", "value": "w"}]})),
            &tainted,
            None,
            "TaintToleration",
            "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
        ),
        (
            pod("p", json!({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}})),
            &plain,
            None,
            "AppArmor",
            "Cannot enforce AppArmor: AppArmor is not enabled on the host",
        ),
        (
            pod("p", json!({"hostNetwork": true, "hostUsers": false})),
            &plain,
            None,
            "PodFeatureUnsupported",
            "Pod requires node features that are not available: UserNamespacesHostNetworkSupport",
        ),
    ];
    for (pod, node, beside, reason, message) in cases {
        let beside: Vec<&Pod> = beside.into_iter().collect();
        assert_eq!(rejected(&pod, node, &beside), is(reason, message));
    }
    let labelled: Pod = serde_json::from_value(json!({
        "metadata": {"name": "p", "labels": {"kubernetes.io/os": "windows"}}, "spec": {"containers": []},
    }))
    .unwrap();
    let message = "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label";
    assert_eq!(rejected(&labelled, &plain, &[]), is("PodOSSelectorNodeLabelDoesNotMatch", message));
}

/// A pod with every fault loses one after the other.
#[test]
fn the_first_reason_is_reported_in_the_kubelets_order() {
    let mut node = NodeFacts {
        pressure: vec![NodeCondition::PidPressure],
        taints: serde_json::from_value(json!([{"key": "k", "effect": "NoExecute"}])).unwrap(),
        ..node()
    };
    node.allocatable.insert("pods".to_owned(), types::Quantity::from_units(1));
    let wanted = json!({
        "metadata": {"name": "p", "labels": {"kubernetes.io/os": "windows"}},
        "spec": {
            "hostNetwork": true, "hostUsers": false, "os": {"name": "windows"}, "nodeName": "n2",
            "nodeSelector": {"disk": "hdd"},
            "securityContext": {"supplementalGroupsPolicy": "Strict", "appArmorProfile": {"type": "Localhost"},
                "sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
            "containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 80}], "resources": {"requests":
                {"cpu": "5", "memory": "2Gi", "ephemeral-storage": "11Gi", "hugepages-2Mi": "2Mi", "example.com/gpu": "3"}}}],
        },
    });
    let other =
        pod("other", json!({"containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 80}]}]}));
    let mut pod: Pod = serde_json::from_value(wanted).unwrap();
    let mut found = Vec::new();
    while let Some((reason, _)) = rejected(&pod, &node, &[&other]) {
        let spec = pod.spec.as_mut().unwrap();
        let context = spec.security_context.as_mut().unwrap();
        let container = &mut spec.containers[0];
        match reason.as_str() {
            "Evicted" => node.pressure.clear(),
            "SysctlForbidden" => context.sysctls = None,
            "PodOSSelectorNodeLabelDoesNotMatch" => pod.metadata.labels = None,
            "PodOSNotSupported" => spec.os = None,
            "SupplementalGroupsPolicyNotSupported" => context.supplemental_groups_policy = None,
            "OutOfpods" => drop(node.allocatable.insert("pods".to_owned(), types::Quantity::from_units(9))),
            "NodeAffinity" => spec.node_selector = None,
            "NodeName" => spec.node_name = None,
            "NodePorts" => container.ports = None,
            "TaintToleration" => node.taints.clear(),
            "AppArmor" => node.apparmor = true,
            "PodFeatureUnsupported" => spec.host_users = None,
            other => {
                let requests = container.resources.as_mut().unwrap().requests.as_mut().unwrap();
                requests.remove(other.strip_prefix("OutOf").unwrap()).unwrap();
            }
        }
        found.push(reason);
    }
    let expected = "Evicted SysctlForbidden PodOSSelectorNodeLabelDoesNotMatch PodOSNotSupported \
        SupplementalGroupsPolicyNotSupported OutOfpods OutOfcpu OutOfmemory OutOfephemeral-storage \
        OutOfexample.com/gpu OutOfhugepages-2Mi NodeAffinity NodeName NodePorts TaintToleration AppArmor \
        PodFeatureUnsupported";
    assert_eq!(found.join(" "), expected);
}

#[test]
fn what_a_kubelet_leaves_to_others_is_no_reason() {
    let plain = node();
    let admits = |pod: &Pod, node: &NodeFacts| outcome(pod, node, &[]) == Admission::Admitted;
    // A device that the node does not have.
    assert!(admits(&requesting("p", json!({"example.org/fpga": "1"})), &plain));
    let unschedulable: Vec<_> =
        serde_json::from_value(json!([{"key": "k", "effect": "NoSchedule"}])).unwrap();
    assert!(admits(&pod("p", json!({})), &NodeFacts { taints: unschedulable, ..node() }));
    // Memory alone is short: pods that request something, or tolerate it.
    let short = NodeFacts { pressure: vec![NodeCondition::MemoryPressure], ..node() };
    assert!(!admits(&pod("p", json!({})), &short));
    assert!(admits(&requesting("p", json!({"cpu": "1m"})), &short));
    let tolerant =
        json!({"tolerations": [{"key": "node.kubernetes.io/memory-pressure", "operator": "Exists"}]});
    assert!(admits(&pod("p", tolerant), &short));
    // A pod that ran before AppArmor was switched off.
    let confined = pod("p", json!({"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}));
    let running = NodePod { pod: &confined, phase: "Running" };
    assert_eq!(judge(running, &plain, &[]), Admission::Admitted);
    let allowed = NodeFacts { allowed_unsafe_sysctls: vec!["kernel.msg*".to_owned()], ..node() };
    let sysctl = json!({"securityContext": {"sysctls": [{"name": "kernel/msgmax", "value": "1"}]}});
    assert!(admits(&pod("p", sysctl), &allowed));
}

#[test]
fn a_pod_needs_what_its_containers_need_at_one_time() {
    let with = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let spec = json!({
        "initContainers": [
            {"name": "early", "resources": with("900m")},
            {"name": "side", "restartPolicy": "Always", "resources": with("300m")},
            {"name": "late", "resources": with("700m")},
        ],
        "containers": [{"name": "a", "resources": with("500m")}, {"name": "b", "resources": with("100m")}],
        "overhead": {"cpu": "50m"},
    });
    let requested = |spec: &Value| requests::of_pod(pod("p", spec.clone()).spec.as_ref().unwrap()).of("cpu");
    // The late init container runs beside the sidecar.
    assert_eq!(requested(&spec), 1050);
    let mut without_late = spec.clone();
    without_late["initContainers"].as_array_mut().unwrap().pop();
    assert_eq!(requested(&without_late), 950);
    let mut as_a_whole = spec;
    as_a_whole["resources"] = with("2");
    assert_eq!(requested(&as_a_whole), 2050);
}

#[test]
fn ports_conflict_by_number_protocol_and_address() {
    let with = |port: Value| pod("p", json!({"containers": [{"name": "a", "ports": [port]}]}));
    let port = |address: &str, protocol: &str| {
        with(json!({"containerPort": 1, "hostPort": 80, "hostIP": address, "protocol": protocol}))
    };
    let conflicts = |one: &Pod, other: &Pod| rejected(one, &node(), &[other]).is_some();
    assert!(conflicts(&port("", "TCP"), &port("10.0.0.1", "TCP")));
    assert!(conflicts(&port("10.0.0.1", "TCP"), &port("0.0.0.0", "")));
    assert!(!conflicts(&port("10.0.0.1", "TCP"), &port("10.0.0.2", "TCP")));
    assert!(!conflicts(&port("", "UDP"), &port("", "TCP")));
    assert!(!conflicts(&with(json!({"containerPort": 80})), &port("", "TCP")));
}

fn with_priority(mut pod: Pod, priority: i32) -> Pod {
    pod.spec.as_mut().unwrap().priority = Some(priority);
    pod
}

#[test]
fn a_critical_pod_is_rejected_for_other_reasons_only() {
    let critical = with_priority(requesting("dns", json!({"cpu": "5", "memory": "1Gi"})), 2_000_000_000);
    let required = |resource: &str, amount| Requirement { resource: resource.to_owned(), amount };
    assert_eq!(outcome(&critical, &node(), &[]), Admission::Preempts(vec![required("cpu", 1000)]));
    let mut elsewhere = critical.clone();
    elsewhere.spec.as_mut().unwrap().node_name = Some("n2".to_owned());
    assert_eq!(rejected(&elsewhere, &node(), &[]).unwrap().0, "NodeName");
    // A static pod is critical, and no taint ends it.
    let mut file = requesting("proxy", json!({"cpu": "5"}));
    file.metadata.annotations = Some(BTreeMap::from([(SOURCE.to_owned(), "file".to_owned())]));
    let taints = serde_json::from_value(json!([{"key": "k", "effect": "NoExecute"}])).unwrap();
    let tainted = NodeFacts { taints, ..node() };
    assert!(matches!(outcome(&file, &tainted, &[]), Admission::Preempts(_)));
}

#[test]
fn pods_of_the_lowest_class_that_fit_best_are_ended() {
    let best_effort = pod("best-effort", json!({}));
    let small = requesting("small", json!({"cpu": "500m", "memory": "100Mi"}));
    let large = requesting("large", json!({"cpu": "2", "memory": "100Mi"}));
    let limits = json!({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}});
    let guaranteed = pod("guaranteed", json!({"containers": [{"name": "a", "resources": limits}]}));
    let critical = with_priority(requesting("dns", json!({})), 2_000_000_000);
    let also_critical = with_priority(large.clone(), 2_000_000_000);
    let admitted = [&guaranteed, &large, &best_effort, &small, &also_critical];
    let chosen = |cpu: i64, pods: i64| {
        let all = [("cpu", cpu), ("pods", pods)].into_iter().filter(|(_, amount)| *amount > 0);
        let required: Vec<Requirement> =
            all.map(|(resource, amount)| Requirement { resource: resource.to_owned(), amount }).collect();
        victims(&critical, &required, &admitted)
    };
    assert_eq!(chosen(0, 1), Ok(vec![2]));
    assert_eq!(chosen(500, 0), Ok(vec![3]));
    assert_eq!(chosen(600, 0), Ok(vec![1]));
    assert_eq!(chosen(2500, 1), Ok(vec![1, 3]));
    assert_eq!(chosen(3000, 0), Ok(vec![1, 0]));
    let error = chosen(4000, 0).unwrap_err().to_string();
    assert_eq!(
        error,
        "preemption: error finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 500), ]"
    );
    // A more important critical pod may end another one.
    let higher = with_priority(critical, 2_000_001_000);
    let required = [Requirement { resource: "cpu".to_owned(), amount: 5500 }];
    assert_eq!(victims(&higher, &required, &admitted).unwrap().len(), 4);
}
