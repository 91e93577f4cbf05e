//! What an OCI runtime is told.

use crate::support;

use container::spec::{self, DeviceNumber, PreparedDevice, PreparedPaths};
use container::{
    Bind, ContainerSpec, ImageVolume, MountPropagation, MountSpec, NamespaceSpec, NewMount, ReadOnly,
    Seccomp, User,
};
use serde_json::{Value, json};

fn container() -> (tempfile::TempDir, ContainerSpec) {
    let dir = tempfile::tempdir().unwrap();
    let start = support::start(dir.path());
    (dir, start)
}

fn ready(start: &ContainerSpec) -> PreparedPaths {
    let volume = |number| format!("/stage/volumes/{number}").into();
    PreparedPaths {
        rootfs: "/stage/rootfs".into(),
        binds: vec!["/stage/binds/0".into()],
        volumes: (0..start.volumes.len()).map(volume).collect(),
        devices: Vec::new(),
        user: User { uid: 7, gid: 8, groups: vec![8, 9] },
        home: Some("/home/seven".into()),
        capabilities: start.process.capabilities.clone(),
    }
}

fn told(start: &ContainerSpec) -> Value {
    spec::of(start, &ready(start))
}

/// With /dev/fuse, as a bind or as a node.
fn told_with_device(start: &ContainerSpec, bind: Option<&str>) -> Value {
    let number = DeviceNumber { kind: 'c', major: 10, minor: 229, mode: 0o660, uid: 0, gid: 6 };
    let device = PreparedDevice {
        target: "/dev/fuse".into(),
        access: "rw".into(),
        number,
        bind: bind.map(Into::into),
    };
    spec::of(start, &PreparedPaths { devices: vec![device], ..ready(start) })
}

#[test]
fn a_bind_comes_from_the_stage_and_never_with_maps() {
    let (_dir, mut start) = container();
    start.mounts = vec![
        MountSpec::New(NewMount { filesystem: "proc".into(), target: "/proc".into(), options: vec![] }),
        MountSpec::Bind(Bind {
            source: "/srv/data".into(),
            target: "/data".into(),
            ids: start.ids.clone(),
            read_only: ReadOnly::Recursive,
            propagation: MountPropagation::HostToContainer,
            options: vec!["noexec".into()],
        }),
    ];
    let bind = &told(&start)["mounts"][1];
    assert_eq!(
        *bind,
        json!({
            "destination": "/data", "type": "bind", "source": "/stage/binds/0",
            "options": ["rbind", "rslave", "ro", "noexec"],
        })
    );
}

#[test]
fn a_namespace_is_new_joined_or_left_out() {
    let (_dir, mut start) = container();
    start.namespaces.network = NamespaceSpec::At("/run/ns/net".into());
    start.namespaces.pid = NamespaceSpec::Host;
    let told = told(&start);
    let namespaces = told["linux"]["namespaces"].as_array().unwrap();
    assert!(namespaces.contains(&json!({ "type": "mount" })));
    assert!(namespaces.contains(&json!({ "type": "network", "path": "/run/ns/net" })));
    assert!(namespaces.iter().all(|namespace| namespace["type"] != "pid"));
}

#[test]
fn maps_are_told_with_a_user_namespace_and_not_without() {
    let (_dir, mut start) = container();
    let line = json!([{ "containerID": 0, "hostID": support::BASE, "size": 65_536 }]);
    assert_eq!(told(&start)["linux"]["uidMappings"], line);
    assert_eq!(told(&start)["linux"]["gidMappings"], line);
    start.namespaces.user = NamespaceSpec::Host;
    assert_eq!(told(&start)["linux"].get("uidMappings"), None);
}

#[test]
fn all_devices_are_forbidden_before_any_is_allowed() {
    let (_dir, start) = container();
    let rules = told_with_device(&start, None)["linux"]["resources"]["devices"].clone();
    assert_eq!(rules[0], json!({ "allow": false, "access": "rwm" }));
    assert_eq!(rules[1], json!({ "allow": true, "type": "c", "major": 10, "minor": 229, "access": "rw" }));
}

