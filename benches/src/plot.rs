//! Both sides' distributions as one picture: a row for each thing measured, time on a logarithmic axis. Below them a panel
//! for each cost by the number of pods.

use std::fmt::Write as _;

use crate::measure::{Measure, Side, Unit};
use crate::panel::{self, Frame};
use crate::report::{Report, time};

const WIDTH: f64 = 900.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const ROW: f64 = 64.0;
const BINS: u32 = 120;
const PANEL: f64 = 260.0;

/// The axis: from the fastest sample to the slowest, in powers of ten.
struct Axis {
    low: f64,
    high: f64,
}

impl Axis {
    fn over(report: &Report) -> Self {
        let samples = timed(report).flat_map(sides).flat_map(|(side, _)| side.samples.iter().copied());
        let (low, high) = samples
            .filter(|s| *s > 0.0)
            .fold((f64::INFINITY, 0.0), |(low, high): (f64, f64), s| (low.min(s), high.max(s)));
        if low > high {
            return Self { low: -6.0, high: 0.0 };
        }
        Self { low: low.log10().floor(), high: high.log10().ceil().max(low.log10().floor() + 1.0) }
    }

    /// Where on the axis, from 0 to 1.
    fn part(&self, seconds: f64) -> f64 {
        ((seconds.max(1e-12).log10() - self.low) / (self.high - self.low)).clamp(0.0, 1.0)
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + self.part(seconds) * (WIDTH - LEFT - RIGHT)
    }
}

/// The picture as SVG.
pub(crate) fn draw(report: &Report) -> String {
    let axis = Axis::over(report);
    let rows = f64::from(u32::try_from(timed(report).count()).unwrap_or(0));
    let bottom = TOP + rows * ROW + 40.0;
    let panels = f64::from(u32::try_from(report.growths.len()).unwrap_or(0));
    let height = bottom + panels * PANEL;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"10\" y=\"20\" font-size=\"14\">Seconds per operation, one value per sample</text>\n\
         <rect x=\"{LEFT}\" y=\"28\" width=\"12\" height=\"12\" fill=\"#1b7f5c\" fill-opacity=\"0.75\"/>\
         <text x=\"{}\" y=\"39\">ours</text>\n\
         <rect x=\"{}\" y=\"28\" width=\"12\" height=\"12\" fill=\"#b3541e\" fill-opacity=\"0.75\"/>\
         <text x=\"{}\" y=\"39\">peer</text>\n",
        LEFT + 18.0,
        LEFT + 70.0,
        LEFT + 88.0
    );
    ticks(&mut svg, &axis, bottom - 36.0);
    let mut base = TOP;
    for measure in timed(report) {
        base += ROW;
        row(&mut svg, &axis, measure, base);
    }
    let mut top = bottom;
    for growth in &report.growths {
        let frame = Frame { left: LEFT, right: WIDTH - RIGHT, top: top + 40.0, bottom: top + PANEL - 40.0 };
        panel::draw(&mut svg, growth, &frame);
        top += PANEL;
    }
    svg.push_str("</svg>\n");
    svg
}

/// Only times are on the axis.
fn timed(report: &Report) -> impl Iterator<Item = &Measure> {
    report.measures.iter().filter(|measure| measure.unit == Unit::Seconds)
}

fn sides(measure: &Measure) -> impl Iterator<Item = (&Side, &'static str)> {
    let ours = measure.ours.iter().map(|s| (s, "#1b7f5c"));
    ours.chain(measure.peer.iter().map(|s| (s, "#b3541e")))
}

fn ticks(svg: &mut String, axis: &Axis, bottom: f64) {
    let mut power = axis.low;
    while power <= axis.high {
        let x = axis.x(10f64.powf(power));
        // Writing to a string cannot fail.
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            time(10f64.powf(power))
        );
        power += 1.0;
    }
}

fn row(svg: &mut String, axis: &Axis, measure: &Measure, base: f64) {
    let _ = writeln!(svg, "<text x=\"10\" y=\"{:.1}\">{}</text>", base - 8.0, measure.name);
    for (side, colour) in sides(measure) {
        for (bin, part) in histogram(axis, &side.samples) {
            let width = (WIDTH - LEFT - RIGHT) / f64::from(BINS);
            let x = LEFT + f64::from(bin) * width;
            let tall = part * (ROW - 14.0);
            let _ = writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{width:.2}\" height=\"{tall:.1}\" \
                 fill=\"{colour}\" fill-opacity=\"0.75\"/>",
                base - tall
            );
        }
    }
    let _ = writeln!(
        svg,
        "<line x1=\"{LEFT}\" y1=\"{base:.1}\" x2=\"{:.1}\" y2=\"{base:.1}\" stroke=\"#888888\"/>",
        WIDTH - RIGHT
    );
}

/// The bins that hold samples, each as a part of the fullest.
fn histogram(axis: &Axis, samples: &[f64]) -> Vec<(u32, f64)> {
    let holds = |bin: u32, part: f64| {
        let (from, to) = (f64::from(bin) / f64::from(BINS), f64::from(bin + 1) / f64::from(BINS));
        part >= from && (part < to || bin + 1 == BINS)
    };
    let count = |bin| samples.iter().map(|s| axis.part(*s)).filter(|p| holds(bin, *p)).count();
    let counts: Vec<(u32, u32)> = (0..BINS)
        .map(|bin| (bin, u32::try_from(count(bin)).unwrap_or(u32::MAX)))
        .filter(|(_, n)| *n > 0)
        .collect();
    let fullest = counts.iter().map(|(_, n)| *n).max().unwrap_or(1);
    counts.into_iter().map(|(bin, n)| (bin, f64::from(n) / f64::from(fullest))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dice::Dice;
    use crate::growth::{Growth, Point, Subject};

    #[test]
    fn every_sample_is_in_one_bin_and_the_fullest_is_whole() {
        let axis = Axis { low: -3.0, high: 0.0 };
        let bins = histogram(&axis, &[0.001, 0.001, 0.03, 1.0]);
        assert_eq!(bins.len(), 3);
        assert_eq!((bins[0], bins[2]), ((0, 1.0), (BINS - 1, 0.5)));
    }

    #[test]
    fn costs_by_the_number_of_pods_are_below_the_rows() {
        let point = |pods| Point { pods, cost: 0.25 };
        let subject = Subject { name: "POST to Ready".into(), unit: Unit::Seconds };
        let growth = Growth::of_each(subject, vec![point(0), point(250)], 1, &mut Dice::new(1));
        let report = Report { growths: vec![growth], ..Report::default() };
        let svg = draw(&report);
        assert!(svg.contains("viewBox=\"0 0 900 350\"") && svg.ends_with("</svg>\n"), "{svg}");
        assert_eq!(svg.matches("<circle").count(), 2);
        assert!(svg.contains("POST to Ready") && svg.contains(">250<"), "{svg}");
    }

    #[test]
    fn no_samples_draw_nothing() {
        assert!(histogram(&Axis { low: -3.0, high: 0.0 }, &[]).is_empty());
    }
}
