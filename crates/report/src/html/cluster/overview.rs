//! The state of the cluster at a glance, and what it rests on.

use types::time;

use crate::html::markup::Markup;
use crate::html::overview::verdicts;
use crate::html::tiles::{Tile, bar, tiles};
use crate::html::words;
use crate::pages::{ClusterPage, NodeReadiness, Scope, SelinuxReadiness, Watch};

/// More nodes than this are only counted.
const LISTED: usize = 100;

pub(super) fn headline(page: &mut Markup, of: &ClusterPage) {
    page.element("h1", &[], &conclusion(of));
    page.within("p", &[("class", "lead")], |page| {
        let mut facts = Vec::new();
        if !of.cluster.is_empty() {
            facts.push(of.cluster.clone());
        }
        if !of.kubernetes.is_empty() {
            facts.push(format!("Kubernetes {}", of.kubernetes));
        }
        if let Scope::Namespaces(names) = &of.scope {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            facts.push(format!("namespaces {}", names.join(", ")));
        }
        page.text(&facts.join(" · "));
    });
    match &of.watch {
        Watch::Live => {}
        Watch::Syncing => page.element(
            "p",
            &[("class", "hint")],
            "The first lists have not arrived yet: all numbers are too low.",
        ),
        Watch::Stale { since, cause } => {
            let text = format!("The API server cannot be followed since {}: {cause}", time::stamp(*since));
            page.element("p", &[("class", "hint")], &text);
        }
    }
}

/// What a reader has to know first.
fn conclusion(of: &ClusterPage) -> String {
    let selinux = &of.selinux;
    let now = selinux.on_one_node;
    let all = u64::try_from(of.summary.conflicts).unwrap_or(u64::MAX);
    match (of.watch == Watch::Syncing, selinux.mount_gate, all) {
        (true, _, _) => "The cluster is being read".to_owned(),
        (_, _, 0) => "No pods conflict on a volume".to_owned(),
        (_, Some(true), _) if now > 0 => {
            format!("{} on one node: pods wait for a volume", words::count(now, "conflict"))
        }
        (_, Some(true), n) => format!("{}: pods wait where they meet on a node", words::count(n, "conflict")),
        (_, _, n) => format!("{} once volumes are mounted with labels", words::count(n, "conflict")),
    }
}

pub(super) fn glance(page: &mut Markup, of: &ClusterPage) {
    page.within("div", &[("class", "groups")], |page| {
        page.within("div", &[], |page| {
            page.element("h2", &[], "SELinux mounts");
            selinux(page, &of.selinux);
        });
        page.within("div", &[], |page| {
            page.element("h2", &[], "User namespaces");
            user_namespaces(page, of);
        });
    });
}

fn selinux(page: &mut Markup, selinux: &SelinuxReadiness) {
    let all = [
        Tile::new("blocked", selinux.on_one_node, "conflicts on one node now"),
        Tile::new("blocked", selinux.must_meet, "must meet on a node"),
        Tile::new("mayMeet", selinux.may_meet, "may meet on a node"),
        Tile::new("risky", selinux.contested_volumes, "volumes in conflict"),
        Tile::new("calm", selinux.shared_volumes, "shared volumes"),
    ];
    tiles(page, &all);
    let calm = selinux.shared_volumes.saturating_sub(selinux.contested_volumes);
    let parts = [("blocked", selinux.contested_volumes), ("ready", calm)];
    let said = format!("{calm} of {} shared volumes have no conflict", calm + selinux.contested_volumes);
    bar(page, &parts, &said);
    page.element("p", &[("class", "quiet")], match selinux.mount_gate {
        Some(true) => "Nodes mount volumes with labels (SELinuxMount is on): a conflict keeps a pod from starting.",
        Some(false) => "Nodes do not mount all volumes with labels yet (SELinuxMount is off): conflicts begin with that.",
        None => "Whether nodes mount all volumes with labels (SELinuxMount) is not known; it is on by default from Kubernetes 1.37.",
    });
}

