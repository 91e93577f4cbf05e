use std::io::ErrorKind;

use report::logs::{Extent, of_pod, show};

use super::Session;
use crate::cli::LogsArgs;
use crate::failure::{Answer, Failure};
use crate::run::find;

pub(super) fn run(session: &Session, args: &LogsArgs) -> Result<Answer, Failure> {
    let state = session.node.state_dir();
    let pod = find::one(state, &args.pod)?;
    let (wanted, extent) =
        (args.container.as_deref(), if args.follow { Extent::Growing } else { Extent::UpToNow });
    let sources = of_pod(&pod, wanted, extent);
    let mut sources =
        sources.map_err(|names| find::no_container(wanted.unwrap_or_default(), &names.join(", ")))?;
    let goes_on = || -> Result<bool, Failure> {
        let still = agent::stored_one(state, pod.record.uid.as_str())?;
        Ok(args.follow && still.is_some_and(|p| p.status.is_none_or(|status| !status.is_terminated())))
    };
    match show(&mut sources, goes_on)? {
        // A reader that has seen enough closes its end: that is no failure.
        Err(e) if e.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::unknown(format!("cannot write the log: {e}")))
        }
        _ => Ok(Answer::Holds),
    }
}
