//! The end of a pod that is evicted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use agent::ports::{Clock, Event, EventObject, EventSink, EventType, PodRef};
use futures_util::future::join_all;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::warn;
use types::reason;

use crate::reconcile::{EndProgress, NodeEnd, PodEnds};
use crate::status::EndedByNode;

/// The grace period of a pod that must end at once.
pub(super) const IMMEDIATELY: u64 = 1;
/// How long the containers of a pod may take to end at least.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long pods may take at least until their containers and volumes are removed, before the node is observed again.
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
    /// Orders the end of a pod, and reports it; `None` if it has ended meanwhile.
    pub(super) async fn evict(&self, evicted: Evicted) -> Option<Ending> {
        let Evicted { pod, message, annotations, grace, own_grace, is_disruption } = evicted;
        let status =
            EndedByNode { reason: reason::EVICTED.to_owned(), message: message.clone(), is_disruption };
        let progress = self.ends.end(pod.clone(), NodeEnd { status, grace_seconds: grace }).await?;
        self.event(&pod, reason::EVICTED, message, annotations);
        let longest = grace.unwrap_or(own_grace).min(own_grace.max(IMMEDIATELY));
        let patience = Duration::from_secs(longest).saturating_mul(3) / 2;
        Some(Ending { pod, progress, patience: patience.max(PATIENCE) })
    }

    /// Waits until the pods have ended and their containers and volumes are removed, but not for ever. One that takes long does
    /// not add to the time of others.
    pub(super) async fn wait(&self, endings: Vec<Ending>) {
        let began = Instant::now();
        let longest = endings.iter().map(|ending| ending.patience).max().unwrap_or_default().max(CLEAN_UP);
        let all = endings.into_iter().map(|ending| self.wait_for_one(ending, began, longest));
        join_all(all).await;
    }

    /// `longest` is how long it may take from `began` until the pod is cleaned up.
    async fn wait_for_one(&self, mut ending: Ending, began: Instant, longest: Duration) {
        if !reaches(&mut ending.progress, EndProgress::Ended, ending.patience).await {
            let pod = &ending.pod;
            warn!("pod {}/{} is evicted and has not ended yet", pod.namespace, pod.name);
            self.event(pod, reason::EXCEEDED_GRACE_PERIOD, TOO_LATE.to_owned(), BTreeMap::new());
        }
        let remaining = longest.saturating_sub(began.elapsed());
        if !reaches(&mut ending.progress, EndProgress::CleanedUp, remaining).await {
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

    fn pod() -> PodRef {
        PodRef { namespace: "shop".into(), name: "web".into(), uid: PodUid::new("u-1").unwrap() }
    }

    fn ending(progress: watch::Receiver<EndProgress>) -> Ending {
        Ending { pod: pod(), progress, patience: PATIENCE }
    }

    #[tokio::test]
    async fn an_end_that_is_not_ordered_is_not_reported() {
        let kept = Arc::new(Kept::default());
        let (ends, requests) = requests();
        drop(requests);
        let ender = Ender { ends, events: Arc::clone(&kept) as _, clock: Arc::new(SystemClock) };
        let evicted = Evicted {
            pod: pod(),
            message: "why".to_owned(),
            annotations: BTreeMap::new(),
            grace: Some(IMMEDIATELY),
            own_grace: 30,
            is_disruption: true,
        };
        assert!(ender.evict(evicted).await.is_none());
        assert!(kept.0.lock().unwrap().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_does_not_end_in_time_is_reported_and_does_not_keep_the_node_from_others() {
        let kept = Arc::new(Kept::default());
        let (ends, _requests) = requests();
        let ender = Ender { ends, events: Arc::clone(&kept) as _, clock: Arc::new(SystemClock) };
        let (progress, seen) = watch::channel(EndProgress::Ordered);
        ender.wait(vec![ending(seen)]).await;
        let reasons: Vec<&str> = kept.0.lock().unwrap().iter().map(|event| event.reason).collect();
        assert_eq!(reasons, ["ExceededGracePeriod"]);
        // One that ends in time is not.
        let waiting = ender.wait(vec![ending(progress.subscribe())]);
        progress.send_replace(EndProgress::CleanedUp);
        waiting.await;
        // Nor is one that is gone already.
        let gone = progress.subscribe();
        drop(progress);
        ender.wait(vec![ending(gone)]).await;
        assert_eq!(kept.0.lock().unwrap().len(), 1);
    }

    /// Pods that exceed their limits and do not end each kept the node from observing itself for 40 seconds.
    #[tokio::test(start_paused = true)]
    async fn pods_are_waited_for_at_the_same_time() {
        let kept = Arc::new(Kept::default());
        let (ends, _requests) = requests();
        let ender = Ender { ends, events: Arc::clone(&kept) as _, clock: Arc::new(SystemClock) };
        let (progress, seen) = watch::channel(EndProgress::Ordered);
        let began = Instant::now();
        ender.wait((0..50).map(|_| ending(seen.clone())).collect()).await;
        // The timer of tokio counts milliseconds.
        assert!(began.elapsed() < CLEAN_UP + Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(kept.0.lock().unwrap().len(), 50);
        // A pod's own grace period may be longer.
        let slow = Ending { patience: Duration::from_secs(90), ..ending(seen) };
        let began = Instant::now();
        ender.wait(vec![slow, ending(progress.subscribe())]).await;
        assert!((90..92).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    }
}
