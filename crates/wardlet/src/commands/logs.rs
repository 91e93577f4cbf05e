use std::time::Duration;

use agent::Stored;
use report::logs::{Extent, Printed, Source, finish, print};

use super::Session;
use crate::cli::LogsArgs;
use crate::failure::{Answer, Failure};
use crate::run::find;

const PAUSE: Duration = Duration::from_millis(200);

pub(super) fn run(session: &Session, args: &LogsArgs) -> Result<Answer, Failure> {
    let state = session.node.state_dir();
    let pod = find::one(state, &args.pod)?;
    let extent = if args.follow { Extent::Growing } else { Extent::UpToNow };
    let mut sources = sources(&pod, args.container.as_deref(), extent)?;
    loop {
        while print(&mut sources) == Printed::Some {}
        // Looked at after what it has written was read: what it writes last is not missed.
        let still = agent::stored_one(state, pod.record.uid.as_str())?;
        let runs = still.is_some_and(|p| p.status.is_none_or(|status| !status.is_terminated()));
        if !args.follow || !runs {
            finish(&mut sources);
            return Ok(Answer::Holds);
        }
        std::thread::sleep(PAUSE);
    }
}

fn sources(pod: &Stored, wanted: Option<&str>, extent: Extent) -> Result<Vec<Source>, Failure> {
    let spec = pod.record.pod.spec.clone().unwrap_or_default();
    let init = spec.init_containers.unwrap_or_default();
    let names: Vec<String> = init.into_iter().chain(spec.containers).map(|c| c.name).collect();
    if let Some(wanted) = wanted.filter(|wanted| !names.iter().any(|name| name == wanted)) {
        return Err(Failure::refused(format!("{wanted}: the pod has no such container"))
            .with_hint(format!("it has {}", names.join(", "))));
    }
    let meant = names.iter().filter(|name| wanted.is_none_or(|wanted| wanted == name.as_str()));
    let is_alone = wanted.is_some() || names.len() == 1;
    let prefix = |name: &str| if is_alone { String::new() } else { format!("{name} | ") };
    Ok(meant.map(|name| Source::new(prefix(name), &pod.logs.join(name), extent)).collect())
}
