//! Every kind of volume, looked at by a process in the pod's user namespace and by the host. Needs root.
//!
//! Each row is set up twice: idmapped, where the container's numbers are on disk, and in a shared block,
//! where the host's are. What the pod sees is the same.

use crate::support;

use std::os::unix::fs::chown;
use std::path::Path;

use plan::Owners;
use support::*;
use volumes::kinds::{EmptyDir, HostPathType, Medium, WrittenKind};
use volumes::payload::downward::{DownwardFile, Field, Value};
use volumes::payload::{self, Bytes, Need};
use volumes::{MountAccess, Source, WantedMount};

/// What is to be seen at a path below the mount: user, group, mode (without the path: the mount itself)
/// and content.
type Look = (&'static str, (u32, u32), u32, Option<&'static str>);

struct Row {
    what: &'static str,
    source: Source,
    fs_group: Option<u32>,
    sub_path: Option<&'static str>,
    looks: Vec<Look>,
}

fn row(what: &'static str, source: Source, looks: &[Look]) -> Row {
    Row { what, source, fs_group: None, sub_path: None, looks: looks.to_vec() }
}

fn empty(medium: Medium, mode: Option<u32>) -> Source {
    Source::EmptyDir(EmptyDir { medium, size_limit: Some(4 << 20), mode })
}

fn scratch() -> Vec<Row> {
    let group = |row: Row| Row { fs_group: Some(2000), ..row };
    let huge = Medium::HugePages { page_size: Some(2 << 20) };
    vec![
        row("emptyDir", empty_dir(), &[("", (0, 0), 0o777, None)]),
        group(row("emptyDir with fsGroup", empty_dir(), &[("", (0, 2000), 0o2777, None)])),
        row("emptyDir with a mode", empty(Medium::Disk, Some(0o750)), &[("", (0, 0), 0o750, None)]),
        group(row("both", empty(Medium::Disk, Some(0o700)), &[("", (0, 2000), 0o2770, None)])),
        row("in memory", empty(Medium::Memory, None), &[("", (0, 0), 0o1777, None)]),
        group(row("in memory, fsGroup", empty(Medium::Memory, None), &[("", (0, 2000), 0o3777, None)])),
        row("huge pages", empty(huge, None), &[("", (0, 0), 0o1777, None)]),
        Row {
            fs_group: Some(2000),
            sub_path: Some("logs/today"),
            ..row("a missing part", empty_dir(), &[("", (0, 2000), 0o2777, None)])
        },
        Row {
            sub_path: Some("logs"),
            ..row("with a mode", empty(Medium::Disk, Some(0o751)), &[("", (0, 0), 0o751, None)])
        },
    ]
}

fn keyed(kind: WrittenKind) -> Vec<Row> {
    let keys: &[(&str, &str)] = &[("a.conf", "alpha"), ("b.conf", "beta")];
    let source = |items: &[payload::KeyToPath]| match kind {
        WrittenKind::ConfigMap => config(Some(keys), items, Need::Required),
        _ => secret(keys, items),
    };
    let plain = || written(kind, 0o644, vec![source(&[])]);
    let items = [item("a.conf", "etc/app/a", Some(0o600)), item("b.conf", "b", None)];
    let picked = || written(kind, 0o444, vec![source(&items)]);
    let optional = || written(kind, 0o644, vec![config(None, &[], Need::Optional)]);
    vec![
        row(
            "defaults",
            plain(),
            &[("a.conf", (0, 0), 0o644, Some("alpha")), ("b.conf", (0, 0), 0o644, Some("beta"))],
        ),
        Row {
            fs_group: Some(2000),
            ..row(
                "defaultMode and fsGroup",
                written(kind, 0o400, vec![source(&[])]),
                &[("a.conf", (0, 2000), 0o440, Some("alpha"))],
            )
        },
        row(
            "items",
            picked(),
            &[("etc/app/a", (0, 0), 0o600, Some("alpha")), ("b", (0, 0), 0o444, Some("beta"))],
        ),
        row("optional and missing", optional(), &[]),
        Row { sub_path: Some("a.conf"), ..row("a key", plain(), &[("", (0, 0), 0o644, Some("alpha"))]) },
        Row {
            sub_path: Some("etc/app"),
            fs_group: Some(7),
            ..row("a directory", picked(), &[("a", (0, 7), 0o640, Some("alpha"))])
        },
    ]
}

