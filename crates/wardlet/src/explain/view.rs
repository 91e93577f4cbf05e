//! The answer for programs: fields are added, never changed.

use ids::BlockLength;
use plan::{Facts, Gate, LabelPlan, MountPlan, Namespaces, Plan, UserNamespaceMode, Warning};
use serde::Serialize;

use super::verdict::{Refused, Verdict};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Explanation<'a> {
    pub(crate) pods: Vec<PodView<'a>>,
    /// What was taken for granted instead of found out.
    pub(crate) notes: Vec<String>,
    /// What the plans rest on, as `--facts` takes it.
    pub(crate) facts: &'a Facts,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodView<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) kind: &'static str,
    pub(crate) verdict: &'static str,
    /// Nothing where the pod is refused.
    pub(crate) user_namespace: Option<UserNamespaceView>,
    pub(crate) refusals: &'a [Refused],
    pub(crate) warnings: &'a [Warning],
    pub(crate) mounts: Vec<MountView<'a>>,
    pub(crate) namespaces: Option<Namespaces>,
    pub(crate) closed_gate: Option<Gate>,
    pub(crate) lease_categories: Option<bool>,
    pub(crate) reasons: &'a [String],
}

#[derive(Serialize)]
pub(crate) struct UserNamespaceView {
    pub(crate) mode: UserNamespaceMode,
    pub(crate) length: Option<BlockLength>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct MountView<'a> {
    pub(crate) container: &'a str,
    pub(crate) volume: &'a str,
    pub(crate) path: &'a str,
    pub(crate) idmap: plan::Idmap,
    pub(crate) label: &'a LabelPlan,
    pub(crate) why: &'a str,
    pub(crate) recursive_read_only: bool,
}

impl<'a> PodView<'a> {
    pub(crate) fn new(verdict: &'a Verdict<'_>) -> Self {
        let plan = verdict.outcome.as_ref().ok();
        let of_plan = |plan: &Plan| UserNamespaceView {
            mode: plan.user_namespace.mode,
            length: plan.user_namespace.length,
        };
        Self {
            namespace: verdict.object.namespace(),
            name: verdict.name(),
            kind: verdict.object.resource.kind(),
            verdict: if plan.is_some() { "runs" } else { "refused" },
            user_namespace: plan.map(of_plan),
            refusals: verdict.outcome.as_ref().err().map_or(&[], Vec::as_slice),
            warnings: plan.map_or(&[], |plan| plan.warnings.as_slice()),
            mounts: plan.iter().flat_map(|plan| plan.mounts.iter().map(mount)).collect(),
            namespaces: plan.map(|plan| plan.namespaces),
            closed_gate: plan.and_then(|plan| plan.closed_gate),
            lease_categories: plan.map(|plan| plan.lease_categories),
            reasons: plan.map_or(&[], |plan| plan.reasons.as_slice()),
        }
    }
}

fn mount(mount: &MountPlan) -> MountView<'_> {
    MountView {
        container: &mount.container,
        volume: &mount.volume,
        path: &mount.path,
        idmap: mount.idmap,
        label: &mount.label,
        why: &mount.why,
        recursive_read_only: mount.recursive_read_only,
    }
}

impl Verdict<'_> {
    /// The pod's name, or the beginning of the one that it will get.
    pub(crate) fn name(&self) -> &str {
        let generated = || self.object.resource.metadata().generate_name.as_deref().unwrap_or_default();
        Some(self.object.name()).filter(|name| !name.is_empty()).unwrap_or_else(generated)
    }
}
