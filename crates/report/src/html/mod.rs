//! Pages for browsers: no network but their own server, no other file, light and dark, for keyboards and phones.
//!
//! - [`render`]: the report of `check` as one file.
//! - [`cluster`]: the page of the controller; [`node`]: the page of the agent on its node.
//!
//! Shared by all of them:
//!
//! - [`markup`]: the only way to write a page; what comes from objects goes in escaped.
//! - `page`: the document around the content: policy, style, scripts.
//! - [`tiles`], [`filters`], [`rows`]: numbers at a glance; what a reader can narrow a page to; rows that open.
//! - [`graph`]: which volumes and workloads hang together; [`picture`]: how that is drawn.
//! - [`overview`], [`conflicts`], [`workloads`], [`patches`]: the parts of the pages.
//! - [`words`]: what things are called.
//!
//! Everything that a filter finds is in the page as it is written. The scripts hide what a filter leaves out, copy, and on a
//! page that a server serves fetch the content of a row that is opened, and the page's next state.

pub mod cluster;
mod conflicts;
mod filters;
mod graph;
mod markup;
pub mod node;
mod overview;
mod page;
mod patches;
mod picture;
mod rows;
mod tiles;
mod words;
mod workloads;

use check::{ObjectRef, Report};
use types::time;

use conflicts::Contested;
use filters::Choice;
use markup::Markup;
use page::{Head, Source, document};
pub(crate) use rows::key;

/// The report of `check` as one file.
#[must_use]
pub fn render(report: &Report) -> String {
    let head = Head { title: "wardlet check", source: Source::File, body: &[] };
    document(&head, |page| body(page, report))
}

fn body(page: &mut Markup, report: &Report) {
    page.raw("<a class=\"skip\" href=\"#workloads\">Skip to the workloads</a>");
    overview::header(page, report);
    page.within("main", &[], |page| {
        overview::glance(page, &report.summary);
        filters::bar(page, &choices(report));
        overview::breaks(page, report);
        conflicts_section(page, report);
        overview::drivers(page, &report.drivers);
        workloads::section(page, &report.workloads);
        overview::doubts(page, &report.problems, &report.notes);
    });
    footer(page);
}

fn choices(report: &Report) -> [Choice<'_>; 3] {
    let users = report.volumes.iter().flat_map(|volume| &volume.users).map(|user| &user.workload);
    let objects = report.workloads.iter().map(|workload| &workload.object).chain(users);
    choices_of(objects)
}

/// What both the report and the page of a cluster can be narrowed to.
fn choices_of<'a>(objects: impl Iterator<Item = &'a ObjectRef>) -> [Choice<'a>; 3] {
    [
        Choice::of_namespaces(objects),
        Choice::of_words("verdict", "Verdict", words::VERDICTS.map(words::verdict)),
        Choice::of_words("severity", "Severity", words::SEVERITIES.map(words::severity)),
    ]
}

fn conflicts_section(page: &mut Markup, report: &Report) {
    if report.conflicts.is_empty() {
        return;
    }
    page.within("section", &[("id", "conflicts"), ("aria-labelledby", "conflicts-title")], |page| {
        conflicts_title(page);
        Contested::of(report).cards(page);
    });
}

/// What stands above volumes in conflict.
fn conflicts_title(page: &mut Markup) {
    page.within("h2", &[("id", "conflicts-title")], |page| {
        page.text("Volumes in conflict ");
        page.element("span", &[("class", "count"), ("data-count", "conflict")], "");
    });
    page.element("p", &[("class", "lead")], conflicts::LEAD);
}

/// How much of a list is not in the page.
fn left_out(page: &mut Markup, count: u64, what: &str) {
    if count > 0 {
        page.element("p", &[("class", "quiet")], &format!("{count} {what}."));
    }
}

/// When the data of a served page was taken, and the button that pauses its updates, which the script shows.
fn live_state(page: &mut Markup, taken: u64) {
    page.within("p", &[("class", "live")], |page| {
        page.element("span", &[("id", "live")], &format!("As of {}", time::stamp(taken)));
        page.raw("<button id=\"pause\" type=\"button\" aria-pressed=\"false\" hidden>Pause updates</button>");
    });
}

/// The value of a parameter in a query; keys of rows need no decoding.
fn query_value<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// The version, and where the scripts say what they have done.
fn footer(page: &mut Markup) {
    page.within("footer", &[("class", "quiet")], |page| {
        page.text(concat!("wardlet ", env!("CARGO_PKG_VERSION")));
        page.raw("<p id=\"said\" role=\"status\" aria-live=\"polite\"></p>");
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use check::{Break, BreakRule};

    const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>";

    #[test]
    fn an_empty_report_is_a_whole_page() {
        let page = render(&Report::default());
        assert!(page.starts_with("<!doctype html>"));
        assert!(page.contains("The upgrade breaks nothing"));
        assert_eq!(page.matches("<script>").count(), 1);
    }

    #[test]
    fn hostile_names_stay_text() {
        let workload = ObjectRef { kind: HOSTILE.into(), namespace: HOSTILE.into(), name: HOSTILE.into() };
        let broken = Break {
            what: BreakRule::Conflict,
            workloads: vec![workload],
            volume: Some(HOSTILE.into()),
            text: HOSTILE.into(),
        };
        let page = render(&Report { breaks: vec![broken], notes: vec![HOSTILE.into()], ..Report::default() });
        assert_eq!(page.matches("<script>").count(), 1);
        assert_eq!(page.matches("</script>").count(), 1);
        assert!(!page.contains("<img"));
    }
}
