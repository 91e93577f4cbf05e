//! Isolation of pods that did not ask for it: where nothing is lost, and why not elsewhere.

use crate::fixture;

use fixture::{facts, host_path, pod, rules, with_volume};
use plan::*;

fn planned(intent: &Intent) -> (UserNamespaceMode, String) {
    let plan = plan(intent, &facts(), &rules(|r| r.isolate = Isolate::WhenSafe)).unwrap();
    (plan.user_namespace.mode, plan.reasons.join("\n"))
}

#[test]
fn a_plain_pod_is_isolated_and_told_why() {
    let intent = with_volume(pod(None), VolumeSource::Projected);
    let (mode, why) = planned(&intent);
    assert_eq!(mode, UserNamespaceMode::Own);
    assert_eq!(
        why,
        "user namespace: a block of 65536 IDs of its own, because hostUsers is unset and the pod loses nothing by it"
    );
}

#[test]
fn whoever_said_true_keeps_the_hosts_users() {
    assert_eq!(planned(&pod(Some(true))).0, UserNamespaceMode::Host);
}

#[test]
fn what_would_be_lost_keeps_the_hosts_users_and_is_named() {
    let with = |change: &dyn Fn(&mut Intent)| {
        let mut pod = pod(None);
        change(&mut pod);
        pod
    };
    let capability = |name: &'static str| with(&move |p| p.containers[0].capabilities.add.push(name.into()));
    let cases = [
        (with(&|p| p.containers[0].privileged = true), "container main is privileged"),
        (with(&|p| p.host.network = true), "it has the host's network"),
        (with(&|p| p.host.pid = true), "cannot have the host's processes"),
        (with(&|p| p.host.ipc = true), "cannot have the host's IPC"),
        (with(&|p| p.runtime_handler = "old".into()), "the runtime handler \"old\" does not support"),
        (with(&|p| p.containers[0].devices.push(Device::default())), "a block device cannot be idmapped"),
        (
            with(&|p| p.fs_group = ids::ContainerId::try_from(70_000).ok()),
            "70000 is not in the pod's user namespace",
        ),
        (capability("SYS_ADMIN"), "container main has SYS_ADMIN"),
        (capability("CAP_SYS_TIME"), "container main has SYS_TIME"),
        (capability("ALL"), "container main has ALL"),
        (with_volume(pod(None), host_path("/data")), "volume v is a path of the host"),
        (with_volume(pod(None), VolumeSource::Nfs), "nfs cannot be idmapped"),
        (with_volume(pod(None), VolumeSource::Claim { name: "c".into() }), "is tried before the pod starts"),
    ];
    for (intent, said) in cases {
        let (mode, why) = planned(&intent);
        assert_eq!(mode, UserNamespaceMode::Host, "{why}");
        assert!(
            why.starts_with("user namespace: the host's, because the pod does not ask for one and ")
                && why.contains(said),
            "{why}"
        );
    }
}

#[test]
fn capabilities_that_are_real_inside_are_no_loss() {
    let mut pod = pod(None);
    pod.containers[0].capabilities.add = vec!["NET_ADMIN".into(), "CAP_CHOWN".into()];
    assert_eq!(planned(&pod).0, UserNamespaceMode::Own);
}

#[test]
fn a_volume_that_would_be_shared_or_chowned_is_a_loss() {
    let intent = with_volume(pod(None), VolumeSource::Nfs);
    for cannot in [CannotIdmap::SharedBlock, CannotIdmap::ChownOnce] {
        let policy = rules(|r| {
            r.isolate = Isolate::WhenSafe;
            r.volumes.cannot_idmap = cannot;
        });
        let plan = plan(&intent, &facts(), &policy).unwrap();
        assert_eq!(plan.user_namespace.mode, UserNamespaceMode::Host);
    }
}
