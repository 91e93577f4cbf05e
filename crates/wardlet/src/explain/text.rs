//! The answer for people.

use plan::{HowLabelled, Idmap, LabelPlan, Namespaces, Owner};

use super::verdict::Refused;
use super::view::{MountView, PodView};
use crate::output::wrapped;

pub(crate) fn text(pods: &[PodView<'_>]) -> String {
    let mut text = pods.iter().map(pod).collect::<Vec<_>>().join("\n");
    if pods.len() > 1 {
        let refused = pods.iter().filter(|pod| pod.verdict == "refused").count();
        text.push_str(&format!("\n{} pods: {} run, {refused} refused\n", pods.len(), pods.len() - refused));
    }
    text
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
    let line = format!("  {container} {path}: volume {volume}, {ids}, {}", label(mount.label));
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
