//! A pod has its log directory, or the one above it, as a volume that it can write to. It puts a link to a directory of the
//! host in its place and lets its container end: root made the next log there, with the pod's text in it, and renamed
//! and removed files there when the log was rotated.

use crate::support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use monitor::{LogLimits, Reply, Request};
use support::*;

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A container does not start with a log behind a link, whether the link is in the place of its own log directory or of
/// the pod's.
#[test]
fn no_log_is_made_through_a_link() {
    for is_of_pod in [false, true] {
        let pod = Pod::new();
        let mut client = pod.spawn();
        let victim = pod.path("victim");
        fs::create_dir_all(victim.join("one")).unwrap();
        let target = if is_of_pod { victim.clone() } else { victim.join("one") };
        let log = pod.log("one");
        let container = log.parent().unwrap();
        let place = if is_of_pod { container.parent().unwrap() } else { container };
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        symlink(target, place).unwrap();
        pod.container("one", "echo text of the pod");
        let reply = client.call(&Request::Start(pod.request("one")), &[]).unwrap();
        assert!(matches!(reply, Reply::Failed(_)), "{reply:?}");
        assert!(names(&victim.join("one")).is_empty());
    }
}

/// The link comes while the container runs, and the log is rotated.
#[test]
fn no_log_is_rotated_through_a_link() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let (victim, old) = (pod.path("victim"), pod.path("old"));
    fs::create_dir(&victim).unwrap();
    ["0.log", "0.log.1"].iter().for_each(|name| fs::write(victim.join(name), "of the host").unwrap());
    let log = pod.log("one");
    let dir = log.parent().unwrap();
    let script =
        format!("mv {dir:?} {old:?}; ln -s {victim:?} {dir:?}; for i in 1 2 3 4 5 6 7 8 9; do echo $i; done");
    pod.container("one", &script);
    let limits = Some(LogLimits { max_size: 50, max_files: 1 });
    start(&mut client, monitor::StartRequest { limits, ..pod.request("one") });
    next_exit(&mut client);
    assert_eq!(names(&victim), ["0.log", "0.log.1"]);
    for name in ["0.log", "0.log.1"] {
        assert_eq!(fs::read_to_string(victim.join(name)).unwrap(), "of the host", "{name}");
    }
    // The container goes on, and its log with it.
    assert!(fs::read_to_string(old.join("0.log")).unwrap().ends_with(" 9\n"));
}
