//! The end of a pod that is evicted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::ports::{Clock, Event, EventObject, EventSink, EventType, PodRef};
use tokio::sync::watch;
use tracing::warn;
use types::reason;

use crate::reconcile::{EndProgress, NodeEnd, PodEnds};
use crate::status::EndedByNode;

/// The grace period of a pod that must end at once.
pub(super) const IMMEDIATELY: u64 = 1;
/// How long the containers of a pod may take to end at least.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long the removal of its containers and volumes may take before the node is observed again.
const CLEAN_UP: Duration = Duration::from_secs(30);
const TOO_LATE: &str = "Container runtime did not kill the pod within specified grace period.";

/// Why and how a pod is evicted.
#[derive(Debug)]
pub(super) struct Evicted {
    pub(super) pod: PodRef,
    pub(super) message: String,
    pub(super) annotations: BTreeMap<String, String>,
    /// In seconds; `None` for the pod's own.
    pub(super) grace: Option<u64>,
    /// The pod's own grace period in seconds.
    pub(super) own_grace: u64,
    /// Whether the node runs short of something: the pod did nothing wrong.
    pub(super) is_disruption: bool,
}

/// Ends pods, and says so.
#[derive(Clone)]
pub(super) struct Ender {
    pub(super) ends: PodEnds,
    pub(super) events: Arc<dyn EventSink>,
    pub(super) clock: Arc<dyn Clock>,
}

/// A pod that is ending.
#[derive(Debug)]
pub(super) struct Ending {
    pod: PodRef,
    progress: watch::Receiver<EndProgress>,
    patience: Duration,
}

impl Ender {
    /// Orders the end of a pod.
    pub(super) async fn evict(&self, evicted: Evicted) -> Ending {
        let Evicted { pod, message, annotations, grace, own_grace, is_disruption } = evicted;
        self.event(&pod, reason::EVICTED, message.clone(), annotations);
        let status = EndedByNode { reason: reason::EVICTED.to_owned(), message, is_disruption };
        let progress = self.ends.end(pod.clone(), NodeEnd { status, grace_seconds: grace }).await;
        let longest = grace.unwrap_or(own_grace).min(own_grace.max(IMMEDIATELY));
        let patience = Duration::from_secs(longest).saturating_mul(3) / 2;
        Ending { pod, progress, patience: patience.max(PATIENCE) }
    }

    /// Waits until the pod has ended and its containers and volumes are removed, but not for ever.
    pub(super) async fn wait(&self, mut ending: Ending) {
        if !reaches(&mut ending.progress, EndProgress::Ended, ending.patience).await {
            let pod = &ending.pod;
            warn!("pod {}/{} is evicted and has not ended yet", pod.namespace, pod.name);
            self.event(pod, reason::EXCEEDED_GRACE_PERIOD, TOO_LATE.to_owned(), BTreeMap::new());
        }
        if !reaches(&mut ending.progress, EndProgress::CleanedUp, CLEAN_UP).await {
            let pod = &ending.pod;
            warn!("pod {}/{} is evicted and not cleaned up yet", pod.namespace, pod.name);
        }
    }

    fn event(
        &self,
        pod: &PodRef,
        reason: &'static str,
        message: String,
        annotations: BTreeMap<String, String>,
    ) {
        self.events.record(Event {
            kind: EventType::Warning,
            reason,
            object: EventObject { pod: pod.clone(), field_path: None },
            image: None,
            message,
            annotations,
            log: None,
            time: self.clock.now(),
        });
    }
}

/// Whether the end of a pod comes so far in time. Where there is no more of it, it has.
async fn reaches(
    progress: &mut watch::Receiver<EndProgress>,
    wanted: EndProgress,
    patience: Duration,
) -> bool {
    let reached = progress.wait_for(|now| *now >= wanted);
    tokio::time::timeout(patience, reached).await.is_ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use agent::ports::SystemClock;
    use types::PodUid;

    use super::*;
    use crate::reconcile::requests;

    #[derive(Default)]
    struct Kept(Mutex<Vec<Event>>);

    impl EventSink for Kept {
        fn record(&self, event: Event) {
            self.0.lock().unwrap().push(event);
        }
    }

    fn ending(progress: watch::Receiver<EndProgress>) -> Ending {
        let pod = PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid::new("u-1").unwrap() };
        Ending { pod, progress, patience: PATIENCE }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_does_not_end_in_time_is_reported_and_does_not_keep_the_node_from_others() {
        let kept = Arc::new(Kept::default());
        let (ends, _requests) = requests();
        let ender = Ender { ends, events: Arc::clone(&kept) as _, clock: Arc::new(SystemClock) };
        let (progress, seen) = watch::channel(EndProgress::Ordered);
        ender.wait(ending(seen)).await;
        let reasons: Vec<&str> = kept.0.lock().unwrap().iter().map(|event| event.reason).collect();
        assert_eq!(reasons, ["ExceededGracePeriod"]);
        // One that ends in time is not.
        let waiting = ender.wait(ending(progress.subscribe()));
        progress.send_replace(EndProgress::CleanedUp);
        waiting.await;
        // Nor is one that is gone already.
        let gone = progress.subscribe();
        drop(progress);
        ender.wait(ending(gone)).await;
        assert_eq!(kept.0.lock().unwrap().len(), 1);
    }
}
