//! The same as `root_same` with the testbed's newer runc. Needs root and the component, or where it was brought to.

use crate::support;

use std::path::PathBuf;

use container::Engine;
use support::same::{CASES, one_more_is_as_the_first};

#[test]
fn under_a_newer_runc_one_more_process_is_held_as_the_first_one() {
    let brought = std::env::var_os("WARDLET_TEST_RUNC").map(PathBuf::from);
    let path = brought.unwrap_or_else(|| testbed::cache::program("runc", "runc").unwrap());
    for case in CASES {
        one_more_is_as_the_first(&Engine::Oci { path: path.clone(), args: vec![] }, case);
    }
}
