//! A root filesystem prepared on the real kernel: the owners of its files, and that the host sees nothing of it.

use crate::support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use container::prepare::{FromHost, LayersMapped, Stage, prepare_rootfs};
use container::{Bind, MountPropagation, MountSpec, NamespaceSpec, ReadOnly};
use kernel::{Live, MountTable, in_private_mount_namespace};
use support::{BASE, inside, maps, owner, start};

fn bind(source: &Path) -> Bind {
    Bind {
        source: source.to_owned(),
        target: "/data".into(),
        ids: Some(maps()),
        read_only: ReadOnly::No,
        propagation: MountPropagation::None,
        options: Vec::new(),
    }
}

#[test]
fn an_images_files_are_the_pods_and_on_disk_nobody_touched_them() {
    let dir = tempfile::tempdir().unwrap();
    let start = start(dir.path());
    let layer = start.rootfs.lowers[0].clone();
    fs::set_permissions(&layer, fs::Permissions::from_mode(0o751)).unwrap();
    fs::write(layer.join("of-root"), "r").unwrap();
    fs::write(layer.join("of-a-user"), "u").unwrap();
    chown(layer.join("of-a-user"), Some(1000), Some(1001)).unwrap();
    let seen = inside(&start, dir.path(), |made| {
        assert!(matches!(made.layers, LayersMapped::Idmapped(_)));
        let rootfs = &made.ready.rootfs;
        fs::write(rootfs.join("of-a-user"), "changed").unwrap();
        let mode = fs::metadata(rootfs).unwrap().mode() & 0o7777;
        (owner(rootfs), owner(&rootfs.join("of-root")), owner(&rootfs.join("of-a-user")), mode)
    });
    let seen = seen.unwrap();
    assert_eq!(seen, ((BASE, BASE), (BASE, BASE), (BASE + 1000, BASE + 1001), 0o751));
    assert_eq!(owner(&layer.join("of-root")), (0, 0));
    assert_eq!(fs::read(layer.join("of-a-user")).unwrap(), b"u");
    assert_eq!(owner(&start.rootfs.upper.join("of-a-user")), (BASE + 1000, BASE + 1001));
}

#[test]
fn the_hosts_mount_table_is_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let mut start = start(dir.path());
    let volume = dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    start.mounts = vec![MountSpec::Bind(bind(&volume))];
    inside(&start, dir.path(), |made| assert!(made.ready.binds[0].is_dir())).unwrap();
    let table = MountTable::read().unwrap();
    assert_eq!(table.below(dir.path()).count(), 0);
    assert_eq!(fs::read_dir(dir.path().join("stage")).unwrap().count(), 0);
}

#[test]
fn a_volume_is_seen_through_the_maps_and_written_with_the_containers_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let mut start = start(dir.path());
    let volume = dir.path().join("volume");
    fs::create_dir(&volume).unwrap();
    fs::write(volume.join("file"), "x").unwrap();
    chown(volume.join("file"), Some(1000), Some(1000)).unwrap();
    start.mounts = vec![MountSpec::Bind(bind(&volume)), MountSpec::Bind(bind(&volume.join("file")))];
    let seen = inside(&start, dir.path(), |made| {
        let [all, one] = [&made.ready.binds[0], &made.ready.binds[1]];
        (owner(&all.join("file")), owner(one), fs::read_to_string(one).unwrap())
    });
    assert_eq!(seen.unwrap(), ((BASE + 1000, BASE + 1000), (BASE + 1000, BASE + 1000), "x".to_owned()));
    assert_eq!(owner(&volume.join("file")), (1000, 1000));
}

