use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use agent::{Admitted, Objects, StartReport, Stored};
use ledger::Ledger;
use manifest::Reading;
use plan::{Plan, UserNamespaceMode};
use report::pods::PodView;
use runtime::Settings;
use runtime::connect::{Target, own_endpoint};

use super::{Session, cri};
use crate::cli::{Cli, Command, CriArgs, RunArgs};
use crate::failure::Failure;
use crate::run::pods::Run;
use crate::run::{admit, detach, threads};
use crate::{time, words};

pub(super) fn run(session: &Session, args: &RunArgs) -> Result<ExitCode, Failure> {
    if !node::mounts::is_root() {
        return Err(Failure::unknown("running pods needs root").with_hint("run this as root"));
    }
    if args.detach && args.files.iter().any(|file| file == Path::new("-")) {
        return Err(Failure::unknown("standard input cannot be read by a process in the background")
            .with_hint("write the manifest to a file and name that"));
    }
    let reading = admit::read(args)?;
    if args.detach && std::env::var_os(detach::STAYS).is_none() {
        return detached(session, &reading);
    }
    let done = threads()?.block_on(attached(session, args, &reading))?;
    if let Some(log) = std::env::var_os(detach::STAYS) {
        // Kept where something went wrong.
        let _ = std::fs::remove_file(log);
    }
    Ok(done)
}

fn detached(session: &Session, reading: &Reading) -> Result<ExitCode, Failure> {
    let state = session.node.state_dir();
    let (child, log) = detach::start(state)?;
    let report = threads()?.block_on(detach::await_start(child, &log))?;
    let is_ours = |pod: &Stored| {
        let mut pods = reading.objects.iter().filter(|o| o.pod().is_some());
        pod.is_managed && pods.any(|o| (o.namespace(), o.name()) == (&pod.record.namespace, &pod.record.name))
    };
    let pods: Vec<Stored> = agent::stored(state)?.0.into_iter().filter(is_ours).collect();
    if pods.is_empty() && report == StartReport::Up {
        words::say("all pods have already completed");
    }
    let views: Vec<_> = pods.iter().map(PodView::from).collect();
    session.format.print(&views, || report::pods::pods(&pods, time::now()))?;
    match report {
        StartReport::Up => Ok(ExitCode::SUCCESS),
        StartReport::Failed { pod, cause } => Err(Failure::refused(format!("pod {pod} failed: {cause}"))
            .with_hint("without --detach, `wardlet run` prints the output of its containers")),
        StartReport::Stuck { pod, cause } => {
            let hint = format!(
                "it is tried again in the background: `wardlet ps` shows its state, `wardlet stop {pod}` ends it"
            );
            Err(Failure::refused(format!("pod {pod} does not start: {cause}")).with_hint(hint))
        }
    }
}

async fn attached(session: &Session, args: &RunArgs, reading: &Reading) -> Result<ExitCode, Failure> {
    let state = session.node.state_dir();
    let made = std::fs::create_dir_all(state);
    made.map_err(|e| Failure::unknown(format!("cannot make {}: {e}", state.display())))?;
    let runtime = tokio::spawn(which(session, args)?.connect());
    // While the runtime gets ready.
    let ready = get_ready(session, args, reading);
    let broke_off = |e| Failure::unknown(format!("the runtime failed: {e}"));
    let runtime = runtime.await.map_err(broke_off)??;
    let done = async {
        let (considered, ledger) = ready?;
        let pods = admit::pods(considered, &runtime.client, &session.node, args).await?;
        let isolates = |plan: &Plan| plan.user_namespace.mode != UserNamespaceMode::Host;
        if pods.iter().filter_map(Admitted::expected).any(isolates) {
            runtime.check_isolation()?;
        }
        let objects = Objects::of(&reading.objects);
        Run { node: &session.node, args, runtime: &runtime, objects, ledger }.all(pods, reading).await
    };
    let done = done.await;
    runtime.end().await;
    done
}

/// All that can be done before the runtime answers.
fn get_ready<'a>(
    session: &Session,
    args: &RunArgs,
    reading: &'a Reading,
) -> Result<(admit::Considered<'a>, Arc<Ledger>), Failure> {
    let considered = admit::consider(&session.node, args, reading)?;
    Ok((considered, Arc::new(session.node.ledger_to_lease()?)))
}

/// The runtime that was named, or the built-in one.
pub(super) fn which(session: &Session, args: &RunArgs) -> Result<Target, Failure> {
    match &args.runtime_endpoint {
        Some(endpoint) => Ok(Target::Named(endpoint.clone())),
        None => {
            let endpoint = own_endpoint(&run_dir(session, args.run_dir.as_deref()))?;
            Ok(Target::BuiltIn(endpoint, Box::new(settings(session, args)?)))
        }
    }
}

/// The run directory that was named, or that of the state directory.
pub(super) fn run_dir(session: &Session, named: Option<&Path>) -> PathBuf {
    named.map_or_else(|| session.node.instance().run_dir(), Path::to_owned)
}

/// The built-in runtime as `wardlet cri` runs it, but for what was said here.
fn settings(session: &Session, args: &RunArgs) -> Result<Settings, Failure> {
    use clap::Parser;
    let parsed = Cli::try_parse_from(["wardlet", "cri"]);
    let Ok(Cli { command: Command::Cri(defaults), .. }) = parsed else {
        return Err(Failure::unknown("the built-in runtime has no defaults"));
    };
    let own = CriArgs { run_dir: args.run_dir.clone(), programs: args.programs.clone(), ..defaults };
    cri::settings(session, &own)
}
