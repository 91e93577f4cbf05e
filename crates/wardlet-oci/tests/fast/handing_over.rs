//! What the wrapper does when it does nothing: the runtime is called as if it were not there.

use crate::wrapped;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use oci_records::{Creator, Record, Records};
use serde_json::json;
use wrapped::{Wrapped, identity, sandbox, stderr};

const OURS: &str = "wardlet.dev/user-namespace";
const GVISORS: &str = "dev.gvisor.spec.user-namespace";
const CLOSED: &str = "enable_user_namespace_annotation: false";

#[test]
fn a_pod_that_asks_for_nothing_is_handed_over_byte_for_byte() {
    let wrapped = Wrapped::before_a_witness();
    let odd = b"{\"annotations\":{\"a\":\"b\"},\n\n  \"x\": 1.50,\"y\":{\"Z\":1,\"z\":2} }\n";
    for spec in [sandbox(&[]).to_string().into_bytes(), odd.to_vec(), b"{}".to_vec()] {
        let bundle = wrapped.bundle("b", &spec);
        let before = identity(&bundle.join("config.json"));
        let words =
            ["--root", "/r", "--debug", "create", "--bundle", bundle.to_str().unwrap(), "--no-pivot", "s1"];
        let mut command = wrapped.command(&words);
        let child = command.spawn().unwrap();
        let pid = child.id();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        let called = wrapped.called().unwrap();
        assert_eq!(called[1..], words);
        assert_eq!(
            fs::read_to_string(wrapped.path("pid")).unwrap().trim(),
            pid.to_string(),
            "no parent is left"
        );
        assert_eq!(identity(&bundle.join("config.json")), before);
        assert!(!wrapped.path("run").exists() && !wrapped.path("state").exists(), "nothing is touched");
    }
}

#[test]
fn every_other_command_is_handed_over_with_its_code() {
    let wrapped = Wrapped::before_a_witness();
    fs::write(wrapped.path("code"), "7").unwrap();
    for words in [
        &["features"][..],
        &["--root", "/r", "state", "x"],
        &["--root=/r", "kill", "x", "9"],
        &["start", "x"],
        &["ps", "--format", "json", "x"],
        &["update", "--resources", "-", "x"],
        &["delete", "--force", "x"],
        &["exec", "--process", "/p", "x"],
        &["checkpoint", "x"],
        &["frobnicate", "--create", "create"],
        &["--help"],
        &[],
    ] {
        let output = wrapped.call(words);
        assert_eq!(output.status.code(), Some(7), "{words:?}: {}", stderr(&output));
        assert_eq!(wrapped.called().unwrap()[1..], *words);
    }
}

