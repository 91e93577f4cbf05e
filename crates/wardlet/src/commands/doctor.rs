use super::Session;
use crate::cli::DoctorArgs;
use crate::failure::{Answer, Failure};
use crate::words;

pub(super) fn run(session: &Session, args: &DoctorArgs) -> Result<Answer, Failure> {
    if !session.node.host_root().is_own() {
        words::note("what is tried is tried on the running kernel; files are those under --host-root");
    }
    let report = doctor::examine(&session.node, args.runtime_endpoint.as_ref());
    session.format.print(&report, || report::doctor::text(&report))?;
    Ok(report.overall().into())
}
