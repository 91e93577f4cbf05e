//! Wild histories: a node that forgets, loses and repeats. What is promised holds in every step.

use crate::script;
use crate::world;

use std::time::Duration;

use lifecycle::{Container, ContainerName, ContainerRestart, Network, Phase, RestartPolicy, Spec, Stage};
use proptest::test_runner::{TestCaseError, TestError};
use script::{Chaos, HORIZON, Script};
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

/// Its definition changed, the one before has ended and the next one is being started when all is forgotten: that it
/// would not be started again for its policy's sake is no end of the pod.
#[test]
fn a_container_that_is_being_started_is_waited_for_by_whoever_has_forgotten_why() {
    let mut life = script::quiet_life();
    (life.start_takes, life.obeys_after) = (2, 4);
    let container = Container {
        name: ContainerName::new("c0").unwrap(),
        revision: 0,
        restart: Some(ContainerRestart { policy: RestartPolicy::Never, rules: vec![] }),
        startup: None,
        liveness: None,
        readiness: None,
        post_start: false,
        pre_stop: false,
    };
    let spec = Spec {
        restart: RestartPolicy::Always,
        init: vec![],
        containers: vec![container],
        ephemeral: vec![],
        grace: Duration::from_secs(4),
        active_deadline: None,
        readiness_gates: vec![],
        network: Network::Own,
    };
    for forgets in 31..45 {
        let chaos = vec![(30, Chaos::Redefine { container: 0 }), (forgets, Chaos::Forget)];
        let lives = vec![vec![life.clone()]];
        let (spec, events) = (spec.clone(), vec![]);
        check(&Script { spec, lives, events, chaos, make_takes: 0, make_fails: 0, stop_takes: 0 }).unwrap();
    }
}
