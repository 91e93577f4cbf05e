//! The census on the real kernel. Needs root in the initial namespaces.
//!
//! Every test plants users of a block of its own, far up in the ID space, and takes them away again.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use census::{Census, Owner, OwnerKind, Via};
use ids::witness::{Hold, Sighting, Witness};
use ids::{HostSpan, IdKind};

const UNIT: u64 = 65_536;

/// The blocks of these tests, from 3 000 041 472 up.
fn block(number: u64) -> HostSpan {
    HostSpan::new((45_777 + number) * UNIT, UNIT).unwrap()
}

fn first(span: HostSpan) -> String {
    span.first().to_string()
}

/// A process that ends with the test.
struct Planted(Child);

impl Planted {
    /// Runs until it has said a line, so that it is what it is to be.
    fn run(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut planted = Self(command.spawn().unwrap());
        let mut line = String::new();
        BufReader::new(planted.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{program} {arguments:?}");
        planted
    }

    /// A process in a user namespace of its own over `span`.
    fn in_namespace(span: HostSpan) -> Self {
        let planted = Self::run("unshare", &["--user", "sh", "-c", WAIT]);
        let map = format!("0 {} {}", span.first(), span.length());
        for name in ["uid_map", "gid_map"] {
            std::fs::write(format!("/proc/{}/{name}", planted.0.id()), &map).unwrap();
        }
        planted
    }

    fn namespace(&self) -> File {
        File::open(format!("/proc/{}/ns/user", self.0.id())).unwrap()
    }
}

/// Says that it is there, and waits for the end of its input.
const WAIT: &str = "echo ready; read line";

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn look() -> Sighting {
    assert!(rustix::process::geteuid().is_root(), "these tests need root");
    // What the host's init has just started may be as closed to us as init itself, until it runs a program of its own.
    let open = || Some(Census::default().look().unwrap()).filter(|sighting| sighting.blind().is_empty());
    let seen = eventually(open);
    assert!(seen.is_some(), "blind: {:?}", Census::default().look().unwrap().blind());
    seen.unwrap()
}

fn user(kind: IdKind, span: HostSpan) -> Option<String> {
    look().live_user(kind, span).map(|u| u.by.clone())
}

/// Another census that looks at the same moment keeps a namespace alive for the time of its visit,
/// and the kernel takes mounts down a moment after the last task.
fn eventually<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let seen = look();
        if seen.is_some() || Instant::now() > deadline {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn assert_vacant(span: HostSpan) {
    let users = || [IdKind::Uid, IdKind::Gid].map(|kind| user(kind, span));
    assert!(eventually(|| (users() == [None, None]).then_some(())).is_some(), "{span}: {:?}", users());
}

/// The namespace over `span`, once it is seen `via` this and nothing else.
fn seen_via(via: Via, span: HostSpan) -> Owner {
    let is_it = |o: &Owner| {
        let found = matches!(o.kind, OwnerKind::UserNamespace { via: found, .. } if found == via);
        found && o.uids == [span]
    };
    eventually(|| Census::default().take().unwrap().owners.into_iter().find(is_it)).unwrap()
}

#[test]
fn a_process_with_an_id_of_the_block_is_seen_until_it_ends() {
    let span = block(0);
    assert_vacant(span);
    let id = first(span);
    let planted =
        Planted::run("setpriv", &["--reuid", &id, "--regid", &id, "--clear-groups", "sh", "-c", WAIT]);
    let by = user(IdKind::Uid, span).unwrap();
    assert!(by.starts_with(&format!("process {} (sh): real, effective", planted.0.id())), "{by}");
    assert!(user(IdKind::Gid, span).is_some());
    drop(planted);
    assert_vacant(span);
}

#[test]
fn a_supplementary_group_alone_is_seen() {
    let span = block(1);
    let planted = Planted::run("setpriv", &["--groups", &first(span), "sh", "-c", WAIT]);
    assert_eq!(user(IdKind::Uid, span), None);
    let by = user(IdKind::Gid, span).unwrap();
    assert!(by.ends_with("(sh): supplementary ID"), "{by}");
    drop(planted);
    assert_vacant(span);
}

#[test]
fn a_thread_with_ids_of_its_own_is_seen() {
    let span = block(2);
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        // The system call itself changes the calling thread only.
        let gid = rustix::process::Gid::from_raw(span.first());
        rustix::thread::set_thread_groups(&[gid]).unwrap();
        ready.send(()).unwrap();
        let _ = ended.recv();
    });
    is_ready.recv().unwrap();
    let by = user(IdKind::Gid, span);
    drop(end);
    thread.join().unwrap();
    assert!(by.unwrap().starts_with(&format!("process {} ", std::process::id())));
}

