//! Pods that we have nothing to do with.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use testbed::{Containerd, Handler, Part, Parts, Shim};

use crate::nodes::Setup;
use crate::support::pods::{ASKS, Pod};
use crate::support::{Gate, Node, WARD, usual_runtime};

/// Writes down how it was called and what the spec looks like, then becomes the next program.
const WITNESS: &str = r#"#!/bin/sh
{
    echo "pid $$ parent $PPID"
    for word; do echo "word $word"; done
    find /proc/$$/fd -mindepth 1 -printf 'fd %f %l\n'
    env | sort
    readlink /proc/$$/ns/mnt /proc/$$/cwd
    bundle=; previous=
    for word; do [ "$previous" != --bundle ] || bundle=$word; previous=$word; done
    [ -z "$bundle" ] || stat -c '%i %s %y %z %n' "$bundle/config.json"
    [ -z "$bundle" ] || sha256sum "$bundle/config.json"
} > @DIR@/calls/$$.@NAME@.tmp 2>&1
mv @DIR@/calls/$$.@NAME@.tmp @DIR@/calls/$$.@NAME@
exec @NEXT@ "$@"
"#;

/// Where two witnesses write: one that the shim calls and that calls us, one that we call and that calls the
/// runtime.
struct Witnesses(PathBuf);

impl Drop for Witnesses {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Witnesses {
    fn new(purpose: &str) -> Self {
        let dir = PathBuf::from("/var/tmp").join(format!("wardlet-witness-{}-{purpose}", std::process::id()));
        fs::create_dir_all(dir.join("calls")).unwrap();
        Self(dir)
    }

    fn add(&self, name: &str, next: &Path) -> PathBuf {
        let path = self.0.join(name);
        let script = WITNESS.replace("@DIR@", self.0.to_str().unwrap()).replace("@NAME@", name);
        fs::write(&path, script.replace("@NEXT@", next.to_str().unwrap())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// What was called before, as by containerd when it started and there was no configuration yet.
    fn forget(&self) {
        for entry in fs::read_dir(self.0.join("calls")).unwrap() {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }

    /// Every call as the outer one saw it and as the inner one did.
    fn calls(&self) -> Vec<(String, String)> {
        let entries = fs::read_dir(self.0.join("calls")).unwrap().flatten().map(|entry| entry.path());
        let outer = entries.filter(|path| path.extension().is_some_and(|name| name == "outer"));
        outer.map(|path| (self.read(&path), self.read(&path.with_extension("inner")))).collect()
    }

    /// Without its own files, which it has open too.
    fn read(&self, path: &Path) -> String {
        let text = fs::read_to_string(path).unwrap_or_else(|e| format!("never called: {e}"));
        let own = self.0.to_str().unwrap();
        text.lines().filter(|line| !line.contains(own)).map(|line| format!("{line}\n")).collect()
    }

    /// What the runtime meets is what the shim sent: words, descriptors, environment, process, spec.
    fn agree(&self) {
        let calls = self.calls();
        for (outer, inner) in &calls {
            let differing = outer.lines().zip(inner.lines()).filter(|(one, other)| one != other);
            assert_eq!(differing.collect::<Vec<_>>(), Vec::<(&str, &str)>::new());
            assert_eq!(outer.lines().count(), inner.lines().count(), "{inner}");
        }
        for word in ["create", "start", "exec", "kill", "delete"] {
            let seen = calls.iter().any(|(outer, _)| outer.contains(&format!("word {word}\n")));
            assert!(seen, "no {word} among {} calls", calls.len());
        }
    }
}

fn watched(containerd: Containerd) -> (Node, Witnesses) {
    let witnesses = Witnesses::new(&format!("{containerd:?}"));
    let outer = witnesses.add("outer", Path::new(env!("CARGO_BIN_EXE_wardlet-oci")));
    let handler = Handler { name: WARD.into(), shim: Shim::Runc, binary: outer };
    let node = Node::with(containerd, Parts::of(&[Part::Containerd]), vec![handler]);
    witnesses.add("inner", &usual_runtime(containerd));
    (node, witnesses)
}

/// A whole life: sandbox, container, exec, what `meanwhile` looks at, an end.
fn live(node: &Node, pod: &Pod, meanwhile: impl FnOnce()) {
    let sandbox = node.cri.run_sandbox(pod).expect("a sandbox");
    let container = node.cri.run(&sandbox, pod, pod.shell("main", "sleep 1000")).expect("a container");
    let map = fs::read_to_string(format!("/proc/{}/uid_map", node.cri.pid(&container))).unwrap();
    let numbers: Vec<&str> = map.split_whitespace().collect();
    assert_eq!(numbers, ["0", "0", "4294967295"], "it has the host's users");
    assert_eq!(node.cri.said(&container, "echo $((6 * 7))"), "42\n");
    meanwhile();
    node.cri.remove_container(&container).expect("removed");
    node.cri.remove_sandbox(&sandbox).expect("removed");
}

/// By the wrapper's records alone: no runtime is asked.
fn verify_lists_it(node: &Node) {
    let (code, report) = node.asked(&["verify", "tests/hopeful"]);
    assert_eq!((code, &report["holds"]), (Some(1), &serde_json::json!(false)), "{report:#}");
    let violations = report["violations"].as_array().unwrap();
    assert!(violations.iter().any(|violation| violation["pod"] == "tests/hopeful"), "{report:#}");
}

pub(crate) fn what_asks_for_nothing_or_meets_a_closed_gate_reaches_the_runtime_byte_for_byte(setup: Setup) {
    let (node, witnesses) = watched(setup.containerd());
    let pods = [
        (Gate::Open, Pod::plain(&node, "plain")),
        (Gate::Open, Pod::plain(&node, "denies").with(ASKS, "false")),
        (Gate::Closed, Pod::annotated(&node, "hopeful")),
    ];
    for (gate, pod) in pods {
        node.configure(gate, &witnesses.0.join("inner"));
        witnesses.forget();
        live(&node, &pod, || {
            if gate == Gate::Closed {
                verify_lists_it(&node);
            }
        });
        assert_eq!(node.leased(), Vec::<u64>::new());
        witnesses.agree();
    }
}
