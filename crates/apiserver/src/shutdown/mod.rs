//! Graceful shutdown of the node: systemd-logind delays the shutdown of the machine while pods end, those of the lowest
//! priority first.

mod groups;
mod logind;
mod record;

use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use agent::ports::{EventType, PodRef};
use k8s_openapi::jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

pub(crate) use groups::{Group, groups};
pub(crate) use record::ShutdownRecord;

use crate::backoff::Backoff;
use crate::node::{NodeRecorder, Shutdown, ShutdownSetter};
use crate::reconcile::{EndProgress, NodeEnd, PodEnds, pod_of};
use crate::status::EndedByNode;
use logind::Event;

/// The reason and the message of pods that are ended for a shutdown, and of the event of the node.
const TERMINATED: &str = "Terminated";
const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";
const EVENT: &str = "Shutdown";

/// What a graceful shutdown works with.
pub(crate) struct ShutdownPorts {
    /// Where the root directory of the host is seen.
    pub(crate) host_root: PathBuf,
    /// Ends the pods.
    pub(crate) ends: PodEnds,
    /// Tells that the node is not ready, and takes no more pods.
    pub(crate) state: ShutdownSetter,
    /// Records the event of the node.
    pub(crate) recorder: NodeRecorder,
    /// Keeps the times of the last shutdown, where that is asked for.
    pub(crate) record: Option<ShutdownRecord>,
}

/// Ends the pods when the machine shuts down, for as long as this is polled. There is at least one group.
pub(crate) async fn run(ports: ShutdownPorts, groups: Vec<Group>) {
    let (sender, mut events) = mpsc::channel(4);
    let (host_root, wanted) = (ports.host_root.clone(), groups::total(&groups));
    std::thread::spawn(move || watch(&host_root, wanted, &sender));
    let (mut lock, mut ended) = (None, BTreeSet::new());
    while let Some(event) = events.recv().await {
        match event {
            Event::Locked(held) => lock = Some(held),
            Event::Cancelled => ports.cancelled(&mut ended).await,
            Event::Begins => lock = ports.shut_down(&groups, &mut ended, lock.take(), &mut events).await,
        }
    }
}

/// Watches logind, also after its connection was lost.
fn watch(host_root: &std::path::Path, wanted: Duration, sender: &mpsc::Sender<Event>) {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
    let (mut logged, mut reported) = (None, logind::Reported::default());
    while !sender.is_closed() {
        let began = std::time::Instant::now();
        if let Err(error) = logind::watch(host_root, wanted, &mut reported, sender) {
            let text = error.to_string();
            // A watch that lasted is lost for a new reason.
            if began.elapsed() > Duration::from_secs(60) {
                (logged, backoff) = (None, Backoff::new(Duration::from_secs(1), Duration::from_secs(60)));
            }
            if logged.as_ref() != Some(&text) {
                warn!(
                    "{text}; pods are not ended gracefully when the machine shuts down until this is solved: start \
                     systemd-logind and the system's message bus, or leave shutdownGracePeriod out"
                );
                logged = Some(text);
            }
            std::thread::sleep(backoff.after_failure());
        }
    }
}

impl ShutdownPorts {
    /// Ends the pods, and lets the machine shut down. If the shutdown is cancelled meanwhile, the next groups go on running.
    /// Returns a lock that came in between. `ended` gets the UIDs of the pods whose end was ordered.
    async fn shut_down(
        &self,
        groups: &[Group],
        ended: &mut BTreeSet<String>,
        lock: Option<OwnedFd>,
        events: &mut mpsc::Receiver<Event>,
    ) -> Option<OwnedFd> {
        info!("the machine shuts down: pods are ended");
        let message = "Shutdown manager detected shutdown event".to_owned();
        self.recorder.record(EventType::Normal, EVENT, message);
        self.state.set(Shutdown::Begun);
        let began = Timestamp::now();
        if let Some(record) = &self.record {
            record.write(began, None);
        }
        let is_cancelled = async {
            while let Some(event) = events.recv().await {
                if matches!(event, Event::Cancelled) {
                    return;
                }
            }
            std::future::pending().await
        };
        tokio::select! {
            () = end_all(&self.ends, groups, ended) => {}
            () = is_cancelled => self.cancelled(ended).await,
        }
        if let Some(record) = &self.record {
            record.write(began, Some(Timestamp::now()));
        }
        info!("pods have ended; the machine may shut down");
        drop(lock);
        None
    }

    /// Starts the static pods again that were ended.
    async fn cancelled(&self, ended: &mut BTreeSet<String>) {
        info!("the machine does not shut down, after all");
        let message = "Shutdown manager detected shutdown cancellation".to_owned();
        self.recorder.record(EventType::Normal, EVENT, message);
        self.state.set(Shutdown::Cancelled);
        self.ends.restart_static(std::mem::take(ended)).await;
    }
}

