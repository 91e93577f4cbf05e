//! How far the start of pods has come, for a caller that waits for it.

use std::task::Poll;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use types::reason;

use crate::status::view::{ContainerView, PodStatus, StateView};

/// How long a start may go on failing before it is reported: a first pull or a first run of an init container may
/// fail and the next one succeed.
pub const START_PATIENCE: Duration = Duration::from_secs(10);

/// A report is one write to a pipe, and must not be longer than its buffer.
const LONGEST_CAUSE: usize = 512;

/// How far the start of a pod has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Startup {
    /// Not all containers have been started, and nothing has failed.
    Pending,
    /// A step failed, and is tried again. The text says which and why.
    Failing(String),
    /// All containers have been started, or have run to their end.
    Up,
    /// The pod has failed for good. The text says why.
    Failed(String),
}

/// The outcome of the start of all pods of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StartReport {
    /// All pods are up.
    Up,
    /// A pod does not start, and is tried again.
    Stuck {
        /// The pod, as `namespace/name`.
        pod: String,
        /// Why it does not start.
        cause: String,
    },
    /// A pod has failed for good.
    Failed {
        /// The pod, as `namespace/name`.
        pod: String,
        /// Why it failed.
        cause: String,
    },
}

/// Waits for the start of pods, and decides when it is over.
#[derive(Debug, Default)]
pub struct StartWatch {
    failing_since: Option<Instant>,
}

impl StartWatch {
    /// The outcome of the start of these pods, each with its title; `None` while it is open.
    pub fn report(&mut self, pods: &[(&str, Startup)], now: Instant) -> Option<StartReport> {
        let cause_of = |wanted: fn(&Startup) -> Option<&String>| {
            let cut = |cause: &String| cause.chars().take(LONGEST_CAUSE).collect();
            pods.iter().find_map(|(pod, start)| Some(((*pod).to_owned(), cut(wanted(start)?))))
        };
        let failing = cause_of(|start| match start {
            Startup::Failing(cause) => Some(cause),
            _ => None,
        });
        if let Some((pod, cause)) = failing {
            let since = *self.failing_since.get_or_insert(now);
            return (now.saturating_duration_since(since) >= START_PATIENCE)
                .then_some(StartReport::Stuck { pod, cause });
        }
        if pods.iter().any(|(_, start)| *start == Startup::Pending) {
            return None;
        }
        let failed = cause_of(|start| match start {
            Startup::Failed(cause) => Some(cause),
            _ => None,
        });
        Some(failed.map_or(StartReport::Up, |(pod, cause)| StartReport::Failed { pod, cause }))
    }

    /// How long after `now` [`report`](Self::report) is to be called again, though no status has changed.
    #[must_use]
    pub fn wait(&self, now: Instant) -> Option<Duration> {
        let over = self.failing_since?.checked_add(START_PATIENCE)?;
        over.checked_duration_since(now).filter(|wait| !wait.is_zero())
    }
}

