//! Random histories: what is ordered and what is said, second by second, as the naive model has it.

use crate::model;
use crate::script;
use crate::world;

use lifecycle::{ContainerState, ContainerStatus, Status};
use model::Seen;
use proptest::prelude::*;
use proptest::test_runner::TestError;
use script::{HORIZON, Script};
use world::World;

fn words(status: &ContainerStatus) -> String {
    let state = match &status.state {
        ContainerState::Waiting { reason, .. } => format!("Waiting:{reason}"),
        ContainerState::Running { .. } => "Running".to_owned(),
        ContainerState::Terminated(exit) => format!("Terminated:{}", exit.code),
    };
    let ContainerStatus { name, ready, started, restart_count, .. } = status;
    format!("{name} {state} ready={ready} started={started} restarts={restart_count}")
}

fn seen(status: &Status) -> Seen {
    let containers = status.init.iter().chain(&status.containers).map(words).collect();
    Seen { phase: format!("{:?}", status.phase), stage: format!("{:?}", status.stage), containers }
}

/// The order within a second is nobody's promise.
fn sorted(mut log: Vec<(u64, String)>) -> Vec<(u64, String)> {
    log.sort();
    log
}

fn compare(script: &Script) -> Result<(), TestCaseError> {
    let (expected, orders) = model::tell(script);
    let mut world = World::new(script);
    let mut second = 0;
    while second < HORIZON {
        let next = world.next().unwrap_or(HORIZON).min(HORIZON);
        let said = seen(world.status.as_ref().unwrap());
        while second < next {
            let expected = &expected[usize::try_from(second).unwrap()];
            prop_assert_eq!(
                &said,
                expected,
                "second {}: orders {:?}, the model's {:?}",
                second,
                world.log,
                orders
            );
            second += 1;
        }
        if next < HORIZON {
            world.go_to(next);
        }
    }
    prop_assert_eq!(sorted(world.log), sorted(orders));
    Ok(())
}

#[test]
fn a_pod_lives_as_the_naive_model_says_in_every_second_of_random_histories() {
    let mut runner = script::runner(script::rounds() * 1000);
    match runner.run(&script::script(), |script| compare(&script)) {
        Err(TestError::Fail(why, script)) => panic!("{why}\n{script:?}"),
        result => result.unwrap(),
    }
}