fn others() -> Vec<Row> {
    let name = DownwardFile {
        path: "name".to_owned(),
        mode: None,
        value: Value::Field(Field::parse("metadata.name").unwrap()),
    };
    let token = Bytes {
        what: "serviceAccountToken".to_owned(),
        path: "token".to_owned(),
        content: b"s3cret".to_vec(),
        mode: payload::Mode::new(0o600).ok(),
        owner: Some(id(1000)),
    };
    let fields = || payload::Source::DownwardApi(vec![name.clone()]);
    let deep = DownwardFile {
        path: "pod/name".to_owned(),
        mode: payload::Mode::new(0o400).ok(),
        value: name.value.clone(),
    };
    let deep = || payload::Source::DownwardApi(vec![deep.clone()]);
    let missing = || config(None, &[], Need::Optional);
    let several = || {
        let items = [item("key", "keys/mine", Some(0o600))];
        vec![fields(), missing(), secret(&[("key", "k")], &items), payload::Source::Bytes(token.clone())]
    };
    let fields = || written(WrittenKind::DownwardApi, 0o440, vec![fields()]);
    let projected = || written(WrittenKind::Projected, 0o644, several());
    let group = |row: Row| Row { fs_group: Some(2000), ..row };
    let part = |path, row: Row| Row { sub_path: Some(path), ..row };
    vec![
        row("the pod's name", fields(), &[("name", (0, 0), 0o440, Some("web-0"))]),
        group(row("the name, with fsGroup", fields(), &[("name", (0, 2000), 0o440, Some("web-0"))])),
        part("name", row("the name alone", fields(), &[("", (0, 0), 0o440, Some("web-0"))])),
        group(row(
            "the name, with a mode and a directory of its own",
            written(WrittenKind::DownwardApi, 0o444, vec![deep()]),
            &[("pod/name", (0, 2000), 0o440, Some("web-0"))],
        )),
        row(
            "several sources, one of them missing, and a file of the pod's one user",
            projected(),
            &[
                ("name", (0, 0), 0o644, Some("web-0")),
                ("keys/mine", (0, 0), 0o600, Some("k")),
                ("token", (1000, 0), 0o600, Some("s3cret")),
            ],
        ),
        group(row(
            "several sources with fsGroup",
            projected(),
            &[
                ("name", (0, 2000), 0o644, Some("web-0")),
                ("keys/mine", (0, 2000), 0o640, Some("k")),
                ("token", (1000, 2000), 0o640, Some("s3cret")),
            ],
        )),
        part("keys", row("a directory of them", projected(), &[("mine", (0, 0), 0o600, Some("k"))])),
        part("token", row("one of them", projected(), &[("", (1000, 0), 0o600, Some("s3cret"))])),
        row("nothing but a missing source", written(WrittenKind::Projected, 0o644, vec![missing()]), &[]),
    ]
}

/// Sets the row up, and compares what the pod and what the host see with what was promised.
fn check(row: &Row, owners: Owners) {
    let node = Node::new();
    let mut pod = wanted("row", 1, vec![volume("v", owners, row.source.clone())]);
    pod.fs_group = row.fs_group.map(|group| id(group.into()));
    let sub_path = row.sub_path.unwrap_or_default();
    let mount = part("v", "/data", sub_path);
    let at = node.show(&pod, &mount, "tree");
    let host = node.volumes.host_mount(&pod, &mount).unwrap();
    assert_eq!(host.uid_mappings.is_empty(), owners != Owners::Idmapped);
    let shift = if owners == Owners::Idmapped { 0 } else { BASE + LENGTH };
    let below = |top: &Path, path: &str| if path.is_empty() { top.to_owned() } else { top.join(path) };
    for (path, (user, group), mode, content) in &row.looks {
        let what = format!("{} ({owners:?}): {path:?}", row.what);
        assert_eq!(node.seen(&pod, &below(&at, path)), format!("{user}:{group} {mode:o}"), "{what}");
        let outside = format!("{}:{} {mode:o}", user + shift, group + shift);
        assert_eq!(on_host(&below(&host.host_path, path)), outside, "{what} on the host");
        if let Some(content) = content {
            let script = format!("cat {}", below(&at, path).display());
            assert_eq!(node.inside(&pod, (0, 0), &script), *content, "{what}");
        }
    }
    if row.looks.is_empty() {
        assert_eq!(node.inside(&pod, (0, 0), &format!("ls {}", at.display())), "", "{}", row.what);
    }
    node.volumes.tear_down(&pod.pod).unwrap();
    assert_eq!(std::fs::read_dir(node.state().join("pods")).unwrap().count(), 0, "{}", row.what);
    assert_eq!(mounts_below(&node.state()), Vec::<std::path::PathBuf>::new(), "{}", row.what);
}

