//! Configurations that nobody means well with. Each fails, or is handed over, and leaves nothing.

use crate::wrapped;

use std::path::Path;

use serde_json::json;
use wrapped::{Wrapped, sandbox, stderr};

const OURS: &str = "wardlet.dev/user-namespace";

/// It is refused in one line that names its cause, and nothing is left.
#[track_caller]
fn refused(wrapped: &Wrapped, spec: &[u8], cause: &str) {
    let bundle = wrapped.bundle("b", spec);
    let output = wrapped.create(&bundle, "s1");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(cause), "{said}");
    assert!(said.len() < 1000, "{} letters", said.len());
    assert_eq!(wrapped.called(), None);
    assert!(wrapped.records().is_empty() && !wrapped.path("state").exists());
    std::fs::remove_dir_all(Path::new(&bundle)).unwrap();
}

fn asking(change: impl FnOnce(&mut serde_json::Value)) -> Vec<u8> {
    let mut spec = sandbox(&[(OURS, "true")]);
    change(&mut spec);
    spec.to_string().into_bytes()
}

#[test]
fn ten_megabytes_are_read_and_more_than_any_runtime_takes_are_not() {
    let wrapped = Wrapped::before_a_witness();
    let long = "x".repeat(10 << 20);
    let mut plain = sandbox(&[]);
    plain["process"]["env"] = json!([long]);
    let bundle = wrapped.bundle("plain", plain.to_string().as_bytes());
    assert!(wrapped.create(&bundle, "s1").status.success());
    assert!(wrapped.called().is_some(), "handed over as it is");
    let hosts = asking(|spec| {
        spec["process"]["env"] = json!([long]);
        spec["linux"]["namespaces"] = json!([]);
    });
    refused(&wrapped, &hosts, "hostNetwork");
    refused(&wrapped, &[b' '; 33 << 20], "larger than 32 MiB");
}

#[test]
fn depth_is_no_way_past_the_gate() {
    let wrapped = Wrapped::before_a_witness();
    let text = String::from_utf8(asking(|_| {})).unwrap();
    let deep = format!("{{\"hooks\":{}{},{}", "[".repeat(200_000), "]".repeat(200_000), &text[1..]);
    refused(&wrapped, deep.as_bytes(), "recursion limit");
}

#[test]
fn keys_that_a_runtime_reads_otherwise_are_refused() {
    let wrapped = Wrapped::before_a_witness();
    let text = String::from_utf8(asking(|_| {})).unwrap();
    let with = |more: &str| format!("{{{more},{}", &text[1..]);
    for (more, cause) in [
        (r#""linux":{}"#, "twice"),
        (r#""LINUX":{"namespaces":[]}"#, "other letters"),
        (r#""annotations":{}"#, "twice"),
        (r#""Annotations":{"wardlet.dev/user-namespace":"false"}"#, "other letters"),
        (r#""Process":{"capabilities":{}}"#, "other letters"),
        (r#""proce\u017f\u017f":{}"#, "other letters"),
        (r#""x":{"a":1,"A":2}"#, "one to a runtime"),
        (r#""x":1e400"#, "number"),
        (r#""x":3.5"#, "OCI does not have"),
    ] {
        refused(&wrapped, with(more).as_bytes(), cause);
    }
    refused(&wrapped, &text.as_bytes()[..text.len() - 1], "EOF");
    refused(&wrapped, b"\xff\xfe", "config.json");
    refused(&wrapped, b"", "EOF");
}

#[test]
fn what_a_user_namespace_cannot_have_is_refused_before_anything_is_leased() {
    let wrapped = Wrapped::before_a_witness();
    type Change = fn(&mut serde_json::Value);
    let cases: [(Change, &str); 11] = [
        (|s| s["linux"]["namespaces"] = json!([{"type": "pid"}]), "hostNetwork"),
        (|s| s["linux"]["namespaces"][0]["type"] = json!("cgroup"), "hostPID"),
        (|s| s["linux"]["namespaces"][1]["path"] = json!("/proc/self/ns/ipc"), "hostIPC"),
        (|s| s["linux"]["resources"] = json!({"devices": [{"allow": true, "access": "rwm"}]}), "privileged"),
        (|s| s["process"]["capabilities"] = json!({"bounding": ["CAP_NET_ADMIN"]}), "CAP_NET_ADMIN"),
        (|s| s["process"]["capabilities"] = json!({"ambient": ["CAP_NET_RAW"]}), "CAP_NET_RAW"),
        (|s| s["process"]["user"]["uid"] = json!(65_536), "65536 is not among the pod's 65536 IDs"),
        (|s| s["process"]["user"]["additionalGids"] = json!([1, 4_294_967_295_u64]), "additionalGids"),
        (|s| s["process"]["user"]["gid"] = json!(-1), "-1 is not among"),
        (
            |s| s["mounts"] = json!([{"destination": "/x", "type": "bind", "options": ["rbind", "rshared"]}]),
            "Bidirectional",
        ),
        (
            |s| s["mounts"] = json!([{"destination": "/c", "type": "cgroup", "options": ["rw"]}]),
            "control groups",
        ),
    ];
    for (change, cause) in cases {
        refused(&wrapped, &asking(change), cause);
    }
}

#[test]
fn lengths_that_no_block_has_are_refused() {
    let wrapped = Wrapped::before_a_witness();
    for length in ["0", "-1", "65535", "18446744073709551616", "4294967296", "1e5", "x"] {
        let spec = asking(|spec| spec["annotations"]["wardlet.dev/ids"] = json!(length));
        refused(&wrapped, &spec, "wardlet.dev/ids");
    }
}

#[test]
fn names_that_lead_elsewhere_lead_nowhere() {
    let wrapped = Wrapped::before_a_witness();
    let spec = asking(|spec| {
        spec["linux"]["namespaces"] = json!([]);
        spec["annotations"].as_object_mut().unwrap().remove("io.kubernetes.cri.sandbox-id");
    });
    let bundle = wrapped.bundle("b", &spec);
    for id in ["../../etc/passwd", "..", ".", "a/b", "ä\u{202e}", &"x".repeat(300)] {
        assert_eq!(wrapped.create(&bundle, id).status.code(), Some(1), "{id}");
    }
    let mut container = sandbox(&[]);
    container["annotations"]["io.kubernetes.cri.container-type"] = json!("container");
    for sandbox in ["../../../../etc/passwd", "\u{0}", &"y".repeat(10_000)] {
        container["annotations"]["io.kubernetes.cri.sandbox-id"] = json!(sandbox);
        let bundle = wrapped.bundle("c", container.to_string().as_bytes());
        assert!(wrapped.create(&bundle, "c1").status.success(), "it asks for nothing");
    }
    assert!(wrapped.records().is_empty());
}
