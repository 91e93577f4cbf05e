//! The same pod under other feature gates.

use manifest::{read, validate};
use plan::{GateRequests, GateSettings, Gates};

fn gates(version: &str, requests: &str) -> Gates {
    let (version, requests) = (version.parse().unwrap(), GateRequests::parse(requests).unwrap());
    Gates::resolve(&GateSettings { version, requests, disabled: Vec::new() }).unwrap().gates
}

fn faults(spec: &str, gates: &Gates) -> Vec<String> {
    let text = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers: [{{name: c, image: i}}]\n{spec}"
    );
    let reading = read("p.yaml", text.as_bytes());
    assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    validate(&reading.objects[0], gates).iter().map(ToString::to_string).collect()
}

#[test]
fn a_user_namespace_with_the_hosts_network_depends_on_its_gate() {
    let spec = "  hostUsers: false\n  hostNetwork: true\n";
    let found = faults(spec, &Gates::default());
    assert_eq!(found, ["p.yaml:7:3: spec.hostNetwork: not allowed: not with hostUsers: false"]);
    let open = gates("1.37", "UserNamespacesHostNetworkSupport=true");
    assert!(faults(spec, &open).is_empty());
    assert_eq!(faults("  hostUsers: false\n  hostPID: true\n  hostIPC: true\n", &open).len(), 2);
}

#[test]
fn without_the_gate_host_users_says_nothing() {
    let closed = gates("1.32", "");
    assert!(faults("  hostUsers: false\n  hostPID: true\n", &closed).is_empty());
    let unmasked = "  hostUsers: false\n  initContainers: [{name: x, image: i, securityContext: {procMount: Unmasked}}]\n";
    assert!(faults(unmasked, &Gates::default()).is_empty());
    assert_eq!(faults(unmasked, &closed).len(), 1, "all of /proc would be the host's");
    let sysctl = "  hostUsers: false\n  securityContext: {sysctls: [{name: user.max_user_namespaces, value: \"1\"}]}\n";
    assert!(faults(sysctl, &Gates::default()).is_empty());
    assert_eq!(faults(sysctl, &closed).len(), 1);
}

#[test]
fn a_change_policy_is_taken_as_far_as_its_gates_go() {
    let policy = |value: &str| format!("  securityContext: {{seLinuxChangePolicy: {value}}}\n");
    let rows = [
        (gates("1.37", ""), "MountOption", 0),
        (gates("1.37", ""), "Recursive", 0),
        (gates("1.36", ""), "MountOption", 1),
        (gates("1.36", ""), "Recursive", 0),
        (gates("1.37", "SELinuxMount=false"), "MountOption", 1),
        (gates("1.32", ""), "MountOption", 0),
        (gates("1.32", ""), "Never", 1),
        (gates("1.37", ""), "\"\"", 1),
    ];
    for (gates, value, count) in rows {
        assert_eq!(faults(&policy(value), &gates).len(), count, "{value}");
    }
}
