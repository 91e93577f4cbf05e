//! Removal of orphans: what pods of this state directory have in the runtime, in the state directory and in the ledger
//! without a record of the pod.
//!
//! A pod is recorded before anything is created for it, and its record is removed last. So an orphan has lost its
//! record: to a damaged disk, to an administrator, or because its state directory was restored from a copy. Sandboxes
//! and containers of other instances and of other clients of the runtime have another annotation or none, and are left.
//!
//! Other processes may start and remove pods of the same state directory meanwhile: the runtime is listed before the
//! records are read, and a pod is removed only under its lock, after a second look for its record.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ids::allocator::State;
use ledger::Lease;
use tracing::{info, warn};
use types::PodUid;
use types::keys::POD_UID;

use crate::cri::calls::{POD_NAME, POD_NAMESPACE};
use crate::error::Result;
use crate::housekeeping::teardown::{self, Block};
use crate::pod::lock::{LOCK, Names, PodLock};
use crate::pod::store::{Place, remove_tree};
use crate::shared::{Shared, blocking};

const PODS: &str = "pods";
const LOGS: &str = "logs";
/// How long each container of an orphan may take to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);
/// Entries of a pod's directory that are removed with the pod. A directory without any of them is not a pod's.
const ENTRIES: [&str; 9] = [
    LOCK,
    "status.json",
    "stop.json",
    "etc-hosts",
    "containers",
    "volumes.json",
    "volumes",
    "volume-subpaths",
    "plugins",
];

/// What was found of one pod.
#[derive(Debug, Default, PartialEq, Eq)]
struct Traces {
    /// `namespace/name`, if something tells it.
    title: Option<String>,
    sandboxes: usize,
    containers: usize,
    has_directory: bool,
    logs: Vec<PathBuf>,
    has_lease: bool,
}

type Found = BTreeMap<PodUid, Traces>;

impl Traces {
    /// Whether a pod of this state directory made any of it for certain.
    fn is_pods(&self) -> bool {
        self.sandboxes > 0 || self.containers > 0 || self.has_directory || self.has_lease
    }
}

impl fmt::Display for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let many = |count: usize, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what}")),
            count => Some(format!("{count} {what}s")),
        };
        let parts = [
            many(self.containers, "container"),
            many(self.sandboxes, "sandbox").map(|text| text.replace("sandboxs", "sandboxes")),
            self.has_directory.then(|| "volumes and files".to_owned()),
            (!self.logs.is_empty()).then(|| "logs".to_owned()),
            self.has_lease.then(|| "the lease of host IDs".to_owned()),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// Removes all orphans. A failure is logged: it keeps neither other orphans nor the agent.
pub(crate) async fn collect(shared: Arc<Shared>) {
    let found = match find(&shared).await {
        Ok(found) => found,
        Err(error) => return warn!("cannot look for pods without a record: {error}"),
    };
    let (mut removed, mut is_unsettled) = (0_usize, false);
    for (uid, traces) in &found {
        match remove(&shared, uid, traces).await {
            Ok(Removal::Done) => {
                removed += 1;
                is_unsettled |= traces.has_lease;
                let pod = named(uid, traces);
                info!("removed {traces} of pod {pod}: there is no record of it in this state directory");
            }
            Ok(Removal::Managed) => {}
            Err(error) => {
                let pod = named(uid, traces);
                warn!("cannot remove {traces} of pod {pod}, which has no record: {error}");
            }
        }
    }
    if removed > 1 {
        info!("removed what was left of {removed} pods without a record");
    }
    let settled = blocking("settling leases", move || {
        let is_old = |lease: &Lease| lease.earlier_boot && lease.state != State::Leased;
        if is_unsettled || shared.ledger.list()?.iter().any(is_old) {
            shared.ledger.settle()?;
        }
        Ok(())
    });
    if let Err(error) = settled.await {
        warn!("cannot check whether released blocks of host IDs are free: {error}");
    }
}

fn named(uid: &PodUid, traces: &Traces) -> String {
    traces.title.as_ref().map_or_else(|| uid.to_string(), |title| format!("{title} ({uid})"))
}

/// All traces of pods without a record. Without the runtime's answer there are none: what the pods' containers may
/// still use must not be removed.
async fn find(shared: &Arc<Shared>) -> Result<Found> {
    let mut found = Found::new();
    for sandbox in shared.cri.all_sandboxes().await? {
        if let Some(traces) = of_labels(&mut found, &sandbox.labels) {
            traces.sandboxes += 1;
        }
    }
    for container in shared.cri.all_containers().await? {
        if let Some(traces) = of_labels(&mut found, &container.labels) {
            traces.containers += 1;
        }
    }
    let shared = Arc::clone(shared);
    blocking("looking for pods without a record", move || {
        of_state(&shared.state, &mut found);
        for holder in leased(&shared.state, &shared.ledger.list()?) {
            found.entry(holder).or_default().has_lease = true;
        }
        // A directory below `logs` alone may be anything.
        found.retain(|_, traces| traces.is_pods());
        found.retain(|uid, _| !place(&shared.state, uid, &Traces::default()).has_record());
        Ok(found)
    })
    .await
}

fn of_labels<'a>(found: &'a mut Found, labels: &BTreeMap<String, String>) -> Option<&'a mut Traces> {
    let traces = found.entry(PodUid::new(labels.get(POD_UID)?.as_str()).ok()?).or_default();
    let word = |key: &str| labels.get(key).filter(|text| text.chars().all(|c| c.is_ascii_graphic()));
    if let (Some(namespace), Some(name)) = (word(POD_NAMESPACE), word(POD_NAME)) {
        traces.title = Some(format!("{namespace}/{name}"));
    }
    Some(traces)
}

