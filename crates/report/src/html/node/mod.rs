//! The page of the agent on its node.

mod pods;
mod proof;
mod space;
mod starts;

use check::ObjectRef;
use ids::HostSpan;
use plan::UserNamespaceMode;

use super::cluster::Revision;
use super::filters::{self, Choice};
use super::markup::Markup;
use super::page::{Head, Source, document as whole, policy};
use super::tiles::{Tile, tiles};
use super::words::{self, Word};
use super::{footer, live_state, query_value};
use crate::pages::{Document, LastProof, NodePage, NodePod};

/// So many pods have their content in the page; the others fetch it when they are opened.
const FILLED: usize = 20;

/// The page.
#[must_use]
pub fn render(page: &NodePage) -> String {
    let revision = page.revision.to_string();
    let title = format!("wardlet: node {}", page.node);
    let head = Head { title: &title, source: Source::Server, body: &[("data-revision", &revision)] };
    whole(&head, |markup| body(markup, page))
}

/// What a server answers for a path below the page's address, which ends in a slash: the page itself for the empty path.
///
/// | path | |
/// |---|---|
/// | | the page |
/// | `data.json` | the [`NodePage`] as JSON |
/// | `revision.json` | its revision and time, by which the page notices a new state |
/// | `pod?key=KEY` | the content of a row |
///
/// `None` if there is no such path, or no such pod any more.
#[must_use]
pub fn document(page: &NodePage, path: &str, query: &str) -> Option<Document> {
    match path {
        "" => Some(Document::page(render(page), policy(Source::Server))),
        "data.json" => Some(Document::json(page)),
        "revision.json" => Some(Document::json(&Revision::new(page.revision, page.taken))),
        "pod" => pods::content_of(page, query_value(query, "key")?).map(Document::part),
        _ => None,
    }
}

