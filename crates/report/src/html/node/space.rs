//! The ID space of a node as a picture: a cell for each run of IDs, with the table that says the same.

use ids::{HostSpan, UNIT};
use types::time;

use crate::html::markup::Markup;
use crate::pages::{BlockState, IdRow, IdSpace, IdUse};

const COLUMNS: u64 = 64;
const ROWS: u64 = 8;
/// The size of a cell in the picture.
const CELL: u64 = 10;
/// More uses than this are not in the table.
const LISTED: usize = 400;

/// What a cell shows; of several things in its IDs, the last of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    Outside,
    Free,
    Used(BlockState),
    Host,
}

/// How a cell is shown: its class, its sign, and what it is called.
struct Appearance {
    class: &'static str,
    sign: &'static str,
    text: &'static str,
}

const ALL: [Shown; 8] = [
    Shown::Free,
    Shown::Used(BlockState::Leased),
    Shown::Used(BlockState::Draining),
    Shown::Used(BlockState::Quarantined),
    Shown::Used(BlockState::Pinned),
    Shown::Used(BlockState::Other),
    Shown::Host,
    Shown::Outside,
];

impl Shown {
    fn appearance(self) -> Appearance {
        let shown = |class, sign, text| Appearance { class, sign, text };
        match self {
            Self::Outside => shown("outside", "", "outside of the pool"),
            Self::Free => shown("free", "", "free"),
            Self::Used(BlockState::Leased) => shown("leased", "L", "leased"),
            Self::Used(BlockState::Draining) => shown("draining", "d", "draining"),
            Self::Used(BlockState::Quarantined) => shown("quarantined", "q", "quarantined"),
            Self::Used(BlockState::Pinned) => shown("pinned", "P", "pinned"),
            Self::Used(BlockState::Other) => shown("other", "x", "used or claimed by others"),
            Self::Host => shown("host", "H", "the host's own"),
        }
    }
}

pub(super) fn section(page: &mut Markup, space: &IdSpace) {
    page.element("h2", &[("id", "space-title")], "Host IDs");
    page.element("p", &[("class", "lead")], &summary(space));
    match &space.gids {
        None => row(page, space, &space.uids, "User and group IDs"),
        Some(gids) => {
            row(page, space, &space.uids, "User IDs");
            row(page, space, gids, "Group IDs");
        }
    }
    legend(page);
}

fn summary(space: &IdSpace) -> String {
    let counts = &space.counts;
    let states = [
        (counts.leased, "leased"),
        (counts.draining, "draining"),
        (counts.quarantined, "quarantined"),
        (counts.pinned, "pinned"),
        (counts.free, "free"),
    ];
    let states: Vec<String> =
        states.iter().filter(|(n, _)| *n > 0).map(|(n, state)| format!("{n} {state}")).collect();
    let length = space.block_length;
    let states = if states.is_empty() { "no block".to_owned() } else { states.join(", ") };
    format!("{} blocks of {length} IDs: {states}. The pool: {}.", counts.pool, space.origin)
}

fn row(page: &mut Markup, space: &IdSpace, row: &IdRow, title: &str) {
    if row.pool.is_empty() {
        return;
    }
    let cells = Cells::of(space, row);
    page.element("h4", &[], &format!("{title}, {} in each cell", cells.length));
    let view = format!("0 0 {} {}", COLUMNS * CELL, cells.count.div_ceil(COLUMNS) * CELL);
    let said = format!("{title}: {} of them leased, draining, quarantined or pinned", row.uses.len());
    let attributes =
        [("viewBox", view.as_str()), ("class", "space"), ("role", "img"), ("aria-label", said.as_str())];
    page.within("svg", &attributes, |page| (0..cells.count).for_each(|index| cells.draw(page, index)));
    if cells.end() < row.pool.last().map_or(0, |last| last.end()) {
        page.element("p", &[("class", "quiet")], &format!("All IDs from {} on are free.", cells.end()));
    }
    table(page, row, title);
}

/// The cells of one kind of IDs.
struct Cells<'a> {
    row: &'a IdRow,
    /// How many IDs a cell has.
    length: u64,
    count: u64,
}

impl<'a> Cells<'a> {
    /// As many as show all that is not free, and the pool as far as there is room.
    fn of(space: &IdSpace, row: &'a IdRow) -> Self {
        let used = row.uses.iter().map(|used| used.ids.end()).max().unwrap_or(UNIT);
        // Behind the begin of its last run the pool is free, unless something is used there.
        let begun = row.pool.last().map_or(0, |last| u64::from(last.first()));
        let needed = used.max(begun).max(UNIT);
        let mut length = space.block_length.max(UNIT);
        while needed.div_ceil(length) > COLUMNS * ROWS {
            length *= 2;
        }
        let end = row.pool.last().map_or(0, |last| last.end());
        let shown = needed.max(end.min(COLUMNS * length));
        Self { row, length, count: shown.div_ceil(length) }
    }

    /// The first ID behind the last cell.
    fn end(&self) -> u64 {
        self.count * self.length
    }

