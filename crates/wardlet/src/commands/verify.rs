use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use verify::apart::{self, OnInterrupt};
use verify::{Ask, Changes, RecordedSandbox, RecordedSandboxes, Report};

use super::Session;
use crate::cli::{Globals, VerifyArgs};
use crate::failure::{Answer, Failure};
use crate::output::{self, Format};
use crate::words;

/// How late an interruption is noticed.
const GLANCE: Duration = Duration::from_millis(100);

pub(super) fn run(globals: &Globals, args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let interrupted = if args.watch.is_some() { OnInterrupt::Tell } else { OnInterrupt::End };
    let work = || {
        let answer = Session::new(globals).and_then(|session| answer(&session, args));
        let said = answer.unwrap_or_else(|failure| {
            words::failure(&failure);
            failure.answer()
        });
        said.code()
    };
    Ok(apart::run(interrupted, work)?)
}

fn answer(session: &Session, args: &VerifyArgs) -> Result<Answer, Failure> {
    if !session.node.host_root().is_own() {
        words::note(
            "processes and files are those under --host-root; the kernel that is asked is the running one",
        );
    }
    let ask = Ask { endpoint: args.runtime_endpoint.clone(), files: args.files, recorded };
    let look = || -> Result<Report, Failure> {
        let report = verify::verify(&session.node, &ask)?;
        Ok(match &args.pod {
            Some(pod) => report.only(pod)?,
            None => report,
        })
    };
    if let Some(seconds) = args.watch {
        return watch(session.format, Duration::from_secs(seconds.into()), look);
    }
    let report = look()?;
    session.format.print(&report, || report::verify::text(&report))?;
    say(&report);
    Ok(report.verdict().into())
}

/// The sandboxes that the built-in runtime has recorded.
fn recorded(state_dir: &Path) -> RecordedSandboxes {
    let (sandboxes, unreadable) = runtime::recorded_sandboxes(state_dir);
    let sandbox = |found: runtime::RecordedSandbox| RecordedSandbox {
        id: found.id,
        uid: found.uid,
        namespace: found.namespace,
        name: found.name,
        cgroup: found.cgroup,
        isolated: found.isolated,
        ready: found.ready,
    };
    RecordedSandboxes {
        sandboxes: sandboxes.into_iter().map(sandbox).collect(),
        unreadable: unreadable.iter().map(ToString::to_string).collect(),
    }
}

/// What goes to stderr.
fn say(report: &Report) {
    for note in &report.notes {
        match &note.pod {
            Some(pod) => words::note(&format!("{pod}: {}", note.text)),
            None => words::note(&note.text),
        }
    }
    for unseen in report::alike(report.unseen.iter().map(|unseen| unseen.text.clone())) {
        words::warning(&format!("could not be seen: {unseen}"));
    }
}

/// Shows the first answer in full and then changes, until interrupted. What the last look came to is the answer.
fn watch(
    format: Format,
    every: Duration,
    look: impl Fn() -> Result<Report, Failure>,
) -> Result<Answer, Failure> {
    kernel::interrupt::catch().map_err(|e| Failure::unknown(e.to_string()))?;
    let mut before = look()?;
    show(format, &before, || report::verify::text(&before))?;
    say(&before);
    while waited(every) {
        let now = look()?;
        let changes = Changes::between(&before, &now);
        if !changes.is_empty() {
            show(format, &changes, || report::verify::changes_text(&changes))?;
        }
        before = now;
    }
    Ok(before.verdict().into())
}

/// `false` after an interruption.
fn waited(every: Duration) -> bool {
    let began = Instant::now();
    while began.elapsed() < every && !kernel::interrupt::asked() {
        sleep(GLANCE.min(every.saturating_sub(began.elapsed())));
    }
    !kernel::interrupt::asked()
}

/// One document a line, so that a reader knows where each ends.
fn show(format: Format, value: &impl Serialize, text: impl FnOnce() -> String) -> Result<(), Failure> {
    match format {
        Format::Json => {
            let line = serde_json::to_string(value).map_err(|e| Failure::unknown(e.to_string()))?;
            output::write(&format!("{line}\n"))
        }
        Format::Yaml => {
            output::write("---\n")?;
            format.print(value, text)
        }
        other => other.print(value, text),
    }
}
