//! What is mounted, where, and how.

use std::path::Path;

use container::{Bind, ImageFiles, MountPropagation, MountSpec, ReadOnly};
use cri::MountPropagation::{PropagationBidirectional, PropagationHostToContainer};
use cri::{ContainerConfig, IdMapping, ImageSpec, Mount};
use runtime::spec::{self, ImageMount, ImagePart};

use super::{Wish, strings};

fn mount(host: &str, inside: &str) -> Mount {
    Mount { host_path: host.into(), container_path: inside.into(), ..Default::default() }
}

fn with(mounts: Vec<Mount>) -> Wish {
    let mut wish = Wish::new();
    wish.config.mounts = mounts;
    wish
}

fn targets(wish: &Wish) -> Vec<String> {
    wish.start().mounts.iter().map(|mount| mount.target().display().to_string()).collect()
}

#[track_caller]
fn bind(wish: &Wish, target: &str) -> Bind {
    let found = wish.start().mounts.into_iter().find_map(|mount| match mount {
        MountSpec::Bind(bind) if bind.target == Path::new(target) => Some(bind),
        _ => None,
    });
    found.unwrap_or_else(|| panic!("nothing is bound to {target}"))
}

#[test]
fn every_container_has_the_usual_filesystems_and_its_sandboxs_files() {
    let found = targets(&Wish::new());
    let expected = [
        "/proc",
        "/dev",
        "/dev/pts",
        "/dev/mqueue",
        "/sys",
        "/sys/fs/cgroup",
        "/etc/hosts",
        "/etc/hostname",
        "/etc/resolv.conf",
        "/dev/shm",
    ];
    assert_eq!(found, expected);
    assert_eq!(bind(&Wish::new(), "/dev/shm").source, Path::new("/run/sandbox/shm"));
}

#[test]
fn what_the_caller_mounts_takes_the_place_of_ours() {
    let wish =
        with(vec![mount("/v/hosts", "/etc/hosts"), mount("/v/shm", "/dev/./shm/"), mount("/v/sys", "/sys")]);
    assert_eq!(bind(&wish, "/etc/hosts").source, Path::new("/v/hosts"));
    assert_eq!(bind(&wish, "/dev/shm").source, Path::new("/v/shm"));
    let found = targets(&wish);
    for target in ["/etc/hosts", "/dev/shm", "/sys"] {
        assert_eq!(found.iter().filter(|known| *known == target).count(), 1, "{target}");
    }
    let mut none = Wish::new();
    (none.place.hosts, none.place.resolv_conf) = (None, None);
    assert!(!targets(&none).contains(&"/etc/hosts".to_owned()));
}

#[test]
fn who_brings_a_dev_brings_all_of_it() {
    let found = targets(&with(vec![mount("/dev", "/dev")]));
    assert!(
        !found.contains(&"/dev/pts".to_owned()) && !found.contains(&"/dev/mqueue".to_owned()),
        "{found:?}"
    );
    assert!(found.contains(&"/dev/shm".to_owned()), "the pod's shared memory is not the host's");
}

#[test]
fn nothing_is_mounted_over_what_lies_below_it() {
    let mounts =
        vec![mount("/v/3", "/a/b/c"), mount("/v/1", "/a"), mount("/v/2", "/a/b"), mount("/v/4", "/z")];
    let found = targets(&with(mounts));
    let own: Vec<&str> =
        found.iter().map(String::as_str).filter(|t| t.starts_with("/a") || *t == "/z").collect();
    assert_eq!(own, ["/a", "/z", "/a/b", "/a/b/c"]);
}

#[test]
fn a_mount_is_written_through_or_not_with_all_below_it_or_without() {
    let found = |readonly: bool, recursive: bool| {
        let asked = Mount { readonly, recursive_read_only: recursive, ..mount("/v", "/v") };
        with(vec![asked])
    };
    assert_eq!(bind(&found(false, false), "/v").read_only, ReadOnly::No);
    assert_eq!(bind(&found(true, false), "/v").read_only, ReadOnly::Yes);
    assert_eq!(bind(&found(true, true), "/v").read_only, ReadOnly::Recursive);
    assert_eq!(found(false, true).refused("without readonly"), "mounts[0].recursive_read_only");
    let asked = Mount {
        readonly: true,
        recursive_read_only: true,
        propagation: PropagationHostToContainer.into(),
        ..mount("/v", "/v")
    };
    assert_eq!(with(vec![asked]).refused("private propagation"), "mounts[0].recursive_read_only");
}

