use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Probe, SELinuxOptions};

use super::{Subject, Violation, violation};

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Settings that touch only the pod, and the minor version they are allowed from.
const SYSCTLS: [(&str, u16); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

const APPARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// What the baseline level does not allow.
pub(super) fn check(subject: &Subject<'_>) -> Vec<Violation> {
    let mut found = at_both_levels(subject);
    found.extend(added_capabilities(subject));
    found.extend(host_paths(subject));
    found.extend(seccomp(subject, "seccompProfile_baseline"));
    if !subject.is_relaxed() {
        found.extend(proc_mounts(subject, "procMount"));
    }
    found
}

/// Checks of the baseline that the restricted level does not replace by stricter ones.
pub(super) fn at_both_levels(subject: &Subject<'_>) -> Vec<Violation> {
    let mut found = host_namespaces(subject);
    found.extend(contexts(subject));
    found.extend(host_ports(subject));
    found.extend(app_armor(subject));
    found.extend(selinux(subject));
    found.extend(sysctls(subject));
    if subject.since(34) {
        found.extend(probe_hosts(subject));
    }
    found
}

fn host_namespaces(subject: &Subject<'_>) -> Vec<Violation> {
    let spec = subject.pod.spec;
    let wanted = [("hostNetwork", spec.host_network), ("hostPID", spec.host_pid), ("hostIPC", spec.host_ipc)];
    let set = wanted.into_iter().filter(|(_, value)| *value == Some(true));
    set.map(|(field, _)| violation("hostNamespaces", subject.pod.field(field), true)).collect()
}

fn contexts(subject: &Subject<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    let context = subject.pod.spec.security_context.as_ref();
    if context.and_then(|c| c.windows_options.as_ref()?.host_process) == Some(true) {
        let field = subject.pod.field("securityContext.windowsOptions.hostProcess");
        found.push(violation("windowsHostProcess", field, true));
    }
    for (field, context) in subject.contexts() {
        let Some(context) = context else { continue };
        if context.privileged == Some(true) {
            found.push(violation("privileged", format!("{field}.privileged"), true));
        }
        if context.windows_options.as_ref().and_then(|w| w.host_process) == Some(true) {
            found.push(violation("windowsHostProcess", format!("{field}.windowsOptions.hostProcess"), true));
        }
    }
    found
}

fn added_capabilities(subject: &Subject<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (field, context) in subject.contexts() {
        let own = context.and_then(|c| c.capabilities.as_ref());
        let added = own.iter().flat_map(|c| c.add.iter().flatten());
        for capability in added.filter(|c| !CAPABILITIES.contains(&c.as_str())) {
            found.push(violation("capabilities_baseline", format!("{field}.capabilities.add"), capability));
        }
    }
    found
}

fn host_paths(subject: &Subject<'_>) -> Vec<Violation> {
    let volumes = subject.pod.spec.volumes.iter().flatten().enumerate();
    let paths = volumes.filter(|(_, v)| v.host_path.is_some());
    let field = |i: usize| subject.pod.field(&format!("volumes[{i}].hostPath"));
    paths.map(|(i, v)| violation("hostPathVolumes", field(i), &v.name)).collect()
}

fn host_ports(subject: &Subject<'_>) -> Vec<Violation> {
    let ports = subject.containers.iter().flat_map(|(field, c)| {
        let ports = c.ports.iter().flatten().enumerate();
        let taken = ports.filter_map(|(i, p)| Some((i, p.host_port.filter(|p| *p != 0)?)));
        taken.map(move |(i, port)| violation("hostPorts", format!("{field}.ports[{i}].hostPort"), port))
    });
    ports.collect()
}

fn app_armor(subject: &Subject<'_>) -> Vec<Violation> {
    let check = "appArmorProfile";
    let mut found = Vec::new();
    let pod = subject.pod.spec.security_context.as_ref().and_then(|c| c.app_armor_profile.as_ref());
    if let Some(profile) = pod.filter(|p| is_unconfined(&p.type_)) {
        found.push(violation(
            check,
            subject.pod.field("securityContext.appArmorProfile.type"),
            &profile.type_,
        ));
    }
    for (field, context) in subject.contexts() {
        let profile = context.and_then(|c| c.app_armor_profile.as_ref());
        if let Some(profile) = profile.filter(|p| is_unconfined(&p.type_)) {
            found.push(violation(check, format!("{field}.appArmorProfile.type"), &profile.type_));
        }
    }
    let annotations = subject.pod.metadata.iter().flat_map(|m| m.annotations.iter().flatten());
    let bad = annotations.filter(|(key, value)| {
        let is_allowed = value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/");
        key.starts_with(APPARMOR) && !is_allowed
    });
    found.extend(bad.map(|(key, value)| violation(check, format!("metadata.annotations[{key}]"), value)));
    found
}

fn is_unconfined(kind: &str) -> bool {
    !matches!(kind, "RuntimeDefault" | "Localhost")
}

fn selinux(subject: &Subject<'_>) -> Vec<Violation> {
    let pod = subject.pod.spec.security_context.as_ref().and_then(|c| c.se_linux_options.as_ref());
    let pod = pod.map(|o| (subject.pod.field("securityContext"), o));
    let own = subject.contexts().filter_map(|(f, c)| Some((f, c?.se_linux_options.as_ref()?)));
    pod.into_iter()
        .chain(own)
        .flat_map(|(field, options)| selinux_options(subject, &field, options))
        .collect()
}

fn selinux_options(subject: &Subject<'_>, field: &str, options: &SELinuxOptions) -> Vec<Violation> {
    let kind = options.type_.as_deref().unwrap_or_default();
    let is_engine = kind == "container_engine_t" && subject.since(31);
    let is_allowed = matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t") || is_engine;
    let parts = [("user", options.user.as_ref()), ("role", options.role.as_ref())];
    let named = parts.into_iter().filter_map(|(part, value)| Some((part, value.filter(|v| !v.is_empty())?)));
    let mut found: Vec<Violation> = named
        .map(|(part, value)| violation("seLinuxOptions", format!("{field}.seLinuxOptions.{part}"), value))
        .collect();
    if !is_allowed {
        found.push(violation("seLinuxOptions", format!("{field}.seLinuxOptions.type"), kind));
    }
    found
}

fn sysctls(subject: &Subject<'_>) -> Vec<Violation> {
    let is_allowed = |name: &str| {
        SYSCTLS.iter().any(|(known, minor)| *known == name && (*minor == 0 || subject.since(*minor)))
    };
    let context = subject.pod.spec.security_context.as_ref();
    let set = context.iter().flat_map(|c| c.sysctls.iter().flatten()).enumerate();
    // Upstream compares the name as it is written: one with slashes is none of the allowed ones.
    let bad = set.filter(|(_, sysctl)| !is_allowed(&sysctl.name));
    bad.map(|(i, sysctl)| {
        let field = subject.pod.field(&format!("securityContext.sysctls[{i}].name"));
        violation("sysctls", field, &sysctl.name)
    })
    .collect()
}

/// Profiles of the pod and of its containers that leave them unconfined.
pub(super) fn seccomp(subject: &Subject<'_>, check: &'static str) -> Vec<Violation> {
    let pod = subject.pod.spec.security_context.as_ref().and_then(|c| c.seccomp_profile.as_ref());
    let pod = pod.map(|p| (subject.pod.field("securityContext"), p));
    let own = subject.contexts().filter_map(|(f, c)| Some((f, c?.seccomp_profile.as_ref()?)));
    let bad = pod.into_iter().chain(own).filter(|(_, p)| is_unconfined(&p.type_));
    bad.map(|(field, p)| violation(check, format!("{field}.seccompProfile.type"), &p.type_)).collect()
}

/// Containers that see parts of /proc which are masked by default.
pub(super) fn proc_mounts(subject: &Subject<'_>, check: &'static str) -> Vec<Violation> {
    let own = subject.contexts().filter_map(|(f, c)| Some((f, c?.proc_mount.as_ref()?)));
    let bad = own.filter(|(_, value)| *value != "Default");
    bad.map(|(field, value)| violation(check, format!("{field}.procMount"), value)).collect()
}

/// The kubelet connects to the host that a probe or a hook names, from the node's network. Any name is refused,
/// also one of the node's loopback interface.
fn probe_hosts(subject: &Subject<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for (field, container) in &subject.containers {
        let handlers = probes(container)
            .map(|(name, probe)| (name, probe.http_get.as_ref(), probe.tcp_socket.as_ref()))
            .chain(
                hooks(container).map(|(name, hook)| (name, hook.http_get.as_ref(), hook.tcp_socket.as_ref())),
            );
        for (name, http, tcp) in handlers {
            let hosts = [
                ("httpGet", http.and_then(|get| get.host.as_ref())),
                ("tcpSocket", tcp.and_then(|socket| socket.host.as_ref())),
            ];
            let named =
                hosts.into_iter().filter_map(|(kind, host)| Some((kind, host.filter(|h| !h.is_empty())?)));
            found.extend(named.map(|(kind, host)| {
                violation("hostProbesAndHostLifecycle", format!("{field}.{name}.{kind}.host"), host)
            }));
        }
    }
    found
}

fn hooks(container: &Container) -> impl Iterator<Item = (&'static str, &LifecycleHandler)> {
    let all = container.lifecycle.iter().flat_map(|lifecycle| {
        [
            ("lifecycle.postStart", lifecycle.post_start.as_ref()),
            ("lifecycle.preStop", lifecycle.pre_stop.as_ref()),
        ]
    });
    all.filter_map(|(name, hook)| Some((name, hook?)))
}

fn probes(container: &Container) -> impl Iterator<Item = (&'static str, &Probe)> {
    let all = [
        ("livenessProbe", container.liveness_probe.as_ref()),
        ("readinessProbe", container.readiness_probe.as_ref()),
        ("startupProbe", container.startup_probe.as_ref()),
    ];
    all.into_iter().filter_map(|(name, probe)| Some((name, probe?)))
}
