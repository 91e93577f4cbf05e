//! A node with twenty pods that is switched off and on, and loses its power.

use crate::rebooting::story::{End, Extent, run};

#[test]
fn after_reboots_twenty_pods_are_the_same_with_one_restart_each_and_blocks_are_consistent() {
    let ends = &[End::Orderly, End::Loss, End::Losses(&[5, 15, 40])];
    run(Extent { pods: 20, ending: 2, ends, last_losses: &[10] });
}
