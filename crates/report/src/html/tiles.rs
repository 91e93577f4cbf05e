//! Numbers at a glance, and their parts of a whole.

use super::markup::Markup;

/// A number with what it counts.
pub(super) struct Tile {
    /// The class of its colour; a number of 0 has none.
    pub(super) class: &'static str,
    pub(super) number: u64,
    pub(super) what: &'static str,
}

impl Tile {
    pub(super) fn new(class: &'static str, number: impl TryInto<u64>, what: &'static str) -> Self {
        Self { class, number: number.try_into().unwrap_or(u64::MAX), what }
    }
}

pub(super) fn tiles(page: &mut Markup, tiles: &[Tile]) {
    page.within("div", &[("class", "tiles")], |page| {
        for Tile { class, number, what } in tiles {
            let class = if *number == 0 { "tile none".to_owned() } else { format!("tile {class}") };
            page.within("div", &[("class", &class)], |page| {
                page.element("strong", &[], &number.to_string());
                page.element("span", &[], what);
            });
        }
    });
}

/// Parts of a whole, each with its class, as one bar. `said` is the same in words.
pub(super) fn bar(page: &mut Markup, parts: &[(&'static str, u64)], said: &str) {
    let total: u64 = parts.iter().map(|(_, width)| width).sum();
    if total == 0 {
        return;
    }
    let view = format!("0 0 {total} 1");
    let attributes = [
        ("class", "bar"),
        ("viewBox", view.as_str()),
        ("preserveAspectRatio", "none"),
        ("role", "img"),
        ("aria-label", said),
    ];
    page.within("svg", &attributes, |page| {
        let mut x = 0;
        for (class, width) in parts {
            let (start, wide) = (x.to_string(), width.to_string());
            page.element(
                "rect",
                &[("x", &start), ("y", "0"), ("width", &wide), ("height", "1"), ("class", class)],
                "",
            );
            x += width;
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_nothing_has_no_colour() {
        let mut page = Markup::default();
        tiles(&mut page, &[Tile::new("blocked", 0_usize, "blocked"), Tile::new("ready", 3_usize, "ready")]);
        let page = page.into_string();
        assert!(page.contains("<div class=\"tile none\"><strong>0</strong><span>blocked</span>"), "{page}");
        assert!(page.contains("<div class=\"tile ready\"><strong>3</strong><span>ready</span>"), "{page}");
    }

    #[test]
    fn the_parts_of_a_bar_lie_side_by_side_and_nothing_has_no_bar() {
        let mut page = Markup::default();
        bar(&mut page, &[("a", 0), ("b", 0)], "none");
        bar(&mut page, &[("a", 2), ("b", 3)], "two and three");
        let page = page.into_string();
        assert!(page.starts_with("<svg class=\"bar\" viewBox=\"0 0 5 1\""), "{page}");
        assert!(page.contains("<rect x=\"2\" y=\"0\" width=\"3\" height=\"1\" class=\"b\">"), "{page}");
    }
}
