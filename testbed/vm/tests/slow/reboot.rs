//! A node that loses its power: the short form. `tests/node` has the whole.

use crate::rebooting::story::{End, Extent, run};

#[test]
fn after_a_loss_of_power_pods_are_the_same_with_one_restart_and_blocks_are_consistent() {
    run(Extent { pods: 4, ending: 1, ends: &[End::Loss], last_losses: &[] });
}
