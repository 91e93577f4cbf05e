use manifest::{Cluster, Finding, Node, Object, PodRef, Position, Resource, Value};
use plan::{Facts, Gates, Intent, Plan, Policy, Refusal, UserNamespacePlan};
use serde::Serialize;

use crate::error::Error;
use crate::origin::PodOrigin;
use crate::{hostname, placement, sysctls, unsupported};

/// A pod, or what a workload makes its pods from, before it is planned.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The object as it was read.
    pub object: &'a Object,
    /// Where it comes from: from manifests, unless the caller sets another origin.
    pub origin: PodOrigin,
    /// What the API does not allow under the gates of the node.
    invalid: Vec<Finding>,
    /// What is not run here, and what could not be made out.
    faults: Vec<Finding>,
    /// What the pod asks the planner for; `None` if it could not be made out, which is then among the faults.
    pub intent: Option<Intent>,
}

/// What became of a pod.
#[derive(Debug)]
pub struct Verdict<'a> {
    /// The object as it was read.
    pub object: &'a Object,
    /// How the pod will be run, or all reasons why not.
    pub outcome: Result<Plan, Vec<Refused>>,
    /// The plan of a pod that is refused only for what wardlet does not run, or for another node: what would become of it
    /// where that is run.
    pub elsewhere: Option<Plan>,
}

/// Why a pod does not start, and where that is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// The field, from the top of its document where the manifest is the cause, else from the pod.
    pub field: String,
    /// Why it cannot be honoured.
    pub cause: String,
    /// What to ask for instead; empty where the cause says it all.
    pub hint: String,
    /// `file:line:column`, where the manifest alone is the cause.
    pub at: Option<String>,
}

impl<'a> Candidate<'a> {
    /// Reads the pod of an object, or the pod template of a workload, in the light of the objects that it names.
    #[must_use]
    pub fn new(object: &'a Object, cluster: &Cluster<'_>, gates: &Gates) -> Self {
        let invalid = manifest::validate(object, gates);
        let pod: Option<PodRef<'_>> = object.pod();
        let mut faults: Vec<Finding> = pod.iter().flat_map(manifest::unsupported).collect();
        let intent = match pod.map(|pod| manifest::lower(&pod, cluster)) {
            Some(Ok(intent)) => Some(intent),
            Some(Err(found)) => {
                faults.extend(found);
                None
            }
            None => None,
        };
        Self { object, origin: PodOrigin::default(), invalid, faults, intent }
    }

