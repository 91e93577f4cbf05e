//! The monitor is killed at system call N, N swept over a container's start, its output and its end. Needs
//! strace.
//!
//! Each run is recorded once. Then it is repeated for every call that changes something, and the monitor is
//! killed at its entry. The test then plays the server: another monitor is started, which adopts what has a
//! record; what has none is ended. No end that was told may be forgotten or told otherwise, and no process
//! may be left.

use crate::support;

use std::ffi::OsStr;
use std::process::{Child, Command, Stdio};

use monitor::{Client, Ending, Event, Exit, Reply, Request, Started};
use support::*;
use testkit::Call;

/// Calls that change nothing that anybody else could see.
const LOOKS: &[&str] = &[
    "brk",
    "close",
    "fcntl",
    "fstat",
    "futex",
    "getpid",
    "getrandom",
    "geteuid",
    "getsockopt",
    "ioctl",
    "lseek",
    "madvise",
    "mmap",
    "mprotect",
    "munmap",
    "newfstatat",
    "poll",
    "ppoll",
    "pread64",
    "read",
    "readlink",
    "rt_sigaction",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_yield",
    "sigaltstack",
    "statx",
    "umask",
    "clock_gettime",
    "set_robust_list",
    "rseq",
    "prlimit64",
    "arch_prctl",
    "access",
    "gettid",
    "recvfrom",
];

/// Runs at once.
const WORKERS: usize = 4;

/// What is known to have been told before the monitor was killed.
#[derive(Default, Debug)]
struct Told {
    started: Option<u32>,
    exit: Option<Exit>,
}

struct Traced {
    strace: Child,
}

impl Traced {
    /// Follows the monitor, but not what it starts. Returns once it does.
    fn attach(pod: &Pod, options: &[impl AsRef<OsStr>]) -> Self {
        let pid = pod.monitor().pid;
        let strace = Command::new("strace")
            .args(["-qq", "-p", &pid.to_string()])
            .args(options)
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("this test needs strace, apt-get install strace: {error}"));
        wait_until("strace is attached", || {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            !status.contains("TracerPid:\t0\n")
        });
        Self { strace }
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.strace.kill();
        let _ = self.strace.wait();
    }
}

const SCRIPT: &str = "echo begun; echo more >&2; sleep 0.05; printf end; exit 17";

/// Starts the container and hears of its end, as far as that goes.
fn live(pod: &Pod, client: &mut Client) -> Told {
    let mut told = Told::default();
    match client.call(&Request::Start(pod.request("one")), &[]) {
        Ok(Reply::Started(started)) => told.started = Some(started.pid),
        Ok(other) => panic!("{other:?}"),
        Err(_) => return told,
    }
    if let Ok(Some(Event::Exited(exited))) = client.next_within(SOON) {
        told.exit = Some(exited.exit);
    }
    told
}

/// Every call of a whole life that changes something.
fn changes() -> Vec<Call> {
    let pod = Pod::new();
    let mut client = pod.spawn();
    // The second of two is told after the first.
    let mut other = pod.connect();
    list(&mut other);
    pod.container("one", SCRIPT);
    let log = pod.path("trace");
    let traced = Traced::attach(&pod, &["-o", log.to_str().unwrap()]);
    let told = live(&pod, &mut client);
    assert_eq!(told.exit.unwrap().ending, Ending::Code(17));
    next_exit(&mut other);
    drop(traced);
    let trace = std::fs::read_to_string(&log).unwrap();
    testkit::changes(&trace, |name| !LOOKS.contains(&name))
}

/// What the server does when it finds no monitor: another one, which adopts. What was never recorded as
/// started is ended, if it runs at all.
fn play_the_server(pod: &Pod, told: &Told) -> Option<Exit> {
    let dir = pod.container_dir("one");
    let mut client = pod.spawn();
    if Started::read(&dir).unwrap().is_none() {
        assert_eq!(told.started, None, "a start was told that nothing records");
        end_unrecorded(pod);
        return None;
    }
    let request = Request::Adopt { container: "one".to_owned(), dir, log: None };
    let reply = client.call(&request, &[]).unwrap();
    assert!(matches!(reply, Reply::Done | Reply::Started(_)), "{reply:?}");
    wait_until("its end is recorded", || pod.exit("one").is_some());
    pod.exit("one")
}

/// What runs without a record is ended; the helper, which may still be on its way to start it, first.
fn end_unrecorded(pod: &Pod) {
    wait_until("what was not recorded is ended", || {
        let found = pod.processes();
        found.iter().copied().for_each(kill);
        found.is_empty()
    });
}

#[derive(Default, Debug, Clone, Copy)]
struct Count {
    killed: usize,
    told: usize,
    kept: usize,
    lost: usize,
    unrecorded: usize,
}

/// One life, cut off at this call.
fn cut_off(call: &Call) -> Count {
    let pod = Pod::new();
    let mut client = pod.spawn();
    let other = pod.connect();
    list(&mut client);
    pod.container("one", SCRIPT);
    let monitor = pod.monitor();
    let traced = Traced::attach(&pod, &call.kill());
    let told = live(&pod, &mut client);
    let mut count = Count::default();
    if told.exit.is_some() && told_too(other) {
        pod.kill_monitor();
    } else {
        count.killed = 1;
    }
    wait_until("the monitor is dead", || state(monitor).is_none_or(|state| state == 'Z'));
    drop(traced);
    wait_until("the monitor is gone", || state(monitor).is_none());
    match (&told.exit, play_the_server(&pod, &told)) {
        (Some(told), found) => {
            assert_eq!(Some(told), found.as_ref(), "{call}");
            count.told = 1;
        }
        (None, Some(exit)) if exit.ending == Ending::Lost => count.lost = 1,
        (None, Some(exit)) => {
            assert_eq!(exit.ending, Ending::Code(17));
            count.kept = 1;
        }
        (None, None) => count.unrecorded = 1,
    }
    wait_until("the container's processes are gone", || pod.processes().is_empty());
    assert!(list(&mut pod.connect()).len() <= 1, "the second monitor serves");
    count
}

fn told_too(mut other: Client) -> bool {
    matches!(other.next_within(SOON), Ok(Some(_)))
}

#[test]
fn killed_at_any_call_no_end_that_was_told_is_lost() {
    let calls = changes();
    assert!(calls.len() > 15, "the recording shows too little: {calls:?}");
    println!("{} calls: {calls:?}", calls.len());
    let counts: Vec<Count> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|worker| {
                let mine = calls.iter().skip(worker).step_by(WORKERS);
                scope.spawn(move || mine.map(cut_off).collect::<Vec<_>>())
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let sum = |of: fn(&Count) -> usize| counts.iter().map(of).sum::<usize>();
    let (killed, told) = (sum(|count| count.killed), sum(|count| count.told));
    println!(
        "killed {killed} of {}: {told} ends told before, {} kept untold, {} lost, {} starts never recorded",
        calls.len(),
        sum(|count| count.kept),
        sum(|count| count.lost),
        sum(|count| count.unrecorded)
    );
    assert!(killed * 10 >= calls.len() * 8, "only {killed} of {} runs were killed", calls.len());
    assert!(told > 0 && sum(|count| count.kept) > 0, "no kill came between record and word");
}
