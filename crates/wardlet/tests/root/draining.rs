//! Ledger and census together on the real kernel: whatever is planted in a draining block keeps it from
//! being freed for as long as it is there. Needs root in the initial namespaces.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use census::Census;
use ids::pool::{IdPool, NamedSpan, PoolOrigin, PoolRequest};
use ids::{BlockLength, HostSpan, IdMapping};
use kernel::UsernsFd;
use ledger::{BootId, Holder, Lease, LeaseRequest, Ledger, Options, Outcome};

const UNIT: u64 = 65_536;

/// A node with one block, far up where nobody else is, and no quarantine.
struct Node {
    _dir: tempfile::TempDir,
    ledger: Ledger,
    lease: Lease,
}

impl Node {
    fn with_block(number: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ids = HostSpan::new((46_100 + number) * UNIT, UNIT).unwrap();
        let spans = vec![NamedSpan { ids, origin: "test".to_owned() }];
        let pool = IdPool::new(PoolRequest {
            block: BlockLength::DEFAULT,
            uids: spans.clone(),
            gids: spans,
            excluded: vec![],
            origin: PoolOrigin::Default,
        });
        let boot = BootId("this".to_owned());
        let mut options = Options::new(dir.path(), pool.unwrap(), boot, Arc::new(Census::default()));
        options.quarantine = Duration::ZERO;
        let ledger = Ledger::open(options).unwrap();
        let lease = ledger.lease(LeaseRequest::new(Holder::new("pod").unwrap())).unwrap();
        Self { _dir: dir, ledger, lease }
    }

    fn base(&self) -> String {
        self.lease.uids.base().to_string()
    }

    fn maps(&self) -> [IdMapping; 1] {
        [IdMapping::of_block(self.lease.uids)]
    }

    /// Released with somebody there, the block goes on draining; it is freed once `remove` is done.
    fn is_kept_by(&self, what: &str, remove: impl FnOnce()) {
        self.ledger.release(Holder::new("pod").unwrap()).unwrap();
        for _ in 0..3 {
            // The scan of another test at the same moment holds the namespace too, and may be named in its place.
            testkit::wait_until(&format!("{what} is named"), || {
                let verdicts = self.ledger.settle().unwrap();
                let [Outcome::InUse(by)] =
                    &verdicts.iter().map(|v| v.outcome.clone()).collect::<Vec<_>>()[..]
                else {
                    panic!("{verdicts:?}")
                };
                by.iter().any(|b| b.contains(what))
            });
        }
        let another = self.ledger.lease(LeaseRequest::new(Holder::new("another").unwrap()));
        assert!(another.is_err(), "the block was given away: {another:?}");
        remove();
        let deadline = Instant::now() + Duration::from_secs(20);
        while !self.ledger.list().unwrap().is_empty() {
            // Another look at the same moment may keep a namespace for the time of its visit.
            assert!(Instant::now() < deadline, "not freed: {:?}", self.ledger.settle());
            self.ledger.settle().unwrap();
        }
    }
}

/// A process that ends with the test.
struct Planted(Child);

impl Planted {
    fn run(program: &str, arguments: &[&str]) -> Self {
        let mut command = Command::new(program);
        let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{program} {arguments:?}");
        Self(child)
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const WAIT: &str = "echo ready; read line";

#[test]
fn a_planted_process_keeps_a_draining_block() {
    let node = Node::with_block(1);
    let planted = Planted::run("setpriv", &["--reuid", &node.base(), "--clear-groups", "sh", "-c", WAIT]);
    node.is_kept_by(&format!("process {}", planted.0.id()), || drop(planted));
}

#[test]
fn a_supplementary_group_keeps_a_draining_block() {
    let node = Node::with_block(2);
    let planted = Planted::run("setpriv", &["--groups", &node.base(), "sh", "-c", WAIT]);
    node.is_kept_by("supplementary", || drop(planted));
}

#[test]
fn an_open_namespace_descriptor_keeps_a_draining_block() {
    let node = Node::with_block(3);
    let namespace = UsernsFd::create(&node.maps(), &node.maps()).unwrap();
    node.is_kept_by("user namespace", || drop(namespace));
}

#[test]
fn a_mounted_namespace_keeps_a_draining_block() {
    let node = Node::with_block(4);
    let dir = tempfile::tempdir().unwrap();
    let point = dir.path().join("kept");
    File::create(&point).unwrap();
    let namespace = UsernsFd::create(&node.maps(), &node.maps()).unwrap();
    let file = format!("/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd());
    let script = "mount --bind \"$0\" \"$1\" && echo ready && read line";
    let unshare = ["--mount", "--propagation", "private", "sh", "-c", script];
    let keeper = Planted::run("unshare", &[&unshare[..], &[&file, point.to_str().unwrap()]].concat());
    drop(namespace);
    node.is_kept_by("user namespace", || drop(keeper));
}

#[test]
fn a_network_that_belongs_to_the_pods_user_namespace_keeps_a_draining_block() {
    let node = Node::with_block(5);
    let namespace = UsernsFd::create(&node.maps(), &node.maps()).unwrap();
    let users = format!("--user=/proc/{}/fd/{}", std::process::id(), namespace.as_fd().as_raw_fd());
    let planted = Planted::run("nsenter", &[&users, "unshare", "--net", "sh", "-c", WAIT]);
    let network = File::open(format!("/proc/{}/ns/net", planted.0.id())).unwrap();
    drop((planted, namespace));
    node.is_kept_by("that belongs to it", || drop(network));
}
