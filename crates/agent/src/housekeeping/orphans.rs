//! Removal of orphans: what pods of this state directory have in the runtime, in the state directory, in the kubelet's root
//! directory and in the ledger without a record of the pod.
//!
//! A pod is recorded before anything is created for it, and its record is removed last. So an orphan has lost its
//! record: to a damaged disk, to an administrator, or because its state directory was restored from a copy. Sandboxes
//! and containers of other instances and of other clients of the runtime have another annotation or none, and are left;
//! so are directories of pods without the mark of this instance. A kubelet removes what it does not know. Here several
//! agents share one runtime, and an administrator may have put down what looks like a pod's.
//!
//! The agent of a node adopts pods without a record ([`crate::pod::unrecorded`]): there, orphans are those that no source has.
//!
//! Other processes may start and remove pods of the same state directory meanwhile: the runtime is listed before the
//! records are read, and a pod is removed only under its lock, after a second look for its record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ids::allocator::State;
use ledger::Lease;
use tokio::task::JoinSet;
use tracing::{info, warn};
use types::PodUid;
use types::keys::POD_UID;

use crate::cri::calls::{POD_NAME, POD_NAMESPACE};
use crate::error::{Error, Result};
use crate::housekeeping::stop_orphan;
use crate::housekeeping::teardown::{self, Block};
use crate::instance::InstanceId;
use crate::pod::lock::{LOCK, Names, PodLock};
use crate::pod::pod_files::PodFiles;
use crate::pod::removal::remove_tree;
use crate::pod::store::Place;
use crate::shared::{Shared, blocking};

const PODS: &str = "pods";
const LOGS: &str = "logs";
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
    /// In the state directory.
    has_directory: bool,
    /// In the root directory.
    has_files: bool,
    logs: Vec<PathBuf>,
    has_lease: bool,
}

type Found = BTreeMap<PodUid, Traces>;

impl Traces {
    /// The pod's logs in the directory of all pods' logs, by the name that the runtime's labels tell.
    fn add_logs(&mut self, dir: &Path, uid: &PodUid) {
        let named = self.title.as_ref().and_then(|title| title.split_once('/'));
        let Some((namespace, name)) = named else { return };
        let logs = dir.join(format!("{namespace}_{name}_{uid}"));
        if !name.contains('/') && logs.is_dir() && !self.logs.contains(&logs) {
            self.logs.push(logs);
        }
    }

