//! The text format of Prometheus, version 0.0.4.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::family::{Family, Snapshot, Value};
use super::number::{text as number, to_f64};

/// What the text is sent as.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every family: its help, its type, its samples.
pub(super) fn write(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        let name = family.name();
        line(&mut out, format_args!("# HELP {name} {}", escaped_help(family.description.help)));
        line(&mut out, format_args!("# TYPE {name} {}", family.kind.name()));
        for (values, value) in &family.samples {
            let labels: Vec<(&str, &str)> =
                family.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
            match value {
                Value::Number(value) => sample(&mut out, name, &labels, *value),
                Value::Histogram(snapshot) => histogram(&mut out, name, &labels, snapshot),
            }
        }
    }
    out
}

/// Buckets are cumulative in the text: each has the values of all buckets below.
fn histogram(out: &mut String, name: &str, labels: &[(&str, &str)], snapshot: &Snapshot) {
    let mut total = 0_u64;
    let last = (f64::INFINITY, snapshot.above);
    for (bound, count) in snapshot.buckets.iter().copied().chain([last]) {
        total = total.saturating_add(count);
        let bound = number(bound);
        let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
        sample(out, &format!("{name}_bucket"), &labels, to_f64(total));
    }
    sample(out, &format!("{name}_sum"), labels, snapshot.sum);
    sample(out, &format!("{name}_count"), labels, to_f64(total));
}

fn sample(out: &mut String, name: &str, labels: &[(&str, &str)], value: f64) {
    let pairs: Vec<String> =
        labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped_value(value))).collect();
    let braces = if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
    line(out, format_args!("{name}{braces} {}", number(value)));
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{text}");
}

/// A backslash and a newline have escapes in a help text.
fn escaped_help(text: &str) -> Cow<'_, str> {
    if !text.contains(['\\', '\n']) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.replace('\\', r"\\").replace('\n', r"\n"))
}

/// In a label's value a quote has one, too.
fn escaped_value(text: &str) -> Cow<'_, str> {
    let escaped = escaped_help(text);
    if escaped.contains('"') { Cow::Owned(escaped.replace('"', r#"\""#)) } else { escaped }
}

#[cfg(test)]
mod tests;
