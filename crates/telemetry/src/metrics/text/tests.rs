//! What is written is read back by a parser that knows nothing of the writer.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::metrics::{Buckets, Description, Kind, Registry};

/// A line with a number: its name, its labels, its value.
#[derive(Debug, Clone, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// What a text says, comments by the name that they are about.
#[derive(Debug, Default)]
struct Parsed {
    help: BTreeMap<String, String>,
    kind: BTreeMap<String, String>,
    samples: Vec<Sample>,
}

fn parse(text: &str) -> Parsed {
    let mut parsed = Parsed::default();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line has no end");
    for line in text.split_terminator('\n') {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            let before = parsed.help.insert(name.to_owned(), unescaped(help, false));
            assert_eq!(before, None, "{name} has two help lines");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert_eq!(parsed.kind.insert(name.to_owned(), kind.to_owned()), None, "{name} has two types");
        } else {
            parsed.samples.push(sample_of(line));
        }
    }
    parsed
}

fn unescaped(text: &str, has_quotes: bool) -> String {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let read = match c {
            '\\' => match rest.next() {
                Some('n') => '\n',
                Some('\\') => '\\',
                Some('"') if has_quotes => '"',
                other => panic!("{text:?}: no escape: {other:?}"),
            },
            c => c,
        };
        out.push(read);
    }
    out
}

fn sample_of(line: &str) -> Sample {
    let end = line.find(['{', ' ']).unwrap();
    let (name, mut rest) = line.split_at(end);
    let mut labels = BTreeMap::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (label, value) = rest.split_once("=\"").unwrap();
            let mut is_escaped = false;
            let quote = value.find(|c| {
                let ends = c == '"' && !is_escaped;
                is_escaped = c == '\\' && !is_escaped;
                ends
            });
            let (value, after) = value.split_at(quote.unwrap());
            assert_eq!(labels.insert(label.to_owned(), unescaped(value, true)), None, "{label} twice");
            match after.strip_prefix("\",") {
                Some(next) => rest = next,
                None => {
                    rest = after.strip_prefix("\"}").unwrap();
                    break;
                }
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap();
    Sample { name: name.to_owned(), labels, value: value.parse().unwrap() }
}

/// Text with many of the characters that have escapes.
fn awkward() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\\".to_owned()),
        Just("\"".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("n".to_owned()),
        Just("},{=\" ".to_owned()),
        any::<String>(),
    ];
    vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn label_values_are_read_back_as_they_were(values in vec((awkward(), awkward(), any::<f64>()), 1..8)) {
        let registry = Registry::default();
        let gauge = registry.gauge(Description::new("g_total", "G"), ["one", "other"]).unwrap();
        let mut expected = BTreeMap::new();
        for (one, other, value) in &values {
            gauge.with([one, other]).set(*value);
            expected.insert((one.clone(), other.clone()), *value);
        }
        let parsed = parse(&registry.text());
        prop_assert_eq!(parsed.kind.get("g_total").map(String::as_str), Some("gauge"));
        prop_assert_eq!(parsed.samples.len(), expected.len());
        for sample in parsed.samples {
            let key = (sample.labels["one"].clone(), sample.labels["other"].clone());
            let wanted = expected[&key];
            prop_assert!(sample.value == wanted || (sample.value.is_nan() && wanted.is_nan()));
        }
    }

    #[test]
    fn help_is_read_back_as_it_was(help in awkward()) {
        prop_assert_eq!(unescaped(&escaped_help(&help), false), help.clone());
        prop_assert!(!escaped_help(&help).contains('\n'));
    }

    #[test]
    fn a_histogram_counts_as_a_list_of_its_values_does(
        values in vec(-10.0_f64..1e7, 0..60),
        bounds in proptest::collection::btree_set(-5_i32..2_000_000, 0..8),
    ) {
        let bounds: Vec<f64> = bounds.into_iter().map(f64::from).collect();
        let registry = Registry::default();
        let buckets = Buckets::new(&bounds).unwrap();
        let vector = registry.histogram(Description::new("h", "H"), ["x"], buckets).unwrap();
        let histogram = vector.with(["v"]);
        values.iter().for_each(|value| histogram.observe(*value));
        let parsed = parse(&registry.text());
        prop_assert_eq!(parsed.kind.get("h").map(String::as_str), Some("histogram"));
        let named = |name: &str| parsed.samples.iter().filter(|s| s.name == name).cloned().collect::<Vec<_>>();
        let found = named("h_bucket");
        prop_assert_eq!(found.len(), bounds.len() + 1);
        for sample in &found {
            let bound: f64 = sample.labels["le"].parse().unwrap();
            let naive = values.iter().filter(|value| **value <= bound).count();
            prop_assert_eq!(sample.value.to_string(), naive.to_string());
        }
        prop_assert_eq!(found.last().map(|s| s.labels["le"].clone()), Some("+Inf".to_owned()));
        prop_assert_eq!(named("h_count")[0].value.to_string(), values.len().to_string());
        prop_assert_eq!(named("h_sum")[0].value, values.iter().fold(0.0, |sum, value| sum + value));
    }
}

#[test]
fn a_whole_text_is_as_a_scraper_expects_it() {
    let registry = Registry::default();
    let seconds = Description::new("kubelet_runtime_operations_duration_seconds", "Seconds\nof calls");
    let buckets = Buckets::exponential(0.005, 2.5, 2).unwrap();
    let histogram = registry.histogram(seconds, ["operation_type"], buckets).unwrap();
    [0.005, 0.01, 7.0].iter().for_each(|value| histogram.with(["pull_image"]).observe(*value));
    let conflicts = Description::new("conflicts_total", r"Paths like C:\ x");
    let conflicts = registry.gauge(conflicts, ["property", "pod"]).unwrap();
    conflicts.with(["SELinuxLabel", "a \"b\"\n\\"]).set(1e6);
    assert_eq!(
        registry.text(),
        r#"# HELP conflicts_total Paths like C:\\ x
# TYPE conflicts_total gauge
conflicts_total{property="SELinuxLabel",pod="a \"b\"\n\\"} 1e+06
# HELP kubelet_runtime_operations_duration_seconds Seconds\nof calls
# TYPE kubelet_runtime_operations_duration_seconds histogram
kubelet_runtime_operations_duration_seconds_bucket{operation_type="pull_image",le="0.005"} 1
kubelet_runtime_operations_duration_seconds_bucket{operation_type="pull_image",le="0.0125"} 2
kubelet_runtime_operations_duration_seconds_bucket{operation_type="pull_image",le="+Inf"} 3
kubelet_runtime_operations_duration_seconds_sum{operation_type="pull_image"} 7.015
kubelet_runtime_operations_duration_seconds_count{operation_type="pull_image"} 3
"#
    );
}

#[test]
fn a_counter_keeps_its_name_whatever_it_ends_with() {
    let registry = Registry::default();
    registry.counter(Description::new("restarts", "R"), []).unwrap().with([]).add(3);
    assert_eq!(registry.text(), "# HELP restarts R\n# TYPE restarts counter\nrestarts 3\n");
    assert_eq!(registry.gather()[0].kind, Kind::Counter);
}
