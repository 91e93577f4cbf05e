use std::process::ExitCode;
use std::time::Duration;

use super::Session;
use crate::cli::{Globals, VerifyArgs};
use crate::failure::{Answer, Failure};
use crate::verify::apart::{self, OnInterrupt};
use crate::verify::{self, Ask, Report, watch};
use crate::words;

pub(super) fn run(globals: &Globals, args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let interrupted = if args.watch.is_some() { OnInterrupt::Tell } else { OnInterrupt::End };
    apart::run(interrupted, || answer(&Session::new(globals)?, args))
}

fn answer(session: &Session, args: &VerifyArgs) -> Result<Answer, Failure> {
    if !session.node.host_root().is_own() {
        words::note(
            "processes and files are those under --host-root; the kernel that is asked is the running one",
        );
    }
    let ask = Ask { endpoint: args.runtime_endpoint.clone(), files: args.files };
    let look = || -> Result<Report, Failure> {
        let report = verify::verify(&session.node, &ask)?;
        match &args.pod {
            Some(pod) => report.only(pod),
            None => Ok(report),
        }
    };
    if let Some(seconds) = args.watch {
        return watch::watch(session.format, Duration::from_secs(seconds.into()), look);
    }
    let report = look()?;
    session.format.print(&report, || report.text())?;
    report.say();
    Ok(report.answer())
}
