//! The kubelet's node with 20 running pods, taken over and handed back.

use crate::cluster::takeover::{Extent, run};

#[test]
fn a_kubelets_node_is_taken_over_and_handed_back_while_its_pods_run() {
    run(Extent { web: 7, full: 7, host: 6 });
}
