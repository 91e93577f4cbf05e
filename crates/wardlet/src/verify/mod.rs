//! Proof, on outside evidence, that every pod of the node is a ward of its own.
//!
//! - [`walk`], [`status`], [`identity`], [`maps`], [`spaces`], [`visitor`]: what /proc shows.
//! - [`pods`]: processes put together to pods, whoever runs them.
//! - [`gather`], [`cri`], [`look`]: one look at the node, with what kubelet, ledger and runtimes say.
//! - [`checks`], [`violation`]: what must hold, and what does not.
//! - [`report`], [`text`], [`watch`]: the answer.
//! - [`apart`]: the process that all this happens in.

pub(crate) mod apart;
mod checks;
mod cri;
mod gather;
mod identity;
mod look;
mod maps;
mod pods;
mod report;
mod spaces;
mod status;
mod text;
mod violation;
mod visitor;
mod walk;
pub(crate) mod watch;

use std::thread::sleep;
use std::time::Duration;

pub(crate) use gather::Ask;
pub(crate) use report::Report;

use crate::failure::Failure;
use crate::node::Node;

/// How long after the first look a second one is taken.
const SECOND_LOOK: Duration = Duration::from_millis(200);

/// Looks, and looks again if something seems wrong or could not be seen: a violation counts if both looks show it, and
/// what the second one does not see counts as unseen. Pods that start or end pass through states that would be violations
/// if they lasted.
pub(crate) fn verify(node: &Node, ask: &Ask) -> Result<Report, Failure> {
    let first = once(node, ask)?;
    if first.violations.is_empty() && first.is_sure() {
        return Ok(first);
    }
    sleep(SECOND_LOOK);
    Ok(once(node, ask)?.confirming(&first))
}

fn once(node: &Node, ask: &Ask) -> Result<Report, Failure> {
    let (look, mut findings) = gather::look(node, ask)?;
    let checked = checks::all(&look);
    findings.violations = checked.findings.violations;
    findings.notes.extend(checked.findings.notes);
    findings.unseen.extend(checked.findings.unseen);
    Ok(Report::new(&look, findings, &checked.tally))
}
