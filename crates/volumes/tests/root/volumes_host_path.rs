//! hostPath volumes: every type against everything that can be there. Needs root.

use crate::support;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use kernel::{Filesystem, FilesystemKind};
use plan::Owners;
use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
use support::*;
use volumes::Error;
use volumes::kinds::HostPathType;

const TYPES: [&str; 8] =
    ["", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"];

/// One of each sort, by its name.
fn things(dir: &Path) -> Vec<(&'static str, PathBuf)> {
    let device = |name: &str, kind, minor| {
        mknodat(CWD, dir.join(name), kind, Mode::RUSR, makedev(1, minor)).unwrap();
    };
    std::fs::create_dir(dir.join("directory")).unwrap();
    std::fs::write(dir.join("file"), "text").unwrap();
    drop(std::os::unix::net::UnixListener::bind(dir.join("socket")).unwrap());
    device("character device", FileType::CharacterDevice, 3);
    device("block device", FileType::BlockDevice, 250);
    mknodat(CWD, dir.join("named pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    ["directory", "file", "socket", "character device", "block device", "named pipe"]
        .map(|name| (name, dir.join(name)))
        .into()
}

fn accepts(kind: &str, found: &str) -> bool {
    match kind {
        "" => true,
        "DirectoryOrCreate" | "Directory" => found == "directory",
        "FileOrCreate" | "File" => found == "file",
        "Socket" => found == "socket",
        "CharDevice" => found == "character device",
        _ => found == "block device",
    }
}

#[test]
fn every_type_takes_what_it_names_and_says_what_else_it_found() {
    alone(|| {
        let node = Node::new();
        let dir = node.dir("srv");
        let things = things(&dir);
        for kind in TYPES {
            for (found, path) in &things {
                let source = host_path(path, HostPathType::parse(kind).unwrap());
                let pod = wanted("types", 1, vec![idmapped("v", source)]);
                let outcome = node.volumes.set_up(&pod).map(drop);
                if accepts(kind, found) {
                    outcome.unwrap_or_else(|e| panic!("{kind:?} and a {found}: {e}"));
                    node.volumes.present(&pod, &mount("v", "/data")).unwrap();
                } else {
                    let error = outcome.unwrap_err();
                    assert!(matches!(error, Error::OtherType { .. }), "{error}");
                    let text = error.to_string();
                    assert!(text.contains(&format!("{} is a {found}, not a", path.display())), "{text}");
                }
                node.volumes.tear_down(&pod.pod).unwrap();
                assert!(path.symlink_metadata().is_ok(), "{} was removed", path.display());
            }
        }
    });
}

#[test]
fn a_link_is_followed_and_what_it_leads_to_is_checked() {
    alone(|| {
        let node = Node::new();
        let dir = node.dir("srv");
        for (found, path) in things(&dir) {
            let link = dir.join(format!("link to {found}"));
            symlink(&path, &link).unwrap();
            let try_as = |kind| {
                let pod = wanted("link", 1, vec![idmapped("v", host_path(&link, kind))]);
                let outcome = node.volumes.set_up(&pod).is_ok();
                node.volumes.tear_down(&pod.pod).unwrap();
                outcome
            };
            assert_eq!(try_as(HostPathType::Directory), found == "directory", "{found}");
            assert_eq!(try_as(HostPathType::File), found == "file", "{found}");
            assert_eq!(try_as(HostPathType::Socket), found == "socket", "{found}");
        }
    });
}

#[test]
fn what_is_missing_is_made_with_its_mode_or_named() {
    alone(|| {
        let node = Node::new();
        let dir = node.dir("srv");
        for (owners, root) in [(Owners::Idmapped, 0), (Owners::SharedBlocks, BASE + LENGTH)] {
            for kind in TYPES {
                let path = dir.join(format!("{owners:?}{kind}"));
                let source = host_path(&path, HostPathType::parse(kind).unwrap());
                let pod = wanted("missing", 1, vec![volume("v", owners, source)]);
                let outcome = node.volumes.set_up(&pod);
                match kind {
                    "" | "DirectoryOrCreate" => assert_eq!(on_host(&path), format!("{root}:{root} 755")),
                    "FileOrCreate" => assert_eq!(on_host(&path), format!("{root}:{root} 644")),
                    _ => {
                        let error = outcome.unwrap_err();
                        assert!(matches!(error, Error::NoHostPath { .. }), "{error}");
                        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
                        assert!(error.hint().unwrap().contains("OrCreate"));
                    }
                }
                let there = path.exists();
                node.volumes.tear_down(&pod.pod).unwrap();
                assert_eq!(path.exists(), there, "what is made for a hostPath stays");
            }
        }
        let deep = dir.join("a/b/c");
        let pod = |kind| wanted("deep", 1, vec![idmapped("v", host_path(&deep, kind))]);
        assert!(node.volumes.set_up(&pod(HostPathType::FileOrCreate)).is_err());
        assert!(!dir.join("a").exists(), "the directory of a file is not made");
        node.volumes.set_up(&pod(HostPathType::DirectoryOrCreate)).unwrap();
        assert_eq!(on_host(&dir.join("a/b")), "0:0 755");
    });
}

#[test]
fn a_dangling_link_is_not_filled_from_afar() {
    alone(|| {
        let node = Node::new();
        let (dir, outside) = (node.dir("srv"), node.dir("outside"));
        symlink(outside.join("target"), dir.join("link")).unwrap();
        for kind in [HostPathType::DirectoryOrCreate, HostPathType::FileOrCreate] {
            let pod = wanted("dangling", 1, vec![idmapped("v", host_path(&dir.join("link"), kind))]);
            assert!(node.volumes.set_up(&pod).is_err(), "{kind:?}");
            assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        }
    });
}

#[test]
fn a_path_that_goes_up_or_through_a_process_is_refused() {
    alone(|| {
        let node = Node::new();
        let dir = node.dir("srv");
        let own = format!("/proc/{}/root", std::process::id());
        symlink("/proc/self/cwd", dir.join("magic")).unwrap();
        for path in [PathBuf::from(own), dir.join("magic"), dir.join(".."), PathBuf::from("srv")] {
            let pod = wanted("magic", 1, vec![idmapped("v", host_path(&path, HostPathType::Directory))]);
            let error = node.volumes.set_up(&pod).unwrap_err();
            assert!(!matches!(error, Error::OtherType { .. } | Error::CannotIdmap { .. }), "{error}");
        }
    });
}

/// A hostPath may be all of the host, or lead there by a link. It must not be taken for something that is
/// the pod's: not removed, not given away, not idmapped in part. A tree with another filesystem mounted
/// in it stands for the host's root: no test points at the real one.
#[test]
fn a_hostpath_that_leads_to_all_of_the_host_is_never_removed_or_given_away() {
    alone(|| {
        let node = Node::new();
        let (dir, root) = (node.dir("srv"), node.dir("root"));
        std::fs::write(node.dir("root/etc").join("passwd"), "canary").unwrap();
        let kind = FilesystemKind::Other { name: "ramfs".to_owned(), source: None, options: vec![] };
        Filesystem::new(kind).make().unwrap().attach(&node.dir("root/proc")).unwrap();
        symlink(&root, dir.join("root")).unwrap();
        let pod = |owners| {
            let source = host_path(&dir.join("root"), HostPathType::Directory);
            let mut pod = wanted("root", 1, vec![volume("v", owners, source)]);
            pod.fs_group = Some(id(2000));
            pod
        };
        let before = (on_host(&root), on_host(&root.join("etc/passwd")));
        let error = node.volumes.set_up(&pod(Owners::Idmapped)).unwrap_err();
        assert!(error.to_string().contains("ramfs at"), "{error}");
        let error = node.volumes.set_up(&pod(Owners::ChownedOnce)).unwrap_err();
        assert!(error.to_string().contains("leads elsewhere by a symbolic link"), "{error}");
        node.volumes.tear_down(&pod(Owners::ChownedOnce).pod).unwrap();
        let plain = pod(Owners::AsOnDisk);
        let at = node.show(&plain, &mount("v", "/host"), "tree");
        assert_eq!(std::fs::read_to_string(at.join("etc/passwd")).unwrap(), "canary");
        node.volumes.tear_down(&plain.pod).unwrap();
        assert_eq!(std::fs::read_to_string(root.join("etc/passwd")).unwrap(), "canary");
        assert_eq!((on_host(&root), on_host(&root.join("etc/passwd"))), before);
    });
}

/// A set-up was killed, or another volume of the pod keeps failing; until the next try, another pod that can
/// write to the parent has put a link in its place.
#[test]
fn a_half_made_directory_is_finished_and_a_link_in_its_place_gives_nothing_away() {
    alone(|| {
        let node = Node::new();
        let (srv, secret) = (node.dir("srv"), node.dir("secret"));
        let root = BASE + LENGTH;
        let source = host_path(&srv.join("parent/keys"), HostPathType::DirectoryOrCreate);
        let pod = wanted("half", 1, vec![volume("v", Owners::SharedBlocks, source)]);
        node.volumes.set_up(&pod).unwrap();
        let below = srv.to_str().unwrap().trim_start_matches('/').to_owned();
        let halves = [
            serde_json::json!({ "host": srv, "below": "", "path": "parent/keys" }),
            serde_json::json!({ "host": "/", "below": below, "path": "parent/keys" }),
            serde_json::json!({ "host": srv.join("parent"), "below": "", "path": "keys" }),
            serde_json::json!({ "host": "/", "below": format!("{below}/parent"), "path": "keys" }),
        ];
        let again = |half: &serde_json::Value| {
            let file = node.state().join("pods/half/volumes.json");
            let mut record: serde_json::Value =
                serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
            let mut half = half.clone();
            half["volume"] = "v".into();
            half["mode"] = 0o755.into();
            half["owner"] = serde_json::json!([root, root]);
            record["halfMade"] = serde_json::json!([half]);
            std::fs::write(&file, record.to_string()).unwrap();
            node.volumes.set_up(&pod).unwrap();
        };
        let private = |path: &Path| {
            std::fs::create_dir_all(path).unwrap();
            std::os::unix::fs::chown(path, Some(0), Some(0)).unwrap();
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).unwrap();
        };
        for half in &halves {
            private(&srv.join("parent/keys"));
            again(half);
            assert_eq!(on_host(&srv.join("parent/keys")), format!("{root}:{root} 755"), "{half}");
            private(&srv.join("parent/keys"));
            std::fs::write(srv.join("parent/keys/mine"), "text").unwrap();
            again(half);
            assert_eq!(on_host(&srv.join("parent/keys")), "0:0 700", "{half}: in use by somebody");
            std::fs::remove_file(srv.join("parent/keys/mine")).unwrap();
        }
        std::fs::rename(srv.join("parent"), srv.join("aside")).unwrap();
        symlink(&secret, srv.join("parent")).unwrap();
        for half in &halves {
            private(&secret.join("keys"));
            again(half);
            assert_eq!(on_host(&secret.join("keys")), "0:0 700", "{half}");
        }
        node.volumes.tear_down(&pod.pod).unwrap();
    });
}
