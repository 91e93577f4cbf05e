use manifest::{Cluster, Object};
use plan::{Facts, GateError, GateRequests, Gates, Intent, Policy};

use super::Session;
use crate::cli::ExplainArgs;
use crate::explain::facts;
use crate::explain::input;
use crate::explain::text::text;
use crate::explain::verdict::{Candidate, Verdict};
use crate::explain::view::{Explanation, PodView};
use crate::failure::{Answer, Failure};
use crate::words;

pub(super) fn run(session: &Session, args: &ExplainArgs) -> Result<Answer, Failure> {
    let gates = gates(args)?;
    let reading = input::read(&args.files)?;
    input::say_skipped(&reading);
    let doubts = input::doubts(&reading, &gates);
    if !doubts.is_empty() {
        input::say(&doubts);
        return Ok(Answer::Unknown);
    }
    let candidates = candidates(&reading.objects, &gates)?;
    let intents: Vec<&Intent> = candidates.iter().filter_map(|c| c.intent.as_ref()).collect();
    let (facts, notes) = facts_for(session, args, &intents)?;
    let policy = Policy { gates, rules: session.node.config.settings.policy.clone() };
    let verdicts: Vec<Verdict<'_>> = candidates.iter().map(|c| c.judge(&facts, &policy)).collect();
    notes.iter().for_each(|note| words::note(note));
    let explanation = Explanation { pods: verdicts.iter().map(PodView::new).collect(), notes, facts: &facts };
    session.format.print(&explanation, || text(&explanation.pods))?;
    let all_run = verdicts.iter().all(|verdict| verdict.outcome.is_ok());
    Ok(if all_run { Answer::Holds } else { Answer::DoesNotHold })
}

fn gates(args: &ExplainArgs) -> Result<Gates, Failure> {
    let wrong = |errors: Vec<GateError>| {
        let list = |of: fn(&GateError) -> String| errors.iter().map(of).collect::<Vec<_>>().join("; ");
        Failure::unknown(format!("--feature-gates: {}", list(ToString::to_string)))
            .with_hint(list(GateError::hint))
    };
    let requests = GateRequests::parse(&args.feature_gates.join(",")).map_err(wrong)?;
    let resolved = Gates::resolve(args.kubernetes, &requests).map_err(wrong)?;
    resolved.warnings.iter().for_each(|text| words::warning(text));
    Ok(resolved.gates)
}

fn candidates<'a>(objects: &'a [Object], gates: &Gates) -> Result<Vec<Candidate<'a>>, Failure> {
    let cluster = Cluster::of(objects);
    let with_pods = objects.iter().filter(|object| input::has_pods(object));
    let candidates: Vec<_> = with_pods.map(|object| Candidate::new(object, &cluster, gates)).collect();
    if candidates.is_empty() {
        return Err(Failure::unknown("there is no pod in what was given")
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
            let (facts, notes) = facts::of_node(&session.node, intents)?;
            Ok((facts, notes.for_intents(intents)))
        }
    }
}
