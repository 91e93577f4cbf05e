use api_client::follow::WatchFailure;

/// Whether the objects of a resource are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WatchState {
    /// Whether a list was complete.
    is_synced: bool,
    /// Whether the server refused the last request: a right is missing, or the server does not have the resource.
    is_refused: bool,
    /// Whether a refusal was reported since the server has shown a change. With the right to list alone each list
    /// succeeds and each watch is refused.
    is_reported: bool,
}

impl WatchState {
    pub(super) const fn new() -> Self {
        Self { is_synced: false, is_refused: false, is_reported: false }
    }

    /// A list is complete.
    pub(super) fn synced(&mut self) {
        (self.is_synced, self.is_refused) = (true, false);
    }

    /// The server has answered a list.
    pub(super) fn answered(&mut self) {
        self.is_refused = false;
    }

    /// The server has shown a change.
    pub(super) fn followed(&mut self) {
        (self.is_refused, self.is_reported) = (false, false);
    }

    /// Returns whether a refusal is to be reported.
    pub(super) fn failed(&mut self, failure: &WatchFailure) -> bool {
        // An outage says nothing about rights.
        let is_refused = matches!(failure.code, Some(401 | 403 | 404));
        self.is_refused |= is_refused;
        is_refused && !std::mem::replace(&mut self.is_reported, true)
    }

    /// Whether all objects are known and changes of them are shown.
    pub(super) fn is_readable(&self) -> bool {
        self.is_synced && !self.is_refused
    }

    /// Whether the server refused the last request.
    pub(super) fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Whether all objects are known, or cannot be.
    pub(super) fn is_settled(&self) -> bool {
        self.is_synced || self.is_refused
    }
}
