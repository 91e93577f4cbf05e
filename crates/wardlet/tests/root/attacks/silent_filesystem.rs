//! A pod mounts a FUSE filesystem whose server stops to answer, and an overlay on it. The overlay looks like any other, so
//! that `verify` asked it for the owners of its files, and waited for ever: no pod of the node could be checked any more.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::mount::{MountFlags, mount};
use testkit::fuse::Fuse;

use crate::test_pods::{Site, TestPod, Wanted};

/// Far from the blocks of all other tests.
const FIRST: u64 = 4_000_317_440;

#[test]
fn a_filesystem_that_does_not_answer_keeps_verify_from_nothing_but_its_own_pod() {
    let site = Site::new(FIRST, 16);
    let good = TestPod::start(&Wanted::new("good", site.lease("good")));
    let silent = TestPod::start(&Wanted::new("silent", site.lease("silent")));
    let fuse = Fuse::open();
    let process = kernel::Process::open(silent.pid()).unwrap();
    let served = kernel::in_mount_namespace_of(&process, move |_| {
        for dir in ["/f", "/lower", "/overlay"] {
            fs::create_dir(dir).unwrap();
        }
        fuse.mount(Path::new("/f"), ",allow_other");
        let served = fuse.serve();
        let layers = c"lowerdir=/f:/lower";
        mount("overlay", "/overlay", "overlay", MountFlags::empty(), Some(layers)).unwrap();
        served
    })
    .unwrap();
    served.stop_answering();

    for (uid, wanted, verdict) in [("good", Some(0), "isolated"), ("silent", Some(2), "unseen")] {
        let since = Instant::now();
        let (code, report) = site.json(&format!("verify {uid}"));
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", since.elapsed());
        assert_eq!((code, &report["pods"][0]["verdict"]), (wanted, &verdict.into()), "{report:#}");
    }
    drop(served);
    drop((good, silent));
}
