use std::collections::BTreeMap;
use std::time::Duration;

use agent::Admitted;
use manifest::k8s_openapi::api::core::v1::Pod;
use manifest::{Cluster, Object, Reading, Resource, defaulted};
use plan::{Facts, Gates, HandlerFacts, Intent, Isolate, Policy, RuntimeFacts, UserNamespaceMode};
use wire::client::Client;
use wire::cri::StatusRequest;

use crate::cli::RunArgs;
use crate::explain::verdict::{Candidate, Refused};
use crate::explain::{facts, input};
use crate::failure::Failure;
use crate::node::Node;
use crate::run::pods::host_name;
use crate::words;

/// What the manifests hold, without a doubt.
pub(crate) fn read(args: &RunArgs) -> Result<Reading, Failure> {
    let reading = input::read(&args.files)?;
    input::say_skipped(&reading);
    let doubts = input::doubts(&reading, &Gates::default());
    if let Some(first) = doubts.first() {
        let (rest, more) = (doubts.get(1..).unwrap_or_default(), doubts.len().saturating_sub(1));
        input::say(rest);
        let failure = Failure::unknown(first.to_string());
        let hint = first.hint().or((more > 0).then(|| format!("{more} more are named above")));
        return Err(hint.into_iter().fold(failure, Failure::with_hint));
    }
    let workload =
        reading.objects.iter().find(|o| input::has_pods(o) && !matches!(o.resource, Resource::Pod(_)));
    if let Some(workload) = workload {
        let (kind, name) = (workload.resource.kind(), workload.name());
        return Err(Failure::refused(format!("{}: {kind} {name} is no pod", workload.file))
            .with_hint("give its pod template as a Pod: only a cluster makes pods from workloads"));
    }
    Ok(reading)
}

/// How long the runtime may take to tell its status.
const DEADLINE: Duration = Duration::from_secs(120);

/// The runtime as it speaks of itself.
async fn runtime(client: &Client) -> Result<RuntimeFacts, Failure> {
    let request = StatusRequest { verbose: false };
    let status = wire::within(DEADLINE, "Status", client.runtime().status(request)).await?;
    let handlers: BTreeMap<String, HandlerFacts> = status
        .runtime_handlers
        .into_iter()
        .map(|handler| {
            let features = handler.features.unwrap_or_default();
            let facts = HandlerFacts {
                user_namespaces: features.user_namespaces,
                recursive_read_only_mounts: features.recursive_read_only_mounts,
            };
            (handler.name, facts)
        })
        .collect();
    let with_host_network = status.features.is_some_and(|f| f.user_namespaces_host_network);
    Ok(RuntimeFacts { handlers, user_namespaces_host_network: with_host_network })
}

/// The pods and this node, before the runtime was asked.
pub(crate) struct Considered<'a> {
    candidates: Vec<Candidate<'a>>,
    facts: Facts,
    gates: Gates,
}

/// What can be known of these pods without a runtime.
pub(crate) fn consider<'a>(node: &Node, reading: &'a Reading) -> Result<Considered<'a>, Failure> {
    let cluster = Cluster::of(&reading.objects);
    let gates = Gates::default();
    let pods = reading.objects.iter().filter(|object| input::has_pods(object));
    let candidates: Vec<Candidate<'_>> = pods.map(|pod| Candidate::new(pod, &cluster, &gates)).collect();
    if candidates.is_empty() {
        return Err(
            Failure::unknown("there is no pod in what was given").with_hint("name a manifest with a Pod")
        );
    }
    let intents: Vec<&Intent> = candidates.iter().filter_map(|c| c.intent.as_ref()).collect();
    let (facts, notes) = facts::of_node(node, &intents)?;
    notes.for_intents(&[]).iter().for_each(|note| words::note(note));
    Ok(Considered { candidates, facts, gates })
}

/// Pods that may run; each that may not is said, with the way out.
pub(crate) async fn pods(
    considered: Considered<'_>,
    client: &Client,
    (node, args): (&Node, &RunArgs),
) -> Result<Vec<Admitted>, Failure> {
    let Considered { candidates, facts, gates } = considered;
    let facts = Facts { runtime: runtime(client).await?, ..facts };
    let mut policy = Policy { gates, rules: node.config.settings.policy.clone() };
    if args.isolate {
        policy.rules.isolate = Isolate::WhenSafe;
    }
    let judged: Vec<_> = candidates.iter().map(|c| (c, c.judge(&facts, &policy).outcome)).collect();
    let mut admitted = Vec::new();
    let mut refused = Vec::new();
    for (candidate, outcome) in judged {
        match (outcome, &candidate.intent, &candidate.object.resource) {
            (Ok(plan), Some(intent), Resource::Pod(pod)) => {
                let mut pod = defaulted((**pod).clone());
                pod.metadata.namespace = Some(candidate.object.namespace().to_owned());
                // Before any of them is started.
                check(&pod, &candidate.object.file)?;
                admitted.push(Admitted { pod, intent: intent.clone(), plan });
            }
            (Err(why), ..) => refused.push((candidate.object, why)),
            _ => {}
        }
    }
    say_refused(&refused)?;
    admitted.iter().for_each(|pod| say_plan(pod, args));
    Ok(admitted)
}

/// Whether a pod asks for nothing that is not run, or not run here.
fn check(pod: &Pod, file: &str) -> Result<(), Failure> {
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    agent::check(pod, &host_name()).map_err(|error| {
        let failure = Failure::refused(format!("{file}: pod {name}: {error}"));
        error.hint().into_iter().fold(failure, Failure::with_hint)
    })
}

fn say_refused(refused: &[(&Object, Vec<Refused>)]) -> Result<(), Failure> {
    for (object, why) in refused {
        for refusal in why {
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

/// What is not quite as one may expect, and which pods were left with the host's users.
fn say_plan(admitted: &Admitted, args: &RunArgs) {
    let who = &admitted.plan.who;
    let title = format!("{}/{}", who.namespace, who.name);
    for warning in &admitted.plan.warnings {
        words::warning(&format!("{title}: {warning}"));
    }
    let is_left = admitted.plan.user_namespace.mode == UserNamespaceMode::Host;
    if args.isolate && is_left {
        words::note(&format!("{title} keeps the host's users: {}", admitted.plan.reasons.join("; ")));
    }
}
