//! A monitor is killed; the next one goes on with its containers.

use crate::support;

use monitor::{Client, Ending, Exit, Reply, Request, Started, StartedReply, record};
use support::*;

fn adopt(pod: &Pod, client: &mut Client, container: &str) -> Reply {
    let request = Request::Adopt {
        container: container.to_owned(),
        dir: pod.container_dir(container),
        log: Some(pod.log(container)),
    };
    client.call(&request, &[]).unwrap()
}

#[test]
fn a_container_that_goes_on_is_watched_and_its_end_is_lost() {
    let pod = Pod::new();
    let pid = pod.start(&mut pod.spawn(), "one", "sleep 1000");
    pod.kill_monitor();
    let mut client = pod.spawn();
    let started = Reply::Started(StartedReply { container: "one".to_owned(), pid });
    assert_eq!(adopt(&pod, &mut client, "one"), started);
    assert_eq!(adopt(&pod, &mut client, "one"), started, "asked again");
    assert_eq!(list(&mut client)[0].pid, Some(pid));
    done(&mut client, &Request::Reopen { container: "one".to_owned() });
    done(&mut client, &Request::Signal { container: "one".to_owned(), signal: 9 });
    let exit = next_exit(&mut client).exit;
    assert_eq!((exit.ending, exit.code()), (Ending::Lost, 255));
    assert_eq!(pod.exit("one"), Some(exit));
    let text = std::fs::read_to_string(pod.container_dir("one").join("exit.json")).unwrap();
    assert!(text.contains(r#""lost":true"#) && !text.contains("code"), "{text}");
}

#[test]
fn an_end_that_the_first_monitor_saw_is_not_lost() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    pod.start(&mut client, "one", "exit 42");
    let exit = next_exit(&mut client).exit;
    pod.kill_monitor();
    let mut client = pod.spawn();
    assert_eq!(adopt(&pod, &mut client, "one"), Reply::Done);
    assert_eq!(list(&mut client)[0].exit, Some(exit));
}

#[test]
fn a_container_that_ended_meanwhile_is_lost_and_told() {
    let pod = Pod::new();
    pod.start(&mut pod.spawn(), "one", "sleep 1000");
    pod.kill_monitor();
    kill(Started::read(&pod.container_dir("one")).unwrap().unwrap().process());
    let mut client = pod.spawn();
    adopt(&pod, &mut client, "one");
    assert_eq!(next_exit(&mut client).exit.ending, Ending::Lost);
    assert_eq!(pod.exit("one").unwrap().ending, Ending::Lost);
}

/// The number lives, the process that had it does not.
#[test]
fn a_process_with_the_same_number_or_of_another_boot_is_not_taken_for_it() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let own = monitor::ProcessId::of(std::process::id()).unwrap();
    let boot_id = record::boot_id().unwrap();
    for (name, start_time, boot_id) in
        [("later", own.start_time - 1, boot_id), ("rebooted", own.start_time, "another".to_owned())]
    {
        let dir = pod.container(name, "");
        let started = Started { version: 1, pid: own.pid, start_time, boot_id, started_at: 1, user: None };
        std::fs::write(dir.join("started.json"), serde_json::to_vec(&started).unwrap()).unwrap();
        adopt(&pod, &mut client, name);
        let exited = next_exit(&mut client);
        assert_eq!((exited.container.as_str(), exited.exit.ending), (name, Ending::Lost));
    }
    // So that nobody ends this test for a container.
    for name in ["later", "rebooted"] {
        std::fs::remove_file(pod.container_dir(name).join("started.json")).unwrap();
    }
}

#[test]
fn what_was_never_started_or_cannot_be_read_is_refused() {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let dir = pod.container("one", "");
    let refused = |reply| match reply {
        Reply::Refused { what } => what,
        other => panic!("{other:?}"),
    };
    assert_eq!(refused(adopt(&pod, &mut client, "one")), "container one was never started");
    for broken in ["", "{", "[]", "{\"pid\":1}", "\u{0}"] {
        std::fs::write(dir.join("started.json"), broken).unwrap();
        assert!(refused(adopt(&pod, &mut client, "one")).contains("started.json cannot be read"));
    }
    std::fs::write(dir.join("exit.json"), "{}").unwrap();
    assert!(refused(adopt(&pod, &mut client, "one")).contains("exit.json cannot be read"));
    assert!(Exit::read(&dir).is_err());
    assert_eq!(list(&mut client), []);
    std::fs::remove_file(dir.join("started.json")).unwrap();
}

/// A monitor that was killed leaves its socket; nobody is behind it.
#[test]
fn a_socket_without_a_monitor_is_taken_over() {
    let pod = Pod::new();
    drop(pod.spawn());
    pod.kill_monitor();
    assert!(socket(pod.dir()).exists());
    assert!(Client::connect(pod.dir()).is_err());
    assert_eq!(list(&mut pod.spawn()), []);
}
