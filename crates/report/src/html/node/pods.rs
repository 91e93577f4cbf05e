//! The pods of a node: those that run, each with its block, its mounts, its plan and its start, and those that cannot be
//! started.

use std::collections::BTreeMap;

use plan::{HowLabelled, Idmap};
use types::time;

use super::{mode, span, starts, title_of};
use crate::html::key;
use crate::html::markup::Markup;
use crate::html::rows::{Position, Row};
use crate::html::words::Word;
use crate::pages::{Container, LastProof, NodeMount, NodePage, NodePod, ProvenPod, WaitingPod};

/// Where the content of a row is fetched from.
const ADDRESS: &str = "pod";

pub(super) fn title(page: &mut Markup) {
    page.within("h2", &[("id", "pods-title")], |page| {
        page.text("Pods ");
        page.element("span", &[("class", "count"), ("data-count", "pod")], "");
    });
}

pub(super) fn rows(page: &mut Markup, of: &NodePage, filled: usize) {
    if of.pods.is_empty() {
        page.element("p", &[("data-key", "none"), ("data-stamp", "none")], "No pod runs on this node.");
    }
    let proven = proven(of);
    for (place, pod) in of.pods.iter().enumerate() {
        let proven = proven.get(pod.uid.as_str()).copied();
        row(page, pod, proven, Position { place, filled, address: ADDRESS });
    }
}

/// The content of the row with this key.
pub(super) fn content_of(of: &NodePage, wanted: &str) -> Option<String> {
    let pod = of.pods.iter().find(|pod| key(&pod.uid) == wanted)?;
    let mut page = Markup::default();
    body(&mut page, pod, proven(of).get(pod.uid.as_str()).copied());
    Some(page.into_string())
}

/// What the last proof says of each pod, by UID.
fn proven(of: &NodePage) -> BTreeMap<&str, &ProvenPod> {
    match &of.proof {
        LastProof::Done(proof) => proof.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect(),
        _ => BTreeMap::new(),
    }
}

fn row(page: &mut Markup, pod: &NodePod, proven: Option<&ProvenPod>, at: Position) {
    let filters =
        [("data-namespace", pod.namespace.as_str()), ("data-users", mode(pod.user_namespace).class)];
    let ids = span(pod.uids);
    let own = [&pod.namespace, &pod.name, &pod.uid, &pod.phase, &pod.handler, &ids];
    let mut words: Vec<&str> = own.map(String::as_str).to_vec();
    words.extend(pod.level.as_deref());
    words.extend(pod.mounts.iter().flat_map(|mount| [mount.volume.as_str(), mount.path.as_str()]));
    words.extend(pod.containers.iter().map(|container| container.name.as_str()));
    let row = Row {
        class: "opens pod",
        item: "pod",
        key: key(&pod.uid),
        filters: &filters,
        words: &words,
        state: &serde_json::to_vec(&(pod, proven)).unwrap_or_default(),
    };
    row.write(page, at, |page| summary(page, pod, proven), |page| body(page, pod, proven));
}

fn summary(page: &mut Markup, pod: &NodePod, proven: Option<&ProvenPod>) {
    let Word { class, sign, text } = mode(pod.user_namespace);
    let class = match class {
        "own" => "tag ready",
        "shared" => "tag risky",
        _ => "tag",
    };
    page.element("span", &[("class", class)], &format!("{sign} {text}"));
    page.within("span", &[("class", "title")], |page| page.element("strong", &[], &title_of(pod)));
    if let Some(verdict) = proven.and_then(|proven| verdict(&proven.verdict)) {
        let class = format!("tag {}", verdict.class);
        page.element("span", &[("class", &class)], &format!("{} {}", verdict.sign, verdict.text));
    }
    let facts = [pod.phase.clone(), span(pod.uids)];
    page.element("span", &[("class", "quiet facts")], &facts.join(" · "));
}

/// What a proof says of a pod; nothing of a pod that did not ask for isolation.
fn verdict(verdict: &str) -> Option<Word> {
    Some(match verdict {
        "isolated" => Word { class: "ready", sign: "✓", text: "proven" },
        "violated" => Word { class: "blocked", sign: "✕", text: "violated" },
        "unseen" => Word { class: "risky", sign: "!", text: "not seen" },
        _ => return None,
    })
}

fn body(page: &mut Markup, pod: &NodePod, proven: Option<&ProvenPod>) {
    page.within("ul", &[("class", "plain")], |page| {
        let mut fact = |text: String| page.element("li", &[], &text);
        fact(match (pod.uids == pod.gids, pod.uids) {
            (_, None) => "It has the host's users.".to_owned(),
            (true, ids) => format!("Host user and group IDs {}.", span(ids)),
            (false, ids) => format!("Host user IDs {}, group IDs {}.", span(ids), span(pod.gids)),
        });
        if let Some(level) = &pod.level {
            fact(format!("SELinux level {level}, leased with the block."));
        }
        if let Some(gate) = &pod.closed_gate {
            fact(format!("It asks for a user namespace, and {gate} is off."));
        }
        if !pod.handler.is_empty() {
            fact(format!("Runtime handler {}.", pod.handler));
        }
        if let Some(proven) = proven {
            fact(format!(
                "The last proof looked at {} of its processes and {} of its mounts.",
                proven.processes, proven.mounts
            ));
        }
        fact(format!("UID {}.", pod.uid));
    });
    containers(page, &pod.containers);
    plan(page, pod);
    mounts(page, &pod.mounts);
    if let Some(times) = &pod.start {
        page.element("h4", &[], "Start");
        starts::draw(page, times);
    }
}

