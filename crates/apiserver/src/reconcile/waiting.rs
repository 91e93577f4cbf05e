//! The pods that this node cannot start now, for its page.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use agent::ports::PodRef;
use lifecycle::Moment;
use report::pages::WaitingPod;

use super::StartError;

/// The pods that could not be started and are tried again, with the reasons. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct WaitingPods(Arc<Mutex<BTreeMap<String, WaitingPod>>>);

impl WaitingPods {
    fn pods(&self) -> MutexGuard<'_, BTreeMap<String, WaitingPod>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a pod could not be started. The same reason again is no new one.
    pub(super) fn add(&self, pod: &PodRef, error: &StartError, now: Moment) {
        let uid = pod.uid.as_str();
        let mut pods = self.pods();
        if pods.get(uid).is_some_and(|known| known.reason == error.reason && known.message == error.message) {
            return;
        }
        let waiting = WaitingPod {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: uid.to_owned(),
            reason: error.reason.to_owned(),
            message: error.message.clone(),
            since: now.millis() / 1000,
        };
        pods.insert(uid.to_owned(), waiting);
    }

    /// Notes that a pod waits no more.
    pub(super) fn remove(&self, uid: &str) {
        self.pods().remove(uid);
    }

    /// All of them, by namespace and name.
    #[must_use]
    pub fn list(&self) -> Vec<WaitingPod> {
        let mut pods: Vec<WaitingPod> = self.pods().values().cloned().collect();
        pods.sort_by(|a, b| (&a.namespace, &a.name, &a.uid).cmp(&(&b.namespace, &b.name, &b.uid)));
        pods
    }
}

#[cfg(test)]
mod tests {
    use types::PodUid;

    use super::*;

    #[test]
    fn a_pod_waits_since_its_reason_is_what_it_is_until_it_waits_no_more() {
        let waiting = WaitingPods::default();
        let pod = |name: &str| PodRef {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            uid: PodUid::new(name).unwrap(),
        };
        let error = |text: &str| StartError::other("test", text.to_owned());
        waiting.add(&pod("web"), &error("no memory"), Moment::from_millis(5_000));
        waiting.add(&pod("web"), &error("no memory"), Moment::from_millis(9_000));
        waiting.add(&pod("db"), &error("no image"), Moment::from_millis(7_000));
        let since: Vec<_> = waiting.list().into_iter().map(|pod| (pod.name, pod.since)).collect();
        assert_eq!(since, [("db".to_owned(), 7), ("web".to_owned(), 5)]);
        waiting.add(&pod("web"), &error("no image"), Moment::from_millis(11_000));
        assert_eq!(waiting.list()[1].since, 11);
        waiting.remove("web");
        assert_eq!(waiting.list().len(), 1);
    }
}
