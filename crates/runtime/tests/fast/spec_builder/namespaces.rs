//! Namespaces, and the settings of a sandbox's.

use std::collections::BTreeMap;

use container::{NamespaceSpec, NamespaceSpecs};
use cri::NamespaceMode::{self, Container, Node, Pod, Target};
use cri::{LinuxPodSandboxConfig, PodSandboxConfig};
use runtime::spec::{self, CgroupVersion};

use super::Wish;

const OPTIONS: &str = "linux.security_context.namespace_options";

fn at(path: &str) -> NamespaceSpec {
    NamespaceSpec::At(path.into())
}

#[test]
fn a_container_is_in_its_sandboxs_namespaces() {
    let expected = NamespaceSpecs {
        user: NamespaceSpec::Host,
        network: at("/run/ns/net"),
        ipc: at("/run/ns/ipc"),
        uts: at("/run/ns/uts"),
        pid: NamespaceSpec::New,
        cgroup: NamespaceSpec::Host,
    };
    assert_eq!(Wish::new().start().namespaces, expected);
    let start = Wish::in_user_namespace().start();
    assert_eq!(start.namespaces, NamespaceSpecs { user: at("/run/ns/user"), ..expected });
    let ids = start.ids.unwrap();
    assert_eq!((ids.uids[0].host().first(), ids.gids[0].length()), (65_536, 65_536));
}

#[test]
fn a_sandbox_in_the_hosts_namespaces_has_its_containers_there() {
    for said in [Node, Pod] {
        let mut wish = Wish::new();
        let options = wish.sandbox_options();
        (options.network, options.ipc, options.pid) = (Node.into(), Node.into(), Node.into());
        let own = wish.options();
        (own.network, own.ipc, own.pid) = (said.into(), said.into(), said.into());
        (wish.place.network, wish.place.ipc, wish.place.uts) = (None, None, None);
        let spaces = wish.start().namespaces;
        assert_eq!([spaces.network, spaces.ipc, spaces.uts, spaces.pid], [const { NamespaceSpec::Host }; 4]);
    }
}

#[test]
fn processes_are_the_containers_own_the_pods_a_targets_or_the_hosts() {
    let wish = |sandbox: NamespaceMode, own: NamespaceMode| {
        let mut wish = Wish::new();
        wish.sandbox_options().pid = sandbox.into();
        wish.options().pid = own.into();
        wish.place.pid = (sandbox == Pod).then(|| "/run/ns/pid".into());
        wish
    };
    assert_eq!(wish(Pod, Pod).start().namespaces.pid, at("/run/ns/pid"));
    assert_eq!(wish(Pod, Container).start().namespaces.pid, NamespaceSpec::New);
    assert_eq!(wish(Node, Container).start().namespaces.pid, NamespaceSpec::New);
    assert_eq!(wish(Node, Node).start().namespaces.pid, NamespaceSpec::Host);
    assert_eq!(wish(Container, Pod).refused("shares no processes"), format!("{OPTIONS}.pid"));
    assert_eq!(wish(Container, Node).refused("not in the host's"), format!("{OPTIONS}.pid"));
    let mut target = wish(Container, Target);
    target.options().target_id = "other".into();
    assert_eq!(target.refused("\"other\""), format!("{OPTIONS}.target_id"));
    target.target = Some("/proc/7/ns/pid".into());
    assert_eq!(target.start().namespaces.pid, at("/proc/7/ns/pid"));
    let mut wrong = wish(Container, Container);
    wrong.options().pid = 17;
    assert_eq!(wrong.refused("no mode"), format!("{OPTIONS}.pid"));
}

#[test]
fn who_says_nothing_follows_the_sandbox() {
    let mut wish = Wish::in_user_namespace();
    wish.security().namespace_options = None;
    wish.sandbox_options().pid = Pod.into();
    wish.place.pid = Some("/run/ns/pid".into());
    let start = wish.start();
    assert_eq!((start.namespaces.user, start.namespaces.pid), (at("/run/ns/user"), at("/run/ns/pid")));
    assert!(start.ids.is_some());
    // The sandbox says nothing either, and shares no processes.
    let mut bare = Wish::new();
    (bare.config.linux, bare.sandbox.linux) = (None, None);
    assert_eq!(bare.start().namespaces.pid, NamespaceSpec::New);
}

