//! SELinux category pairs without a block, as the built-in runtime takes them from the ledger.

use crate::support;

use std::path::PathBuf;
use std::sync::Arc;

use ids::BlockLength;
use ids::pool::IdPool;
use ids::witness::{Sighting, Witness, WitnessError};
use ledger::{BootId, Holder, Ledger, Options, PairInUse, PairOrigin, PairUser};
use selinux::CategoryPair;
use serde_json::json;
use support::Host;

struct Nothing;

impl Witness for Nothing {
    fn look(&self) -> Result<Sighting, WitnessError> {
        Ok(Sighting::default())
    }

    fn remaining(&self, _: &[PathBuf]) -> Result<Vec<PathBuf>, WitnessError> {
        Ok(vec![])
    }
}

fn ledger(host: &Host) -> Ledger {
    let pool = IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap();
    Ledger::open(Options::new(&host.state(), pool, BootId("boot-1".to_owned()), Arc::new(Nothing))).unwrap()
}

fn user(name: &str) -> PairUser {
    PairUser { holder: Holder::new(name).unwrap(), place: format!("/runtime/sandboxes/{name}").into() }
}

fn pair(low: u32, high: u32) -> CategoryPair {
    CategoryPair::new(low, high).unwrap()
}

#[test]
fn pairs_without_a_block_are_listed_below_the_leases() {
    let host = Host::new();
    host.done("ids lease web");
    ledger(&host).reserve_pair(user("box"), pair(7, 8)).unwrap();
    let list = host.run("ids list").stdout;
    let expected = "web     leased  65536-131071  same  65536  <1m

SELinux categories without a block:
HOLDER  STATE  CATEGORIES  ORIGIN  SINCE
box     held   c7,c8       named   <1m

pool: subuid";
    assert!(list.contains(expected), "{list}");
    assert_eq!(host.json("ids list").as_array().unwrap().len(), 1, "a list of leases as ever");
    let place = "/runtime/sandboxes/box";
    let audit = host.json("ids audit");
    let expected = json!([{
        "holder": "box", "categories": "c7,c8", "origin": "named", "state": "held", "place": place,
        "since": "TIME",
    }]);
    assert_eq!(audit["categoryPairs"], expected);
}

#[test]
fn a_collection_frees_pairs_of_earlier_boots_whose_sandbox_is_gone() {
    let host = Host::new();
    for name in ["gone", "kept"] {
        ledger(&host).allocate_pair(user(name), vec![]).unwrap();
    }
    host.write("runtime/sandboxes/kept/sandbox.json", "{}");
    host.shows("ids gc", "nothing to free\n");
    host.boot("boot-2");
    let outcome = |gc: &serde_json::Value| -> Vec<(String, bool)> {
        let pairs = gc["categoryPairs"].as_array().unwrap().iter();
        pairs.map(|p| (p["holder"].as_str().unwrap().to_owned(), p["freed"].as_bool().unwrap())).collect()
    };
    let expected = [("gone".to_owned(), true), ("kept".to_owned(), false)];
    assert_eq!(outcome(&host.json("ids gc --dry-run")), expected);
    let gc = host.json("ids gc");
    assert_eq!(outcome(&gc), expected);
    assert_eq!(gc["categoryPairs"][1]["keptBy"], "/runtime/sandboxes/kept still exists");
    let left = host.run("ids gc").stdout;
    assert!(left.starts_with("kept: SELinux categories c") && left.lines().count() == 1, "{left}");
}

#[test]
fn a_pair_that_two_have_is_a_violation() {
    let host = Host::new();
    let known = |name: &str, origin| PairInUse { user: user(name), pair: pair(7, 8), origin };
    let both = vec![known("chosen", PairOrigin::Allocated), known("named", PairOrigin::Named)];
    ledger(&host).adopt_pairs("/runtime".into(), both).unwrap();
    let report = host.json("verify");
    let labels: Vec<_> =
        report["violations"].as_array().unwrap().iter().filter(|v| v["what"] == "label").collect();
    assert_eq!(labels.len(), 1, "{report}");
    assert_eq!(labels[0]["expected"], "categories c7,c8 of chosen alone");
    assert_eq!(labels[0]["found"], "named has them");
    ledger(&host).release_pair(Holder::new("named").unwrap()).unwrap();
    let report = host.json("verify");
    assert!(!report["violations"].as_array().unwrap().iter().any(|v| v["what"] == "label"), "{report}");
}
