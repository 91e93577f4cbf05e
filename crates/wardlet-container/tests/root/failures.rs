//! Starts that fail say why, in one line, and leave nothing. Needs root, busybox and runc.

use crate::support;

use std::time::{Duration, Instant};

use container::{Engine, NamespaceSpec};
use serde_json::{Value, json};
use support::{Box, Users, debians_runc, lines, shell};

fn engines() -> [Engine; 2] {
    [debians_runc(), Engine::Libcontainer]
}

fn failed(one: &mut Box) -> Value {
    let result = one.run(&[]);
    assert_eq!(one.left(), Vec::<String>::new(), "{result}");
    result["failed"].clone()
}

#[test]
fn a_program_that_cannot_be_run_is_a_start_error_in_words_that_users_know() {
    for engine in engines() {
        for (program, words) in [
            ("nope", "exec: \"nope\": executable file not found in $PATH"),
            ("/nope", "exec: \"/nope\": stat /nope: no such file or directory"),
            ("/etc/passwd", "exec: \"/etc/passwd\": permission denied"),
        ] {
            let mut one = Box::new(engine.clone(), Users::Pod, &[program]);
            let failure = failed(&mut one);
            assert_eq!(
                (&failure["what"], &failure["reason"]),
                (&json!(words), &json!("StartError")),
                "{engine:?}"
            );
        }
    }
}

#[test]
fn what_an_engine_refuses_is_told_and_nothing_is_left() {
    for engine in engines() {
        let mut one = Box::new(engine, Users::Pod, &["/bin/true"]);
        one.job.start.namespaces.network = NamespaceSpec::At("/nonexistent/net".into());
        let failure = failed(&mut one);
        let what = failure["what"].as_str().unwrap();
        assert!(what.contains("/nonexistent/net") && !what.contains('\n'), "{what}");
        assert_eq!(failure["reason"], json!("RunContainerError"));
    }
}

/// What goes wrong deep inside of an engine is known there only.
#[test]
fn the_cause_is_told_and_not_only_what_came_of_it() {
    let new = |filesystem: &str, options: &[&str]| {
        container::MountSpec::New(container::NewMount {
            filesystem: filesystem.into(),
            target: "/data".into(),
            options: options.iter().map(|option| (*option).to_owned()).collect(),
        })
    };
    for engine in engines() {
        for (mount, cause) in
            [(new("nosuchfs", &[]), "nosuchfs"), (new("tmpfs", &["size=nonsense"]), "size=nonsense")]
        {
            let mut one = Box::new(engine.clone(), Users::Pod, &["/bin/true"]);
            one.job.start.mounts.push(mount);
            let failure = failed(&mut one);
            let what = failure["what"].as_str().unwrap();
            println!("{what}");
            assert!(what.contains(cause) && !what.contains('\n'), "{engine:?}: {what}");
        }
        let mut one = Box::new(engine.clone(), Users::Pod, &["/bin/true"]);
        one.job.start.sysctls.insert("kernel.shmmax".into(), "nonsense".into());
        let failure = failed(&mut one);
        println!("{failure}");
        assert!(failure["what"].as_str().unwrap().contains("shmmax"), "{engine:?}: {failure}");
    }
}

#[test]
fn a_way_that_the_containers_root_cannot_go_is_named() {
    let mut one = Box::new(Engine::Libcontainer, Users::Pod, &["/bin/true"]);
    let closed = one.path("closed");
    std::fs::create_dir(&closed).unwrap();
    std::fs::set_permissions(&closed, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    one.job.run_dir = closed.join("c");
    let failure = failed(&mut one);
    assert!(failure["what"].as_str().unwrap().ends_with(closed.to_str().unwrap()), "{failure}");
    assert_eq!(failure["hint"], json!("give that directory mode 0711"));
}

#[test]
fn an_engine_that_is_not_there_is_named() {
    let engine = Engine::Oci { path: "/nonexistent/runc".into(), args: vec![] };
    let failure = failed(&mut Box::new(engine, Users::Pod, &["/bin/true"]));
    assert!(failure["what"].as_str().unwrap().contains("/nonexistent/runc"), "{failure}");
}

#[test]
fn a_container_without_a_control_group_of_its_own_is_refused() {
    for path in ["", "/", "..", "/a/../.."] {
        let mut one = Box::new(Engine::Libcontainer, Users::Pod, &["/bin/true"]);
        let given = std::mem::replace(&mut one.job.start.cgroup.path, path.to_owned());
        let result = one.run(&[]);
        assert!(result["failed"]["what"].is_string(), "{path:?}: {result}");
        one.job.start.cgroup.path = given;
        one.write_job();
    }
}

#[test]
fn a_container_that_runs_is_not_deleted_and_not_started_again() {
    let mut one = Box::new(Engine::Libcontainer, Users::Pod, &["/bin/sleep", "1000"]);
    one.started();
    assert_eq!(one.delete().status.code(), Some(2));
    let (mut command, _result) = one.run_command(&[]);
    assert_eq!(command.status().unwrap().code(), Some(1));
    assert_eq!(one.shell("echo still"), "still\n");
    one.delete_and_look();
}

#[test]
fn files_written_through_a_volume_have_the_containers_numbers() {
    for engine in engines() {
        let mut one = Box::new(engine, Users::Pod, &["/bin/sh", "-c", "touch /data/new"]);
        let volume = one.path("volume");
        std::fs::create_dir(&volume).unwrap();
        one.job.start.mounts.push(support::bind(&volume, Some(lines())));
        one.started();
        assert_eq!(one.wait(), (Some(0), None));
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(volume.join("new")).unwrap());
        assert_eq!(owner, 0);
        one.delete_and_look();
    }
}

/// Printed only.
#[test]
fn how_long_it_takes() {
    for engine in engines() {
        let mut one = Box::new(engine.clone(), Users::Pod, &["/bin/sleep", "1000"]);
        let began = Instant::now();
        one.started();
        let run = began.elapsed();
        let mut times: Vec<Duration> = (0..20)
            .map(|_| {
                let began = Instant::now();
                one.exec(shell("true")).output();
                began.elapsed()
            })
            .collect();
        times.sort();
        println!("{engine:?}: run {run:?}, exec (median of 20) {:?}", times[10]);
        one.delete_and_look();
    }
}

/// The monitor was killed meanwhile: nobody would ever know of the container.
#[test]
fn a_container_that_nobody_can_be_told_of_does_not_stay() {
    for engine in engines() {
        let one = Box::new(engine, Users::Pod, &["/bin/sleep", "1000"]);
        let (mut command, result) = one.run_command(&[]);
        drop(result);
        let done = command.stderr(std::process::Stdio::piped()).output().unwrap();
        assert!(!done.status.success());
        let words = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(words.contains("cannot tell the result"), "{words}");
        assert_eq!(one.left(), Vec::<String>::new());
    }
}
