//! Wild histories: a node that forgets, loses and repeats. What is promised holds in every step.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, missing_docs, unreachable_pub)]

mod script;
mod world;

use lifecycle::{Phase, Stage};
use proptest::test_runner::{TestCaseError, TestError};
use script::{HORIZON, Script};
use world::World;

/// Lives through a history and on until nothing happens any more, or for long enough.
fn live(script: &Script) -> World<'_> {
    let mut world = World::watched(script);
    while let Some(next) = world.next().filter(|next| *next < 3 * HORIZON) {
        world.go_to(next);
    }
    world
}

fn check(script: &Script) -> Result<(), TestCaseError> {
    let world = live(script);
    let status = world.status.as_ref().unwrap();
    let is_to_end = world.pod.deletion().is_some() || world.pod.eviction().is_some();
    if is_to_end && status.stage != Stage::Terminated {
        return Err(TestCaseError::fail(format!("it never ended: {status:?} {:?}", world.log)));
    }
    if is_to_end && !matches!(status.phase, Phase::Succeeded | Phase::Failed) {
        return Err(TestCaseError::fail("it ended without a final phase"));
    }
    Ok(())
}

#[test]
fn what_is_promised_holds_in_every_step_of_wild_histories() {
    let mut runner = script::runner(script::rounds() * 500);
    match runner.run(&script::wild_script(), |script| check(&script)) {
        Err(TestError::Fail(why, script)) => panic!("{why}\n{script:?}"),
        result => result.unwrap(),
    }
}
