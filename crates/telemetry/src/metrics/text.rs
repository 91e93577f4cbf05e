//! The text format of Prometheus, version 0.0.4.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::family::{Family, Kind, Snapshot, Value};
use super::number::{text as number, to_f64};

/// What the text is sent as.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Every family: its help, its type, its samples.
pub(super) fn write(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        let name = family.name();
        head(&mut out, name, family.description.help, family.kind);
        for (values, value) in &family.samples {
            let labels: Vec<(&str, &str)> =
                family.labels.iter().copied().zip(values.iter().map(String::as_str)).collect();
            match value {
                Value::Number(value) => sample(&mut out, name, &labels, *value, None),
                Value::Histogram(snapshot) => histogram(&mut out, name, &labels, snapshot),
            }
        }
    }
    out
}

/// The help and the type of a family.
pub(super) fn head(out: &mut String, name: &str, help: &str, kind: Kind) {
    line(out, format_args!("# HELP {name} {}", escaped_help(help)));
    line(out, format_args!("# TYPE {name} {}", kind.name()));
}

/// Buckets are cumulative in the text: each has the values of all buckets below.
fn histogram(out: &mut String, name: &str, labels: &[(&str, &str)], snapshot: &Snapshot) {
    let mut total = 0_u64;
    let last = (f64::INFINITY, snapshot.above);
    for (bound, count) in snapshot.buckets.iter().copied().chain([last]) {
        total = total.saturating_add(count);
        let bound = number(bound);
        let labels: Vec<_> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
        sample(out, &format!("{name}_bucket"), &labels, to_f64(total), None);
    }
    sample(out, &format!("{name}_sum"), labels, snapshot.sum, None);
    sample(out, &format!("{name}_count"), labels, to_f64(total), None);
}

/// One sample, with its time in milliseconds since 1970 if it has one.
pub(super) fn sample(out: &mut String, name: &str, labels: &[(&str, &str)], value: f64, at: Option<u64>) {
    out.push_str(name);
    for (index, (label, value)) in labels.iter().enumerate() {
        out.push(if index == 0 { '{' } else { ',' });
        out.push_str(label);
        out.push_str("=\"");
        out.push_str(&escaped_value(value));
        out.push('"');
    }
    if !labels.is_empty() {
        out.push('}');
    }
    let time = at.map(|at| format!(" {at}")).unwrap_or_default();
    line(out, format_args!(" {}{time}", number(value)));
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
