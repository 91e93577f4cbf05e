use manifest::{Cluster, Finding, Node, Object, PodRef, Position, Value};
use plan::{Facts, Gates, Intent, Plan, Policy, Refusal};
use serde::Serialize;

use crate::sysctls;
use crate::unsupported::{self, NotRun};

/// A pod, or what a workload makes its pods from, before it is planned.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// The object as it was read.
    pub object: &'a Object,
    /// What the API does not allow, and what is not run here.
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
}

/// Why a pod does not start, and where that is written.
#[derive(Debug, PartialEq, Eq, Serialize)]
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
        let mut faults = manifest::validate(object, gates);
        let pod: Option<PodRef<'_>> = object.pod();
        faults.extend(pod.iter().flat_map(manifest::unsupported));
        let intent = match pod.map(|pod| manifest::lower(&pod, cluster)) {
            Some(Ok(intent)) => Some(intent),
            Some(Err(found)) => {
                faults.extend(found);
                None
            }
            None => None,
        };
        Self { object, faults, intent }
    }

    /// What becomes of it. One with faults is planned too, for all its refusals at once.
    #[must_use]
    pub fn judge(&self, facts: &Facts, policy: &Policy) -> Verdict<'a> {
        let planned = self.intent.as_ref().map(|intent| plan::plan(intent, facts, policy));
        let sysctls = self.sysctls(&policy.rules.allowed_unsafe_sysctls);
        let outcome = match planned {
            Some(Ok(plan)) if self.faults.is_empty() && sysctls.is_empty() => Ok(plan),
            Some(Err(refusals)) => Err(refused(&self.faults, &refusals)),
            _ => Err(refused(&self.faults, &[])),
        };
        let outcome = outcome.map_err(|refusals| refusals.into_iter().chain(sysctls).collect());
        Verdict { object: self.object, outcome }
    }

    fn sysctls(&self, allowed: &[String]) -> Vec<Refused> {
        let Some(pod) = self.object.pod() else { return Vec::new() };
        let forbidden = sysctls::forbidden(pod.spec, allowed).into_iter();
        let each = forbidden.map(|found| {
            self.refused(&pod, Reason { field: &found.field, cause: found.cause, hint: found.hint })
        });
        each.collect()
    }

    /// What becomes of it where wardlet runs the pod itself: as [`Candidate::judge`], and the fields of the pod as a
    /// whole that are not run on any node are refused. Volumes that are not run are planned all the same: the question may
    /// be about a cluster that provides them. On which node the pod may be is not asked either.
    #[must_use]
    pub fn explain(&self, facts: &Facts, policy: &Policy) -> Verdict<'a> {
        let Verdict { object, outcome } = self.judge(facts, policy);
        let not_run: Vec<Refused> = self.not_run();
        let outcome = match outcome {
            Ok(plan) if not_run.is_empty() => Ok(plan),
            Ok(_) => Err(not_run),
            Err(mut refusals) => {
                let known = |new: &Refused| refusals.iter().any(|known| known.field == new.field);
                let new: Vec<Refused> = not_run.into_iter().filter(|new| !known(new)).collect();
                refusals.extend(new);
                Err(refusals)
            }
        };
        Verdict { object, outcome }
    }

    fn not_run(&self) -> Vec<Refused> {
        let Some(pod) = self.object.pod() else { return Vec::new() };
        let each = unsupported::of_pod(pod.spec).map(|found: NotRun| {
            let cause = format!("{} is not run here", found.what);
            self.refused(&pod, Reason { field: &found.field, cause, hint: found.hint })
        });
        each.collect()
    }

    /// A refusal of a field of the pod's spec, with the place of the field in the manifest.
    fn refused(&self, pod: &PodRef<'_>, reason: Reason<'_>) -> Refused {
        let field = pod.field(reason.field.strip_prefix("spec.").unwrap_or(reason.field));
        let at = key_at(&self.object.tree, &field).map(|at| format!("{}:{at}", self.object.file));
        let prefix = &self.object.prefix;
        Refused {
            field: if prefix.is_empty() { field } else { format!("{prefix}.{field}") },
            cause: reason.cause,
            hint: reason.hint.to_owned(),
            at,
        }
    }
}

/// Why a field of a pod's spec keeps it from running.
struct Reason<'a> {
    field: &'a str,
    cause: String,
    hint: &'static str,
}

/// Where the last key of a path of keys is written.
fn key_at(tree: &Node, path: &str) -> Option<Position> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let Value::Map(entries) = &tree.value else { return None };
    let (key, node) = entries.iter().find(|(key, _)| &*key.name == first)?;
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
