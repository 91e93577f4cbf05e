//! What stands in the way of a user namespace: each refused with its field, cause and way out.

use crate::fixture;

use fixture::{container, facts, mount, only_refusal, pod, policy, with_volume};
use ids::{BlockLength, ContainerId};
use plan::*;

fn id(n: u64) -> Option<ContainerId> {
    Some(ContainerId::try_from(n).unwrap())
}

/// The refusal of an isolated pod after this change to it and the node.
fn refused(change: impl FnOnce(&mut Intent, &mut Facts)) -> String {
    let (mut pod, mut facts) = (pod(Some(false)), facts());
    change(&mut pod, &mut facts);
    only_refusal(plan(&pod, &facts, &Policy::default())).to_string()
}

#[test]
fn the_hosts_processes_and_ipc_exclude_a_user_namespace() {
    assert_eq!(
        refused(|p, _| p.host.pid = true),
        "spec.hostPID: a pod with a user namespace of its own cannot have the host's processes"
    );
    assert_eq!(
        refused(|p, _| p.host.ipc = true),
        "spec.hostIPC: a pod with a user namespace of its own cannot have the host's IPC"
    );
}

#[test]
fn the_hosts_network_takes_the_gate_and_the_runtime() {
    let on = policy("UserNamespacesHostNetworkSupport=true");
    let mut pod = pod(Some(false));
    pod.host.network = true;
    let planned = plan(&pod, &facts(), &on).unwrap();
    assert_eq!(planned.namespaces.network, Owner::Host);
    let mut facts = facts();
    facts.runtime.user_namespaces_host_network = false;
    assert_eq!(
        only_refusal(plan(&pod, &facts, &on)).to_string(),
        "spec.hostNetwork: the container runtime cannot give a user namespace to a pod with the host's network"
    );
}

#[test]
fn every_container_with_a_block_device_is_named() {
    let mut pod = pod(Some(false));
    for (i, field) in ["spec.initContainers[0]", "spec.containers[1]"].into_iter().enumerate() {
        let device = Device { volume: "d".into(), path: "/dev/d".into() };
        pod.containers.push(Container {
            field: field.into(),
            devices: vec![device],
            ..container(&format!("c{i}"))
        });
    }
    let fields: Vec<String> =
        plan(&pod, &facts(), &Policy::default()).unwrap_err().into_iter().map(|r| r.field).collect();
    assert_eq!(fields, ["spec.initContainers[0].volumeDevices", "spec.containers[1].volumeDevices"]);
}

#[test]
fn a_runtime_that_cannot_is_named_with_its_handler() {
    for (handlers, handler, said) in [
        (None, "", "the container runtime is too old to say that it supports user namespaces"),
        (Some(""), "", "the container runtime does not support user namespaces"),
        (Some("old"), "old", "the runtime handler \"old\" does not support user namespaces"),
        (Some("old"), "kata", "the container runtime has no handler \"kata\""),
    ] {
        let text = refused(|p, f| {
            p.runtime_handler = handler.into();
            f.runtime.handlers =
                handlers.map(|h: &str| (h.to_owned(), HandlerFacts::default())).into_iter().collect();
        });
        assert_eq!(text, format!("spec.hostUsers: {said}"));
    }
}

#[test]
fn a_kernel_that_cannot_is_refused_with_what_it_said() {
    let no = || Support::No("Operation not permitted".into());
    assert_eq!(
        refused(|_, f| f.kernel.user_namespaces = no()),
        "spec.hostUsers: the kernel gives no user namespace: Operation not permitted"
    );
    assert!(refused(|_, f| f.kernel.max_user_namespaces = 0).contains("user.max_user_namespaces is 0"));
    assert!(refused(|_, f| f.kernel.idmapped_mounts = no()).contains("cannot idmap a mount"));
    assert!(refused(|_, f| f.pool.blocks = 0).contains("the pool has no block"));
}

#[test]
fn ids_that_the_namespace_would_not_have_are_refused_where_they_are_named() {
    let beyond = |field: &str| {
        format!("{field}: 65536 is not in the pod's user namespace, which has the IDs 0 to 65535")
    };
    assert_eq!(
        refused(|p, _| p.containers[0].run_as_user = id(65_536)),
        beyond("spec.containers[0].securityContext.runAsUser")
    );
    assert_eq!(
        refused(|p, _| p.containers[0].run_as_group = id(65_536)),
        beyond("spec.containers[0].securityContext.runAsGroup")
    );
    assert_eq!(refused(|p, _| p.fs_group = id(65_536)), beyond("spec.securityContext.fsGroup"));
    assert_eq!(
        refused(|p, _| p.supplemental_groups = vec![id(65_535).unwrap(), id(65_536).unwrap()]),
        beyond("spec.securityContext.supplementalGroups[1]")
    );
}