fn containers(page: &mut Markup, containers: &[Container]) {
    if containers.is_empty() {
        return;
    }
    page.element("h4", &[], "Containers");
    page.within("ul", &[("class", "plain")], |page| {
        for container in containers {
            page.within("li", &[], |page| {
                page.element("strong", &[], &container.name);
                let ready = if container.ready { ", ready" } else { "" };
                let restarts = match container.restarts {
                    0 => String::new(),
                    1 => ", restarted once".to_owned(),
                    n => format!(", restarted {n} times"),
                };
                page.text(&format!(": {}{ready}{restarts}", container.state));
            });
        }
    });
}

fn plan(page: &mut Markup, pod: &NodePod) {
    if pod.reasons.is_empty() && pod.warnings.is_empty() {
        return;
    }
    page.element("h4", &[], "Plan");
    page.within("ul", &[("class", "plain")], |page| {
        pod.reasons.iter().for_each(|reason| page.element("li", &[], reason));
        for warning in &pod.warnings {
            page.within("li", &[], |page| {
                page.element("span", &[("class", "tag risky")], "! warning");
                page.element("code", &[], &warning.field);
                page.text(&format!(" {}", warning.text));
            });
        }
    });
}

fn mounts(page: &mut Markup, mounts: &[NodeMount]) {
    if mounts.is_empty() {
        return;
    }
    page.element("h4", &[], "Mounts");
    page.within("div", &[("class", "scroll")], |page| {
        page.within("table", &[("class", "stack")], |page| {
            page.raw("<thead><tr><th scope=\"col\">Container</th><th scope=\"col\">Path</th><th scope=\"col\">Volume</th><th scope=\"col\">Owners</th><th scope=\"col\">Label</th><th scope=\"col\">Why</th></tr></thead>");
            page.within("tbody", &[], |page| mounts.iter().for_each(|mount| line(page, mount)));
        });
    });
}

fn line(page: &mut Markup, mount: &NodeMount) {
    page.within("tr", &[], |page| {
        page.element("td", &[("data-name", "container")], &mount.container);
        page.within("td", &[("data-name", "path")], |page| {
            page.element("code", &[], &mount.path);
            page.text(&access(mount));
        });
        page.element("td", &[("data-name", "volume")], &mount.volume);
        page.element(
            "td",
            &[("data-name", "owners")],
            match mount.idmap {
                Idmap::Own => "idmapped to its block",
                Idmap::Shared => "seen through the shared block",
                Idmap::None => "not idmapped",
            },
        );
        page.within("td", &[("data-name", "label")], |page| {
            page.text(match mount.how {
                HowLabelled::Mount => "by the mount",
                HowLabelled::Relabel => "file by file",
                HowLabelled::None => "left alone",
            });
            if let Some(context) = &mount.context {
                page.text(" ");
                page.element("code", &[], context);
            }
        });
        page.element("td", &[("data-name", "why")], &mount.why);
    });
}

fn access(mount: &NodeMount) -> String {
    let read_only = match (mount.read_only, mount.recursive_read_only) {
        (true, true) => " read-only with all below it",
        (true, false) => " read-only",
        (false, _) => "",
    };
    match mount.propagation.as_str() {
        "None" => read_only.to_owned(),
        other => format!("{read_only} {other}"),
    }
}

/// Pods that are bound to the node and cannot be started.
pub(super) fn waiting(page: &mut Markup, waiting: &[WaitingPod]) {
    if waiting.is_empty() {
        return;
    }
    page.element("h2", &[], "Pods that cannot be started");
    page.within("ul", &[("class", "breaks")], |page| {
        for pod in waiting {
            let words = format!("{} {} {}", pod.namespace, pod.name, pod.message).to_lowercase();
            let attributes = [
                ("data-item", "waiting"),
                ("data-namespace", pod.namespace.as_str()),
                ("data-words", words.as_str()),
            ];
            page.within("li", &attributes, |page| {
                page.within("p", &[], |page| {
                    page.element("span", &[("class", "tag blocked")], &format!("✕ {}", pod.reason));
                    page.element("strong", &[], &format!("{}/{}", pod.namespace, pod.name));
                    page.element(
                        "span",
                        &[("class", "quiet")],
                        &format!(" since {}", time::stamp(pod.since)),
                    );
                });
                page.element("p", &[], &pod.message);
            });
        }
    });
}