fn body(markup: &mut Markup, page: &NodePage) {
    markup.raw("<a class=\"skip\" href=\"#pods\">Skip to the pods</a>");
    markup.within("header", &[], |markup| {
        markup.element("p", &[("class", "quiet")], "wardlet agent");
        markup.part("div", &[("id", "headline")], |markup| {
            markup.element("h1", &[], &format!("Node {}", page.node));
            markup.element("p", &[("class", "lead")], &proof::conclusion(page));
        });
        live_state(markup, page.taken);
    });
    markup.within("main", &[], |markup| {
        markup.part("section", &[("id", "glance"), ("aria-label", "At a glance")], |markup| {
            glance(markup, page)
        });
        filters::bar(markup, &choices(page));
        markup.part("section", &[("id", "space"), ("aria-labelledby", "space-title")], |markup| {
            space::section(markup, &page.ids);
        });
        markup.part("section", &[("id", "waiting")], |markup| pods::waiting(markup, &page.waiting));
        markup.within("section", &[("id", "pods"), ("aria-labelledby", "pods-title")], |markup| {
            pods::title(markup);
            markup.within("div", &[("id", "pod-list"), ("data-list", "")], |markup| {
                pods::rows(markup, page, FILLED);
            });
        });
        markup.part("section", &[("id", "proof"), ("aria-labelledby", "proof-title")], |markup| {
            proof::section(markup, &page.proof);
        });
        markup.part("section", &[("id", "starts"), ("aria-labelledby", "starts-title")], |markup| {
            starts::section(markup, &page.pods);
        });
        markup.part("section", &[("id", "problems")], |markup| problems(markup, &page.problems));
    });
    footer(markup);
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn glance(markup: &mut Markup, page: &NodePage) {
    let of = |mode| page.pods.iter().filter(|pod| pod.user_namespace == mode).count();
    let counts = &page.ids.counts;
    let all = [
        Tile::new("ready", of(UserNamespaceMode::Own), "pods in blocks of their own"),
        Tile::new("risky", of(UserNamespaceMode::Shared), "in the shared block"),
        Tile::new("calm", of(UserNamespaceMode::Host), "with the host's users"),
        Tile::new("blocked", page.waiting.len(), "cannot be started"),
        Tile::new("calm", counts.free, "blocks free"),
        Tile::new("blocked", violations(page), "violations"),
    ];
    tiles(markup, &all);
}

fn violations(page: &NodePage) -> usize {
    match &page.proof {
        LastProof::Done(proof) => proof.violations.len(),
        _ => 0,
    }
}

fn choices(page: &NodePage) -> [Choice<'_>; 2] {
    let names = page.pods.iter().map(|pod| pod.namespace.as_str());
    let names = names.chain(page.waiting.iter().map(|pod| pod.namespace.as_str()));
    let modes = [UserNamespaceMode::Own, UserNamespaceMode::Shared, UserNamespaceMode::Host];
    [
        Choice::of_names("namespace", "Namespace", names),
        Choice::of_words("users", "User namespace", modes.map(mode)),
    ]
}

/// Where the IDs of a pod come from.
fn mode(mode: UserNamespaceMode) -> Word {
    match mode {
        UserNamespaceMode::Own => Word { class: "own", sign: "✓", text: "own block" },
        UserNamespaceMode::Shared => Word { class: "shared", sign: "!", text: "shared block" },
        UserNamespaceMode::Host => Word { class: "host", sign: "–", text: "host's users" },
    }
}

/// `shop/web`
fn title_of(pod: &NodePod) -> String {
    words::name_in_namespace(&ObjectRef {
        kind: String::new(),
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
    })
}

fn span(ids: Option<HostSpan>) -> String {
    ids.map_or_else(|| "the host's".to_owned(), |ids| ids.to_string())
}

fn problems(markup: &mut Markup, problems: &[String]) {
    if problems.is_empty() {
        return;
    }
    markup.element("h2", &[], "What could not be read");
    markup.within("ul", &[("class", "plain")], |markup| {
        problems.iter().for_each(|problem| markup.element("li", &[], problem));
    });
}

#[cfg(test)]
mod tests {
    use ids::UNIT;
    use plan::{HowLabelled, Idmap, Warning};

    use super::*;
    use crate::html::key;
    use crate::pages::{
        BlockState, Container, IdRow, IdSpace, IdUse, NodeMount, Proof, ProofViolation, ProvenPod, StartStep,
        StartTimes, WaitingPod,
    };

    const HOSTILE: &str = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\" onclick=\"x";

    fn block(number: u64) -> HostSpan {
        HostSpan::new(number * UNIT, UNIT).unwrap()
    }

    fn step(name: &str, begin: u64, took: Option<u64>) -> StartStep {
        StartStep { name: name.into(), container: String::new(), begin, took }
    }

    fn pod(name: &str, number: u64) -> NodePod {
        NodePod {
            namespace: "shop".into(),
            name: name.into(),
            uid: format!("u-{name}"),
            phase: "Running".into(),
            handler: String::new(),
            user_namespace: UserNamespaceMode::Own,
            uids: Some(block(number)),
            gids: Some(block(number)),
            level: Some("s0:c1,c2".into()),
            closed_gate: None,
            reasons: vec!["the pod asks for a user namespace".into()],
            warnings: vec![],
            mounts: vec![NodeMount {
                container: "app".into(),
                volume: "data".into(),
                path: "/data".into(),
                idmap: Idmap::Own,
                how: HowLabelled::Mount,
                context: Some("system_u:object_r:container_file_t:s0:c1,c2".into()),
                read_only: false,
                recursive_read_only: false,
                propagation: "None".into(),
                why: "idmapped; its driver can".into(),
            }],
            containers: vec![Container {
                name: "app".into(),
                state: "running".into(),
                ready: true,
                restarts: 3,
            }],
            start: Some(StartTimes {
                steps: vec![step("host IDs", 2, Some(8)), step("sandbox", 20, Some(100))],
                runs: Some(160),
            }),
        }
    }

    fn leased(number: u64, pod: &str) -> IdUse {
        IdUse {
            ids: block(number),
            state: BlockState::Leased,
            holder: format!("u-{pod}"),
            pod: Some(format!("shop/{pod}")),
            since: Some(0),
            note: None,
        }
    }

    fn page(pods: usize) -> NodePage {
        let numbered = |n: usize| (format!("p{n}"), u64::try_from(n).unwrap() + 1);
        let all = (0..pods).map(numbered);
        NodePage {
            node: "n1".into(),
            revision: 3,
            pods: all.clone().map(|(name, number)| pod(&name, number)).collect(),
            ids: IdSpace {
                block_length: UNIT,
                uids: IdRow {
                    pool: vec![HostSpan::new(UNIT, 500 * UNIT).unwrap()],
                    uses: all.map(|(name, number)| leased(number, &name)).collect(),
                },
                ..IdSpace::default()
            },
            ..NodePage::default()
        }
    }

    #[test]
    fn a_page_of_nothing_is_a_whole_page() {
        let page = render(&NodePage::default());
        assert!(page.starts_with("<!doctype html>") && page.contains("No pod runs on this node."));
        assert_eq!(page.matches("<script>").count(), 2);
    }

    #[test]
    fn a_pod_shows_its_block_its_mounts_its_plan_and_its_start() {
        let page = page(1);
        let text = document(&page, "pod", &format!("key={}", key("u-p0"))).unwrap().body;
        for words in [
            "65536-131071",
            "s0:c1,c2",
            "/data",
            "idmapped to its block",
            "container_file_t",
            "the pod asks for a user namespace",
            "host IDs",
            "sandbox",
            "restarted 3 times",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(text.contains("<svg"), "{text}");
    }

    #[test]
    fn the_id_space_is_a_picture_whose_cells_name_their_holders() {
        let text = render(&page(3));
        assert_eq!(text.matches(" class=\"leased\"").count(), 3);
        assert!(text.contains("<title>131072-196607 leased: shop/p1</title>"), "{text}");
    }

    #[test]
    fn a_thousand_pods_are_rows_whose_content_is_fetched() {
        let page = page(1_000);
        let text = render(&page);
        assert_eq!(text.matches("data-item=\"pod\"").count(), 1_000);
        assert_eq!(text.matches("data-load=\"pod?key=").count(), 1_000 - FILLED);
        assert!(text.len() < 2 << 20, "{}", text.len());
    }

    #[test]
    fn a_violation_is_in_the_headline_and_with_its_pod() {
        let mut page = page(2);
        page.proof = LastProof::Done(Proof {
            verdict: "violated".into(),
            pods: vec![ProvenPod { uid: "u-p0".into(), verdict: "violated".into(), ..ProvenPod::default() }],
            violations: vec![ProofViolation {
                what: "foreignProcess".into(),
                pod: Some("shop/p0".into()),
                pid: Some(12),
                expected: "no other process".into(),
                found: "process 12".into(),
                hint: "find its parent".into(),
                touches: vec!["u-p0".into()],
                ..ProofViolation::default()
            }],
            ..Proof::default()
        });
        let text = render(&page);
        assert!(text.contains("violations were found: 1"), "{text}");
        assert!(text.contains("foreignProcess") && text.contains("find its parent"), "{text}");
        assert_eq!(text.matches("✕ violated").count(), 1);
    }

    #[test]
    fn text_of_pods_stays_text_wherever_it_is() {
        let hostile = || HOSTILE.to_owned();
        let mut page = page(1);
        page.node = hostile();
        page.ids.origin = hostile();
        page.ids.uids.uses[0].pod = Some(hostile());
        page.ids.uids.uses[0].note = Some(hostile());
        page.problems = vec![hostile()];
        page.waiting = vec![WaitingPod {
            namespace: hostile(),
            name: hostile(),
            uid: hostile(),
            reason: hostile(),
            message: hostile(),
            since: 0,
        }];
        let violation = ProofViolation {
            what: hostile(),
            path: Some(hostile()),
            found: hostile(),
            ..ProofViolation::default()
        };
        page.proof = LastProof::Done(Proof {
            violations: vec![violation],
            unseen: vec![hostile()],
            ..Proof::default()
        });
        let pod = &mut page.pods[0];
        (pod.namespace, pod.name, pod.uid, pod.phase) = (hostile(), hostile(), hostile(), hostile());
        (pod.handler, pod.level, pod.closed_gate) = (hostile(), Some(hostile()), Some(hostile()));
        (pod.reasons, pod.warnings) = (vec![hostile()], vec![Warning { field: hostile(), text: hostile() }]);
        let mount = &mut pod.mounts[0];
        (mount.container, mount.volume, mount.path) = (hostile(), hostile(), hostile());
        (mount.context, mount.why, mount.propagation) = (Some(hostile()), hostile(), hostile());
        (pod.containers[0].name, pod.containers[0].state) = (hostile(), hostile());
        let steps = vec![StartStep { name: hostile(), container: hostile(), begin: 0, took: None }];
        pod.start = Some(StartTimes { steps, runs: None });
        let whole = render(&page);
        let part = document(&page, "pod", &format!("key={}", key(HOSTILE))).unwrap().body;
        for text in [&whole, &part] {
            assert!(!text.contains("<img") && !text.contains("alert(1)</script>"), "{text}");
            assert!(!text.contains("\" onclick="), "{text}");
        }
        assert_eq!(whole.matches("<script>").count(), 2);
        assert!(part.contains("&lt;img src=x"), "{part}");
    }

    #[test]
    fn every_path_of_the_page_has_its_document_and_others_have_none() {
        let page = page(1);
        let data: NodePage = serde_json::from_str(&document(&page, "data.json", "").unwrap().body).unwrap();
        assert_eq!(data, page);
        assert!(document(&page, "revision.json", "").unwrap().body.starts_with("{\"revision\":3,"));
        assert!(document(&page, "", "").unwrap().policy.unwrap().contains("script-src 'sha256-"));
        for (path, query) in [("pod", ""), ("pod", "key=none"), ("other", ""), ("card", "key=a")] {
            assert_eq!(document(&page, path, query), None, "{path}?{query}");
        }
    }
}
