//! Events of pods, and the log as a sink of them.

use std::collections::BTreeMap;

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
    pub(crate) fn pod(&self, kind: EventType, reason: &'static str, text: impl Into<Text>) {
        self.sink.record(self.event(kind, reason, text.into()));
    }

    /// Records an event of one of its containers.
    pub(crate) fn container(&self, name: &str, kind: EventType, reason: &'static str, text: impl Into<Text>) {
        let mut event = self.event(kind, reason, text.into());
        event.object.field_path = Some(self.context.field_path(name));
        self.sink.record(event);
    }

    /// Records an event of an image that a container of the pod needs.
    pub(crate) fn image(&self, image: &ImageOf<'_>, kind: EventType, reason: &'static str, text: Text) {
        let mut event = self.event(kind, reason, text);
        event.image = Some(image.image.to_owned());
        event.object.field_path = Some(self.context.field_path(image.container));
        self.sink.record(event);
    }

    fn event(&self, kind: EventType, reason: &'static str, text: Text) -> Event {
        let object = EventObject { pod: self.context.reference(), field_path: None };
        let Text { event, log } = text;
        Event {
            kind,
            reason,
            object,
            image: None,
            message: event,
            annotations: BTreeMap::new(),
            log,
            time: self.clock.now(),
        }
    }
}

/// An image that a container needs.
#[derive(Clone, Copy)]
pub(crate) struct ImageOf<'a> {
    pub(crate) container: &'a str,
    pub(crate) image: &'a str,
}

/// The text of an event.
pub(crate) struct Text {
    /// In the API, in the kubelet's words.
    pub(crate) event: String,
    /// In the node's log, if that says more.
    pub(crate) log: Option<String>,
}

impl Text {
    pub(crate) fn new(event: impl Into<String>, log: impl Into<String>) -> Self {
        Self { event: event.into(), log: Some(log.into()) }
    }
}

impl From<String> for Text {
    fn from(event: String) -> Self {
        Self { event, log: None }
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
        let (reason, message) = (event.reason, event.log.as_ref().unwrap_or(&event.message));
        // Whether an image was there already is of interest in the API only.
        if message.is_empty() {
            return;
        }
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
        recorder.pod(EventType::Warning, reason::FAILED_MOUNT, "no volume".to_owned());
        recorder.container("init", EventType::Normal, reason::STARTED, "started init".to_owned());
        recorder.container("app", EventType::Normal, reason::KILLING, Text::new("Stopping", "stopping app"));
        let image = ImageOf { container: "app", image: "busybox" };
        recorder.image(&image, EventType::Normal, reason::PULLING, "pulling busybox".to_owned().into());
        let events = kept.0.into_inner().unwrap();
        let paths: Vec<_> = events.iter().map(|event| event.object.field_path.as_deref()).collect();
        let expected = [
            None,
            Some("spec.initContainers{init}"),
            Some("spec.containers{app}"),
            Some("spec.containers{app}"),
        ];
        assert_eq!(paths, expected);
        let containers: Vec<_> = events.iter().map(|event| event.object.container()).collect();
        assert_eq!(containers, [None, Some("init"), Some("app"), Some("app")]);
        assert_eq!(
            (events[2].message.as_str(), events[2].log.as_deref()),
            ("Stopping", Some("stopping app"))
        );
        assert_eq!((events[0].kind, events[0].reason), (EventType::Warning, "FailedMount"));
        assert_eq!(
            (events[0].object.pod.namespace.as_str(), events[0].object.pod.uid.as_str()),
            ("shop", "u-1")
        );
        assert_eq!(events[3].image.as_deref(), Some("busybox"));
    }
}
