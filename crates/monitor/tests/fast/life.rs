//! A container from its start to its end, through the program and its socket.

use crate::support;

use std::os::unix::fs::PermissionsExt;

use monitor::{Ending, Exit, MonitorRecord, Reply, Request, Started, record};
use support::*;

fn code(exit: &Exit) -> i32 {
    match exit.ending {
        Ending::Code(code) => code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_container_is_started_logged_and_its_end_is_told_and_kept() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let pid = pod.start(&mut client, "one", "echo out; echo err >&2; printf rest; sleep 0.1; exit 7");
    let started = Started::read(&pod.container_dir("one")).unwrap().unwrap();
    assert_eq!((started.pid, started.boot_id), (pid, record::boot_id().unwrap()));
    assert!(started.start_time > 0 && started.started_at > 1_600_000_000_000_000_000);
    assert_eq!(started.user, Some(monitor::User::default()));
    let exited = next_exit(&mut client);
    assert_eq!((exited.container.as_str(), code(&exited.exit)), ("one", 7));
    assert!(!exited.exit.oom && exited.exit.finished_at >= started.started_at);
    assert_eq!(pod.exit("one"), Some(exited.exit));
    let mut lines = pod.lines("one");
    lines.sort();
    assert_eq!(lines, ["stderr F err", "stdout F out", "stdout P rest"]);
    let text = std::fs::read_to_string(pod.log("one")).unwrap();
    let moment = text.split(' ').next().unwrap();
    assert!(moment.ends_with('Z') && moment.starts_with("20"), "{moment}");
    assert_eq!(pod.log("one").metadata().unwrap().permissions().mode() & 0o777, 0o640);
}

#[test]
fn everybody_who_is_connected_is_told() {
    let pod = Pod::new();
    let mut clients = [pod.spawn(), pod.connect(), pod.connect()];
    pod.start(&mut clients[0], "one", "exit 3");
    for client in &mut clients {
        assert_eq!(code(&next_exit(client).exit), 3);
    }
    assert_eq!(list(&mut pod.connect())[0].exit.as_ref().map(code), Some(3));
}

#[test]
fn a_container_that_ends_at_once_is_not_taken_for_an_orphan() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    for round in 0..20 {
        let name = format!("quick{round}");
        pod.start(&mut client, &name, &format!("exit {round}"));
        let exited = next_exit(&mut client);
        assert_eq!((exited.container, code(&exited.exit)), (name, round));
    }
}

#[test]
fn a_signal_ends_it_and_is_told_as_such() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.start(&mut client, "one", "sleep 1000");
    done(&mut client, &Request::Signal { container: "one".to_owned(), signal: 15 });
    assert_eq!(next_exit(&mut client).exit.ending, Ending::Signal(15));
    let signal = |signal| Request::Signal { container: "one".to_owned(), signal };
    assert_eq!(refused(&mut client, &signal(9)), "container one has ended");
    pod.start(&mut client, "two", "sleep 1000");
    for number in [0, -1, 1000] {
        let what = refused(&mut client, &Request::Signal { container: "two".to_owned(), signal: number });
        assert!(what.starts_with("cannot signal container two: "), "{what}");
    }
    // Images name real-time signals, too: systemd ends with SIGRTMIN+3.
    done(&mut client, &Request::Signal { container: "two".to_owned(), signal: 37 });
    assert_eq!(next_exit(&mut client).exit.ending, Ending::Signal(37));
}

#[test]
fn a_start_that_fails_is_told_with_the_helpers_words() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let failing = |client: &mut _, name: &str, file: &str, text: &str| {
        std::fs::write(pod.container(name, "").join(file), text).unwrap();
        match monitor::Client::call(client, &Request::Start(pod.request(name)), &[]).unwrap() {
            Reply::Failed(failed) => (failed.what, failed.hint, failed.reason),
            other => panic!("{other:?}"),
        }
    };
    let line = r#"{"failed":{"what":"no such program","hint":"install it","reason":"StartError"}}"#;
    let told = failing(&mut client, "one", "fail", line);
    assert_eq!(told, ("no such program".to_owned(), Some("install it".to_owned()), "StartError".to_owned()));
    assert_eq!(pod.lines("one"), ["stderr F the helper's last words"]);
    let told = failing(&mut client, "two", "silent", "");
    assert_eq!(told.0, "the helper ended with code 3 and gave no result");
    assert_eq!(told.2, "RunContainerError");
    let told = failing(&mut client, "three", "fail", "{\"started\":{\"pid\":\"x\"}}");
    assert!(told.0.starts_with("cannot parse the helper's result"), "{}", told.0);
    // Whatever it names would be signalled, and written down as the container's.
    let foreign = format!(r#"{{"started":{{"pid":{}}}}}"#, std::process::id());
    let told = failing(&mut client, "four", "fail", &foreign);
    assert!(told.0.ends_with("which it has not started"), "{}", told.0);
    assert_eq!(list(&mut client), []);
    for name in ["one", "two", "three", "four"] {
        let left: Vec<_> =
            std::fs::read_dir(pod.container_dir(name)).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 3, "records or space for them are left: {left:?}");
    }
}

