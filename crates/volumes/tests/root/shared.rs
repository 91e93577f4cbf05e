//! One tree for several pods, idmapped or in a shared block, and filesystems that cannot be idmapped.
//! Needs root.

use crate::support;

use std::collections::BTreeMap;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kernel::{Filesystem, FilesystemKind, FsOption, Live};
use plan::Owners;
use support::*;
use volumes::kinds::{HostPathType, WrittenKind};
use volumes::{About, Error, PodVolumes, Wanted};

fn mount_at(path: &Path, name: &str, options: Vec<FsOption>) {
    std::fs::create_dir_all(path).unwrap();
    let kind = FilesystemKind::Other { name: name.to_owned(), source: None, options };
    Filesystem::new(kind).make().unwrap().attach(path).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn ramfs(path: &Path) {
    mount_at(path, "ramfs", vec![]);
}

fn overlay(path: &Path) {
    let part = |name: &str| {
        let dir = path.with_extension(name);
        std::fs::create_dir(&dir).unwrap();
        dir.to_str().unwrap().to_owned()
    };
    let options = ["lowerdir", "upperdir", "workdir"].map(|key| FsOption::new(key, part(key)));
    mount_at(path, "overlay", options.into());
}

/// Owner and time of the last change to it, for every file of a tree.
fn snapshot(tree: &Path) -> BTreeMap<PathBuf, (u32, u32, i64, i64)> {
    let mut found = BTreeMap::new();
    let mut left = vec![tree.to_owned()];
    while let Some(path) = left.pop() {
        let meta = path.symlink_metadata().unwrap();
        if meta.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().path()));
        }
        found.insert(path, (meta.uid(), meta.gid(), meta.ctime(), meta.ctime_nsec()));
    }
    found
}

fn host_pod(name: &str, block: u32, path: &Path, owners: Owners) -> Wanted {
    wanted(name, block, vec![volume("v", owners, host_path(path, HostPathType::Directory))])
}

#[test]
fn two_pods_of_different_blocks_share_a_tree_and_nothing_on_disk_changes_hands() {
    alone(|| {
        let node = Node::new();
        let srv = node.dir("srv");
        chown(&srv, Some(1000), Some(1000)).unwrap();
        for n in 0..20 {
            std::fs::create_dir(srv.join(format!("d{n}"))).unwrap();
            std::fs::write(srv.join(format!("d{n}/f")), "text").unwrap();
            chown(srv.join(format!("d{n}/f")), Some(n), Some(n * 3)).unwrap();
        }
        let before = snapshot(&srv.join("d7"));
        let (a, b) = (host_pod("a", 1, &srv, Owners::Idmapped), host_pod("b", 2, &srv, Owners::Idmapped));
        let (at_a, at_b) =
            (node.show(&a, &mount("v", "/data"), "a"), node.show(&b, &mount("v", "/data"), "b"));
        let in_a = |script: &str| node.inside(&a, (1000, 1000), &format!("cd {}; {script}", at_a.display()));
        let in_b = |script: &str| node.inside(&b, (1000, 1000), &format!("cd {}; {script}", at_b.display()));
        assert_eq!(in_a("umask 077; echo from a > private; stat -c %u:%g private"), "1000:1000");
        assert_eq!(in_b("cat private; echo from b >> private; stat -c %u:%g private"), "from a\n1000:1000");
        assert_eq!(in_a("cat private; mkdir dir; stat -c %u:%g d7/f"), "from a\nfrom b\n7:21");
        assert_eq!(in_b("rmdir dir; ls d7"), "f");
        assert_eq!(on_host(&srv.join("private")), "1000:1000 600");
        for pod in [&a, &b] {
            node.volumes.tear_down(&pod.pod).unwrap();
        }
        assert_eq!(snapshot(&srv.join("d7")), before, "a file was touched");
    });
}

