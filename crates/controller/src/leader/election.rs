//! The rules of client-go: a lease counts as held for its duration since this replica saw it change, by this replica's own
//! clock; the holder's clock does not matter.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// How long a lease is held without a renewal.
pub(super) const DURATION: Duration = Duration::from_secs(15);

/// What to do with the lease that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// There is none, or no replica holds it: take it.
    Take,
    /// This replica holds it.
    Renew,
    /// Another one holds it.
    Wait,
}

/// A lease of another replica, and when it was seen to change last.
#[derive(Debug, Default)]
pub(super) struct Observed {
    last: Option<(LeaseSpec, Instant)>,
}

impl Observed {
    /// What a replica of this name does with this lease now.
    pub(super) fn step(&mut self, found: Option<&Lease>, replica: &str, now: Instant) -> Step {
        let Some(spec) = found.and_then(|lease| lease.spec.as_ref()) else { return Step::Take };
        match spec.holder_identity.as_deref() {
            None | Some("") => return Step::Take,
            Some(holder) if holder == replica => return Step::Renew,
            Some(_) => {}
        }
        let changed = match &self.last {
            Some((seen, at)) if seen == spec => *at,
            _ => {
                self.last = Some((spec.clone(), now));
                now
            }
        };
        let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let duration = seconds.map_or(DURATION, Duration::from_secs);
        if now.duration_since(changed) > duration { Step::Take } else { Step::Wait }
    }
}

/// The lease of this replica, made of the one that was found.
pub(super) fn held(found: Option<Lease>, name: &str, replica: &str, now: Timestamp) -> Lease {
    let metadata = ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() };
    let mut lease = found.unwrap_or(Lease { metadata, spec: None });
    let spec = lease.spec.get_or_insert_default();
    if spec.holder_identity.as_deref() != Some(replica) {
        // The first holder is no change.
        let transitions = spec.lease_transitions.map_or(0, |count| count.saturating_add(1));
        spec.lease_transitions = Some(transitions);
        spec.acquire_time = Some(MicroTime(now));
        spec.holder_identity = Some(replica.to_owned());
    }
    spec.lease_duration_seconds = i32::try_from(DURATION.as_secs()).ok();
    spec.renew_time = Some(MicroTime(now));
    lease
}

/// The lease when this replica gives it up: the next one need not wait.
pub(super) fn released(mut lease: Lease, now: Timestamp) -> Lease {
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = None;
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(MicroTime(now));
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[tokio::test]
    async fn a_lease_is_taken_when_it_has_not_changed_for_its_duration() {
        let (mut observed, start) = (Observed::default(), Instant::now());
        let seconds = |seconds| start + Duration::from_secs(seconds);
        let theirs = held(None, "lease", "a", at(0));
        assert_eq!(observed.step(None, "b", start), Step::Take);
        assert_eq!(observed.step(Some(&theirs), "a", start), Step::Renew);
        assert_eq!(observed.step(Some(&theirs), "b", start), Step::Wait);
        assert_eq!(observed.step(Some(&theirs), "b", seconds(15)), Step::Wait);
        // Its holder's clock is an hour behind: only that it changes matters.
        let renewed = held(Some(theirs), "lease", "a", at(-3600));
        assert_eq!(observed.step(Some(&renewed), "b", seconds(20)), Step::Wait);
        assert_eq!(observed.step(Some(&renewed), "b", seconds(35)), Step::Wait);
        assert_eq!(observed.step(Some(&renewed), "b", seconds(36)), Step::Take);
        let free = released(renewed, at(50));
        assert_eq!(observed.step(Some(&free), "b", seconds(37)), Step::Take);
    }

    #[test]
    fn a_change_of_the_holder_is_counted_and_a_renewal_is_not() {
        let spec = |lease: &Lease| lease.spec.clone().unwrap();
        let first = held(None, "lease", "a", at(1));
        assert_eq!(
            (spec(&first).lease_transitions, spec(&first).acquire_time),
            (Some(0), Some(MicroTime(at(1))))
        );
        let renewed = held(Some(first), "lease", "a", at(2));
        assert_eq!(spec(&renewed).acquire_time, Some(MicroTime(at(1))));
        assert_eq!(
            (spec(&renewed).lease_transitions, spec(&renewed).renew_time),
            (Some(0), Some(MicroTime(at(2))))
        );
        let taken = held(Some(renewed), "lease", "b", at(3));
        assert_eq!(
            (spec(&taken).lease_transitions, spec(&taken).holder_identity),
            (Some(1), Some("b".to_owned()))
        );
        assert_eq!(spec(&released(taken, at(4))).holder_identity, None);
    }
}