#[test]
fn more_ids_are_had_by_annotation_as_far_as_they_can_be_leased() {
    let mut pod = pod(Some(false));
    pod.ids = Some(131_072);
    pod.containers[0].run_as_user = id(100_000);
    let planned = plan(&pod, &facts(), &Policy::default()).unwrap();
    assert_eq!(planned.user_namespace.length, BlockLength::try_from(131_072).ok());
    for (asked, hint) in [
        (0, "ask for 65536"),
        (65_535, "ask for 65536"),
        (196_608, "ask for 262144"),
        (1 << 25, "ask for at most 16777216"),
    ] {
        let mut pod = pod.clone();
        (pod.ids, pod.containers[0].run_as_user) = (Some(asked), None);
        let refusal = only_refusal(plan(&pod, &facts(), &Policy::default()));
        assert_eq!(
            (refusal.field.as_str(), refusal.hint.as_deref().unwrap()),
            ("metadata.annotations[wardlet.dev/ids]", hint)
        );
    }
}

#[test]
fn a_pod_gets_no_more_ids_than_the_operator_allows() {
    let mut pod = pod(Some(false));
    for (asked, allowed, granted) in [
        (1 << 17, None, false),
        (1 << 17, Some(1 << 17), true),
        (1 << 18, Some(1 << 17), false),
        (1 << 16, None, true),
    ] {
        pod.ids = Some(asked);
        let mut facts = facts();
        facts.pool.allowed = allowed.map(|ids: u64| ids.try_into().unwrap());
        let planned = plan(&pod, &facts, &Policy::default());
        if granted {
            assert_eq!(planned.unwrap().user_namespace.length.map(u64::from), Some(asked));
            continue;
        }
        let refusal = only_refusal(planned);
        assert_eq!(refusal.field, "metadata.annotations[wardlet.dev/ids]");
        let allowed = allowed.unwrap_or(1 << 16).to_string();
        for part in [&asked.to_string(), &allowed, "userNamespaces.maxIdsPerPod"] {
            assert!(refusal.cause.contains(part), "{part} is not in: {}", refusal.cause);
        }
    }
}

#[test]
fn all_of_proc_is_only_for_pods_with_a_user_namespace() {
    let mut unmasked = pod(Some(false));
    unmasked.containers[0].proc_mount = ProcMount::Unmasked;
    assert!(plan(&unmasked, &facts(), &Policy::default()).is_ok());
    let closed = policy("UserNamespacesSupport=false");
    let refusal = only_refusal(plan(&unmasked, &facts(), &closed));
    assert_eq!(refusal.field, "spec.containers[0].securityContext.procMount");
    unmasked.host_users = None;
    assert!(plan(&unmasked, &facts(), &Policy::default()).is_err());
}

#[test]
fn recursive_read_only_is_refused_where_the_runtime_cannot() {
    let mut pod = with_volume(pod(None), VolumeSource::EmptyDir(Medium::Disk));
    let rro = |pod: &Intent| plan(pod, &facts(), &Policy::default()).map(|p| p.mounts[0].recursive_read_only);
    pod.containers[0].mounts[0].recursive_read_only = RecursiveReadOnly::Enabled;
    assert_eq!(rro(&pod), Ok(true));
    pod.runtime_handler = "old".into();
    assert_eq!(rro(&pod).unwrap_err()[0].field, "spec.containers[0].volumeMounts[0].recursiveReadOnly");
    pod.containers[0].mounts[0].recursive_read_only = RecursiveReadOnly::IfPossible;
    assert_eq!(rro(&pod), Ok(false));
}

#[test]
fn a_mount_of_no_volume_is_refused() {
    let mut pod = pod(None);
    pod.containers[0].mounts.push(mount("gone"));
    let refusal = only_refusal(plan(&pod, &facts(), &Policy::default()));
    assert_eq!(refusal.to_string(), "spec.containers[0].volumeMounts[0].name: there is no volume \"gone\"");
}

#[test]
fn all_that_stands_in_the_way_is_said_at_once() {
    let mut pod = pod(Some(false));
    pod.host = HostNamespaces { network: true, pid: true, ipc: true };
    pod.runtime_handler = "old".into();
    assert_eq!(plan(&pod, &facts(), &Policy::default()).unwrap_err().len(), 4);
}