/// Two user namespaces, one block: what one pod writes the other can use, on filesystems that refuse to
/// be idmapped.
fn a_shared_block_shares_files_on(mount_it: fn(&Path)) {
    alone(|| {
        let node = Node::new();
        let srv = node.path("srv");
        mount_it(&srv);
        // The shared block's own directory, as the operator made it.
        let root = BASE + 3 * LENGTH;
        chown(&srv, Some(root + 1000), Some(root + 1000)).unwrap();
        let refused = node.volumes.set_up(&host_pod("own", 3, &srv, Owners::Idmapped)).unwrap_err();
        assert!(matches!(refused, Error::CannotIdmap { .. }), "{refused}");
        let other = Node::new();
        let pods =
            [host_pod("a", 3, &srv, Owners::SharedBlocks), host_pod("b", 3, &srv, Owners::SharedBlocks)];
        let at: Vec<_> =
            pods.iter().map(|pod| node.show(pod, &mount("v", "/data"), pod.pod.as_str())).collect();
        let in_a = |script: &str| node.inside(&pods[0], (1000, 1000), script);
        let in_b = |script: &str| other.inside(&pods[1], (1000, 1000), script);
        assert_ne!(in_a("readlink /proc/self/ns/user"), in_b("readlink /proc/self/ns/user"));
        let wrote = format!("cd {}; umask 077; echo shared > file; stat -c %u:%g file", at[0].display());
        assert_eq!(in_a(&wrote), "1000:1000");
        assert_eq!(in_b(&format!("cat {}/file", at[1].display())), "shared");
        assert_eq!(in_b(&format!("rm {0}/file; ls {0}", at[1].display())), "");
        for pod in &pods {
            node.volumes.tear_down(&pod.pod).unwrap();
        }
        assert_eq!(on_host(&srv), format!("{0}:{0} 755", root + 1000));
    });
}

#[test]
fn a_shared_block_shares_files_on_ramfs() {
    a_shared_block_shares_files_on(ramfs);
}

#[test]
fn a_shared_block_shares_files_on_an_overlay() {
    a_shared_block_shares_files_on(overlay);
}

#[test]
fn a_volume_that_cannot_be_idmapped_is_refused_by_name_before_anything_is_made() {
    alone(|| {
        let node = Node::new();
        let (plain, srv) = (node.dir("plain"), node.path("srv"));
        ramfs(&srv);
        let mut pod = host_pod("refused", 1, &srv, Owners::Idmapped);
        pod.volumes.insert(0, idmapped("scratch", empty_dir()));
        let made = plain.join("made");
        pod.volumes.insert(0, idmapped("made", host_path(&made, HostPathType::DirectoryOrCreate)));
        let error = node.volumes.set_up(&pod).unwrap_err();
        let text = format!("volume \"v\" is on ramfs at {}, which cannot be idmapped", srv.display());
        assert!(error.to_string().contains(&text), "{error}");
        assert!(error.hint().unwrap().contains("sharedBlock or chownOnce"), "{error:?}");
        assert!(!made.exists() && !node.state().join("pods").exists(), "something was made");
        ramfs(&plain.join("below"));
        let error = node.volumes.set_up(&host_pod("below", 1, &plain, Owners::Idmapped)).unwrap_err();
        assert!(error.to_string().contains(&format!("ramfs at {}/below", plain.display())), "{error}");
    });
}

#[test]
fn what_the_node_makes_on_such_a_filesystem_is_the_pods_on_disk() {
    alone(|| {
        let node = Node::with_state(ramfs);
        let config = config_map(&[("key", "text")]);
        let secret = written(WrittenKind::Secret, 0o600, vec![secret(&[("key", "k")], &[])]);
        let volumes =
            vec![idmapped("scratch", empty_dir()), idmapped("config", config), idmapped("s", secret)];
        let pod = wanted("translated", 1, volumes);
        let notices = node.volumes.set_up(&pod).unwrap();
        let named: Vec<_> = notices.iter().map(|n| n.volume.as_str()).collect();
        assert_eq!(named, ["scratch", "config"], "the secret's tmpfs can be idmapped");
        assert!(notices[0].text.starts_with("ramfs cannot be idmapped"), "{}", notices[0].text);
        let root = BASE + LENGTH;
        for (volume, on_disk) in [("scratch", root), ("config", root), ("s", 0)] {
            let at = node.attach(node.volumes.present(&pod, &mount(volume, "/data")).unwrap(), volume);
            let host = node.volumes.host_mount(&pod, &mount(volume, "/data")).unwrap();
            assert!(on_host(&host.host_path).starts_with(&format!("{on_disk}:{on_disk} ")), "{volume}");
            assert!(node.seen(&pod, &at).starts_with("0:0 "), "{volume}");
            assert_eq!(host.uid_mappings.is_empty(), on_disk != 0);
        }
        node.volumes.tear_down(&pod.pod).unwrap();
    });
}

