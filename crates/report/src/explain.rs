//! What would happen to the pods of some manifests, for programs, which is a contract (fields are added, never changed),
//! and as text.

use admission::{Refused, Verdict};
use ids::BlockLength;
use plan::{
    Facts, Gate, HowLabelled, Idmap, LabelPlan, MountPlan, Namespaces, Owner, Plan, UserNamespaceMode,
    Warning,
};
use serde::Serialize;

use crate::wrapped;

/// What would happen to some pods on a node, with everything that it rests on.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation<'a> {
    pods: Vec<PodView<'a>>,
    /// What was taken for granted instead of found out.
    notes: Vec<String>,
    /// What the plans rest on, as `--facts` takes it.
    facts: &'a Facts,
}

impl<'a> Explanation<'a> {
    /// The verdicts on all pods. `notes` is what was taken for granted instead of found out.
    #[must_use]
    pub fn new(verdicts: &'a [Verdict<'_>], notes: Vec<String>, facts: &'a Facts) -> Self {
        Self { pods: verdicts.iter().map(PodView::new).collect(), notes, facts }
    }

    /// The pods in lines of at most 80 columns, but for names that are longer.
    #[must_use]
    pub fn text(&self) -> String {
        let pods = &self.pods;
        let mut text = pods.iter().map(pod).collect::<Vec<_>>().join("\n");
        if pods.len() > 1 {
            let refused = pods.iter().filter(|pod| pod.verdict == "refused").count();
            text.push_str(&format!(
                "\n{} pods: {} run, {refused} refused\n",
                pods.len(),
                pods.len() - refused
            ));
        }
        text
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PodView<'a> {
    namespace: &'a str,
    name: &'a str,
    kind: &'static str,
    verdict: &'static str,
    /// Nothing where the pod is refused.
    user_namespace: Option<UserNamespaceView>,
    refusals: &'a [Refused],
    warnings: &'a [Warning],
    /// Of a pod that is refused only for what wardlet does not run: as they would be where that is run.
    mounts: Vec<MountView<'a>>,
    namespaces: Option<Namespaces>,
    closed_gate: Option<Gate>,
    lease_categories: Option<bool>,
    reasons: &'a [String],
}

#[derive(Serialize)]
struct UserNamespaceView {
    mode: UserNamespaceMode,
    length: Option<BlockLength>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MountView<'a> {
    container: &'a str,
    volume: &'a str,
    path: &'a str,
    idmap: Idmap,
    label: &'a LabelPlan,
    why: &'a str,
    read_only: bool,
    recursive_read_only: bool,
    propagation: &'static str,
}

impl<'a> PodView<'a> {
    fn new(verdict: &'a Verdict<'_>) -> Self {
        let plan = verdict.outcome.as_ref().ok();
        let mounted = plan.or(verdict.elsewhere.as_ref());
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
            mounts: mounted.iter().flat_map(|plan| plan.mounts.iter().map(mount_view)).collect(),
            namespaces: plan.map(|plan| plan.namespaces),
            closed_gate: plan.and_then(|plan| plan.closed_gate),
            lease_categories: plan.map(|plan| plan.lease_categories),
            reasons: plan.map_or(&[], |plan| plan.reasons.as_slice()),
        }
    }
}

fn mount_view(mount: &MountPlan) -> MountView<'_> {
    MountView {
        container: &mount.container,
        volume: &mount.volume,
        path: &mount.path,
        idmap: mount.idmap,
        label: &mount.label,
        why: &mount.why,
        read_only: mount.read_only,
        recursive_read_only: mount.recursive_read_only,
        propagation: mount.propagation.name(),
    }
}

fn pod(pod: &PodView<'_>) -> String {
    let mut text = format!("{} {}/{}: {}\n", pod.kind, pod.namespace, pod.name, pod.verdict);
    for refusal in pod.refusals {
        text.push_str(&refused(refusal));
    }
    for reason in pod.reasons {
        text.push_str(&wrapped(&format!("  {reason}"), 4));
    }
    if let Some(shared) = pod.namespaces.and_then(hosts) {
        text.push_str(&format!("  other namespaces: the host's {shared}\n"));
    }
    if pod.lease_categories == Some(true) {
        text.push_str("  SELinux: a pair of categories is leased for containers without a level\n");
    }
    if pod.verdict == "refused" && !pod.mounts.is_empty() {
        text.push_str("  where that is run:\n");
    }
    for mount in &pod.mounts {
        text.push_str(&self::mount(mount));
    }
    for warning in pod.warnings {
        text.push_str(&wrapped(&format!("  warning: {warning}"), 4));
    }
    text
}

fn refused(refusal: &Refused) -> String {
    let mut text = wrapped(&format!("  {}: {}", refusal.field, refusal.cause), 4);
    if let Some(at) = &refusal.at {
        text.push_str(&format!("    at {at}\n"));
    }
    if !refusal.hint.is_empty() {
        text.push_str(&wrapped(&format!("    hint: {}", refusal.hint), 6));
    }
    text
}

fn hosts(namespaces: Namespaces) -> Option<String> {
    let all = [(namespaces.network, "network"), (namespaces.pid, "processes"), (namespaces.ipc, "IPC")];
    let names: Vec<&str> = all.iter().filter(|(owner, _)| *owner == Owner::Host).map(|(_, n)| *n).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

fn mount(mount: &MountView<'_>) -> String {
    let ids = match mount.idmap {
        Idmap::Own => "idmapped to the pod's block",
        Idmap::Shared => "seen through the shared block",
        Idmap::None => "not idmapped",
    };
    let MountView { container, path, volume, .. } = mount;
    let access = match (mount.read_only, mount.recursive_read_only) {
        (true, true) => ", read-only with all below it",
        (true, false) => ", read-only",
        (false, _) => "",
    };
    let propagation = match mount.propagation {
        "None" => String::new(),
        other => format!(", propagation {other}"),
    };
    let label = label(mount.label);
    let line = format!("  {container} {path}: volume {volume}, {ids}, {label}{access}{propagation}");
    wrapped(&line, 4) + &wrapped(&format!("    {}", mount.why), 4)
}

fn label(label: &LabelPlan) -> String {
    let context = label.context.as_ref().map(|context| format!(" {context}")).unwrap_or_default();
    match label.how {
        HowLabelled::Mount => format!("mounted with label{context}"),
        HowLabelled::Relabel => format!("relabelled file by file{context}"),
        HowLabelled::None => "label left alone".to_owned(),
    }
}
