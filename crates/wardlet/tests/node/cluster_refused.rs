//! Deployments whose pods cannot run on the node, for as long as it takes a controller to lose patience.

use std::time::Duration;

use crate::cluster::refused::a_deployment_keeps_its_pods;

#[test]
fn a_deployment_whose_pods_cannot_run_here_has_the_same_pods_after_ten_minutes() {
    a_deployment_keeps_its_pods(Duration::from_secs(600));
}
