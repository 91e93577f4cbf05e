use std::fmt;
use std::time::SystemTime;

use tracing_core::span::{Attributes, Current, Id, Record as Values};
use tracing_core::{Dispatch, Event, LevelFilter, Metadata, Subscriber, dispatcher};

use super::field::Collect;
use super::filter::Filter;
use super::format::Format;
use super::record::Record;
use super::span::{self, Spans};

/// Takes a line without its newline.
pub type Sink = Box<dyn Fn(&str) + Send + Sync>;

/// The process has a log already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("cannot install the log: this process has one already")]
pub struct AlreadyInstalled;

/// A log: events that pass the filter become lines and go to the sink.
pub struct Log {
    filter: Filter,
    format: Format,
    sink: Sink,
    spans: Spans,
}

impl Log {
    /// A log that is not installed yet. The sink may be called by several threads at a time.
    #[must_use]
    pub fn new(filter: Filter, format: Format, sink: Sink) -> Self {
        Self { filter, format, sink, spans: Spans::default() }
    }

    /// Sends the events of all threads here, for as long as the process lives.
    ///
    /// # Errors
    /// If a log is installed already.
    pub fn install(self) -> Result<(), AlreadyInstalled> {
        dispatcher::set_global_default(Dispatch::new(self)).map_err(|_| AlreadyInstalled)
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log")
            .field("filter", &self.filter)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.filter.passes(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.filter.most_verbose())
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        self.spans.open(attributes)
    }

    fn record(&self, id: &Id, values: &Values<'_>) {
        self.spans.record(id, values);
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut collect = Collect::default();
        event.record(&mut collect);
        let innermost = match event.parent() {
            Some(id) => Some(id.into_u64()),
            None if event.is_contextual() => span::current(),
            None => None,
        };
        let metadata = event.metadata();
        let record = Record {
            time: SystemTime::now(),
            level: *metadata.level(),
            target: metadata.target(),
            message: collect.message,
            fields: collect.fields,
            spans: self.spans.around(innermost),
        };
        (self.sink)(&self.format.line(&record));
    }

    fn enter(&self, id: &Id) {
        span::enter(id);
    }

    fn exit(&self, id: &Id) {
        span::exit(id);
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.spans.refer(id);
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        self.spans.release(&id)
    }

    fn current_span(&self) -> Current {
        let current = span::current().map(Id::from_u64);
        match current.and_then(|id| self.spans.metadata(&id).map(|metadata| (id, metadata))) {
            Some((id, metadata)) => Current::new(id, metadata),
            None => Current::none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::Value;
    use tracing::{Instrument, debug, info, info_span, warn};

    use super::*;
    use crate::log::pod_span;

    /// What `work` logs, each line parsed.
    fn logged(filter: Filter, work: impl FnOnce()) -> Vec<Value> {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&lines);
        let sink = Box::new(move |line: &str| kept.lock().unwrap().push(line.to_owned()));
        dispatcher::with_default(&Dispatch::new(Log::new(filter, Format::Json, sink)), work);
        let lines = lines.lock().unwrap();
        lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn all() -> Filter {
        Filter::new(LevelFilter::TRACE)
    }

    #[test]
    fn an_event_has_the_fields_of_the_pod_that_it_names_as_its_parent() {
        let lines = logged(all(), || {
            let pod = pod_span("shop", "web", "u-1");
            info!(parent: &pod, container = "app", attempt = 2, "started {}", "app");
            info!("of no pod");
        });
        assert_eq!(lines[0]["pod"], serde_json::json!({"namespace": "shop", "name": "web", "uid": "u-1"}));
        assert_eq!(lines[0]["fields"], serde_json::json!({"container": "app", "attempt": 2}));
        assert_eq!(lines[0]["message"], "started app");
        assert_eq!(lines[1].get("pod"), None);
    }

    #[test]
    fn an_event_has_the_fields_of_the_spans_that_its_thread_is_in() {
        let lines = logged(all(), || {
            let pod = pod_span("shop", "web", "u-1");
            let inside = pod.in_scope(|| info_span!("volume", name = "data", mode = tracing::field::Empty));
            drop(pod);
            inside.record("mode", "idmap");
            inside.in_scope(|| warn!("slow"));
            info!("outside");
        });
        assert_eq!(lines[0]["volume"], serde_json::json!({"name": "data", "mode": "idmap"}));
        assert_eq!(lines[0]["pod"]["name"], "web", "a span keeps the one around it");
        assert_eq!((lines[1].get("pod"), lines[1].get("volume")), (None, None));
    }

    #[test]
    fn spans_left_in_another_order_than_entered_leave_the_right_one() {
        let lines = logged(all(), || {
            let (a, b) = (info_span!("a", x = 1), info_span!("b", x = 2));
            let (in_a, in_b) = (a.enter(), b.enter());
            drop(in_a);
            info!("in b");
            drop(in_b);
            info!("in none");
        });
        assert_eq!(lines[0]["b"]["x"], 2);
        assert_eq!(lines[1].get("b"), None);
    }

    #[test]
    fn a_task_takes_its_span_along() {
        let lines = logged(all(), || {
            let pod = pod_span("shop", "web", "u-1");
            let mut work = std::pin::pin!(async { info!("polled") }.instrument(pod));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(work.as_mut().poll(&mut context).is_ready());
        });
        assert_eq!(lines[0]["pod"]["uid"], "u-1");
    }

    #[test]
    fn what_the_filter_leaves_out_is_not_logged_but_the_pod_of_a_warning_is() {
        let filter = Filter::new(LevelFilter::OFF).with("telemetry", LevelFilter::WARN);
        let lines = logged(filter, || {
            let pod = pod_span("shop", "web", "u-1");
            info!(parent: &pod, "left out");
            debug!("left out");
            warn!(target: "hyper::client", "left out");
            warn!(parent: &pod, "kept");
        });
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert_eq!((&lines[0]["message"], &lines[0]["pod"]["name"]), (&"kept".into(), &"web".into()));
    }

    #[test]
    fn a_span_is_forgotten_with_its_last_reference() {
        let log = Arc::new(Log::new(all(), Format::Json, Box::new(|_| {})));
        let dispatch = Dispatch::new(Shared(Arc::clone(&log)));
        dispatcher::with_default(&dispatch, || {
            let outer = info_span!("outer");
            let inner = outer.in_scope(|| info_span!("inner"));
            let again = inner.clone();
            drop((outer, inner));
            assert_eq!(log.spans.count(), 2);
            drop(again);
            assert_eq!(log.spans.count(), 0);
        });
    }

    /// A log that the test can still look into.
    struct Shared(Arc<Log>);

    impl Subscriber for Shared {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            self.0.enabled(metadata)
        }
        fn new_span(&self, attributes: &Attributes<'_>) -> Id {
            self.0.new_span(attributes)
        }
        fn record(&self, id: &Id, values: &Values<'_>) {
            self.0.record(id, values);
        }
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, event: &Event<'_>) {
            self.0.event(event);
        }
        fn enter(&self, id: &Id) {
            self.0.enter(id);
        }
        fn exit(&self, id: &Id) {
            self.0.exit(id);
        }
        fn clone_span(&self, id: &Id) -> Id {
            self.0.clone_span(id)
        }
        fn try_close(&self, id: Id) -> bool {
            self.0.try_close(id)
        }
    }
}
