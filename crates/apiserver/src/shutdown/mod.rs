//! Graceful shutdown of the node: systemd-logind delays the shutdown of the machine while pods end, those of the lowest
//! priority first.

mod groups;
mod logind;
mod record;

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::ports::EventType;
use k8s_openapi::jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tracing::{info, warn};

pub(crate) use groups::{Group, groups};
pub(crate) use record::ShutdownRecord;

use crate::backoff::Backoff;
use crate::node::{NodeRecorder, Shutdown, ShutdownSetter};
use crate::pods::ApiPod;
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
    let mut lock = None;
    while let Some(event) = events.recv().await {
        match event {
            Event::Locked(held) => lock = Some(held),
            Event::Cancelled => ports.cancelled().await,
            Event::Begins => lock = ports.shut_down(&groups, lock.take(), &mut events).await,
        }
    }
}

/// Watches logind, also after its connection was lost.
fn watch(host_root: &std::path::Path, wanted: Duration, sender: &mpsc::Sender<Event>) {
    let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(60));
    let mut told = None;
    while !sender.is_closed() {
        let began = std::time::Instant::now();
        if let Err(error) = logind::watch(host_root, wanted, sender) {
            let text = error.to_string();
            // A watch that lasted is lost for a new reason.
            if began.elapsed() > Duration::from_secs(60) {
                (told, backoff) = (None, Backoff::new(Duration::from_secs(1), Duration::from_secs(60)));
            }
            if told.as_ref() != Some(&text) {
                warn!(
                    "{text}; pods are not ended gracefully when the machine shuts down until this is solved: start \
                     systemd-logind and the system's message bus, or leave shutdownGracePeriod out"
                );
                told = Some(text);
            }
            std::thread::sleep(backoff.after_failure());
        }
    }
}

impl ShutdownPorts {
    /// Ends the pods, and lets the machine shut down. If the shutdown is cancelled meanwhile, the next groups go on running.
    /// Returns a lock that came in between.
    async fn shut_down(
        &self,
        groups: &[Group],
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
            () = self.end_all(groups) => {}
            () = is_cancelled => self.cancelled().await,
        }
        if let Some(record) = &self.record {
            record.write(began, Some(Timestamp::now()));
        }
        info!("pods have ended; the machine may shut down");
        drop(lock);
        None
    }

    async fn cancelled(&self) {
        info!("the machine does not shut down, after all");
        let message = "Shutdown manager detected shutdown cancellation".to_owned();
        self.recorder.record(EventType::Normal, EVENT, message);
        self.state.set(Shutdown::Cancelled);
        self.ends.restart_static().await;
    }

    async fn end_all(&self, groups: &[Group]) {
        let mut pods: Vec<Vec<Arc<ApiPod>>> = groups.iter().map(|_| Vec::new()).collect();
        for pod in self.ends.active().await {
            let spec = pod_of(&pod).and_then(|pod| pod.spec.clone()).unwrap_or_default();
            if let Some(group) = pods.get_mut(groups::group_of(groups, &spec)) {
                group.push(pod);
            }
        }
        for (group, pods) in groups.iter().zip(pods) {
            if !pods.is_empty() {
                self.end_group(*group, pods).await;
            }
        }
    }

    /// Ends the pods of a group, and waits until nothing of them is mounted, or their time is over.
    async fn end_group(&self, group: Group, pods: Vec<Arc<ApiPod>>) {
        let count = pods.len();
        info!("{count} pods of priority {} or more have {} s to end", group.priority, group.seconds);
        let mut ends = JoinSet::new();
        for pod in pods {
            let status = EndedByNode {
                reason: TERMINATED.to_owned(),
                message: MESSAGE.to_owned(),
                is_disruption: true,
            };
            let end = NodeEnd { status, grace_seconds: Some(group.seconds) };
            let mut progress = self.ends.end(pod.pod.clone(), end).await;
            // Its sender is dropped when there is no more of it.
            ends.spawn(async move {
                let _ = progress.wait_for(|progress| *progress == EndProgress::CleanedUp).await;
            });
        }
        let all = async { while ends.join_next().await.is_some() {} };
        if timeout(Duration::from_secs(group.seconds), all).await.is_err() {
            warn!(
                "not all pods of priority {} or more have ended within {} s",
                group.priority, group.seconds
            );
        }
    }
}
