use cri::MetricType;

/// Nanoseconds.
pub(super) const SECOND: u64 = 1_000_000_000;

/// One metric of something of type `T`.
pub(super) struct Known<T> {
    pub(super) name: &'static str,
    pub(super) help: &'static str,
    pub(super) kind: MetricType,
    /// Labels of its own.
    pub(super) labels: &'static [&'static str],
    pub(super) values: fn(&T, i64) -> Vec<Value>,
}

/// A value with the values of its metric's own labels.
pub(super) struct Value {
    pub(super) labels: Vec<String>,
    pub(super) value: u64,
}

/// One value if it is known.
pub(super) fn plain(value: Option<u64>) -> Vec<Value> {
    value.map(|value| Value { labels: Vec::new(), value }).into_iter().collect()
}
