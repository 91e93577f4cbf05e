//! Which instance of a container is meant.

use agent::{ContainerView, StateView};

use crate::ServedPod;

/// The instance whose log is wanted: the number of restarts before it. The error is the kubelet's text.
pub(crate) fn choose(pod: &ServedPod, name: &str, container: &str, previous: bool) -> Result<u32, String> {
    let Some(status) = find(pod, container) else {
        return Err(format!("container {container:?} in pod {name:?} is not available"));
    };
    // While a container waits, its newest instance is the one that ended last.
    let is_waiting = matches!(status.state, StateView::Waiting { .. });
    if previous {
        let before = if is_waiting { Some(status.restarts) } else { status.restarts.checked_sub(1) };
        let not_found = || format!("previous terminated container {container:?} in pod {name:?} not found");
        return before.filter(|_| status.last.is_some()).ok_or_else(not_found);
    }
    let StateView::Waiting { reason, .. } = &status.state else { return Ok(status.restarts) };
    if status.last.is_some() {
        return Ok(status.restarts);
    }
    let cause = match reason.as_str() {
        "ErrImagePull" => "image can't be pulled",
        "ImagePullBackOff" => "trying and failing to pull image",
        reason => reason,
    };
    Err(format!("container {container:?} in pod {name:?} is waiting to start: {cause}"))
}

/// Whether this instance of the container runs.
pub(crate) fn is_running(pod: &ServedPod, container: &str, attempt: u32) -> bool {
    find(pod, container)
        .is_some_and(|status| status.restarts == attempt && matches!(status.state, StateView::Running { .. }))
}

fn find<'a>(pod: &'a ServedPod, container: &str) -> Option<&'a ContainerView> {
    pod.statuses.iter().find(|status| status.name == container)
}

#[cfg(test)]
mod tests {
    use agent::ExitView;

    use super::*;
    use crate::ServedContainer;

    fn pod(state: StateView, restarts: u32, last: bool) -> ServedPod {
        let exit = last.then(exit);
        let status = ContainerView {
            name: "app".into(),
            state,
            last: exit,
            ready: false,
            started: false,
            restarts,
            instance: None,
            previous_id: None,
        };
        ServedPod {
            containers: vec![ServedContainer { name: "app".into(), tty: false }],
            statuses: vec![status],
            ..ServedPod::default()
        }
    }

    fn exit() -> ExitView {
        serde_json::from_value(serde_json::json!(
            {"code": 1, "reason": "Error", "message": "", "started": 1, "finished": 2}
        ))
        .unwrap()
    }

    fn waiting(reason: &str) -> StateView {
        StateView::Waiting { reason: reason.into(), message: String::new() }
    }

    #[test]
    fn the_instance_is_the_newest_or_the_one_before() {
        let running = StateView::Running { since: 1 };
        let chosen = |state: StateView, restarts, last, previous| {
            choose(&pod(state, restarts, last), "web", "app", previous)
        };
        assert_eq!(chosen(running.clone(), 0, false, false), Ok(0));
        assert_eq!(chosen(running.clone(), 2, true, false), Ok(2));
        assert_eq!(chosen(running.clone(), 2, true, true), Ok(1));
        assert_eq!(chosen(StateView::Terminated(exit()), 1, true, false), Ok(1));
        assert_eq!(chosen(waiting("CrashLoopBackOff"), 1, true, false), Ok(1));
        assert_eq!(chosen(waiting("CrashLoopBackOff"), 1, true, true), Ok(1));
        let none = "previous terminated container \"app\" in pod \"web\" not found";
        assert_eq!(chosen(running, 0, false, true), Err(none.to_owned()));
    }

    #[test]
    fn a_container_that_never_ran_says_why() {
        let text = |reason| choose(&pod(waiting(reason), 0, false), "web", "app", false).unwrap_err();
        let start = "container \"app\" in pod \"web\" is waiting to start: ";
        assert_eq!(text("ContainerCreating"), format!("{start}ContainerCreating"));
        assert_eq!(text("ErrImagePull"), format!("{start}image can't be pulled"));
        assert_eq!(text("ImagePullBackOff"), format!("{start}trying and failing to pull image"));
        let unknown = choose(&ServedPod::default(), "web", "app", false);
        assert_eq!(unknown, Err("container \"app\" in pod \"web\" is not available".to_owned()));
    }
}