fn user_namespaces(page: &mut Markup, of: &ClusterPage) {
    let (summary, nodes) = (&of.summary, &of.nodes);
    let all = [
        Tile::new("blocked", summary.blocked, "workloads blocked"),
        Tile::new("risky", summary.risky, "risky"),
        Tile::new("ready", summary.ready, "ready"),
        Tile::new("calm", summary.isolated, "isolated already"),
        Tile::new("ready", nodes.able, "nodes that can"),
        Tile::new("blocked", nodes.unable, "nodes that cannot"),
    ];
    tiles(page, &all);
    verdicts(page, summary);
    if nodes.unknown > 0 {
        let text = format!("Of {} it is not known.", words::count(nodes.unknown, "node"));
        page.element("p", &[("class", "quiet")], &text);
    }
}

/// Nodes and drivers.
pub(super) fn infrastructure(page: &mut Markup, of: &ClusterPage) {
    nodes(page, &of.nodes);
    drivers(page, &of.selinux);
}

fn nodes(page: &mut Markup, nodes: &NodeReadiness) {
    if nodes.causes.is_empty() {
        return;
    }
    page.element("h2", &[], "Nodes without user namespaces");
    page.within("ul", &[("class", "breaks")], |page| {
        for found in nodes.causes.iter().take(LISTED) {
            page.within("li", &[], |page| {
                page.element("strong", &[], &found.node);
                page.text(&format!(": {}", found.cause));
            });
        }
    });
    let more = nodes.causes.len().saturating_sub(LISTED);
    crate::html::left_out(page, u64::try_from(more).unwrap_or(u64::MAX), "more nodes are not listed");
}

fn drivers(page: &mut Markup, selinux: &SelinuxReadiness) {
    if selinux.drivers.is_empty() {
        return;
    }
    page.element("h2", &[], "CSI drivers");
    page.within("div", &[("class", "scroll")], |page| {
        page.within("table", &[("class", "stack")], |page| {
            page.raw("<thead><tr><th scope=\"col\">Driver</th><th scope=\"col\">seLinuxMount</th><th scope=\"col\" class=\"number\">Volumes</th><th scope=\"col\" class=\"number\">In conflict</th></tr></thead>");
            page.within("tbody", &[], |page| {
                for driver in &selinux.drivers {
                    page.within("tr", &[], |page| {
                        page.element("td", &[("data-name", "driver")], &driver.name);
                        let mounts = if driver.mounts_with_label { "true" } else { "false" };
                        page.element("td", &[("data-name", "seLinuxMount")], mounts);
                        let number = |page: &mut Markup, name, number: u64| {
                            page.element("td", &[("class", "number"), ("data-name", name)], &number.to_string());
                        };
                        number(page, "volumes", driver.volumes);
                        number(page, "in conflict", driver.contested);
                    });
                }
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use check::Summary;

    use super::*;

    #[test]
    fn the_headline_says_what_waits_now_before_what_may_wait_later() {
        let of = |mount_gate, on_one_node, conflicts| {
            let selinux = SelinuxReadiness { mount_gate, on_one_node, ..SelinuxReadiness::default() };
            let summary = Summary { conflicts, ..Summary::default() };
            conclusion(&ClusterPage { selinux, summary, watch: Watch::Live, ..ClusterPage::default() })
        };
        assert_eq!(of(Some(true), 2, 5), "2 conflicts on one node: pods wait for a volume");
        assert_eq!(of(Some(true), 0, 1), "1 conflict: pods wait where they meet on a node");
        assert_eq!(of(None, 2, 5), "5 conflicts once volumes are mounted with labels");
        assert_eq!(of(Some(false), 0, 0), "No pods conflict on a volume");
        assert_eq!(conclusion(&ClusterPage::default()), "The cluster is being read");
    }
}
