//! Conflicts: a card for each set of volumes that hang together.

use std::collections::{BTreeMap, BTreeSet};

use check::{Conflict, ConflictSide, Fix, Report, Volume};

use super::graph::{Asked, Picture, pictures};
use super::markup::Markup;
use super::{patches, picture, words};

/// More conflicts of one card than this are only counted.
const LISTED: usize = 40;

pub(super) fn section(page: &mut Markup, report: &Report) {
    let pictures = pictures(report);
    if pictures.is_empty() {
        return;
    }
    page.within("section", &[("id", "conflicts"), ("aria-labelledby", "conflicts-title")], |page| {
        page.within("h2", &[("id", "conflicts-title")], |page| {
            page.text("Volumes in conflict ");
            page.element("span", &[("class", "count"), ("data-count", "conflict")], "");
        });
        page.element(
            "p",
            &[("class", "lead")],
            "Pods that share a volume and ask for different SELinux labels cannot have it on one node when it is mounted with a label. A letter and a colour stand for what is asked for.",
        );
        let known = Known::of(report);
        pictures.iter().for_each(|picture| card(page, &known, picture));
    });
}

/// What the report says of each volume.
struct Known<'a> {
    conflicts: BTreeMap<&'a str, Vec<&'a Conflict>>,
    fixes: BTreeMap<&'a str, &'a Fix>,
}

impl<'a> Known<'a> {
    fn of(report: &'a Report) -> Self {
        let mut conflicts: BTreeMap<&str, Vec<&Conflict>> = BTreeMap::new();
        for conflict in &report.conflicts {
            conflicts.entry(&conflict.volume).or_default().push(conflict);
        }
        Self { conflicts, fixes: report.fixes.iter().map(|fix| (fix.volume.as_str(), fix)).collect() }
    }
}

fn card(page: &mut Markup, known: &Known<'_>, picture: &Picture<'_>) {
    let of_volume = |id: &str| known.conflicts.get(id).map(Vec::as_slice).unwrap_or_default();
    let conflicts: Vec<&Conflict> = picture.volumes.iter().flat_map(|v| of_volume(&v.id)).copied().collect();
    let users = picture.volumes.iter().flat_map(|volume| &volume.users);
    let namespaces: BTreeSet<&str> = users.map(|user| user.workload.namespace.as_str()).collect();
    let namespaces = Vec::from_iter(namespaces).join(" ");
    let severities: BTreeSet<&str> = conflicts.iter().map(|c| words::severity(c.severity).class).collect();
    let severities = Vec::from_iter(severities).join(" ");
    let attributes = [
        ("class", "card conflict"),
        ("data-item", "conflict"),
        ("data-namespace", namespaces.as_str()),
        ("data-severity", severities.as_str()),
    ];
    page.within("article", &attributes, |page| {
        page.element("h3", &[], &title(picture));
        page.within("div", &[("class", "split")], |page| {
            page.within("div", &[("class", "drawn")], |page| {
                picture::draw(page, picture);
                legend(page, &picture.asked);
                more(page, picture.more_volumes, "more volumes, not drawn");
            });
            page.within("ul", &[("class", "pairs")], |page| {
                conflicts.iter().take(LISTED).for_each(|conflict| pair(page, conflict));
                page.within("li", &[("class", "more")], |page| {
                    more(page, conflicts.len().saturating_sub(LISTED), "more, all of them in -o json");
                });
            });
        });
        for volume in &picture.volumes {
            if let Some(one) = known.fixes.get(volume.id.as_str()) {
                page.element("h4", &[], &format!("What settles it for {}", name(volume)));
                page.element("p", &[("class", "quiet")], &volume.id);
                fix(page, one);
            }
        }
    });
}

fn more(page: &mut Markup, count: usize, what: &str) {
    if count > 0 {
        page.element("p", &[("class", "quiet")], &format!("{count} {what}"));
    }
}

/// What people call a volume.
fn name(volume: &Volume) -> String {
    match (&volume.claim, &volume.persistent_volume) {
        (Some(claim), _) => format!("claim {claim}"),
        (None, Some(name)) => format!("volume {name}"),
        (None, None) => volume.id.clone(),
    }
}

fn title(picture: &Picture<'_>) -> String {
    let first = picture.volumes.first().map(|volume| name(volume)).unwrap_or_default();
    match picture.volumes.len() + picture.more_volumes {
        0 | 1 => first,
        n => format!("{first} and {} more", n - 1),
    }
}

fn legend(page: &mut Markup, asked: &[Asked]) {
    page.within("ul", &[("class", "legend")], |page| {
        for (index, asked) in asked.iter().enumerate() {
            page.within("li", &[], |page| {
                let class = format!("key {}", picture::colour(index));
                page.element("span", &[("class", &class)], &picture::letter(index));
                page.element("code", &[], &words::label(&asked.label));
                if asked.policy == "Recursive" {
                    page.element("span", &[("class", "quiet")], " relabels file by file (Recursive)");
                }
            });
        }
    });
}

fn pair(page: &mut Markup, conflict: &Conflict) {
    let severity = words::severity(conflict.severity);
    page.within("li", &[], |page| {
        page.within("p", &[("class", "tags")], |page| {
            let class = format!("tag {}", severity.class);
            page.element("span", &[("class", &class)], &format!("{} {}", severity.sign, severity.text));
            page.element("span", &[("class", "tag")], words::when(conflict.when));
            page.element("span", &[("class", "tag")], conflict.property);
            if conflict.pairs > 1 {
                page.element("span", &[("class", "tag")], &format!("{} pairs of pods", conflict.pairs));
            }
        });
        page.within("p", &[], |page| {
            side(page, conflict.property, &conflict.a);
            page.text(" against ");
            side(page, conflict.property, &conflict.b);
        });
        page.element("p", &[("class", "quiet")], &conflict.why);
    });
}

fn side(page: &mut Markup, property: &str, side: &ConflictSide) {
    page.element("strong", &[], &words::object_name(&side.workload));
    if side.workload.is_crowd() {
        page.text(&format!(" ({} pods)", side.pods));
    }
    page.text(" with ");
    match property {
        "SELinuxLabel" => page.element("code", &[], &words::label(&side.value)),
        _ => page.element("code", &[], &side.value),
    }
}

fn fix(page: &mut Markup, fix: &Fix) {
    for (index, option) in fix.options.iter().enumerate() {
        let first = if index == 0 { "option best" } else { "option" };
        page.within("details", &[("class", first)], |page| {
            page.within("summary", &[], |page| {
                page.element("span", &[("class", "tag")], words::how(option.how));
                page.text(&option.what);
                let fields = words::count(u64::try_from(option.fields).unwrap_or(u64::MAX), "field");
                page.element("span", &[("class", "quiet")], &format!(" · {fields}"));
            });
            patches::gives_up(page, &option.gives_up);
            option.patches.iter().for_each(|patch| patches::patch(page, patch));
        });
    }
}
