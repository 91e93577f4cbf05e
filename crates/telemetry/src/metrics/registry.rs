use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::buckets::Buckets;
use super::error::Error;
use super::family::{Description, Family, Kind};
use super::text;
use super::vectors::{CounterVec, GaugeVec, HistogramVec, Vector};

/// Computes metrics when they are read.
pub trait Collector: Send + Sync {
    /// The families that it fills, without samples. Asked once, when it is registered.
    ///
    /// # Errors
    /// If a name or label is not allowed.
    fn families(&self) -> Result<Vec<Family>, Error>;

    /// Adds the samples of this moment. The families come in the order of [`families`](Self::families).
    fn collect(&self, families: &mut [Family]);
}

/// Metrics of one process or one part of it. Clones are the same registry.
///
/// A metric without labels is written from its registration on, as 0; one with labels once its label values have come up.
#[derive(Clone, Default)]
pub struct Registry {
    entries: Arc<Mutex<Entries>>,
}

#[derive(Default)]
struct Entries {
    /// Names of samples.
    taken: BTreeSet<String>,
    sources: Vec<Source>,
}

#[derive(Clone)]
enum Source {
    Vector(Family, Arc<dyn Vector>),
    Collector(Vec<Family>, Arc<dyn Collector>),
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry").field("names", &self.entries().taken).finish_non_exhaustive()
    }
}

