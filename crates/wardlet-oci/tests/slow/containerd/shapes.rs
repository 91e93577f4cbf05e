//! Pods of other shapes than the simplest.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};

use cri::NamespaceMode;

use crate::nodes::{Setup, node};
use crate::support::pods::{Pod, Shaped};
use crate::support::{Node, proc, wait_for};

pub(crate) fn containers_of_a_shared_pid_namespace_see_each_other(setup: Setup) {
    let node = node(setup);
    let mut pod = Pod::annotated(node, "shared-pids");
    pod.options().pid = NamespaceMode::Pod.into();
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let first = node.cri.run(&sandbox, &pod, pod.shell("first", "sleep 1111")).expect("a container");
    let second = node.cri.run(&sandbox, &pod, pod.shell("second", "sleep 2222")).expect("another");
    let seen = node.cri.said(&second, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '");
    for word in ["/pause", "sleep 1111", "sleep 2222"] {
        assert!(seen.contains(word), "{word} is not seen: {seen}");
    }
    let namespace = |pid: i32, kind: &str| proc::namespaces(&pid.to_string())[kind].clone();
    let (pause, one) = (node.cri.sandbox_pid(&sandbox), node.cri.pid(&first));
    for kind in ["user", "pid", "net", "ipc", "uts"] {
        assert_eq!(namespace(pause, kind), namespace(one, kind), "{kind}");
    }
    assert_eq!(namespace(one, "user"), namespace(node.cri.pid(&second), "user"));
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

pub(crate) fn a_terminal_belongs_to_the_user_who_has_it(setup: Setup) {
    let node = node(setup);
    let pod = Pod::annotated(node, "terminal");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let script =
        "test -t 0 && stat -c 'tty of %u' $(readlink /proc/self/fd/0); echo seen > /dev/tty; sleep 1000";
    let mut config = pod.shell("terminal", script).user(1000);
    config.tty = true;
    config.stdin = true;
    node.cri.run(&sandbox, &pod, config).expect("a container");
    wait_for("it has spoken", || {
        let said = pod.logged("terminal");
        (said.contains("tty of 1000") && said.contains("seen")).then_some(())
    });
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

pub(crate) fn groups_limits_and_a_read_only_root_are_kept(setup: Setup) {
    let node = node(setup);
    let volume = node.dir("of-a-group");
    chown(&volume, Some(0), Some(2000)).unwrap();
    fs::set_permissions(&volume, std::os::unix::fs::PermissionsExt::from_mode(0o2770)).unwrap();
    let pod = Pod::annotated(node, "confined");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let mut config = pod.shell("main", "sleep 1000").user(1000).volume(&volume, "/data");
    config.security().supplemental_groups = vec![2000];
    config.security().readonly_rootfs = true;
    config.security().no_new_privs = true;
    config.security().seccomp = Some(cri::SecurityProfile::default());
    config.security().masked_paths = vec!["/proc/keys".into()];
    config.security().readonly_paths = vec!["/proc/sys".into()];
    let memory = 64 << 20;
    config.linux.as_mut().unwrap().resources =
        Some(cri::LinuxContainerResources { memory_limit_in_bytes: memory, ..Default::default() });
    let container = node.cri.run(&sandbox, &pod, config).expect("a container");
    assert_eq!(node.cri.said(&container, "touch /data/mine && stat -c %u:%g /data/mine"), "1000:2000\n");
    let meta = fs::metadata(volume.join("mine")).unwrap();
    assert_eq!((meta.uid(), meta.gid()), (1000, 2000));
    let refused = node.cri.exec(&container, "touch /tmp/x").unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("Read-only"), "{refused:?}");
    let status = node.cri.said(&container, "cat /proc/1/status");
    assert!(status.contains("Seccomp:\t2") && status.contains("NoNewPrivs:\t1"), "{status}");
    assert_eq!(node.cri.said(&container, "cat /proc/keys"), "");
    assert_ne!(node.cri.exec(&container, "echo 0 > /proc/sys/kernel/hostname").unwrap().exit_code, 0);
    assert_eq!(limit_of(node, node.cri.pid(&container)).trim(), memory.to_string());
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

/// The memory limit of a process's control group, of either version, as the testbed sees it.
fn limit_of(node: &Node, pid: i32) -> String {
    let groups = node.said("cat", &[&format!("/proc/{pid}/cgroup")]);
    let of = |wanted: &str| groups.lines().find_map(|line| Some(line.split_once(wanted)?.1.to_owned()));
    let file = match of(":memory:") {
        Some(path) => format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes"),
        None => format!("/sys/fs/cgroup{}/memory.max", of("0::").unwrap()),
    };
    node.said("cat", &[&file])
}
