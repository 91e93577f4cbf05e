use std::time::Duration;

use admission::{Admitted, Candidate, RefusedPod};
use cri::StatusResponse;
use cri::client::Client;
use manifest::{Object, Reading};
use node::{Node, facts, host_name};
use plan::{Facts, Gates, Intent, Isolate, Policy, RuntimeFacts, UserNamespaceMode};

use crate::cli::RunArgs;
use crate::commands::gates;
use crate::failure::Failure;
use crate::input;
use crate::words;

/// Reads the manifests, and refuses them if one of them has an error or an ambiguity.
pub(crate) fn read(args: &RunArgs) -> Result<Reading, Failure> {
    let reading = agent::read_complete_manifests(&args.files).map_err(|error| input::unreadable(&error))?;
    input::say_skipped(&reading);
    let doubts = admission::doubts(&reading, &Gates::default());
    if let Some(first) = doubts.first() {
        let (rest, more) = (doubts.get(1..).unwrap_or_default(), doubts.len().saturating_sub(1));
        input::say(rest);
        let failure = Failure::unknown(first.to_string());
        let hint = first.hint().or((more > 0).then(|| format!("{more} more are named above")));
        return Err(hint.into_iter().fold(failure, Failure::with_hint));
    }
    if let Some(workload) = reading.objects.iter().find(|object| admission::is_workload(object)) {
        return Err(no_pod(workload));
    }
    Ok(reading)
}

/// The refusal of a workload.
pub(crate) fn no_pod(workload: &Object) -> Failure {
    let (kind, name) = (workload.resource.kind(), workload.name());
    Failure::refused(format!("{}: {kind} {name} is no pod", workload.file))
        .with_hint("give its pod template as a Pod: only a cluster makes pods from workloads")
}

/// Timeout of the runtime's Status call.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);

/// The facts of the runtime, from its status and the programs behind it. Logs claims that do not hold.
pub(crate) fn runtime(status: &StatusResponse) -> RuntimeFacts {
    let offers = doctor::runtime_offers(status);
    offers.contradicted.iter().for_each(|text| words::warning(text));
    offers.facts
}

/// The pods and the facts of this node, without those of the runtime.
pub(crate) struct Considered<'a> {
    candidates: Vec<Candidate<'a>>,
    facts: Facts,
    gates: Gates,
}

/// Reads the pods' intents and the node's facts. The runtime is not needed yet.
///
/// # Errors
/// If there is no pod among the objects, or the facts of the node cannot be read.
pub(crate) fn consider<'a>(
    node: &Node,
    args: &RunArgs,
    reading: &'a Reading,
) -> Result<Considered<'a>, Failure> {
    let gates = gates(&node.config.settings, args.gates.flags())?;
    let candidates = admission::consider(&reading.objects, &gates);
    if candidates.is_empty() {
        return Err(
            Failure::unknown("there is no pod in what was given").with_hint("name a manifest with a Pod")
        );
    }
    let intents: Vec<&Intent> = candidates.iter().filter_map(|c| c.intent.as_ref()).collect();
    let (facts, notes) = facts::of_node(node, &intents, None)?;
    notes.for_intents(&[]).iter().for_each(|note| words::note(note));
    Ok(Considered { candidates, facts, gates })
}

/// Plans the pods, and logs each refusal with its hint.
///
/// # Errors
/// If a pod is refused, or the runtime does not respond.
pub(crate) async fn pods(
    considered: Considered<'_>,
    client: &Client,
    node: &Node,
    args: &RunArgs,
) -> Result<Vec<Admitted>, Failure> {
    let Considered { candidates, facts, gates } = considered;
    let status = client.status(DEADLINE).await?;
    let facts = Facts { runtime: tokio::task::block_in_place(|| runtime(&status)), ..facts };
    let mut policy = Policy { gates, rules: node.config.settings.policy.clone() };
    if args.isolate {
        policy.rules.isolate = Isolate::WhenSafe;
    }
    // All pods are planned before the first one is started.
    let running = agent::running_pods(node.state_dir())?;
    let decision = admission::admit(&candidates, &facts, &policy, &host_name(), &running);
    say_refused(&decision.refused)?;
    decision.admitted.iter().for_each(|pod| say_plan(pod, args));
    Ok(decision.admitted)
}

fn say_refused(refused: &[RefusedPod<'_>]) -> Result<(), Failure> {
    for RefusedPod { object, refusals } in refused {
        for refusal in refusals {
            let at = refusal.at.as_deref().map(|at| format!("{at}: ")).unwrap_or_default();
            let (field, cause) = (&refusal.field, &refusal.cause);
            let text = format!("pod {}/{}: {at}{field}: {cause}", object.namespace(), object.name());
            let failure = Failure::refused(text);
            let hint = Some(refusal.hint.clone()).filter(|hint| !hint.is_empty());
            words::failure(&hint.into_iter().fold(failure, Failure::with_hint));
        }
    }
    match refused.len() {
        0 => Ok(()),
        1 => Err(Failure::refused("the pod was refused; nothing was started")),
        n => Err(Failure::refused(format!("{n} pods were refused; nothing was started"))),
    }
}

/// Logs the warnings of a plan, and with `--isolate` why a pod is in the host's user namespace.
fn say_plan(admitted: &Admitted, args: &RunArgs) {
    let Some(plan) = admitted.expected() else { return };
    let title = format!("{}/{}", plan.pod.namespace, plan.pod.name);
    for warning in &plan.warnings {
        words::warning(&format!("{title}: {warning}"));
    }
    if args.isolate && plan.user_namespace.mode == UserNamespaceMode::Host {
        words::note(&format!("{title} keeps the host's users: {}", plan.reasons.join("; ")));
    }
}