#[test]
fn a_device_is_a_node_with_its_owner_or_a_bind_but_never_both() {
    let (_dir, start) = container();
    let node = told_with_device(&start, None);
    assert_eq!(
        node["linux"]["devices"],
        json!([{
            "path": "/dev/fuse", "type": "c", "major": 10, "minor": 229, "fileMode": 0o660, "uid": 0, "gid": 6,
        }])
    );
    assert_eq!(node["mounts"], json!([]));
    let bound = told_with_device(&start, Some("/stage/devices/0"));
    assert_eq!(bound["linux"]["devices"], json!([]));
    assert_eq!(bound["mounts"][0]["source"], "/stage/devices/0");
}

#[test]
fn the_user_that_was_found_is_told_and_has_a_home() {
    let (_dir, mut start) = container();
    let told_now = told(&start);
    assert_eq!(told_now["process"]["user"], json!({ "uid": 7, "gid": 8, "additionalGids": [8, 9] }));
    assert_eq!(told_now["process"]["env"], json!(["PATH=/bin", "HOME=/home/seven"]));
    start.process.env.push("HOME=/elsewhere".into());
    assert_eq!(told(&start)["process"]["env"], json!(["PATH=/bin", "HOME=/elsewhere"]));
    let unknown = PreparedPaths { home: None, ..ready(&start) };
    start.process.env.clear();
    assert_eq!(spec::of(&start, &unknown)["process"]["env"], json!(["HOME=/"]));
}

/// A volume at `/run` that came after `/run/secrets` would hide it.
#[test]
fn an_images_volume_comes_before_what_is_mounted_below_it_and_after_the_rest() {
    let (_dir, mut start) = container();
    let made = |target: &str| {
        MountSpec::New(NewMount { filesystem: "tmpfs".into(), target: target.into(), options: vec![] })
    };
    start.mounts = vec![made("/dev"), made("/run/secrets"), made("/tmp")];
    let volume = |target: &str| ImageVolume { source: "/v".into(), target: target.into() };
    start.volumes = vec![volume("/dev/x"), volume("/run"), volume("/data/below"), volume("/data")];
    let told = told(&start);
    let order: Vec<_> = told["mounts"].as_array().unwrap().iter().map(|m| &m["destination"]).collect();
    assert_eq!(order, ["/dev", "/run", "/run/secrets", "/tmp", "/data", "/dev/x", "/data/below"]);
    assert_eq!(told["mounts"][1]["source"], "/stage/volumes/1");
}

#[test]
fn root_is_shared_only_where_mounts_travel_both_ways() {
    let (_dir, mut start) = container();
    assert_eq!(told(&start)["linux"]["rootfsPropagation"], "rslave");
    start.mounts = vec![MountSpec::Bind(Bind {
        source: "/srv".into(),
        target: "/srv".into(),
        ids: None,
        read_only: ReadOnly::No,
        propagation: MountPropagation::Bidirectional,
        options: vec![],
    })];
    let told = told(&start);
    assert_eq!(told["linux"]["rootfsPropagation"], "rshared");
    assert_eq!(told["mounts"][0]["options"], json!(["rbind", "rshared", "rw"]));
}

#[test]
fn what_is_not_limited_is_not_told() {
    let (_dir, mut start) = container();
    assert_eq!(told(&start)["linux"]["resources"].as_object().unwrap().len(), 1);
    start.cgroup.resources.memory = Some(1 << 20);
    start.cgroup.resources.pids = Some(7);
    let resources = told(&start)["linux"]["resources"].clone();
    assert_eq!(resources["memory"], json!({ "limit": 1 << 20 }));
    assert_eq!(resources["pids"], json!({ "limit": 7 }));
}

#[test]
fn a_profile_is_handed_on_whole() {
    let (_dir, mut start) = container();
    assert_eq!(told(&start)["linux"].get("seccomp"), None);
    let profile = json!({ "defaultAction": "SCMP_ACT_ERRNO" });
    start.process.seccomp = Seccomp::Profile(Box::new(profile.clone()));
    assert_eq!(told(&start)["linux"]["seccomp"], profile);
}
