//! One more process is held as the first one is, whichever engine started that. Needs root, busybox, runc.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs)]

mod support;

use bundle::Engine;
use support::debians_runc;
use support::same::{CASES, one_more_is_as_the_first};

#[test]
fn under_debians_runc_one_more_process_is_held_as_the_first_one() {
    for case in CASES {
        one_more_is_as_the_first(&debians_runc(), case);
    }
}

#[test]
fn under_the_built_in_engine_one_more_process_is_held_as_the_first_one() {
    for case in CASES {
        one_more_is_as_the_first(&Engine::Libcontainer, case);
    }
}
