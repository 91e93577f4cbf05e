use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::buckets::Buckets;
use super::family::{Family, Snapshot, Value};
use super::number::to_f64;

type Children<const N: usize, T> = Arc<Mutex<BTreeMap<[String; N], T>>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn child<const N: usize, T: Clone + Default>(children: &Children<N, T>, values: [&str; N]) -> T {
    lock(children).entry(values.map(str::to_owned)).or_default().clone()
}

fn remove<const N: usize, T>(children: &Children<N, T>, values: [&str; N]) {
    lock(children).remove(&values.map(str::to_owned));
}

/// A counter; clones count the same.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<Mutex<f64>>);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.add(1);
    }

    /// So many more.
    pub fn add(&self, count: u64) {
        *lock(&self.0) += to_f64(count);
    }

    /// So many seconds more.
    pub fn add_duration(&self, duration: Duration) {
        *lock(&self.0) += duration.as_secs_f64();
    }

    /// The count.
    #[must_use]
    pub fn value(&self) -> f64 {
        *lock(&self.0)
    }
}

/// A gauge; clones show the same.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<Mutex<f64>>);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: f64) {
        *lock(&self.0) = value;
    }

    /// Moves it up, or down by a negative number.
    pub fn add(&self, difference: f64) {
        *lock(&self.0) += difference;
    }

    /// What it shows.
    #[must_use]
    pub fn value(&self) -> f64 {
        *lock(&self.0)
    }
}

/// A histogram; clones count into the same buckets.
#[derive(Debug, Clone)]
pub struct Histogram {
    buckets: Arc<Buckets>,
    counted: Arc<Mutex<Snapshot>>,
}

impl Histogram {
    fn new(buckets: &Arc<Buckets>) -> Self {
        let empty = Snapshot {
            buckets: buckets.bounds().iter().map(|bound| (*bound, 0)).collect(),
            above: 0,
            sum: 0.0,
        };
        Self { buckets: Arc::clone(buckets), counted: Arc::new(Mutex::new(empty)) }
    }

    /// Counts a value.
    pub fn observe(&self, value: f64) {
        let mut counted = lock(&self.counted);
        counted.sum += value;
        let Snapshot { buckets, above, .. } = &mut *counted;
        let bucket = self.buckets.index(value).and_then(|index| buckets.get_mut(index));
        let count = bucket.map_or(above, |(_, count)| count);
        *count = count.saturating_add(1);
    }

    /// Counts a duration, in seconds.
    pub fn observe_duration(&self, duration: Duration) {
        self.observe(duration.as_secs_f64());
    }

    /// What it has counted.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        lock(&self.counted).clone()
    }
}

/// Counters of one name, one for each set of label values.
#[derive(Debug, Clone, Default)]
pub struct CounterVec<const N: usize>(Children<N, Counter>);

impl<const N: usize> CounterVec<N> {
    /// The counter of these label values, which is written from now on.
    #[must_use]
    pub fn with(&self, values: [&str; N]) -> Counter {
        child(&self.0, values)
    }

    /// The counter of these label values is no longer written.
    pub fn remove(&self, values: [&str; N]) {
        remove(&self.0, values);
    }

    /// None of its counters is written any more, until it counts again.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// Gauges of one name, one for each set of label values.
#[derive(Debug, Clone, Default)]
pub struct GaugeVec<const N: usize>(Children<N, Gauge>);

impl<const N: usize> GaugeVec<N> {
    /// The gauge of these label values, which is written from now on.
    #[must_use]
    pub fn with(&self, values: [&str; N]) -> Gauge {
        child(&self.0, values)
    }

    /// The gauge of these label values is no longer written.
    pub fn remove(&self, values: [&str; N]) {
        remove(&self.0, values);
    }

    /// None of its gauges is written any more, until it is set again.
    pub fn clear(&self) {
        lock(&self.0).clear();
    }
}

/// Histograms of one name, one for each set of label values.
#[derive(Debug, Clone)]
pub struct HistogramVec<const N: usize> {
    buckets: Arc<Buckets>,
    children: Children<N, Histogram>,
}

impl<const N: usize> HistogramVec<N> {
    pub(super) fn new(buckets: Buckets) -> Self {
        Self { buckets: Arc::new(buckets), children: Children::default() }
    }

    /// The histogram of these label values, which is written from now on.
    #[must_use]
    pub fn with(&self, values: [&str; N]) -> Histogram {
        let new = || Histogram::new(&self.buckets);
        lock(&self.children).entry(values.map(str::to_owned)).or_insert_with(new).clone()
    }

    /// The histogram of these label values is no longer written.
    pub fn remove(&self, values: [&str; N]) {
        remove(&self.children, values);
    }
}

/// A vector of the registry: puts what it has counted into a family.
pub(super) trait Vector: Send + Sync {
    fn fill(&self, family: &mut Family);
}

fn fill<const N: usize, T>(children: &Children<N, T>, family: &mut Family, value: impl Fn(&T) -> Value) {
    for (values, child) in lock(children).iter() {
        family.put(&values.each_ref().map(String::as_str), value(child));
    }
}

impl<const N: usize> Vector for CounterVec<N> {
    fn fill(&self, family: &mut Family) {
        fill(&self.0, family, |counter| Value::Number(counter.value()));
    }
}

impl<const N: usize> Vector for GaugeVec<N> {
    fn fill(&self, family: &mut Family) {
        fill(&self.0, family, |gauge| Value::Number(gauge.value()));
    }
}

impl<const N: usize> Vector for HistogramVec<N> {
    fn fill(&self, family: &mut Family) {
        fill(&self.children, family, |histogram| Value::Histogram(histogram.snapshot()));
    }
}
