//! Changes of a pod's own fields.

use super::{ALONE, Change, PLAIN, spec};

pub(super) const CHANGES: &[Change] = &[
    spec("host-users-false", &["users"], r#"{"hostUsers": false}"#),
    spec("host-users-true", &["users"], r#"{"hostUsers": true}"#),
    spec("host-network", &["network", "users", "ports", "dns"], r#"{"hostNetwork": true}"#),
    spec("host-pid", &["pid", "users"], r#"{"hostPID": true}"#),
    spec("host-ipc", &["ipc", "users", "sysctls"], r#"{"hostIPC": true}"#),
    spec(
        "host-all",
        &["pid", "users", "network", "ipc", "ports", "dns", "sysctls"],
        r#"{"hostNetwork": true, "hostPID": true, "hostIPC": true}"#,
    ),
    spec("share-process-namespace", &["pid"], r#"{"shareProcessNamespace": true}"#),
    spec("hostname", &["hostname"], r#"{"hostname": "db"}"#),
    spec("subdomain", &["hostname"], r#"{"hostname": "db", "subdomain": "back"}"#),
    spec(
        "fqdn",
        &["hostname", "network"],
        r#"{"hostname": "db", "subdomain": "back", "setHostnameAsFQDN": true}"#,
    ),
    spec("hostname-override", &["hostname", "network"], r#"{"hostnameOverride": "own.example"}"#),
    spec("host-aliases", &[], r#"{"hostAliases": [{"ip": "10.9.8.7", "hostnames": ["a", "a.example"]}]}"#),
    spec(
        "dns-none",
        &["dns"],
        r#"{"dnsPolicy": "None", "dnsConfig": {"nameservers": ["10.1.2.3", "10.1.2.4"],
        "searches": ["a.example", "b.example"], "options": [{"name": "ndots", "value": "3"}, {"name": "rotate"}]}}"#,
    ),
    spec("dns-default", &["dns"], r#"{"dnsPolicy": "Default"}"#),
    spec(
        "dns-config",
        &["dns"],
        r#"{"dnsConfig": {"nameservers": ["10.1.2.3"], "searches": ["a.example"],
        "options": [{"name": "edns0"}]}}"#,
    ),
    spec(
        "dns-with-host-net",
        &["dns", "network", "users", "ports"],
        r#"{"dnsPolicy": "ClusterFirstWithHostNet", "hostNetwork": true}"#,
    ),
    spec("run-as-user", &["ids"], r#"{"securityContext": {"runAsUser": 1000}}"#),
    spec("run-as-group", &["ids", ALONE], r#"{"securityContext": {"runAsGroup": 2000}}"#),
    spec("run-as-both", &["ids"], r#"{"securityContext": {"runAsUser": 1000, "runAsGroup": 2000}}"#),
    spec("run-as-non-root", &["ids"], r#"{"securityContext": {"runAsUser": 7, "runAsNonRoot": true}}"#),
    spec("run-as-zero", &["ids"], r#"{"securityContext": {"runAsUser": 0, "runAsGroup": 0}}"#),
    spec("fs-group", &["groups"], r#"{"securityContext": {"fsGroup": 3000}}"#),
    spec(
        "fs-group-policy",
        &["groups"],
        r#"{"securityContext": {"fsGroup": 3000, "fsGroupChangePolicy": "OnRootMismatch"}}"#,
    ),
    spec("supplemental-groups", &["groups"], r#"{"securityContext": {"supplementalGroups": [4000, 4001]}}"#),
    spec(
        "groups-twice",
        &["groups"],
        r#"{"securityContext": {"fsGroup": 4000, "supplementalGroups": [4000, 4001, 4000]}}"#,
    ),
    spec(
        "groups-strict",
        &["groups"],
        r#"{"securityContext": {"supplementalGroups": [4000], "supplementalGroupsPolicy": "Strict"}}"#,
    ),
    spec(
        "selinux",
        &["selinux"],
        r#"{"securityContext": {"seLinuxOptions": {"user": "system_u",
        "role": "system_r", "type": "container_t", "level": "s0:c1,c2"}, "seLinuxChangePolicy": "Recursive"}}"#,
    ),
    spec("selinux-level", &["selinux"], r#"{"securityContext": {"seLinuxOptions": {"level": "s0:c3,c4"}}}"#),
    spec(
        "seccomp-default",
        &["seccomp"],
        r#"{"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}"#,
    ),
    spec(
        "seccomp-localhost",
        &["seccomp"],
        r#"{"securityContext":
        {"seccompProfile": {"type": "Localhost", "localhostProfile": "PROFILE"}}}"#,
    ),
    spec(
        "seccomp-unconfined",
        &["seccomp"],
        r#"{"securityContext": {"seccompProfile": {"type": "Unconfined"}}}"#,
    ),
    spec(
        "apparmor-unconfined",
        &["apparmor"],
        r#"{"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}"#,
    ),
    spec(
        "sysctls",
        &["sysctls", "network"],
        r#"{"securityContext": {"sysctls": [
        {"name": "net.ipv4.ip_unprivileged_port_start", "value": "81"},
        {"name": "kernel.shm_rmid_forced", "value": "1"}]}}"#,
    ),
    spec(
        "sysctl-slashes",
        &["sysctls", "network"],
        r#"{"securityContext": {"sysctls": [
        {"name": "net/ipv4/tcp_syncookies", "value": "1"}]}}"#,
    ),
    Change {
        metadata: r#"{"labels": {"refused": "yes"}}"#,
        ..spec(
            "unsafe-sysctl",
            &["sysctls", ALONE],
            r#"{"securityContext": {"sysctls": [
            {"name": "kernel.msgmax", "value": "65536"}]}}"#,
        )
    },
    spec("runtime-class", &[], r#"{"runtimeClassName": "usual"}"#),
    spec("grace", &["grace"], r#"{"terminationGracePeriodSeconds": 17}"#),
    spec("grace-zero", &["grace"], r#"{"terminationGracePeriodSeconds": 0}"#),
    spec("deadline", &[], r#"{"activeDeadlineSeconds": 900}"#),
    spec("restart-never", &["restart"], r#"{"restartPolicy": "Never"}"#),
    spec("restart-on-failure", &["restart"], r#"{"restartPolicy": "OnFailure"}"#),
    spec("service-account", &[], r#"{"serviceAccountName": "default"}"#),
    spec("os", &[], r#"{"os": {"name": "linux"}, "nodeSelector": {"kubernetes.io/os": "linux"}}"#),
    Change { name: "labels", metadata: r#"{"labels": {"app": "web", "tier.example/x": "1"}}"#, ..PLAIN },
    Change {
        name: "annotations",
        metadata: r#"{"annotations": {"note": "hello", "a.example/b": "{}"}}"#,
        ..PLAIN
    },
    spec(
        "two-containers",
        &["containers"],
        r#"{"containers": [{"name": "second", "image": "IMAGE",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"]}]}"#,
    ),
    spec(
        "init-container",
        &["containers", "command"],
        r#"{"initContainers": [{"name": "first", "image": "IMAGE",
        "command": ["sh", "-c", "exit 0"]}]}"#,
    ),
    spec(
        "sidecar",
        &["containers", "restart"],
        r#"{"initContainers": [{"name": "side", "image": "IMAGE",
        "restartPolicy": "Always",
        "command": ["sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.2; done"]}]}"#,
    ),
];
