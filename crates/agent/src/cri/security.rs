//! Security contexts in CRI requests: namespaces, users, capabilities, SELinux, seccomp and AppArmor.

use cri::{
    Capability, Int64Value, LinuxContainerSecurityContext, LinuxSandboxSecurityContext, NamespaceMode,
    NamespaceOption, SecurityProfile, SupplementalGroupsPolicy,
};
use ids::{IdKind, UserNamespace};
use manifest::k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, PodSecurityContext, SELinuxOptions, SeccompProfile, SecurityContext,
};

use crate::pod::context::PodContext;
use crate::pod::images::ImageUser;

/// The pod's namespaces.
pub(crate) fn namespaces(context: &PodContext) -> NamespaceOption {
    let owned =
        |is_host: Option<bool>| if is_host == Some(true) { NamespaceMode::Node } else { NamespaceMode::Pod };
    let spec = &context.spec;
    let pid = match (spec.host_pid, spec.share_process_namespace) {
        (Some(true), _) => NamespaceMode::Node,
        (_, Some(true)) => NamespaceMode::Pod,
        _ => NamespaceMode::Container,
    };
    NamespaceOption {
        network: owned(spec.host_network).into(),
        pid: pid.into(),
        ipc: owned(spec.host_ipc).into(),
        target_id: String::new(),
        userns_options: Some(users(context)),
    }
}

fn users(context: &PodContext) -> cri::UserNamespace {
    let mode = if context.users == UserNamespace::Host { NamespaceMode::Node } else { NamespaceMode::Pod };
    let (uids, gids) = (context.mappings(IdKind::Uid), context.mappings(IdKind::Gid));
    cri::UserNamespace { mode: mode.into(), uids, gids }
}

fn number(value: Option<i64>) -> Option<Int64Value> {
    value.map(|value| Int64Value { value })
}

/// SELinux options. A container without a level gets the one that was leased for the pod.
fn selinux(context: &PodContext, options: Option<&SELinuxOptions>) -> Option<cri::SeLinuxOption> {
    if options.is_none() && context.level.is_none() {
        return None;
    }
    let options = options.cloned().unwrap_or_default();
    Some(cri::SeLinuxOption {
        user: options.user.unwrap_or_default(),
        role: options.role.unwrap_or_default(),
        r#type: options.type_.unwrap_or_default(),
        level: options.level.or_else(|| context.level.clone()).unwrap_or_default(),
    })
}

/// The fsGroup, then the supplementalGroups, each as often as it is named.
fn groups(context: &PodSecurityContext) -> Vec<i64> {
    context.fs_group.into_iter().chain(context.supplemental_groups.iter().flatten().copied()).collect()
}

fn groups_policy(context: &PodSecurityContext) -> i32 {
    match context.supplemental_groups_policy.as_deref() {
        Some("Strict") => SupplementalGroupsPolicy::Strict.into(),
        _ => SupplementalGroupsPolicy::Merge.into(),
    }
}

fn profile(kind: cri::security_profile::ProfileType, localhost: Option<&String>) -> SecurityProfile {
    SecurityProfile { profile_type: kind.into(), localhost_ref: localhost.cloned().unwrap_or_default() }
}

fn kind(name: &str) -> cri::security_profile::ProfileType {
    use cri::security_profile::ProfileType;
    match name {
        "RuntimeDefault" => ProfileType::RuntimeDefault,
        "Localhost" => ProfileType::Localhost,
        _ => ProfileType::Unconfined,
    }
}

/// The seccomp profile; if the pod has none, the node's default: unconfined, or with `seccompDefault` that of the runtime.
fn seccomp(context: &PodContext, found: Option<&SeccompProfile>) -> SecurityProfile {
    match found {
        Some(found) => {
            let path = found.localhost_profile.as_ref().map(|name| context.profiles.join(name));
            profile(kind(&found.type_), path.map(|path| path.display().to_string()).as_ref())
        }
        None if context.seccomp_default => profile(kind("RuntimeDefault"), None),
        None => profile(kind("Unconfined"), None),
    }
}

fn apparmor(found: Option<&AppArmorProfile>) -> Option<SecurityProfile> {
    found.map(|found| profile(kind(&found.type_), found.localhost_profile.as_ref()))
}

/// The same profile as older runtimes read it.
fn apparmor_text(found: Option<&AppArmorProfile>) -> String {
    let Some(found) = found else { return String::new() };
    match found.type_.as_str() {
        "RuntimeDefault" => "runtime/default".to_owned(),
        "Localhost" => format!("localhost/{}", found.localhost_profile.as_deref().unwrap_or_default()),
        _ => "unconfined".to_owned(),
    }
}

