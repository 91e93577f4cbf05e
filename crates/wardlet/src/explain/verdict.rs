use manifest::{Cluster, Finding, Object, PodRef};
use plan::{Facts, Gates, Intent, Plan, Policy, Refusal};
use serde::Serialize;

/// A pod, or what a workload makes its pods from, before it is planned.
pub(crate) struct Candidate<'a> {
    pub(crate) object: &'a Object,
    /// What the API does not allow, and what is not run here.
    faults: Vec<Finding>,
    pub(crate) intent: Option<Intent>,
}

/// What became of a pod.
pub(crate) struct Verdict<'a> {
    pub(crate) object: &'a Object,
    pub(crate) outcome: Result<Plan, Vec<Refused>>,
}

/// Why a pod does not start, and where that is written.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Refused {
    pub(crate) field: String,
    pub(crate) cause: String,
    pub(crate) hint: String,
    /// `file:line:column`, where the manifest alone is the cause.
    pub(crate) at: Option<String>,
}

impl<'a> Candidate<'a> {
    pub(crate) fn new(object: &'a Object, cluster: &Cluster<'_>, gates: &Gates) -> Self {
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
    pub(crate) fn judge(&self, facts: &Facts, policy: &Policy) -> Verdict<'a> {
        let planned = self.intent.as_ref().map(|intent| plan::plan(intent, facts, policy));
        let outcome = match planned {
            Some(Ok(plan)) if self.faults.is_empty() => Ok(plan),
            Some(Err(refusals)) => Err(refused(&self.faults, &refusals)),
            _ => Err(refused(&self.faults, &[])),
        };
        Verdict { object: self.object, outcome }
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
