//! One cost by the number of pods that run already, as a part of the picture: a dot for each sample, and the line of least
//! squares.

use std::fmt::Write as _;

use crate::growth::Growth;
use crate::report::value;

/// So many lines with a number cross each axis.
const LINES: u32 = 5;

/// Where the panel is; its texts are around it.
pub(crate) struct Frame {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
}

/// Both axes begin at 0: a slope is as steep as it is.
struct Scale<'a> {
    frame: &'a Frame,
    pods: f64,
    cost: f64,
}

impl Scale<'_> {
    fn x(&self, pods: f64) -> f64 {
        self.frame.left + pods / self.pods * (self.frame.right - self.frame.left)
    }

    fn y(&self, cost: f64) -> f64 {
        let part = (cost / self.cost).clamp(0.0, 1.0);
        self.frame.bottom - part * (self.frame.bottom - self.frame.top)
    }
}

pub(crate) fn draw(svg: &mut String, growth: &Growth, frame: &Frame) {
    let pods = growth.points.iter().map(|point| point.pods).max().unwrap_or(0).max(1);
    let cost = growth.points.iter().map(|point| point.cost).fold(0.0, f64::max);
    let scale = Scale { frame, pods: f64::from(pods), cost: if cost > 0.0 { cost } else { 1.0 } };
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<text x=\"10\" y=\"{:.1}\" font-size=\"14\">{}, by the number of pods that run already</text>",
        frame.top - 14.0,
        growth.name
    );
    axes(svg, &scale, growth);
    for point in &growth.points {
        let (x, y) = (scale.x(f64::from(point.pods)), scale.y(point.cost));
        let _ = writeln!(
            svg,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"#1b7f5c\" fill-opacity=\"0.6\"/>"
        );
    }
    if let Some((first, last)) = growth.line_at(0).zip(growth.line_at(pods)) {
        let _ = writeln!(
            svg,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"#b3541e\" stroke-width=\"1.5\"/>",
            frame.left,
            scale.y(first),
            frame.right,
            scale.y(last)
        );
    }
}

fn axes(svg: &mut String, scale: &Scale<'_>, growth: &Growth) {
    let Frame { left, right, top, bottom } = *scale.frame;
    for line in 0..=LINES {
        let part = f64::from(line) / f64::from(LINES);
        let (pods, cost) = (part * scale.pods, part * scale.cost);
        let (x, y) = (scale.x(pods), scale.y(cost));
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" y1=\"{top:.1}\" x2=\"{x:.1}\" y2=\"{bottom:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{pods:.0}</text>\
             <line x1=\"{left:.1}\" y1=\"{y:.1}\" x2=\"{right:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            bottom + 16.0,
            left - 8.0,
            y + 4.0,
            value(cost, growth.unit)
        );
    }
}
