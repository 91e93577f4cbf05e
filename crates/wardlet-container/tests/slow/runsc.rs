//! Commands in a container that has another kernel: gVisor's. Needs root and the testbed's runsc.

use crate::support;

use std::fs::File;
use std::io::{Read, Write};

use container::Engine;
use rustix::net::{SendFlags, send};
use serde_json::json;
use support::{Box, Users, shell, wait_until};

fn gvisor() -> Engine {
    let path = testbed::cache::program("runsc", "runsc").unwrap();
    let args = ["--network=none", "--overlay2=none"].map(str::to_owned).to_vec();
    Engine::Oci { path, args }
}

fn running() -> Box {
    let mut one = Box::new(gvisor(), Users::Host, &["/bin/sleep", "1000"]);
    one.started();
    one
}

/// What it sees is what only gVisor shows.
#[test]
fn a_command_runs_where_the_container_is_and_not_on_the_host() {
    let mut one = running();
    let text = one.shell("cat /proc/version; ls /proc | grep -c '^[0-9]'");
    assert!(text.contains("gvisor"), "{text}");
    assert!(!text.contains(&std::fs::read_to_string("/proc/version").unwrap()), "{text}");
    let (text, end) = one.exec(shell("echo out; echo err >&2; exit 5")).output();
    assert_eq!((text.as_str(), end), ("out\nerr\n", json!({ "exited": { "code": 5 } })));
    let failed = one.exec(json!({ "args": ["/bin/no-such-program"], "tty": false })).next().0;
    assert!(failed["failed"]["what"].is_string(), "{failed}");
    one.delete_and_look();
}

#[test]
fn a_command_with_a_terminal_has_one() {
    let mut one = running();
    let exec = one.exec(
        json!({ "args": ["/bin/sh", "-c", "[ -t 0 ] && echo terminal; read x; echo got $x"], "tty": true }),
    );
    let (message, mut descriptors) = exec.next_with_all();
    assert_eq!(message["started"]["byEngine"], json!(true), "{message}");
    let mut master = File::from(descriptors.pop().unwrap());
    master.write_all(b"word\n").unwrap();
    let (mut text, mut part) = (Vec::new(), [0; 1024]);
    // A terminal whose other side is closed ends with an error.
    while let Ok(read @ 1..) = master.read(&mut part) {
        text.extend_from_slice(&part[..read]);
    }
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("terminal\r\n") && text.contains("got word"), "{text:?}");
    assert_eq!(exec.next_with_all().0, json!({ "exited": { "code": 0 } }));
    one.delete_and_look();
}

/// The engine's own program is not the process: to kill that alone leaves it running.
#[test]
fn a_command_that_nobody_wants_any_more_is_killed_in_the_container() {
    let mut one = running();
    let sleeps = |one: &Box| {
        let text = one.shell("grep -l '[7]77' /proc/[0-9]*/cmdline 2>/dev/null | wc -l");
        text.trim().parse::<u32>().unwrap()
    };
    for goes in [false, true] {
        let exec = one.exec(json!({ "args": ["/bin/sleep", "777"], "tty": false }));
        assert_eq!(exec.next_with_all().0["started"]["byEngine"], json!(true));
        wait_until("it runs", || sleeps(&one) >= 1);
        if goes {
            drop(exec.socket);
            let mut child = exec.child;
            child.wait().unwrap();
        } else {
            send(&exec.socket, b"{}", SendFlags::empty()).unwrap();
            let end = exec.next_with_all().0;
            assert!(end["exited"].is_object(), "{end}");
        }
        wait_until("it is gone", || sleeps(&one) == 0);
    }
    one.delete_and_look();
}
