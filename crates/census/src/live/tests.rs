use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use ids::witness::Witness;

use super::*;
use crate::census::Census;

const HOST_NS: u64 = 4_026_531_837;
const HOST_MAP: &str = "0 0 4294967295\n";

struct FakeProcess {
    pid: u32,
    parent: u32,
    user_namespace: u64,
    uids: &'static str,
    map: &'static str,
}

impl FakeProcess {
    fn plant(&self, root: &Path) {
        let dir = root.join(format!("proc/{}", self.pid));
        for sub in ["ns", "fd"] {
            fs::create_dir_all(dir.join(sub)).unwrap();
        }
        symlink(format!("user:[{}]", self.user_namespace), dir.join("ns/user")).unwrap();
        symlink("mnt:[7]", dir.join("ns/mnt")).unwrap();
        symlink("/", dir.join("root")).unwrap();
        let status = format!(
            "Name:\tfake\nPPid:\t{}\nUid:\t{}\nGid:\t0\t0\t0\t0\nGroups:\t \nThreads:\t1\n",
            self.parent, self.uids
        );
        let files =
            [("status", status.as_str()), ("uid_map", self.map), ("gid_map", self.map), ("mountinfo", "")];
        for (name, text) in files {
            fs::write(dir.join(name), text).unwrap();
        }
    }
}

const HOSTS_OWN: FakeProcess =
    FakeProcess { pid: 10, parent: 0, user_namespace: HOST_NS, uids: "0\t0\t0\t0", map: HOST_MAP };

fn report(processes: &[FakeProcess]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    for process in processes {
        process.plant(dir.path());
    }
    let mut report = Report::default();
    look(&HostRoot::new(dir.path()), &mut report, &Budget::all()).unwrap();
    report
}

fn names(report: &Report) -> Vec<&str> {
    report.owners.iter().map(|o| o.name.as_str()).collect()
}

#[test]
fn processes_of_the_host_with_host_ids_own_nothing() {
    let full = FakeProcess { pid: 11, user_namespace: 5, map: "0 0 1\n1 1 4294967294\n", ..HOSTS_OWN };
    let report = report(&[HOSTS_OWN, full]);
    assert_eq!(names(&report), [""; 0]);
    assert!(report.blind.is_empty(), "{:?}", report.blind);
}

#[test]
fn a_namespace_is_listed_once_with_all_its_processes_and_their_ids() {
    let a = FakeProcess {
        pid: 20,
        parent: 10,
        user_namespace: 5,
        uids: "131072\t131072\t131072\t131073",
        map: "0 131072 65536\n",
    };
    let b = FakeProcess { pid: 21, parent: 20, ..a };
    let inner = FakeProcess { pid: 22, parent: 21, user_namespace: 6, map: "0 131072 10\n", ..a };
    let mut report = report(&[HOSTS_OWN, a, b, inner]);
    report.owners.sort_by(|x, y| x.name.cmp(&y.name));
    assert_eq!(names(&report)[..3], ["process 20 (fake)", "process 21 (fake)", "process 22 (fake)"]);
    assert_eq!(report.owners[0].uids, [HostSpan::new(131_072, 2).unwrap()]);
    let OwnerKind::UserNamespace { pids, enclosing, .. } = &report.owners[3].kind else { panic!() };
    assert_eq!((pids.len(), enclosing), (2, &None));
    let OwnerKind::UserNamespace { enclosing, .. } = &report.owners[4].kind else { panic!() };
    assert_eq!(*enclosing, Some(5));
}

#[test]
fn a_namespace_of_host_ids_stays_in_the_report() {
    let rootless = FakeProcess { pid: 20, user_namespace: 5, map: "0 1000 1\n", ..HOSTS_OWN };
    let report = report(&[rootless]);
    assert_eq!(names(&report), ["user namespace 5 of process 20"]);
    assert_eq!(report.owners[0].uids[0].first(), 1000);
}