/// Directories and logs of pods.
fn of_state(state: &Path, found: &mut Found) {
    for entry in fs::read_dir(state.join(PODS)).into_iter().flatten().flatten() {
        let has = |name: &&str| entry.path().join(name).symlink_metadata().is_ok();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir
            && ENTRIES.iter().any(has)
            && let Some(uid) = entry.file_name().to_str().and_then(|name| PodUid::new(name).ok())
        {
            found.entry(uid).or_default().has_directory = true;
        }
    }
    // A link there may lead to the logs of others.
    let logs = state.join(LOGS);
    let is_own = fs::symlink_metadata(&logs).is_ok_and(|found| found.is_dir());
    for entry in fs::read_dir(&logs).into_iter().filter(|_| is_own).flatten().flatten() {
        let name = entry.file_name().into_string().unwrap_or_default();
        let mut parts = name.splitn(3, '_');
        if let (Some(namespace), Some(pod), Some(uid)) = (parts.next(), parts.next(), parts.next())
            && let Ok(uid) = PodUid::new(uid)
        {
            let traces = found.entry(uid).or_default();
            traces.title.get_or_insert_with(|| format!("{namespace}/{pod}"));
            traces.logs.push(entry.path());
        }
    }
}

/// The pods of this state directory that hold a lease: the agent leases with places in the pod's directory.
/// Leases of other holders are theirs.
fn leased(state: &Path, leases: &[Lease]) -> Vec<PodUid> {
    let real = fs::canonicalize(state).unwrap_or_else(|_| state.to_owned());
    let is_own = |place: &Path, holder: &str| {
        [state, &real].iter().any(|state| place.starts_with(state.join(PODS).join(holder)))
    };
    let held = leases.iter().filter(|lease| lease.state == State::Leased && lease.members.is_none());
    let holders = held.filter_map(|lease| {
        let holder = lease.holder.as_ref()?.as_str();
        lease.places.iter().any(|place| is_own(place, holder)).then(|| PodUid::new(holder).ok())?
    });
    holders.collect()
}

fn place(state: &Path, uid: &PodUid, traces: &Traces) -> Place {
    let logs = traces.logs.first().cloned();
    let logs = logs.unwrap_or_else(|| state.join(LOGS).join(format!("__{uid}")));
    Place { dir: state.join(PODS).join(uid.as_str()), logs, log_links: None }
}

/// What has come of the removal of one pod.
#[derive(Debug, PartialEq, Eq)]
enum Removal {
    Done,
    /// Another process manages the pod, or has recorded it meanwhile.
    Managed,
}

async fn remove(shared: &Arc<Shared>, uid: &PodUid, traces: &Traces) -> Result<Removal> {
    let place = place(&shared.state, uid, traces);
    let (state, locked) = (shared.state.clone(), place.clone());
    let Some(lock) = blocking("locking a pod", move || lock(&state, &locked)).await? else {
        return Ok(Removal::Managed);
    };
    let removed = async {
        stop(shared, uid).await?;
        teardown::all(shared, &place, Block::Released).await
    };
    let removed = removed.await;
    drop(lock);
    removed?;
    for logs in traces.logs.iter().skip(1) {
        remove_tree(logs)?;
    }
    Ok(Removal::Done)
}

