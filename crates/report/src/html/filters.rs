use std::collections::BTreeSet;

use check::Report;

use super::markup::Markup;
use super::words::{self, Word};

/// What the page can be narrowed to. It does nothing without the script, which shows it.
pub(super) fn bar(page: &mut Markup, report: &Report) {
    page.within("form", &[("id", "filters"), ("role", "search"), ("aria-label", "Filters"), ("hidden", "")], |page| {
        page.within("label", &[("class", "wide")], |page| {
            page.element("span", &[], "Search");
            page.raw("<input id=\"text\" type=\"search\" placeholder=\"name, field, label …\" autocomplete=\"off\" spellcheck=\"false\">");
        });
        let namespaces: BTreeSet<&str> = namespaces(report);
        choice(page, "namespace", "Namespace", namespaces.iter().map(|n| (*n, *n)));
        let verdicts = words::VERDICTS.map(words::verdict);
        choice(page, "verdict", "Verdict", verdicts.iter().map(named));
        let severities = words::SEVERITIES.map(words::severity);
        choice(page, "severity", "Severity", severities.iter().map(named));
        page.raw("<button type=\"reset\">Clear</button>");
    });
}

fn named(word: &Word) -> (&str, &str) {
    (word.class, word.text)
}

fn namespaces(report: &Report) -> BTreeSet<&str> {
    let users = report.volumes.iter().flat_map(|volume| &volume.users).map(|user| &user.workload);
    let all = report.workloads.iter().map(|workload| &workload.object).chain(users);
    all.map(|object| object.namespace.as_str()).collect()
}

fn choice<'a>(
    page: &mut Markup,
    id: &'static str,
    name: &'static str,
    options: impl Iterator<Item = (&'a str, &'a str)>,
) {
    page.within("label", &[], |page| {
        page.element("span", &[], name);
        page.within("select", &[("id", id)], |page| {
            page.element("option", &[("value", "")], "all");
            options.for_each(|(value, text)| page.element("option", &[("value", value)], text));
        });
    });
}
