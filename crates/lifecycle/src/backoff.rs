use std::time::Duration;

use crate::moment::Moment;
use crate::settings::Settings;

/// The restart back-off of one container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Backoff {
    /// The current delay and when it was set; none before the first restart.
    entry: Option<(Duration, Moment)>,
}

impl Backoff {
    /// When a container that ended at `finished` may be started again.
    pub(crate) fn until(&self, finished: Moment, settings: &Settings) -> Moment {
        match self.current(finished, settings) {
            Some(delay) => finished.after(delay),
            None => finished,
        }
    }

    /// To be called once for every restart of a container that ended at `finished`.
    pub(crate) fn restarted(&mut self, finished: Moment, now: Moment, settings: &Settings) {
        let delay = match self.current(finished, settings) {
            Some(delay) => delay.saturating_mul(2).min(settings.backoff_cap),
            None => settings.backoff_initial.min(settings.backoff_cap),
        };
        self.entry = Some((delay, now));
    }

    /// The delay for an end at `finished`: none if the container had run long enough.
    pub(crate) fn current(&self, finished: Moment, settings: &Settings) -> Option<Duration> {
        let (delay, set) = self.entry?;
        (finished.since(set) <= settings.backoff_cap.saturating_mul(2)).then_some(delay)
    }
}
