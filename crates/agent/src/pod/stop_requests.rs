//! Requests of other processes to stop a pod: the file `stop.json` in the pod's directory.

use std::time::Duration;

use tracing::warn;

use crate::pod::store::{Place, StopRequest};
use crate::sources::watch::Watch;

/// Period of checks without inotify.
const POLL: Duration = Duration::from_secs(1);

/// Notices requests to stop one pod, by inotify. If the kernel has no inotify instance left, the file is polled.
pub(crate) struct StopRequests {
    place: Place,
    watch: Option<Watch>,
}

impl StopRequests {
    /// Requests from now on, and one that is there already. Must be called within a tokio runtime.
    pub(crate) fn of(place: &Place) -> Self {
        let watch = Watch::on(&place.dir);
        if let Err(cause) = &watch {
            let dir = place.dir.display();
            warn!(parent: &place.span(), "cannot watch {dir} ({cause}): `wardlet stop` is noticed within a second");
        }
        Self { place: place.clone(), watch: watch.ok() }
    }

    /// The request, if there is one.
    pub(crate) fn get(&self) -> Option<StopRequest> {
        self.place.stop_request()
    }

    /// Whether the file must be read before each step, because no event tells of it.
    pub(crate) fn is_polled(&self) -> bool {
        self.watch.is_none()
    }

    /// Waits until there may be a new request. Cancel safe.
    pub(crate) async fn changed(&self) {
        let is_told = match &self.watch {
            Some(watch) => watch.changed().await.is_ok(),
            None => false,
        };
        if !is_told {
            tokio::time::sleep(POLL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use types::PodUid;

    use super::*;

    /// Such a `run` ignored the request, and `wardlet stop` waited for ever.
    #[tokio::test]
    async fn a_request_is_noticed_with_inotify_and_without() {
        let dir = tempfile::tempdir().unwrap();
        for (name, has_inotify) in [("with", true), ("without", false)] {
            let place = Place::new(dir.path(), &PodUid::new(name).unwrap(), "default", "web");
            let _lock = place.take().unwrap();
            let mut requests = StopRequests::of(&place);
            assert!(!requests.is_polled() && requests.get().is_none());
            if !has_inotify {
                requests.watch = None;
            }
            assert_eq!(requests.is_polled(), !has_inotify);
            place.write_stop(&StopRequest { grace: Some(7) }).unwrap();
            requests.changed().await;
            assert_eq!(requests.get().unwrap().grace, Some(7), "{name} inotify");
        }
    }
}
