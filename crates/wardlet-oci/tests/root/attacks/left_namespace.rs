//! A pod whose first process goes to a user namespace of its own making.
//!
//! It had other maps than the pod from then on, and so its pod counted as gone while it ran: the next sweep released its
//! lease, and a container of the pod that did not itself ask ran with the host's users.

use std::fs;
use std::path::Path;

use serde_json::json;
use testkit::wait_until;

use crate::asking::{Emptied, RUNC, asking, done, held, init, root};
use crate::isolation::{Host, debians};
use crate::wrapped::{Wrapped, stderr};

#[test]
fn a_pod_whose_first_process_leaves_its_user_namespace_keeps_its_lease() {
    // With maps of its own below the pod's, and with none.
    for flags in [&["-U", "-r"][..], &["-U"][..]] {
        Host::play(debians(), |host| {
            let wrapped = Wrapped::before(Path::new(RUNC));
            let _emptied = Emptied(&wrapped);
            let mut pod = host.pod(0);
            let (id, bundle) = asking(host, &pod, None, |spec| {
                let words =
                    [&["/bin/busybox", "unshare"], flags, &["/bin/busybox", "sleep", "1000"]].concat();
                spec["process"]["args"] = json!(words);
                // Without this it cannot map root, and containerd gives it to every container.
                for set in ["bounding", "effective", "permitted"] {
                    spec["process"]["capabilities"][set].as_array_mut().unwrap().push(json!("CAP_SETFCAP"));
                }
            });
            done(&wrapped.create(&bundle, &id));
            let map = || fs::read_to_string(format!("/proc/{}/uid_map", init(&bundle))).unwrap();
            let before = map();
            done(&wrapped.call(&["--root", &root(&wrapped), "start", &id]));
            let name = || fs::read_to_string(format!("/proc/{}/cmdline", init(&bundle))).unwrap();
            wait_until("the pod's first process has left", || {
                map() != before && name() == "/bin/busybox\0sleep\x001000\0"
            });
            pod.init = Some(init(&bundle));

            // The delete of another pod sweeps.
            let (other, others) = asking(host, &host.pod(0), None, |_| {});
            done(&wrapped.create(&others, &other));
            done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &other]));
            assert_eq!((held(&wrapped), wrapped.records().len()), (1, 1), "{flags:?}: the pod runs");

            let (container, inner) = asking(host, &pod, Some(&id), |spec| {
                spec["annotations"]["wardlet.dev/user-namespace"] = json!("false");
                spec["annotations"]["io.kubernetes.cri.sandbox-id"] = json!("no-such-sandbox");
            });
            let output = wrapped.create(&inner, &container);
            assert_eq!(output.status.code(), Some(1), "{flags:?}: it has the host's users");
            assert!(stderr(&output).contains(&id), "{}", stderr(&output));
            let exec = wrapped.call(&["--root", &root(&wrapped), "exec", &id, "id"]);
            assert!(stderr(&exec).contains("has left the pod's user namespace"), "{}", stderr(&exec));

            done(&wrapped.call(&["--root", &root(&wrapped), "delete", "--force", &id]));
            assert_eq!((held(&wrapped), wrapped.records().len()), (0, 0));
        });
    }
}
