//! The pool by the options of gVisor's shim: what its own tests promise, and where we promise more. The
//! witness is the host itself. Needs root.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ids::IdMappings;
use ledger::Holder;
use node::Config;
use oci_records::holder;
use wardlet_oci::Error;
use wardlet_oci::lease::{Leases, options};

/// How far the groups' base is from the users'.
const APART: u64 = 65_536 * 1000;

struct Node {
    dir: tempfile::TempDir,
    /// Far from the pools of other tests: what one of them uses, no other is given.
    base: u64,
}

impl Node {
    fn with(slots: u32) -> Self {
        Self::resting(slots, 3600)
    }

    /// Blocks that were given back rest for so many seconds.
    fn resting(slots: u32, seconds: u32) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let base = 1_572_864_000 + NUMBER.fetch_add(1, Ordering::Relaxed) * 64 * 65_536;
        let node = Self { dir: tempfile::tempdir().unwrap(), base };
        let text = format!(
            "userNamespaces: {{quarantineSeconds: {seconds}}}\nkubelet: {{podsDir: {dir}/pods}}\n\
             wrapper: {{user_namespace_host_uid_base: {base}, user_namespace_host_gid_base: {}, \
             user_namespace_pool_size: {slots}, user_namespace_state_dir: {dir}/state, runDir: {dir}/run}}\n",
            base + APART,
            dir = node.dir.path().display(),
        );
        std::fs::write(node.file(), text).unwrap();
        node
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("config.yaml")
    }

    fn config(&self) -> Config {
        node::load(Some(&self.file()), Path::new("/nowhere")).unwrap()
    }

    fn leases(&self) -> Leases {
        Leases::open(&self.config()).unwrap()
    }

    fn take(&self, sandbox: &str) -> Result<IdMappings, Error> {
        Leases::open_to_take(options(&self.config())?)?.take(name(sandbox), None, Vec::new())
    }
}

fn name(sandbox: &str) -> Holder {
    holder(Path::new("/run/r"), sandbox).unwrap()
}

fn bases(ids: &IdMappings) -> (u64, u64) {
    (ids.uids[0].host().first().into(), ids.gids[0].host().first().into())
}

#[test]
fn five_sandboxes_get_five_blocks_of_the_pool_and_each_the_same_again() {
    let node = Node::with(5);
    let all: Vec<_> = (0..5).map(|i| bases(&node.take(&format!("s{i}")).unwrap())).collect();
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), 5);
    for (uids, gids) in &all {
        assert!((node.base..node.base + 5 * 65_536).contains(uids) && uids % 65_536 == 0);
        assert_eq!(gids - uids, APART, "users and groups each from their own base");
    }
    let again: Vec<_> = (0..5).map(|i| bases(&node.take(&format!("s{i}")).unwrap())).collect();
    assert_eq!(again, all);
}

#[test]
fn a_pool_that_is_full_says_so_and_a_block_that_was_given_back_rests_before_it_is_given_again() {
    let node = Node::with(2);
    node.take("a").unwrap();
    node.take("b").unwrap();
    let full = node.take("c").unwrap_err();
    assert!(full.to_string().contains("no block of 65536 IDs is free: of 2 blocks 2 are leased"), "{full}");
    assert!(full.hint().is_some());
    node.leases().release(&name("a")).unwrap();
    node.leases().release(&name("nobody")).unwrap();
    let resting = node.take("c").unwrap_err();
    assert!(resting.to_string().contains("1 quarantined"), "{resting}");
}

#[test]
fn a_block_that_was_given_back_and_has_rested_is_given_again() {
    let node = Node::resting(1, 0);
    let first = bases(&node.take("a").unwrap());
    node.leases().release(&name("a")).unwrap();
    // From draining to resting, from resting to free: each look at the host is one step.
    let again = (0..3).find_map(|_| node.take("b").ok()).map(|ids| bases(&ids));
    assert_eq!(again, Some(first));
}

#[test]
fn twenty_at_once_collide_with_nobody() {
    let node = Node::with(64);
    let all: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let node = &node;
        let threads: Vec<_> =
            (0..20).map(|i| scope.spawn(move || bases(&node.take(&format!("s{i}")).unwrap()))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), 20);
}

#[test]
fn two_creates_of_one_sandbox_take_one_block() {
    let node = Node::with(8);
    let both: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| bases(&node.take("same").unwrap()))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(both.iter().collect::<BTreeSet<_>>().len(), 1);
}

#[test]
fn another_pool_leaves_what_was_leased_from_the_first_as_it_is() {
    let node = Node::with(4);
    let before = bases(&node.take("a").unwrap());
    let moved = std::fs::read_to_string(node.file())
        .unwrap()
        .replace(&format!("host_uid_base: {}", node.base), &format!("host_uid_base: {}", node.base + 65_536));
    std::fs::write(node.file(), moved).unwrap();
    assert_eq!(bases(&node.take("a").unwrap()), before, "its meaning does not change");
    let next: BTreeSet<_> = (0..3).map(|i| bases(&node.take(&format!("n{i}")).unwrap()).0).collect();
    assert!(!next.contains(&before.0) && next.iter().all(|base| *base > node.base), "{next:?}");
}

