//! One file for each command: it asks the node and prints the answer.

mod agent;
mod audit;
mod check;
mod config;
mod controller;
mod cri;
mod doctor;
mod exec;
mod explain;
mod export;
mod gc;
mod image;
mod import;
mod lease;
mod list;
mod logs;
mod owner;
mod ps;
mod release;
mod run;
mod stop;
mod translate;
mod verify;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use node::{GateFlags, GatesError, Location, Node, Settings};
use plan::Gates;

use crate::cli::{Cli, Command, Globals, IdsCommand};
use crate::failure::{Answer, Failure};
use crate::output::Format;
use crate::words;

/// What every command is given.
struct Session {
    node: Node,
    format: Format,
}

impl Session {
    fn new(globals: &Globals) -> Result<Self, Failure> {
        let location = Location {
            config: globals.config.as_deref(),
            host_root: &globals.host_root,
            state_dir: &globals.state_dir,
        };
        Ok(Self { node: Node::open(location)?, format: globals.output })
    }
}

/// Whether a command acts or only says what it would do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Act,
    DryRun,
}

impl Mode {
    fn dry_run_if(dry_run: bool) -> Self {
        if dry_run { Self::DryRun } else { Self::Act }
    }
}

pub(crate) fn run(cli: &Cli) -> Result<ExitCode, Failure> {
    let session = Session::new(&cli.globals)?;
    let answer = match &cli.command {
        // What they run has an exit code of its own.
        Command::Run(args) => return run::run(&session, args),
        Command::Exec(args) => return exec::run(&session, args),
        // It works in a child process, with a session of that one's own.
        Command::Verify(args) => return verify::run(&cli.globals, args),
        Command::Agent(args) => agent::run(&session, args),
        Command::Config => config::run(&session),
        Command::Controller(args) => controller::run(args),
        Command::Doctor(args) => doctor::run(&session, args),
        Command::Explain(args) => explain::run(&session, args),
        Command::Image(args) => image::run(&session, args),
        Command::Check(args) => check::run(&session, args),
        Command::Cri(args) => cri::run(&session, args),
        Command::Ps => ps::run(&session),
        Command::Logs(args) => logs::run(&session, args),
        Command::Stop(args) => stop::run(&session, args),
        Command::Ids(command) => ids(&session, command),
    };
    answer.map(ExitCode::from)
}

fn ids(session: &Session, command: &IdsCommand) -> Result<Answer, Failure> {
    match command {
        IdsCommand::Lease(args) => lease::run(session, args),
        IdsCommand::Release { holder } => release::run(session, holder),
        IdsCommand::List => list::run(session),
        IdsCommand::Translate(args) => translate::run(session, args),
        IdsCommand::Owner { host_id } => owner::run(session, *host_id),
        IdsCommand::Audit => audit::run(session),
        IdsCommand::Gc(args) => gc::run(session, args),
        IdsCommand::Import { dir, dry_run } => import::run(session, dir, Mode::dry_run_if(*dry_run)),
        IdsCommand::Export { dir } => export::run(session, dir),
    }
}

/// The `pods` directory of the kubelet whose root, or whose `pods` directory itself, is `dir`.
fn pods_under(dir: &Path) -> Result<PathBuf, Failure> {
    let pods = dir.join("pods");
    if pods.is_dir() {
        return Ok(pods);
    }
    if dir.is_dir() {
        return Ok(dir.to_owned());
    }
    Err(Failure::unknown(format!("{} is no directory", dir.display()))
        .with_hint("name the kubelet's root directory, such as /var/lib/kubelet"))
}

/// These gates with those of the command line; what is odd about them is said.
pub(crate) fn gates(settings: &Settings, flags: GateFlags<'_>) -> Result<Gates, Failure> {
    let wrong =
        |error: GatesError| Failure::unknown(format!("--feature-gates: {error}")).with_hint(error.hint());
    let resolved = settings.gates(flags).map_err(wrong)?;
    resolved.warnings.iter().for_each(|text| words::warning(text));
    Ok(resolved.gates)
}
