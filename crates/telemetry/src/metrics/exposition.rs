//! A text of metrics that are read when they are asked for.

use std::collections::BTreeSet;

use super::error::Error;
use super::family::{Description, Kind, check_labels, check_name};
use super::text;

/// Writes metrics in the text format of Prometheus, family by family. For values that have no place in a registry, because there
/// are others each time. A family without samples is not written.
///
/// ```
/// use telemetry::metrics::{Description, Exposition, Kind};
/// let mut all = Exposition::default();
/// all.family(Description::new("pod_memory_working_set_bytes", "Working set of a pod"), Kind::Gauge);
/// all.sample(&[("namespace", "shop"), ("pod", "web")], 4096.0, Some(1_700_000_000_000));
/// assert!(all.text().ends_with("{namespace=\"shop\",pod=\"web\"} 4096 1700000000000\n"));
/// ```
#[derive(Debug, Default)]
pub struct Exposition {
    out: String,
    /// The names of the families that were written: a parser refuses a text that has one twice.
    written: BTreeSet<String>,
    /// The family whose samples come now, and whether its head is written.
    current: Option<(Description, Kind)>,
    has_head: bool,
}

impl Exposition {
    /// Begins a family; its samples come next.
    pub fn family(&mut self, description: Description, kind: Kind) {
        self.current = Some((description, kind));
        self.has_head = false;
    }

    /// Writes a sample of the family, with its time in milliseconds since 1970 if it has one. A family that was written before
    /// gets no more samples.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: f64, at: Option<u64>) {
        let Some((Description { name, help }, kind)) = self.current else { return };
        if !self.has_head {
            if !self.written.insert(name.to_owned()) {
                return;
            }
            text::head(&mut self.out, name, help, kind);
            self.has_head = true;
        }
        text::sample(&mut self.out, name, labels, value, at);
    }

    /// Writes a family that comes from elsewhere; `false` if another one of its name is written already.
    pub fn add(&mut self, family: &ForeignFamily, kind: Kind) -> bool {
        self.current = None;
        if family.samples.is_empty() {
            return true;
        }
        let is_new = self.written.insert(family.name.clone());
        if is_new {
            text::head(&mut self.out, &family.name, &family.help, kind);
            self.out.push_str(&family.samples);
        }
        is_new
    }

    /// All that was written.
    #[must_use]
    pub fn text(self) -> String {
        self.out
    }
}

/// A family whose name, help and labels another program decides on. Whatever it says, its lines are samples of this name with
/// these labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForeignFamily {
    name: String,
    help: String,
    labels: Vec<String>,
    /// Lines of the text format.
    samples: String,
}

impl ForeignFamily {
    /// A family without samples.
    ///
    /// # Errors
    /// If the name or a label is not allowed.
    pub fn new(name: String, help: String, labels: Vec<String>) -> Result<Self, Error> {
        check_name(&name)?;
        check_labels(&name, &labels)?;
        Ok(Self { name, help, labels, samples: String::new() })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Adds a sample with these values of its labels; how many bytes it takes. Its time is in milliseconds since 1970.
    ///
    /// # Errors
    /// [`Error::Values`] if there are more or fewer values than labels.
    pub fn sample(&mut self, values: &[String], number: f64, at: Option<u64>) -> Result<usize, Error> {
        if values.len() != self.labels.len() {
            let (labels, values) = (self.labels.len(), values.len());
            return Err(Error::Values { name: self.name.clone(), labels, values });
        }
        let before = self.samples.len();
        let pairs = self.labels.iter().map(String::as_str).zip(values.iter().map(String::as_str));
        let pairs: Vec<(&str, &str)> = pairs.collect();
        text::sample(&mut self.samples, &self.name, &pairs, number, at);
        Ok(self.samples.len() - before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USED: Description = Description::new("used_bytes", "Bytes");

    fn foreign(name: &str, labels: &[&str]) -> Result<ForeignFamily, Error> {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        ForeignFamily::new(name.to_owned(), "Bytes".to_owned(), labels)
    }

    #[test]
    fn a_family_without_samples_is_not_written() {
        let mut all = Exposition::default();
        all.family(USED, Kind::Gauge);
        all.family(Description::new("sent", "Sent"), Kind::Counter);
        all.sample(&[], 1.0, None);
        assert!(all.add(&foreign("other", &[]).unwrap(), Kind::Gauge));
        assert_eq!(all.text(), "# HELP sent Sent\n# TYPE sent counter\nsent 1\n");
    }

    #[test]
    fn no_family_is_written_twice() {
        let mut all = Exposition::default();
        all.family(USED, Kind::Gauge);
        all.sample(&[], 1.0, None);
        let mut again = foreign(USED.name, &[]).unwrap();
        again.sample(&[], 2.0, None).unwrap();
        assert!(!all.add(&again, Kind::Gauge));
        let mut other = foreign("other", &[]).unwrap();
        other.sample(&[], 3.0, None).unwrap();
        assert!(all.add(&other, Kind::Gauge) && !all.add(&other, Kind::Gauge));
        all.family(Description::new("other", "Bytes"), Kind::Gauge);
        all.sample(&[], 4.0, None);
        let text = all.text();
        assert_eq!(text.matches("# TYPE").count(), 2, "{text}");
        assert!(text.ends_with("other 3\n"), "{text}");
    }

    /// A runtime could write samples of any other metric, `up` for instance, by a line end in a name.
    #[test]
    fn names_of_other_programs_are_those_that_a_parser_reads() {
        for name in ["", "a\nup 1\nb", "a{b=\"c\"}", "9a", "a b"] {
            assert!(matches!(foreign(name, &[]), Err(Error::Name { .. })), "{name:?}");
        }
        for labels in [&["a\"} 1\nup{b"][..], &["__name__"], &["a", "a"], &[""]] {
            assert!(matches!(foreign("used", labels), Err(Error::Label { .. })), "{labels:?}");
        }
    }

    #[test]
    fn a_sample_has_a_value_for_each_label() {
        let mut family = foreign("used", &["a", "b"]).unwrap();
        let values = |all: &[&str]| all.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>();
        for wrong in [&["1"][..], &["1", "2", "3"], &[]] {
            assert!(
                matches!(family.sample(&values(wrong), 1.0, None), Err(Error::Values { .. })),
                "{wrong:?}"
            );
        }
        let line = "used{a=\"1\",b=\"\\\"\\n\"} 1 5\n";
        assert_eq!(family.sample(&values(&["1", "\"\n"]), 1.0, Some(5)), Ok(line.len()));
        assert_eq!(family.samples, line);
    }
}
