//! A thousand volumes made and removed.

use crate::support;

use std::path::Path;

use kernel::{Filesystem, FilesystemKind, Owner};
use support::*;
use volumes::kinds::{EmptyDir, HostPathType, Medium, WrittenKind};
use volumes::{Source, Wanted};

fn memory() -> Source {
    Source::EmptyDir(EmptyDir { medium: Medium::Memory, ..EmptyDir::default() })
}

#[test]
fn after_a_thousand_volumes_mounts_and_descriptors_are_as_before() {
    if !testkit::in_own_process(
        "teardown_many::after_a_thousand_volumes_mounts_and_descriptors_are_as_before",
    ) {
        return;
    }
    alone(|| {
        // In memory: what is counted does not depend on the disk, which would have to sync for each.
        let node = Node::with_state(|state| {
            let tmpfs = FilesystemKind::Tmpfs { size: None, inodes: None, mode: 0o755, owner: Owner::ROOT };
            Filesystem::new(tmpfs).make().unwrap().attach(state).unwrap();
        });
        let srv = node.dir("srv");
        let one = wanted("pod", 1, vec![idmapped("v", empty_dir())]);
        node.volumes.set_up(&one).unwrap();
        node.volumes.tear_down(&one.pod).unwrap();
        let all_mounts = || mounts_below(Path::new("/")).len();
        let (mounts, open) = (all_mounts(), descriptors());
        let pods: Vec<Wanted> = (0..100).map(|n| ten_volumes(n, &srv)).collect();
        for (n, pod) in pods.iter().enumerate() {
            node.volumes.set_up(pod).unwrap();
            for name in ["v0", "v4", "v6"].iter().filter(|_| n % 10 == 0) {
                drop(node.volumes.present(pod, &part(name, "/data", "part")).unwrap());
                node.volumes.host_mount(pod, &part(name, "/data", "part")).unwrap();
            }
        }
        assert!(all_mounts() > mounts + 600, "{} mounts", all_mounts());
        assert_eq!(descriptors(), open + pods.len(), "one for the user namespace of each pod");
        for pod in &pods {
            node.volumes.tear_down(&pod.pod).unwrap();
        }
        assert_eq!((all_mounts(), descriptors()), (mounts, open));
        assert_eq!(std::fs::read_dir(node.state().join("pods")).unwrap().count(), 0);
        assert_eq!(mounts_below(&node.state()), [node.state()]);
        assert_eq!(
            std::fs::read_dir(&srv).unwrap().count(),
            1,
            "the part that was made in the hostPath stays"
        );
        one_block_is_held_as_long_as_a_pod_has_it(&node, open);
    });
}

fn one_block_is_held_as_long_as_a_pod_has_it(node: &Node, open: usize) {
    let pods = ["a", "b"].map(|name| wanted(name, 1, vec![idmapped("v", empty_dir())]));
    for pod in &pods {
        node.volumes.set_up(pod).unwrap();
    }
    assert_eq!(descriptors(), open + 1);
    node.volumes.tear_down(&pods[0].pod).unwrap();
    assert_eq!(descriptors(), open + 1, "the other has it");
    assert!(node.volumes.present(&pods[0], &mount("v", "/data")).is_err());
    node.volumes.tear_down(&pods[1].pod).unwrap();
    assert_eq!(descriptors(), open);
    // What never comes to a record is never torn down.
    let nowhere = host_path(Path::new("/nonexistent"), HostPathType::Directory);
    let refused = wanted("refused", 2, vec![idmapped("v", empty_dir()), idmapped("h", nowhere)]);
    assert!(
        node.volumes.set_up(&refused).is_err() && node.volumes.present(&pods[0], &mount("v", "/d")).is_err()
    );
    node.volumes.probe(&pods[0]).unwrap();
    assert_eq!(descriptors(), open);
}

fn ten_volumes(n: usize, srv: &Path) -> Wanted {
    let secret = || written(WrittenKind::Secret, 0o600, vec![secret(&[("key", "k")], &[])]);
    let sources = [
        empty_dir(),
        memory(),
        memory(),
        secret(),
        memory(),
        secret(),
        host_path(srv, HostPathType::Directory),
        config_map(&[("key", "text")]),
        memory(),
        empty_dir(),
    ];
    let named = sources.into_iter().enumerate().map(|(i, source)| idmapped(&format!("v{i}"), source));
    wanted(&format!("pod{n}"), u32::try_from(n).unwrap() + 1, named.collect())
}
