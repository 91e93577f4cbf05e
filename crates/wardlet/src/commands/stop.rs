use std::sync::Arc;
use std::time::Duration;

use agent::{Objects, StopRequest, Stored, ask_to_stop};
use runtime::connect::own_endpoint;

use super::Session;
use super::run::{run_dir, which};
use crate::cli::{RunArgs, StopArgs};
use crate::failure::{Answer, Failure};
use crate::run::pods::Run;
use crate::run::{find, threads};
use crate::words;

const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn run(session: &Session, args: &StopArgs) -> Result<Answer, Failure> {
    if !node::mounts::is_root() {
        return Err(Failure::unknown("stopping pods needs root").with_hint("run this as root"));
    }
    let state = session.node.state_dir();
    let pods = if args.all {
        find::all(state)?
    } else {
        args.pods.iter().map(|called| find::one(state, called)).collect::<Result<Vec<_>, _>>()?
    };
    let mut failed = None;
    for pod in pods.iter().filter(|pod| pod.is_managed) {
        ask_to_stop(state, &pod.record, StopRequest { grace: args.grace })?;
    }
    // Pods without a supervisor first: the supervisors stop the others concurrently.
    let (managed, left): (Vec<&Stored>, Vec<&Stored>) = pods.iter().partition(|pod| pod.is_managed);
    for pod in left.into_iter().chain(managed) {
        let title = format!("{}/{}", pod.record.namespace, pod.record.name);
        let grace = args.grace.unwrap_or(u64::MAX).min(pod.grace().as_secs());
        let waits = format!("{title}: waiting for its containers to end, at most {grace} s (grace period)");
        match words::unless_soon(waits, || see_off(session, args, pod)) {
            Ok(how) => words::say(&format!("{title}: {how}")),
            Err(failure) => {
                words::warning(&format!("{title}: {}", failure.message()));
                failed = Some(failure);
            }
        }
    }
    agent::sweep_state(state)?;
    failed.map_or(Ok(Answer::Holds), Err)
}

/// Waits until the pod's supervisor has stopped it; stops it here if it has none, or no longer.
fn see_off(session: &Session, args: &StopArgs, pod: &Stored) -> Result<&'static str, Failure> {
    let mut is_managed = pod.is_managed;
    loop {
        if !is_managed {
            threads()?.block_on(end(session, args, pod))?;
            return Ok("ended and removed");
        }
        std::thread::sleep(PAUSE);
        match agent::stored_one(session.node.state_dir(), pod.record.uid.as_str())? {
            None => return Ok("ended and removed"),
            Some(now)
                if !now.is_managed && now.status.as_ref().is_some_and(agent::PodStatus::is_terminated) =>
            {
                return Ok("ended");
            }
            Some(now) => is_managed = now.is_managed,
        }
    }
}

/// Stops a pod without a supervisor, and removes it.
async fn end(session: &Session, args: &StopArgs, pod: &Stored) -> Result<(), Failure> {
    let own = own_endpoint(&run_dir(session, args.run_dir.as_deref()))?;
    let named = pod.record.endpoint.parse().ok().filter(|endpoint| *endpoint != own);
    let as_run = RunArgs {
        runtime_endpoint: named,
        run_dir: args.run_dir.clone(),
        programs: args.programs.clone(),
        ..RunArgs::default()
    };
    let ledger = Arc::new(session.node.ledger()?);
    let runtime = which(session, &as_run)?.connect().await?;
    let ended = async {
        let objects = Objects::default();
        let agent = Run { node: &session.node, args: &as_run, runtime: &runtime, objects, ledger };
        let mut handle = agent.agent()?.end(pod, args.grace.map(Duration::from_secs)).await?;
        Ok(handle.remove().await?)
    };
    let ended: Result<(), Failure> = ended.await;
    runtime.end().await;
    ended
}
