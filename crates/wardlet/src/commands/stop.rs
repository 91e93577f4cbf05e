use std::time::Duration;

use agent::{Objects, StopRequest, Stored, ask_to_stop};

use super::Session;
use super::run::connect;
use crate::cli::{RunArgs, StopArgs};
use crate::failure::{Answer, Failure};
use crate::run::pods::Run;
use crate::run::runtime::own_endpoint;
use crate::run::{find, threads};
use crate::{place, words};

const PAUSE: Duration = Duration::from_millis(50);

pub(super) fn run(session: &Session, args: &StopArgs) -> Result<Answer, Failure> {
    if !place::is_root() {
        return Err(Failure::unknown("ending pods needs root").with_hint("run this as root"));
    }
    let state = session.node.state_dir();
    let pods = if args.all {
        find::all(state)?
    } else {
        args.pods.iter().map(|called| find::one(state, called)).collect::<Result<Vec<_>, _>>()?
    };
    for pod in &pods {
        if pod.is_tended {
            ask_to_stop(state, &pod.record, StopRequest { grace: args.grace })?;
        }
    }
    let (tended, left): (Vec<&Stored>, Vec<&Stored>) = pods.iter().partition(|pod| pod.is_tended);
    for pod in left {
        threads()?.block_on(end(session, args, pod))?;
        words::say(&format!("{}/{}: ended and removed", pod.record.namespace, pod.record.name));
    }
    for pod in tended {
        await_end(session, pod)?;
        words::say(&format!("{}/{}: ended", pod.record.namespace, pod.record.name));
    }
    Ok(Answer::Holds)
}

/// Whoever looks after it ends it, and stays as long as it is theirs.
fn await_end(session: &Session, pod: &Stored) -> Result<(), Failure> {
    loop {
        let still = find::all(session.node.state_dir())?.into_iter().find(|p| p.record.uid == pod.record.uid);
        let has_ended = |p: &Stored| p.status.as_ref().is_some_and(agent::PodStatus::is_terminated);
        match still {
            None => return Ok(()),
            Some(p) if has_ended(&p) && !p.is_tended => return Ok(()),
            Some(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// Ends a pod that nobody looks after, and removes it.
async fn end(session: &Session, args: &StopArgs, pod: &Stored) -> Result<(), Failure> {
    let own = own_endpoint(&args.run_dir)?;
    let named = pod.record.endpoint.parse().ok().filter(|endpoint| *endpoint != own);
    let as_run = RunArgs {
        runtime_endpoint: named,
        run_dir: args.run_dir.clone(),
        programs: args.programs.clone(),
        ..RunArgs::default()
    };
    let runtime = connect(session, &as_run).await?;
    let ended = async {
        let agent =
            Run { node: &session.node, args: &as_run, runtime: &runtime, objects: Objects::default() };
        let mut handle = agent.agent()?.adopt(pod).await?;
        handle.stop(args.grace.map(Duration::from_secs)).await;
        Ok(handle.remove().await?)
    };
    let ended: Result<(), Failure> = ended.await;
    runtime.end().await;
    ended
}