#[test]
fn a_container_without_a_job_or_with_a_log_that_cannot_be_is_refused() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let dir = pod.container("one", "exit 0");
    std::fs::write(pod.path("file"), "").unwrap();
    let log = Some(pod.path("file/0.log"));
    let request = monitor::StartRequest { log, ..pod.request("one") };
    let Reply::Failed(failed) = client.call(&Request::Start(request), &[]).unwrap() else { panic!() };
    assert!(failed.what.starts_with("cannot open log"), "{}", failed.what);
    std::fs::remove_file(dir.join("job.json")).unwrap();
    let Reply::Failed(failed) = client.call(&Request::Start(pod.request("one")), &[]).unwrap() else {
        panic!()
    };
    assert!(failed.what.contains("job.json cannot be read: there is none"), "{}", failed.what);
}

#[test]
fn names_are_held_to_what_a_name_is() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    for name in ["", "../x", "a/b", "a b", &"x".repeat(65)] {
        let request = monitor::StartRequest { container: name.to_owned(), ..pod.request("one") };
        let what = refused(&mut client, &Request::Start(request));
        assert!(what.ends_with("is not a valid container name"), "{what}");
    }
    pod.start(&mut client, "one", "sleep 1000");
    assert_eq!(refused(&mut client, &Request::Start(pod.request("one"))), "container one is there already");
}

#[test]
fn a_helper_that_hangs_stops_nobody_else() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    std::fs::write(pod.container("stuck", "").join("hang"), "").unwrap();
    let mut other = pod.connect().with_patience(std::time::Duration::from_millis(200));
    assert!(other.call(&Request::Start(pod.request("stuck")), &[]).is_err());
    pod.start(&mut client, "one", "exit 5");
    assert_eq!(code(&next_exit(&mut client).exit), 5);
    let signal = |signal| Request::Signal { container: "stuck".to_owned(), signal };
    assert_eq!(refused(&mut client, &signal(15)), "container stuck is being started");
    done(&mut client, &signal(9));
    wait_until("the failed start is left out", || list(&mut pod.connect()).len() == 1);
}

#[test]
fn orphans_are_buried_and_cannot_hold_an_end_back() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    // It keeps the output open for ever.
    pod.start(&mut client, "one", "sleep 1000 & echo $! > orphan; echo last; exit 4");
    assert_eq!(code(&next_exit(&mut client).exit), 4);
    assert_eq!(pod.lines("one"), ["stdout F last"]);
    let orphan = std::fs::read_to_string(pod.container_dir("one").join("orphan")).unwrap();
    let orphan = monitor::ProcessId::of(orphan.trim().parse().unwrap()).unwrap();
    kill(orphan);
    wait_until("the orphan is buried", || state(orphan).is_none());
}

#[test]
fn an_ended_container_is_listed_until_it_is_forgotten() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let pid = pod.start(&mut client, "one", "sleep 1000");
    let forget = Request::Forget { container: "one".to_owned() };
    assert_eq!(list(&mut client)[0].pid, Some(pid));
    pod.start(&mut client, "two", "sleep 1000");
    let two = Request::Forget { container: "two".to_owned() };
    assert_eq!(refused(&mut client, &two), "container two lives");
    done(&mut client, &Request::Signal { container: "one".to_owned(), signal: 9 });
    next_exit(&mut client);
    assert_eq!(list(&mut client).len(), 2);
    done(&mut client, &forget);
    done(&mut client, &forget);
    let Reply::Failed(failed) = client.call(&Request::Start(pod.request("one")), &[]).unwrap() else {
        panic!()
    };
    assert_eq!(failed.what, "container one was started before");
    let listed = list(&mut client);
    assert_eq!((listed.len(), listed[0].container.as_str(), listed[0].running), (1, "two", true));
}

#[test]
fn it_ends_when_asked_to_and_no_container_lives() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.start(&mut client, "one", "sleep 1000");
    assert_eq!(refused(&mut client, &Request::End), "container one lives");
    done(&mut client, &Request::Signal { container: "one".to_owned(), signal: 9 });
    next_exit(&mut client);
    let monitor = pod.monitor();
    done(&mut client, &Request::End);
    wait_until("the monitor is gone", || state(monitor).is_none());
    assert!(!socket(pod.dir()).exists());
    assert!(MonitorRecord::read(pod.dir()).unwrap().is_none());
}

/// A machine that shuts down sends SIGTERM to all.
#[test]
fn sigterm_waits_for_the_containers() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.start(&mut client, "one", "sleep 1000");
    let monitor = pod.monitor();
    let pid = rustix::process::Pid::from_raw(monitor.pid.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert_eq!(list(&mut client).len(), 1);
    done(&mut client, &Request::Signal { container: "one".to_owned(), signal: 9 });
    assert_eq!(next_exit(&mut client).exit.ending, Ending::Signal(9));
    wait_until("the monitor is gone", || state(monitor).is_none());
}
