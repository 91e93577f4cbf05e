//! Changes of a container's fields.

use super::{Change, container, spec};

pub(super) const CHANGES: &[Change] = &[
    container("args", &["command"], r#"{"args": ["x", "$(HOSTNAME)", "$$(A)"]}"#),
    container("working-dir", &[], r#"{"workingDir": "/tmp"}"#),
    container("stdin", &["streams"], r#"{"stdin": true}"#),
    container("stdin-once", &["streams"], r#"{"stdin": true, "stdinOnce": true}"#),
    container("tty", &["streams"], r#"{"stdin": true, "tty": true}"#),
    container(
        "env-plain",
        &[],
        r#"{"env": [{"name": "B", "value": "1"}, {"name": "A", "value": "<$(B)> $(NONE) $$(B)"},
        {"name": "EMPTY"}]}"#,
    ),
    container(
        "env-fields",
        &[],
        r#"{"env": [
        {"name": "F_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "F_NAMESPACE", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}},
        {"name": "F_UID", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "F_LABEL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['none']"}}},
        {"name": "F_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        {"name": "F_ACCOUNT", "valueFrom": {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}},
        {"name": "F_HOST", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}},
        {"name": "F_HOSTS", "valueFrom": {"fieldRef": {"fieldPath": "status.hostIPs"}}},
        {"name": "F_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "F_IPS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIPs"}}}]}"#,
    ),
    container(
        "env-resources",
        &["resources"],
        r#"{"resources": {"limits": {"cpu": "150m", "memory": "33Mi"}}, "env": [
        {"name": "R_CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        {"name": "R_MILLI", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}}},
        {"name": "R_MEMORY", "valueFrom": {"resourceFieldRef":
            {"containerName": "main", "resource": "limits.memory", "divisor": "1Mi"}}}]}"#,
    ),
    container(
        "env-objects",
        &[],
        r#"{"env": [
        {"name": "O_COLOUR", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "colour"}}},
        {"name": "O_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "key", "key": "password"}}},
        {"name": "O_MAYBE", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "x", "optional": true}}},
        {"name": "O_PERHAPS", "valueFrom": {"secretKeyRef": {"name": "key", "key": "x", "optional": true}}}]}"#,
    ),
    container(
        "env-from",
        &[],
        r#"{"envFrom": [{"prefix": "PRE_", "configMapRef": {"name": "settings"}},
        {"secretRef": {"name": "key"}}, {"configMapRef": {"name": "absent", "optional": true}}]}"#,
    ),
    container("ports", &[], r#"{"ports": [{"name": "web", "containerPort": 80}]}"#),
    container(
        "host-ports",
        &["ports", "network"],
        r#"{"ports": [
        {"name": "tcp", "containerPort": 81, "hostPort": "PORT"},
        {"name": "udp", "containerPort": 53, "hostPort": "PORT+1", "protocol": "UDP", "hostIP": "127.0.0.1"}]}"#,
    ),
    container("privileged", &["users", "powers"], r#"{"securityContext": {"privileged": true}}"#),
    container("no-escalation", &["powers"], r#"{"securityContext": {"allowPrivilegeEscalation": false}}"#),
    container("escalation", &["powers"], r#"{"securityContext": {"allowPrivilegeEscalation": true}}"#),
    container(
        "capabilities",
        &["powers"],
        r#"{"securityContext": {"capabilities": {"add": ["NET_ADMIN", "SYS_TIME"],
        "drop": ["MKNOD"]}}}"#,
    ),
    container(
        "drop-all",
        &["powers"],
        r#"{"securityContext": {"allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}}"#,
    ),
    container("read-only-root", &[], r#"{"securityContext": {"readOnlyRootFilesystem": true}}"#),
    Change {
        spec: r#"{"hostUsers": false}"#,
        ..container(
            "proc-unmasked",
            &["users", "powers"],
            r#"{"securityContext": {"procMount": "Unmasked"}}"#,
        )
    },
    container("proc-default", &[], r#"{"securityContext": {"procMount": "Default"}}"#),
    Change {
        spec: r#"{"securityContext": {"runAsUser": 1000, "runAsGroup": 2000, "runAsNonRoot": true}}"#,
        ..container(
            "own-ids",
            &["ids"],
            r#"{"securityContext": {"runAsUser": 1001, "runAsGroup": 2001, "runAsNonRoot": false}}"#,
        )
    },
    container("own-group", &["ids"], r#"{"securityContext": {"runAsGroup": 2001}}"#),
    Change {
        spec: r#"{"securityContext": {"seLinuxOptions": {"level": "s0:c5,c6", "type": "container_t"}}}"#,
        ..container(
            "own-selinux",
            &["selinux"],
            r#"{"securityContext": {"seLinuxOptions": {"level": "s0:c7,c8"}}}"#,
        )
    },
    Change {
        spec: r#"{"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}"#,
        ..container(
            "own-seccomp",
            &["seccomp"],
            r#"{"securityContext": {"seccompProfile": {"type": "Unconfined"}}}"#,
        )
    },
    container(
        "own-apparmor",
        &["apparmor"],
        r#"{"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}"#,
    ),
    container(
        "resources",
        &["resources"],
        r#"{"resources": {"requests": {"cpu": "5m", "memory": "8Mi"}, "limits": {"cpu": "250m", "memory": "64Mi"}}}"#,
    ),
    container("guaranteed", &["resources"], r#"{"resources": {"limits": {"cpu": "10m", "memory": "16Mi"}}}"#),
    container("requests", &["resources"], r#"{"resources": {"requests": {"cpu": "7m", "memory": "1Gi"}}}"#),
    container("cpu-limit", &["resources"], r#"{"resources": {"limits": {"cpu": "15m"}}}"#),
    container("memory-limit", &["resources"], r#"{"resources": {"limits": {"memory": "24Mi"}}}"#),
    container(
        "least-cpu",
        &["resources"],
        r#"{"resources": {"limits": {"cpu": "1m"}, "requests": {"cpu": "1m"}}}"#,
    ),
    container(
        "probe-exec",
        &["probes"],
        r#"{
        "startupProbe": {"exec": {"command": ["true", "startup"]}, "periodSeconds": 1, "failureThreshold": 60},
        "livenessProbe": {"exec": {"command": ["true", "liveness"]}, "periodSeconds": 1, "timeoutSeconds": 20},
        "readinessProbe": {"exec": {"command": ["true", "readiness"]}, "periodSeconds": 1, "timeoutSeconds": 15}}"#,
    ),
    container(
        "hook-exec",
        &["hooks"],
        r#"{"lifecycle": {"postStart": {"exec": {"command": ["true", "$(A)", "started"]}},
        "preStop": {"exec": {"command": ["true", "stopping"]}}}}"#,
    ),
    container("hook-sleep", &["hooks"], r#"{"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}}"#),
    container("stop-signal", &["hooks"], r#"{"lifecycle": {"stopSignal": "SIGUSR1"}}"#),
    container("message-path", &["message"], r#"{"terminationMessagePath": "/tmp/words"}"#),
    container("message-policy", &["message"], r#"{"terminationMessagePolicy": "FallbackToLogsOnError"}"#),
    container("pull-always", &["pull"], r#"{"imagePullPolicy": "Always"}"#),
    container("pull-never", &["pull"], r#"{"imagePullPolicy": "Never"}"#),
    Change {
        container: r#"{"imagePullPolicy": "Always"}"#,
        ..spec("pull-secrets", &["pull"], r#"{"imagePullSecrets": [{"name": "registry"}]}"#)
    },
    container(
        "own-restart",
        &["restart"],
        r#"{"restartPolicy": "Never", "restartPolicyRules": [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}]}"#,
    ),
];
