//! The page of the controller.

mod overview;
mod trend;

use serde::Serialize;
use types::time;

use super::conflicts::Contested;
use super::filters::{self, Choice};
use super::markup::Markup;
use super::page::{Head, Source, document as whole, policy};
use super::{choices_of, conflicts_title, footer, live_state, overview as report, query_value, workloads};
use crate::pages::{ClusterPage, Document};

/// So many rows of a list have their content in the page. The others fetch it when they are opened: a page with all of it
/// would be too large for a browser where there are thousands of conflicts.
const FILLED: usize = 40;

/// The page.
#[must_use]
pub fn render(page: &ClusterPage) -> String {
    let revision = page.revision.to_string();
    let name = if page.cluster.is_empty() { "cluster" } else { page.cluster.as_str() };
    let title = format!("wardlet: {name}");
    let head = Head { title: &title, source: Source::Server, body: &[("data-revision", &revision)] };
    whole(&head, |markup| body(markup, page))
}

/// What a server answers for a path below the page's address, which ends in a slash: the page itself for the empty path.
///
/// | path | |
/// |---|---|
/// | | the page |
/// | `data.json` | the [`ClusterPage`] as JSON |
/// | `revision.json` | its revision and time, by which the page notices a new state |
/// | `card?key=KEY`, `workload?key=KEY` | the content of a row |
///
/// `None` if there is no such path, or no such row any more.
#[must_use]
pub fn document(page: &ClusterPage, path: &str, query: &str) -> Option<Document> {
    let key = || query_value(query, "key");
    match path {
        "" => Some(Document::page(render(page), policy(Source::Server))),
        "data.json" => Some(Document::json(page)),
        "revision.json" => Some(Document::json(&Revision::new(page.revision, page.taken))),
        "card" => contested(page).content_of(key()?).map(Document::part),
        "workload" => workloads::content_of(&page.workloads, key()?).map(Document::part),
        _ => None,
    }
}

/// The state that a page is in.
#[derive(Serialize)]
pub(super) struct Revision {
    revision: u64,
    time: String,
}

impl Revision {
    pub(super) fn new(revision: u64, taken: u64) -> Self {
        Self { revision, time: time::stamp(taken) }
    }
}

fn contested(page: &ClusterPage) -> Contested<'_> {
    Contested { volumes: &page.volumes, conflicts: &page.conflicts, fixes: &page.fixes }
}

fn body(markup: &mut Markup, page: &ClusterPage) {
    markup.raw("<a class=\"skip\" href=\"#conflicts\">Skip to the conflicts</a>");
    markup.within("header", &[], |markup| {
        markup.element("p", &[("class", "quiet")], "wardlet controller");
        markup.part("div", &[("id", "headline")], |markup| overview::headline(markup, page));
        live_state(markup, page.taken);
    });
    markup.within("main", &[], |markup| {
        markup.part("section", &[("id", "glance"), ("aria-label", "At a glance")], |markup| {
            overview::glance(markup, page);
        });
        filters::bar(markup, &choices(page));
        conflicts_section(markup, page);
        markup.part("section", &[("id", "trend"), ("aria-labelledby", "trend-title")], |markup| {
            trend::section(markup, &page.trend);
        });
        workloads_section(markup, page);
        markup.part("section", &[("id", "infrastructure")], |markup| overview::infrastructure(markup, page));
        markup.part("div", &[("id", "doubts")], |markup| report::doubts(markup, &page.problems, &page.notes));
    });
    footer(markup);
}

fn choices(page: &ClusterPage) -> Vec<Choice<'_>> {
    let users = page.volumes.iter().flat_map(|volume| &volume.users).map(|user| &user.workload);
    let objects = page.workloads.iter().map(|workload| &workload.object).chain(users);
    let drivers = page.volumes.iter().filter_map(|volume| volume.driver.as_deref());
    let mut all = Vec::from(choices_of(objects));
    all.push(Choice::of_names("driver", "Driver", drivers));
    all
}

fn conflicts_section(markup: &mut Markup, page: &ClusterPage) {
    let attributes = [("id", "conflicts"), ("aria-labelledby", "conflicts-title")];
    markup.within("section", &attributes, |markup| {
        conflicts_title(markup);
        markup.part("div", &[("id", "conflicts-state")], |markup| {
            if page.conflicts.is_empty() {
                markup.element("p", &[], "No volume has users that conflict.");
            }
            let left_out = page.left_out;
            super::left_out(markup, left_out.volumes, "more volumes in conflict are not listed");
            super::left_out(markup, left_out.conflicts, "more conflicts of these volumes are not listed");
        });
        markup.within("div", &[("id", "conflict-list"), ("data-list", "")], |markup| {
            contested(page).rows(markup, FILLED);
        });
    });
}

