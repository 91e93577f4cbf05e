//! Volumes that a kubelet has made: kept, followed and removed as if they were made here, and nothing else is. Needs root.

use crate::support;

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kernel::{Kernel, MountTable, Unmount};
use support::*;
use volumes::kinds::{EmptyDir, Medium, WrittenKind};
use volumes::{Error, PodUid, PodVolumes, Source, Wanted};

/// A kubelet's set of files, with its name for it.
const SET: &str = "..2026_11_18_09_00_00.1234567890";

/// A kubelet's root directory beside a state directory.
struct Kubelet {
    node: Node,
    volumes: PodVolumes,
    pod: PathBuf,
}

impl Kubelet {
    fn new() -> Self {
        let node = Node::new();
        let root = node.dir("root");
        let kernel = Arc::clone(&node.kernel) as Arc<dyn Kernel>;
        let volumes = PodVolumes::open_beside(&root, &node.state(), &[], kernel).unwrap().beside_kubelet();
        let pod = root.join("pods/pod");
        std::fs::create_dir_all(pod.join("plugins")).unwrap();
        Self { node, volumes, pod }
    }

    fn volume(&self, kind: &str, name: &str) -> PathBuf {
        let dir = self.pod.join("volumes").join(format!("kubernetes.io~{kind}")).join(name);
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Marks a volume as complete.
    fn complete(&self, mark: &str) {
        let dir = self.pod.join("plugins/kubernetes.io~empty-dir").join(mark);
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("ready"), "").unwrap();
    }

    fn in_memory(&self, kind: &str, name: &str) -> PathBuf {
        let dir = self.volume(kind, name);
        mount(&["-t", "tmpfs", "-o", "mode=1777", "tmpfs", dir.to_str().unwrap()]);
        dir
    }

    fn nothing_is_left(&self) {
        assert!(!self.pod.join("volumes").exists() && !self.pod.join("volume-subpaths").exists());
        assert!(!self.pod.join("plugins/kubernetes.io~empty-dir").exists());
        assert_eq!(mounts_below(&self.pod), Vec::<PathBuf>::new());
    }
}