#[test]
fn a_tree_is_given_to_a_pod_once_and_taken_back_with_it() {
    alone(|| {
        let node = Node::new();
        let srv = node.path("srv");
        ramfs(&srv);
        std::fs::write(srv.join("file"), "text").unwrap();
        chown(srv.join("file"), Some(1000), Some(2000)).unwrap();
        let pod = host_pod("given", 1, &srv, Owners::ChownedOnce);
        let cost = node.volumes.set_up(&pod).unwrap();
        assert!(matches!(cost.as_slice(), [notice] if notice.about == About::Cost), "{cost:?}");
        let (begin, end) = (format!("2 files of {} were given to ", srv.display()), " s (chownOnce)");
        assert!(cost[0].text.starts_with(&begin) && cost[0].text.ends_with(end), "{cost:?}");
        let at = node.show(&pod, &mount("v", "/data"), "tree");
        let root = BASE + LENGTH;
        assert_eq!(on_host(&srv.join("file")), format!("{}:{} 644", root + 1000, root + 2000));
        assert_eq!(node.seen(&pod, &at.join("file")), "1000:2000 644");
        node.volumes.set_up(&pod).unwrap();
        assert_eq!(node.seen(&pod, &at.join("file")), "1000:2000 644");
        let other = node.volumes.set_up(&host_pod("other", 2, &srv, Owners::ChownedOnce)).unwrap_err();
        assert!(other.to_string().contains("is given to other IDs"), "{other}");
        // A restarted agent knows it all from the record.
        let again = PodVolumes::open(&node.state(), Arc::new(Live::new())).unwrap();
        let back = again.tear_down(&pod.pod).unwrap();
        assert!(
            back[0].text.starts_with(&format!("2 files of {} were taken back ", srv.display())),
            "{back:?}"
        );
        assert_eq!(on_host(&srv.join("file")), "1000:2000 644");
        again.tear_down(&host_pod("other", 2, &srv, Owners::ChownedOnce).pod).unwrap();
        assert_eq!(on_host(&srv.join("file")), "1000:2000 644");
    });
}

#[test]
fn a_tree_that_two_pods_of_a_shared_block_have_goes_back_with_the_last() {
    alone(|| {
        let node = Node::new();
        let srv = node.dir("srv");
        let pods = ["a", "b"].map(|name| host_pod(name, 1, &srv, Owners::ChownedOnce));
        for pod in &pods {
            node.volumes.set_up(pod).unwrap();
        }
        let root = BASE + LENGTH;
        node.volumes.tear_down(&pods[0].pod).unwrap();
        assert_eq!(on_host(&srv), format!("{root}:{root} 755"));
        node.volumes.tear_down(&pods[1].pod).unwrap();
        assert_eq!(on_host(&srv), "0:0 755");
    });
}

/// A network filesystem that is not mounted looks like a tree that is gone.
#[test]
fn a_given_tree_that_is_missing_is_named_and_taken_back_when_it_is_there_again() {
    alone(|| {
        let node = Node::new();
        let srv = node.dir("srv");
        std::fs::write(srv.join("file"), "text").unwrap();
        let pod = host_pod("given", 1, &srv, Owners::ChownedOnce);
        node.volumes.set_up(&pod).unwrap();
        std::fs::rename(&srv, node.path("elsewhere")).unwrap();
        for _ in 0..2 {
            let error = node.volumes.tear_down(&pod.pod).unwrap_err();
            assert!(matches!(error, Error::GivenTreeMissing { .. }), "{error}");
            assert!(error.hint().unwrap().contains("mount it"), "{error}");
        }
        std::os::unix::fs::symlink("srv", &srv).unwrap();
        let error = node.volumes.tear_down(&pod.pod).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "a path that cannot be looked at is not missing: {error}");
        std::fs::remove_file(&srv).unwrap();
        std::fs::rename(node.path("elsewhere"), &srv).unwrap();
        node.volumes.tear_down(&pod.pod).unwrap();
        assert_eq!(on_host(&srv.join("file")), "0:0 644");
    });
}

/// A static pod keeps its UID when it is changed, and may come with another block.
#[test]
fn a_pod_that_comes_again_with_another_block_has_its_tree_given_anew() {
    alone(|| {
        let node = Node::new();
        let srv = node.dir("srv");
        std::fs::write(srv.join("file"), "text").unwrap();
        for block in [1, 2, 2] {
            let pod = host_pod("static", block, &srv, Owners::ChownedOnce);
            node.volumes.set_up(&pod).unwrap();
            let root = BASE + block * LENGTH;
            assert_eq!(on_host(&srv.join("file")), format!("{root}:{root} 644"));
        }
        let other = node.dir("other");
        node.volumes.set_up(&host_pod("static", 2, &other, Owners::ChownedOnce)).unwrap();
        assert_eq!(on_host(&srv.join("file")), "0:0 644", "another tree is wanted");
        node.volumes.tear_down(&host_pod("static", 2, &other, Owners::ChownedOnce).pod).unwrap();
        assert_eq!(on_host(&other), "0:0 755");
    });
}

