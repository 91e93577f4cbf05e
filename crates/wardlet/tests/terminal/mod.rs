//! A terminal as a picture: text in an SVG, light or dark as whoever looks at it has it.

use std::fmt::Write;

const COLUMN: f64 = 8.4;
const LINE: f64 = 19.0;
const MARGIN: f64 = 18.0;

const STYLE: &str = "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;\
white-space:pre;fill:#1f2328}.ground{fill:#f6f8fa;stroke:#d1d9e0}.typed{font-weight:bold;fill:#0550ae}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.ground{fill:#0d1117;stroke:#3d444d}.typed{fill:#79c0ff}}";

/// What was typed begins with `$ `.
pub(crate) fn drawn(title: &str, lines: &[String]) -> String {
    let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
    let width = 2.0f64.mul_add(MARGIN, COLUMN * f64::from(u32::try_from(columns).unwrap()));
    let height = 2.0f64.mul_add(MARGIN, LINE * f64::from(u32::try_from(lines.len()).unwrap()));
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" height=\"{height:.0}\" role=\"img\">\n\
         <title>{}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"ground\" x=\"0.5\" y=\"0.5\" width=\"{:.0}\" height=\"{:.0}\" rx=\"8\"/>\n",
        escaped(title),
        width - 1.0,
        height - 1.0
    );
    let mut y = MARGIN + 14.0;
    for line in lines {
        let class = if line.starts_with("$ ") { " class=\"typed\"" } else { "" };
        let text = escaped(line);
        writeln!(svg, "<text{class} x=\"{MARGIN:.0}\" y=\"{y:.0}\" xml:space=\"preserve\">{text}</text>")
            .unwrap();
        y += LINE;
    }
    svg + "</svg>\n"
}

/// The lines of such a picture.
pub(crate) fn read(svg: &str) -> Vec<String> {
    let text = |line: &str| {
        let rest = line.strip_prefix("<text")?.strip_suffix("</text>")?;
        Some(rest.split_once('>')?.1.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    };
    svg.lines().filter_map(text).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The same for any two runs of the same program: numbers are some number, and columns are as wide as they have to be.
pub(crate) fn shape(lines: &[String]) -> Vec<String> {
    let of_word = |word: &str| {
        let mut shape = String::new();
        for c in word.chars() {
            let c = if c.is_ascii_digit() { '#' } else { c };
            if !(c == '#' && shape.ends_with('#')) {
                shape.push(c);
            }
        }
        shape
    };
    let of_line = |line: &String| line.split_whitespace().map(of_word).collect::<Vec<_>>().join(" ");
    lines.iter().map(of_line).collect()
}
