use std::collections::HashSet;
use std::path::Path;

use ids::allocator::State;
use ledger::Exported;
use ledger::{Lease, Ledger};
use report::leases::holder_name;
use report::table;
use serde::Serialize;

use super::{Session, pods_under};
use crate::failure::{Answer, Failure};
use crate::words;

#[derive(Serialize)]
struct Handed {
    holder: String,
    /// The record that was written.
    path: Option<String>,
    /// Why none was.
    cause: Option<String>,
}

impl From<Exported> for Handed {
    fn from(exported: Exported) -> Self {
        let path = exported.outcome.as_ref().ok().map(|p| p.display().to_string());
        Self { holder: exported.holder.to_string(), path, cause: exported.outcome.err() }
    }
}

pub(super) fn run(session: &Session, dir: &Path) -> Result<Answer, Failure> {
    let pods = pods_under(dir)?;
    let handed = session.node.with_existing_ledger(|ledger| match ledger {
        Some(ledger) => hand_back(ledger, &pods),
        None => {
            words::say(&format!("there is no ledger in {}", session.node.state_dir().display()));
            Ok(Vec::new())
        }
    })?;
    session.format.print(&handed, || {
        let outcome = |h: &Handed| match (&h.path, &h.cause) {
            (Some(path), _) => format!("wrote {path}"),
            (None, cause) => format!("refused: {}", cause.as_deref().unwrap_or_default()),
        };
        let rows: Vec<_> = handed.iter().map(|h| [h.holder.clone(), outcome(h)]).collect();
        if rows.is_empty() { "no records written\n".to_owned() } else { table(["HOLDER", "OUTCOME"], &rows) }
    })?;
    Ok(if handed.iter().all(|h| h.cause.is_none()) { Answer::Holds } else { Answer::DoesNotHold })
}

fn hand_back(ledger: &Ledger, pods: &Path) -> Result<Vec<Handed>, Failure> {
    let handed: Vec<Handed> = ledger.export(pods)?.into_iter().map(Handed::from).collect();
    let known: HashSet<&str> = handed.iter().map(|h| h.holder.as_str()).collect();
    for lease in ledger.list()? {
        let name = holder_name(&lease);
        if !known.contains(name.as_str()) {
            words::note(&format!("{name} ({}) stays here: {}", lease.uids, why_not(&lease)));
        }
    }
    Ok(handed)
}

/// Why a lease is none of the kubelet's business.
fn why_not(lease: &Lease) -> String {
    match lease.state {
        _ if lease.members.is_some() => "it is shared, which a kubelet's record cannot say".to_owned(),
        State::Leased => "the kubelet has no directory of such a pod".to_owned(),
        _ => format!("it is {}", lease.state_name()),
    }
}
