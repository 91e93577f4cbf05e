//! Leases by sandbox, from the first call to the last, with Debian's runc. Needs root.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod ward;
mod wrapped;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use census::HostRoot;
use ids::allocator::State;
use ledger::{Lease, Ledger};
use serde_json::{Value, json};
use ward::{Host, Pod, debians};
use wrapped::{Wrapped, identity, stderr};

const RUNC: &str = "/usr/sbin/runc";

/// Leases as any other process of the node sees them.
fn leases(wrapped: &Wrapped) -> Vec<Lease> {
    let config = settings::load(Some(&wrapped.path("config.yaml")), Path::new("/nowhere")).unwrap();
    let host = HostRoot::new("/");
    let pool = settings::pool::for_wrapper(&config, &host).unwrap();
    let terms = settings::ledger::Terms { state_dir: &config.settings.wrapper.state_dir, pool };
    Ledger::open(settings::ledger::options(&config, &host, terms).unwrap()).unwrap().list().unwrap()
}

fn held(wrapped: &Wrapped) -> usize {
    leases(wrapped).iter().filter(|lease| lease.state == State::Leased).count()
}

/// A bundle of a pod that asks for a user namespace; of one of its other containers, if it has a sandbox.
fn asking(
    host: &Host,
    pod: &Pod,
    sandbox: Option<&str>,
    change: impl FnOnce(&mut Value),
) -> (String, PathBuf) {
    host.bundle(pod, |spec| {
        let kind = if sandbox.is_some() { "container" } else { "sandbox" };
        spec["annotations"] = json!({
            "io.kubernetes.cri.container-type": kind, "io.kubernetes.cri.sandbox-id": sandbox.unwrap_or("own"),
            "io.kubernetes.cri.sandbox-namespace": "default", "io.kubernetes.cri.sandbox-name": "web",
            "wardlet.dev/user-namespace": "true",
        });
        change(spec);
    })
}

fn root(wrapped: &Wrapped) -> String {
    wrapped.path("root").to_str().unwrap().to_owned()
}

#[track_caller]
fn done(output: &Output) {
    assert!(output.status.success(), "{}", stderr(output));
}

fn init(bundle: &Path) -> u32 {
    fs::read_to_string(bundle.join("init.pid")).unwrap().trim().parse().unwrap()
}

fn map(pid: u32) -> Vec<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap();
    text.split_whitespace().map(|word| word.parse().unwrap()).collect()
}

/// What the runtime still has goes when a test ends, before the wrapper's directories do.
struct Emptied<'a>(&'a Wrapped);

impl Drop for Emptied<'_> {
    fn drop(&mut self) {
        let root = root(self.0);
        let listed = std::process::Command::new(RUNC).args(["--root", &root, "list", "-q"]).output();
        let ids =
            listed.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        for id in ids.split_whitespace() {
            let _ =
                std::process::Command::new(RUNC).args(["--root", &root, "delete", "--force", id]).output();
        }
    }
}

#[test]
fn a_pod_has_one_block_from_its_first_container_to_its_last() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let mut pod = host.pod(0);
        let (sandbox, bundle) = asking(host, &pod, None, |_| {});
        let before = identity(&bundle.join("config.json"));
        done(&wrapped.create(&bundle, &sandbox));
        assert_eq!(identity(&bundle.join("config.json")), before, "the caller's file is the caller's");
        done(&wrapped.call(&["--root", &root(&wrapped), "start", &sandbox]));
        let first = init(&bundle);
        let lines = map(first);
        let base = lines[1];
        assert_eq!(lines, [0, base, 65_536]);
        assert!((1_310_720_000..=1_327_431_680).contains(&base), "{base}");
        pod.init = Some(first);

        let (container, inner) = asking(host, &pod, Some(&sandbox), |_| {});
        done(&wrapped.create(&inner, &container));
        done(&wrapped.call(&["--root", &root(&wrapped), "start", &container]));
        let user = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/user")).unwrap();
        assert_eq!(user(init(&inner)), user(first));
        let said =
            wrapped.call(&["--root", &root(&wrapped), "exec", &container, "cat", "/proc/self/uid_map"]);
        let words: Vec<String> =
            String::from_utf8_lossy(&said.stdout).split_whitespace().map(str::to_owned).collect();
        assert_eq!(words, ["0", &base.to_string(), "65536"], "{}", stderr(&said));

        let lease = &leases(&wrapped)[0];
        let name = format!("oci:{}/{sandbox}", root(&wrapped));
        assert_eq!(u64::from(lease.uids.base()), base);
        assert_eq!(lease.holder.as_ref().unwrap().as_str(), name);
        let uppers: Vec<_> = [&bundle, &inner].iter().map(|b| ward::checks::upper_of(host, b)).collect();
        assert_eq!(lease.places, uppers, "what lies on disk of it");
        assert_eq!(wrapped.records().len(), 2);

        for id in [&container, &sandbox] {
            assert_eq!(held(&wrapped), 1);
            done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", id]));
        }
        assert_eq!((held(&wrapped), wrapped.records().len()), (0, 0));
        assert_eq!(leases(&wrapped)[0].state, State::Draining, "not free before it is seen to be vacant");
    });
}

