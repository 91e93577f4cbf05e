//! Workloads of a real cluster on a node that is `wardlet agent`: the short form. `tests/node` has the whole.

use crate::cluster::workloads::{Extent, run};

#[test]
fn every_kind_of_workload_runs_in_blocks_of_its_own_and_returns_them() {
    run(&Extent { replicas: 3, schedule: false });
}
