//! The program `testbed`: parses, calls, prints.

mod cli;
mod e2e;
mod node;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use testbed::cluster::{launch, record, supervise, sweep, testbed as cluster};
use testbed::{
    Containerd, Error, Lifetime, Options, Parts, Record, Testbed, catalogue, compare_cri as comparison,
    conformance, install, recorder, registry, yardstick,
};

use cli::{Cli, Up, Verb};
use node::{Node, runtime};

fn main() -> ExitCode {
    match run(Cli::parse().command) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            let known = error.downcast_ref::<Error>();
            if let Some(hint) = known.and_then(Error::hint) {
                eprintln!("\nhint: {hint}");
            }
            let unknowable = known.is_some_and(|error| matches!(error, Error::CannotBeHad { .. }));
            ExitCode::from(if unknowable { 2 } else { 1 })
        }
    }
}

fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Install { names } => install_components(&names)?,
        Verb::Up(options) => up(options)?,
        Verb::Down { all: true, .. } => down(&record::names())?,
        Verb::Down { name, .. } => down(&[name])?,
        Verb::Status => status()?,
        Verb::Exec { name, command } => return exec(&name, &command),
        Verb::Logs { name, part } => {
            let path = Record::read(&name)?.places.log(&part);
            print!("{}", std::fs::read_to_string(&path).with_context(|| path.display().to_string())?);
        }
        Verb::ShowUserns(node) => show_userns(node)?,
        Verb::E2eUserns(node) => return e2e::e2e_userns(node),
        Verb::E2e(options) => return e2e::e2e(options),
        Verb::E2eBlocks(options) => return e2e::e2e_blocks(options),
        Verb::Critest { containerd, focus } => return critest(containerd, &focus),
        Verb::CompareCri { agent, short, keep, from } => {
            let agent = agent.then_some(comparison::Against::Agent);
            let against: Vec<_> = [comparison::Against::Run].into_iter().chain(agent).collect();
            let extent = if short { comparison::Extent::Short } else { comparison::Extent::Whole };
            return compare_cri(&against, extent, keep.as_deref(), from.as_deref());
        }
        Verb::ConformanceReport { results, document } => conformance::write(&results, &document)?,
        Verb::InternalKeep { name } => supervise::keep(&name)?,
        Verb::InternalEnter { name } => launch::enter(&name)?,
        Verb::InternalSupervise { name } => supervise::supervise(&name)?,
        Verb::InternalTokens { name } => registry::serve_tokens(&name)?,
        Verb::InternalFaults { name } => registry::serve_faults(&name)?,
        Verb::InternalRecord { name } => recorder::serve(&name)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn install_components(names: &[String]) -> Result<()> {
    let chosen = catalogue::select(names)?;
    let began = Instant::now();
    let done = install::install(&chosen, &mut |words| {
        eprintln!("{:>5.0} s  {words}", began.elapsed().as_secs_f64());
    })?;
    println!("{:<26}{:<12}{:>8}{:>9}", "COMPONENT", "VERSION", "SECONDS", "MB");
    for one in &done {
        let seconds = one.seconds.map_or_else(|| "there".into(), |seconds| format!("{seconds:.0}"));
        println!("{:<26}{:<12}{seconds:>8}{:>9.1}", one.component.name, one.component.version, one.megabytes);
    }
    eprintln!("{} components in {:.0} s", done.len(), began.elapsed().as_secs_f64());
    Ok(())
}

fn up(options: Up) -> Result<()> {
    let parts = if options.parts.is_empty() { Parts::node() } else { Parts::of(&options.parts) };
    report_leftovers()?;
    let began = Instant::now();
    let testbed = Testbed::start(Options {
        name: Some(options.name),
        parts,
        containerd: options.containerd,
        node_agent: options.agent,
        handlers: options.handlers,
        data_root: options.dir,
        lifetime: Lifetime::Detached,
    })?;
    eprintln!("{} is ready after {:.1} s", testbed.name(), began.elapsed().as_secs_f64());
    eprintln!("testbed exec {} -- COMMAND", testbed.name());
    println!("{}", testbed.kubeconfig().display());
    Ok(())
}

