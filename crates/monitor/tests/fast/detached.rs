//! The monitor and whoever started it.

use crate::support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use monitor::{Client, Error, ProcessId, Request};
use support::*;

fn stat_field(pid: u32, number: usize) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().split(' ').nth(number - 3).unwrap().parse().unwrap()
}

#[test]
fn it_is_nobodys_child_in_a_session_of_its_own_with_nothing_inherited() {
    let pod = Pod::new();
    // The connection stays, and an answer has come: nothing is opened or closed while the descriptors are read. A
    // connection that was closed at once was accepted and closed meanwhile, and its descriptor was gone before it was read.
    let mut client = pod.spawn();
    assert_eq!(list(&mut client), []);
    let pid = pod.monitor().pid;
    assert_ne!(stat_field(pid, 4), std::process::id(), "it is our child");
    assert_eq!((stat_field(pid, 6), stat_field(pid, 7)), (pid, 0), "its session, its terminal");
    let link = |fd: u32| std::fs::read_link(format!("/proc/{pid}/fd/{fd}")).unwrap();
    assert_eq!(link(0), Path::new("/dev/null"));
    // Its standard output is the pipe of its result until it has reported.
    wait_until("its standard output is /dev/null", || link(1) == Path::new("/dev/null"));
    assert_eq!(link(2), pod.dir().join("monitor.log"));
    assert_eq!(std::fs::read_link(format!("/proc/{pid}/cwd")).unwrap().to_str(), Some("/"));
    for entry in std::fs::read_dir(format!("/proc/{pid}/fdinfo")).unwrap() {
        let entry = entry.unwrap();
        let number: u32 = entry.file_name().to_str().unwrap().parse().unwrap();
        let info = std::fs::read_to_string(entry.path()).unwrap();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:")).unwrap().trim();
        let inherited = u32::from_str_radix(flags, 8).unwrap() & 0o2_000_000 == 0;
        assert_eq!(inherited, number < 3, "descriptor {number} {:?}", link(number));
    }
}

/// The shell leaves descriptors open for whatever it starts, the number of the result pipe among them.
#[test]
fn what_its_starter_left_open_reaches_neither_it_nor_a_container() {
    let pod = Pod::new();
    let (program, fake) = (monitor_program(), fake_container());
    let script = format!(
        "exec 3</dev/zero 4</dev/zero 9</dev/zero; {program:?} {:?} --container-program {fake:?}",
        pod.dir()
    );
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let mut client = pod.connect();
    pod.start(&mut client, "one", "ls -l /proc/self/fd | grep -c zero; sleep 1000");
    wait_until("the container has looked", || pod.log("one").exists() && pod.lines("one").len() == 1);
    assert_eq!(pod.lines("one"), ["stdout F 0"]);
    let links = std::fs::read_dir(format!("/proc/{}/fd", pod.monitor().pid)).unwrap();
    // A descriptor that is closed meanwhile was not left open.
    let links: Vec<_> = links.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok()).collect();
    assert!(links.contains(&"/dev/null".into()), "{links:?}");
    assert!(!links.contains(&"/dev/zero".into()), "{links:?}");
}

/// The starter is killed together with its whole group and session, as a service is.
#[test]
fn it_outlives_whoever_started_it() {
    let pod = Pod::new();
    let (program, fake) = (monitor_program(), fake_container());
    let script = format!("{program:?} {:?} --container-program {fake:?} && kill -9 0", pod.dir());
    let status = Command::new("setsid").args(["-w", "sh", "-c", &script]).status().unwrap();
    assert!(!status.success());
    let mut client = pod.connect();
    pod.start(&mut client, "one", "exit 9");
    assert_eq!(next_exit(&mut client).exit.code(), 9);
}

#[test]
fn a_directory_has_one_monitor() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let Err(error @ Error::NotReady { .. }) = pod.launch.spawn() else { panic!() };
    assert!(error.to_string().ends_with("has a monitor already"), "{error}");
    assert_eq!(list(&mut client), []);
}

#[test]
fn a_directory_that_others_can_enter_is_refused() {
    let pod = Pod::new();
    std::fs::set_permissions(pod.dir(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let error = pod.launch.spawn().unwrap_err().to_string();
    assert!(error.ends_with("must be this user's own and closed to others (0700)"), "{error}");
    assert!(!socket(pod.dir()).exists());
}

#[test]
fn what_cannot_be_started_says_why() {
    let mut pod = Pod::new();
    let error = Client::connect(pod.dir()).unwrap_err();
    assert!(matches!(error, Error::NoMonitor { .. }), "{error}");
    pod.launch.dir = pod.path("missing");
    let error = pod.launch.spawn().unwrap_err();
    assert!(error.to_string().contains("cannot find"), "{error}");
    pod.launch.program = pod.path("missing");
    let error = pod.launch.spawn().unwrap_err();
    assert!(matches!(error, Error::Program { .. }) && error.hint().is_some(), "{error}");
}

#[test]
fn only_its_user_can_connect() {
    let pod = Pod::new();
    drop(pod.spawn());
    let mode = socket(pod.dir()).metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn its_record_says_who_it_is() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let monitor = pod.monitor();
    assert_eq!(ProcessId::of(monitor.pid).unwrap(), monitor);
    let command = std::fs::read_to_string(format!("/proc/{}/comm", monitor.pid)).unwrap();
    assert_eq!(command.trim(), "wardlet-monitor");
    pod.kill_monitor();
    assert!(matches!(client.call(&Request::List, &[]), Err(Error::Gone { .. })));
}