fn check_all(rows: &[Row]) {
    alone(|| {
        for row in rows {
            check(row, Owners::Idmapped);
            check(row, Owners::SharedBlocks);
        }
    });
}

#[test]
fn scratch_space_is_the_pods_in_every_medium() {
    check_all(&scratch());
}

#[test]
fn files_of_config_maps_are_the_pods() {
    check_all(&keyed(WrittenKind::ConfigMap));
}

#[test]
fn files_of_secrets_are_the_pods() {
    check_all(&keyed(WrittenKind::Secret));
}

#[test]
fn downward_and_projected_files_are_the_pods() {
    check_all(&others());
}

/// Writes as the pod's user 1000 and as its root, and asks the host whose files these are.
#[test]
fn what_a_pod_writes_is_its_users_inside_and_its_blocks_or_its_own_number_on_disk() {
    alone(|| {
        for (owners, root) in [(Owners::Idmapped, 0), (Owners::SharedBlocks, BASE + LENGTH)] {
            let node = Node::new();
            let mut pod = wanted("writer", 1, vec![volume("v", owners, empty_dir())]);
            pod.fs_group = Some(id(2000));
            let at = node.show(&pod, &mount("v", "/data"), "tree");
            let script = format!("cd {}; echo mine > file; stat -c '%u:%g' file", at.display());
            assert_eq!(node.inside(&pod, (1000, 1000), &script), "1000:2000");
            let file = node.state().join("pods/writer/volumes/kubernetes.io~empty-dir/v/file");
            assert!(on_host(&file).starts_with(&format!("{}:{}", root + 1000, root + 2000)), "{owners:?}");
            node.volumes.tear_down(&pod.pod).unwrap();
        }
    });
}

#[test]
fn a_group_that_is_given_a_secret_can_read_it_and_others_cannot() {
    alone(|| {
        let node = Node::new();
        let source = written(WrittenKind::Secret, 0o400, vec![secret(&[("key", "k")], &[])]);
        let mut pod = wanted("group", 1, vec![idmapped("v", source)]);
        pod.fs_group = Some(id(2000));
        let at = node.show(&pod, &mount("v", "/data"), "tree");
        let read = |who| node.inside(&pod, who, &format!("cat {}/key", at.display()));
        assert_eq!(read((1000, 2000)), "k");
        assert!(read((1000, 1000)).contains("Permission denied"));
        node.volumes.tear_down(&pod.pod).unwrap();
    });
}

/// A volume of each kind that the node writes, with one file `key` of this content and mode.
fn of_each_written_kind(text: &str, mode: u32) -> [Source; 4] {
    let keys: &[(&str, &str)] = &[("key", text)];
    let secret = || secret(keys, &[]);
    let field = DownwardFile {
        path: "key".to_owned(),
        mode: None,
        value: Value::Field(Field::parse(&format!("metadata.annotations['{text}']")).unwrap()),
    };
    [
        written(WrittenKind::ConfigMap, mode, vec![config(Some(keys), &[], Need::Required)]),
        written(WrittenKind::Secret, mode, vec![secret()]),
        written(WrittenKind::DownwardApi, mode, vec![payload::Source::DownwardApi(vec![field])]),
        written(WrittenKind::Projected, mode, vec![secret()]),
    ]
}

#[test]
fn an_update_is_seen_through_the_mount_that_is_there_and_not_through_a_part_of_it() {
    alone(|| {
        for owners in [Owners::Idmapped, Owners::SharedBlocks] {
            for (old, new) in
                of_each_written_kind("old", 0o644).into_iter().zip(of_each_written_kind("new", 0o600))
            {
                update(owners, old, new);
            }
        }
    });
}

