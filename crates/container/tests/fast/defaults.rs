//! What every container has, and the default profile, without the kernel.

use crate::support;

use container::capabilities::{self, RequestedCapabilities};
use container::defaults::{self, Privilege};
use container::seccomp::runtime_default;
use container::{MountSpec, NamespaceSpec, NamespaceSpecs, ReadOnly};
use ids::{IdMapping, IdMappings};
use serde_json::Value;

fn at(spaces: &NamespaceSpecs, ids: Option<&IdMappings>, target: &str) -> MountSpec {
    let all = defaults::mounts(spaces, ids, Privilege::Usual);
    all.into_iter().find(|mount| mount.target() == std::path::Path::new(target)).unwrap()
}

fn options(mount: &MountSpec) -> Vec<String> {
    match mount {
        MountSpec::Bind(bind) => bind.options.clone(),
        MountSpec::New(new) => new.options.clone(),
        MountSpec::Image(_) => Vec::new(),
    }
}

#[test]
fn terminals_belong_to_their_group_where_that_is_mapped() {
    let spaces = support::spaces(NamespaceSpec::New);
    let has_group =
        |ids: Option<&IdMappings>| options(&at(&spaces, ids, "/dev/pts")).contains(&"gid=5".to_owned());
    let few = IdMapping::new(0, 1 << 20, 5).unwrap();
    assert!(has_group(None) && has_group(Some(&support::maps())));
    assert!(!has_group(Some(&IdMappings { uids: vec![few], gids: vec![few] })));
}

#[test]
fn what_only_the_owner_of_a_namespace_may_mount_is_the_hosts_otherwise() {
    let own = support::spaces(NamespaceSpec::New);
    for (target, filesystem) in [("/proc", "proc"), ("/sys", "sysfs"), ("/dev/mqueue", "mqueue")] {
        let mount = at(&own, None, target);
        assert!(matches!(&mount, MountSpec::New(new) if new.filesystem == filesystem), "{mount:?}");
    }
    let hosts_network = NamespaceSpecs { network: NamespaceSpec::Host, ..own.clone() };
    let sys = at(&hosts_network, None, "/sys");
    assert!(matches!(&sys, MountSpec::Bind(bind) if bind.read_only == ReadOnly::Recursive), "{sys:?}");
    let no_user_namespace = NamespaceSpecs { user: NamespaceSpec::Host, ..hosts_network };
    assert!(matches!(at(&no_user_namespace, None, "/sys"), MountSpec::New(_)));
    let hosts_ipc = NamespaceSpecs { ipc: NamespaceSpec::Host, ..own };
    assert!(matches!(at(&hosts_ipc, None, "/dev/mqueue"), MountSpec::Bind(_)));
}

#[test]
fn only_a_privileged_container_can_write_to_sys_and_control_groups() {
    let spaces = support::spaces(NamespaceSpec::Host);
    for (privilege, access) in [(Privilege::Usual, "ro"), (Privilege::Privileged, "rw")] {
        let mounts = defaults::mounts(&spaces, None, privilege);
        let with = mounts.iter().filter(|mount| options(mount).iter().any(|option| option == access));
        assert_eq!(with.count(), 2, "{privilege:?}");
    }
}

fn rules(profile: &Value, call: &str) -> Vec<Value> {
    let named = |rule: &&Value| rule["names"].as_array().unwrap().iter().any(|name| name == call);
    profile["syscalls"].as_array().unwrap().iter().filter(named).cloned().collect()
}

#[test]
fn calls_that_are_never_needed_are_not_named_and_what_is_not_named_is_refused() {
    let profile = runtime_default(&capabilities::of(&RequestedCapabilities::default()).unwrap());
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ERRNO");
    for call in ["add_key", "keyctl", "kexec_load", "io_uring_setup", "userfaultfd", "mount", "bpf", "swapon"]
    {
        assert!(rules(&profile, call).is_empty(), "{call}");
    }
    assert_eq!(rules(&profile, "chroot").len(), 1, "the usual capabilities have SYS_CHROOT");
}

#[test]
fn without_the_capability_clone_makes_no_namespace_and_clone3_is_unknown() {
    let usual = runtime_default(&capabilities::of(&RequestedCapabilities::default()).unwrap());
    assert_eq!(rules(&usual, "clone")[0]["args"][0]["op"], "SCMP_CMP_MASKED_EQ");
    assert_eq!(rules(&usual, "clone3")[0]["errnoRet"], 38);
    let admin = runtime_default(&capabilities::all());
    for call in ["clone", "clone3", "unshare", "setns", "mount"] {
        let rules = rules(&admin, call);
        assert!(rules.len() == 1 && rules[0].get("args").is_none(), "{call}: {rules:?}");
        assert_eq!(rules[0]["action"], "SCMP_ACT_ALLOW");
    }
}
