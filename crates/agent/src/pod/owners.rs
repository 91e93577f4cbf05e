//! The owners of a UID that a manifest names. A pod's lease, records, volumes and sandboxes are found by its UID:
//! a pod from a manifest must not have the UID of another one.

use std::sync::Arc;

use ids::allocator::State;
use ledger::{Holder, Ledger};
use manifest::k8s_openapi::api::core::v1::Pod;
use types::PodUid;

use crate::error::{Error, Result};
use crate::housekeeping::teardown::is_pods;
use crate::instance::InstanceId;
use crate::pod::names::Named;
use crate::pod::store::Place;
use crate::shared::{Shared, blocking};

/// Holder of the shared lease that pods with a shared user namespace join. No pod has it as its UID.
pub(crate) const SHARED_BLOCK: &str = "shared-block";

/// The owners of the UID in a manifest outside the state directory. Without a UID in the manifest there are none.
#[derive(Default)]
pub(crate) struct Owners(pub(crate) Option<GivenUid>);

/// A UID in a manifest, and its owners.
pub(crate) struct GivenUid {
    pub(crate) uid: PodUid,
    /// `namespace/name` of each sandbox that the runtime has with this UID.
    pub(crate) sandboxes: Vec<String>,
    /// What the ledger has leased to a holder of this name, in words.
    pub(crate) lease: Option<String>,
}

impl Owners {
    /// Asks the runtime and the ledger for owners of the pod's `metadata.uid`.
    ///
    /// # Errors
    /// If the UID is not valid, or if the runtime or the ledger cannot be asked.
    pub(crate) async fn of(shared: &Arc<Shared>, pod: &Pod) -> Result<Self> {
        let Some(text) = pod.metadata.uid.as_deref().filter(|uid| !uid.is_empty()) else {
            return Ok(Self(None));
        };
        let uid = valid_uid(text.trim())?;
        if !is_unique(uid.as_str()) {
            let cause = format!("{:?} is not a UUID", uid.as_str());
            return Err(Error::NotAdmitted {
                pod: shown(pod),
                field: "metadata.uid".to_owned(),
                cause,
                hint: "remove metadata.uid from the manifest: the pod gets a UID of its own".to_owned(),
            });
        }
        let metadata = &pod.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or("default");
        let removed = shared.running.removed(namespace, metadata.name.as_deref().unwrap_or_default());
        let before = if removed.as_ref() == Some(&uid) { Before::Own } else { Before::Unknown };
        let listed = shared.cri.sandboxes_of_all_clients(uid.as_str()).await?;
        let title = |sandbox: cri::PodSandbox| {
            let metadata = sandbox.metadata.unwrap_or_default();
            format!("{}/{}", metadata.namespace, metadata.name)
        };
        let sandboxes = listed.into_iter().map(title).collect();
        let (ledger, holder) = (Arc::clone(&shared.ledger), uid.clone());
        // A node's agent finds the lease of a pod without a record by the places in it.
        let place = Place::new(&shared.state, &uid, namespace, "").with_files_in(shared.root_dir.as_deref());
        let instance = shared.cri.owned.instance().clone();
        let own = shared.root_dir.is_some().then_some(Own { place, instance });
        let lease =
            blocking("reading the ledger", move || lease(&ledger, &holder, before, own.as_ref())).await?;
        Ok(Self(Some(GivenUid { uid, sandboxes, lease })))
    }

    /// The UID in the manifest.
    pub(crate) fn uid(&self) -> Option<&PodUid> {
        self.0.as_ref().map(|given| &given.uid)
    }

    /// Refuses a UID that a recorded pod or a sandbox of another name has.
    pub(crate) fn check_others(&self, pod: &str, known: &[Arc<Named>]) -> Result<()> {
        let Some(given) = &self.0 else { return Ok(()) };
        let recorded = known.iter().filter(|record| record.uid == given.uid);
        let recorded = recorded.map(|record| format!("{}/{}", record.namespace, record.name));
        match recorded.chain(given.sandboxes.iter().cloned()).find(|owner| owner != pod) {
            Some(owner) => Err(given.taken(pod, format!("pod {owner}"))),
            None => Ok(()),
        }
    }

    /// Refuses a UID that a sandbox or a lease has, for a pod without a record: neither is the pod's own.
    pub(crate) fn check_unrecorded(&self, pod: &str) -> Result<()> {
        let Some(given) = &self.0 else { return Ok(()) };
        let sandbox = given.sandboxes.first();
        let sandbox =
            sandbox.map(|owner| format!("a sandbox of {owner} that another client of the runtime made"));
        let reserved = (given.uid.as_str() == SHARED_BLOCK)
            .then(|| "the block that pods with a shared user namespace share".to_owned());
        match sandbox.or(reserved).or_else(|| given.lease.clone()) {
            Some(owner) => Err(given.taken(pod, owner)),
            None => Ok(()),
        }
    }

    /// Whether this is the error of a record with this UID that cannot be read.
    pub(crate) fn has_record_at(&self, error: &Error) -> bool {
        let Error::Record { path, .. } = error else { return false };
        let dir = path.parent().and_then(|dir| dir.file_name());
        self.uid().is_some_and(|uid| dir.is_some_and(|dir| dir == uid.as_str()))
    }
}

impl GivenUid {
    fn taken(&self, pod: &str, owner: String) -> Error {
        Error::UidTaken { pod: pod.to_owned(), uid: self.uid.clone(), owner }
    }
}

/// `namespace/name`.
fn shown(pod: &Pod) -> String {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    format!("{namespace}/{}", pod.metadata.name.as_deref().unwrap_or_default())
}