#[test]
fn a_user_namespace_with_a_task_is_seen_though_nobody_has_an_id_of_it() {
    let span = block(3);
    let planted = Planted::in_namespace(span);
    let by = user(IdKind::Gid, span).unwrap();
    assert!(by.ends_with(&format!("of process {}", planted.0.id())), "{by}");
    drop(planted);
    assert_vacant(span);
}

#[test]
fn what_has_ended_keeps_its_users_until_its_parent_has_asked_for_its_code() {
    let span = block(11);
    let mut planted = Planted::in_namespace(span);
    planted.0.kill().unwrap();
    let ended = || {
        std::fs::read_to_string(format!("/proc/{}/status", planted.0.id())).unwrap().contains("Z (zombie)")
    };
    assert!(eventually(|| ended().then_some(())).is_some());
    let by = user(IdKind::Uid, span).unwrap();
    assert!(by.ends_with(&format!("of process {}", planted.0.id())), "{by}");
    drop(planted);
    assert_vacant(span);
}

#[test]
fn a_user_namespace_kept_by_an_open_descriptor_is_seen_until_it_is_closed() {
    let span = block(4);
    let planted = Planted::in_namespace(span);
    let namespace = planted.namespace();
    drop(planted);
    let owner = seen_via(Via::Descriptor, span);
    assert_eq!((owner.hold, owner.gids.as_slice()), (Hold::Live, &[span][..]));
    assert!(user(IdKind::Uid, span).is_some());
    drop(namespace);
    assert_vacant(span);
}

#[test]
fn a_user_namespace_kept_by_a_mount_in_a_private_mount_namespace_is_seen() {
    let span = block(5);
    let directory = tempfile::tempdir().unwrap();
    let point = directory.path().join("kept here");
    File::create(&point).unwrap();
    let planted = Planted::in_namespace(span);
    let script = "mount --bind \"/proc/$0/ns/user\" \"$1\" && echo ready && read line";
    let (pid, place) = (planted.0.id().to_string(), point.to_str().unwrap().to_owned());
    let keeper =
        Planted::run("unshare", &["--mount", "--propagation", "private", "sh", "-c", script, &pid, &place]);
    drop(planted);
    let owner = seen_via(Via::Mount, span);
    assert!(owner.name.contains("kept here"), "{}", owner.name);
    assert!(user(IdKind::Gid, span).is_some());
    drop(keeper);
    assert_vacant(span);
}

/// A process in a user namespace over `span`, and in a new namespace of another kind made inside.
fn with_one_inside(span: HostSpan, kind: &str) -> Planted {
    let outside = Planted::in_namespace(span);
    let target = outside.0.id().to_string();
    let inside = ["--user", "--target", &target, "unshare", kind, "sh", "-c", WAIT];
    Planted::run("nsenter", &inside)
}

#[test]
fn a_user_namespace_kept_only_by_an_open_network_namespace_is_seen_until_that_is_closed() {
    let span = block(7);
    let planted = with_one_inside(span, "--net");
    let network = File::open(format!("/proc/{}/ns/net", planted.0.id())).unwrap();
    drop(planted);
    let owner = seen_via(Via::Belonging, span);
    assert_eq!((owner.hold, owner.gids.as_slice()), (Hold::Live, &[span][..]));
    assert!(owner.name.contains(" that belongs to it, descriptor "), "{}", owner.name);
    assert!(user(IdKind::Uid, span).is_some());
    drop(network);
    assert_vacant(span);
}

#[test]
fn a_user_namespace_kept_only_by_a_mounted_network_namespace_is_seen() {
    let span = block(8);
    let directory = tempfile::tempdir().unwrap();
    let point = directory.path().join("network");
    File::create(&point).unwrap();
    let planted = with_one_inside(span, "--net");
    let script = "mount --bind \"/proc/$0/ns/net\" \"$1\" && echo ready && read line";
    let (pid, place) = (planted.0.id().to_string(), point.to_str().unwrap().to_owned());
    let keeper =
        Planted::run("unshare", &["--mount", "--propagation", "private", "sh", "-c", script, &pid, &place]);
    drop(planted);
    let owner = seen_via(Via::Belonging, span);
    assert!(owner.name.contains("/network (as task "), "{}", owner.name);
    drop(keeper);
    assert_vacant(span);
}

