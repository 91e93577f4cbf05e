use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use agent::Objects;
use ledger::Ledger;
use manifest::Reading;
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
    let pods = reading.objects.iter().filter(|o| o.pod().is_some());
    let names: Vec<_> = pods.map(|o| (o.namespace().to_owned(), o.name().to_owned())).collect();
    let state = session.node.state_dir();
    let (mut child, log) = detach::start(state)?;
    let left = threads()?.block_on(detach::await_up(state, &names, &mut child, &log))?;
    let up = match left {
        detach::Left::Up(up) => up,
        detach::Left::Ended => {
            words::say("all pods have already completed");
            Vec::new()
        }
    };
    let views: Vec<_> = up.iter().map(PodView::from).collect();
    session.format.print(&views, || report::pods::pods(&up, time::now()))?;
    Ok(ExitCode::SUCCESS)
}

async fn attached(session: &Session, args: &RunArgs, reading: &Reading) -> Result<ExitCode, Failure> {
    let state = session.node.state_dir();
    let made = std::fs::create_dir_all(state);
    made.map_err(|e| Failure::unknown(format!("cannot make {}: {e}", state.display())))?;
    let runtime = tokio::spawn(which(session, args)?.connect());
    // While the runtime gets ready.
    let ready = get_ready(session, reading);
    let broke_off = |e| Failure::unknown(format!("the runtime failed: {e}"));
    let runtime = runtime.await.map_err(broke_off)??;
    let done = async {
        let (considered, ledger) = ready?;
        let pods = admit::pods(considered, &runtime.client, &session.node, args).await?;
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
    reading: &'a Reading,
) -> Result<(admit::Considered<'a>, Arc<Ledger>), Failure> {
    let considered = admit::consider(&session.node, reading)?;
    Ok((considered, Arc::new(session.node.ledger_to_lease()?)))
}

/// The runtime that was named, or the built-in one.
pub(super) fn which(session: &Session, args: &RunArgs) -> Result<Target, Failure> {
    match &args.runtime_endpoint {
        Some(endpoint) => Ok(Target::Named(endpoint.clone())),
        None => {
            let endpoint = own_endpoint(&args.run_dir)?;
            Ok(Target::BuiltIn(endpoint, Box::new(settings(session, args)?)))
        }
    }
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
