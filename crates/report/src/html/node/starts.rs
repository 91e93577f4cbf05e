//! How long the starts of pods take, and what they spend their time on.

use std::collections::BTreeMap;

use super::count;
use crate::html::markup::Markup;
use crate::pages::{NodePod, StartStep, StartTimes};

const WIDTH: u64 = 640;
const ROW: u64 = 22;
/// Where the bars begin, behind the names of the steps, and the room that they have before the times.
const BARS: u64 = 170;
const ROOM: u64 = 380;

/// The times of one start: a bar for each step.
pub(super) fn draw(page: &mut Markup, times: &StartTimes) {
    let end = |step: &StartStep| step.begin + step.took.unwrap_or_default();
    let total = times.steps.iter().map(end).chain(times.runs).max().unwrap_or_default().max(1);
    let height = (count(times.steps.len()) * ROW).max(ROW);
    let view = format!("0 0 {WIDTH} {height}");
    let said = match times.runs {
        Some(runs) => format!("It ran {runs} ms after it was first seen."),
        None => "It is being started.".to_owned(),
    };
    page.element("p", &[("class", "quiet")], &said);
    let attributes =
        [("viewBox", view.as_str()), ("class", "steps"), ("role", "img"), ("aria-label", said.as_str())];
    page.within("svg", &attributes, |page| {
        for (row, step) in (0..).zip(&times.steps) {
            bar(page, step, Scale { top: row * ROW, total });
        }
    });
}

#[derive(Clone, Copy)]
struct Scale {
    top: u64,
    total: u64,
}

fn bar(page: &mut Markup, step: &StartStep, at: Scale) {
    let Scale { top, total } = at;
    let took = step.took.unwrap_or_else(|| total.saturating_sub(step.begin));
    let left = BARS + ROOM * step.begin.min(total) / total;
    let wide = (ROOM * took.min(total) / total).max(2);
    let (baseline, after) = ((top + 15).to_string(), (left + wide + 6).to_string());
    let (x, y, width) = (left.to_string(), (top + 4).to_string(), wide.to_string());
    page.element("text", &[("x", "0"), ("y", &baseline)], &name(step));
    let class = if step.took.is_some() { "done" } else { "open" };
    let rect = [
        ("x", x.as_str()),
        ("y", y.as_str()),
        ("width", width.as_str()),
        ("height", "14"),
        ("rx", "3"),
        ("class", class),
    ];
    page.element("rect", &rect, "");
    let took = step.took.map_or_else(|| "under way".to_owned(), |took| format!("{took} ms"));
    page.element("text", &[("x", &after), ("y", &baseline), ("class", "took")], &took);
}

fn name(step: &StartStep) -> String {
    match step.container.as_str() {
        "" => step.name.clone(),
        container => format!("{} {container}", step.name),
    }
}

/// The steps of all pods that have started, the longest first.
pub(super) fn section(page: &mut Markup, pods: &[NodePod]) {
    page.element("h2", &[("id", "starts-title")], "Start times");
    let starts: Vec<&StartTimes> = pods.iter().filter_map(|pod| pod.start.as_ref()).collect();
    let mut totals: Vec<u64> = starts.iter().filter_map(|times| times.runs).collect();
    if totals.is_empty() {
        page.element("p", &[("class", "quiet")], "No pod has been started since the agent was.");
        return;
    }
    let text = format!(
        "{} pods have been started by this process: {} ms until they ran in the median, {} ms at most.",
        totals.len(),
        median(&mut totals),
        totals.iter().max().copied().unwrap_or_default()
    );
    page.element("p", &[], &text);
    let mut by_step: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
    for step in starts.iter().flat_map(|times| &times.steps) {
        by_step.entry(&step.name).or_default().extend(step.took);
    }
    let mut rows: Vec<(&str, u64, u64, usize)> = by_step
        .into_iter()
        .filter(|(_, took)| !took.is_empty())
        .map(|(name, mut took)| {
            (name, median(&mut took), took.iter().max().copied().unwrap_or_default(), took.len())
        })
        .collect();
    rows.sort_by_key(|(_, median, _, _)| std::cmp::Reverse(*median));
    page.within("table", &[("class", "stack")], |page| {
        page.raw("<thead><tr><th scope=\"col\">Step</th><th scope=\"col\" class=\"number\">Median, ms</th><th scope=\"col\" class=\"number\">Longest, ms</th><th scope=\"col\" class=\"number\">Times</th></tr></thead>");
        page.within("tbody", &[], |page| {
            for (name, median, longest, times) in rows {
                page.within("tr", &[], |page| {
                    page.element("td", &[("data-name", "step")], name);
                    let numbers = [
                        ("median, ms", median.to_string()),
                        ("longest, ms", longest.to_string()),
                        ("times", times.to_string()),
                    ];
                    for (name, number) in &numbers {
                        page.element("td", &[("class", "number"), ("data-name", name)], number);
                    }
                });
            }
        });
    });
}

/// The middle one; of an even count, the lower of the two in the middle.
fn median(numbers: &mut [u64]) -> u64 {
    numbers.sort_unstable();
    let middle = numbers.len().saturating_sub(1) / 2;
    numbers.get(middle).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle_and_of_nothing_nothing() {
        assert_eq!([median(&mut [5, 1, 9]), median(&mut [4, 2]), median(&mut [])], [5, 2, 0]);
    }

    #[test]
    fn bars_lie_within_the_picture_also_while_a_step_goes_on() {
        let step = |begin, took| StartStep { name: "sandbox".into(), container: "app".into(), begin, took };
        let mut page = Markup::default();
        draw(&mut page, &StartTimes { steps: vec![step(0, Some(10)), step(10, None)], runs: None });
        let page = page.into_string();
        assert!(
            page.contains("sandbox app") && page.contains("10 ms") && page.contains("under way"),
            "{page}"
        );
        assert!(page.contains("It is being started."), "{page}");
    }
}