#[test]
fn a_user_namespace_kept_only_by_the_network_of_a_host_process_is_seen() {
    let span = block(9);
    let planted = with_one_inside(span, "--net");
    let target = planted.0.id().to_string();
    let guest = Planted::run("nsenter", &["--net", "--target", &target, "sh", "-c", WAIT]);
    drop(planted);
    let owner = seen_via(Via::Belonging, span);
    assert!(owner.name.ends_with(&format!("ns/net of task {}", guest.0.id())), "{}", owner.name);
    drop(guest);
    assert_vacant(span);
}

#[test]
fn a_user_namespace_around_one_that_is_kept_is_seen() {
    let span = block(10);
    let planted = with_one_inside(span, "--user");
    let inner = planted.namespace();
    drop(planted);
    let owner = seen_via(Via::Belonging, span);
    assert_eq!(owner.gids, [span]);
    drop(inner);
    assert_vacant(span);
}

#[test]
fn a_user_namespace_nested_in_another_shows_host_ids_and_what_is_around_it() {
    let span = block(6);
    let outer = Planted::in_namespace(span);
    let target = outer.0.id().to_string();
    let inner = Planted::run(
        "nsenter",
        &["--user", "--target", &target, "unshare", "--user", "--map-root-user", "sh", "-c", WAIT],
    );
    let report = Census::default().take().unwrap();
    let of_inner = |kind: &OwnerKind| match kind {
        OwnerKind::UserNamespace { pids, .. } => pids.contains(&inner.0.id()),
        _ => false,
    };
    let found = report.owners.iter().find(|o| of_inner(&o.kind));
    assert_eq!(found.unwrap().uids, [HostSpan::new(span.first().into(), 1).unwrap()]);
}

/// Each of these processes starts the next and ends, sooner than a walk over all processes that were listed gets to it: a
/// block whose last processes were such a chain was seen to be vacant.
#[test]
fn a_chain_of_processes_that_each_start_the_next_and_end_is_seen() {
    let span = block(40);
    let hop = "while (1) { my $next = fork; POSIX::_exit(0) if $next; select(undef, undef, undef, 0.0002) }";
    let id = first(span);
    // What has ended is gone at once: its parent, the first process of the namespace, does not want to know.
    let plant = "$SIG{CHLD} = 'IGNORE'; my ($id, $hop) = @ARGV; \
                 fork or exec qw(setpriv --clear-groups --reuid), $id, '--regid', $id, qw(perl -MPOSIX -e), $hop; \
                 $| = 1; print qq(ready\\n); <STDIN>";
    let planted =
        Planted::run("unshare", &["--pid", "--fork", "--kill-child", "perl", "-e", plant, &id, hop]);
    assert!(eventually(|| user(IdKind::Uid, span)).is_some());
    for round in 0..50 {
        assert!(user(IdKind::Uid, span).is_some(), "look {round} saw nothing of the chain");
    }
    drop(planted);
    assert_vacant(span);
}

#[test]
fn a_look_is_quick() {
    look();
    let started = Instant::now();
    let rounds = 20;
    for _ in 0..rounds {
        look();
    }
    let each = started.elapsed() / rounds;
    println!("one look: {each:?}");
    assert!(each < Duration::from_millis(500), "{each:?}");
}

#[test]
fn without_the_right_to_look_into_a_process_it_is_a_blind_spot_named_with_the_fix() {
    let planted = Planted::run("sh", &["-c", WAIT]);
    let looked = std::thread::spawn(|| {
        // Of this thread only, and it ends here.
        let mut rights = rustix::thread::capabilities(None).unwrap();
        rights.effective -= rustix::thread::CapabilitySet::SYS_PTRACE;
        rustix::thread::set_capabilities(None, rights).unwrap();
        Census::default().look().unwrap()
    });
    let sighting = looked.join().unwrap();
    let text = format!("process {} (sh): its mount namespace cannot be read: ", planted.0.id());
    let blind = sighting.blind().iter().find(|b| b.starts_with(&text)).unwrap();
    assert!(blind.ends_with("; run as root with CAP_SYS_PTRACE"), "{blind}");
    assert!(!sighting.blind().iter().any(|b| b.starts_with("process 1 ")));
}
