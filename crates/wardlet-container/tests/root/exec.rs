//! One more process in a container: its terminal, its user, its end, and what the container cannot do to it.
//! Needs root, busybox and runc.

use crate::support;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use container::{Engine, MountSpec, WantedUser};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, waitpid};
use serde_json::{Value, json};
use support::{Box, Users, debians_runc, shell, wait_until};

fn engines() -> [Engine; 2] {
    [debians_runc(), Engine::Libcontainer]
}

fn running(engine: &Engine, users: Users) -> Box {
    let mut one = Box::new(engine.clone(), users, &["/bin/sleep", "1000"]);
    one.started();
    one
}

#[test]
fn a_terminal_is_the_containers_own_and_controls_the_process() {
    for engine in engines() {
        for users in [Users::Host, Users::Pod] {
            let mut one = running(&engine, users);
            let line = "tty; stty size; stat -c '%u %a' $(tty); echo $TERM; echo to-tty > /dev/tty; read x; echo got $x; exit 3";
            let user = json!({ "name": "ana", "uid": null, "gid": null, "groups": [], "policy": "merge" });
            let mut exec = one.exec(json!({
                "args": ["/bin/sh", "-c", line], "tty": true, "size": [24, 80], "user": user,
            }));
            let (message, master) = exec.next();
            assert!(message.get("started").is_some(), "{message}");
            let mut master = File::from(master.unwrap());
            master.write_all(b"word\n").unwrap();
            let mut text = Vec::new();
            let mut part = [0; 1024];
            // A terminal whose other side is closed ends with an error.
            while let Ok(read @ 1..) = master.read(&mut part) {
                text.extend_from_slice(&part[..read]);
            }
            let text = String::from_utf8(text).unwrap().replace('\r', "");
            let lines: Vec<&str> = text.lines().filter(|line| *line != "word").collect();
            assert_eq!(
                lines,
                ["/dev/pts/0", "24 80", "1000 620", "xterm", "to-tty", "got word"],
                "{engine:?}"
            );
            assert_eq!(exec.next().0, json!({ "exited": { "code": 3 } }));
            assert_eq!(exec.status().code(), Some(3));
            one.delete_and_look();
        }
    }
}

#[test]
fn what_stands_in_place_of_the_terminals_is_not_opened() {
    let mut other = Box::new(Engine::Libcontainer, Users::Pod, &["/bin/sleep", "1000"]);
    let is_devpts = |mount: &MountSpec| matches!(mount, MountSpec::New(new) if new.filesystem == "devpts");
    other.job.start.mounts.retain(|mount| !is_devpts(mount));
    other.started();
    other.shell("mkdir -p /dev/pts; touch /dev/pts/ptmx");
    let exec = other.exec(json!({ "args": ["true"], "tty": true }));
    let message = exec.next().0;
    assert!(message["failed"]["what"].as_str().unwrap().contains("open a terminal"), "{message}");
    other.delete_and_look();
}

#[test]
fn a_user_is_looked_up_in_the_containers_own_files_and_a_link_leads_nowhere_else() {
    for engine in engines() {
        let mut one = Box::new(engine.clone(), Users::Pod, &["/bin/sleep", "1000"]);
        // The first process is somebody else than who is asked for.
        one.job.start.process.user = WantedUser { uid: Some(65), gid: Some(66), ..WantedUser::default() };
        one.started();
        assert_eq!(one.shell("id -u; id -g; id -G"), "65\n66\n66\n");
        let ask = |name: &str| {
            let user = json!({ "name": name, "uid": null, "gid": null, "groups": [9], "policy": "merge" });
            one.exec(json!({ "args": ["/bin/sh", "-c", "id -u; id -g; id -G; echo $HOME"], "tty": false, "user": user })).output()
        };
        assert_eq!(ask("ana").0, "1000\n1001\n1001 9 50\n/home/ana\n");
        let message = ask("nobody-there").1;
        assert!(message["failed"]["what"].as_str().unwrap().contains("nobody-there"), "{message}");
        one.delete_and_look();
    }
}

