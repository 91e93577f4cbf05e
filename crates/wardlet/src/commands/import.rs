use std::path::Path;

use ids::{HostSpan, IdBlock};
use ledger::kubelet::{RecordFile, read_records};
use ledger::{Holder, Lease};
use report::table;
use serde::Serialize;

use super::{Mode, Session, pods_under};
use crate::failure::{Answer, Failure};
use crate::words;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    pod: String,
    path: String,
    taken_over: bool,
    uids: Option<HostSpan>,
    /// Why it was not taken over.
    cause: Option<String>,
}

pub(super) fn run(session: &Session, dir: &Path, mode: Mode) -> Result<Answer, Failure> {
    let pods = pods_under(dir)?;
    let records = match mode {
        Mode::Act => session.node.with_ledger::<_, Failure>(|ledger| {
            let done = ledger.import(&pods)?;
            Ok(done.into_iter().map(|i| record(&i.path, i.pod, i.outcome.map(|l| l.uids))).collect())
        })?,
        Mode::DryRun => {
            let leases = session.node.leases()?.unwrap_or_default();
            rehearse(&leases, read_records(&pods)?)
        }
    };
    print(session, &records)?;
    if mode == Mode::DryRun {
        words::say("nothing was changed: this was a dry run");
    }
    Ok(if records.iter().all(|r| r.taken_over) { Answer::Holds } else { Answer::DoesNotHold })
}

fn print(session: &Session, records: &[Record]) -> Result<(), Failure> {
    session.format.print(&records, || {
        let row = |r: &Record| {
            let uids = r.uids.map_or_else(|| "-".to_owned(), |s| s.to_string());
            let outcome =
                r.cause.as_ref().map_or_else(|| "taken over".to_owned(), |c| format!("refused: {c}"));
            [r.pod.clone(), uids, outcome]
        };
        let rows: Vec<_> = records.iter().map(row).collect();
        if rows.is_empty() { "no records\n".to_owned() } else { table(["POD", "UIDS", "OUTCOME"], &rows) }
    })
}

fn record(path: &Path, pod: String, outcome: Result<IdBlock, String>) -> Record {
    Record {
        pod,
        path: path.display().to_string(),
        taken_over: outcome.is_ok(),
        uids: outcome.as_ref().ok().map(|block| block.span()),
        cause: outcome.err(),
    }
}

/// What an import would come to, without a ledger being made or changed.
fn rehearse(leases: &[Lease], files: Vec<RecordFile>) -> Vec<Record> {
    let held = leases.iter().flat_map(|l| [(l.holder.clone(), l.uids), (l.holder.clone(), l.gids)]);
    let mut held: Vec<(Option<Holder>, IdBlock)> = held.collect();
    let mut records = Vec::new();
    for file in files {
        let outcome = file.claim().and_then(|(holder, block)| {
            let rival = held.iter().find(|(other, theirs)| {
                if other.as_ref() == Some(&holder) { *theirs != block } else { theirs.overlaps(block) }
            });
            if let Some((other, theirs)) = rival {
                let other = other.as_ref().map_or("no holder", Holder::as_str);
                return Err(format!("{block} is in the way of {theirs}, held by {other}"));
            }
            held.push((Some(holder), block));
            Ok(block)
        });
        records.push(record(&file.path, file.pod, outcome));
    }
    records
}