/// The security context of the sandbox.
pub(crate) fn of_sandbox(context: &PodContext) -> LinuxSandboxSecurityContext {
    let security = context.security_context();
    let privileged =
        context.containers().any(|c| c.security_context.as_ref().is_some_and(|s| s.privileged == Some(true)));
    LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(context)),
        selinux_options: selinux(context, security.se_linux_options.as_ref()),
        run_as_user: number(security.run_as_user),
        // containerd refuses a sandbox with a group and without a user.
        run_as_group: number(security.run_as_group.filter(|_| security.run_as_user.is_some())),
        supplemental_groups: groups(&security),
        supplemental_groups_policy: groups_policy(&security),
        privileged,
        seccomp: Some(profile(cri::security_profile::ProfileType::RuntimeDefault, None)),
        ..LinuxSandboxSecurityContext::default()
    }
}

/// The security context of a container: its own fields, else the pod's, else the image's user.
pub(crate) fn of_container(
    context: &PodContext,
    container: &Container,
    image: &ImageUser,
) -> LinuxContainerSecurityContext {
    let (own, pod) = (container.security_context.clone().unwrap_or_default(), context.security_context());
    let user = own.run_as_user.or(pod.run_as_user);
    let is_unmasked = own.proc_mount.as_deref() == Some("Unmasked");
    // With empty lists the runtime masks nothing.
    let (masked_paths, readonly_paths) = if is_unmasked {
        (Vec::new(), Vec::new())
    } else {
        let masked = types::masked_paths(kernel::possible_cpus().iter().copied());
        (masked, types::READ_ONLY_PATHS.map(str::to_owned).into())
    };
    let apparmor_profile = own.app_armor_profile.as_ref().or(pod.app_armor_profile.as_ref());
    let seccomp_profile = own.seccomp_profile.as_ref().or(pod.seccomp_profile.as_ref());
    LinuxContainerSecurityContext {
        capabilities: own.capabilities.as_ref().map(|c| Capability {
            add_capabilities: c.add.clone().unwrap_or_default(),
            drop_capabilities: c.drop.clone().unwrap_or_default(),
            add_ambient_capabilities: Vec::new(),
        }),
        privileged: own.privileged == Some(true),
        namespace_options: Some(namespaces(context)),
        selinux_options: selinux(context, own.se_linux_options.as_ref().or(pod.se_linux_options.as_ref())),
        run_as_user: number(user.or(image.uid)),
        run_as_username: if user.is_none() { image.name.clone() } else { String::new() },
        run_as_group: number(own.run_as_group.or(pod.run_as_group)),
        readonly_rootfs: own.read_only_root_filesystem == Some(true),
        supplemental_groups: groups(&pod),
        supplemental_groups_policy: groups_policy(&pod),
        no_new_privs: no_new_privileges(&own),
        masked_paths,
        readonly_paths,
        seccomp: Some(seccomp(context, seccomp_profile)),
        apparmor: apparmor(apparmor_profile),
        apparmor_profile: apparmor_text(apparmor_profile),
        ..LinuxContainerSecurityContext::default()
    }
}

/// The same security context, in the PID namespace of the running container `target`.
pub(crate) fn in_namespace_of(
    target: Option<String>,
    mut context: LinuxContainerSecurityContext,
) -> LinuxContainerSecurityContext {
    if let (Some(target), Some(options)) = (target, &mut context.namespace_options) {
        options.pid = NamespaceMode::Target.into();
        options.target_id = target;
    }
    context
}

