//! Workloads of a real cluster on a node that is `wardlet agent`, with ten replicas and a CronJob's own schedule.

use crate::cluster::workloads::{Extent, run};

#[test]
fn ten_pods_of_a_deployment_and_every_other_kind_of_workload_run_in_blocks_of_their_own() {
    run(&Extent { replicas: 10, schedule: true });
}
