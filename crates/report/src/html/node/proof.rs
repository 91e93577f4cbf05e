//! The last proof of `wardlet verify`.

use types::time;

use crate::html::markup::Markup;
use crate::pages::{LastProof, NodePage, Proof, ProofViolation};

/// More of one list than this are only counted.
const LISTED: usize = 100;

/// What a reader has to know first.
pub(super) fn conclusion(page: &NodePage) -> String {
    match &page.proof {
        LastProof::None => "No proof of the isolation of its pods yet.".to_owned(),
        LastProof::Disabled => "No proof is made for this page; `wardlet verify` makes one.".to_owned(),
        LastProof::Failed { time, cause } => format!("The proof of {} failed: {cause}.", time::stamp(*time)),
        LastProof::Done(proof) => words(proof),
    }
}

fn words(proof: &Proof) -> String {
    let evidence = &proof.evidence;
    let from = format!(
        "from {} processes, {} mounts and {} files",
        evidence.processes, evidence.mounts, evidence.files
    );
    match proof.verdict.as_str() {
        "holds" => format!("No isolated pod shares a host ID: proven {from} of {}.", evidence.time),
        "violated" => {
            format!("violations were found: {} ({from} of {}).", proof.violations.len(), evidence.time)
        }
        _ => format!(
            "Nothing wrong was seen, but not everything could be read: {} ({from} of {}).",
            proof.unseen.len(),
            evidence.time
        ),
    }
}

pub(super) fn section(page: &mut Markup, proof: &LastProof) {
    page.element("h2", &[("id", "proof-title")], "Last proof");
    match proof {
        LastProof::None => page.element(
            "p",
            &[("class", "quiet")],
            "It is made while this page is open, and is shown when it is there.",
        ),
        LastProof::Disabled => page.element(
            "p",
            &[("class", "quiet")],
            "agent.page.proofSeconds is 0 in the node's configuration.",
        ),
        LastProof::Failed { time, cause } => {
            page.element("p", &[], &format!("The proof of {} failed: {cause}.", time::stamp(*time)));
        }
        LastProof::Done(proof) => done(page, proof),
    }
}

fn done(page: &mut Markup, proof: &Proof) {
    let (class, tag) = match proof.verdict.as_str() {
        "holds" => ("tag ready", "✓ holds"),
        "violated" => ("tag blocked", "✕ does not hold"),
        _ => ("tag risky", "! not determined"),
    };
    page.within("p", &[], |page| {
        page.element("span", &[("class", class)], tag);
        page.text(&words(proof));
    });
    if !proof.violations.is_empty() {
        page.within("ul", &[("class", "breaks")], |page| {
            proof.violations.iter().take(LISTED).for_each(|one| violation(page, one));
        });
    }
    if !proof.unseen.is_empty() {
        page.element("h4", &[], "What could not be read");
        page.within("ul", &[("class", "plain")], |page| {
            proof.unseen.iter().take(LISTED).for_each(|text| page.element("li", &[], text));
        });
    }
    let more = proof.violations.len().max(proof.unseen.len()).saturating_sub(LISTED);
    crate::html::left_out(page, super::count(more), "more are in wardlet verify -o json");
}

fn violation(page: &mut Markup, violation: &ProofViolation) {
    let ProofViolation { what, pod, pid, path, expected, found, hint, .. } = violation;
    page.within("li", &[], |page| {
        page.within("p", &[], |page| {
            page.element("span", &[("class", "tag blocked")], what);
            let mut of: Vec<String> = pod.iter().chain(path).cloned().collect();
            of.extend(pid.map(|pid| format!("process {pid}")));
            page.element("strong", &[], &of.join(" "));
        });
        page.element("p", &[], &format!("expected {expected}; found {found}"));
        page.element("p", &[("class", "hint")], hint);
    });
}