fn no_new_privileges(own: &SecurityContext) -> bool {
    own.allow_privilege_escalation == Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: &str = r#"{"hostNetwork":true,"hostPID":true,"hostIPC":true,
        "securityContext":{"runAsUser":1,"seLinuxOptions":{"level":"s0:c1","type":"t"},
            "seccompProfile":{"type":"Localhost","localhostProfile":"a/b.json"},
            "appArmorProfile":{"type":"RuntimeDefault"}},
        "containers":[{"name":"plain"},{"name":"own","securityContext":{"privileged":true,"runAsUser":2,"runAsGroup":3,
            "procMount":"Unmasked","seLinuxOptions":{"user":"u","role":"r","type":"x","level":"s0:c2"},
            "seccompProfile":{"type":"RuntimeDefault"},
            "appArmorProfile":{"type":"Localhost","localhostProfile":"mine"}}}]}"#;

    #[test]
    fn a_container_without_a_seccomp_profile_has_the_nodes_default() {
        use cri::security_profile::ProfileType;
        let text = r#"{"containers":[{"name":"plain"},{"name":"own","securityContext":{"seccompProfile":{"type":"Unconfined"}}}]}"#;
        let root = ImageUser { uid: Some(0), name: String::new() };
        for (seccomp_default, expected) in
            [(false, ProfileType::Unconfined), (true, ProfileType::RuntimeDefault)]
        {
            let context = PodContext { seccomp_default, ..PodContext::for_test(text) };
            let found = |at: usize| {
                of_container(&context, &context.spec.containers[at], &root).seccomp.unwrap().profile_type()
            };
            assert_eq!([found(0), found(1)], [expected, ProfileType::Unconfined]);
        }
    }

    #[test]
    fn what_a_pod_may_do_is_what_the_runtime_is_asked_for() {
        use cri::security_profile::ProfileType;
        let context = PodContext::for_test(BOTH);
        let root = ImageUser { uid: Some(0), name: String::new() };
        let plain = of_container(&context, &context.spec.containers[0], &root);
        let own = of_container(&context, &context.spec.containers[1], &root);
        let users = |c: &LinuxContainerSecurityContext| {
            (c.run_as_user.map(|n| n.value), c.run_as_group.map(|n| n.value))
        };
        assert_eq!((users(&plain), users(&own)), ((Some(1), None), (Some(2), Some(3))));
        assert!(!plain.privileged && own.privileged && of_sandbox(&context).privileged);
        assert!(
            !plain.masked_paths.is_empty() && own.masked_paths.is_empty() && own.readonly_paths.is_empty()
        );
        let label = |c: &LinuxContainerSecurityContext| {
            let label = c.selinux_options.clone().unwrap();
            [label.user, label.role, label.r#type, label.level].join(":")
        };
        assert_eq!((label(&plain).as_str(), label(&own).as_str()), ("::t:s0:c1", "u:r:x:s0:c2"));
        let (of_pod, of_own) = (plain.seccomp.unwrap(), own.seccomp.unwrap());
        assert_eq!(
            (of_pod.profile_type(), of_pod.localhost_ref.as_str()),
            (ProfileType::Localhost, "/state/seccomp/a/b.json")
        );
        assert_eq!(of_own.profile_type(), ProfileType::RuntimeDefault);
        assert_eq!([plain.apparmor_profile, own.apparmor_profile], ["runtime/default", "localhost/mine"]);
        let apparmor = own.apparmor.unwrap();
        assert_eq!(
            (apparmor.profile_type(), apparmor.localhost_ref.as_str()),
            (ProfileType::Localhost, "mine")
        );
        assert_eq!(plain.apparmor.unwrap().profile_type(), ProfileType::RuntimeDefault);
    }

    /// containerd refuses a container with a group and without a user: the pod never started.
    #[test]
    fn a_container_without_runasuser_has_the_user_of_its_image() {
        let of = |text: &str, user: ImageUser| {
            let context = PodContext::for_test(text);
            let asked = of_container(&context, &context.spec.containers[0], &user);
            let [user, group] = [asked.run_as_user, asked.run_as_group].map(|n| n.map(|n| n.value));
            (user, asked.run_as_username, group)
        };
        let group = r#"{"containers":[{"name":"a","securityContext":{"runAsGroup":7}}]}"#;
        let both = r#"{"containers":[{"name":"a"}],"securityContext":{"runAsUser":5,"runAsGroup":7}}"#;
        let number = || ImageUser { uid: Some(9), name: String::new() };
        let name = || ImageUser { uid: None, name: "web".to_owned() };
        assert_eq!(of(group, number()), (Some(9), String::new(), Some(7)));
        assert_eq!(of(group, name()), (None, "web".to_owned(), Some(7)));
        assert_eq!(of(both, number()), (Some(5), String::new(), Some(7)));
        assert_eq!(of(both, name()), (Some(5), String::new(), Some(7)));
    }

    #[test]
    fn the_group_of_volumes_comes_first() {
        let text = r#"{"containers":[],"securityContext":{"fsGroup":3,"supplementalGroups":[4,3]}}"#;
        assert_eq!(of_sandbox(&PodContext::for_test(text)).supplemental_groups, [3, 4, 3]);
    }

    #[test]
    fn a_container_is_asked_for_with_every_path_that_the_node_hides() {
        let context = PodContext::for_test(BOTH);
        let asked = of_container(&context, &context.spec.containers[0], &ImageUser::default());
        let throttling = kernel::possible_cpus()
            .iter()
            .map(|cpu| format!("/sys/devices/system/cpu/cpu{cpu}/thermal_throttle"));
        let hidden = ["/proc/kcore", "/sys/firmware", "/sys/devices/virtual/powercap"].map(str::to_owned);
        for path in hidden.into_iter().chain(throttling) {
            assert!(asked.masked_paths.contains(&path), "{path} is missing in {:?}", asked.masked_paths);
        }
        assert!(asked.readonly_paths.contains(&"/proc/sys".to_owned()));
    }

    #[test]
    fn namespaces_are_asked_for_as_the_pod_has_them() {
        let of = |spec: &str| {
            let options = namespaces(&PodContext::for_test(spec));
            [options.network(), options.pid(), options.ipc()]
        };
        use NamespaceMode::{Container, Node, Pod};
        assert_eq!(of(r#"{"containers":[]}"#), [Pod, Container, Pod]);
        assert_eq!(of(r#"{"containers":[],"shareProcessNamespace":true}"#), [Pod, Pod, Pod]);
        assert_eq!(of(BOTH), [Node, Node, Node]);
    }
}