fn workloads_section(markup: &mut Markup, page: &ClusterPage) {
    let attributes = [("id", "workloads"), ("aria-labelledby", "workloads-title")];
    markup.within("section", &attributes, |markup| {
        workloads::title(markup);
        markup.part("div", &[("id", "workloads-state")], |markup| {
            super::left_out(markup, page.left_out.workloads, "more workloads are not listed");
        });
        markup.within("div", &[("id", "workload-list"), ("data-list", "")], |markup| {
            workloads::rows(markup, &page.workloads, FILLED);
        });
    });
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use check::{
        Conflict, ConflictSide, Fix, FixOption, How, ObjectRef, Problem, Property, Severity, User, Volume,
        When,
    };

    use super::*;
    use crate::html::key;
    use crate::pages::{DriverReadiness, NodeCause, NodeReadiness, SelinuxReadiness, TrendPoint, Watch};

    const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\" onclick=\"x";

    fn object(name: &str) -> ObjectRef {
        ObjectRef { kind: "Pod".into(), namespace: "shop".into(), name: name.into() }
    }

    fn user(name: &str, label: &str) -> User {
        let (label, policy) = (label.to_owned(), "MountOption".to_owned());
        User { workload: object(name), label, policy, nodes: vec!["n1".into()], pods: 1 }
    }

    fn conflict(volume: &str, names: [&str; 2]) -> Conflict {
        let [a, b] = names.map(|name| ConflictSide {
            workload: object(name),
            value: format!("label of {name}"),
            pod: None,
            pods: 1,
        });
        Conflict {
            property: Property::SELinuxLabel,
            volume: volume.into(),
            a,
            b,
            severity: Severity::MayMeet,
            why: "they may meet".into(),
            when: When::AfterUpgrade,
            pairs: 1,
        }
    }

    fn volume(number: usize) -> Volume {
        let (a, b) = (format!("a{number}"), format!("b{number}"));
        let id = format!("kubernetes.io/csi/nfs^{number:05}");
        Volume {
            id,
            driver: Some("nfs".into()),
            users: vec![user(&a, "l1"), user(&b, "l2")],
            ..Volume::default()
        }
    }

    fn page(volumes: usize) -> ClusterPage {
        let volumes: Vec<Volume> = (0..volumes).map(volume).collect();
        let of = |volume: &Volume| {
            let names = [volume.users[0].workload.name.as_str(), volume.users[1].workload.name.as_str()];
            conflict(&volume.id, names)
        };
        let conflicts = volumes.iter().map(of).collect();
        ClusterPage { volumes, conflicts, watch: Watch::Live, revision: 7, ..ClusterPage::default() }
    }

    fn text(page: &ClusterPage, path: &str, query: &str) -> String {
        document(page, path, query).unwrap_or_else(|| panic!("{path}?{query}")).body
    }

    #[test]
    fn a_page_of_nothing_is_a_whole_page() {
        let page = render(&ClusterPage::default());
        assert!(page.starts_with("<!doctype html>") && page.contains(" data-revision=\"0\""));
        assert!(page.contains("No volume has users that conflict."));
        assert_eq!(page.matches("<script>").count(), 2);
    }

    #[test]
    fn text_of_the_cluster_stays_text_wherever_it_is() {
        let mut page = page(0);
        let hostile = || HOSTILE.to_owned();
        page.cluster = hostile();
        page.kubernetes = hostile();
        page.watch = Watch::Stale { since: 0, cause: hostile() };
        page.nodes = NodeReadiness {
            unable: 1,
            causes: vec![NodeCause { node: hostile(), cause: hostile() }],
            ..NodeReadiness::default()
        };
        page.selinux = SelinuxReadiness {
            drivers: vec![DriverReadiness { name: hostile(), ..DriverReadiness::default() }],
            ..SelinuxReadiness::default()
        };
        page.problems = vec![Problem { field: hostile(), cause: hostile(), hint: hostile(), place: None }];
        page.notes = vec![hostile()];
        page.volumes = vec![Volume {
            id: hostile(),
            claim: Some(hostile()),
            driver: Some(hostile()),
            users: vec![user(HOSTILE, HOSTILE), user("b", "l2")],
            ..Volume::default()
        }];
        page.conflicts = vec![Conflict { why: hostile(), ..conflict(HOSTILE, [HOSTILE, "b"]) }];
        let option = FixOption {
            how: How::OptOut,
            what: hostile(),
            fields: 1,
            gives_up: vec![hostile()],
            patches: vec![],
        };
        page.fixes = vec![Fix { volume: hostile(), options: vec![option] }];
        let key = format!("key={}", key(HOSTILE));
        for text in [render(&page), text(&page, "card", &key)] {
            assert!(!text.contains("<img") && !text.contains("alert(1)</script>"), "{text}");
            assert!(!text.contains("\" onclick="), "{text}");
            assert!(text.contains("&lt;img src=x"), "{text}");
        }
        assert_eq!(render(&page).matches("<script>").count(), 2);
    }

    #[test]
    fn every_path_of_the_page_has_its_document_and_others_have_none() {
        let page = page(2);
        let whole = document(&page, "", "").unwrap();
        assert_eq!(whole.kind, "text/html; charset=utf-8");
        assert!(whole.policy.unwrap().contains("connect-src 'self'"));
        let data: ClusterPage = serde_json::from_str(&text(&page, "data.json", "")).unwrap();
        assert_eq!(data, page);
        assert_eq!(text(&page, "revision.json", ""), r#"{"revision":7,"time":"1970-01-01T00:00:00Z"}"#);
        let card = text(&page, "card", &format!("key={}", key(&page.volumes[1].id)));
        assert!(card.contains("shop/a1") && card.contains("<svg") && !card.contains("shop/a0"), "{card}");
        for (path, query) in
            [("card", ""), ("card", "key=none"), ("workload", "key=x"), ("other", ""), ("../data.json", "")]
        {
            assert_eq!(document(&page, path, query), None, "{path}?{query}");
        }
    }

    #[test]
    fn five_thousand_conflicts_are_rows_whose_content_is_fetched() {
        let page = page(5_000);
        let begun = Instant::now();
        let whole = render(&page);
        let took = begun.elapsed();
        assert_eq!(whole.matches("data-item=\"conflict\"").count(), 5_000);
        assert_eq!(whole.matches("data-load=\"card?key=").count(), 5_000 - FILLED);
        assert_eq!(whole.matches("<svg").count(), FILLED);
        assert!(whole.len() < 6 << 20, "{} bytes", whole.len());
        // Without optimisation and beside other tests.
        assert!(took.as_secs() < 30, "{took:?}");
    }

    #[test]
    fn a_row_has_the_same_stamp_until_what_it_opens_to_is_another() {
        let stamps = |page: &ClusterPage| -> Vec<String> {
            let whole = render(page);
            let rows = whole.split("<details class=\"opens conflict\"").skip(1);
            rows.map(|row| row.split("data-stamp=\"").nth(1).unwrap().split('"').next().unwrap().to_owned())
                .collect()
        };
        let mut page = page(3);
        let before = stamps(&page);
        page.conflicts[1].why = "they are on one node".into();
        let after = stamps(&page);
        let differ: Vec<bool> = before.iter().zip(&after).map(|(a, b)| a != b).collect();
        assert_eq!(differ, [false, true, false]);
    }

    #[test]
    fn the_gravest_conflict_is_the_first_row() {
        let mut page = page(3);
        page.conflicts[2].severity = Severity::OnOneNode;
        let whole = render(&page);
        let at = |number: usize| whole.find(&key(&page.volumes[number].id)).unwrap();
        assert!(at(2) < at(0) && at(0) < at(1));
    }

    #[test]
    fn a_trend_is_drawn_and_told_in_a_table() {
        let mut page = page(1);
        let point = |time, conflicts| TrendPoint { time, conflicts, on_one_node: 1, ..TrendPoint::default() };
        page.trend = vec![point(0, 4), point(3_600, 9), point(7_200, 2)];
        let whole = render(&page);
        assert_eq!(whole.matches("class=\"series ").count(), 2);
        assert!(whole.contains("1970-01-01T01:00:00Z") && whole.contains("from 4 to 2 conflicts"), "{whole}");
    }

    #[test]
    fn a_page_has_no_styles_or_handlers_of_elements_own() {
        let mut page = page(3);
        page.trend =
            vec![TrendPoint::default(), TrendPoint { time: 5, conflicts: 1, ..TrendPoint::default() }];
        let whole = render(&page);
        assert!(!whole.contains(" style=") && !whole.contains(" onclick=") && !whole.contains(" src="));
        for outside in ["http://", "https://", "@import", "url("] {
            assert!(!whole.contains(outside), "{outside}");
        }
    }
}
