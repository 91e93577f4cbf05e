//! Conflicts: a card for each set of volumes that hang together.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use check::{Conflict, ConflictSide, Fix, Property, Report, Severity, Volume};

use super::graph::{Asked, Picture, pictures};
use super::markup::Markup;
use super::rows::{Position, Row, key};
use super::{patches, picture, words};

/// More conflicts of one card than this are only counted.
const LISTED: usize = 40;
/// What users read above the cards.
pub(super) const LEAD: &str = "Pods that share a volume and ask for different SELinux labels cannot have it on one node when it is mounted with a label. A letter and a colour stand for what is asked for.";
/// Where the content of a row is fetched from.
const ADDRESS: &str = "card";

/// Volumes with their users, what conflicts on them, and what settles that.
#[derive(Debug, Clone, Copy)]
pub(super) struct Contested<'a> {
    pub(super) volumes: &'a [Volume],
    pub(super) conflicts: &'a [Conflict],
    pub(super) fixes: &'a [Fix],
}

impl<'a> Contested<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        Self { volumes: &report.volumes, conflicts: &report.conflicts, fixes: &report.fixes }
    }

    /// A card for each set of volumes, with all that is in it.
    pub(super) fn cards(self, page: &mut Markup) {
        let known = Known::of(self);
        for picture in pictures(self.volumes, self.conflicts) {
            card(page, &known, &picture);
        }
    }

    /// A row for each set of volumes, the gravest first.
    pub(super) fn rows(self, page: &mut Markup, filled: usize) {
        let known = Known::of(self);
        for (place, picture) in self.sorted(&known).iter().enumerate() {
            row(page, &known, picture, Position { place, filled, address: ADDRESS });
        }
    }

    /// The content of the row of a set of volumes, one of which has this key.
    pub(super) fn content_of(self, wanted: &str) -> Option<String> {
        let known = Known::of(self);
        let all = pictures(self.volumes, self.conflicts);
        let has = |picture: &&Picture<'_>| picture.volumes.iter().any(|volume| key(&volume.id) == wanted);
        let picture = all.iter().find(has)?;
        let mut page = Markup::default();
        content(&mut page, &known, picture);
        Some(page.into_string())
    }

    fn sorted(self, known: &Known<'_>) -> Vec<Picture<'a>> {
        let mut all = pictures(self.volumes, self.conflicts);
        all.sort_by_cached_key(|picture| {
            let first = picture.volumes.first().map(|volume| volume.id.clone());
            (known.gravest(picture), Reverse(picture.edges.len()), first)
        });
        all
    }
}

/// What is known of each volume.
struct Known<'a> {
    conflicts: BTreeMap<&'a str, Vec<&'a Conflict>>,
    fixes: BTreeMap<&'a str, &'a Fix>,
}

impl<'a> Known<'a> {
    fn of(contested: Contested<'a>) -> Self {
        let mut conflicts: BTreeMap<&str, Vec<&Conflict>> = BTreeMap::new();
        for conflict in contested.conflicts {
            conflicts.entry(&conflict.volume).or_default().push(conflict);
        }
        Self { conflicts, fixes: contested.fixes.iter().map(|fix| (fix.volume.as_str(), fix)).collect() }
    }

