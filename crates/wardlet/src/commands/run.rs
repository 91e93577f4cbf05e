use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use agent::Objects;
use ledger::Ledger;
use manifest::Reading;
use runtime::Settings;

use super::{Session, cri};
use crate::cli::{Cli, Command, CriArgs, RunArgs};
use crate::failure::Failure;
use crate::run::pods::Run;
use crate::run::runtime::{Which, own_endpoint};
use crate::run::{admit, detach, threads, view};
use crate::{place, words};

pub(super) fn run(session: &Session, args: &RunArgs) -> Result<ExitCode, Failure> {
    if !place::is_root() {
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
    let left = threads()?.block_on(detach::await_up(state, &names, (&mut child, &log)))?;
    let up = match left {
        detach::Left::Up(up) => up,
        detach::Left::Ended => {
            words::say("all pods have ended already, well");
            Vec::new()
        }
    };
    let views: Vec<_> = up.iter().map(view::PodView::from).collect();
    session.format.print(&views, || view::pods(&up))?;
    Ok(ExitCode::SUCCESS)
}

async fn attached(session: &Session, args: &RunArgs, reading: &Reading) -> Result<ExitCode, Failure> {
    let state = session.node.state_dir();
    let made = std::fs::create_dir_all(state);
    made.map_err(|e| Failure::unknown(format!("cannot make {}: {e}", state.display())))?;
    let runtime = tokio::spawn(which(session, args)?.connect());
    // While the runtime gets ready.
    let ready = get_ready(session, reading);
    let broke_off = |e| Failure::unknown(format!("the runtime broke off: {e}"));
    let runtime = runtime.await.map_err(broke_off)??;
    let done = async {
        let (considered, ledger) = ready?;
        let pods = admit::pods(considered, &runtime.client, (&session.node, args)).await?;
        let objects = Objects::of(&reading.objects);
        Run { node: &session.node, args, runtime: &runtime, objects, ledger }.all(pods).await
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
pub(super) fn which(session: &Session, args: &RunArgs) -> Result<Which, Failure> {
    match &args.runtime_endpoint {
        Some(endpoint) => Ok(Which::Named(endpoint.clone())),
        None => {
            let endpoint = own_endpoint(&args.run_dir)?;
            Ok(Which::BuiltIn(endpoint, Box::new(settings(session, args)?)))
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
    let settings = cri::settings(session, &own)?;
    // Its problems reach us as answers to what it is asked; the rest is for whoever wants to know.
    let tell = if args.verbose { |line: &str| words::say(&format!("runtime: {line}")) } else { |_: &str| {} };
    Ok(Settings { tell, ..settings })
}
