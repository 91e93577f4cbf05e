//! The status of a pod that is accepted and not started yet.

use lifecycle::{Moment, Observed, Settings, State, step};
use manifest::k8s_openapi::api::core::v1::Pod;

use crate::cri::marks::Marks;
use crate::pod::spec;
use crate::status::view::PodStatus;

/// The status of a pod that this node has accepted at `now` and of which nothing is made yet: phase `Pending`, and no
/// sandbox. `None` if its spec is invalid.
#[must_use]
pub fn pending_status(pod: &Pod, now: Moment) -> Option<PodStatus> {
    let lowered = spec::lowered(pod.spec.as_ref()?, &Marks::Own).ok()?;
    let mut state = State::new(Settings::default());
    let (_, status) = step(&lowered, &Observed::default(), &mut state, now);
    Some(PodStatus { generation: pod.metadata.generation, ..PodStatus::new(&status, Vec::new()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_that_is_not_started_is_pending_with_all_conditions() {
        let text = r#"{"metadata":{"generation":4},"spec":{"containers":[{"name":"a"}]}}"#;
        let status = pending_status(&serde_json::from_str(text).unwrap(), Moment::from_millis(7)).unwrap();
        assert_eq!((status.phase.as_str(), status.generation, status.started), ("Pending", Some(4), 7));
        assert_eq!(status.containers.len(), 1);
        let sandbox = status.conditions.iter().find(|one| one.kind == "PodReadyToStartContainers").unwrap();
        assert_eq!((sandbox.status.as_str(), sandbox.reason.as_str()), ("False", "PodSandboxNotReady"));
        assert_eq!(sandbox.message, "no pod sandbox exists");
    }
}
