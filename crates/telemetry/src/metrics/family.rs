use std::collections::BTreeMap;

use super::error::Error;

/// The kind of a metric, as its `# TYPE` line says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, but for a restart.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by buckets.
    Histogram,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// The name of a metric and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Description {
    /// Written as it is.
    pub name: &'static str,
    /// One sentence for people.
    pub help: &'static str,
}

impl Description {
    /// The name of a metric and what it means.
    #[must_use]
    pub const fn new(name: &'static str, help: &'static str) -> Self {
        Self { name, help }
    }
}

/// What a histogram has counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    /// Each finite bound with the number of values in its own bucket, not those of the buckets below.
    pub buckets: Vec<(f64, u64)>,
    /// Values above the last bound.
    pub above: u64,
    /// The sum of all values.
    pub sum: f64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Number(f64),
    Histogram(Snapshot),
}

/// A metric with its samples. The number of labels is fixed when it is made, and a sample that comes twice replaces the
/// first one, so that whatever is in it can be written.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    pub(super) description: Description,
    pub(super) kind: Kind,
    pub(super) labels: Vec<&'static str>,
    pub(super) samples: BTreeMap<Vec<String>, Value>,
}

impl Family {
    /// A family without samples.
    ///
    /// # Errors
    /// If the name or a label is not allowed.
    pub fn new(description: Description, kind: Kind, labels: &[&'static str]) -> Result<Self, Error> {
        let name = description.name;
        check_name(name)?;
        check_labels(name, labels)?;
        if let Some(label) = labels.iter().find(|label| kind == Kind::Histogram && **label == "le") {
            return Err(Error::Label { name: name.to_owned(), label: (*label).to_owned() });
        }
        Ok(Self { description, kind, labels: labels.to_vec(), samples: BTreeMap::new() })
    }

    /// Adds a sample of a counter or gauge. One with another number of values than the family has labels, or of a
    /// histogram, is left out.
    pub fn sample(&mut self, values: &[&str], number: f64) {
        if self.kind != Kind::Histogram {
            self.put(values, Value::Number(number));
        }
    }

    /// Adds a sample of a histogram, by the same rules.
    pub fn histogram(&mut self, values: &[&str], snapshot: Snapshot) {
        if self.kind == Kind::Histogram {
            self.put(values, Value::Histogram(snapshot));
        }
    }

    /// The name of the metric.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.description.name
    }

    pub(super) fn put(&mut self, values: &[&str], value: Value) {
        if values.len() == self.labels.len() {
            self.samples.insert(values.iter().map(|value| (*value).to_owned()).collect(), value);
        }
    }

    /// The names that its lines may have.
    pub(super) fn sample_names(&self) -> Vec<String> {
        let name = self.description.name;
        match self.kind {
            Kind::Counter | Kind::Gauge => vec![name.to_owned()],
            Kind::Histogram => ["", "_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")).to_vec(),
        }
    }
}

/// # Errors
/// If it is no name of a metric by the grammar of Prometheus.
pub(super) fn check_name(name: &str) -> Result<(), Error> {
    if is_name(name, ':') { Ok(()) } else { Err(Error::Name { name: name.to_owned() }) }
}

/// # Errors
/// If one is no name of a label by that grammar, is reserved, or comes twice.
pub(super) fn check_labels<L: AsRef<str>>(name: &str, labels: &[L]) -> Result<(), Error> {
    for (index, label) in labels.iter().map(AsRef::as_ref).enumerate() {
        let is_repeated = labels.iter().take(index).any(|earlier| earlier.as_ref() == label);
        if !is_name(label, '_') || label.starts_with("__") || is_repeated {
            return Err(Error::Label { name: name.to_owned(), label: label.to_owned() });
        }
    }
    Ok(())
}

/// Letters, digits, `_` and `also`, and no digit first.
fn is_name(text: &str, also: char) -> bool {
    let is_letter = |c: char| c.is_ascii_alphabetic() || c == '_' || c == also;
    text.starts_with(is_letter) && text.chars().all(|c| is_letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, kind: Kind, labels: &[&'static str]) -> Result<Family, Error> {
        Family::new(Description::new(name, ""), kind, labels)
    }

    #[test]
    fn names_that_a_parser_would_not_read_are_refused() {
        for wrong in ["", "1a", "a-b", "a b", "ä", "a\n"] {
            assert!(matches!(of(wrong, Kind::Gauge, &[]), Err(Error::Name { .. })), "{wrong:?}");
        }
        for wrong in ["", "1a", "a-b", "a:b", "__name__"] {
            assert!(matches!(of("a", Kind::Gauge, &[wrong]), Err(Error::Label { .. })), "{wrong:?}");
        }
        assert!(of("a", Kind::Gauge, &["x", "x"]).is_err());
        assert!(of("a", Kind::Histogram, &["le"]).is_err());
        assert!(of("a:b_total", Kind::Gauge, &["le", "_x1"]).is_ok());
    }

    #[test]
    fn a_sample_that_does_not_fit_is_left_out() {
        let mut family = of("a", Kind::Gauge, &["x"]).unwrap();
        family.sample(&[], 1.0);
        family.sample(&["1", "2"], 1.0);
        family.histogram(&["1"], Snapshot { buckets: vec![], above: 0, sum: 0.0 });
        assert!(family.samples.is_empty());
        family.sample(&["1"], 1.0);
        family.sample(&["1"], 2.0);
        assert_eq!(family.samples.into_values().collect::<Vec<_>>(), [Value::Number(2.0)]);
    }
}