/// What a program that is called so finds ignored and blocked.
fn signals_of(wrapped: &Wrapped, env: &[&str], program: &Path, words: &[&str]) -> String {
    let mut command = Command::new("env");
    command.args(env).arg(program).args(words).env("WARDLET_CONFIG", wrapped.path("config.yaml"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    fs::read_to_string(wrapped.path("signals")).unwrap()
}

#[test]
fn signals_that_the_caller_ignores_or_blocks_are_ignored_and_blocked_and_no_others() {
    let wrapped = Wrapped::before_a_witness();
    let (witness, dir) = (wrapped.path("witness"), wrapped.dir.path().display());
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo runc version 1.3.0 && exit 0\n\
         exec grep -E 'Sig(Ign|Blk)' /proc/self/status > {dir}/signals\n"
    );
    fs::write(&witness, text).unwrap();
    let record = json!({
        "version": 1, "root": "/r", "container": "made", "sandbox": "made",
        "pod": {"namespace": "n", "name": "p", "uid": "u"},
        "bundle": "/b", "config": "/b/config.json", "pidFile": "/b/pid", "creator": Creator::own().unwrap(),
        "standing": {"ward": {"holder": "made", "ids": null}},
    });
    let record: Record = serde_json::from_value(record).unwrap();
    assert!(Records::new(&wrapped.path("run")).claim(&record).unwrap());
    let wrapper = Path::new(env!("CARGO_BIN_EXE_wardlet-oci"));
    let mut seen = Vec::new();
    for env in [&[][..], &["--ignore-signal=PIPE"], &["--ignore-signal=HUP", "--block-signal=USR1"]] {
        let straight = signals_of(&wrapped, env, &witness, &["state", "x"]);
        // Handed over to, and run as a child of ours.
        for words in [&["state", "x"][..], &["--root", "/r", "delete", "made"]] {
            assert_eq!(signals_of(&wrapped, env, wrapper, words), straight, "{env:?} {words:?}");
        }
        seen.push(straight);
    }
    assert!(seen[0] != seen[1] && seen[1] != seen[2], "{seen:?}");
}

#[test]
fn descriptors_that_the_caller_has_closed_are_closed_and_no_others() {
    let wrapped = Wrapped::before_a_witness();
    let (witness, dir) = (wrapped.path("witness"), wrapped.dir.path().display());
    let text = format!(
        "#!/bin/sh\nopen=\nfor fd in 0 1 2; do [ -e /proc/$$/fd/$fd ] && open=$open$fd; done\necho \"$open\" > {dir}/open\n"
    );
    fs::write(&witness, text).unwrap();
    let wrapper = Path::new(env!("CARGO_BIN_EXE_wardlet-oci"));
    for (closed, open) in [("", "012"), ("<&-", "12"), (">&-", "02"), ("2>&-", "01"), ("<&- >&- 2>&-", "")] {
        for program in [&witness, wrapper] {
            let mut command = Command::new("sh");
            command.arg("-c").arg(format!("exec \"$0\" state x {closed}")).arg(program);
            let ended = command.env("WARDLET_CONFIG", wrapped.path("config.yaml")).status().unwrap();
            assert!(ended.success(), "{program:?} {closed}");
            assert_eq!(
                fs::read_to_string(wrapped.path("open")).unwrap().trim(),
                open,
                "{program:?} {closed}"
            );
        }
    }
}

#[test]
fn the_name_it_is_called_under_chooses_the_runtime() {
    let wrapped = Wrapped::before_a_witness();
    let witness = wrapped.path("witness");
    let gate = format!("runtimes: {{special: {}}}", witness.display());
    wrapped.configure(Path::new("/nowhere"), &gate, "");
    let plain = wrapped.call(&["state", "x"]);
    assert_eq!(plain.status.code(), Some(1));
    assert!(stderr(&plain).contains("cannot run /nowhere"), "{}", stderr(&plain));
    let named = wrapped.command(&["state", "x"]).arg0("/usr/bin/wardlet-oci-special").output().unwrap();
    assert!(named.status.success(), "{}", stderr(&named));
    assert_eq!(wrapped.called().unwrap()[1..], ["state", "x"]);
}

#[test]
fn a_closed_gate_leaves_the_pod_as_it_was_says_so_once_and_writes_it_down() {
    let wrapped = Wrapped::before_a_witness();
    wrapped.configure(&wrapped.path("witness"), CLOSED, "");
    let bundle = wrapped.bundle("b", sandbox(&[(OURS, "true")]).to_string().as_bytes());
    let before = identity(&bundle.join("config.json"));
    assert!(wrapped.create(&bundle, "s1").status.success());
    assert!(wrapped.called().is_some());
    assert_eq!(identity(&bundle.join("config.json")), before);
    let log = fs::read_to_string(bundle.join("log.json")).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
    assert!(log.contains("default/web") && log.contains("\"level\":\"info\""), "{log}");
    let records = wrapped.records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].pod.to_string(), "default/web");
    assert!(!wrapped.path("state").exists(), "nothing is leased");
    let root = wrapped.path("root");
    assert!(wrapped.call(&["--root", root.to_str().unwrap(), "delete", "s1"]).status.success());
    assert!(wrapped.records().is_empty());
}

#[test]
fn a_closed_gate_refuses_where_the_operator_says_so() {
    let wrapped = Wrapped::before_a_witness();
    wrapped.configure(&wrapped.path("witness"), CLOSED, "policy: {onClosedGate: refuse}");
    let bundle = wrapped.bundle("b", sandbox(&[(GVISORS, "true")]).to_string().as_bytes());
    let output = wrapped.create(&bundle, "s1");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("default/web asks for a user namespace"), "{}", stderr(&output));
    assert!(stderr(&output).contains("\nhint: "));
    assert!(fs::read_to_string(bundle.join("log.json")).unwrap().contains("\"level\":\"error\""));
    assert_eq!(wrapped.called(), None);
    assert!(wrapped.records().is_empty());
}

#[test]
fn the_gvisor_key_counts_only_as_exactly_true_and_ours_fails_on_anything_else() {
    let wrapped = Wrapped::before_a_witness();
    for value in ["false", "1", "True", ""] {
        let bundle = wrapped.bundle("b", sandbox(&[(GVISORS, value)]).to_string().as_bytes());
        assert!(wrapped.create(&bundle, "s1").status.success(), "{value:?}");
        assert!(wrapped.called().is_some());
    }
    for gate in [CLOSED, "enable_user_namespace_annotation: true"] {
        wrapped.configure(&wrapped.path("witness"), gate, "");
        let bundle = wrapped.bundle("b", sandbox(&[(OURS, "yes")]).to_string().as_bytes());
        let output = wrapped.create(&bundle, "s1");
        assert!(stderr(&output).contains("\"yes\" is neither \"true\" nor \"false\""), "{}", stderr(&output));
        assert_eq!(wrapped.called(), None);
    }
}