#[test]
fn a_create_that_fails_gives_back_what_it_took() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let pod = host.pod(0);
        let mounts = host.mounts();
        type Change = fn(&mut Value);
        let cases: [(Change, &str); 3] = [
            (|s| s["process"]["args"] = json!(["/no/such/program"]), "no such file"),
            (|s| s["linux"]["sysctl"] = json!({"net.core.no_such_thing": "1"}), "no_such_thing"),
            (|s| s["root"]["path"] = json!("nowhere"), "nowhere"),
        ];
        for (change, cause) in cases {
            let (id, bundle) = asking(host, &pod, None, change);
            let before = identity(&bundle.join("config.json"));
            let output = wrapped.create(&bundle, &id);
            let log = fs::read_to_string(bundle.join("log.json")).unwrap_or_default();
            assert_eq!(output.status.code(), Some(1), "{cause}: {}", stderr(&output));
            assert!(format!("{log}{}", stderr(&output)).contains(cause), "{cause}: {log}{}", stderr(&output));
            assert_eq!((held(&wrapped), wrapped.records().len()), (0, 0), "{cause}");
            assert_eq!(identity(&bundle.join("config.json")), before);
            rustix::mount::unmount(bundle.join("rootfs"), rustix::mount::UnmountFlags::DETACH).unwrap();
        }
        assert_eq!(host.mounts(), mounts);
    });
}

/// A runtime that never ends, to be killed in the middle of a create; it says when it runs.
fn endless(wrapped: &Wrapped) -> PathBuf {
    let (runtime, running) = (wrapped.path("endless"), wrapped.path("running"));
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo runc version 1.3.0 && exit 0\n\
         for word; do case $word in delete) exit 1;; esac; done\necho $$ > {}\nexec sleep 1000\n",
        running.display()
    );
    fs::write(&runtime, text).unwrap();
    fs::set_permissions(&runtime, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    runtime
}

#[test]
fn the_lease_is_there_before_the_runtime_runs_and_a_killed_wrapper_takes_the_runtime_along() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let runtime = endless(&wrapped);
        wrapped.configure(&runtime, "enable_user_namespace_annotation: true", "");
        let pod = host.pod(0);
        let (id, bundle) = asking(host, &pod, None, |_| {});
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let words = [
            "--root",
            &root(&wrapped),
            "create",
            "--bundle",
            &text(&bundle),
            "--pid-file",
            &text(&bundle.join("init.pid")),
            &id,
        ];
        let mut child = ward::Killed(wrapped.command(&words).spawn().unwrap());
        let running = loop {
            match fs::read_to_string(wrapped.path("running")).ok().and_then(|t| t.trim().parse::<u32>().ok())
            {
                Some(pid) => break pid,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        assert_eq!((held(&wrapped), wrapped.records().len()), (1, 1));
        let second = wrapped.create(&bundle, &id);
        assert!(stderr(&second).contains("is there already, or is being made"), "{}", stderr(&second));
        assert_eq!(held(&wrapped), 1, "the second call takes nothing from the first");
        child.0.kill().unwrap();
        assert_eq!(child.0.wait().unwrap().signal(), Some(9));
        let process = PathBuf::from(format!("/proc/{running}/root"));
        while fs::read_link(&process).is_ok() {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!((held(&wrapped), wrapped.records().len()), (1, 1), "a crash leaves both");
        // The runtime knows of no such container and fails; there is nothing left of it all the same.
        let deleted = wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &id]);
        assert_eq!(deleted.status.code(), Some(1));
        assert_eq!((held(&wrapped), wrapped.records().len()), (0, 0));
    });
}

#[test]
fn what_a_crash_left_is_given_back_with_the_next_sandbox_that_ends() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let (lost, survivor) = (host.pod(0), host.pod(0));
        let (lost_id, bundle) = asking(host, &lost, None, |_| {});
        let (other_id, other) = asking(host, &survivor, None, |_| {});
        let (last_id, last) = asking(host, &survivor, None, |_| {});
        for (id, bundle) in [(&lost_id, &bundle), (&other_id, &other), (&last_id, &last)] {
            done(&wrapped.create(bundle, id));
        }
        assert_eq!(held(&wrapped), 3);
        assert_ne!(map(init(&bundle)), map(init(&other)));
        // As if shim and containerd had gone: the runtime is never asked through us.
        let gone = std::process::Command::new(RUNC)
            .args(["--root", &root(&wrapped), "delete", "--force", &lost_id])
            .output()
            .unwrap();
        done(&gone);
        assert_eq!(held(&wrapped), 3);
        done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &last_id]));
        assert_eq!((held(&wrapped), wrapped.records().len()), (1, 1));
        assert_eq!(wrapped.records()[0].container, other_id);
    });
}

#[test]
fn a_delete_that_fails_while_the_pod_runs_keeps_the_lease() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let pod = host.pod(0);
        let (id, bundle) = asking(host, &pod, None, |_| {});
        done(&wrapped.create(&bundle, &id));
        done(&wrapped.call(&["--root", &root(&wrapped), "start", &id]));
        let refused = wrapped.call(&["--root", &root(&wrapped), "delete", &id]);
        assert_eq!(refused.status.code(), Some(1), "{}", stderr(&refused));
        assert_eq!((held(&wrapped), wrapped.records().len()), (1, 1));
    });
}

#[test]
fn a_record_that_nobody_can_read_keeps_no_pod_from_being_deleted() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let pod = host.pod(0);
        let (id, bundle) = asking(host, &pod, None, |_| {});
        done(&wrapped.create(&bundle, &id));
        let file = wrapped.path("run/containers");
        let file = fs::read_dir(file).unwrap().next().unwrap().unwrap().path().join(format!("{id}.json"));
        fs::write(&file, "{\"version\":2}").unwrap();
        let exec = wrapped.call(&["--root", &root(&wrapped), "exec", &id, "true"]);
        assert_eq!(exec.status.code(), Some(1), "what is not known is not handed over");
        done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &id]));
        assert_eq!(held(&wrapped), 0);
        assert!(!file.exists());
    });
}
