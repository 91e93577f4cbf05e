//! Deployments whose pods cannot run on the node: the short form. `tests/node` waits for ten minutes.

use std::time::Duration;

use crate::cluster::refused::a_deployment_keeps_its_pods;

#[test]
fn a_deployment_whose_pods_cannot_run_here_keeps_its_pods() {
    a_deployment_keeps_its_pods(Duration::from_secs(30));
}