#[test]
fn ends_are_told_as_they_are() {
    for engine in engines() {
        let mut one = running(&engine, Users::Pod);
        for (line, end, code) in [
            ("exit 0", json!({ "code": 0 }), 0),
            ("exit 42", json!({ "code": 42 }), 42),
            ("kill -KILL $$", json!({ "signal": 9 }), 137),
        ] {
            let mut exec = one.exec(shell(line));
            exec.started();
            assert_eq!(exec.next().0, json!({ "exited": end }));
            assert_eq!(exec.status().code(), Some(code));
        }
        let failed = |args: Value| {
            let mut exec = one.exec(json!({ "args": args, "tty": false }));
            let message = exec.next().0;
            (
                message["failed"]["what"].as_str().unwrap_or_default().to_owned(),
                message["failed"]["reason"].clone(),
                exec.status().code(),
            )
        };
        let start = json!("StartError");
        assert_eq!(
            failed(json!(["nope"])),
            ("exec: \"nope\": executable file not found in $PATH".into(), start.clone(), Some(127))
        );
        assert_eq!(
            failed(json!(["/nope"])),
            ("exec: \"/nope\": stat /nope: no such file or directory".into(), start.clone(), Some(127))
        );
        assert_eq!(
            failed(json!(["/etc/passwd"])),
            ("exec: \"/etc/passwd\": permission denied".into(), start, Some(126))
        );
        let exec = one.exec(json!({ "args": ["pwd"], "tty": false, "cwd": "/nowhere" }));
        assert!(exec.next().0["failed"]["what"].as_str().unwrap().contains("working directory"));
        let (text, _) = one.exec(json!({ "args": ["pwd"], "tty": false, "cwd": "/tmp" })).output();
        assert_eq!(text, "/tmp\n");
        one.delete_and_look();
    }
}

#[test]
fn whoever_kills_the_helper_has_killed_the_process() {
    for engine in engines() {
        let mut one = running(&engine, Users::Pod);
        let user = json!({ "name": "ana", "uid": null, "gid": null, "groups": [], "policy": "merge" });
        let mut exec = one.exec(json!({ "args": ["sleep", "1000"], "tty": false, "user": user }));
        let process = kernel::Process::open(exec.started()).unwrap();
        exec.child.kill().unwrap();
        exec.status();
        wait_until("it is dead", || !process.is_running().unwrap());
        // Its orphan is this process's; the container's first process waits for it to be gone.
        let orphan = Pid::from_raw(process.pid());
        wait_until("it is gone", || !matches!(waitpid(orphan, WaitOptions::NOHANG), Ok(None)));
        one.delete_and_look();
    }
}

#[test]
fn a_container_that_does_not_run_is_told_so() {
    let mut one = running(&Engine::Libcontainer, Users::Pod);
    one.end();
    let message = one.exec(shell("true")).next().0;
    assert!(message["failed"]["what"].as_str().unwrap().ends_with("does not run"), "{message}");
    one.delete_and_look();
}

#[test]
fn a_pipe_can_be_opened_anew_by_the_user_whose_it_is() {
    for engine in engines() {
        for users in [Users::Host, Users::Pod] {
            let mut one = running(&engine, users);
            let user = json!({ "name": "ana", "uid": null, "gid": null, "groups": [], "policy": "merge" });
            let asked = json!({ "args": ["/bin/sh", "-c", "echo text > /proc/self/fd/1"], "tty": false, "user": user });
            assert_eq!(one.exec(asked).output().0, "text\n");
            one.delete_and_look();
        }
    }
}

