//! The Pod Security Standards with and without user namespaces, and defaults.

use std::collections::BTreeSet;

use manifest::{Level, StaticSource, read, static_pod, violations};

fn pod(spec: &str) -> String {
    format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n{spec}")
}

/// The names of the checks that say something.
fn checks(spec: &str, level: Level, version: &str) -> BTreeSet<&'static str> {
    let reading = read("p.yaml", pod(spec).as_bytes());
    assert!(reading.findings.is_empty(), "{:?}", reading.findings);
    let pod = reading.objects[0].pod().unwrap();
    violations(&pod, level, version.parse().unwrap()).into_iter().map(|v| v.check).collect()
}

const GOOD: &str = "  securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}\n  containers:\n  - {name: c, image: i, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}}}\n";
const PLAIN: &str = "  containers: [{name: c, image: i}]\n";

#[test]
fn a_plain_pod_is_baseline_and_a_careful_one_restricted() {
    assert!(checks(PLAIN, Level::Baseline, "1.37").is_empty());
    assert!(checks(GOOD, Level::Restricted, "1.37").is_empty());
    let missing = BTreeSet::from([
        "allowPrivilegeEscalation",
        "capabilities_restricted",
        "runAsNonRoot",
        "seccompProfile_restricted",
    ]);
    assert_eq!(checks(PLAIN, Level::Restricted, "1.37"), missing);
    assert!(checks("  hostPID: true\n  containers: []\n", Level::Privileged, "1.37").is_empty());
}

#[test]
fn each_check_of_the_baseline_finds_what_it_is_for() {
    let rows = [
        ("hostNamespaces", "hostNetwork: true, containers: []"),
        ("hostNamespaces", "hostPID: true, hostIPC: true, containers: []"),
        ("privileged", "containers: [{name: c, securityContext: {privileged: true}}]"),
        ("privileged", "initContainers: [{name: c, securityContext: {privileged: true}}]"),
        (
            "capabilities_baseline",
            "containers: [{name: c, securityContext: {capabilities: {add: [NET_ADMIN]}}}]",
        ),
        ("hostPathVolumes", "containers: [], volumes: [{name: v, hostPath: {path: /}}]"),
        ("hostPorts", "containers: [{name: c, ports: [{containerPort: 1, hostPort: 1}]}]"),
        (
            "appArmorProfile",
            "containers: [{name: c, securityContext: {appArmorProfile: {type: Unconfined}}}]",
        ),
        ("seLinuxOptions", "containers: [], securityContext: {seLinuxOptions: {type: spc_t}}"),
        ("seLinuxOptions", "containers: [], securityContext: {seLinuxOptions: {user: system_u}}"),
        ("procMount", "containers: [{name: c, securityContext: {procMount: Unmasked}}]"),
        ("seccompProfile_baseline", "containers: [], securityContext: {seccompProfile: {type: Unconfined}}"),
        ("sysctls", "containers: [], securityContext: {sysctls: [{name: kernel.msgmax, value: x}]}"),
        ("windowsHostProcess", "containers: [], securityContext: {windowsOptions: {hostProcess: true}}"),
        (
            "hostProbesAndHostLifecycle",
            "containers: [{name: c, livenessProbe: {httpGet: {host: other, port: 1}}}]",
        ),
    ];
    for (check, spec) in rows {
        let text = format!("  {}\n", spec.replace("], ", "]\n  ").replace("true, ", "true\n  "));
        assert_eq!(checks(&text, Level::Baseline, "1.37"), BTreeSet::from([check]), "{spec}");
    }
}