/// Whether a UID has the form that Kubernetes gives to UIDs: a UUID, or the 32 digits of a static pod. Leases and pods
/// that an administrator names have other names, so that no manifest can name one of them.
pub(crate) fn is_unique(uid: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
    uid.split('-').all(digits) && (lengths == [8, 4, 4, 4, 12] || lengths == [32])
}

/// Checks a UID, which becomes the name of a directory.
pub(crate) fn valid_uid(text: &str) -> Result<PodUid> {
    PodUid::new(text).map_err(|e| Error::config("metadata.uid", e.to_string()))
}

/// Where a pod of this instance is, if there is one with the UID.
struct Own {
    place: Place,
    instance: InstanceId,
}

/// The pod that had the UID last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// A pod of the same name, which this process has removed.
    Own,
    Unknown,
}

/// What the ledger has leased to a holder of this name. A released block counts until it is seen to be vacant, unless
/// the pod itself released it. One that was taken for the pod at `own` is the pod's.
fn lease(ledger: &Ledger, uid: &PodUid, before: Before, own: Option<&Own>) -> Result<Option<String>> {
    let holder = Holder::new(uid.as_str()).map_err(|e| Error::config("metadata.uid", e.to_string()))?;
    let mut lease = ledger.get(holder.clone())?;
    if lease.as_ref().is_some_and(|lease| lease.state == State::Draining) {
        if before == Before::Own {
            return Ok(None);
        }
        ledger.settle()?;
        lease = ledger.get(holder)?;
    }
    let lease = lease.filter(|lease| !matches!(lease.state, State::Quarantined { .. }));
    let lease = lease.filter(|lease| !own.is_some_and(|own| is_pods(lease, &own.place, &own.instance)));
    Ok(lease.map(|lease| {
        format!("another holder of a lease in the ledger (host IDs {}, {})", lease.uids, lease.state_name())
    }))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;

    use ids::pool::IdPool;
    use ids::witness::{Hold, Sighting, Use, Witness, WitnessError};
    use ids::{BlockLength, IdKind};
    use ledger::{BootId, Lease, LeaseRequest, Options};

    use super::*;

    /// Sees these uses of IDs, and no others.
    #[derive(Default)]
    struct Seen(Mutex<Vec<Use>>);

    impl Witness for Seen {
        fn look(&self) -> std::result::Result<Sighting, WitnessError> {
            Ok(Sighting::new(self.0.lock().unwrap().clone(), Vec::new()))
        }

        fn remaining(&self, _: &[PathBuf]) -> std::result::Result<Vec<PathBuf>, WitnessError> {
            Ok(Vec::new())
        }
    }

    fn uid(text: &str) -> PodUid {
        PodUid::new(text).unwrap()
    }

    fn holder(name: &str) -> Holder {
        Holder::new(name).unwrap()
    }

    /// Marks the lease's block as used by a process.
    fn use_block(seen: &Seen, lease: &Lease) {
        let (ids, by) = (lease.uids.span(), "process 7".to_owned());
        seen.0.lock().unwrap().push(Use { kind: IdKind::Uid, ids, hold: Hold::Live, by });
    }

    /// `wardlet ids lease victim` and `metadata: {name: thief, uid: victim}`: the pod had the victim's block, and its
    /// stop released it.
    #[test]
    fn a_lease_belongs_to_its_holder_until_its_block_is_seen_to_be_vacant() {
        let dir = tempfile::tempdir().unwrap();
        let seen = Arc::new(Seen::default());
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap();
        let witness = Arc::clone(&seen) as Arc<dyn Witness>;
        let ledger =
            Ledger::open(Options::new(dir.path(), pool, BootId("boot".to_owned()), witness)).unwrap();
        let owner = |name: &str, before| lease(&ledger, &uid(name), before, None).unwrap();
        assert_eq!(owner("victim", Before::Unknown), None);

        let leased = ledger.lease(LeaseRequest::new(holder("victim"))).unwrap();
        let words = owner("victim", Before::Unknown).unwrap();
        assert!(words.contains(&leased.uids.to_string()) && words.contains("leased"), "{words}");
        assert!(owner("victim", Before::Own).is_some());
        ledger.join(holder(SHARED_BLOCK), LeaseRequest::new(holder("member"))).unwrap();
        assert!(owner("member", Before::Unknown).is_some() && owner(SHARED_BLOCK, Before::Unknown).is_some());

        // Released, but in use: only the pod that released it may have it again.
        use_block(&seen, &leased);
        ledger.release(holder("victim")).unwrap();
        assert!(owner("victim", Before::Unknown).unwrap().contains("draining"));
        assert_eq!(owner("victim", Before::Own), None);
        seen.0.lock().unwrap().clear();
        assert_eq!(owner("victim", Before::Unknown), None);
    }

    #[test]
    fn a_sandbox_of_another_pod_or_without_a_record_refuses_the_uid() {
        let given = |name: &str, sandboxes: &[&str]| {
            let sandboxes = sandboxes.iter().map(|&title| title.to_owned()).collect();
            Owners(Some(GivenUid { uid: uid(name), sandboxes, lease: None }))
        };
        let other = given("u-1", &["shop/web"]).check_others("evil/thief", &[]).unwrap_err();
        assert_eq!(other.to_string(), "pod evil/thief: metadata.uid \"u-1\" belongs to pod shop/web");
        assert!(other.hint().unwrap().contains("remove metadata.uid"));
        let own = given("u-1", &["shop/web"]);
        own.check_others("shop/web", &[]).unwrap();
        assert!(own.check_unrecorded("shop/web").unwrap_err().to_string().contains("another client"));
        given("u-1", &[]).check_unrecorded("shop/web").unwrap();
        assert!(given(SHARED_BLOCK, &[]).check_unrecorded("shop/web").is_err());
        Owners::default().check_unrecorded("shop/web").unwrap();
    }
}