/// CVE-2019-5736: a program of the container's that is only `/proc/self/exe` makes the helper run our own file
/// inside, where the container's root, here the host's, would open it and wait until it can be written.
#[test]
fn the_hosts_root_in_a_container_cannot_write_to_our_program_nor_look_into_it() {
    for engine in engines() {
        let mut one = running(&engine, Users::Host);
        let before = fs::metadata(support::helper()).unwrap();
        let spy = "i=0; while [ $i -lt 4000 ]; do for p in /proc/[0-9]*; do \
            case $p in /proc/1|/proc/$$|/proc/self) continue;; esac; \
            e=$(readlink $p/exe 2>/dev/null); case $e in *busybox|'') continue;; esac; \
            echo saw $e; busybox grep -q WARDLET_TEST_SECRET $p/environ 2>/dev/null && echo looked; \
            (exec 3>>$p/exe) 2>/dev/null && echo wrote; done; i=$((i+1)); [ -e /tmp/stop ] && break; done; echo done";
        let watcher = one.exec(shell(spy));
        watcher.started();
        let root = format!("/proc/{}/root/tmp", one.init.unwrap());
        fs::write(format!("{root}/evil"), "#!/proc/self/exe\n").unwrap();
        fs::set_permissions(format!("{root}/evil"), fs::Permissions::from_mode(0o755)).unwrap();
        for _ in 0..40 {
            let _ = one.exec(json!({ "args": ["/tmp/evil"], "tty": false })).output();
            // A long way to a program that is not there: nothing but our copy, with the container's powers.
            let path = format!("PATH={}", "/x:".repeat(40_000));
            let _ = one.exec(json!({ "args": ["nope"], "env": [path], "tty": false })).output();
        }
        // While our program itself is what runs inside.
        let (text, _) = one.exec(shell("exec 3>>/proc/self/exe && echo wrote")).output();
        assert!(!text.contains("wrote"), "{text}");
        fs::write(format!("{root}/stop"), "").unwrap();
        let (text, _) = watcher.output();
        assert!(
            text.contains("done") && !text.contains("wrote") && !text.contains("looked"),
            "{engine:?}: {text}"
        );
        let after = fs::metadata(support::helper()).unwrap();
        assert_eq!(
            (before.len(), before.mtime(), before.ctime()),
            (after.len(), after.mtime(), after.ctime())
        );
        one.delete_and_look();
    }
}

/// What the trick above needs, tried from outside: the file that our program runs from, opened for writing.
#[test]
fn our_program_runs_from_a_file_that_cannot_be_written() {
    let one = running(&Engine::Libcontainer, Users::Host);
    let mut exec = one.exec(json!({ "args": ["sleep", "0.1"], "tty": false }));
    exec.started();
    let own = format!("/proc/{}/exe", exec.child.id());
    assert_eq!(fs::metadata(&own).unwrap().ino(), fs::metadata(support::helper()).unwrap().ino());
    let held = rustix::fs::open(&own, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
    let again = format!("/proc/self/fd/{}", held.as_raw_fd());
    exec.status();
    // What runs cannot be written anyway: other tests run it, too.
    let mut answer = Errno::TXTBSY;
    wait_until("nobody runs our program", || {
        let opened = File::options().append(true).open(&again);
        answer = Errno::from_io_error(&opened.unwrap_err()).unwrap();
        answer != Errno::TXTBSY
    });
    assert_eq!(answer, Errno::ROFS);
}

/// The filter that was compiled at the start holds for what comes later, and answers as the profile says.
#[test]
fn a_forbidden_call_is_forbidden_to_one_more_process_too() {
    for engine in engines() {
        let mut one = Box::new(engine, Users::Pod, &["/bin/sleep", "1000"]);
        let profile = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "architectures": ["SCMP_ARCH_X86_64"],
            "syscalls": [{ "names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28 }],
        });
        one.job.start.process.seccomp = container::Seccomp::Profile(profile.into());
        one.started();
        let (text, _) = one.exec(shell("mkdir /tmp/new")).output();
        assert!(text.contains("No space left on device"), "{text}");
        // One that is gone is not taken for none.
        fs::remove_file(one.dir().join("seccomp.bpf")).unwrap();
        let message = one.exec(shell("true")).next().0;
        assert!(message["failed"]["what"].as_str().unwrap().contains("seccomp.bpf"), "{message}");
        one.delete_and_look();
    }
}