#[test]
fn recursively_read_only_holds_for_what_is_mounted_below() {
    let dir = tempfile::tempdir().unwrap();
    let volume = dir.path().join("volume");
    let below = volume.join("below");
    fs::create_dir_all(&below).unwrap();
    let mut start = start(dir.path());
    start.mounts = vec![MountSpec::Bind(Bind { read_only: ReadOnly::Recursive, ..bind(&volume) })];
    let stage = dir.path().join("stage");
    fs::create_dir(&stage).unwrap();
    let (above, under) = in_private_mount_namespace(|namespace| {
        rustix::mount::mount("tmpfs", &below, "tmpfs", rustix::mount::MountFlags::empty(), None).unwrap();
        let made =
            prepare_rootfs(&Live::default(), &start, FromHost::default(), Stage { dir: &stage, namespace })
                .unwrap();
        let written = |path: PathBuf| fs::write(path.join("new"), "").unwrap_err().raw_os_error();
        (written(made.ready.binds[0].clone()), written(made.ready.binds[0].join("below")))
    })
    .unwrap();
    let read_only = Some(rustix::io::Errno::ROFS.raw_os_error());
    assert_eq!((above, under), (read_only, read_only));
}

#[test]
fn a_volume_that_cannot_be_idmapped_is_named_and_nothing_starts() {
    let dir = tempfile::tempdir().unwrap();
    let mut start = start(dir.path());
    start.mounts = vec![MountSpec::Bind(bind(Path::new("/proc/sys")))];
    let error = inside(&start, dir.path(), |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "/proc/sys cannot be idmapped for /data");
    assert!(error.hint().unwrap().contains("volume policy"));
}

#[test]
fn a_layer_that_cannot_be_idmapped_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut start = start(dir.path());
    start.rootfs.lowers = vec!["/proc/sys".into()];
    let error = inside(&start, dir.path(), |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "layer /proc/sys cannot be idmapped");
}

#[test]
fn maps_without_root_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut start = start(dir.path());
    let line = ids::IdMapping::new(1, BASE, 10).unwrap();
    start.ids = Some(ids::IdMappings { uids: vec![line], gids: vec![line] });
    let error = inside(&start, dir.path(), |_| ()).unwrap_err();
    assert!(error.to_string().contains("leave out its user 0"), "{error}");
}

#[test]
fn a_pod_with_the_hosts_users_sees_files_as_on_disk() {
    let dir = tempfile::tempdir().unwrap();
    let mut start = start(dir.path());
    (start.ids, start.namespaces) = (None, support::spaces(NamespaceSpec::Host));
    fs::write(start.rootfs.lowers[0].join("file"), "").unwrap();
    let seen = inside(&start, dir.path(), |made| owner(&made.ready.rootfs.join("file"))).unwrap();
    assert_eq!(seen, (0, 0));
}

#[test]
fn a_device_node_of_an_image_opens_nothing() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let start = start(dir.path());
    let node = start.rootfs.lowers[0].join("null");
    let kind = rustix::fs::FileType::CharacterDevice;
    rustix::fs::mknodat(rustix::fs::CWD, &node, kind, 0o666.into(), rustix::fs::makedev(1, 3)).unwrap();
    let opened = inside(&start, dir.path(), |made| fs::File::open(made.ready.rootfs.join("null")).map(drop));
    assert_eq!(opened.unwrap().unwrap_err().raw_os_error(), Some(rustix::io::Errno::ACCESS.raw_os_error()));
}

#[test]
fn a_capability_that_we_do_not_have_is_refused_by_name_and_left_out_of_all() {
    let dir = tempfile::tempdir().unwrap();
    let mut start = start(dir.path());
    (start.ids, start.namespaces) = (None, support::spaces(NamespaceSpec::Host));
    start.process.capabilities = container::capabilities::all();
    let given = inside(&start, dir.path(), |made| made.ready.capabilities.bounding.clone()).unwrap();
    let all = container::capabilities::all().bounding;
    assert!(given.contains(&"CAP_SYS_ADMIN".to_owned()));
    for missing in all.iter().filter(|name| !given.contains(name)) {
        let asked = container::capabilities::RequestedCapabilities {
            add: vec![missing.clone()],
            ..Default::default()
        };
        start.process.capabilities = container::capabilities::of(&asked).unwrap();
        let error = inside(&start, dir.path(), |_| ()).unwrap_err();
        assert_eq!(error.to_string(), format!("the container cannot be given {missing}"));
    }
}