/// Stops the containers that run: how long they may take to end is in no record.
async fn stop(shared: &Shared, uid: &PodUid) -> Result<()> {
    for container in shared.cri.containers(uid.as_str()).await? {
        if container.state() == cri::ContainerState::ContainerRunning {
            shared.cri.stop(&container.id, GRACE).await?;
        }
    }
    Ok(())
}

/// Takes the lock of a pod without a record. While it is held, no process can record a pod with this UID.
fn lock(state: &Path, place: &Place) -> Result<Option<PodLock>> {
    let _names = Names::lock(state)?;
    if place.has_record() {
        return Ok(None);
    }
    Ok(place.take()?.filter(|_| !place.has_record()))
}

#[cfg(test)]
mod tests {
    use ids::pool::IdPool;
    use ids::witness::{Sighting, Witness, WitnessError};
    use ids::{BlockLength, IdBlock};
    use ledger::{BootId, Holder, LeaseRequest, Ledger, Options};

    use super::*;

    fn uid(text: &str) -> PodUid {
        PodUid::new(text).unwrap()
    }

    #[test]
    fn directories_and_logs_of_pods_are_found_and_those_of_others_are_not() {
        let dir = tempfile::tempdir().unwrap();
        for path in
            ["pods/a/volumes", "pods/b/other", "pods/.hidden/volumes", "logs/shop_web_a", "logs/other"]
        {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        std::os::unix::fs::symlink(dir.path().join("pods/a"), dir.path().join("pods/link")).unwrap();
        let mut found = Found::new();
        of_state(dir.path(), &mut found);
        let logs = vec![dir.path().join("logs/shop_web_a")];
        let title = Some("shop/web".to_owned());
        let expected = Traces { title, logs, has_directory: true, ..Traces::default() };
        assert_eq!(found, Found::from([(uid("a"), expected)]));
    }

    #[test]
    fn a_pod_that_is_recorded_meanwhile_or_managed_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let orphan = place(dir.path(), &uid("a"), &Traces::default());
        let held = lock(dir.path(), &orphan).unwrap();
        assert!(held.is_some());
        assert!(lock(dir.path(), &orphan).unwrap().is_none(), "another process removes it");
        drop(held);
        // A record that cannot be read is one: the pod may run.
        fs::write(orphan.dir.join("agent.json"), "rubbish").unwrap();
        assert!(lock(dir.path(), &orphan).unwrap().is_none());
    }

    /// Sees no use of any ID.
    struct Vacant;

    impl Witness for Vacant {
        fn look(&self) -> std::result::Result<Sighting, WitnessError> {
            Ok(Sighting::new(Vec::new(), Vec::new()))
        }

        fn remaining(&self, _: &[PathBuf]) -> std::result::Result<Vec<PathBuf>, WitnessError> {
            Ok(Vec::new())
        }
    }

    fn ledger(dir: &Path, boot: &str) -> Ledger {
        let pool = IdPool::default_for(BlockLength::DEFAULT, vec![]).unwrap();
        Ledger::open(Options::new(dir, pool, BootId(boot.to_owned()), Arc::new(Vacant))).unwrap()
    }

    fn lease(ledger: &Ledger, holder: &str, place: &Path) -> IdBlock {
        let places = vec![place.to_owned()];
        let request = LeaseRequest { places, ..LeaseRequest::new(Holder::new(holder).unwrap()) };
        ledger.lease(request).unwrap().uids
    }

    /// Leases by hand, of the wrapper and of another state directory are their holders', also after a reboot.
    #[test]
    fn only_leases_of_this_state_directorys_pods_are_found() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        fs::create_dir(&state).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&state, &link).unwrap();
        {
            let ledger = ledger(&state, "first");
            lease(&ledger, "a", &state.join("pods/a"));
            lease(&ledger, "by-hand", Path::new("/srv/db"));
            lease(&ledger, "elsewhere", &dir.path().join("other/pods/elsewhere"));
            lease(&ledger, "nested", &state.join("pods/a/nested"));
            lease(&ledger, "within", &state.join("pods/within/volumes"));
            lease(&ledger, "gone", &state.join("pods/gone"));
            ledger.release(Holder::new("gone").unwrap()).unwrap();
        }
        let leases = ledger(&state, "second").list().unwrap();
        assert_eq!(leased(&state, &leases), [uid("a"), uid("within")]);
        assert_eq!(leased(&link, &leases), [uid("a"), uid("within")]);
    }

    #[test]
    fn traces_are_listed_in_words() {
        let traces = Traces { sandboxes: 2, containers: 1, has_lease: true, ..Traces::default() };
        assert_eq!(traces.to_string(), "1 container, 2 sandboxes, the lease of host IDs");
    }
}
