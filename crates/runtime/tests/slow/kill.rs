//! Server, monitor and helper killed at system call N while a pod starts, runs and stops. Needs root and strace.
//!
//! Each run is recorded once; then it is repeated, and who is in turn is killed at a call that changes something.
//! strace counts the calls of each thread on its own. What fails is done again as a kubelet does it, the pod
//! comes to its end with its exit code, and nothing is left of it. `WARDLET_ROUNDS` bounds how many calls are
//! tried; they are spread over the whole run.

use crate::support;

use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::Signal;
use support::killing::{Rigged, Tracer, changes, chosen};
use support::story::{Ends, Keeper, Monitor, Story};
use support::traces::Traces;
use support::{House, Options, signal};
use testkit::{Call, Dice, rounds_or};
use tokio::sync::Mutex;

const NAME: &str = "killed";

/// A house with a network in which a pod was before, and what is always there since.
async fn scene() -> (Keeper, Traces) {
    let options = Options { network: "bridge".into(), ..Options::default() };
    let keeper = Keeper(Mutex::new(House::open(options).await));
    Story::new(&keeper, NAME, 0).await.tell().await;
    let before = Traces::of(&*keeper.0.lock().await);
    (keeper, before)
}

async fn nothing_is_left(keeper: &Keeper, before: &Traces, after: &str) {
    keeper.client().await;
    let house = keeper.0.lock().await;
    let since = std::time::Instant::now();
    // A monitor that was told to end may take a moment for it.
    while Traces::of(&house) != *before && since.elapsed() < std::time::Duration::from_secs(10) {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!(Traces::of(&house), *before, "after {after}");
}

async fn server(keeper: &Keeper) -> u32 {
    keeper.client().await;
    keeper.0.lock().await.server().unwrap()
}

fn ends(round: usize) -> Ends {
    if round.is_multiple_of(2) { Ends::WhenAsked } else { Ends::ByItself }
}

/// What the server does for a whole pod.
async fn calls_of_the_server(keeper: &Keeper) -> Vec<Call> {
    let log = keeper.0.lock().await.dir.join("strace");
    let tracer = Tracer::on(server(keeper).await, &["-o".into(), log.display().to_string()]).await;
    Story::new(keeper, NAME, 0).await.tell().await;
    drop(tracer);
    let found = changes(&log);
    std::fs::remove_file(&log).unwrap();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_at_any_call_loses_nothing_and_leaves_nothing() {
    let mut dice = Dice::thrown("server");
    let (keeper, before) = scene().await;
    let calls = calls_of_the_server(&keeper).await;
    assert!(calls.len() > 30, "the recording shows too little: {calls:?}");
    let mut killed = 0;
    let tried = chosen(&calls, rounds_or(12), &mut dice);
    for (round, call) in tried.iter().enumerate() {
        println!("server, killed at {call}");
        let pid = server(&keeper).await;
        let tracer = Tracer::on(pid, &call.kill()).await;
        let mut story = Story::new(&keeper, NAME, 0).await;
        story.ends = ends(round);
        story.tell().await;
        drop(tracer);
        killed += usize::from(keeper.0.lock().await.server() != Some(pid));
        nothing_is_left(&keeper, &before, &format!("{call:?}")).await;
    }
    println!("{} calls, {} tried, {killed} times killed", calls.len(), tried.len());
    assert!(killed * 2 > tried.len(), "only {killed} of {} runs were killed", tried.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_killed_at_any_moment_loses_nothing_and_leaves_nothing() {
    let mut dice = Dice::thrown("server at moments");
    let (keeper, before) = scene().await;
    let begun = std::time::Instant::now();
    Story::new(&keeper, NAME, 0).await.tell().await;
    let length = begun.elapsed();
    for round in 0..rounds_or(12) {
        let pid = server(&keeper).await;
        let moment = length * u32::try_from(dice.below(1000)).unwrap() / 1000;
        println!("server, killed after {moment:?}");
        let killing = tokio::spawn(async move {
            tokio::time::sleep(moment).await;
            signal(pid, Signal::KILL);
        });
        let mut story = Story::new(&keeper, NAME, 0).await;
        story.ends = ends(round);
        story.tell().await;
        killing.await.unwrap();
        nothing_is_left(&keeper, &before, &format!("{moment:?}")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_killed_at_any_call_leaves_nothing_and_its_loss_is_told() {
    let mut dice = Dice::thrown("monitor");
    let (keeper, before) = scene().await;
    let mut story = Story::new(&keeper, NAME, 0).await;
    story.monitor = Monitor::MayBeKilled;
    let monitor = async |sandbox: &str| keeper.0.lock().await.monitor(sandbox).process.pid;
    let sandbox = story.sandbox().await;
    let log = keeper.0.lock().await.dir.join("strace");
    let tracer = Tracer::on(monitor(&sandbox).await, &["-o".into(), log.display().to_string()]).await;
    story.go_on(&sandbox).await;
    drop(tracer);
    let calls = changes(&log);
    std::fs::remove_file(&log).unwrap();
    assert!(calls.len() > 10, "the recording shows too little: {calls:?}");
    for (round, call) in chosen(&calls, rounds_or(10), &mut dice).iter().enumerate() {
        println!("monitor, killed at {call}");
        story.ends = ends(round);
        let sandbox = story.sandbox().await;
        let tracer = Tracer::on(monitor(&sandbox).await, &call.kill()).await;
        story.go_on(&sandbox).await;
        drop(tracer);
        nothing_is_left(&keeper, &before, &format!("{call:?}")).await;
    }
    println!("{} calls", calls.len());
}

/// Before it has written down who it is: nobody could find it by its own record.
#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_killed_while_it_becomes_one_leaves_nothing() {
    let mut dice = Dice::thrown("monitor's launch");
    let (keeper, before) = scene().await;
    let mut story = Story::new(&keeper, NAME, 0).await;
    story.monitor = Monitor::MayBeKilled;
    // With a PID namespace of the pod's, whose first process outlives its monitor.
    support::pods::options(&mut story.config).pid = cri::NamespaceMode::Pod.into();
    let runs = keeper.0.lock().await.run().join("sandboxes");
    let mut killed = 0;
    for _ in 0..rounds_or(10) {
        let (runs, delay) = (runs.clone(), moments(dice.below(20_000)));
        let killing = tokio::task::spawn_blocking(move || killed_after(&runs, delay));
        let sandbox = story.sandbox().await;
        killed += usize::from(killing.await.unwrap());
        story.go_on(&sandbox).await;
        nothing_is_left(&keeper, &before, &format!("a launch killed after {delay:?}")).await;
    }
    println!("{killed} killed");
    assert!(killed > 0, "nobody was killed");
}

/// Kills all that are monitors below this directory, or are about to become one, so long after the first of them
/// is seen.
fn killed_after(runs: &std::path::Path, delay: std::time::Duration) -> bool {
    let since = std::time::Instant::now();
    while support::traces::monitors(runs).is_empty() {
        if since.elapsed() > support::PATIENCE {
            return false;
        }
    }
    std::thread::sleep(delay);
    let found = support::traces::monitors(runs);
    found.iter().for_each(|pid| signal(*pid, Signal::KILL));
    !found.is_empty()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_killed_at_any_call_leaves_nothing() {
    let mut dice = Dice::thrown("helper");
    let (keeper, _) = scene().await;
    let rigged = Rigged::install(&mut *keeper.0.lock().await);
    keeper.0.lock().await.kill();
    keeper.client().await;
    let before = Traces::of(&*keeper.0.lock().await);
    let log = ["-o".to_owned(), rigged.log().display().to_string()];
    for (kind, many) in [("run", rounds_or(12)), ("exec", rounds_or(4)), ("delete", rounds_or(6))] {
        rigged.arm(kind, &log);
        Story::new(&keeper, NAME, 0).await.tell().await;
        assert!(rigged.fired(kind), "{kind} is not used");
        let calls = changes(&rigged.log());
        std::fs::remove_file(rigged.log()).unwrap();
        println!("{kind}: {} calls", calls.len());
        for call in chosen(&calls, many, &mut dice) {
            println!("{kind}, killed at {call}");
            rigged.arm(kind, &call.kill());
            Story::new(&keeper, NAME, 0).await.tell().await;
            assert!(rigged.fired(kind), "{kind} is not used");
            nothing_is_left(&keeper, &before, &format!("{kind} {call:?}")).await;
        }
    }
}

/// Whoever is killed, by chance and by number, only our own.
#[tokio::test(flavor = "multi_thread")]
async fn twenty_pods_come_to_their_end_while_everybody_is_killed() {
    let mut dice = Dice::thrown("everybody");
    let (keeper, before) = scene().await;
    let mut kills = [0; 3];
    for _ in 0..rounds_or(3) {
        let over = AtomicBool::new(false);
        let pods = async {
            all_at_once((0..20).map(async |n| {
                let mut story = Story::new(&keeper, &format!("pod-{n}"), n).await;
                story.monitor = Monitor::MayBeKilled;
                story.ends = ends(usize::try_from(n).unwrap());
                story.tell().await;
            }))
            .await;
            over.store(true, Ordering::Relaxed);
        };
        let killer = async {
            while !over.load(Ordering::Relaxed) {
                tokio::time::sleep(moments(50_000 + dice.below(200_000))).await;
                // A server takes longest to come back, and all wait for it.
                let who = [0, 1, 1, 2, 2, 2][dice.below(6)];
                kills[who] += usize::from(kill_one(&keeper, who, &mut dice).await);
            }
        };
        tokio::join!(pods, killer);
        nothing_is_left(&keeper, &before, "a round").await;
    }
    println!("killed: {} servers, {} monitors, {} helpers", kills[0], kills[1], kills[2]);
    assert!(kills.iter().all(|kills| *kills > 0), "somebody was never killed: {kills:?}");
}

/// A server, a monitor or a helper.
async fn kill_one(keeper: &Keeper, who: usize, dice: &mut Dice) -> bool {
    let (mut server, runs, dir) = {
        let mut house = keeper.0.lock().await;
        (house.server(), house.run().join("sandboxes"), house.dir.clone())
    };
    // Helpers are there for a moment only.
    for _ in 0..20 {
        let found = match who {
            0 => server.take().into_iter().collect(),
            1 => support::traces::monitors(&runs),
            _ => support::traces::helpers(&dir),
        };
        if let Some(pid) = found.get(dice.below(found.len())) {
            signal(*pid, Signal::KILL);
            return true;
        }
        tokio::time::sleep(moments(5_000)).await;
    }
    false
}

fn moments(micros: usize) -> std::time::Duration {
    std::time::Duration::from_micros(u64::try_from(micros).unwrap())
}

async fn all_at_once(all: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut all: Vec<_> = all.map(Box::pin).collect();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}
