//! The report as one HTML file: no network, no other file, light and dark, for keyboards and phones.
//!
//! - [`markup`]: the only way to write the page; what comes from objects goes in escaped.
//! - [`overview`]: the answer at a glance.
//! - [`graph`]: which volumes and workloads hang together; [`picture`]: how that is drawn.
//! - [`conflicts`], [`workloads`], [`patches`]: the parts of the page.
//! - [`filters`]: what a reader can narrow the page to.
//! - [`words`]: what things are called.
//!
//! Everything is in the page as it is written; the script only hides what a filter leaves out, and copies.

mod conflicts;
mod filters;
mod graph;
mod markup;
mod overview;
mod patches;
mod picture;
mod words;
mod workloads;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};

use check::Report;
use markup::Markup;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The whole page.
#[must_use]
pub fn render(report: &Report) -> String {
    let mut page = Markup::default();
    page.raw("<!doctype html>\n");
    page.within("html", &[("lang", "en")], |page| {
        head(page);
        page.within("body", &[], |page| body(page, report));
    });
    page.raw("\n");
    page.into_string()
}

/// The browser runs our script and no other, and loads nothing: a name that got through as markup would
/// still do nothing.
fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(digest(&SHA256, text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

fn head(page: &mut Markup) {
    page.within("head", &[], |page| {
        page.raw("<meta charset=\"utf-8\">");
        page.open("meta", &[("http-equiv", "Content-Security-Policy"), ("content", &policy())]);
        page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
        page.raw("<meta name=\"color-scheme\" content=\"light dark\">");
        page.raw("<meta name=\"referrer\" content=\"no-referrer\">");
        page.raw("<title>wardlet check</title><style>");
        page.raw(STYLE);
        page.raw("</style>");
    });
}

fn body(page: &mut Markup, report: &Report) {
    page.raw("<a class=\"skip\" href=\"#workloads\">Skip to the workloads</a>");
    overview::header(page, report);
    page.within("main", &[], |page| {
        overview::glance(page, &report.summary);
        filters::bar(page, report);
        overview::breaks(page, report);
        conflicts::section(page, report);
        overview::drivers(page, &report.drivers);
        workloads::section(page, report);
        overview::doubts(page, report);
    });
    page.within("footer", &[("class", "quiet")], |page| {
        page.text(concat!("wardlet ", env!("CARGO_PKG_VERSION")));
        page.raw("<p id=\"said\" role=\"status\" aria-live=\"polite\"></p>");
    });
    page.raw("<script>");
    page.raw(SCRIPT);
    page.raw("</script>");
}

#[cfg(test)]
mod tests {
    use super::*;
    use check::{Break, BreakRule, ObjectRef};

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

    #[test]
    fn nothing_in_our_style_or_script_needs_another_file() {
        for text in [STYLE, SCRIPT] {
            assert!(!text.contains("http:") && !text.contains("https:") && !text.contains("url("));
            assert!(!text.contains("</"));
        }
    }
}
