//! Labels of a container's processes: given where SELinux is on, refused where it is not. Needs root, busybox
//! and runc.

use crate::support;

use std::fs;
use std::path::Path;

use container::Engine;
use rustix::fs::{XattrFlags, lsetxattr};
use serde_json::json;
use support::{Box, Users, debians_runc, wait_until};

const LABEL: &str = "system_u:system_r:container_t:s0:c1,c2";
const FILES: &str = "system_u:object_r:container_file_t:s0";
const ANOTHERS: &str = "system_u:object_r:container_file_t:s0:c8,c9";
const ENFORCE: &str = "/sys/fs/selinux/enforce";

fn labelled(engine: &Engine, users: Users) -> Box {
    let mut one = Box::new(engine.clone(), users, &["/bin/sleep", "1000"]);
    one.job.start.process.selinux_label = Some(LABEL.to_owned());
    one
}

fn label_all(path: &Path, label: &str) {
    lsetxattr(path, "security.selinux", label.as_bytes(), XattrFlags::empty()).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        fs::read_dir(path).unwrap().for_each(|entry| label_all(&entry.unwrap().path(), label));
    }
}

fn is_refused(mut one: Box, engine: &Engine) {
    let failure = one.run(&[]);
    let what = failure["failed"]["what"].as_str().unwrap_or_else(|| panic!("{failure}"));
    assert!(what.contains("label"), "{engine:?}: {what}");
    assert_eq!(one.left(), Vec::<String>::new());
}

fn is_given(mut one: Box, engine: &Engine) {
    fs::write(one.layer().join("anothers"), "secret").unwrap();
    [one.layer(), one.path("rw/upper")].iter().for_each(|dir| label_all(dir, FILES));
    label_all(&one.layer().join("anothers"), ANOTHERS);
    let init = one.started();
    let label = |pid: u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/attr/current")).unwrap_or_default();
        text.trim_end_matches('\0').to_owned()
    };
    wait_until("the program runs", || label(init) == LABEL);
    let exec = one.exec(json!({ "args": ["sleep", "1000"], "tty": false }));
    let more = exec.started();
    assert_eq!((label(init).as_str(), label(more).as_str()), (LABEL, LABEL), "{engine:?}");
    assert_eq!(one.shell("cat /proc/self/attr/current").trim_end_matches('\0'), LABEL);
    let (text, end) = one.exec(support::shell("cat /anothers")).output();
    if fs::read_to_string(ENFORCE).unwrap() == "1" {
        assert!(text.contains("Permission denied"), "{engine:?}: {text} {end}");
    } else {
        assert_eq!(text, "secret", "{engine:?}: {end}");
    }
    one.delete_and_look();
}

fn is_given_or_refused(engine: &Engine, users: Users) {
    let one = labelled(engine, users);
    if Path::new(ENFORCE).exists() { is_given(one, engine) } else { is_refused(one, engine) }
}

#[test]
fn by_the_built_in_engine_every_process_of_a_pod_has_the_label_or_nothing_starts() {
    is_given_or_refused(&Engine::Libcontainer, Users::Pod);
}

#[test]
fn by_the_built_in_engine_every_process_with_the_hosts_users_has_the_label_or_nothing_starts() {
    is_given_or_refused(&Engine::Libcontainer, Users::Host);
}

#[test]
fn by_runc_every_process_of_a_pod_has_the_label_or_nothing_starts() {
    is_given_or_refused(&debians_runc(), Users::Pod);
}
