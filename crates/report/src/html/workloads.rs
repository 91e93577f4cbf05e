//! Every workload with its verdict, those that need work first.

use check::{PodSecurity, Reason, SelinuxFinding, Workload};

use super::markup::Markup;
use super::rows::{Position, Row, key};
use super::{patches, words};

/// Where the content of a row is fetched from.
const ADDRESS: &str = "workload";

pub(super) fn section(page: &mut Markup, workloads: &[Workload]) {
    page.within("section", &[("id", "workloads"), ("aria-labelledby", "workloads-title")], |page| {
        title(page);
        sorted(workloads).into_iter().for_each(|workload| whole(page, workload));
    });
}

pub(super) fn title(page: &mut Markup) {
    page.within("h2", &[("id", "workloads-title")], |page| {
        page.text("Workloads and user namespaces ");
        page.element("span", &[("class", "count"), ("data-count", "workload")], "");
    });
}

/// A row for each workload, those that need work first.
pub(super) fn rows(page: &mut Markup, workloads: &[Workload], filled: usize) {
    for (place, workload) in sorted(workloads).into_iter().enumerate() {
        row(page, workload, Position { place, filled, address: ADDRESS });
    }
}

/// The content of the row with this key.
pub(super) fn content_of(workloads: &[Workload], wanted: &str) -> Option<String> {
    let workload = workloads.iter().find(|workload| key_of(workload) == wanted)?;
    let mut page = Markup::default();
    body(&mut page, workload);
    Some(page.into_string())
}

fn sorted(workloads: &[Workload]) -> Vec<&Workload> {
    let mut sorted: Vec<&Workload> = workloads.iter().collect();
    sorted.sort_by_key(|workload| std::cmp::Reverse(workload.user_namespace.verdict));
    sorted
}

fn key_of(workload: &Workload) -> String {
    key(&workload.object.to_string())
}

/// A workload with all that is known of it.
fn whole(page: &mut Markup, workload: &Workload) {
    let attributes = [
        ("class", "workload"),
        ("data-item", "workload"),
        ("data-namespace", workload.object.namespace.as_str()),
        ("data-verdict", words::verdict(workload.user_namespace.verdict).class),
    ];
    page.within("details", &attributes, |page| {
        page.within("summary", &[], |page| summary(page, workload));
        page.within("div", &[("class", "body")], |page| body(page, workload));
    });
}

fn row(page: &mut Markup, workload: &Workload, at: Position) {
    let filters = [
        ("data-namespace", workload.object.namespace.as_str()),
        ("data-verdict", words::verdict(workload.user_namespace.verdict).class),
    ];
    let row = Row {
        class: "workload",
        item: "workload",
        key: key_of(workload),
        filters: &filters,
        words: &searched(workload),
        state: &serde_json::to_vec(workload).unwrap_or_default(),
    };
    row.write(page, at, |page| summary(page, workload), |page| body(page, workload));
}

/// What a search finds a workload by.
fn searched(workload: &Workload) -> Vec<&str> {
    let object = &workload.object;
    let reasons = workload.user_namespace.reasons.iter().flat_map(|r| [&r.field, &r.cause, &r.hint]);
    let findings = workload.selinux.findings.iter().flat_map(|f| [&f.volume, &f.field, &f.cause]);
    let own = [&object.kind, &object.namespace, &object.name].into_iter().chain(&workload.selinux.labels);
    own.chain(reasons).chain(findings).map(String::as_str).collect()
}

fn summary(page: &mut Markup, workload: &Workload) {
    let verdict = words::verdict(workload.user_namespace.verdict);
    let class = format!("tag {}", verdict.class);
    page.element("span", &[("class", &class)], &format!("{} {}", verdict.sign, verdict.text));
    page.within("span", &[("class", "title")], |page| {
        page.element("span", &[("class", "quiet")], &format!("{}/", workload.object.namespace));
        page.element("strong", &[], &workload.object.name);
    });
    page.element("span", &[("class", "quiet facts")], &facts(workload));
}

fn facts(workload: &Workload) -> String {
    let pods = u64::try_from(workload.pods).unwrap_or(u64::MAX);
    let mut facts = vec![workload.object.kind.clone()];
    match (pods, workload.replicas) {
        (0, Some(replicas)) => facts.push(words::count(u64::from(replicas), "replica")),
        (0, None) => {}
        (pods, _) => facts.push(words::count(pods, "pod")),
    }
    let namespace = &workload.user_namespace;
    facts.push(words::now(namespace.now, namespace.verdict).to_owned());
    facts.join(" · ")
}

fn body(page: &mut Markup, workload: &Workload) {
    if let Some(place) = &workload.source {
        let place = format!("{}:{}:{}", place.file, place.line, place.column);
        page.within("p", &[("class", "quiet")], |page| page.element("code", &[], &place));
    }
    if workload.user_namespace.reasons.is_empty() {
        page.element("p", &[], "Nothing stands in the way of a user namespace of its own.");
    }
    workload.user_namespace.reasons.iter().for_each(|r| reason(page, r));
    workload.selinux.findings.iter().for_each(|f| finding(page, f));
    pod_security(page, &workload.pod_security);
    if let Some(patch) = &workload.patch {
        patches::patch(page, patch);
    }
}

fn reason(page: &mut Markup, reason: &Reason) {
    let weight = words::weight(reason.weight);
    let class = format!("tag {}", weight.class);
    explained(
        page,
        &class,
        &format!("{} {}", weight.sign, weight.text),
        [&reason.field, &reason.cause, &reason.hint],
    );
}

fn finding(page: &mut Markup, finding: &SelinuxFinding) {
    let tag = format!("SELinux, {}", words::when(finding.when));
    explained(page, "tag risky", &tag, [&finding.field, &finding.cause, &finding.hint]);
}

/// A tag, then field, cause and hint, each where it is known.
fn explained(page: &mut Markup, class: &str, tag: &str, [field, cause, hint]: [&str; 3]) {
    page.within("div", &[("class", "reason")], |page| {
        page.element("span", &[("class", class)], tag);
        page.within("div", &[], |page| {
            page.within("p", &[], |page| {
                if !field.is_empty() {
                    page.element("code", &[], field);
                    page.text(" ");
                }
                page.text(cause);
            });
            if !hint.is_empty() {
                page.element("p", &[("class", "hint")], hint);
            }
        });
    });
}

fn pod_security(page: &mut Markup, security: &PodSecurity) {
    if security.now.is_empty() {
        return;
    }
    page.within("div", &[("class", "reason")], |page| {
        page.element("span", &[("class", "tag")], "Pod Security");
        page.within("div", &[], |page| {
            page.within("p", &[], |page| {
                page.element("strong", &[], &security.now);
                if security.with_user_namespace != security.now {
                    page.text(", with a user namespace ");
                    page.element("strong", &[], &security.with_user_namespace);
                }
            });
            if !security.violations.is_empty() {
                page.within("ul", &[("class", "plain")], |page| violations(page, security));
            }
        });
    });
}

fn violations(page: &mut Markup, security: &PodSecurity) {
    for violation in &security.violations {
        page.within("li", &[], |page| {
            page.element("code", &[], &violation.field);
            page.text(&format!(" {} ({}, {})", violation.found, violation.level, violation.check));
            if violation.allowed_in_user_namespace {
                page.element("span", &[("class", "quiet")], ", allowed in a user namespace");
            }
        });
    }
}
