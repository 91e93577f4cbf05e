use check::cluster::{self, Access};
use check::controller::ControllerGate;
use check::{Problem, Question, Report, Version, input, judge};
use inventory::{Lens, Objects};
use node::facts;
use node::{GateFlags, Settings};
use plan::{Gates, KubernetesVersion};
use report::{html, junit, patches, sarif};

use super::{Session, gates};
use crate::cli::CheckArgs;
use crate::failure::{Answer, Failure};
use crate::output::{self, Format};
use crate::{time, words};

pub(super) fn run(session: &Session, args: &CheckArgs) -> Result<Answer, Failure> {
    if args.from_controller {
        return from_controller(session, args);
    }
    let mut question = question(args)?;
    let mut objects = Objects::new(Lens { version: question.to.version, gates: question.to.gates.clone() });
    if args.cluster {
        visit(args, &mut question, &mut objects)?;
    }
    input::read(&args.paths, &mut objects);
    let report = judge(&mut objects, &question);
    report.problems.iter().for_each(say);
    if objects.count() == 0 {
        return Err(Failure::unknown("no object could be read")
            .with_hint("name manifests, a directory of them, or a dump made by kubectl get -o yaml"));
    }
    report.notes.iter().for_each(|note| words::note(note));
    if let Some(dir) = &args.write_patches {
        let count = patches::write_patches(&report, dir, args.patch_format.into())?;
        words::say(&format!("{count} patches written to {}; nothing was applied", dir.display()));
    }
    print(session.format, &report)?;
    Ok(answer(&report, args))
}

/// The numbers of a cluster that a controller watches, and whether a gate passes on them.
fn from_controller(session: &Session, args: &CheckArgs) -> Result<Answer, Failure> {
    let status = cluster::controller_status(&access(args))?;
    session.format.print(&status, || report::controller::text(&status))?;
    Ok(match status.gate(time::now()) {
        _ if !args.gate => Answer::Holds,
        ControllerGate::Passes => Answer::Holds,
        ControllerGate::Breaks => Answer::DoesNotHold,
        ControllerGate::Unknown(why) => {
            words::warning(&why);
            Answer::Unknown
        }
    })
}

fn access(args: &CheckArgs) -> Access {
    let (kubeconfig, context) = (args.kubeconfig.clone(), args.context.clone());
    Access { kubeconfig, context, namespace: args.namespace.clone() }
}

fn print(format: Format, report: &Report) -> Result<(), Failure> {
    match format {
        Format::Sarif => output::write(&sarif::render(report)),
        Format::Junit => output::write(&junit::render(report)),
        Format::Html => output::write(&html::render(report)),
        Format::Table | Format::Json | Format::Yaml => format.print(report, || report::check::text(report)),
    }
}

/// Reads a live cluster. It knows best which version the upgrade starts from.
fn visit(args: &CheckArgs, question: &mut Question, objects: &mut Objects) -> Result<(), Failure> {
    let visit = cluster::read(&access(args), objects)?;
    let found = visit.version.as_deref().unwrap_or("of unknown version");
    words::say(&format!("{} ({found}): {} objects read", visit.server, objects.count()));
    if let (None, Some(version)) = (args.from, visit.release())
        && version <= question.to.version
    {
        question.from = Version { version, gates: Gates::defaults(version) };
    }
    Ok(())
}

/// With `--gate`, what could not be read may be what breaks: only a whole look is good enough.
fn answer(report: &Report, args: &CheckArgs) -> Answer {
    match args.gate {
        true if !report.breaks.is_empty() => Answer::DoesNotHold,
        true if !report.problems.is_empty() => Answer::Unknown,
        _ => Answer::Holds,
    }
}

fn say(problem: &Problem) {
    let place = problem.place.as_ref().map(|p| format!("{}:{}:{}: ", p.file, p.line, p.column));
    let field = if problem.field.is_empty() { String::new() } else { format!("{}: ", problem.field) };
    let failure = Failure::unknown(format!("{}{field}{}", place.unwrap_or_default(), problem.cause));
    words::failure(&match problem.hint.as_str() {
        "" => failure,
        hint => failure.with_hint(hint),
    });
}

fn question(args: &CheckArgs) -> Result<Question, Failure> {
    let from = args.from.unwrap_or_else(|| before(args.to));
    if from > args.to {
        return Err(Failure::unknown(format!("--from {from} is newer than --to {}", args.to))
            .with_hint("name the older version first"));
    }
    let from = Version { version: from, gates: Gates::defaults(from) };
    // A question about the cluster: this node's own settings do not count.
    let flags = GateFlags { version: Some(args.to), requests: &args.feature_gates };
    let to = Version { version: args.to, gates: gates(&Settings::default(), flags)? };
    Ok(Question { from, to, facts: args.facts.as_deref().map(facts::from_file).transpose()? })
}

/// The version before this one.
fn before(version: KubernetesVersion) -> KubernetesVersion {
    KubernetesVersion::all().take_while(|older| *older < version).last().unwrap_or(version)
}

impl From<cluster::Error> for Failure {
    fn from(e: cluster::Error) -> Self {
        e.hint().into_iter().fold(Self::unknown(e.to_string()), Self::with_hint)
    }
}

impl From<patches::Error> for Failure {
    fn from(e: patches::Error) -> Self {
        e.hint().into_iter().fold(Self::unknown(e.to_string()), Self::with_hint)
    }
}