#[test]
fn a_user_namespace_or_maps_of_the_callers_win() {
    let wrapped = Wrapped::before_a_witness();
    let mut by_path = sandbox(&[(OURS, "true")]);
    by_path["linux"]["namespaces"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "user", "path": "/proc/1/ns/user"}));
    let mut maps = sandbox(&[(OURS, "true")]);
    maps["linux"]["uidMappings"] = json!([{"containerID": 0, "hostID": 1, "size": 4_294_967_294_u64}]);
    for spec in [by_path, maps] {
        let bundle = wrapped.bundle("b", spec.to_string().as_bytes());
        let before = identity(&bundle.join("config.json"));
        assert!(wrapped.create(&bundle, "s1").status.success());
        assert!(wrapped.called().is_some());
        assert_eq!(identity(&bundle.join("config.json")), before);
        assert!(!wrapped.path("state").exists() && wrapped.records().is_empty(), "nothing is leased");
    }
}

#[test]
fn a_container_that_asks_in_a_sandbox_that_has_none_is_refused() {
    let wrapped = Wrapped::before_a_witness();
    let mut spec = sandbox(&[(OURS, "true")]);
    spec["annotations"]["io.kubernetes.cri.container-type"] = json!("container");
    let bundle = wrapped.bundle("b", spec.to_string().as_bytes());
    let output = wrapped.create(&bundle, "c1");
    assert!(stderr(&output).contains("sandbox s1 has no user namespace"), "{}", stderr(&output));
    assert_eq!(wrapped.called(), None);
    wrapped.configure(&wrapped.path("witness"), CLOSED, "");
    assert!(wrapped.create(&bundle, "c1").status.success());
}

#[test]
fn a_broken_configuration_stops_every_call_and_names_the_file() {
    let wrapped = Wrapped::before_a_witness();
    wrapped.configure(&wrapped.path("witness"), "enable_user_namespaces: true", "");
    let output = wrapped.call(&["state", "x"]);
    assert_eq!((output.status.code(), wrapped.called()), (Some(1), None));
    assert!(
        stderr(&output).contains("config.yaml: wrapper.enable_user_namespaces: there is no such setting")
    );
}

/// Without `pod_annotations`, containerd keeps a pod's annotation from the sandbox, and gVisor's shim then ran the pod
/// with the host's users. What asks is not run so where it can be seen to ask; where it cannot, `wardlet doctor`
/// names the setting.
#[test]
fn weakness_9_an_annotation_that_reaches_a_container_but_not_its_sandbox_fails_the_create() {
    let wrapped = Wrapped::before_a_witness();
    let silent = wrapped.bundle("s", sandbox(&[]).to_string().as_bytes());
    assert!(wrapped.create(&silent, "s1").status.success());
    for key in [OURS, "dev.gvisor.spec.user-namespace"] {
        let mut spec = sandbox(&[(key, "true")]);
        spec["annotations"]["io.kubernetes.cri.container-type"] = json!("container");
        let bundle = wrapped.bundle("c", spec.to_string().as_bytes());
        wrapped.called();
        let output = wrapped.create(&bundle, "c1");
        assert!(!output.status.success() && wrapped.called().is_none(), "{key}");
        assert!(stderr(&output).contains(&format!("has no user namespace, and {key} asks for one")), "{key}");
    }
}

/// Upstream has user namespaces of its own by now: where the caller brings one, that is the one, and what the runtime
/// says that it can do is its own word.
#[test]
fn weakness_12_upstreams_own_user_namespaces_come_first_and_nothing_is_claimed_in_the_runtimes_place() {
    let wrapped = Wrapped::before_a_witness();
    let mut spec = sandbox(&[(OURS, "true"), ("dev.gvisor.spec.user-namespace", "true")]);
    let line = json!([{"containerID": 0, "hostID": 1_376_256_000_u32, "size": 65_536}]);
    spec["linux"]["uidMappings"] = line.clone();
    spec["linux"]["gidMappings"] = line;
    spec["linux"]["namespaces"]
        .as_array_mut()
        .unwrap()
        .push(json!({"type": "user", "path": "/proc/self/ns/user"}));
    let bundle = wrapped.bundle("b", spec.to_string().as_bytes());
    let before = identity(&bundle.join("config.json"));
    assert!(wrapped.create(&bundle, "s1").status.success());
    assert_eq!(identity(&bundle.join("config.json")), before);
    assert!(wrapped.called().is_some() && wrapped.records().is_empty() && !wrapped.path("state").exists());
    assert!(wrapped.call(&["features"]).status.success());
    assert_eq!(wrapped.called().unwrap()[1..], ["features"]);
}
