//! What a worker reports of the changes since the last status: events, and ends of containers.

use tracing::warn;
use types::reason;

use crate::pod::context::PodContext;
use crate::pod::worker::Worker;
use crate::ports::EventType;
use crate::status::events::{ImageOf, Text};
use crate::status::view::{ContainerView, ExitView, PodStatus};

/// Exit codes of containers that SIGTERM or SIGKILL ended.
const STOPPED: [i32; 2] = [143, 137];

impl Worker {
    /// Records events for the changes since the last status.
    pub(super) fn record_events(&self, status: &PodStatus) {
        let before = self.status.borrow().clone();
        let events = self.executor.shared.events_of(&self.executor.context);
        let was_ended = before.as_ref().is_some_and(|before| before.reason == status.reason);
        if status.reason.as_deref() == Some(reason::DEADLINE_EXCEEDED) && !was_ended {
            let message = status.message.clone().unwrap_or_default();
            events.pod(EventType::Normal, reason::DEADLINE_EXCEEDED, message);
        }
        for container in status.all_containers() {
            let known = before.iter().flat_map(PodStatus::all_containers);
            let known = known.into_iter().find(|known| known.name == container.name);
            if container.is_pull_back_off() && !known.is_some_and(ContainerView::is_pull_back_off) {
                self.record_pull_back_off(&container.name);
            }
            let end = new_end(known, container);
            if let Some(exit) = end {
                let kind = self.executor.context.container_type(&container.name);
                self.executor.shared.metrics.containers.terminated(kind, exit.code, &exit.reason);
            }
            let end = end.filter(|exit| exit.code != 0 && !self.is_stopped(status, container, exit));
            let end = end.map(|exit| format!("container {} {}", container.name, exit.words()));
            match container
                .back_off()
                .filter(|_| known.is_none_or(|known| !is_same_back_off(known, container)))
            {
                // One line for the end and for the delay until the restart.
                Some(delay) => {
                    let log = end.map_or_else(|| delay.to_owned(), |end| format!("{end}; {delay}"));
                    let PodContext { namespace, name, uid, .. } = &*self.executor.context;
                    let event = format!(
                        "Back-off restarting failed container {} in pod {name}_{namespace}({})",
                        container.name,
                        uid.as_str()
                    );
                    let text = Text::new(event, log);
                    events.container(&container.name, EventType::Warning, reason::BACK_OFF, text);
                }
                None => end.into_iter().for_each(|end| {
                    warn!(parent: &self.executor.context.span, container = container.name.as_str(), "{end}");
                }),
            }
        }
    }

    /// Records that the pull of a container's image waits.
    fn record_pull_back_off(&self, container: &str) {
        let context = &self.executor.context;
        let image = context.container(container).and_then(|found| found.image.as_deref()).unwrap_or_default();
        let events = self.executor.shared.events_of(context);
        let waits = Text::new(format!("Back-off pulling image {image:?}"), "");
        events.image(&ImageOf { container, image }, EventType::Normal, reason::BACK_OFF, waits);
        let failed = Text::new(format!("Error: {}", reason::IMAGE_PULL_BACK_OFF), "");
        events.container(container, EventType::Warning, reason::FAILED, failed);
    }

    /// Whether a container ended because it was stopped with its pod, or as a sidecar after the regular containers.
    fn is_stopped(&self, status: &PodStatus, container: &ContainerView, exit: &ExitView) -> bool {
        let is_sidecar = status.init.iter().any(|init| init.name == container.name);
        let is_ending = self.pod.deletion().is_some() || (is_sidecar && status.is_ending());
        is_ending && STOPPED.contains(&exit.code) && exit.reason != reason::OOM_KILLED
    }
}

/// The end of the container's newest instance, if it is not in its status before.
fn new_end<'a>(known: Option<&ContainerView>, container: &'a ContainerView) -> Option<&'a ExitView> {
    let known = known.and_then(ContainerView::newest_end).map(|exit| (exit.code, exit.finished));
    container.newest_end().filter(|exit| known != Some((exit.code, exit.finished)))
}

fn is_same_back_off(known: &ContainerView, now: &ContainerView) -> bool {
    (known.back_off(), known.restarts) == (now.back_off(), now.restarts)
}