#[test]
fn mounts_travel_as_they_are_told() {
    let found = |propagation: i32| with(vec![Mount { propagation, ..mount("/v", "/v") }]);
    assert_eq!(bind(&found(0), "/v").propagation, MountPropagation::None);
    assert_eq!(
        bind(&found(PropagationHostToContainer.into()), "/v").propagation,
        MountPropagation::HostToContainer
    );
    assert_eq!(
        bind(&found(PropagationBidirectional.into()), "/v").propagation,
        MountPropagation::Bidirectional
    );
    assert_eq!(found(9).refused("no propagation"), "mounts[0].propagation");
    let mut wish = Wish::in_user_namespace();
    wish.config.mounts = found(PropagationBidirectional.into()).config.mounts;
    assert_eq!(wish.refused("cannot reach the host"), "mounts[0].propagation");
}

#[test]
fn a_mount_goes_through_the_pods_own_maps_or_through_none() {
    let line = |host_id: u32| vec![IdMapping { host_id, container_id: 0, length: 65_536 }];
    let mapped = |mut wish: Wish, uids: Vec<IdMapping>, gids: Vec<IdMapping>| {
        wish.config.mounts = vec![Mount { uid_mappings: uids, gid_mappings: gids, ..mount("/v", "/v") }];
        wish
    };
    let own = Wish::in_user_namespace;
    let wish = mapped(own(), line(65_536), line(65_536));
    assert_eq!(bind(&wish, "/v").ids, wish.start().ids);
    assert!(wish.start().ids.is_some());
    assert_eq!(bind(&mapped(own(), vec![], vec![]), "/v").ids, None);
    let hint = "mapping of the sandbox's";
    assert_eq!(mapped(own(), line(131_072), line(65_536)).refused(hint), "mounts[0].uid_mappings");
    assert_eq!(mapped(own(), line(65_536), line(131_072)).refused(hint), "mounts[0].gid_mappings");
    assert_eq!(mapped(own(), line(65_536), vec![]).refused(hint), "mounts[0].gid_mappings");
    assert_eq!(mapped(own(), vec![], line(65_536)).refused(hint), "mounts[0].uid_mappings");
    let two = [line(65_536), line(131_072)].concat();
    assert_eq!(mapped(own(), two, line(65_536)).refused(hint), "mounts[0].uid_mappings");
    let empty = vec![IdMapping { host_id: 1, container_id: 0, length: 0 }];
    assert_eq!(mapped(own(), empty, line(65_536)).refused("0 IDs"), "mounts[0].uid_mappings");
    let host = mapped(Wish::new(), line(65_536), line(65_536));
    assert_eq!(host.refused("host's user namespace"), "mounts[0].uid_mappings");
}

#[test]
fn the_sandboxs_files_belong_to_the_pods_root_on_the_host_and_are_bound_as_they_are() {
    let wish = Wish::in_user_namespace();
    for target in ["/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/dev/shm"] {
        assert_eq!(bind(&wish, target).ids, None, "{target}");
    }
    let read_only = Wish::new().with(|security| security.readonly_rootfs = true);
    assert_eq!(bind(&read_only, "/etc/hosts").read_only, ReadOnly::Yes);
    assert_eq!(bind(&read_only, "/dev/shm").read_only, ReadOnly::No);
}

#[test]
fn sysfs_is_the_hosts_own_bound_where_the_kernel_gives_no_other() {
    let mut wish = Wish::in_user_namespace();
    let node = i32::from(cri::NamespaceMode::Node);
    (wish.sandbox_options().network, wish.options().network) = (node, node);
    (wish.place.network, wish.place.uts) = (None, None);
    let sys = bind(&wish, "/sys");
    assert_eq!((sys.source.as_path(), sys.read_only), (Path::new("/sys"), ReadOnly::Recursive));
}

#[test]
fn a_mount_that_is_none_is_refused_by_its_field() {
    let good = || mount("/v", "/v");
    let image = || Some(ImageSpec { image: "i".into(), ..Default::default() });
    let table: [(Mount, &str, &str); 11] = [
        (mount("v", "/v"), "host_path", "not absolute"),
        (mount("", "/v"), "host_path", "not absolute"),
        (mount("/v", "v"), "container_path", "no absolute path"),
        (mount("/v", ""), "container_path", "no absolute path"),
        (mount("/v", "/"), "container_path", "no absolute path"),
        (mount("/v", "/a/.."), "container_path", "no absolute path"),
        (Mount { mount_options: strings(&["noexec"]), ..good() }, "mount_options", "not something"),
        (Mount { image_sub_path: "a".into(), ..good() }, "image_sub_path", "without an image"),
        (Mount { image: image(), ..good() }, "host_path", "together with an image"),
        (Mount { image: image(), ..mount("", "/v") }, "readonly", "read-only"),
        (Mount { image: image(), readonly: true, ..mount("", "/v") }, "image", "no image \"i\""),
    ];
    for (wrong, field, cause) in table {
        let wish = with(vec![mount("/first", "/first"), wrong.clone()]);
        assert_eq!(wish.refused(cause), format!("mounts[1].{field}"), "{wrong:?}");
    }
}

