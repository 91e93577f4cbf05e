//! Whose the files are, seen from inside and from outside.

use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use crate::nodes::{Setup, node};
use crate::support::pods::{Pod, Shaped};
use crate::support::{Node, proc, wait_for};

/// What every container has, from the image, from containerd and from the kernel.
const OWN: &str = "/ /bin/busybox /etc/passwd /root /tmp /etc/hosts /etc/resolv.conf /etc/hostname /dev/shm /dev/pts \
                   /proc/self/uid_map";

pub(crate) fn two_pods_have_two_blocks_and_see_their_files_as_their_own(setup: Setup) {
    let node = node(setup);
    let ward = |name: &str| {
        let pod = Pod::annotated(node, name);
        let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
        let container = node.cri.run(&sandbox, &pod, pod.shell("main", "sleep 1000")).expect("a container");
        let block = proc::block(node.cri.sandbox_pid(&sandbox));
        assert_eq!(proc::block(node.cri.pid(&container)), block, "a container has the block of its pod");
        assert_eq!(block.1, 65_536);
        (sandbox, container, block.0)
    };
    let (one, two) = (ward("files-one"), ward("files-two"));
    assert!(one.2.abs_diff(two.2) >= 65_536 && one.2 >= 65_536 && two.2 >= 65_536, "{one:?} {two:?}");
    let leased = node.leased();
    for (sandbox, container, block) in [&one, &two] {
        assert!(leased.contains(block), "{block} is not in the ledger: {leased:?}");
        let owners = node.cri.said(container, &format!("stat -c '%u:%g %n' {OWN}"));
        for line in owners.lines() {
            assert!(line.starts_with("0:"), "not root's inside: {line}\n{owners}");
        }
        assert_eq!(node.cri.said(container, "touch /made /etc/made /root/made && stat -c %u /made"), "0\n");
        node.cri.remove_sandbox(sandbox).expect("removed");
    }
    for block in [one.2, two.2] {
        wait_for("the block is given back", || (!node.leased().contains(&block)).then_some(()));
        assert_eq!(proc::processes_in(block), Vec::<String>::new());
    }
}

/// A volume with a file of root and one of user 1000.
fn volume(node: &Node, name: &str) -> std::path::PathBuf {
    let dir = node.dir(name);
    for (file, user) in [("of-root", 0), ("of-1000", 1000)] {
        fs::write(dir.join(file), "words\n").unwrap();
        chown(dir.join(file), Some(user), Some(user)).unwrap();
    }
    dir
}

fn owner(path: &Path) -> (u32, u32) {
    let meta = fs::metadata(path).unwrap();
    (meta.uid(), meta.gid())
}

pub(crate) fn what_a_pod_writes_belongs_to_root_on_disk_and_not_to_its_block(setup: Setup) {
    let node = node(setup);
    let (shared, guarded) = (volume(node, "shared"), volume(node, "guarded"));
    let pod = Pod::annotated(node, "volumes");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let config =
        |name: &str| pod.shell(name, "sleep 1000").volume(&shared, "/shared").read_only(&guarded, "/guarded");
    let first = node.cri.run(&sandbox, &pod, config("first")).expect("a container");
    let second = node.cri.run(&sandbox, &pod, config("second").user(1000)).expect("another");
    let seen = "stat -c '%u:%g' /shared /shared/of-root /shared/of-1000 /guarded/of-1000";
    for container in [&first, &second] {
        assert_eq!(node.cri.said(container, seen), "0:0\n0:0\n1000:1000\n1000:1000\n");
    }
    node.cri.said(&first, "echo new > /shared/new && chown 7:8 /shared/new && echo more >> /shared/of-1000");
    node.cri.said(&second, "echo more >> /shared/of-1000 && cat /shared/new");
    assert_eq!(owner(&shared.join("new")), (7, 8));
    assert_eq!(owner(&shared), (0, 0), "no file on disk changes its owner");
    assert_eq!(owner(&shared.join("of-1000")), (1000, 1000));
    assert_eq!(fs::read_to_string(shared.join("of-1000")).unwrap(), "words\nmore\nmore\n");
    let refused = node.cri.exec(&second, "echo x >> /shared/of-root").unwrap();
    assert_ne!(refused.exit_code, 0, "an ordinary user writes root's file");
    let refused = node.cri.exec(&first, "echo x >> /guarded/of-root").unwrap();
    assert_ne!(refused.exit_code, 0, "a read-only volume was written");
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

pub(crate) fn a_user_of_the_image_writes_where_it_may_and_to_its_streams(setup: Setup) {
    let node = node(setup);
    let pod = Pod::annotated(node, "streams");
    let sandbox = node.cri.run_sandbox(&pod).expect("a sandbox");
    let script = "echo out > /dev/stdout; echo err > /dev/stderr; echo fd > /proc/self/fd/1; \
                  touch /tmp/mine && stat -c %u:%g /tmp/mine; touch /mine 2>/dev/null || echo refused; sleep 1000";
    node.cri.run(&sandbox, &pod, pod.shell("ordinary", script).user(1000)).expect("a container");
    node.cri.run(&sandbox, &pod, pod.shell("root", script)).expect("another");
    wait_for("both have spoken", || pod.logged("ordinary").contains("refused").then_some(()));
    let lines = |name: &str| -> Vec<String> { pod.logged(name).lines().map(str::to_owned).collect() };
    let mut ordinary = lines("ordinary");
    ordinary.sort();
    assert_eq!(ordinary, ["1000:1000", "err", "fd", "out", "refused"]);
    wait_for("root's too", || lines("root").contains(&"0:0".to_owned()).then_some(()));
    let mut root = lines("root");
    root.sort();
    assert_eq!(root, ["0:0", "err", "fd", "out"]);
    node.cri.remove_sandbox(&sandbox).expect("removed");
}
