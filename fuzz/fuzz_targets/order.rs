#![no_main]
//! A container as a CRI client asks for it, any bytes: it is refused, or is confined at least as was asked.

use std::collections::BTreeSet;
use std::path::Path;

use container::{MountSpec, ReadOnly, Seccomp, ContainerSpec};
use libfuzzer_sys::fuzz_target;
use prost::Message;
use wardlet_fuzz::{Kind, build_spec, options};
use cri::security_profile::ProfileType;
use cri::{ContainerConfig, LinuxContainerSecurityContext};

const PROFILE: &[u8] = br#"{"defaultAction":"SCMP_ACT_ERRNO"}"#;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let kind = [Kind::HostUsers, Kind::OwnUsers, Kind::Privileged][usize::from(choice % 3)];
    let Ok(mut config) = ContainerConfig::decode(bytes) else { return };
    // Refused for its namespaces alone, little else of it would be looked at: half of them say the sandbox's.
    if choice >= 128
        && let Some(security) = config.linux.as_mut().and_then(|linux| linux.security_context.as_mut())
    {
        security.namespace_options = Some(options(kind));
    }
    let Ok(start) = build_spec(kind, &config, PROFILE) else { return };
    let security = config.linux.as_ref().and_then(|linux| linux.security_context.clone()).unwrap_or_default();
    assert!(!security.privileged || kind == Kind::Privileged);
    assert_eq!(start.ids.is_some(), kind == Kind::OwnUsers);
    assert_eq!(start.process.no_new_privileges, security.no_new_privs);
    assert!(start.rootfs.read_only || !security.readonly_rootfs);
    assert!(start.cgroup.path.starts_with("/kubepods/pod1/"));
    capabilities(&start, &security);
    if !security.privileged {
        calls(&start, &security);
        let hidden = |has: &[String], asked: &[String]| asked.iter().all(|path| has.contains(path));
        assert!(hidden(&start.masked_paths, &security.masked_paths));
        assert!(hidden(&start.read_only_paths, &security.readonly_paths));
    }
    mounts(&start, &config);
});

fn capabilities(start: &ContainerSpec, security: &LinuxContainerSecurityContext) {
    let sets = &start.process.capabilities;
    let within = |one: &[String], other: &[String]| one.iter().all(|name| other.contains(name));
    assert!(within(&sets.effective, &sets.permitted) && within(&sets.permitted, &sets.bounding), "{sets:?}");
    assert!(within(&sets.ambient, &sets.permitted) && within(&sets.ambient, &sets.inheritable), "{sets:?}");
    if security.privileged {
        return;
    }
    let given = security.capabilities.clone().unwrap_or_default();
    let names = |list: &[String]| -> BTreeSet<String> {
        let bare = |name: &String| name.to_uppercase().trim_start_matches("CAP_").to_owned();
        list.iter().map(bare).collect()
    };
    let mut added = names(&given.add_capabilities);
    added.extend(names(&given.add_ambient_capabilities));
    let dropped = names(&given.drop_capabilities);
    for name in &sets.bounding {
        let bare = name.trim_start_matches("CAP_");
        assert!(added.contains(bare) || !dropped.contains(bare), "{name} was dropped: {given:?}");
        let by_all = names(&given.add_capabilities).contains("ALL");
        assert!(added.contains(bare) || by_all || !dropped.contains("ALL"), "{name}: {given:?}");
    }
}

fn calls(start: &ContainerSpec, security: &LinuxContainerSecurityContext) {
    let asked = match &security.seccomp {
        Some(profile) => profile.profile_type != i32::from(ProfileType::Unconfined),
        None => !matches!(security.seccomp_profile_path.as_str(), "" | "unconfined"),
    };
    assert!(!asked || start.process.seccomp != Seccomp::Unconfined, "{:?}", security.seccomp);
}

/// What is asked for read-only is so at its place, unless a later mount is put over it.
fn mounts(start: &ContainerSpec, config: &ContainerConfig) {
    for asked in config.mounts.iter().filter(|mount| mount.readonly) {
        let (source, target) = (Path::new(&asked.host_path), Path::new(&asked.container_path));
        let writable = start.mounts.iter().any(|mount| {
            matches!(mount, MountSpec::Bind(bind) if bind.read_only == ReadOnly::No
                && bind.target == target && bind.source == source)
        });
        let twice = config.mounts.iter().filter(|other| other.container_path == asked.container_path).count();
        assert!(!writable || twice > 1, "{asked:?}");
    }
}
