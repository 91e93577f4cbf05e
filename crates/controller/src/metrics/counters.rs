use std::time::Duration;

use telemetry::metrics::{
    Buckets, Counter, CounterVec, Description, Error, GaugeVec, HistogramVec, Registry,
};

use crate::objects::Watched;

/// Bounds in seconds: an event waits a moment for others, and longer while many are sent.
const SECONDS: [f64; 10] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It was created.
    Created,
    /// An earlier process, or another replica, had created it.
    Present,
    /// The API server refused it, or its namespace is gone.
    Refused,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Present => "present",
            Self::Refused => "refused",
        }
    }
}

/// What the controller itself does.
#[derive(Debug, Clone)]
pub(crate) struct Counters {
    watch_failures: CounterVec<1>,
    events: CounterVec<2>,
    event_seconds: HistogramVec<0>,
    leader: GaugeVec<1>,
}

impl Counters {
    pub(crate) fn register(registry: &Registry) -> Result<Self, Error> {
        let counters = Self {
            watch_failures: registry.counter(
                Description::new(
                    "wardlet_controller_watch_failures_total",
                    "Lists and watches of a resource that failed and were tried again",
                ),
                ["resource"],
            )?,
            events: registry.counter(
                Description::new(
                    "wardlet_controller_events_total",
                    "Events of pods, by reason and by what became of them",
                ),
                ["reason", "result"],
            )?,
            event_seconds: registry.histogram(
                Description::new(
                    "wardlet_controller_event_duration_seconds",
                    "Time from a change of the cluster to the event about it",
                ),
                [],
                Buckets::new(&SECONDS)?,
            )?,
            leader: registry.gauge(
                Description::new(
                    "leader_election_master_status",
                    "Whether this replica holds the lease: 1 if it does",
                ),
                ["name"],
            )?,
        };
        counters.set_leading(false);
        Watched::ALL.into_iter().for_each(|watched| counters.watch_failures(watched).add(0));
        Ok(counters)
    }

    /// Counts failures of the watch of a resource.
    pub(crate) fn watch_failures(&self, watched: Watched) -> Counter {
        self.watch_failures.with([watched.resource()])
    }

    /// Counts an event.
    pub(crate) fn event(&self, reason: &str, outcome: Outcome) {
        self.events.with([reason, outcome.name()]).increment();
    }

    /// Counts the time from a change to the event about it.
    pub(crate) fn event_after(&self, waited: Duration) {
        self.event_seconds.with([]).observe_duration(waited);
    }

    pub(crate) fn set_leading(&self, leads: bool) {
        self.leader.with([check::controller::NAME]).set(if leads { 1.0 } else { 0.0 });
    }
}