    fn draw(&self, page: &mut Markup, index: u64) {
        let (first, end) = (index * self.length, (index + 1) * self.length);
        let is_inside = |ids: HostSpan| u64::from(ids.first()) < end && first < ids.end();
        let uses: Vec<&IdUse> = self.row.uses.iter().filter(|used| is_inside(used.ids)).collect();
        let of_uses = uses.iter().map(|used| Shown::Used(used.state)).max();
        let of_pool = self.row.pool.iter().any(|run| is_inside(*run)).then_some(Shown::Free);
        let of_host = (first < UNIT).then_some(Shown::Host);
        let shown = of_uses.max(of_pool).max(of_host).unwrap_or(Shown::Outside);
        let Appearance { class, sign, text } = shown.appearance();
        let (x, y) = (index % COLUMNS * CELL, index / COLUMNS * CELL);
        page.within("g", &[], |page| {
            page.element("title", &[], &title(first, end, text, &uses));
            let (left, top, size) = (x.to_string(), y.to_string(), CELL.to_string());
            let rect = [
                ("x", left.as_str()),
                ("y", top.as_str()),
                ("width", size.as_str()),
                ("height", size.as_str()),
                ("class", class),
            ];
            page.element("rect", &rect, "");
            if !sign.is_empty() {
                let class = if class == "quarantined" { "sign dark" } else { "sign" };
                let (middle, base) = ((x + CELL / 2).to_string(), (y + CELL - 3).to_string());
                let at = [("x", middle.as_str()), ("y", base.as_str()), ("class", class)];
                page.element("text", &at, sign);
            }
        });
    }
}

/// What one sees when one points at a cell.
fn title(first: u64, end: u64, text: &str, uses: &[&IdUse]) -> String {
    const NAMED: usize = 6;
    let names: Vec<&str> = uses.iter().take(NAMED).map(|used| name(used)).collect();
    let more = uses.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let names = if names.is_empty() { String::new() } else { format!(": {}", names.join(", ")) };
    format!("{first}-{} {text}{names}{more}", end - 1)
}

fn name(used: &IdUse) -> &str {
    match &used.pod {
        Some(pod) => pod,
        None if used.holder.is_empty() => "(none)",
        None => &used.holder,
    }
}

fn table(page: &mut Markup, row: &IdRow, title: &str) {
    if row.uses.is_empty() {
        return;
    }
    page.within("details", &[], |page| {
        page.element("summary", &[], &format!("{title} that are not free, as a table"));
        page.within("div", &[("class", "scroll")], |page| {
            page.within("table", &[("class", "stack")], |page| {
                page.raw("<thead><tr><th scope=\"col\">Host IDs</th><th scope=\"col\">State</th><th scope=\"col\">Holder</th><th scope=\"col\">Since</th><th scope=\"col\">Note</th></tr></thead>");
                page.within("tbody", &[], |page| row.uses.iter().take(LISTED).for_each(|used| line(page, used)));
            });
        });
        let more = row.uses.len().saturating_sub(LISTED);
        crate::html::left_out(page, super::count(more), "more are not listed");
    });
}

fn line(page: &mut Markup, used: &IdUse) {
    page.within("tr", &[], |page| {
        page.element("td", &[("data-name", "host IDs")], &used.ids.to_string());
        page.element("td", &[("data-name", "state")], Shown::Used(used.state).appearance().text);
        page.element("td", &[("data-name", "holder")], name(used));
        page.element("td", &[("data-name", "since")], &used.since.map(time::stamp).unwrap_or_default());
        page.element("td", &[("data-name", "note")], used.note.as_deref().unwrap_or_default());
    });
}

fn legend(page: &mut Markup) {
    page.within("ul", &[("class", "legend")], |page| {
        for shown in ALL {
            let Appearance { class, sign, text } = shown.appearance();
            page.within("li", &[], |page| {
                page.element(
                    "span",
                    &[("class", &format!("cell {class}"))],
                    if sign.is_empty() { "\u{a0}" } else { sign },
                );
                page.text(text);
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(first: u64, blocks: u64) -> HostSpan {
        HostSpan::new(first * UNIT, blocks * UNIT).unwrap()
    }

    fn cells(pool: Vec<HostSpan>, used: &[HostSpan]) -> (u64, u64, u64) {
        let uses = used.iter().map(|ids| IdUse {
            ids: *ids,
            state: BlockState::Leased,
            holder: "h".into(),
            pod: None,
            since: None,
            note: None,
        });
        let row = IdRow { pool, uses: uses.collect() };
        let space = IdSpace { block_length: UNIT, ..IdSpace::default() };
        let cells = Cells::of(&space, &row);
        (cells.length, cells.count, cells.end())
    }

    #[test]
    fn a_picture_shows_all_that_is_used_in_at_most_eight_rows() {
        assert_eq!(cells(vec![span(1, 10)], &[]), (UNIT, 11, 11 * UNIT));
        // An unused pool of the whole space is one row of it.
        assert_eq!(cells(vec![span(1, 65_000)], &[]), (UNIT, 64, 64 * UNIT));
        let (length, count, end) = cells(vec![span(1, 65_000)], &[span(60_000, 1)]);
        assert!(count <= COLUMNS * ROWS && end >= 60_001 * UNIT, "{length} {count} {end}");
    }

    #[test]
    fn a_cell_shows_the_gravest_of_what_is_in_it() {
        assert!(Shown::Used(BlockState::Leased) > Shown::Used(BlockState::Pinned));
        assert!(Shown::Used(BlockState::Other) > Shown::Free && Shown::Free > Shown::Outside);
        assert!(Shown::Host > Shown::Used(BlockState::Leased));
    }
}
