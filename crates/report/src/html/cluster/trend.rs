//! How the numbers have changed: a chart, and the same as a table.

use types::time;

use crate::html::markup::Markup;
use crate::pages::TrendPoint;

const WIDTH: u64 = 640;
const HEIGHT: u64 = 160;
/// Where the chart begins and ends, within room for its labels.
const LEFT: u64 = 48;
const RIGHT: u64 = 632;
const TOP: u64 = 12;
const BOTTOM: u64 = 132;

pub(super) fn section(page: &mut Markup, trend: &[TrendPoint]) {
    page.element("h2", &[("id", "trend-title")], "Trend");
    let (Some(first), Some(last)) = (trend.first(), trend.last()) else {
        page.element("p", &[("class", "quiet")], "There are no numbers of earlier times yet.");
        return;
    };
    let scale = Scale::of(trend);
    let view = format!("0 0 {WIDTH} {HEIGHT}");
    let said = format!(
        "from {} to {} conflicts, from {} to {} on one node, between {} and {}",
        first.conflicts,
        last.conflicts,
        first.on_one_node,
        last.on_one_node,
        time::stamp(first.time),
        time::stamp(last.time)
    );
    let attributes =
        [("viewBox", view.as_str()), ("class", "chart"), ("role", "img"), ("aria-label", said.as_str())];
    page.within("svg", &attributes, |page| {
        scale.axes(page);
        series(page, "series all", trend.iter().map(|point| scale.place(point.time, point.conflicts)));
        series(page, "series now", trend.iter().map(|point| scale.place(point.time, point.on_one_node)));
    });
    page.within("p", &[("class", "quiet")], |page| {
        page.raw("<span class=\"swatch\"></span>");
        page.text("conflicts ");
        page.raw("<span class=\"swatch now\"></span>");
        page.text("of them on one node");
    });
    table(page, trend);
}

/// From times and numbers to places in the chart.
struct Scale {
    first: u64,
    last: u64,
    most: u64,
}

struct Place {
    x: u64,
    y: u64,
}

impl Scale {
    fn of(trend: &[TrendPoint]) -> Self {
        let times = || trend.iter().map(|point| point.time);
        let most = trend.iter().map(|point| point.conflicts.max(point.on_one_node)).max();
        Self {
            first: times().min().unwrap_or_default(),
            last: times().max().unwrap_or_default(),
            most: most.unwrap_or_default().max(1),
        }
    }

    fn place(&self, time: u64, number: u64) -> Place {
        let span = (self.last - self.first).max(1);
        let along = (RIGHT - LEFT) * time.saturating_sub(self.first) / span;
        let up = (BOTTOM - TOP) * number.min(self.most) / self.most;
        Place { x: LEFT + along, y: BOTTOM - up }
    }

    fn axes(&self, page: &mut Markup) {
        let (left, right) = (LEFT.to_string(), RIGHT.to_string());
        let (beside, below) = ((LEFT - 6).to_string(), (BOTTOM + 18).to_string());
        for (number, y) in [(self.most, TOP), (0, BOTTOM)] {
            let (y, baseline) = (y.to_string(), (y + 4).to_string());
            let line = [
                ("x1", left.as_str()),
                ("x2", right.as_str()),
                ("y1", y.as_str()),
                ("y2", y.as_str()),
                ("class", "axis"),
            ];
            page.element("line", &line, "");
            let label = [("x", beside.as_str()), ("y", baseline.as_str()), ("class", "label end")];
            page.element("text", &label, &number.to_string());
        }
        let begin = [("x", left.as_str()), ("y", below.as_str()), ("class", "label")];
        page.element("text", &begin, &time::stamp(self.first));
        let end = [("x", right.as_str()), ("y", below.as_str()), ("class", "label end")];
        page.element("text", &end, &time::stamp(self.last));
    }
}

/// A number holds until the next one: the line has steps.
fn series(page: &mut Markup, class: &'static str, places: impl Iterator<Item = Place>) {
    let mut path = String::new();
    for Place { x, y } in places {
        if path.is_empty() {
            path = format!("M{x} {y}");
        } else {
            path.push_str(&format!("H{x}V{y}"));
        }
    }
    page.element("path", &[("d", &path), ("class", class)], "");
}

fn table(page: &mut Markup, trend: &[TrendPoint]) {
    page.within("details", &[], |page| {
        page.element("summary", &[], "The same as a table");
        page.within("table", &[], |page| {
            page.raw("<thead><tr><th scope=\"col\">Time</th><th scope=\"col\" class=\"number\">Conflicts</th><th scope=\"col\" class=\"number\">On one node</th><th scope=\"col\" class=\"number\">Blocked</th><th scope=\"col\" class=\"number\">Isolated</th></tr></thead>");
            page.within("tbody", &[], |page| {
                for point in trend.iter().rev() {
                    page.within("tr", &[], |page| {
                        page.element("td", &[], &time::stamp(point.time));
                        for number in [point.conflicts, point.on_one_node, point.blocked, point.isolated] {
                            page.element("td", &[("class", "number")], &number.to_string());
                        }
                    });
                }
            });
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_numbers_lie_within_the_chart() {
        let point = |time, conflicts| TrendPoint { time, conflicts, ..TrendPoint::default() };
        let scale = Scale::of(&[point(100, 0), point(300, 50)]);
        let at = |time, number| {
            let Place { x, y } = scale.place(time, number);
            (x, y)
        };
        assert_eq!((at(100, 0), at(300, 50)), ((LEFT, BOTTOM), (RIGHT, TOP)));
        assert_eq!(at(200, 25), ((LEFT + RIGHT) / 2, (TOP + BOTTOM) / 2));
        let one = Scale::of(&[point(5, 0)]).place(5, 0);
        assert_eq!((one.x, one.y), (LEFT, BOTTOM));
    }
}
