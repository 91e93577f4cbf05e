//! The kubelet's node with a pod of each sort, taken over and handed back.

use crate::cluster::takeover::{Extent, run};

#[test]
fn pods_of_a_kubelet_run_on_when_its_node_is_taken_over_and_handed_back() {
    run(Extent { web: 1, full: 1, host: 1 });
}