/// Whoever has a user namespace over a block on this host has that block, whether a ledger knows or not.
#[test]
fn a_block_that_somebody_uses_is_not_given_out() {
    let node = Node::with(2);
    let first = |base: u64| vec![ids::IdMapping::new(0, base, 65_536).unwrap()];
    let taken = IdMappings { uids: first(node.base), gids: first(node.base + APART) };
    let held = kernel::UsernsFd::create(&taken.uids, &taken.gids).unwrap();
    let given = bases(&node.take("a").unwrap());
    assert_eq!(given.0, node.base + 65_536);
    drop(held);
}

#[test]
fn a_block_that_a_kubelet_has_just_given_to_a_pod_is_not_given_out() {
    let node = Node::with(3);
    let take = |sandbox: &str| bases(&node.take(sandbox).unwrap()).0;
    assert_eq!(take("a"), node.base);
    let pod = node.dir.path().join("pods/one");
    let map = |base: u64| format!(r#"[{{"hostId":{base},"containerId":0,"length":65536}}]"#);
    let both = (map(node.base + 65_536), map(node.base + 65_536));
    std::fs::create_dir_all(&pod).unwrap();
    std::fs::write(pod.join("userns"), format!(r#"{{"uidMappings":{},"gidMappings":{}}}"#, both.0, both.1))
        .unwrap();
    assert_eq!(take("b"), node.base + 2 * 65_536);
}

#[test]
fn leases_outlive_the_process_that_took_them() {
    let node = Node::with(4);
    let before = bases(&node.take("a").unwrap());
    drop(node.leases());
    assert_eq!(bases(&node.take("a").unwrap()), before);
    node.leases().release(&name("a")).unwrap();
    let none = node.leases().add_places(&name("a"), &[]);
    assert!(none.unwrap_err().to_string().contains("holds no lease"));
}

/// How often this thread has read from a file, or asked for a part of one.
fn reads() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    text.lines().find_map(|line| line.strip_prefix("syscr: ")).unwrap().parse().unwrap()
}

/// gVisor's pool was a directory with a file for each slot, all of which were read to take one and to give one back.
#[test]
fn weakness_6_neither_taking_nor_giving_back_looks_at_every_slot_of_the_pool() {
    let cost = |slots: u32| {
        let node = Node::with(slots);
        // The host is scanned here, and not again within a second.
        let leases = Leases::open_to_take(options(&node.config()).unwrap()).unwrap();
        let before = reads();
        leases.take(name("s"), None, Vec::new()).unwrap();
        leases.release(&name("s")).unwrap();
        let files = std::fs::read_dir(node.dir.path().join("state")).unwrap().count();
        (reads() - before, files)
    };
    let ((few, files), (many, more_files)) = (cost(4), cost(4000));
    assert!(many <= few + 8, "{few} reads in a pool of 4, {many} in one of 4000");
    assert_eq!(files, more_files);
}

/// gVisor's pool was below /run, so that a pod came back from a reboot with other IDs than its files. Here there is
/// one block, which rests for no time: nothing but the files of before keeps it from the next pod.
#[test]
fn weakness_8_leases_lie_where_a_reboot_leaves_them_and_a_block_of_before_is_not_given_to_another() {
    let usual = node::WrapperSettings::default();
    assert!(usual.state_dir.starts_with("/var/lib"), "{}", usual.state_dir.display());
    let node = Node::resting(1, 0);
    let boot = |id: &str| {
        let (config, host) = (node.config(), census::HostRoot::new("/"));
        let pool = node::pool::for_wrapper(&config, &host).unwrap();
        let parameters =
            node::ledger::LedgerParameters { state_dir: &config.settings.wrapper.state_dir, pool };
        let options = node::ledger::options(&config, &host, parameters).unwrap();
        ledger::Ledger::open(ledger::Options { boot: ledger::BootId(id.into()), ..options }).unwrap()
    };
    let upper = node.dir.path().join("upper");
    std::fs::create_dir(&upper).unwrap();
    let request = |sandbox, places: &[&Path]| ledger::LeaseRequest {
        places: places.iter().map(|place| place.to_path_buf()).collect(),
        tenure: ledger::Tenure::UntilReboot,
        ..ledger::LeaseRequest::new(name(sandbox))
    };
    let first = boot("one").lease(request("s", &[&upper])).unwrap();
    let after = boot("two");
    // From draining to free it takes two looks.
    let settled = || [after.settle().unwrap(), after.settle().unwrap()].concat();
    for verdict in settled() {
        let expected = ledger::Outcome::InUse(vec![format!("{} still exists", upper.display())]);
        assert_eq!((verdict.lease.uids, verdict.outcome), (first.uids, expected));
    }
    let refused = after.lease(request("t", &[])).unwrap_err();
    assert!(matches!(refused, ledger::LedgerError::Lease { .. }), "{refused}");
    std::fs::remove_dir(&upper).unwrap();
    settled();
    assert_eq!(after.lease(request("t", &[])).unwrap().uids, first.uids, "only the files were in the way");
}
