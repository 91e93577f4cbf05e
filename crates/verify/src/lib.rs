//! Verifies that no isolated pod of the node shares a host ID, by what the kernel shows of its processes.
//!
//! [`verify`] scans the node and returns a [`Report`]: the pods, the violations, what could not be seen, and the evidence.
//! [`Changes`] are the differences of two reports. The crate prints nothing; the crate `report` has the text.
//!
//! - `walk`, `status`, `identity`, `maps`, `spaces`, `visitor`: what /proc shows.
//! - `pods`: processes grouped into pods, whatever runtime runs them.
//! - `gather`, `sandboxes`, `scan`: one scan of the node, with the answers of kubelet, ledger and runtimes.
//! - `checks`, `violation`: what must hold, and what does not.
//! - [`apart`]: the child process that `wardlet verify` does all this in.

pub mod apart;
mod changes;
mod checks;
mod error;
mod gather;
mod identity;
mod maps;
mod pods;
mod report;
mod sandboxes;
mod scan;
mod spaces;
mod status;
mod violation;
mod visitor;
mod walk;

use std::thread::sleep;
use std::time::Duration;

use node::Node;

pub use changes::Changes;
pub use error::Error;
pub use gather::{Ask, RecordedSandbox, RecordedSandboxes};
pub use report::{Evidence, PodVerdict, PodView, Report, Verdict};
pub use violation::{Note, Unseen, Violation, What};

/// The time between the first scan and the second, which confirms violations.
const SECOND_LOOK: Duration = Duration::from_millis(200);

/// Looks, and looks again if something seems wrong or could not be seen: a violation counts if both looks show it, and
/// what the second one does not see counts as unseen. Pods that start or end pass through states that would be violations
/// if they lasted.
pub fn verify(node: &Node, ask: &Ask) -> Result<Report, Error> {
    let first = once(node, ask)?;
    if first.violations.is_empty() && first.is_sure() {
        return Ok(first);
    }
    sleep(SECOND_LOOK);
    Ok(once(node, ask)?.confirming(&first))
}

fn once(node: &Node, ask: &Ask) -> Result<Report, Error> {
    let (scan, mut findings) = gather::scan(node, ask)?;
    let checked = checks::all(&scan);
    findings.violations = checked.findings.violations;
    findings.notes.extend(checked.findings.notes);
    findings.unseen.extend(checked.findings.unseen);
    Ok(Report::new(&scan, findings, &checked.tally))
}
