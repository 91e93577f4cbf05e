//! The program `testbed`: parses, calls, prints.

mod cli;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::Parser;
use testbed::cluster::{launch, record, supervise, sweep, testbed as cluster};
use testbed::conformance::blocks::{self, Block};
use testbed::{
    Containerd, Error, Lifetime, NodeAgent, Options, Parts, Record, Testbed, catalogue,
    compare_cri as comparison, conformance, install, recorder, registry, yardstick,
};

use cli::{Cli, Up, Verb};

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
        Verb::ShowUserns { containerd, agent } => show_userns(Which { containerd, agent })?,
        Verb::E2eUserns { containerd, agent } => return e2e_userns(Which { containerd, agent }),
        Verb::E2e { focus, skip, containerd, agent } => {
            let selection = yardstick::Selection { skip: &skip, ..yardstick::Selection::of(&focus) };
            return e2e(Which { containerd, agent }, &selection);
        }
        Verb::E2eBlocks { blocks, containerd, agent, keep } => {
            return e2e_blocks(Which { containerd, agent }, &blocks, keep.as_deref());
        }
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

/// Which node.
#[derive(Debug, Clone, Copy)]
struct Which {
    containerd: Containerd,
    agent: NodeAgent,
}

impl Which {
    fn start(self) -> Result<Testbed> {
        let Self { containerd, agent } = self;
        Ok(Testbed::start(Options { containerd, node_agent: agent, ..Options::from(Parts::node()) })?)
    }

    /// Its name in the results.
    fn name(self) -> String {
        let agent = if self.agent == NodeAgent::Wardlet { " agent" } else { "" };
        format!("{}{agent}", runtime(self.containerd))
    }
}

fn show_userns(which: Which) -> Result<()> {
    let began = Instant::now();
    let testbed = which.start()?;
    eprintln!("a node is ready after {:.1} s", began.elapsed().as_secs_f64());
    println!("{}", yardstick::show_userns(&testbed)?);
    testbed.down()?;
    conformance::record(&format!("show-userns {}", which.name()), "runs")?;
    Ok(())
}

fn e2e_userns(which: Which) -> Result<ExitCode> {
    let testbed = which.start()?;
    let began = Instant::now();
    let specs = yardstick::e2e(&testbed, &yardstick::Selection::of("UserNamespacesSupport"))?;
    testbed.down()?;
    conformance::record(&format!("e2e-userns {}", which.name()), &counts(&specs))?;
    Ok(summary("user-namespace specs", &specs, began))
}

fn e2e(which: Which, selection: &yardstick::Selection<'_>) -> Result<ExitCode> {
    let testbed = which.start()?;
    let began = Instant::now();
    let specs = yardstick::e2e(&testbed, selection)?;
    testbed.down()?;
    Ok(summary("specs", &specs, began))
}

/// Runs all blocks, also after one that could not be run; the first error is the result.
fn e2e_blocks(which: Which, names: &[String], keep: Option<&Path>) -> Result<ExitCode> {
    let chosen = blocks::select(names)?;
    let not_run = |block: &Block| conformance::record(&block.record(&which.name()), "could not be run");
    let testbed = match which.start() {
        Ok(testbed) => testbed,
        Err(error) => {
            chosen.iter().try_for_each(|block| not_run(block))?;
            return Err(error);
        }
    };
    let (mut all, mut problem) = (yardstick::Specs::default(), None);
    let began = Instant::now();
    for block in chosen {
        let began = Instant::now();
        match blocks::run(&testbed, block, keep) {
            Ok(specs) => {
                conformance::record_specs(&block.record(&which.name()), &counts(&specs), &specs.failures)?;
                summary(block.title, &specs, began);
                all = all.and(specs);
            }
            Err(error) => {
                not_run(block)?;
                problem.get_or_insert(error);
            }
        }
    }
    testbed.down()?;
    problem.map_or_else(|| Ok(summary("all blocks", &all, began)), |error| Err(error.into()))
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

/// The name of a runtime in the results.
fn runtime(containerd: Containerd) -> &'static str {
    if containerd == Containerd::Wardlet { "wardlet" } else { "containerd" }
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