#[test]
fn the_hosts_namespaces_are_not_for_a_container_alone() {
    let mut wish = Wish::new();
    wish.options().network = Node.into();
    assert_eq!(wish.refused("not in the host's"), format!("{OPTIONS}.network"));
    let mut wish = Wish::new();
    wish.options().ipc = Node.into();
    assert_eq!(wish.refused("not in the host's"), format!("{OPTIONS}.ipc"));
    for mode in [Container, Target] {
        let mut wish = Wish::new();
        wish.options().network = mode.into();
        assert_eq!(wish.refused(mode.as_str_name()), format!("{OPTIONS}.network"));
    }
}

#[test]
fn a_user_namespace_goes_with_the_hosts_network_and_with_nothing_else_of_it() {
    let mut wish = Wish::in_user_namespace();
    wish.sandbox_options().network = Node.into();
    wish.options().network = Node.into();
    (wish.place.network, wish.place.uts) = (None, None);
    let start = wish.start();
    assert_eq!((start.namespaces.user, start.namespaces.network), (at("/run/ns/user"), NamespaceSpec::Host));
    for kind in ["pid", "ipc"] {
        let mut wish = Wish::in_user_namespace();
        let node = i32::from(Node);
        match kind {
            "pid" => (wish.sandbox_options().pid, wish.options().pid) = (node, node),
            _ => (wish.sandbox_options().ipc, wish.options().ipc) = (node, node),
        }
        assert_eq!(wish.refused("cannot go with a user namespace"), format!("{OPTIONS}.{kind}"));
    }
}

#[test]
fn a_container_in_another_user_namespace_than_its_sandbox_is_refused() {
    let mut wish = Wish::in_user_namespace();
    wish.options().userns_options.as_mut().unwrap().uids[0].host_id = 131_072;
    assert_eq!(wish.refused("not what the sandbox was made with"), format!("{OPTIONS}.userns_options.uids"));
    let mut wish = Wish::in_user_namespace();
    wish.options().userns_options = None;
    assert_eq!(wish.refused("has a user namespace of its own"), format!("{OPTIONS}.userns_options.mode"));
}

#[test]
fn control_groups_are_hidden_where_they_are_one_hierarchy() {
    let mut wish = Wish::new();
    wish.node.cgroups = CgroupVersion::V2;
    assert_eq!(wish.start().namespaces.cgroup, NamespaceSpec::New);
    assert_eq!(wish.privileged().start().namespaces.cgroup, NamespaceSpec::Host);
}

fn sandbox(sysctls: &[(&str, &str)], host: &[&str]) -> PodSandboxConfig {
    let mut wish = Wish::new();
    let options = wish.sandbox_options();
    if host.contains(&"network") {
        options.network = Node.into();
    }
    if host.contains(&"ipc") {
        options.ipc = Node.into();
    }
    let sysctls = sysctls.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let linux = LinuxPodSandboxConfig { sysctls, ..wish.sandbox.linux.unwrap() };
    PodSandboxConfig { linux: Some(linux), ..Default::default() }
}

#[test]
fn settings_are_those_of_the_sandboxs_own_namespaces() {
    let config = sandbox(
        &[("kernel.shm_rmid_forced", "1"), ("net.ipv4.ip_forward", "1"), ("fs.mqueue.msg_max", "9")],
        &[],
    );
    let found = spec::sysctls(&config, None).unwrap();
    assert_eq!(found["kernel.shm_rmid_forced"], "1");
    assert_eq!(found["net.ipv4.ip_unprivileged_port_start"], "0", "ours is added");
    let host = spec::sysctls(&sandbox(&[], &["network"]), None).unwrap();
    assert_eq!(host, BTreeMap::new(), "nothing of the host's is changed");
    for (name, host, cause) in [
        ("net.ipv4.ip_forward", vec!["network"], "the pod is in its network"),
        ("net/ipv4/ip_forward", vec!["network"], "the pod is in its network"),
        ("kernel.sem", vec!["ipc"], "the pod is in its IPC"),
        ("kernel.panic", vec![], "of no namespace"),
        ("vm.swappiness", vec![], "of no namespace"),
        ("kernel.sem/../panic", vec![], "no setting"),
        ("", vec![], "no setting"),
    ] {
        let refusal = spec::sysctls(&sandbox(&[(name, "1")], &host), None).unwrap_err();
        assert_eq!(refusal.field, format!("linux.sysctls[{name}]"));
        assert!(refusal.cause.contains(cause), "{refusal}");
    }
}
