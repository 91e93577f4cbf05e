//! The lease of a pod that was just made, swept up.
//!
//! `ids gc` read the records of `wardlet-oci` without the ledger's lock. A create that replaced a record of a crash, and got
//! its lease, between the look at that record and the release lost the lease while its pod ran.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use ids::allocator::State;
use ledger::{Holder, LeaseRequest, Ledger, OpenMode, Options};
use node::{Location, Node};
use oci_records::{Creator, Record, Records};
use serde_json::json;
use testkit::wait_until;

/// Half as many as the pool has blocks.
const PODS: u64 = 40;
const FIRST: u64 = 1_509_949_440;

fn record(name: &str, creator: Creator) -> Record {
    let record = json!({
        "version": 1, "root": "/r", "container": name, "sandbox": name,
        "pod": {"namespace": "n", "name": "p", "uid": "u"},
        "bundle": "/b", "config": "/b/config.json", "pidFile": "/nowhere/pid",
        "creator": creator, "standing": {"ward": {"holder": name, "ids": null}},
    });
    serde_json::from_value(record).unwrap()
}

/// What a create does to have its lease.
fn lease(ledger: &Ledger, records: &Records, record: &Record) {
    assert!(records.claim(record).unwrap());
    ledger.lease(LeaseRequest::new(Holder::new(record.container.as_str()).unwrap())).unwrap();
}

#[test]
fn a_create_during_a_sweep_keeps_its_lease() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let (run, state) = (path("run"), path("state"));
    let config = format!(
        "userNamespaces: {{pool: {{uids: [\"{FIRST}-{}\"]}}}}\n\
         wrapper: {{runDir: {}, user_namespace_state_dir: {}}}\n",
        FIRST + 2 * PODS * 65_536 - 1,
        run.display(),
        state.display()
    );
    fs::write(path("config.yaml"), config).unwrap();
    let config = path("config.yaml");
    let node =
        Node::open(Location { config: Some(&config), host_root: Path::new("/"), state_dir: &state }).unwrap();
    let records = Records::new(&run);
    let names: Vec<String> = (0..PODS).map(|number| format!("pod{number}")).collect();
    let stale = node.ledger().unwrap();
    for name in &names {
        lease(&stale, &records, &record(name, Creator::new(u32::MAX, 1)));
    }
    drop(stale);

    let mut gc = Command::new(env!("CARGO_BIN_EXE_wardlet"));
    gc.args(["ids", "gc", "--config"]).arg(&config).arg("--state-dir").arg(&state);
    let mut gc = gc.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("the sweep has begun", || records.all().unwrap().0.len() < names.len());
    // Creates of all these names, as they come between two changes of the ledger.
    let terms = node::ledger::LedgerParameters { state_dir: &state, pool: node.pool().unwrap() };
    let options = node::ledger::options(&node.config, node.host_root(), terms).unwrap();
    let creating = Ledger::open(Options { mode: OpenMode::Exclusive, ..options }).unwrap();
    for name in &names {
        lease(&creating, &records, &record(name, Creator::own().unwrap()));
    }
    drop(creating);
    assert!(gc.wait().unwrap().success());

    let leases = node.leases().unwrap().unwrap();
    let is_held = |name: &&String| {
        leases.iter().any(|lease| {
            lease.state == State::Leased && lease.holder.as_ref().is_some_and(|held| held.as_str() == **name)
        })
    };
    let lost: Vec<_> = names.iter().filter(|name| !is_held(name)).collect();
    assert_eq!(lost, Vec::<&String>::new(), "these pods run, and their blocks are not theirs");
    assert_eq!(records.all().unwrap().0.len(), names.len());
}
