//! Events of pods, and the log as a sink of them.

use telemetry::log::pod_span;
use tracing::{debug, info, warn};
use types::reason;

use crate::pod::context::PodContext;
use crate::ports::{Clock, Event, EventObject, EventSink, EventType};

/// Records the events of one pod.
pub(crate) struct Recorder<'a> {
    pub(crate) sink: &'a dyn EventSink,
    pub(crate) clock: &'a dyn Clock,
    pub(crate) context: &'a PodContext,
}

impl Recorder<'_> {
    /// Records an event of the pod.
    pub(crate) fn pod(&self, kind: EventType, reason: &'static str, message: String) {
        self.sink.record(self.event(kind, reason, message));
    }

    /// Records an event of one of its containers.
    pub(crate) fn container(&self, name: &str, kind: EventType, reason: &'static str, message: String) {
        let mut event = self.event(kind, reason, message);
        event.object.field_path = Some(self.context.field_path(name));
        self.sink.record(event);
    }

    /// Records an event of an image that the pod needs.
    pub(crate) fn image(&self, image: &str, kind: EventType, reason: &'static str, message: String) {
        self.sink.record(Event { image: Some(image.to_owned()), ..self.event(kind, reason, message) });
    }

    fn event(&self, kind: EventType, reason: &'static str, message: String) -> Event {
        let object = EventObject { pod: self.context.reference(), field_path: None };
        Event { kind, reason, object, image: None, message, time: self.clock.now() }
    }
}

/// Writes events to the log: one line each, with the pod and, where there is one, the container.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventLog;

impl EventSink for EventLog {
    fn record(&self, event: Event) {
        let pod = &event.object.pod;
        let span = pod_span(&pod.namespace, &pod.name, pod.uid.as_str());
        let (container, image) = (event.object.container(), event.image.as_deref());
        let (reason, message) = (event.reason, &event.message);
        match event.kind {
            // The event of the container's start follows at info level.
            EventType::Normal if reason == reason::CREATED => {
                debug!(target: "agent", parent: &span, container, image, reason, "{message}");
            }
            EventType::Normal => info!(target: "agent", parent: &span, container, image, reason, "{message}"),
            EventType::Warning => {
                warn!(target: "agent", parent: &span, container, image, reason, "{message}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::ports::SystemClock;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Event>>);

    impl EventSink for Kept {
        fn record(&self, event: Event) {
            self.0.lock().unwrap().push(event);
        }
    }

    #[test]
    fn an_event_refers_to_the_pod_or_to_the_field_of_its_container() {
        let spec = r#"{"initContainers":[{"name":"init"}],"containers":[{"name":"app"}]}"#;
        let (kept, context) = (Kept::default(), PodContext::for_test(spec));
        let recorder = Recorder { sink: &kept, clock: &SystemClock, context: &context };
        recorder.pod(EventType::Warning, reason::FAILED_MOUNT, "no volume".into());
        recorder.container("init", EventType::Normal, reason::STARTED, "started init".into());
        recorder.container("app", EventType::Normal, reason::KILLING, "stopping app".into());
        recorder.image("busybox", EventType::Normal, reason::PULLING, "pulling busybox".into());
        let events = kept.0.into_inner().unwrap();
        let paths: Vec<_> = events.iter().map(|event| event.object.field_path.as_deref()).collect();
        assert_eq!(paths, [None, Some("spec.initContainers{init}"), Some("spec.containers{app}"), None]);
        let containers: Vec<_> = events.iter().map(|event| event.object.container()).collect();
        assert_eq!(containers, [None, Some("init"), Some("app"), None]);
        assert_eq!((events[0].kind, events[0].reason), (EventType::Warning, "FailedMount"));
        assert_eq!(
            (events[0].object.pod.namespace.as_str(), events[0].object.pod.uid.as_str()),
            ("shop", "u-1")
        );
        assert_eq!(events[3].image.as_deref(), Some("busybox"));
    }
}