#[test]
fn descriptors_beyond_the_bound_are_a_blind_spot_and_ids_are_seen_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let flooded = FakeProcess { pid: 20, ..HOSTS_OWN };
    let later = FakeProcess { pid: 21, uids: "131072\t131072\t131072\t131072", ..HOSTS_OWN };
    for process in [flooded, later] {
        process.plant(dir.path());
    }
    for fd in 0..5 {
        symlink("/dev/null", dir.path().join(format!("proc/20/fd/{fd}"))).unwrap();
    }
    for (descriptors, is_blind) in [(4, true), (5, false)] {
        let mut report = Report::default();
        look(&HostRoot::new(dir.path()), &mut report, &Budget::of(descriptors)).unwrap();
        assert_eq!(names(&report), ["process 21 (fake)"]);
        assert_eq!(report.blind.len(), usize::from(is_blind), "{:?}", report.blind);
    }
}

#[test]
fn a_map_whose_ids_are_out_of_sight_is_a_blind_spot() {
    let hidden = FakeProcess { pid: 20, user_namespace: 5, map: "0 4294967295 10\n", ..HOSTS_OWN };
    let report = report(&[hidden]);
    assert!(
        report.blind[0].starts_with("process 20 (fake): its ID maps cannot be read: "),
        "{:?}",
        report.blind
    );
}

#[test]
fn a_status_that_makes_no_sense_is_a_blind_spot_but_that_of_init_a_note() {
    let odd = |pid| FakeProcess { pid, uids: "0\t0", ..HOSTS_OWN };
    let report = report(&[odd(1), odd(2)]);
    assert_eq!((report.blind.len(), report.notes.len()), (1, 1));
    assert!(report.notes[0].starts_with("process 1 "));
}

/// Process 2, with children 3, 4 and 5: one without a program, one with, one with IDs of a block and without.
fn maker_of_three(kernel_thread: &str) -> Report {
    let dir = tempfile::tempdir().unwrap();
    let uids = "131072\t131072\t131072\t131072";
    for pid in [2, 3, 4, 5] {
        let uids = if pid < 4 { HOSTS_OWN.uids } else { uids };
        FakeProcess { pid, uids, ..HOSTS_OWN }.plant(dir.path());
    }
    let process = |name: &str| dir.path().join("proc").join(name);
    let status = fs::read_to_string(process("2/status")).unwrap();
    fs::write(process("2/status"), format!("Kthread:\t{kernel_thread}\n{status}")).unwrap();
    fs::create_dir_all(process("2/task/2")).unwrap();
    fs::write(process("2/task/2/children"), "3 4 5 ").unwrap();
    symlink("/usr/lib/core-taker", process("4/exe")).unwrap();
    let mut report = Report::default();
    look(&HostRoot::new(dir.path()), &mut report, &Budget::all()).unwrap();
    report
}

#[test]
fn of_what_the_kernel_has_started_only_programs_are_looked_at() {
    assert_eq!(names(&maker_of_three("1")), ["process 4 (fake)"]);
}

#[test]
fn a_second_process_that_is_no_thread_of_the_kernel_vouches_for_nobody() {
    assert_eq!(names(&maker_of_three("0")), ["process 4 (fake)", "process 5 (fake)"]);
}

#[test]
fn without_proc_there_is_no_testimony() {
    let dir = tempfile::tempdir().unwrap();
    let census = Census { host_root: HostRoot::new(dir.path()), ..Census::default() };
    let error = census.look().unwrap_err();
    assert!(error.what.starts_with("cannot list the processes in "), "{error}");
}

#[test]
fn a_place_remains_while_anything_of_that_name_is_there() {
    let dir = tempfile::tempdir().unwrap();
    symlink("/nowhere", dir.path().join("dangling")).unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let census = Census { host_root: HostRoot::new(dir.path()), ..Census::default() };
    let places = ["/dangling", "/gone", "/file/below"].map(std::path::PathBuf::from);
    let remaining = census.remaining(&places).unwrap();
    assert_eq!(remaining, [Path::new("/dangling"), Path::new("/file/below")]);
}

#[test]
fn neighbouring_ids_become_one_span() {
    let ids = [5u64, 6, 7, 9].map(|id| HostId::try_from(id).unwrap());
    assert_eq!(spans(ids.into_iter()), [HostSpan::new(5, 3).unwrap(), HostSpan::new(9, 1).unwrap()]);
}