#[test]
fn in_a_user_namespace_root_and_proc_are_allowed_from_1_35_on() {
    let root = GOOD.replace("runAsNonRoot: true", "runAsUser: 0");
    let isolated = format!("  hostUsers: false\n{root}");
    let said = BTreeSet::from(["runAsNonRoot", "runAsUser"]);
    assert_eq!(checks(&root, Level::Restricted, "1.37"), said);
    assert_eq!(checks(&isolated, Level::Restricted, "1.34"), said);
    assert!(checks(&isolated, Level::Restricted, "1.35").is_empty());
    assert_eq!(checks(&format!("  hostUsers: true\n{root}"), Level::Restricted, "1.37"), said);
    let unmasked = GOOD.replace("allowPriv", "procMount: Unmasked, allowPriv");
    let isolated = format!("  hostUsers: false\n{unmasked}");
    assert!(checks(&isolated, Level::Baseline, "1.35").is_empty());
    assert_eq!(checks(&isolated, Level::Baseline, "1.34"), BTreeSet::from(["procMount"]));
    assert_eq!(
        checks(&isolated, Level::Restricted, "1.37"),
        BTreeSet::from(["procMount_restricted"]),
        "not relaxed above the baseline"
    );
}

#[test]
fn a_user_namespace_relaxes_nothing_else() {
    let spec = "  hostUsers: false\n  containers: [{name: c, securityContext: {privileged: true, capabilities: {add: [SYS_ADMIN]}}}]\n  volumes: [{name: v, hostPath: {path: /}}]\n";
    let said = BTreeSet::from(["privileged", "capabilities_baseline", "hostPathVolumes"]);
    assert_eq!(checks(spec, Level::Baseline, "1.37"), said);
}

/// A pod, and the checks of a level and version that it fails.
struct Case {
    spec: &'static str,
    level: Level,
    version: &'static str,
    fails: &'static [&'static str],
}

const fn case(
    spec: &'static str,
    level: Level,
    version: &'static str,
    fails: &'static [&'static str],
) -> Case {
    Case { spec, level, version, fails }
}

#[test]
fn pods_on_the_edge_of_a_check_are_judged_as_upstreams_evaluator_judges_them() {
    const HOST: &[&str] = &["hostProbesAndHostLifecycle"];
    const LOOPBACK: &str = "containers: [{name: c, livenessProbe: {httpGet: {host: 127.0.0.1, port: 1}}}]";
    const LOOPBACK_6: &str = "containers: [{name: c, readinessProbe: {tcpSocket: {host: '::1', port: 1}}}]";
    const HOOK: &str = "containers: [{name: c, lifecycle: {preStop: {tcpSocket: {host: other, port: 1}}}}]";
    const NO_HOST: &str = "containers: [{name: c, lifecycle: {postStart: {tcpSocket: {port: 1}}}}]";
    const IDLE: &str = "securityContext: {sysctls: [{name: net.ipv4.tcp_slow_start_after_idle, value: '0'}]}\n  containers: []";
    const LOWAT: &str =
        "securityContext: {sysctls: [{name: net.ipv4.tcp_notsent_lowat, value: '1'}]}\n  containers: []";
    const SLASHES: &str =
        "securityContext: {sysctls: [{name: net/ipv4/tcp_syncookies, value: '1'}]}\n  containers: []";
    const WINDOWS: &str = "os: {name: windows}\n  securityContext: {runAsNonRoot: true}\n  containers: [{name: c, securityContext: {capabilities: {add: [NET_ADMIN]}, seccompProfile: {type: Unconfined}}}]";
    const DENIED_BY_POD: &str = "securityContext: {runAsNonRoot: false, seccompProfile: {type: Unconfined}}\n  containers: [{name: c, securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}]";
    const HOST_PATH: &str = "securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}\n  containers: []\n  volumes: [{name: v, hostPath: {path: /}}]";
    const ADDED: &str = "securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}\n  containers: [{name: c, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL], add: [NET_ADMIN]}}}]";
    let cases = [
        case(LOOPBACK, Level::Baseline, "1.33", &[]),
        case(LOOPBACK, Level::Baseline, "1.34", HOST),
        case(LOOPBACK_6, Level::Baseline, "1.37", HOST),
        case(HOOK, Level::Baseline, "1.33", &[]),
        case(HOOK, Level::Baseline, "1.34", HOST),
        case(NO_HOST, Level::Baseline, "1.37", &[]),
        case(IDLE, Level::Baseline, "1.36", &["sysctls"]),
        case(IDLE, Level::Baseline, "1.37", &[]),
        case(LOWAT, Level::Baseline, "1.36", &["sysctls"]),
        case(LOWAT, Level::Baseline, "1.37", &[]),
        case(SLASHES, Level::Baseline, "1.25", &["sysctls"]),
        case(SLASHES, Level::Baseline, "1.37", &["sysctls"]),
        case(WINDOWS, Level::Baseline, "1.37", &["capabilities_baseline", "seccompProfile_baseline"]),
        case(WINDOWS, Level::Restricted, "1.25", &[]),
        case(DENIED_BY_POD, Level::Baseline, "1.37", &["seccompProfile_baseline"]),
        case(DENIED_BY_POD, Level::Restricted, "1.37", &["runAsNonRoot", "seccompProfile_restricted"]),
        case(HOST_PATH, Level::Restricted, "1.37", &["restrictedVolumes"]),
        case(ADDED, Level::Restricted, "1.37", &["capabilities_restricted"]),
    ];
    for Case { spec, level, version, fails } in cases {
        let found = checks(&format!("  {spec}\n"), level, version);
        assert_eq!(found, fails.iter().copied().collect(), "{spec} at {level:?} of {version}");
    }
}

