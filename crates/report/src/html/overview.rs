//! The answer at a glance: what breaks, and how many workloads are how far.

use check::{Driver, GatesAt, Problem, Report, Summary};

use super::markup::Markup;
use super::tiles::{Tile, bar, tiles};
use super::words;

/// More of one list than this are only counted: a page must stay one that a browser can show.
const LISTED: usize = 300;

pub(super) fn header(page: &mut Markup, report: &Report) {
    let (from, to) = (&report.upgrade.from, &report.upgrade.to);
    page.within("header", &[], |page| {
        page.element("p", &[("class", "quiet")], "wardlet check");
        page.element("h1", &[], &headline(report));
        page.within("p", &[("class", "lead")], |page| {
            page.text(&format!("Kubernetes {} to {}", from.version, to.version));
            changed_gates(page, from, to);
        });
    });
}

fn headline(report: &Report) -> String {
    match report.breaks.len() {
        0 if report.problems.is_empty() => "The upgrade breaks nothing".to_owned(),
        0 => "Nothing that could be read breaks".to_owned(),
        1 => "The upgrade breaks one thing".to_owned(),
        n => format!("The upgrade breaks {n} things"),
    }
}

fn changed_gates(page: &mut Markup, from: &GatesAt, to: &GatesAt) {
    let changed = to.gates.iter().filter(|(gate, on)| from.gates.get(*gate) != Some(on));
    for (gate, on) in changed {
        page.text(", ");
        page.element("code", &[], gate);
        page.text(if *on { " goes on" } else { " goes off" });
    }
}

pub(super) fn glance(page: &mut Markup, summary: &Summary) {
    page.within("section", &[("class", "glance"), ("aria-label", "At a glance")], |page| {
        let all = [
            Tile::new("blocked", summary.blocked, "blocked"),
            Tile::new("risky", summary.risky, "risky"),
            Tile::new("ready", summary.ready, "ready"),
            Tile::new("calm", summary.isolated, "isolated already"),
            Tile::new("mayMeet", summary.conflicts, "volume conflicts"),
            Tile::new("calm", summary.problems, "not understood"),
        ];
        tiles(page, &all);
        verdicts(page, summary);
    });
}

/// The verdicts on workloads as parts of one bar.
pub(super) fn verdicts(page: &mut Markup, summary: &Summary) {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    let parts = [("blocked", summary.blocked), ("risky", summary.risky), ("ready", summary.ready)];
    let total: usize = parts.iter().map(|(_, n)| n).sum();
    let said = format!("{} of {total} workloads are ready", summary.ready);
    bar(page, &parts.map(|(class, n)| (class, count(n))), &said);
}

/// What `--gate` fails on.
pub(super) fn breaks(page: &mut Markup, report: &Report) {
    if report.breaks.is_empty() {
        return;
    }
    page.within("section", &[("id", "breaks")], |page| {
        page.element("h2", &[], "What the upgrade breaks");
        page.within("ul", &[("class", "breaks")], |page| {
            for broken in report.breaks.iter().take(LISTED) {
                let namespaces: Vec<&str> = broken.workloads.iter().map(|w| w.namespace.as_str()).collect();
                let attributes = [("data-item", "break"), ("data-namespace", &namespaces.join(" "))];
                page.within("li", &attributes, |page| {
                    page.element("p", &[], &broken.text);
                    page.within("p", &[("class", "tags")], |page| {
                        let shown = broken.workloads.iter().take(12);
                        shown.for_each(|object| {
                            page.element("span", &[("class", "tag")], &words::object_name(object))
                        });
                        let more = broken.workloads.len().saturating_sub(12);
                        if more > 0 {
                            page.element("span", &[("class", "tag")], &format!("and {more} more"));
                        }
                    });
                });
            }
        });
        let more = report.breaks.len().saturating_sub(LISTED);
        if more > 0 {
            page.element("p", &[("class", "quiet")], &format!("and {more} more, all of them in -o json"));
        }
    });
}

pub(super) fn drivers(page: &mut Markup, drivers: &[Driver]) {
    if drivers.is_empty() {
        return;
    }
    page.within("section", &[("id", "drivers")], |page| {
        page.element("h2", &[], "CSI drivers");
        page.within("ul", &[("class", "breaks")], |page| {
            for driver in drivers {
                page.within("li", &[], |page| {
                    page.within("p", &[], |page| {
                        page.element("strong", &[], &driver.name);
                        page.text(&format!(": {}", driver.cause));
                    });
                    page.element("p", &[("class", "hint")], &driver.hint);
                });
            }
        });
    });
}

/// What the answer does not rest on.
pub(super) fn doubts(page: &mut Markup, problems: &[Problem], notes: &[String]) {
    if !problems.is_empty() {
        page.within("section", &[("id", "problems")], |page| {
            page.element("h2", &[], "What could not be read or understood");
            page.within("ul", &[("class", "breaks")], |page| {
                problems.iter().take(LISTED).for_each(|p| problem(page, p));
            });
        });
    }
    if !notes.is_empty() {
        page.within("section", &[("id", "notes")], |page| {
            page.element("h2", &[], "What was taken for granted");
            page.within("ul", &[("class", "plain")], |page| {
                notes.iter().for_each(|note| page.element("li", &[], note));
            });
        });
    }
}

fn problem(page: &mut Markup, problem: &Problem) {
    page.within("li", &[], |page| {
        page.within("p", &[], |page| {
            if let Some(place) = &problem.place {
                page.element("code", &[], &format!("{}:{}:{}", place.file, place.line, place.column));
                page.text(" ");
            }
            if !problem.field.is_empty() {
                page.element("code", &[], &problem.field);
                page.text(" ");
            }
            page.text(&problem.cause);
        });
        if !problem.hint.is_empty() {
            page.element("p", &[("class", "hint")], &problem.hint);
        }
    });
}