/// Ends the pods, group by group. `ended` gets the UIDs of those whose end was ordered.
async fn end_all(ends: &PodEnds, groups: &[Group], ended: &mut BTreeSet<String>) {
    let mut pods: Vec<Vec<PodRef>> = groups.iter().map(|_| Vec::new()).collect();
    for pod in ends.active().await {
        let spec = pod_of(&pod).and_then(|pod| pod.spec.clone()).unwrap_or_default();
        if let Some(group) = pods.get_mut(groups::group_of(groups, &spec)) {
            group.push(pod.pod.clone());
        }
    }
    for (group, pods) in groups.iter().zip(pods) {
        if !pods.is_empty() {
            ended.extend(pods.iter().map(|pod| pod.uid.as_str().to_owned()));
            end_group(ends, *group, pods).await;
        }
    }
}

/// Ends the pods of a group, and waits until nothing of them is mounted, or their time is over.
async fn end_group(ends: &PodEnds, group: Group, pods: Vec<PodRef>) {
    // Their time runs from now on, however long it takes to order their end.
    let deadline = Instant::now() + Duration::from_secs(group.seconds);
    let count = pods.len();
    info!("{count} pods of priority {} or more have {} s to end", group.priority, group.seconds);
    let status =
        EndedByNode { reason: TERMINATED.to_owned(), message: MESSAGE.to_owned(), is_disruption: true };
    let end = NodeEnd { status, grace_seconds: Some(group.seconds) };
    let all = async {
        for mut progress in ends.end_all(pods, end).await {
            // Its sender is dropped when there is no more of it.
            let _ = progress.wait_for(|progress| *progress == EndProgress::CleanedUp).await;
        }
    };
    if timeout_at(deadline, all).await.is_err() {
        warn!("not all pods of priority {} or more have ended within {} s", group.priority, group.seconds);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;
    use tokio::task::JoinHandle;

    use super::*;
    use crate::pods::ApiPod;
    use crate::reconcile::{Request, Requests, requests};

    const GROUPS: [Group; 2] = [Group { priority: 0, seconds: 20 }, Group { priority: 1000, seconds: 10 }];

    fn pod(name: &str, priority: i32) -> Arc<ApiPod> {
        let pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"priority": priority, "containers": [{"name": "a", "image": "i"}]},
        });
        Arc::new(ApiPod::read(&serde_json::from_value(pod).unwrap()).unwrap())
    }

    /// A reconciler of three pods that never end. It is slow to take each order, and returns the pods of each.
    fn reconciler(mut requests: Requests) -> JoinHandle<Vec<Vec<String>>> {
        tokio::spawn(async move {
            let (mut ordered, mut kept) = (Vec::new(), Vec::new());
            while ordered.len() < GROUPS.len() {
                match requests.next().await {
                    Request::Active(answer) => {
                        answer.send(vec![pod("a", 0), pod("c", 2000), pod("b", 0)]).unwrap();
                    }
                    Request::EndAll { pods, .. } => {
                        tokio::time::sleep(Duration::from_secs(5)).await;
                        ordered.push(pods.iter().map(|(pod, _)| pod.name.clone()).collect());
                        kept.push(pods);
                    }
                    other => panic!("{other:?}"),
                }
            }
            tokio::time::sleep(Duration::from_secs(60)).await;
            drop(kept);
            ordered
        })
    }

    #[tokio::test(start_paused = true)]
    async fn each_group_is_ordered_at_once_and_its_time_begins_before() {
        let (ends, requests) = requests();
        let reconciler = reconciler(requests);
        let (begun, mut ended) = (Instant::now(), BTreeSet::new());
        end_all(&ends, &GROUPS, &mut ended).await;
        assert_eq!(begun.elapsed(), Duration::from_secs(30));
        assert_eq!(ended, BTreeSet::from(["a", "b", "c"].map(str::to_owned)));
        assert_eq!(reconciler.await.unwrap(), [vec!["a", "b"], vec!["c"]]);
    }

    /// Static pods that had ended for another reason were started again, and those that were still ending were not.
    #[tokio::test(start_paused = true)]
    async fn a_shutdown_that_is_cancelled_knows_which_pods_it_has_ended() {
        let (ends, requests) = requests();
        let reconciler = reconciler(requests);
        let mut ended = BTreeSet::new();
        let early = tokio::time::timeout(Duration::from_secs(12), end_all(&ends, &GROUPS, &mut ended)).await;
        assert!(early.is_err());
        assert_eq!(ended, BTreeSet::from(["a", "b"].map(str::to_owned)));
        reconciler.abort();
    }
}