fn report_leftovers() -> Result<()> {
    for name in sweep::leftovers()? {
        eprintln!("cleaned up after {name}, whose keeper was gone");
    }
    Ok(())
}

fn down(names: &[String]) -> Result<()> {
    for name in names {
        cluster::down(name)?;
        eprintln!(
            "{name} is down: no process, mount, namespace, cgroup, network device or file of it is left"
        );
    }
    Ok(())
}

fn status() -> Result<()> {
    report_leftovers()?;
    println!("{:<20}{:<10}{:<12}DAEMONS", "NAME", "STATE", "SUPERVISOR");
    for name in record::names() {
        let Ok(record) = Record::read(&name) else { continue };
        let daemons: Vec<String> = record
            .daemons
            .iter()
            .map(|daemon| format!("{}{}", daemon.name, if daemon.process.alive() { "" } else { " (ended)" }))
            .collect();
        let state = match record.state {
            record::State::Starting => "starting",
            record::State::Ready => "ready",
            record::State::Failed(_) => "failed",
        };
        let supervisor = record.supervisor.map_or_else(|| "-".into(), |process| process.pid.to_string());
        println!("{name:<20}{state:<10}{supervisor:<12}{}", daemons.join(", "));
    }
    Ok(())
}

fn exec(name: &str, command: &[String]) -> Result<ExitCode> {
    let testbed = Testbed::attach(name)?;
    let Some((program, arguments)) = command.split_first() else { return Ok(ExitCode::SUCCESS) };
    let status = testbed.command(program).args(arguments).status().context("cannot run nsenter")?;
    Ok(ExitCode::from(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

fn show_userns(node: Node) -> Result<()> {
    let began = Instant::now();
    let testbed = node.start(Parts::node())?;
    eprintln!("a node is ready after {:.1} s", began.elapsed().as_secs_f64());
    println!("{}", yardstick::show_userns(&testbed)?);
    testbed.down()?;
    conformance::record(&format!("show-userns {}", node.name()), "runs")?;
    Ok(())
}

fn critest(containerd: Containerd, focus: &str) -> Result<ExitCode> {
    let program = yardstick::find_critest()?;
    let parts = yardstick::parts_for_critest();
    let testbed = Testbed::start(Options { containerd, ..Options::from(parts) })?;
    let began = Instant::now();
    let specs = yardstick::critest(&testbed, &program, focus)?;
    testbed.down()?;
    conformance::record(&format!("critest {}", runtime(containerd)), &counts(&specs))?;
    Ok(summary("critest", &specs, began))
}

fn compare_cri(
    against: &[comparison::Against],
    extent: comparison::Extent,
    keep: Option<&Path>,
    from: Option<&Path>,
) -> Result<ExitCode> {
    let outcomes = match from {
        Some(dir) => comparison::compare_kept(against, extent, dir)?,
        None => comparison::compare(against, extent, keep)?,
    };
    for (against, outcome) in against.iter().zip(&outcomes) {
        println!("{against}:");
        outcome.undocumented.iter().for_each(|line| println!("undocumented: {line}"));
        outcome.stale.iter().for_each(|row| println!("documented and not found: {row}"));
        let comparison::Outcome { pods, requests, documented, .. } = outcome;
        println!("{requests} requests of {pods} pods; {documented} documented differences");
    }
    Ok(ExitCode::from(u8::from(!outcomes.iter().all(comparison::Outcome::holds))))
}

fn counts(specs: &yardstick::Specs) -> String {
    let yardstick::Specs { ran, passed, known, .. } = specs;
    match known {
        0 => format!("{passed} of {ran}"),
        known => format!("{passed} of {ran}; {known} fail on every runtime here"),
    }
}

fn summary(what: &str, specs: &yardstick::Specs, began: Instant) -> ExitCode {
    let seconds = began.elapsed().as_secs_f64();
    println!("{what}: {} of {} passed in {seconds:.0} s", specs.passed, specs.ran);
    ExitCode::from(u8::from(specs.failed > specs.known || specs.ran == 0))
}