fn update(owners: Owners, old: Source, new: Source) {
    let node = Node::new();
    let with = |source| wanted("update", 1, vec![volume("v", owners, source)]);
    let old = with(old);
    let whole = node.show(&old, &mount("v", "/whole"), "tree");
    let key = node.show(&old, &part("v", "/key", "key"), "tree");
    let see = |path: &Path| node.inside(&old, (0, 0), &format!("cat {}", path.display()));
    assert_eq!((see(&whole.join("key")), see(&key)), ("old".to_owned(), "old".to_owned()));
    let new = with(new);
    let done = node.volumes.update(&new).unwrap();
    assert_eq!(done[0].1, volumes::writer::Written::Replaced);
    assert_eq!((see(&whole.join("key")), see(&key)), ("new".to_owned(), "old".to_owned()));
    assert_eq!(node.seen(&old, &whole.join("key")), "0:0 600");
    assert_eq!(node.volumes.update(&new).unwrap()[0].1, volumes::writer::Written::Nothing);
    node.volumes.tear_down(&old.pod).unwrap();
}

#[test]
fn a_hostpath_shows_its_files_owners_as_they_are_on_disk() {
    alone(|| {
        let node = Node::new();
        let path = node.dir("srv");
        std::fs::write(path.join("file"), "text").unwrap();
        chown(path.join("file"), Some(5), Some(6)).unwrap();
        let mut pod = wanted("host", 1, vec![idmapped("v", host_path(&path, HostPathType::Directory))]);
        // What is the host's is given to no group.
        pod.fs_group = Some(id(2000));
        let at = node.show(&pod, &mount("v", "/data"), "tree");
        assert_eq!(node.seen(&pod, &at.join("file")), "5:6 644");
        assert_eq!(on_host(&path.join("file")), "5:6 644");
        node.volumes.tear_down(&pod.pod).unwrap();
        assert_eq!(std::fs::read_to_string(path.join("file")).unwrap(), "text");
    });
}

#[test]
fn nothing_is_written_through_a_read_only_mount() {
    alone(|| {
        let node = Node::new();
        let srv = node.dir("srv");
        let sources = [
            empty_dir(),
            empty(Medium::Memory, None),
            empty(Medium::HugePages { page_size: Some(2 << 20) }, None),
            host_path(&srv, HostPathType::Unset),
        ];
        for (number, source) in sources.into_iter().chain(of_each_written_kind("old", 0o644)).enumerate() {
            let pod = wanted("ro", 1, vec![idmapped("v", source)]);
            let read_only = WantedMount { access: MountAccess::ReadOnly, ..mount("v", "/data") };
            node.volumes.set_up(&pod).unwrap();
            let at = node.attach(node.volumes.present(&pod, &read_only).unwrap(), &format!("tree{number}"));
            let said = node.inside(&pod, (0, 0), &format!("touch {}/new", at.display()));
            assert!(said.contains("Read-only file system"), "{said}");
            node.volumes.tear_down(&pod.pod).unwrap();
        }
    });
}

#[test]
fn an_images_tree_is_read_only_and_runs_nothing_whether_of_one_layer_or_of_three() {
    alone(|| {
        let node = Node::new();
        let layers: Vec<_> = ["top", "middle", "bottom"].iter().map(|layer| node.dir(layer)).collect();
        for layer in &layers {
            let text = layer.file_name().unwrap().to_str().unwrap();
            std::fs::write(layer.join("same"), text).unwrap();
            std::fs::write(layer.join(text), text).unwrap();
            chown(layer.join(text), Some(7), Some(8)).unwrap();
        }
        std::fs::copy("/bin/true", layers[0].join("program")).unwrap();
        for (count, names) in [(1, "program same top"), (3, "bottom middle program same top")] {
            let pod = wanted("image", 1, vec![idmapped("v", image(&layers[..count]))]);
            let tree = format!("tree{count}");
            let at = node.show(&pod, &mount("v", "/data"), &tree);
            let ask = |script: &str| node.inside(&pod, (0, 0), &format!("cd {}; {script}", at.display()));
            assert_eq!(ask("echo *; cat same"), format!("{names}\ntop"));
            assert_eq!(node.seen(&pod, &at.join("top")), "7:8 644");
            assert!(ask("touch new").contains("Read-only file system"));
            assert!(ask("./program").contains("Permission denied"));
            let top = node.show(&pod, &part("v", "/top", "top"), &tree);
            assert_eq!(node.inside(&pod, (0, 0), &format!("cat {}", top.display())), "top");
            let host = node.volumes.host_mount(&pod, &part("v", "/data", "top")).unwrap();
            assert_eq!(host.image.as_deref(), Some("registry.test/data:1"));
            assert_eq!(host.image_sub_path.unwrap().as_path(), Path::new("top"));
            node.volumes.tear_down(&pod.pod).unwrap();
            assert_eq!(on_host(&layers[0].join("top")), "7:8 644");
        }
    });
}