#[test]
fn a_volume_with_files_of_another_block_is_refused_until_the_pod_is_torn_down() {
    alone(|| {
        let node = Node::new();
        for source in [empty_dir(), config_map(&[("key", "text")])] {
            let pod = |block| wanted("static", block, vec![volume("v", Owners::Translated, source.clone())]);
            node.volumes.set_up(&pod(1)).unwrap();
            let at = node.volumes.host_mount(&pod(1), &mount("v", "/data")).unwrap().host_path;
            let (first, second) = (BASE + LENGTH, BASE + 2 * LENGTH);
            for outcome in [
                node.volumes.set_up(&pod(2)).map(drop),
                node.volumes.present(&pod(2), &mount("v", "/data")).map(drop),
            ] {
                let error = outcome.unwrap_err();
                let text = format!("made for 0:{first}:{LENGTH}, not for 0:{second}:{LENGTH}");
                assert!(error.to_string().contains(&text), "{error}");
                assert!(error.hint().unwrap().contains("tear the pod"), "{error}");
            }
            assert!(on_host(&at).starts_with(&format!("{first}:{first} ")));
            node.volumes.set_up(&pod(1)).unwrap();
            node.volumes.tear_down(&pod(1).pod).unwrap();
            node.volumes.set_up(&pod(2)).unwrap();
            assert!(on_host(&at).starts_with(&format!("{second}:{second} ")));
            node.volumes.tear_down(&pod(2).pod).unwrap();
        }
        let pod = |block| wanted("static", block, vec![idmapped("v", empty_dir())]);
        node.volumes.set_up(&pod(1)).unwrap();
        let at = node.show(&pod(2), &mount("v", "/data"), "tree");
        assert!(node.seen(&pod(2), &at).starts_with("0:0 "), "what is idmapped is anybody's");
        node.volumes.tear_down(&pod(2).pod).unwrap();
    });
}

/// Files of an overlay over several filesystems have device numbers that no mount has.
#[test]
fn a_part_of_an_overlay_is_known_as_ours_and_goes_with_the_pod() {
    alone(|| {
        let node = Node::new();
        let layers = ["lower", "above"].map(|name| node.path(name));
        layers.iter().for_each(|layer| mount_at(layer, "tmpfs", vec![]));
        std::fs::write(layers[0].join("file"), "text").unwrap();
        let [upper, work] = ["upper", "work"].map(|name| layers[1].join(name));
        [&upper, &work].iter().for_each(|dir| std::fs::create_dir(dir).unwrap());
        let option = |key, path: &Path| FsOption::new(key, path.to_str().unwrap());
        let srv = node.path("srv");
        let dirs = [("lowerdir", &layers[0]), ("upperdir", &upper), ("workdir", &work)];
        let mut options: Vec<_> = dirs.map(|(key, path)| option(key, path)).into();
        options.push(FsOption::new("xino", "off"));
        mount_at(&srv, "overlay", options);
        let device = |path: &Path| std::fs::metadata(path).unwrap().dev();
        assert_ne!(device(&srv), device(&srv.join("file")), "the overlay shows nothing of the sort");
        let pod = host_pod("part", 1, &srv, Owners::AsOnDisk);
        node.volumes.set_up(&pod).unwrap();
        let part = part("v", "/data", "file");
        let at = node.volumes.host_mount(&pod, &part).unwrap().host_path;
        assert_eq!(node.volumes.host_mount(&pod, &part).unwrap().host_path, at);
        assert_eq!(std::fs::read_to_string(&at).unwrap(), "text");
        node.volumes.tear_down(&pod.pod).unwrap();
        assert_eq!(mounts_below(&node.state()), Vec::<PathBuf>::new());
    });
}

/// Inside they belong to the overflow ID, and the pod cannot change that.
#[test]
fn files_that_the_pods_map_leaves_out_are_said_when_the_volume_is_set_up() {
    alone(|| {
        let node = Node::new();
        let srv = node.dir("srv");
        std::fs::create_dir(srv.join("below")).unwrap();
        for (name, owner) in [("good", 65_535), ("below/out", 65_536), ("far", 4_000_000)] {
            std::fs::write(srv.join(name), "text").unwrap();
            chown(srv.join(name), Some(owner), Some(0)).unwrap();
        }
        let pod = host_pod("owners", 1, &srv, Owners::Idmapped);
        let notices = node.volumes.set_up(&pod).unwrap();
        assert!(matches!(notices.as_slice(), [notice] if notice.about == About::Owners), "{notices:?}");
        let text = &notices[0].text;
        assert!(
            text.starts_with("2 of the 5 uppermost files belong to IDs that the pod's map leaves out"),
            "{text}"
        );
        assert!(text.contains(&format!("{} to 4000000:0", srv.join("far").display())), "{text}");
        node.volumes.tear_down(&pod.pod).unwrap();
        chown(srv.join("far"), Some(1), Some(1)).unwrap();
        chown(srv.join("below/out"), Some(1), Some(1)).unwrap();
        assert!(node.volumes.set_up(&pod).unwrap().is_empty());
        node.volumes.tear_down(&pod.pod).unwrap();
    });
}
