//! What there is of a pod: in the runtime, in directories and in the ledger.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use ids::allocator::State;
use ledger::Lease;
use types::PodUid;
use types::keys::POD_UID;

use crate::cri::calls::{POD_NAME, POD_NAMESPACE};
use crate::owned::Owned;
use crate::pod::lock::LOCK;
use crate::pod::owners::is_unique;
use crate::pod::pod_files::PodFiles;
use crate::pod::store::PODS;

/// The directory of logs in a state directory.
pub(crate) const LOGS: &str = "logs";
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

/// Entries of a pod's directory in a kubelet's root directory. One without any of them is not a pod's.
const KUBELETS: [&str; 6] = ["etc-hosts", "containers", "volumes", "plugins", "volume-subpaths", "userns"];

/// What was found of one pod.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Traces {
    /// `namespace/name`, if something tells it.
    pub(crate) title: Option<String>,
    pub(crate) sandboxes: usize,
    pub(crate) containers: usize,
    /// In the state directory.
    pub(crate) has_directory: bool,
    /// In the root directory.
    pub(crate) has_files: bool,
    pub(crate) logs: Vec<PathBuf>,
    pub(crate) has_lease: bool,
}

/// By UID.
pub(crate) type Found = BTreeMap<PodUid, Traces>;

impl Traces {
    /// The pod's logs in the directory of all pods' logs, by the name that the runtime's labels tell.
    pub(crate) fn add_logs(&mut self, dir: &Path, uid: &PodUid) {
        let named = self.title.as_ref().and_then(|title| title.split_once('/'));
        let Some((namespace, name)) = named else { return };
        let logs = dir.join(format!("{namespace}_{name}_{uid}"));
        if !name.contains('/') && logs.is_dir() && !self.logs.contains(&logs) {
            self.logs.push(logs);
        }
    }

    /// Whether a pod of this state directory made any of it for certain.
    pub(crate) fn is_pods(&self) -> bool {
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

/// Those of the pod with these labels; `None` if they name none.
pub(crate) fn of_labels<'a>(
    found: &'a mut Found,
    labels: &BTreeMap<String, String>,
) -> Option<&'a mut Traces> {
    let traces = found.entry(PodUid::new(labels.get(POD_UID)?.as_str()).ok()?).or_default();
    let word = |key: &str| labels.get(key).filter(|text| text.chars().all(|c| c.is_ascii_graphic()));
    if let (Some(namespace), Some(name)) = (word(POD_NAMESPACE), word(POD_NAME)) {
        traces.title = Some(format!("{namespace}/{name}"));
    }
    Some(traces)
}

/// Directories of pods in the root directory: those with the mark of this instance, and those that a kubelet has left.
pub(crate) fn of_root(root: &Path, owned: &Owned, found: &mut Found) {
    for entry in fs::read_dir(root.join(PODS)).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let uid = entry.file_name().to_str().and_then(|name| PodUid::new(name).ok());
        let Some(uid) = uid.filter(|_| is_dir && owned.is_free(&path)) else { continue };
        match PodFiles(&path).mark() {
            Some(mark) => {
                let traces = found.entry(uid.clone()).or_default();
                traces.has_files = true;
                // Its name has the UID: what else is written there is not a pod's.
                if uid_of_logs(&mark.logs) == Some(uid.as_str()) && mark.logs.is_dir() {
                    traces.logs.push(mark.logs);
                }
            }
            None if is_kubelets(&path, &uid) => found.entry(uid).or_default().has_files = true,
            None => {}
        }
    }
}

/// Whether a directory without a mark is as a kubelet makes one for a pod.
fn is_kubelets(dir: &Path, uid: &PodUid) -> bool {
    is_unique(uid.as_str()) && KUBELETS.iter().any(|name| dir.join(name).symlink_metadata().is_ok())
}

/// The UID in the name of a directory of a pod's logs.
fn uid_of_logs(dir: &Path) -> Option<&str> {
    dir.file_name()?.to_str()?.splitn(3, '_').nth(2)
}

/// The logs of pods of which nothing tells the name: a kubelet names their directories as this agent does.
pub(crate) fn add_logs_by_uid(dir: &Path, found: &mut Found) {
    if found.values().all(|traces| !traces.logs.is_empty()) {
        return;
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let uid = uid_of_logs(&path).filter(|_| is_dir).and_then(|uid| PodUid::new(uid).ok());
        if let Some(traces) = uid.and_then(|uid| found.get_mut(&uid)).filter(|traces| traces.logs.is_empty())
        {
            traces.logs.push(path);
        }
    }
}

/// Directories and logs of pods.
pub(crate) fn of_state(state: &Path, found: &mut Found) {
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
pub(crate) fn leased(homes: &[&Path], leases: &[Lease]) -> Vec<PodUid> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ids::pool::IdPool;
    use ids::witness::{Sighting, Witness, WitnessError};
    use ids::{BlockLength, IdBlock};
    use ledger::{BootId, Holder, LeaseRequest, Ledger, Options};

    use crate::instance::InstanceId;
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
        let owned = Owned::new(InstanceId::for_test("one"), Some(dir.path().to_owned()));
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
        of_root(dir.path(), &owned, &mut found);
        let traces = |logs: Vec<PathBuf>| Traces { has_files: true, logs, ..Traces::default() };
        let expected = [(uid("own"), traces(vec![logs("shop_web_own")])), (uid("liar"), traces(vec![]))];
        assert_eq!(found, Found::from(expected));
    }

    /// Of a kubelet that was stopped here: it would remove them itself.
    #[test]
    fn directories_that_a_kubelet_has_left_are_found_with_their_logs() {
        let dir = tempfile::tempdir().unwrap();
        let owned = Owned::new(InstanceId::for_test("one"), Some(dir.path().to_owned()));
        let left = uid("0d3a5c1e-0000-4000-8000-000000000001");
        let of_file = uid("0123456789abcdef0123456789abcdef");
        let other = "5f8f7a1e-0000-4000-8000-000000000001";
        for path in [
            format!("pods/{left}/volumes"),
            format!("pods/{of_file}/containers"),
            format!("pods/{other}/something"),
            "pods/not-a-uid/volumes".to_owned(),
            format!("logs/shop_web_{left}"),
            format!("logs/shop_web_{other}"),
        ] {
            fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        let mut found = Found::new();
        of_root(dir.path(), &owned, &mut found);
        add_logs_by_uid(&dir.path().join("logs"), &mut found);
        let traces = |logs: Vec<PathBuf>| Traces { has_files: true, logs, ..Traces::default() };
        let logs = vec![dir.path().join(format!("logs/shop_web_{left}"))];
        assert_eq!(found, Found::from([(left, traces(logs)), (of_file, traces(vec![]))]));
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
