use admission::Candidate;
use cri::StatusResponse;
use cri::client::Client;
use manifest::Object;
use node::{facts, host_name};
use plan::{Facts, Gates, Intent, Policy};
use report::explain::Explanation;
use runtime::status::without_server;

use super::{Session, gates};
use crate::cli::ExplainArgs;
use crate::failure::{Answer, Failure};
use crate::input;
use crate::run::{admit, threads};
use crate::words;

pub(super) fn run(session: &Session, args: &ExplainArgs) -> Result<Answer, Failure> {
    let gates = gates(&session.node.config.settings, args.gates.flags())?;
    let reading = agent::read_manifests(&args.files).map_err(|error| input::unreadable(&error))?;
    input::say_skipped(&reading);
    let doubts = admission::doubts(&reading, &gates);
    if !doubts.is_empty() {
        input::say(&doubts);
        return Ok(Answer::Unknown);
    }
    let candidates = candidates(&reading.objects, &gates)?;
    let intents: Vec<&Intent> = candidates.iter().filter_map(|c| c.intent.as_ref()).collect();
    let (facts, notes) = facts_for(session, args, &intents)?;
    let policy = Policy { gates, rules: session.node.config.settings.policy.clone() };
    let here = (args.facts.is_none() && session.node.host_root().is_own()).then(host_name);
    let verdicts: Vec<_> = candidates.iter().map(|c| c.judge(&facts, &policy, here.as_deref())).collect();
    notes.iter().for_each(|note| words::note(note));
    let explanation = Explanation::new(&verdicts, notes, &facts);
    session.format.print(&explanation, || explanation.text())?;
    let all_run = verdicts.iter().all(|verdict| verdict.outcome.is_ok());
    Ok(if all_run { Answer::Holds } else { Answer::DoesNotHold })
}

fn candidates<'a>(objects: &'a [Object], gates: &Gates) -> Result<Vec<Candidate<'a>>, Failure> {
    let candidates = admission::consider(objects, gates);
    if candidates.is_empty() {
        return Err(Failure::unknown("the input has no pod")
            .with_hint("name a manifest with a Pod, or with a workload that makes pods"));
    }
    Ok(candidates)
}

fn facts_for(
    session: &Session,
    args: &ExplainArgs,
    intents: &[&Intent],
) -> Result<(Facts, Vec<String>), Failure> {
    match &args.facts {
        Some(file) => Ok((facts::from_file(file)?, Vec::new())),
        None => {
            let runtime = status(session, args)?.as_ref().map(admit::runtime);
            let (facts, notes) = facts::of_node(&session.node, intents, runtime)?;
            Ok((facts, notes.for_intents(intents)))
        }
    }
}

/// What the runtime reports that `run` would use: the named one, or else the built-in one, tried without a server. `None`
/// if it cannot be tried: without root, for another host root, and where its programs are missing.
fn status(session: &Session, args: &ExplainArgs) -> Result<Option<StatusResponse>, Failure> {
    if let Some(endpoint) = &args.runtime_endpoint {
        let ask = async { Ok(Client::connect(endpoint).await?.status(admit::DEADLINE).await?) };
        return threads()?.block_on(ask).map(Some);
    }
    let is_here = session.node.host_root().is_own() && node::mounts::is_root();
    Ok(is_here.then(|| without_server(session.node.state_dir())).flatten())
}