#[test]
fn what_is_the_hosts_own_is_not_relabelled() {
    let contexts = "process = \"u:r:t:s0\"\nfile = \"u:object_r:f:s0\"\n";
    for path in ["/", "/etc/app", "/var/lib/../../usr/x"] {
        let mut wish = with(vec![Mount { selinux_relabel: true, ..mount(path, "/v") }]);
        assert_eq!(bind(&wish, "/v").source, Path::new(path), "without SELinux there is nothing to do");
        wish.node.selinux = Some(contexts.parse().unwrap());
        assert_eq!(wish.refused("a system directory"), "mounts[0].selinux_relabel");
    }
    let mut wish = with(vec![Mount { selinux_relabel: true, ..mount("/var/lib/v", "/v") }]);
    wish.node.selinux = Some(contexts.parse().unwrap());
    assert_eq!(bind(&wish, "/v").source, Path::new("/var/lib/v"));
}

#[test]
fn an_image_is_mounted_from_where_it_was_found() {
    let image = Some(ImageSpec { image: "i".into(), ..Default::default() });
    let image = Mount { image, readonly: true, ..mount("", "/image/x") };
    let mut wish = with(vec![image, mount("/a", "/image")]);
    wish.config.mounts.swap(0, 1);
    let source = ImagePart { layers: vec!["/layers/y".into(), "/layers/x".into()], sub_path: "data".into() };
    wish.image_mounts = vec![ImageMount { index: 1, source: source.clone() }];
    let mounts = wish.start().mounts;
    let found: Vec<_> = mounts.iter().filter(|mount| mount.target().starts_with("/image")).collect();
    let ImagePart { layers, sub_path } = source;
    let expected = ImageFiles { layers, sub_path, target: "/image/x".into(), ids: None };
    assert_eq!(found[1], &MountSpec::Image(expected), "{found:?}");
    wish.config.mounts[1].propagation = PropagationHostToContainer.into();
    assert_eq!(wish.refused("private"), "mounts[1].propagation");
}

#[test]
fn volumes_of_the_image_are_made_where_nothing_else_is_mounted() {
    let mut wish = with(vec![mount("/v", "/data/"), mount("/w", "/run/lock")]);
    wish.image.volumes = strings(&["/data", "/run", "cache", "/", "/a/../b", "/b/", "//run"]);
    let volumes = wish.start().volumes;
    let found: Vec<_> = volumes.iter().map(|volume| volume.target.to_str().unwrap()).collect();
    assert_eq!(found, ["/run", "/cache", "/b"]);
    assert_eq!(volumes[1].source, Path::new("/state/c0ffee/volumes/1"));
}

/// Each is a copy of a part of the image.
#[test]
fn an_image_with_very_many_volumes_is_refused() {
    let mut wish = with(Vec::new());
    wish.image.volumes = (0..128).map(|number| format!("/v{number}")).collect();
    assert_eq!(wish.start().volumes.len(), 128);
    wish.image.volumes.push("/one-more".into());
    assert_eq!(wish.refused("129 volumes"), "image");
}

#[test]
fn what_is_shown_of_an_image_is_never_reached_by_a_link() {
    let dir = tempfile::tempdir().unwrap();
    let layer = dir.path().join("layer");
    std::fs::create_dir_all(layer.join("data/sub")).unwrap();
    std::fs::write(layer.join("data/file"), "x").unwrap();
    std::os::unix::fs::symlink("/etc", layer.join("etc")).unwrap();
    let upper = dir.path().join("upper");
    std::fs::create_dir(&upper).unwrap();
    let layers = [upper, layer];
    for path in ["", "data/sub", "data/file"] {
        let part = ImagePart { layers: layers.to_vec(), sub_path: path.into() };
        assert_eq!(spec::resolve_image_mount(&layers, path), Ok(part));
    }
    for path in ["etc", "etc/passwd", "../layer", "/etc", "data/../../x", "missing"] {
        let refusal = spec::resolve_image_mount(&layers, path).unwrap_err();
        assert_eq!(refusal.field, "image_sub_path", "{path}");
    }
    assert_eq!(spec::resolve_image_mount(&[], "").unwrap_err().field, "image");
}

#[test]
fn a_directory_of_the_host_that_is_missing_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("a/b");
    let config = |host: &str| ContainerConfig { mounts: vec![mount(host, "/v")], ..Default::default() };
    spec::make_missing(&config(missing.to_str().unwrap())).unwrap();
    assert!(missing.is_dir());
    std::fs::write(missing.join("file"), "x").unwrap();
    spec::make_missing(&config(missing.join("file").to_str().unwrap())).unwrap();
    let below = spec::make_missing(&config(missing.join("file/below").to_str().unwrap())).unwrap_err();
    assert_eq!(below.field, "mounts[0].host_path");
}