    /// Whether a pod of this state directory made any of it for certain.
    fn is_pods(&self) -> bool {
        self.sandboxes > 0 || self.containers > 0 || self.has_directory || self.has_files || self.has_lease
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
            (self.has_directory || self.has_files).then(|| "volumes and files".to_owned()),
            (!self.logs.is_empty()).then(|| "logs".to_owned()),
            self.has_lease.then(|| "the lease of host IDs".to_owned()),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

/// Removes all orphans but those `wanted`, by UID, and returns how many of them the runtime had something of. A failure is
/// logged: it keeps neither other orphans nor the agent.
pub(crate) async fn collect(shared: Arc<Shared>, wanted: BTreeSet<String>) -> u64 {
    let found = match find(&shared, wanted).await {
        Ok(found) => found,
        Err(error) => {
            warn!("cannot look for pods without a record: {error}");
            return 0;
        }
    };
    let (mut removed, mut of_runtime, mut is_unsettled) = (0_usize, 0, false);
    // At the same time: each takes as long as its containers take to end.
    let mut removals = JoinSet::new();
    for (uid, traces) in found {
        let shared = Arc::clone(&shared);
        removals.spawn(async move {
            let outcome = remove(&shared, &uid, &traces).await;
            Removed { uid, traces, outcome }
        });
    }
    while let Some(done) = removals.join_next().await {
        let Ok(Removed { uid, traces, outcome }) = done else { continue };
        match outcome {
            Ok(Removal::Done) => {
                removed += 1;
                of_runtime += u64::from(traces.sandboxes > 0 || traces.containers > 0);
                is_unsettled |= traces.has_lease || traces.has_files;
                let pod = named(&uid, &traces);
                info!("removed {traces} of pod {pod}: there is no record of it in this state directory");
            }
            Ok(Removal::Managed) => {}
            Err(error) => {
                let pod = named(&uid, &traces);
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
    of_runtime
}

fn named(uid: &PodUid, traces: &Traces) -> String {
    traces.title.as_ref().map_or_else(|| uid.to_string(), |title| format!("{title} ({uid})"))
}

/// All traces of pods without a record. Without the runtime's answer there are none: what the pods' containers may
/// still use must not be removed.
async fn find(shared: &Arc<Shared>, wanted: BTreeSet<String>) -> Result<Found> {
    let listed = Listed {
        sandboxes: shared.cri.all_sandboxes().await?,
        containers: shared.cri.all_containers().await?,
    };
    unrecorded(shared, listed, wanted).await
}

/// Removes what the pod with this UID has without a record. Nothing is fine, and so is a pod that has a record.
pub(crate) async fn collect_one(shared: &Arc<Shared>, uid: &PodUid) -> Result<()> {
    let listed = Listed {
        sandboxes: shared.cri.sandboxes(uid.as_str()).await?,
        containers: shared.cri.containers(uid.as_str()).await?,
    };
    let found = unrecorded(shared, listed, BTreeSet::new()).await?;
    let Some(traces) = found.get(uid) else { return Ok(()) };
    if remove(shared, uid, traces).await? == Removal::Managed {
        return Err(Error::Managed { pod: named(uid, traces) });
    }
    info!("removed {traces} of pod {}, which had no record", named(uid, traces));
    let shared = Arc::clone(shared);
    blocking("settling leases", move || Ok(shared.ledger.settle().map(drop)?)).await
}

/// What the runtime has of pods of this instance.
struct Listed {
    sandboxes: Vec<cri::PodSandbox>,
    containers: Vec<cri::Container>,
}

/// The traces of pods without a record, but for those `wanted`.
async fn unrecorded(shared: &Arc<Shared>, listed: Listed, wanted: BTreeSet<String>) -> Result<Found> {
    let mut found = Found::new();
    for sandbox in listed.sandboxes {
        if let Some(traces) = of_labels(&mut found, &sandbox.labels) {
            traces.sandboxes += 1;
        }
    }
    for container in listed.containers {
        if let Some(traces) = of_labels(&mut found, &container.labels) {
            traces.containers += 1;
        }
    }
    let shared = Arc::clone(shared);
    blocking("looking for pods without a record", move || {
        of_state(&shared.state, &mut found);
        if let Some(root) = &shared.root_dir {
            of_root(root, &shared.cri.instance, &mut found);
        }
        let homes: Vec<&Path> = [&*shared.state].into_iter().chain(shared.root_dir.as_deref()).collect();
        for holder in leased(&homes, &shared.ledger.list()?) {
            found.entry(holder).or_default().has_lease = true;
        }
        // A directory below `logs` alone may be anything.
        found.retain(|_, traces| traces.is_pods());
        found.retain(|uid, _| !wanted.contains(uid.as_str()));
        found.retain(|uid, _| !Place::new(&shared.state, uid, "", "").has_record());
        if let Some(dir) = &shared.pod_logs_dir {
            found.iter_mut().for_each(|(uid, traces)| traces.add_logs(dir, uid));
        }
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

/// Directories of pods with the mark of this instance in the root directory.
fn of_root(root: &Path, instance: &InstanceId, found: &mut Found) {
    for entry in fs::read_dir(root.join(PODS)).into_iter().flatten().flatten() {
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let mark = PodFiles(&entry.path()).mark().filter(|mark| is_dir && mark.instance == *instance);
        let uid = entry.file_name().to_str().and_then(|name| PodUid::new(name).ok());
        if let (Some(mark), Some(uid)) = (mark, uid) {
            let traces = found.entry(uid.clone()).or_default();
            traces.has_files = true;
            // Its name has the UID: what else is written there is not a pod's.
            let name = mark.logs.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.splitn(3, '_').nth(2) == Some(uid.as_str()) && mark.logs.is_dir() {
                traces.logs.push(mark.logs);
            }
        }
    }
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

/// The pods of these directories that hold a lease: the agent leases with places in the pod's directory.
/// Leases of other holders are theirs.
fn leased(homes: &[&Path], leases: &[Lease]) -> Vec<PodUid> {
    let real = |dir: &&Path| fs::canonicalize(dir).unwrap_or_else(|_| (*dir).to_owned());
    let homes: Vec<PathBuf> =
        homes.iter().map(|dir| (*dir).to_owned()).chain(homes.iter().map(real)).collect();
    let is_own =
        |place: &Path, holder: &str| homes.iter().any(|home| place.starts_with(home.join(PODS).join(holder)));
    let held = leases.iter().filter(|lease| lease.state == State::Leased && lease.members.is_none());
    let holders = held.filter_map(|lease| {
        let holder = lease.holder.as_ref()?.as_str();
        lease.places.iter().any(|place| is_own(place, holder)).then(|| PodUid::new(holder).ok())?
    });
    holders.collect()
}

/// Where the pod is. One with volumes in the root directory and in the state directory is found again for the latter.
fn place(shared: &Shared, uid: &PodUid, traces: &Traces) -> Place {
    let root = shared.root_dir.as_deref().filter(|_| traces.has_files || !traces.has_directory);
    let place = Place::new(&shared.state, uid, "", "").with_files_in(root);
    let links = |logs: &PathBuf| Some(logs.parent()?.with_file_name("containers"));
    match traces.logs.first() {
        Some(logs) => {
            let is_own = logs.starts_with(shared.state.join(LOGS));
            Place { log_links: links(logs).filter(|_| !is_own), logs: logs.clone(), ..place }
        }
        None => place,
    }
}

/// A pod whose removal has ended.
struct Removed {
    uid: PodUid,
    traces: Traces,
    outcome: Result<Removal>,
}

/// What has come of the removal of one pod.
#[derive(Debug, PartialEq, Eq)]
enum Removal {
    Done,
    /// Another process manages the pod, or has recorded it meanwhile.
    Managed,
}

async fn remove(shared: &Arc<Shared>, uid: &PodUid, traces: &Traces) -> Result<Removal> {
    let place = place(shared, uid, traces);
    let (state, locked) = (shared.state.clone(), place.clone());
    let Some(lock) = blocking("locking a pod", move || lock(&state, &locked)).await? else {
        return Ok(Removal::Managed);
    };
    let removed = async {
        stop_orphan::stop(shared, uid).await?;
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

    use crate::pod::pod_files::Mark;

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

    /// A kubelet's pods, and those of other agents, may be in the same directory.
    #[test]
    fn only_directories_with_the_mark_of_this_instance_are_found_in_the_root_directory() {
        let dir = tempfile::tempdir().unwrap();
        let instance = InstanceId::for_test("one");
        let logs = |name: &str| dir.path().join("logs").join(name);
        let make = |uid: &str, instance: &str, logs: PathBuf| {
            let mark = Mark { instance: InstanceId::for_test(instance), logs };
            PodFiles(&dir.path().join("pods").join(uid)).make(&mark).unwrap();
        };
        make("own", "one", logs("shop_web_own"));
        make("liar", "one", logs("shop_web_own"));
        make("other", "two", logs("shop_web_other"));
        fs::create_dir_all(dir.path().join("pods/kubelets/volumes")).unwrap();
        fs::create_dir_all(logs("shop_web_own")).unwrap();
        let mut found = Found::new();
        of_root(dir.path(), &instance, &mut found);
        let traces = |logs: Vec<PathBuf>| Traces { has_files: true, logs, ..Traces::default() };
        let expected = [(uid("own"), traces(vec![logs("shop_web_own")])), (uid("liar"), traces(vec![]))];
        assert_eq!(found, Found::from(expected));
    }

    #[test]
    fn a_pod_that_is_recorded_meanwhile_or_managed_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let orphan = Place::new(dir.path(), &uid("a"), "", "");
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
        assert_eq!(leased(&[&state], &leases), [uid("a"), uid("within")]);
        assert_eq!(leased(&[&link], &leases), [uid("a"), uid("within")]);
    }

    #[test]
    fn traces_are_listed_in_words() {
        let traces = Traces { sandboxes: 2, containers: 1, has_lease: true, ..Traces::default() };
        assert_eq!(traces.to_string(), "1 container, 2 sandboxes, the lease of host IDs");
    }
}
