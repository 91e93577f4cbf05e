//! Open descriptors of an ordinary user made every lease slow.
//!
//! Before a block is leased, the census looked at every open descriptor of the host, for each may hold a user namespace. A user
//! with half a million of them made a lease take 3 s instead of 34 ms. A lease now looks at a bounded number of descriptors, and
//! at the credentials and the maps of every task as before. Freeing still looks at all: a namespace behind a descriptor that a
//! lease has left out keeps its block.

use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::test_pods::{Site, maps};

/// Far from the blocks of all other tests.
const POOL: u64 = 3_825_205_248;

/// The user of the host who attacks, and the descriptors that all his processes have together.
const USER: &str = "14243";
const DESCRIPTORS: u64 = 240_000;

/// What a process has open beside, at most.
const OTHERS: u64 = 64;

/// `ids gc` reads every descriptor of the flood. A lease that did so too would take about as long; a lease that reads at most
/// 16 384 of them takes about a tenth. The lease must take less than a third.
const FRACTION: u32 = 3;

/// A process that has said that it is ready, and ends with the test.
struct Waiting(Child);

impl Waiting {
    fn begin(command: &mut Command) -> Self {
        Self(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    fn ready(mut self) -> Self {
        let mut line = String::new();
        BufReader::new(self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        self
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As many processes as it takes with the limit of one.
fn flood() -> Vec<Waiting> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.unwrap_or(u64::MAX);
    let each = (limit - OTHERS).min(60_000);
    let script =
        format!("for ((i = 0; i < {each}; i++)); do exec {{fd}}</dev/null; done; echo ready; read line");
    let script = format!("ulimit -n {}; {script}", each + OTHERS);
    let begun: Vec<Waiting> = (0..DESCRIPTORS.div_ceil(each))
        .map(|_| {
            let mut command = Command::new("setpriv");
            command.args(["--reuid", USER, "--regid", USER, "--clear-groups", "bash", "-c", &script]);
            Waiting::begin(&mut command)
        })
        .collect();
    begun.into_iter().map(Waiting::ready).collect()
}

/// Processor time, the least of some leases: other tests beside this one do not add to it.
fn time_of_a_lease(site: &Site, name: &str) -> Duration {
    (0..5).map(|number| processor_time(&site.command(&format!("ids lease {name}-{number}")))).min().unwrap()
}

fn processor_time(command: &Command) -> Duration {
    let mut timed = Command::new("bash");
    timed.args(["-c", "TIMEFORMAT='%3U %3S'; time \"$0\" \"$@\""]).arg(command.get_program());
    let output = timed.args(command.get_args()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    let times = said.lines().last().unwrap().split(' ').map(|time| time.parse::<f64>().unwrap());
    Duration::from_secs_f64(times.sum())
}

/// What `ids gc` says of the block that begins at `base`.
#[track_caller]
fn outcome(site: &Site, base: u64) -> String {
    let (_, gc) = site.json("ids gc");
    let verdicts = gc["verdicts"].as_array().unwrap();
    let verdict = verdicts.iter().find(|verdict| verdict["uids"]["hostId"] == base);
    verdict.unwrap_or_else(|| panic!("no {base} in {gc:#}"))["outcome"].as_str().unwrap().to_owned()
}

#[test]
fn descriptors_of_an_ordinary_user_slow_no_lease_down_and_hide_no_namespace_from_freeing() {
    let site = Site::new(POOL, 64);
    let without = time_of_a_lease(&site, "without");
    let flood = flood();
    let with = time_of_a_lease(&site, "with");
    // A released block is freed only after a scan of all descriptors.
    let full_scan = |number: usize| {
        assert_eq!(site.run(&format!("ids release with-{number}")).status.code(), Some(0));
        processor_time(&site.command("ids gc"))
    };
    let all = (0..3).map(full_scan).min().unwrap();
    println!("a lease takes {without:?}, with the flood {with:?}, a scan of all descriptors {all:?}");
    assert!(
        with * FRACTION < all,
        "with the flood a lease takes {with:?}, a scan of all descriptors {all:?}"
    );

    // Held by nothing but a descriptor of a process that comes after the flood.
    let base = site.lease("held");
    let userns = maps(base, 65_536);
    let file = format!("/proc/{}/fd/{}", std::process::id(), userns.as_fd().as_raw_fd());
    let mut command = Command::new("bash");
    let holder = Waiting::begin(command.args(["-c", "exec 9<\"$0\"; echo ready; read line", &file])).ready();
    drop(userns);
    assert_eq!(site.run("ids release held").status.code(), Some(0));
    for number in 0..3 {
        assert_eq!(outcome(&site, base), "draining");
        assert_ne!(site.lease(&format!("another-{number}")), base, "the block was given away");
    }
    drop(holder);
    let deadline = Instant::now() + Duration::from_secs(30);
    while outcome(&site, base) != "quarantined" {
        assert!(Instant::now() < deadline, "not freed");
    }
    drop(flood);
}
