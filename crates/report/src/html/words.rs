//! What the page calls things, and the class by which its style and its filters know them.

use check::{How, Now, ObjectRef, Severity, Verdict, Weight, When};

pub(super) struct Word {
    /// For styles and filters.
    pub(super) class: &'static str,
    /// Never colour alone: each has a sign.
    pub(super) sign: &'static str,
    pub(super) text: &'static str,
}

pub(super) const VERDICTS: [Verdict; 3] = [Verdict::Blocked, Verdict::Risky, Verdict::Ready];
pub(super) const SEVERITIES: [Severity; 4] =
    [Severity::OnOneNode, Severity::MustMeet, Severity::MayMeet, Severity::CannotMeet];

pub(super) fn verdict(verdict: Verdict) -> Word {
    match verdict {
        Verdict::Ready => Word { class: "ready", sign: "✓", text: "ready" },
        Verdict::Risky => Word { class: "risky", sign: "!", text: "risky" },
        Verdict::Blocked => Word { class: "blocked", sign: "✕", text: "blocked" },
    }
}

pub(super) fn severity(severity: Severity) -> Word {
    match severity {
        Severity::OnOneNode => Word { class: "onOneNode", sign: "✕", text: "on one node now" },
        Severity::MustMeet => Word { class: "mustMeet", sign: "✕", text: "must meet on a node" },
        Severity::MayMeet => Word { class: "mayMeet", sign: "!", text: "may meet on a node" },
        Severity::CannotMeet => Word { class: "cannotMeet", sign: "–", text: "cannot meet" },
    }
}

pub(super) fn weight(weight: Weight) -> Word {
    match weight {
        Weight::Blocks => Word { class: "blocked", sign: "✕", text: "blocks" },
        Weight::Risks => Word { class: "risky", sign: "!", text: "risks" },
        Weight::Note => Word { class: "note", sign: "i", text: "note" },
    }
}

pub(super) fn when(when: When) -> &'static str {
    match when {
        When::AfterUpgrade => "after the upgrade",
        When::Already => "before and after the upgrade",
        When::UntilUpgrade => "only until the upgrade",
        When::UnderSelinuxMount => "only under the gate SELinuxMount",
    }
}

pub(super) fn how(how: How) -> &'static str {
    match how {
        How::EqualLabels => "equal labels",
        How::OptOut => "opt out",
    }
}

/// Which user namespace a workload has; one that is blocked only asks for its own.
pub(super) fn now(now: Now, verdict: Verdict) -> &'static str {
    match (now, verdict) {
        (Now::Own, Verdict::Blocked) => "asks for a user namespace of its own",
        (Now::Own, _) => "own user namespace",
        (Now::Host, _) => "host's user namespace",
    }
}

/// `Deployment shop/web`
pub(super) fn object_name(object: &ObjectRef) -> String {
    format!("{} {}", object.kind, name_in_namespace(object))
}

/// `shop/web`; the name alone of what has no namespace, or none that is shown.
pub(super) fn name_in_namespace(object: &ObjectRef) -> String {
    match object.namespace.as_str() {
        "" => object.name.clone(),
        namespace => format!("{namespace}/{}", object.name),
    }
}

/// `1 pod`, `2 pods`
pub(super) fn count(n: u64, one: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") }
}

/// A label that people can read: without the parts that say nothing.
pub(super) fn label(label: &str) -> String {
    match label.trim_start_matches(':') {
        "" => "no label".to_owned(),
        text => text.to_owned(),
    }
}