impl Registry {
    /// A counter for each set of values of these labels.
    ///
    /// # Errors
    /// If the name or a label is not allowed, or the name is taken.
    pub fn counter<const N: usize>(
        &self,
        description: Description,
        labels: [&'static str; N],
    ) -> Result<CounterVec<N>, Error> {
        let vector = CounterVec::default();
        if N == 0 {
            let _ = vector.with([""; N]);
        }
        self.add(Family::new(description, Kind::Counter, &labels)?, vector.clone())?;
        Ok(vector)
    }

    /// A gauge for each set of values of these labels.
    ///
    /// # Errors
    /// If the name or a label is not allowed, or the name is taken.
    pub fn gauge<const N: usize>(
        &self,
        description: Description,
        labels: [&'static str; N],
    ) -> Result<GaugeVec<N>, Error> {
        let vector = GaugeVec::default();
        if N == 0 {
            let _ = vector.with([""; N]);
        }
        self.add(Family::new(description, Kind::Gauge, &labels)?, vector.clone())?;
        Ok(vector)
    }

    /// A histogram with these buckets for each set of values of these labels.
    ///
    /// # Errors
    /// If the name or a label is not allowed, or one of the names of its samples is taken.
    pub fn histogram<const N: usize>(
        &self,
        description: Description,
        labels: [&'static str; N],
        buckets: Buckets,
    ) -> Result<HistogramVec<N>, Error> {
        let vector = HistogramVec::new(buckets);
        if N == 0 {
            let _ = vector.with([""; N]);
        }
        self.add(Family::new(description, Kind::Histogram, &labels)?, vector.clone())?;
        Ok(vector)
    }

    /// A collector, which is asked with every [`gather`](Self::gather).
    ///
    /// # Errors
    /// If a name or label is not allowed, or a name is taken; nothing of it is registered then.
    pub fn collector(&self, collector: Arc<dyn Collector>) -> Result<(), Error> {
        let families = collector.families()?;
        let mut entries = self.entries();
        entries.take(&families)?;
        entries.sources.push(Source::Collector(families, collector));
        Ok(())
    }

    /// Every family that has samples now, by name.
    #[must_use]
    pub fn gather(&self) -> Vec<Family> {
        // Collectors may take their time, and may count something themselves: not under the lock.
        let sources = self.entries().sources.clone();
        let mut all: Vec<Family> = sources.into_iter().flat_map(Source::filled).collect();
        all.retain(|family| !family.samples.is_empty());
        all.sort_by_key(Family::name);
        all
    }

    /// All of it in the text format, to be sent as [`CONTENT_TYPE`](super::CONTENT_TYPE).
    #[must_use]
    pub fn text(&self) -> String {
        text::write(&self.gather())
    }

    fn add(&self, family: Family, vector: impl Vector + 'static) -> Result<(), Error> {
        let mut entries = self.entries();
        entries.take(std::slice::from_ref(&family))?;
        entries.sources.push(Source::Vector(family, Arc::new(vector)));
        Ok(())
    }

    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entries {
    /// Takes the names of these families: all or none.
    fn take(&mut self, families: &[Family]) -> Result<(), Error> {
        let mut taken = self.taken.clone();
        for name in families.iter().flat_map(Family::sample_names) {
            if !taken.insert(name.clone()) {
                return Err(Error::Duplicate { name });
            }
        }
        self.taken = taken;
        Ok(())
    }
}

impl Source {
    fn filled(self) -> Vec<Family> {
        match self {
            Self::Vector(mut family, vector) => {
                vector.fill(&mut family);
                vec![family]
            }
            Self::Collector(mut families, collector) => {
                collector.collect(&mut families);
                families
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    const A: Description = Description::new("a_total", "A");

    #[test]
    fn a_name_is_registered_once_histogram_suffixes_included() {
        let registry = Registry::default();
        registry.counter(A, []).unwrap();
        assert_eq!(registry.gauge(A, ["x"]).unwrap_err(), Error::Duplicate { name: "a_total".to_owned() });
        registry.gauge(Description::new("b_sum", ""), []).unwrap();
        let buckets = || Buckets::new(&[1.0]).unwrap();
        let clash = registry.histogram(Description::new("b", ""), [], buckets()).unwrap_err();
        assert_eq!(clash, Error::Duplicate { name: "b_sum".to_owned() });
        registry.counter(Description::new("b_count", ""), []).expect("a failed registration takes no name");
    }

    #[test]
    fn a_metric_without_labels_is_written_before_anything_is_counted() {
        let registry = Registry::default();
        registry.counter(A, []).unwrap();
        registry.counter(Description::new("b_total", ""), ["x"]).unwrap();
        registry.gauge(Description::new("c", ""), []).unwrap();
        registry.histogram(Description::new("d", ""), [], Buckets::new(&[1.0]).unwrap()).unwrap();
        let text = registry.text();
        for line in ["a_total 0\n", "c 0\n", "d_bucket{le=\"+Inf\"} 0\n", "d_sum 0\n"] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("b_total"), "{text}");
    }

    #[test]
    fn two_registries_know_nothing_of_each_other() {
        let (one, other) = (Registry::default(), Registry::default());
        one.counter(A, []).unwrap().with([]).increment();
        other.counter(A, []).unwrap().with([]).add(5);
        assert!(one.text().ends_with("a_total 1\n") && other.text().ends_with("a_total 5\n"));
    }

    #[test]
    fn a_family_without_samples_is_not_written() {
        let registry = Registry::default();
        let gauge = registry.gauge(Description::new("g", "G"), ["x"]).unwrap();
        assert_eq!(registry.text(), "");
        gauge.with(["1"]).set(-2.5);
        assert_eq!(registry.text(), "# HELP g G\n# TYPE g gauge\ng{x=\"1\"} -2.5\n");
        gauge.remove(["1"]);
        assert_eq!(registry.text(), "");
    }

    #[test]
    fn what_is_removed_begins_again_from_nothing() {
        let registry = Registry::default();
        let counter = registry.counter(A, ["x"]).unwrap();
        let histogram =
            registry.histogram(Description::new("h", ""), ["x"], Buckets::new(&[1.0]).unwrap()).unwrap();
        for value in ["1", "2"] {
            counter.with([value]).add(3);
            histogram.with([value]).observe(0.5);
        }
        counter.remove(["1"]);
        histogram.remove(["1"]);
        let text = registry.text();
        assert!(!text.contains("x=\"1\"") && text.contains("a_total{x=\"2\"} 3\n"), "{text}");
        counter.clear();
        counter.with(["2"]).increment();
        assert!(registry.text().contains("a_total{x=\"2\"} 1\n"));
    }

    /// Two families from one look.
    struct Asked(AtomicU32);

    impl Collector for Asked {
        fn families(&self) -> Result<Vec<Family>, Error> {
            let of = |name| Family::new(Description::new(name, ""), Kind::Gauge, &["state"]);
            Ok(vec![of("volumes_total")?, of("bytes")?])
        }

        fn collect(&self, families: &mut [Family]) {
            let asked = self.0.fetch_add(1, Ordering::Relaxed).saturating_add(1);
            for family in families {
                family.sample(&["mounted"], f64::from(asked));
            }
        }
    }

    #[test]
    fn a_collector_is_asked_anew_with_every_scrape() {
        let registry = Registry::default();
        registry.collector(Arc::new(Asked(AtomicU32::new(0)))).unwrap();
        let text = registry.text();
        assert!(text.contains("# TYPE volumes_total gauge\nvolumes_total{state=\"mounted\"} 1\n"), "{text}");
        let text = registry.text();
        assert!(text.contains("bytes{state=\"mounted\"} 2\n") && !text.contains("} 1\n"), "{text}");
        let again = registry.collector(Arc::new(Asked(AtomicU32::new(0))));
        assert_eq!(again, Err(Error::Duplicate { name: "volumes_total".to_owned() }));
    }
}
