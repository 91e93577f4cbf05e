//! What an OCI runtime is told.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod support;

use bundle::spec::{self, DeviceNumber, Ready};
use bundle::{Bind, Device, MountSpec, NewMount, ReadOnly, Seccomp, Space, Start, Travel};
use serde_json::{Value, json};

fn container() -> (tempfile::TempDir, Start) {
    let dir = tempfile::tempdir().unwrap();
    let start = support::start(dir.path());
    (dir, start)
}

fn told(start: &Start) -> Value {
    let number = DeviceNumber { kind: 'c', major: 10, minor: 229, mode: 0o666 };
    let devices = vec![number; start.devices.len()];
    spec::of(start, &Ready { rootfs: "/stage/rootfs".into(), binds: vec!["/stage/binds/0".into()], devices })
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
            travel: Travel::FromHost,
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
    start.spaces.network = Space::At("/run/ns/net".into());
    start.spaces.pid = Space::Host;
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
    start.spaces.user = Space::Host;
    assert_eq!(told(&start)["linux"].get("uidMappings"), None);
}

#[test]
fn all_devices_are_forbidden_before_any_is_allowed() {
    let (_dir, mut start) = container();
    start.devices =
        vec![Device { source: "/dev/fuse".into(), target: "/dev/fuse".into(), access: "rw".into() }];
    let rules = told(&start)["linux"]["resources"]["devices"].clone();
    assert_eq!(rules[0], json!({ "allow": false, "access": "rwm" }));
    assert_eq!(rules[1], json!({ "allow": true, "type": "c", "major": 10, "minor": 229, "access": "rw" }));
}

#[test]
fn device_nodes_are_asked_for_only_where_they_can_be_made() {
    let (_dir, mut start) = container();
    start.devices =
        vec![Device { source: "/dev/fuse".into(), target: "/dev/fuse".into(), access: "rw".into() }];
    assert_eq!(told(&start)["linux"]["devices"], json!([]));
    (start.spaces.user, start.ids) = (Space::Host, None);
    assert_eq!(told(&start)["linux"]["devices"][0]["path"], "/dev/fuse");
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
