use std::path::Path;

use ids::{HostSpan, IdBlock};
use ledger::kubelet::read_records;
use ledger::rehearse_import;
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
            let done = rehearse_import(&leases, read_records(&pods)?);
            done.into_iter().map(|i| record(&i.path, i.pod, i.outcome)).collect()
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