/// Waits until one of these statuses changes; for ever, if no pod's worker runs any more.
pub async fn any_changed(statuses: &mut [watch::Receiver<Option<PodStatus>>]) {
    let mut each: Vec<_> = statuses.iter_mut().map(|status| Box::pin(status.changed())).collect();
    std::future::poll_fn(|context| {
        let mut is_ready = false;
        each.retain_mut(|one| match one.as_mut().poll(context) {
            Poll::Ready(Ok(())) => {
                is_ready = true;
                true
            }
            // The pod's worker has ended after its last status: a closed channel must not be polled again.
            Poll::Ready(Err(_)) => false,
            Poll::Pending => true,
        });
        if is_ready { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl PodStatus {
    /// How far its start has come.
    #[must_use]
    pub fn startup(&self) -> Startup {
        let all = || self.init.iter().chain(&self.containers);
        match self.phase.as_str() {
            "Failed" => {
                let ended = all().find_map(|one| Some((one, one.failure()?)));
                let cause = ended.map(|(one, failure)| format!("container {} {failure}", one.name));
                let own = self.message.clone().or_else(|| self.reason.clone());
                Startup::Failed(own.or(cause).unwrap_or_else(|| "the pod was stopped".to_owned()))
            }
            "Pending" => {
                let stuck =
                    all().find_map(|one| Some(format!("container {}: {}", one.name, one.hindrance()?)));
                stuck.or_else(|| self.message.clone()).map_or(Startup::Pending, Startup::Failing)
            }
            _ => Startup::Up,
        }
    }
}

impl ContainerView {
    /// Why it is not started, if its start has failed.
    fn hindrance(&self) -> Option<String> {
        let StateView::Waiting { reason, message } = &self.state else { return None };
        let is_normal = [reason::CONTAINER_CREATING, reason::POD_INITIALIZING].contains(&reason.as_str());
        let last = self.last.iter().filter(|exit| exit.code != 0).map(|exit| exit.words());
        let texts: Vec<String> = [reason.clone(), message.clone()].into_iter().chain(last).collect();
        let texts: Vec<String> = texts.into_iter().filter(|text| !text.is_empty()).collect();
        (!is_normal).then(|| texts.join(": "))
    }

    /// How it ended, if it ended with another exit code than 0.
    fn failure(&self) -> Option<String> {
        self.exit().filter(|exit| exit.code != 0).map(|exit| exit.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::view::ExitView;

    fn container(name: &str, state: StateView) -> ContainerView {
        ContainerView {
            name: name.into(),
            state,
            last: None,
            ready: false,
            started: false,
            restarts: 0,
            instance: None,
            previous_id: None,
        }
    }

    fn waiting(reason: &str, message: &str) -> StateView {
        StateView::Waiting { reason: reason.into(), message: message.into() }
    }

    fn exit(code: i32, reason: &str) -> ExitView {
        ExitView { code, reason: reason.into(), message: "words".into(), started: None, finished: 5 }
    }

    fn pod(phase: &str, containers: Vec<ContainerView>) -> PodStatus {
        PodStatus {
            phase: phase.into(),
            stage: "Syncing".into(),
            reason: None,
            message: None,
            started: 0,
            ips: vec![],
            conditions: vec![],
            init: vec![],
            containers,
            ephemeral: vec![],
            generation: None,
            resources: None,
        }
    }

    #[test]
    fn a_start_fails_by_a_container_or_by_the_sandbox_and_says_why() {
        let creating = || container("b", waiting("ContainerCreating", ""));
        assert_eq!(pod("Pending", vec![creating()]).startup(), Startup::Pending);
        let missing = container("a", waiting("CreateContainerConfigError", "configmap \"x\" not found"));
        let failing = pod("Pending", vec![creating(), missing]).startup();
        let cause = "container a: CreateContainerConfigError: configmap \"x\" not found";
        assert_eq!(failing, Startup::Failing(cause.into()));
        let crashing = ContainerView {
            last: Some(exit(3, "Error")),
            ..container("init", waiting("CrashLoopBackOff", "back-off 10s"))
        };
        let failing = PodStatus { init: vec![crashing], ..pod("Pending", vec![creating()]) }.startup();
        let cause = "container init: CrashLoopBackOff: back-off 10s: exited with code 3";
        assert_eq!(failing, Startup::Failing(cause.into()));
        let no_sandbox = PodStatus { message: Some("no bridge".into()), ..pod("Pending", vec![creating()]) };
        assert_eq!(no_sandbox.startup(), Startup::Failing("no bridge".into()));
    }

    #[test]
    fn a_pod_that_has_failed_names_the_container_and_its_end() {
        let ended = |code, reason| container("a", StateView::Terminated(exit(code, reason)));
        let cause = |status: PodStatus| match status.startup() {
            Startup::Failed(cause) => cause,
            other => panic!("{other:?}"),
        };
        assert_eq!(cause(pod("Failed", vec![ended(7, "Error")])), "container a exited with code 7");
        let killed = cause(pod("Failed", vec![ended(137, "OOMKilled")]));
        assert_eq!(killed, "container a ended: OOMKilled, exit code 137");
        let unstarted = cause(pod("Failed", vec![ended(128, "StartError")]));
        assert_eq!(unstarted, "container a ended: StartError, exit code 128: words");
        assert_eq!(pod("Running", vec![ended(7, "Error")]).startup(), Startup::Up);
    }

    #[test]
    fn a_start_that_goes_on_failing_is_reported_after_the_patience_and_not_before() {
        let (mut watch, begin) = (StartWatch::default(), Instant::now());
        let failing = || Startup::Failing("no image".to_owned());
        let stuck = StartReport::Stuck { pod: "b".into(), cause: "no image".into() };
        assert_eq!(watch.report(&[("a", Startup::Up), ("b", failing())], begin), None);
        assert_eq!(watch.wait(begin + Duration::from_secs(1)), Some(START_PATIENCE - Duration::from_secs(1)));
        // It is tried again: the time goes on, and the report waits for the outcome.
        let late = begin + START_PATIENCE;
        assert_eq!(watch.wait(late), None);
        assert_eq!(watch.report(&[("a", Startup::Up), ("b", Startup::Pending)], late), None);
        assert_eq!(watch.report(&[("a", Startup::Up), ("b", failing())], late), Some(stuck));
        assert_eq!(watch.report(&[("a", Startup::Up), ("b", Startup::Up)], late), Some(StartReport::Up));
        let failed = watch.report(&[("a", Startup::Failed("exit".into())), ("b", Startup::Up)], late);
        assert_eq!(failed, Some(StartReport::Failed { pod: "a".into(), cause: "exit".into() }));
    }
}
