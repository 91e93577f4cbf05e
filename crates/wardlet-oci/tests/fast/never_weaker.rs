//! Whatever is done to a configuration, it is not handed over with less than its caller put there.

use proptest::prelude::*;
use serde_json::{Value, json};
use wardlet_oci::spec::{parse, weakened};

fn before() -> Value {
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "user": {"uid": 5}, "noNewPrivileges": true, "apparmorProfile": "p", "selinuxLabel": "l",
            "capabilities": {"bounding": ["CAP_CHOWN"]}, "rlimits": [{"type": "RLIMIT_CORE", "hard": 0, "soft": 0}],
        },
        "root": {"path": "rootfs", "readonly": true},
        "hooks": {"createRuntime": [{"path": "/h"}]},
        "mounts": [
            {"destination": "/proc", "type": "proc", "options": ["nosuid", "noexec", "nodev"]},
            {"destination": "/v", "type": "bind", "source": "/s", "options": ["rbind", "rro"]},
        ],
        "linux": {
            "resources": {"devices": [{"allow": false, "access": "rwm"}], "pids": {"limit": 5}},
            "namespaces": [{"type": "pid"}, {"type": "network", "path": "/n"}, {"type": "mount"}],
            "maskedPaths": ["/proc/kcore"], "readonlyPaths": ["/proc/sys"], "seccomp": {"defaultAction": "SCMP_ACT_ERRNO"},
            "sysctl": {"net.core.somaxconn": "5", "kernel.shm_rmid_forced": "1"},
            "devices": [{"path": "/dev/fuse", "type": "c", "major": 10, "minor": 229}],
        },
        "annotations": {"a": "b"},
    })
}

/// As the wrapper edits it.
fn after() -> Value {
    let mut spec = before();
    spec["root"]["path"] = json!("/run/stage/rootfs");
    spec["mounts"][1]["options"] = json!(["rbind", "ro", "nosuid"]);
    spec["mounts"][1]["source"] = json!("/run/stage/1");
    spec["mounts"]
        .as_array_mut()
        .unwrap()
        .push(json!({"destination": "/dev/fuse", "type": "bind", "options": ["bind"]}));
    let linux = &mut spec["linux"];
    linux["namespaces"] = json!([{"type": "pid"}, {"type": "mount"}, {"type": "user"}]);
    linux["uidMappings"] = json!([{"containerID": 0, "hostID": 131_072, "size": 65_536}]);
    linux["gidMappings"] = linux["uidMappings"].clone();
    linux["sysctl"].as_object_mut().unwrap().remove("net.core.somaxconn");
    linux["devices"] = json!([]);
    spec["annotations"]["wardlet.dev/block"] = json!("x");
    spec
}

#[test]
fn the_wrappers_own_edit_takes_nothing_away() {
    assert_eq!(weakened(&before(), &after()), None);
    let unchanged = weakened(&before(), &before());
    assert_eq!(
        unchanged.as_deref(),
        Some("linux.namespaces (user)"),
        "without a user namespace it is none of ours"
    );
}

/// Namespaces for messages and names that are to be joined, as CRI-O has them.
#[test]
fn only_the_pods_own_stand_for_namespaces_of_the_callers() {
    let given = json!([
        {"type": "pid", "path": "/n/pid"}, {"type": "ipc", "path": "/n/ipc"}, {"type": "uts", "path": "/n/uts"},
        {"type": "mount"},
    ]);
    let kept = |spaces: Value| {
        let (mut one, mut other) = (before(), after());
        one["linux"]["namespaces"] = given.clone();
        other["linux"]["namespaces"] = spaces;
        weakened(&one, &other)
    };
    let with = |pid: Value, ipc: Value, user: Value| {
        kept(json!([pid, ipc, {"type": "uts", "path": "/n/uts"}, {"type": "mount"}, user]))
    };
    let (pid, new) = (json!({"type": "pid", "path": "/n/pid"}), json!({"type": "user"}));
    let joined = json!({"type": "user", "path": "/stage/userns"});
    assert_eq!(with(pid.clone(), json!({"type": "ipc"}), new.clone()), None);
    assert_eq!(with(pid.clone(), json!({"type": "ipc", "path": "/stage/ipc"}), joined.clone()), None);
    let ipc = Some("linux.namespaces (ipc)".to_owned());
    assert_eq!(with(pid.clone(), json!({"type": "ipc", "path": "/stage/ipc"}), new.clone()), ipc);
    assert_eq!(with(pid.clone(), json!({"type": "ipc", "path": "/proc/1/ns/ipc"}), joined.clone()), ipc);
    assert_eq!(with(pid, json!({"type": "time"}), new.clone()), ipc);
    let own = with(json!({"type": "pid"}), json!({"type": "ipc", "path": "/n/ipc"}), new);
    assert_eq!(own.as_deref(), Some("linux.namespaces (pid)"));
}

