//! The next pod of the same name.
//!
//! A delete went by the record that it read before the runtime ran, and released whatever lease and removed whatever record
//! had the name afterwards. A create behind a closed gate wrote its record over that of a pod that ran isolated. Either left
//! a running pod whose block the ledger gave to the next one, and whose containers ran with the host's users.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use ids::allocator::State;
use oci_records::Standing;
use testkit::wait_until;

use crate::asking::{Emptied, RUNC, asking, done, held, init, leases, root};
use crate::isolation::{Host, Killed, debians};
use crate::wrapped::{Wrapped, stderr};

/// A node with a wrapper before runc, for as long as `attack` lasts.
fn on_a_node(attack: impl FnOnce(&Host, &Wrapped) + Send) {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        attack(host, &wrapped);
    });
}

/// Puts a runc before the wrapper that says when it has deleted (`deleted`) and waits then until it may end (`go`), and
/// that waits before it creates for as long as there is a file `hold`.
fn with_a_slow_runtime(wrapped: &Wrapped) {
    let (runtime, dir) = (wrapped.path("slow"), wrapped.dir.path().display());
    let text = format!(
        "#!/bin/sh\nfor word; do case $word in\n\
         create) while [ -e {dir}/hold ]; do sleep 0.01; done; exec {RUNC} \"$@\";;\n\
         delete) {RUNC} \"$@\"; code=$?; touch {dir}/deleted; while [ ! -e {dir}/go ]; do sleep 0.01; done; exit $code;;\n\
         esac; done\nexec {RUNC} \"$@\"\n"
    );
    fs::write(&runtime, text).unwrap();
    fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
    wrapped.configure(&runtime, "enable_user_namespace_annotation: true", "");
}

/// A delete whose runtime has deleted the pod and has not ended.
fn deleting(wrapped: &Wrapped, id: &str) -> Child {
    let mut delete = wrapped.command(&["--root", &root(wrapped), "delete", "--force", id]);
    let child = delete.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the runtime has deleted the pod", || wrapped.path("deleted").exists());
    child
}

/// Lets the delete end.
#[track_caller]
fn deleted(wrapped: &Wrapped, mut delete: Child) {
    fs::write(wrapped.path("go"), "").unwrap();
    assert!(delete.wait().unwrap().success());
}

/// That the pod in a bundle has its lease, by the ledger and by its record.
#[track_caller]
fn is_leased(wrapped: &Wrapped, bundle: &Path) {
    let maps = fs::read_to_string(format!("/proc/{}/uid_map", init(bundle))).unwrap();
    let base: u32 = maps.split_whitespace().nth(1).unwrap().parse().unwrap();
    let lease = leases(wrapped).into_iter().find(|lease| lease.uids.base().get() == base);
    assert_eq!(lease.map(|lease| lease.state), Some(State::Leased), "{base} is the pod's");
    let records = wrapped.records();
    assert_eq!(records.len(), 1);
    assert!(matches!(records[0].standing, Standing::Isolated { ids: Some(_), .. }), "{records:?}");
}

#[test]
fn a_delete_takes_nothing_from_the_next_pod_of_its_name() {
    on_a_node(|host, wrapped| {
        with_a_slow_runtime(wrapped);
        let mut pod = host.pod(0);
        let (id, bundle) = asking(host, &pod, None, |_| {});
        done(&wrapped.create(&bundle, &id));
        let delete = deleting(wrapped, &id);
        done(&wrapped.create(&bundle, &id));
        deleted(wrapped, delete);
        is_leased(wrapped, &bundle);
        pod.init = Some(init(&bundle));
        let (container, inner) = asking(host, &pod, Some(&id), |_| {});
        done(&wrapped.create(&inner, &container));
        done(&wrapped.call(&["--root", &root(wrapped), "delete", "--force", &container]));
        done(&wrapped.call(&["--root", &root(wrapped), "delete", "--force", &id]));
        assert_eq!((held(wrapped), wrapped.records().len()), (0, 0));
    });
}

#[test]
fn a_delete_takes_nothing_from_a_pod_of_its_name_that_is_being_made() {
    on_a_node(|host, wrapped| {
        with_a_slow_runtime(wrapped);
        let (id, bundle) = asking(host, &host.pod(0), None, |_| {});
        done(&wrapped.create(&bundle, &id));
        let delete = deleting(wrapped, &id);
        fs::remove_file(bundle.join("init.pid")).unwrap();
        fs::write(wrapped.path("hold"), "").unwrap();
        let text = |path: PathBuf| path.to_str().unwrap().to_owned();
        let (root, pid_file, dir) = (root(wrapped), text(bundle.join("init.pid")), text(bundle.clone()));
        let words = ["--root", &root, "create", "--bundle", &dir, "--pid-file", &pid_file, &id];
        let mut create = wrapped.command(&words);
        let mut create = Killed(create.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let is_second = || {
            let is_leased = |standing: &Standing| matches!(standing, Standing::Isolated { ids: Some(_), .. });
            wrapped.records().iter().any(|r| r.creator.pid() == create.0.id() && is_leased(&r.standing))
        };
        wait_until("the second create has its lease", is_second);
        deleted(wrapped, delete);
        assert_eq!((held(wrapped), wrapped.records().len()), (1, 1));
        fs::remove_file(wrapped.path("hold")).unwrap();
        assert!(create.0.wait().unwrap().success());
        is_leased(wrapped, &bundle);
    });
}

#[test]
fn a_create_behind_a_closed_gate_takes_nothing_from_an_isolated_pod_of_its_name() {
    on_a_node(|host, wrapped| {
        let pod = host.pod(0);
        let (id, bundle) = asking(host, &pod, None, |_| {});
        done(&wrapped.create(&bundle, &id));
        wrapped.configure(Path::new(RUNC), "enable_user_namespace_annotation: false", "");
        let output: Output = wrapped.create(&bundle, &id);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("is there already, or is being made"), "{}", stderr(&output));
        is_leased(wrapped, &bundle);
        done(&wrapped.call(&["--root", &root(wrapped), "delete", "--force", &id]));
        assert_eq!((held(wrapped), wrapped.records().len()), (0, 0));
        done(&wrapped.create(&bundle, &id));
        assert!(matches!(wrapped.records()[0].standing, Standing::NotIsolated { .. }), "once it is gone");
    });
}