fn mount(arguments: &[&str]) {
    let done = Command::new("mount").args(arguments).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Files as a kubelet writes them.
fn write_set(volume: &Path, keys: &[(&str, &str)]) {
    std::fs::create_dir(volume.join(SET)).unwrap();
    symlink(SET, volume.join("..data")).unwrap();
    for (key, value) in keys {
        std::fs::write(volume.join(SET).join(key), value).unwrap();
        symlink(format!("..data/{key}"), volume.join(key)).unwrap();
    }
}

fn mount_id(path: &Path) -> u64 {
    MountTable::read().unwrap().at(path).unwrap_or_else(|| panic!("{} is no mount", path.display())).id
}

fn pod() -> PodUid {
    PodUid::new("pod").unwrap()
}

fn in_memory() -> Source {
    Source::EmptyDir(EmptyDir { medium: Medium::Memory, ..EmptyDir::default() })
}

fn keys(value: &str) -> Source {
    written(WrittenKind::Secret, 0o644, vec![secret(&[("key", value)], &[])])
}

fn all_kinds(value: &str) -> Wanted {
    let settings = config_map(&[("key", "one")]);
    let volumes =
        [("keys", keys(value)), ("settings", settings), ("disk", empty_dir()), ("memory", in_memory())];
    wanted("pod", 1, volumes.map(|(name, source)| idmapped(name, source)).into())
}

#[test]
fn volumes_of_a_kubelet_are_kept_followed_and_removed() {
    alone(|| {
        let kubelet = Kubelet::new();
        let secret = kubelet.in_memory("secret", "keys");
        write_set(&secret, &[("key", "one"), ("old", "gone")]);
        let settings = kubelet.volume("configmap", "settings");
        write_set(&settings, &[("key", "one")]);
        let (disk, memory) = (kubelet.volume("empty-dir", "disk"), kubelet.in_memory("empty-dir", "memory"));
        std::fs::write(disk.join("mine"), "disk").unwrap();
        std::fs::write(memory.join("mine"), "memory").unwrap();
        for mark in ["disk", "memory", "wrapped_keys", "wrapped_settings"] {
            kubelet.complete(mark);
        }
        let part = kubelet.pod.join("volume-subpaths/disk/main/0");
        std::fs::create_dir_all(&part).unwrap();
        mount(&["--bind", disk.to_str().unwrap(), part.to_str().unwrap()]);
        let mounts = [&secret, &memory, &part].map(|path| mount_id(path));
        let inode = disk.metadata().unwrap().ino();

        assert_eq!(kubelet.volumes.take_over(&pod()).unwrap(), Vec::<PathBuf>::new());
        kubelet.volumes.set_up(&all_kinds("one")).unwrap();
        kubelet.volumes.update(&all_kinds("two")).unwrap();
        assert_eq!([&secret, &memory, &part].map(|path| mount_id(path)), mounts, "mounted over");
        assert_eq!(std::fs::read_to_string(secret.join("key")).unwrap(), "two");
        assert!(!secret.join("old").exists() && !secret.join(SET).exists());
        assert_eq!(std::fs::read_to_string(disk.join("mine")).unwrap(), "disk");
        assert_eq!(std::fs::read_to_string(memory.join("mine")).unwrap(), "memory");
        assert_eq!(disk.metadata().unwrap().ino(), inode);

        kubelet.volumes.tear_down(&pod()).unwrap();
        kubelet.nothing_is_left();
    });
}

/// A pod that was deleted while no agent ran.
#[test]
fn volumes_of_a_kubelet_are_removed_also_if_they_were_never_set_up_here() {
    alone(|| {
        let kubelet = Kubelet::new();
        write_set(&kubelet.in_memory("projected", "kube-api-access-x7k2p"), &[("token", "t")]);
        kubelet.complete("wrapped_kube-api-access-x7k2p");
        std::fs::write(kubelet.volume("empty-dir", "disk").join("mine"), "disk").unwrap();
        // A point that nothing is mounted at, as of a kubelet that was killed.
        let part = kubelet.pod.join("volume-subpaths/disk/main");
        std::fs::create_dir_all(&part).unwrap();
        std::fs::write(part.join("3"), "").unwrap();
        kubelet.volumes.tear_down(&pod()).unwrap();
        kubelet.nothing_is_left();
    });
}

/// After a reboot the kubelet had mounted anew what the record has by another mount.
#[test]
fn a_mount_that_a_kubelet_has_made_anew_takes_the_place_of_the_recorded_one() {
    alone(|| {
        let kubelet = Kubelet::new();
        let wanted = all_kinds("one");
        kubelet.volumes.set_up(&wanted).unwrap();
        let secret = kubelet.volume("secret", "keys");
        kernel::unmount(&secret, Unmount::Now).unwrap();
        write_set(&kubelet.in_memory("secret", "keys"), &[("key", "kubelet")]);
        let mounted = mount_id(&secret);
        kubelet.volumes.take_over(&pod()).unwrap();
        kubelet.volumes.set_up(&wanted).unwrap();
        assert_eq!(
            (mount_id(&secret), std::fs::read_to_string(secret.join("key")).unwrap()),
            (mounted, "one".into())
        );
        kubelet.volumes.tear_down(&pod()).unwrap();
        kubelet.nothing_is_left();
    });
}

#[test]
fn what_other_drivers_and_links_have_in_the_directory_is_named_and_left() {
    alone(|| {
        let kubelet = Kubelet::new();
        let outside = kubelet.node.dir("outside");
        std::fs::write(outside.join("file"), "precious").unwrap();
        let claim = kubelet.volume("csi", "pvc-1").join("mount");
        std::fs::create_dir(&claim).unwrap();
        mount(&["-t", "tmpfs", "tmpfs", claim.to_str().unwrap()]);
        std::fs::write(claim.join("data"), "precious").unwrap();
        let bound = kubelet.volume("empty-dir", "bound");
        mount(&["--bind", outside.to_str().unwrap(), bound.to_str().unwrap()]);
        symlink(&outside, kubelet.pod.join("volumes/kubernetes.io~empty-dir/link")).unwrap();
        let own = kubelet.in_memory("secret", "keys");
        for _ in 0..2 {
            let error = kubelet.volumes.tear_down(&pod()).unwrap_err();
            let Error::OfOthers { paths, .. } = &error else { panic!("{error}") };
            let mut names: Vec<&str> =
                paths.iter().map(|path| path.file_name().unwrap().to_str().unwrap()).collect();
            names.sort_unstable();
            assert_eq!(names, ["bound", "link", "pvc-1"], "{error}");
            assert!(error.hint().unwrap().contains("kubelet"));
            assert!(!own.exists(), "what is known goes");
        }
        assert_eq!(std::fs::read_to_string(claim.join("data")).unwrap(), "precious");
        assert_eq!(std::fs::read_to_string(outside.join("file")).unwrap(), "precious");
        // Their driver has removed them.
        kernel::unmount(&claim, Unmount::Now).unwrap();
        kernel::unmount(&bound, Unmount::Now).unwrap();
        std::fs::remove_file(kubelet.pod.join("volumes/kubernetes.io~empty-dir/link")).unwrap();
        std::fs::remove_dir_all(kubelet.pod.join("volumes/kubernetes.io~csi")).unwrap();
        kubelet.volumes.tear_down(&pod()).unwrap();
        kubelet.nothing_is_left();
    });
}

/// Without a kubelet, volumes without a record are another program's.
#[test]
fn nothing_is_taken_over_in_a_directory_that_no_kubelet_uses() {
    alone(|| {
        let node = Node::new();
        let scratch = node.state().join("pods/pod/volumes/kubernetes.io~empty-dir/disk");
        std::fs::create_dir_all(&scratch).unwrap();
        assert_eq!(node.volumes.take_over(&pod()).unwrap(), Vec::<PathBuf>::new());
        assert!(matches!(node.volumes.tear_down(&pod()), Err(Error::NoRecord { .. })));
        assert!(scratch.exists());
    });
}