#[test]
fn each_restriction_that_goes_missing_is_noticed() {
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 31] = [
        (|s| s["process"]["noNewPrivileges"] = json!(false), "process"),
        (|s| s["process"]["capabilities"]["bounding"] = json!(["CAP_CHOWN", "CAP_SYS_ADMIN"]), "process"),
        (|s| drop(s["process"].as_object_mut().unwrap().remove("apparmorProfile")), "process"),
        (|s| s["process"]["user"]["uid"] = json!(0), "process"),
        (|s| s["root"]["readonly"] = json!(false), "root.readonly"),
        (|s| drop(s.as_object_mut().unwrap().remove("hooks")), "hooks"),
        (|s| s["linux"]["seccomp"] = Value::Null, "linux.seccomp"),
        (|s| s["linux"]["maskedPaths"] = json!([]), "linux.maskedPaths"),
        (|s| drop(s["linux"].as_object_mut().unwrap().remove("readonlyPaths")), "linux.readonlyPaths"),
        (|s| s["linux"]["resources"]["pids"]["limit"] = json!(6), "linux.resources"),
        (|s| s["linux"]["resources"]["devices"][0]["allow"] = json!(true), "linux.resources"),
        (
            |s| s["linux"]["namespaces"] = json!([{"type": "mount"}, {"type": "user"}]),
            "linux.namespaces (pid)",
        ),
        (|s| s["linux"]["namespaces"][0]["path"] = json!("/proc/1/ns/pid"), "linux.namespaces (pid)"),
        (|s| s["linux"]["namespaces"][2]["type"] = json!("uts"), "linux.namespaces (user)"),
        (|s| s["linux"]["uidMappings"][0]["hostID"] = json!(0), "linux.uidMappings"),
        (
            |s| s["linux"]["sysctl"]["kernel.shm_rmid_forced"] = json!("0"),
            "linux.sysctl.kernel.shm_rmid_forced",
        ),
        (|s| s["linux"]["sysctl"]["kernel.new"] = json!("0"), "linux.sysctl.kernel.new"),
        (|s| s["linux"]["devices"] = json!([{"path": "/dev/mem"}]), "linux.devices"),
        (|s| s["mounts"][0]["options"] = json!(["nosuid", "noexec"]), "mounts (/proc)"),
        (|s| s["mounts"][1]["options"] = json!(["rbind"]), "mounts (/v)"),
        (|s| s["mounts"].as_array_mut().unwrap().push(json!({"destination": "/host"})), "mounts (/host)"),
        (|s| s["annotations"]["a"] = json!("c"), "annotations.a"),
        (
            |s| s["annotations"]["run.oci.seccomp_bpf_data"] = json!("AAAA"),
            "annotations.run.oci.seccomp_bpf_data",
        ),
        (|s| s["mounts"][0]["options"] = json!(["nosuid", "noexec", "nodev", "dev"]), "mounts (/proc)"),
        (|s| s["mounts"][1]["options"] = json!(["rbind", "ro", "nosuid", "rw"]), "mounts (/v)"),
        (|s| s["mounts"][1]["options"] = json!(["rbind", "rro", "rrw"]), "mounts (/v)"),
        (|s| s["mounts"][1]["options"] = json!(["rbind", "ro", "rshared"]), "mounts (/v)"),
        (|s| s["mounts"][0]["type"] = json!("bind"), "mounts (/proc)"),
        (|s| s["mounts"][0]["source"] = json!("/proc"), "mounts (/proc)"),
        (
            |s| s["mounts"][1]["uidMappings"] = json!([{"containerID": 0, "hostID": 0, "size": 1}]),
            "mounts (/v)",
        ),
        (|s| s["mounts"][2]["type"] = json!("sysfs"), "mounts (/dev/fuse)"),
    ];
    for (change, part) in cases {
        let mut spec = after();
        change(&mut spec);
        assert_eq!(weakened(&before(), &spec).as_deref(), Some(part));
    }
}

/// Any value that a configuration could have.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        prop::sample::select(vec!["", "true", "\u{0}", "ſ", "/proc", "😀"]).prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::btree_map(prop::sample::select(vec!["a", "b", "x-y", "ä"]), inner, 0..3)
                .prop_map(|map| Value::Object(
                    map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
                )),
        ]
    })
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2_000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// No field is lost: what is read and written again is what it was, known or not.
    #[test]
    fn every_field_survives_being_read_and_written(more in value()) {
        let mut spec = before();
        spec["x"] = more;
        prop_assert_eq!(parse(spec.to_string().as_bytes()).unwrap(), spec);
    }

    /// Anything else in a part that is not ours to edit is noticed.
    #[test]
    fn no_part_that_is_not_ours_can_change(at in 0usize..6, new in value()) {
        let parts = ["/process", "/hooks", "/linux/seccomp", "/linux/resources", "/linux/maskedPaths", "/ociVersion"];
        let mut spec = after();
        let slot = spec.pointer_mut(parts[at]).unwrap();
        let same = *slot == new;
        *slot = new;
        prop_assert_eq!(weakened(&before(), &spec).is_none(), same);
    }
}