    /// What becomes of it on these facts, for `run` and `explain` alike; all reasons to refuse it at once. Where the node's
    /// name is given, a pod that is meant for another node is refused.
    #[must_use]
    pub fn judge(&self, facts: &Facts, policy: &Policy, node: Option<&str>) -> Verdict<'a> {
        let planned = self.intent.as_ref().map(|intent| plan::plan(intent, facts, policy));
        self.verdict(planned, &self.invalid, policy, node)
    }

    /// What becomes of a pod that runs in this user namespace: it keeps it.
    #[must_use]
    pub fn judge_running(
        &self,
        facts: &Facts,
        policy: &Policy,
        node: Option<&str>,
        running: UserNamespacePlan,
    ) -> Verdict<'a> {
        let planned = self.intent.as_ref().map(|intent| plan::plan_running(intent, facts, policy, running));
        // Whether a field is valid can depend on the user namespace that the pod has.
        let gates = match running.length {
            Some(_) => policy.gates.for_running_user_namespaces(),
            None => policy.gates.clone(),
        };
        self.verdict(planned, &manifest::validate(self.object, &gates), policy, node)
    }

    fn verdict(
        &self,
        planned: Option<Result<Plan, Vec<Refusal>>>,
        invalid: &[Finding],
        policy: &Policy,
        node: Option<&str>,
    ) -> Verdict<'a> {
        let faults: Vec<Finding> = invalid.iter().chain(&self.faults).cloned().collect();
        let (plan, mut refusals) = match planned {
            Some(Ok(plan)) => (Some(plan), refused(&faults, &[])),
            Some(Err(refusals)) => (None, refused(&faults, &refusals)),
            None => (None, refused(&faults, &[])),
        };
        refusals.extend(self.forbidden_sysctls(&policy.rules.allowed_unsafe_sysctls));
        let allowed = refusals.is_empty();
        let not_run = self.not_run(node).into_iter();
        let new: Vec<Refused> = not_run.filter(|new| refusals.iter().all(|r| r.field != new.field)).collect();
        refusals.extend(new);
        match plan {
            Some(plan) if refusals.is_empty() => {
                Verdict { object: self.object, outcome: Ok(plan), elsewhere: None }
            }
            plan => {
                let elsewhere = plan.filter(|_| allowed);
                Verdict { object: self.object, outcome: Err(refusals), elsewhere }
            }
        }
    }

    fn forbidden_sysctls(&self, allowed: &[String]) -> Vec<Refused> {
        let Some(pod) = self.object.pod() else { return Vec::new() };
        let forbidden = sysctls::forbidden(pod.spec, allowed).into_iter();
        forbidden.map(|found| self.refusal(&pod, &found.field, found.cause, found.hint)).collect()
    }

    /// What wardlet does not run, or not on the node of this name.
    fn not_run(&self, node: Option<&str>) -> Vec<Refused> {
        let Some(pod) = self.object.pod() else { return Vec::new() };
        let mut found: Vec<Refused> = unsupported::all(pod.spec, self.origin)
            .into_iter()
            .map(|found| {
                let cause = format!("{} is not run here", found.what);
                self.refusal(&pod, &found.field, cause, found.hint)
            })
            .collect();
        // The pods of a workload get other names, and a cluster chooses their nodes.
        if let Resource::Pod(_) = self.object.resource {
            let named = hostname::check(pod.spec, self.object.namespace(), self.object.name());
            let node = node.filter(|_| !self.origin.is_of_node());
            let placed = node.map_or(Ok(()), |node| placement::check(pod.spec, node));
            for unfit in [named, placed].into_iter().filter_map(Result::err) {
                let (Error::Unfit { field, cause, hint } | Error::NotRun { field, what: cause, hint }) =
                    unfit;
                found.push(self.refusal(&pod, &field, cause, hint));
            }
        }
        found
    }

    fn refusal(&self, pod: &PodRef<'_>, field: &str, cause: String, hint: &str) -> Refused {
        let field = pod.field(field.strip_prefix("spec.").unwrap_or(field));
        let at = key_at(&self.object.tree, &field).map(|at| format!("{}:{at}", self.object.file));
        let prefix = &self.object.prefix;
        Refused {
            field: if prefix.is_empty() { field } else { format!("{prefix}.{field}") },
            cause,
            hint: hint.to_owned(),
            at,
        }
    }
}

/// Where the last key of a path of keys and indices is written.
fn key_at(tree: &Node, path: &str) -> Option<Position> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let (name, index) = first.split_once('[').map_or((first, None), |(name, index)| (name, Some(index)));
    let Value::Map(entries) = &tree.value else { return None };
    let (key, mut node) =
        entries.iter().find(|(key, _)| &*key.name == name).map(|(key, node)| (key, node))?;
    if let Some(index) = index {
        let Value::List(items) = &node.value else { return None };
        node = items.get(index.trim_end_matches(']').parse::<usize>().ok()?)?;
    }
    match rest {
        Some(rest) => key_at(node, rest),
        None => Some(key.at),
    }
}

impl Verdict<'_> {
    /// The pod's name, or the beginning of the one that it will get.
    #[must_use]
    pub fn name(&self) -> &str {
        let generated = || self.object.resource.metadata().generate_name.as_deref().unwrap_or_default();
        Some(self.object.name()).filter(|name| !name.is_empty()).unwrap_or_else(generated)
    }
}

/// Both lists as one. Where both speak of a field, the planner knows the cause and the way out, and the
/// finding knows the place; it names the field from the top of its document, the planner from the pod.
fn refused(faults: &[Finding], refusals: &[Refusal]) -> Vec<Refused> {
    let is_same = |fault: &Finding, refusal: &Refusal| {
        fault
            .path
            .strip_suffix(refusal.field.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let place = |fault: &Finding| format!("{}:{}", fault.file, fault.at);
    let alone = faults.iter().filter(|fault| !refusals.iter().any(|refusal| is_same(fault, refusal)));
    let of_faults = alone.map(|fault| Refused {
        field: fault.path.clone(),
        cause: fault.problem.to_string(),
        hint: fault.hint().unwrap_or_default(),
        at: Some(place(fault)),
    });
    let of_plan = refusals.iter().map(|refusal| {
        let fault = faults.iter().find(|fault| is_same(fault, refusal));
        Refused {
            field: fault.map_or_else(|| refusal.field.clone(), |fault| fault.path.clone()),
            cause: refusal.cause.clone(),
            hint: refusal.hint.clone().unwrap_or_default(),
            at: fault.map(place),
        }
    });
    of_faults.chain(of_plan).collect()
}