    /// The conflicts on the volumes of a picture.
    fn conflicts(&self, picture: &Picture<'_>) -> Vec<&'a Conflict> {
        let of_volume = |id: &str| self.conflicts.get(id).map(Vec::as_slice).unwrap_or_default();
        picture.volumes.iter().flat_map(|volume| of_volume(&volume.id)).copied().collect()
    }

    fn gravest(&self, picture: &Picture<'_>) -> Option<Severity> {
        self.conflicts(picture).iter().map(|conflict| conflict.severity).min()
    }
}

fn namespaces(picture: &Picture<'_>) -> String {
    let users = picture.volumes.iter().flat_map(|volume| &volume.users);
    let namespaces = users.map(|user| user.workload.namespace.as_str()).filter(|name| !name.is_empty());
    Vec::from_iter(namespaces.collect::<BTreeSet<&str>>()).join(" ")
}

fn severities(conflicts: &[&Conflict]) -> String {
    let severities: BTreeSet<&str> = conflicts.iter().map(|c| words::severity(c.severity).class).collect();
    Vec::from_iter(severities).join(" ")
}

fn card(page: &mut Markup, known: &Known<'_>, picture: &Picture<'_>) {
    let (namespaces, severities) = (namespaces(picture), severities(&known.conflicts(picture)));
    let attributes = [
        ("class", "card conflict"),
        ("data-item", "conflict"),
        ("data-namespace", namespaces.as_str()),
        ("data-severity", severities.as_str()),
    ];
    page.within("article", &attributes, |page| {
        page.element("h3", &[], &title(picture));
        content(page, known, picture);
    });
}

/// The key of a set of volumes: that of the first of them by name.
fn key_of(picture: &Picture<'_>) -> String {
    let first = picture.volumes.iter().map(|volume| volume.id.as_str()).min();
    key(first.unwrap_or_default())
}

fn row(page: &mut Markup, known: &Known<'_>, picture: &Picture<'_>, at: Position) {
    let conflicts = known.conflicts(picture);
    let (namespaces, severities) = (namespaces(picture), severities(&conflicts));
    let drivers: BTreeSet<&str> = picture.volumes.iter().filter_map(|v| v.driver.as_deref()).collect();
    let drivers = Vec::from_iter(drivers).join(" ");
    let filters = [
        ("data-namespace", namespaces.as_str()),
        ("data-severity", severities.as_str()),
        ("data-driver", drivers.as_str()),
    ];
    let row = Row {
        class: "opens conflict",
        item: "conflict",
        key: key_of(picture),
        filters: &filters,
        words: &searched(picture),
        state: &state(known, picture, &conflicts),
    };
    row.write(page, at, |page| summary(page, picture, &conflicts), |page| content(page, known, picture));
}

/// What a search finds a set of volumes by.
fn searched<'a>(picture: &Picture<'a>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for volume in &picture.volumes {
        all.push(&volume.id);
        all.extend(
            [&volume.claim, &volume.persistent_volume, &volume.driver]
                .into_iter()
                .flatten()
                .map(String::as_str),
        );
    }
    for user in picture.volumes.iter().flat_map(|volume| &volume.users) {
        let object = &user.workload;
        all.extend(
            [&object.kind, &object.namespace, &object.name, &user.label, &user.policy].map(String::as_str),
        );
        all.extend(user.nodes.iter().map(String::as_str));
    }
    all
}

/// A text that differs when the content of a row does.
fn state(known: &Known<'_>, picture: &Picture<'_>, conflicts: &[&Conflict]) -> Vec<u8> {
    let fixes: Vec<&&Fix> = picture.volumes.iter().filter_map(|v| known.fixes.get(v.id.as_str())).collect();
    serde_json::to_vec(&(&picture.volumes, conflicts, fixes)).unwrap_or_default()
}

fn summary(page: &mut Markup, picture: &Picture<'_>, conflicts: &[&Conflict]) {
    if let Some(gravest) = conflicts.iter().map(|conflict| conflict.severity).min() {
        let severity = words::severity(gravest);
        let class = format!("tag {}", severity.class);
        page.element("span", &[("class", &class)], &format!("{} {}", severity.sign, severity.text));
    }
    page.within("span", &[("class", "title")], |page| page.element("strong", &[], &title(picture)));
    let count = |n: usize, one| words::count(u64::try_from(n).unwrap_or(u64::MAX), one);
    let facts = [
        count(picture.volumes.len() + picture.more_volumes, "volume"),
        count(picture.volumes.iter().map(|volume| volume.users.len()).sum(), "user"),
        count(conflicts.len(), "conflict"),
    ];
    page.element("span", &[("class", "quiet facts")], &facts.join(" · "));
}

/// What is in a card, and what a row opens to.
fn content(page: &mut Markup, known: &Known<'_>, picture: &Picture<'_>) {
    let conflicts = known.conflicts(picture);
    page.within("div", &[("class", "split")], |page| {
        page.within("div", &[("class", "drawn")], |page| {
            picture::draw(page, picture);
            legend(page, &picture.asked);
            more(page, picture.more_volumes, "more volumes, not drawn");
        });
        page.within("ul", &[("class", "pairs")], |page| {
            conflicts.iter().take(LISTED).for_each(|conflict| pair(page, conflict));
            page.within("li", &[("class", "more")], |page| {
                more(page, conflicts.len().saturating_sub(LISTED), "more, all of them as JSON");
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
            page.element("span", &[("class", "tag")], conflict.property.name());
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

fn side(page: &mut Markup, property: Property, side: &ConflictSide) {
    page.element("strong", &[], &words::object_name(&side.workload));
    if side.workload.is_crowd() {
        page.text(&format!(" ({} pods)", side.pods));
    }
    page.text(" with ");
    match property {
        Property::SELinuxLabel => page.element("code", &[], &words::label(&side.value)),
        Property::SELinuxChangePolicy => page.element("code", &[], &side.value),
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