#[test]
fn a_static_pod_is_named_for_its_node_and_keeps_its_uid() {
    let source = StaticSource { node: "Node-1", file: "/etc/pods/a.yaml" };
    let take = |text: &str, source| static_pod(&read("a.yaml", text.as_bytes()).objects[0], source);
    let taken = take(&pod(PLAIN), source).unwrap();
    assert_eq!(taken.metadata.name.as_deref(), Some("a-node-1"));
    assert_eq!(taken.metadata.namespace.as_deref(), Some("default"));
    let spec = taken.spec.unwrap();
    assert_eq!(spec.node_name.as_deref(), Some("Node-1"));
    assert_eq!(spec.host_users, None, "unset stays unset");
    assert_eq!(spec.tolerations.unwrap()[0].effect.as_deref(), Some("NoExecute"));
    assert_eq!(
        (spec.restart_policy.as_deref(), spec.termination_grace_period_seconds),
        (Some("Always"), Some(30))
    );
    assert_eq!(spec.containers[0].image_pull_policy.as_deref(), Some("Always"));
    let uid = taken.metadata.uid.unwrap();
    assert_eq!(uid.len(), 32);
    assert_eq!(take(&pod(PLAIN), source).unwrap().metadata.uid.unwrap(), uid);
    let other = StaticSource { node: "node-2", ..source };
    assert_ne!(take(&pod(PLAIN), other).unwrap().metadata.uid.unwrap(), uid);
    assert_ne!(take(&pod(GOOD), source).unwrap().metadata.uid.unwrap(), uid);
}

#[test]
fn a_static_pod_cannot_ask_the_cluster_for_anything() {
    let source = StaticSource { node: "n", file: "f" };
    let bundle = pod(
        "  containers: []\n  resourceClaims: [{name: c}]\n  volumes:\n  - {name: v, projected: {sources: [{clusterTrustBundle: {path: p}}]}}\n",
    );
    let refused = static_pod(&read("a.yaml", bundle.as_bytes()).objects[0], source).unwrap_err();
    let paths: Vec<&str> = refused.iter().map(|f| f.path.as_str()).collect();
    assert_eq!(paths, ["spec.resourceClaims", "spec.volumes[0].projected.sources[0].clusterTrustBundle"]);
    let map = read("m.yaml", b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n");
    assert!(static_pod(&map.objects[0], source).is_err());
}
