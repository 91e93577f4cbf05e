//! What differs from one runtime to the next, and from one version to the next. Needs root, Debian's runc and crun, and the
//! testbed's newer runc.

use crate::asking;
use crate::isolation;
use crate::wrapped;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};

use asking::{Emptied, RUNC, asking, done, given_back, init, root};
use isolation::{Host, Killed, debians};
use serde_json::json;
use wrapped::{Wrapped, stderr};

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// runc before 1.2 is told nothing of the pod's network, and what it has written down is read by its successor.
#[test]
fn one_more_process_is_on_the_pods_network_also_after_an_upgrade_of_runc() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let (id, bundle) = asking(host, &host.pod(0), None, |_| {});
        done(&wrapped.create(&bundle, &id));
        done(&wrapped.call(&["--root", &root(&wrapped), "start", &id]));
        let network = ["--root", &root(&wrapped), "exec", &id, "readlink", "/proc/self/ns/net"];
        let own = fs::read_link(format!("/proc/{}/ns/net", init(&bundle))).unwrap();

        let newer = testbed::cache::program("runc", "runc").unwrap();
        wrapped.configure(&newer, "enable_user_namespace_annotation: true", "");
        let inside = wrapped.call(&network);
        done(&inside);
        assert_eq!(Path::new(&stdout(&inside)), own);

        let other = wrapped.path("other.yaml");
        let (runtime, elsewhere) = (newer.display(), wrapped.path("elsewhere"));
        let text = format!("wrapper: {{runtime: {runtime}, runDir: {}}}\n", elsewhere.display());
        fs::write(&other, text).unwrap();
        let refused = wrapped.command(&network).env("WARDLET_CONFIG", &other).output().unwrap();
        assert_eq!(refused.status.code(), Some(1), "{}", stdout(&refused));
        assert!(stderr(&refused).contains("there is no record of it in"), "{}", stderr(&refused));
    });
}

/// crun ends a container that it has stayed with when it has no child left.
#[test]
fn a_runtime_that_stays_with_its_container_ends_with_it() {
    Host::play(debians(), |host| {
        for runtime in ["crun", RUNC] {
            let wrapped = Wrapped::before(Path::new(runtime));
            if runtime == "crun" {
                let program = wrapped.path(runtime);
                fs::write(&program, include_str!("../support/crun.sh")).unwrap();
                fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
                wrapped.configure(&program, "enable_user_namespace_annotation: true", "");
            }
            let (id, bundle) = asking(host, &host.pod(0), None, |spec| {
                spec["process"]["args"] = json!(["sh", "-c", "exit 7"]);
            });
            let (root, bundle) = (root(&wrapped), bundle.to_str().unwrap().to_owned());
            let words = ["--root", &root, "run", "--bundle", &bundle, &id];
            let mut child = Killed(wrapped.command(&words).spawn().unwrap());
            let deadline = Instant::now() + Duration::from_secs(60);
            let status = loop {
                if let Some(status) = child.0.try_wait().unwrap() {
                    break status;
                }
                assert!(Instant::now() < deadline, "{runtime} does not end");
                std::thread::sleep(Duration::from_millis(20));
            };
            let mut said = String::new();
            child.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
            assert_eq!(status.code(), Some(7), "{runtime}: {said}");
            given_back(&wrapped);
        }
    });
}
