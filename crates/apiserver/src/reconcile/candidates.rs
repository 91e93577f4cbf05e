//! The pods that the node may end when it runs short of something.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use agent::PodStatus;
use tokio::sync::oneshot;
use tracing::{error, warn};

use super::admitted::pod_of;
use super::{Ports, Reconciler, Stage};
use crate::pods::ApiPod;

/// How long the runtime may take to say which pods it has.
const DEADLINE: Duration = Duration::from_secs(10);

/// A pod that may have something of the node.
#[derive(Debug)]
struct Possible {
    pod: Arc<ApiPod>,
    /// Whether it runs or is being started. Otherwise its start has failed, and it has something of the node only if an earlier
    /// process or another agent has started it.
    is_started: bool,
}

/// What records say of possible candidates.
#[derive(Debug, Default)]
struct Found {
    candidates: Vec<Arc<ApiPod>>,
    /// Pods whose start has failed and that have no record: the runtime may have something of them.
    unrecorded: Vec<Arc<ApiPod>>,
}

impl Reconciler {
    /// Answers with the pods that have something of the node and whose end it has not ordered. Records and the runtime are read
    /// by a task, which keeps no other pod waiting.
    pub(super) fn answer_candidates(&self, answer: oneshot::Sender<Vec<Arc<ApiPod>>>) {
        let possible = self.wanted.pods().filter_map(|pod| self.possible(pod)).collect();
        let ports = Arc::clone(&self.ports);
        tokio::spawn(async move {
            // The caller may have ended.
            let _ = answer.send(candidates(&ports, possible).await);
        });
    }

    fn possible(&self, pod: &Arc<ApiPod>) -> Option<Possible> {
        let uid = pod.pod.uid.as_str();
        let is_started = match self.pods.get(uid)?.stage {
            Stage::Starting | Stage::Running { .. } => true,
            Stage::Waiting { .. } => false,
            _ => return None,
        };
        if self.ends.contains(uid) || pod.is_terminal() {
            return None;
        }
        Some(Possible { pod: self.allocations.given(pod), is_started })
    }
}

async fn candidates(ports: &Ports, possible: Vec<Possible>) -> Vec<Arc<ApiPod>> {
    let state = ports.state.clone();
    let found = tokio::task::spawn_blocking(move || by_records(&state, possible)).await;
    let Found { mut candidates, unrecorded } = found.unwrap_or_else(|cause| {
        error!("reading the records of pods that may be evicted ended early: {cause}");
        Found::default()
    });
    if !unrecorded.is_empty() {
        let in_runtime = in_runtime(ports).await;
        candidates.extend(unrecorded.into_iter().filter(|pod| in_runtime.contains(pod.pod.uid.as_str())));
    }
    candidates
}

/// The UIDs of the pods that the runtime has something of; none if it does not answer.
async fn in_runtime(ports: &Ports) -> BTreeSet<String> {
    let cause = match tokio::time::timeout(DEADLINE, ports.agent.pods_in_runtime()).await {
        Ok(Ok(found)) => return found,
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("the runtime has not answered within {} s", DEADLINE.as_secs()),
    };
    warn!("pods whose start has failed and that have no record are not evicted: {cause}");
    BTreeSet::new()
}

/// Tells the candidates by their records. One whose newest definition is refused runs with the recorded one.
fn by_records(state: &Path, possible: Vec<Possible>) -> Found {
    let mut found = Found::default();
    for Possible { pod, is_started } in possible {
        let is_read = pod_of(&pod).is_some();
        if is_started && is_read {
            found.candidates.push(pod);
            continue;
        }
        // A record that cannot be read was reported when the process began.
        let Ok(stored) = agent::stored_one(state, pod.pod.uid.as_str()) else { continue };
        match stored {
            Some(stored) if stored.status.as_ref().is_some_and(PodStatus::is_terminated) => {}
            Some(_) if is_read => found.candidates.push(pod),
            Some(stored) => found.candidates.push(Arc::new(pod.with_definition(&stored.record.pod))),
            None if is_started => {}
            None => found.unrecorded.push(pod),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// A pod with an unknown field of its spec.
    fn possible(name: &str, unknown: Option<&str>, is_started: bool) -> Possible {
        let mut pod = json!({
            "metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"priority": 7, "containers": [{"name": "a", "image": "i"}]},
        });
        if let Some(field) = unknown {
            pod["spec"][field] = Value::Bool(true);
        }
        let pod = ApiPod::read(&serde_json::from_value(pod).unwrap()).unwrap();
        Possible { pod: Arc::new(pod), is_started }
    }

    fn record(state: &Path, name: &str) {
        let dir = state.join("pods").join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let record = json!({
            "version": 1, "uid": name, "namespace": "shop", "name": name, "hash": "", "endpoint": "", "handler": "",
            "mode": "own", "uids": [], "gids": [], "process": 1,
            "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": name}, "spec": {
                "priority": 5, "containers": [{"name": "a", "image": "i"}],
            }},
        });
        std::fs::write(dir.join("agent.json"), record.to_string()).unwrap();
    }

    /// A pod that ran while the agent failed to adopt it, or to read its newest definition, was never evicted.
    #[test]
    fn a_pod_that_runs_is_a_candidate_whatever_became_of_its_start_and_its_definition() {
        const REFUSED: Option<&str> = Some("isolateMore");
        let dir = tempfile::tempdir().unwrap();
        for name in ["refused", "left", "left-refused"] {
            record(dir.path(), name);
        }
        let all = vec![
            possible("runs", None, true),
            possible("refused", REFUSED, true),
            possible("never-started", REFUSED, true),
            possible("left", None, false),
            possible("left-refused", REFUSED, false),
            possible("waits", None, false),
        ];
        let Found { candidates, unrecorded } = by_records(dir.path(), all);
        let found: Vec<(&str, Option<i32>)> = candidates
            .iter()
            .map(|pod| (pod.pod.name.as_str(), pod_of(pod).and_then(|pod| pod.spec.as_ref()?.priority)))
            .collect();
        let expected =
            [("runs", Some(7)), ("refused", Some(5)), ("left", Some(7)), ("left-refused", Some(5))];
        assert_eq!(found, expected);
        let unrecorded: Vec<&str> = unrecorded.iter().map(|pod| pod.pod.name.as_str()).collect();
        assert_eq!(unrecorded, ["waits"]);
    }
}
