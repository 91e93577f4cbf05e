//! Claims a pod for this process: adopts a recorded pod whose process has ended, or records a new one.

use std::path::Path;

use admission::RunningPods;
use ids::BlockLength;
use manifest::k8s_openapi::api::core::v1::Pod;
use plan::{Plan, UserNamespaceMode, UserNamespacePlan};
use types::PodUid;

use crate::error::{Error, Result};
use crate::instance::random_uuid;
use crate::pod::allocation::PodAllocation;
use crate::pod::change::{self, Change, Resizes};
use crate::pod::hash::hash;
use crate::pod::lock::{Names, PodLock};
use crate::pod::names::names;
use crate::pod::owners::{Owners, valid_uid};
use crate::pod::resize;
use crate::pod::resize::record::ResizeRecord;
use crate::pod::store::{Parts, Place, PodRecord, Stored, stored, stored_one};
use crate::pod::sweep::sweep;
use crate::pod::unrecorded::Unrecorded;
use crate::status::view::PodStatus;
use admission::Admitted;

/// A pod whose lock this process holds.
pub(crate) struct Claimed {
    pub(crate) place: Place,
    pub(crate) lock: PodLock,
    /// The pod's record, which is on disk.
    pub(crate) record: PodRecord,
    pub(crate) origin: Origin,
    /// How the pod is run; `None` for one that is only removed.
    pub(crate) plan: Option<Plan>,
}

/// Whether a claimed pod is new or adopted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// No pod of this name was recorded.
    New,
    /// The process that managed it has ended; the pod is on the same runtime.
    Left,
    /// It runs, and its record is lost: it has a new one.
    Unrecorded,
    /// The pod has ended, and its records were kept: it must be removed, and then be claimed again.
    Ended,
}

/// Whether the runtime has a ready sandbox of the recorded pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sandbox {
    Ready,
    /// Nothing of the pod runs: its process was killed before it was started, or the node was rebooted.
    None,
}

/// The recorded pod of this namespace and name.
pub(crate) fn recorded(state: &Path, pod: &Pod) -> Result<Option<PodUid>> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let (known, _) = names(state)?;
    Ok(known.iter().find(|known| known.is(namespace, name)).map(|known| known.uid.clone()))
}

/// Where pods of this agent are recorded and run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Home<'a> {
    pub(crate) state: &'a Path,
    pub(crate) endpoint: &'a str,
    /// The directory of all pods' logs, where it is not in the state directory.
    pub(crate) pod_logs_dir: Option<&'a Path>,
    /// The directory that has the volumes and files of new pods, where it is not the state directory.
    pub(crate) root_dir: Option<&'a Path>,
}

impl Home<'_> {
    /// The pods of a cluster are resized in place. One of manifests is made anew for other resources.
    fn resizes(self) -> Resizes {
        if self.root_dir.is_some() { Resizes::InPlace } else { Resizes::No }
    }
}

/// What the runtime has of a pod that is claimed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Found {
    /// Of the recorded pod of this name.
    pub(crate) sandbox: Sandbox,
    /// Of a pod of this name and UID without a record.
    pub(crate) unrecorded: Option<Unrecorded>,
    /// The resources that such a pod has in effect, by what a kubelet has recorded.
    pub(crate) actuated: Option<PodAllocation>,
}

/// Claims the recorded pod of this namespace and name, or records a new one. The definition of a pod that has ended
/// does not count.
///
/// # Errors
/// If another process manages the pod, if it runs with a definition that this one is not an update of, if its
/// `metadata.uid` has another owner, or if a record cannot be read or written.
pub(crate) fn claim(home: Home<'_>, admitted: &Admitted, owners: &Owners, found: Found) -> Result<Claimed> {
    let Home { state, endpoint, .. } = home;
    let locked = Names::lock(state)?;
    sweep(state, &locked);
    let metadata = &admitted.pod.metadata;
    let name = metadata.name.clone().unwrap_or_default();
    let namespace = metadata.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let title = format!("{namespace}/{name}");
    let (known, wrong) = names(state)?;
    owners.check_others(&title, &known)?;
    let is_taken = |error: &Error| is_of(error, &namespace, &name) || owners.has_record_at(error);
    if let Some(error) = wrong.into_iter().find(is_taken) {
        return Err(error);
    }
    if let Some(same) = known.iter().find(|known| known.is(&namespace, &name))
        && let Some(known) = stored_one(state, same.uid.as_str())?
    {
        return left(home, admitted, known, found.sandbox);
    }
    let plan = match &found.unrecorded {
        Some(unrecorded) => unrecorded.plan(admitted).ok_or_else(|| Error::Other { pod: title.clone() })?,
        None => {
            owners.check_unrecorded(&title)?;
            to_create(admitted, &title)?
        }
    };
    let uid = owners.uid().map_or_else(new_uid, |uid| Ok(uid.clone()))?;
    let place = Place::new(state, &uid, &namespace, &name).with_logs_in(home.pod_logs_dir);
    let place = place.with_files_in(home.root_dir);
    let lock = place.take()?.ok_or(Error::Managed { pod: title })?;
    let mut record = PodRecord::new(Parts {
        pod: with_uid(&admitted.pod, &uid),
        uid,
        namespace,
        name,
        hash: definition(&admitted.pod, plan.user_namespace),
        endpoint: endpoint.to_owned(),
        handler: admitted.intent.runtime_handler.clone(),
        pod_logs_dir: home.pod_logs_dir.map(Path::to_owned),
        root_dir: home.root_dir.map(Path::to_owned),
    });
    let origin = match found.unrecorded {
        Some(Unrecorded { handler, users }) => {
            // The pod keeps the block that it has, or it is not adopted.
            (record.uids, record.gids) = (users.uids.into_iter().collect(), users.gids.into_iter().collect());
            record.mode = if record.uids.is_empty() { "host" } else { "own" }.to_owned();
            record.handler = handler;
            let spec = record.pod.spec.clone().unwrap_or_default();
            record.resize = found.actuated.and_then(|actuated| ResizeRecord::of_kubelet(&actuated, &spec));
            record.has_runtime_level = true;
            Origin::Unrecorded
        }
        None => Origin::New,
    };
    place.write_record(&record)?;
    Ok(Claimed { place, lock, record, origin, plan: Some(plan.clone()) })
}

/// The plan of a pod that is created.
fn to_create<'a>(admitted: &'a Admitted, title: &str) -> Result<&'a Plan> {
    admitted.plan.as_ref().map_err(|refused| Error::NotAdmitted {
        pod: title.to_owned(),
        field: refused.field.clone(),
        cause: refused.cause.clone(),
        hint: refused.hint.clone(),
    })
}

/// The plan under which a recorded pod is adopted: the one that gives it the user namespace that it has. Nothing of a
/// pod whose record was written and that has no block yet was created, so it gets the plan of a new one. So does a pod with
/// the host's users of which nothing runs: it keeps no isolation that it could lose.
fn to_adopt<'a>(record: &PodRecord, admitted: &'a Admitted, sandbox: Sandbox) -> Option<&'a Plan> {
    let has = |users: UserNamespacePlan| record.hash == format!("{:016x}", definition(&record.pod, users));
    let fresh = admitted.plan.as_ref().ok();
    let host = UserNamespacePlan { mode: UserNamespaceMode::Host, length: None };
    let is_unprepared = record.uids.is_empty() && (!has(host) || sandbox == Sandbox::None);
    let running = admitted.running.iter().filter(|_| !is_unprepared);
    let of_record = fresh.into_iter().chain(running).find(|plan| has(plan.user_namespace));
    of_record.or(fresh.filter(|_| is_unprepared))
}

/// The user namespaces of the pods in this state directory that a process which has ended left running. A new definition
/// of such a pod is planned for the user namespace that it has.
///
/// # Errors
/// If the directory cannot be read.
pub fn running_pods(state: &Path) -> Result<RunningPods> {
    let (known, _) = stored(state)?;
    Ok(left_running(known))
}

/// The same of the pod of this name only.
///
/// # Errors
/// If the directory or the pod's record cannot be read.
pub fn running_pod(state: &Path, namespace: &str, name: &str) -> Result<RunningPods> {
    let (known, _) = names(state)?;
    let named = known.iter().find(|known| known.is(namespace, name));
    let known = named.map(|named| stored_one(state, named.uid.as_str())).transpose()?.flatten();
    Ok(left_running(known))
}

fn left_running(known: impl IntoIterator<Item = Stored>) -> RunningPods {
    let left = (known.into_iter())
        .filter(|pod| !pod.is_managed && !pod.status.as_ref().is_some_and(PodStatus::is_terminated));
    let users = left.map(|Stored { record, .. }| {
        let users = users_of(&record);
        ((record.namespace, record.name), users)
    });
    RunningPods(users.collect())
}

/// The user namespace of a recorded pod, as its plan has it.
fn users_of(record: &PodRecord) -> UserNamespacePlan {
    let length = record.uids.first().and_then(|line| BlockLength::try_from(line.length()).ok());
    let mode = match record.mode.as_str() {
        "own" => UserNamespaceMode::Own,
        "shared" => UserNamespaceMode::Shared,
        _ => UserNamespaceMode::Host,
    };
    UserNamespacePlan { mode, length }
}

/// Whether a record that cannot be read is of this pod, by the namespace and name in it. Such a pod may be
/// running.
fn is_of(error: &Error, namespace: &str, name: &str) -> bool {
    let Error::Record { path, .. } = error else { return false };
    let text = std::fs::read(path).unwrap_or_default();
    let found: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
    let word = |key: &str| found.get(key).and_then(serde_json::Value::as_str).unwrap_or_default();
    (word("namespace"), word("name")) == (namespace, name)
}

/// Adopts a recorded pod with its new definition, if that is an update of the recorded one. One that has ended or is
/// being stopped is adopted with its recorded definition, whatever the new one.
fn left(home: Home<'_>, admitted: &Admitted, known: Stored, sandbox: Sandbox) -> Result<Claimed> {
    let Home { state, endpoint, .. } = home;
    let Stored { record, is_managed, status, .. } = known;
    let title = format!("{}/{}", record.namespace, record.name);
    if is_managed {
        return Err(Error::Managed { pod: title });
    }
    let plan = to_adopt(&record, admitted, sandbox);
    let change = change::between(&record.pod, &admitted.pod, home.resizes());
    let has_ended = status.is_some_and(|status| status.is_terminated());
    let is_other = plan.is_none() || matches!(change, Change::Immutable(_));
    let place = Place::of(state, &record);
    let is_ending = place.stop_request().is_some();
    if record.endpoint != endpoint || (is_other && !has_ended && !is_ending) {
        if sandbox == Sandbox::None {
            // Nothing of it runs: the reason is that it may not be created.
            to_create(admitted, &title)?;
        }
        return Err(Error::Other { pod: title });
    }
    let lock = place.take()?.ok_or(Error::Managed { pod: title })?;
    if has_ended {
        return Ok(Claimed { place, lock, record, origin: Origin::Ended, plan: None });
    }
    let record = record.managed_by_this_process();
    if is_ending {
        return Ok(Claimed { place, lock, record, origin: Origin::Left, plan: None });
    }
    let record = match plan {
        // Also the hash of a pod that was not prepared and gets another user namespace.
        Some(plan) => {
            let resize = resized(&record, &admitted.pod);
            let hash = definition(&admitted.pod, plan.user_namespace);
            record.updated(admitted.pod.clone(), hash, resize)
        }
        None => record,
    };
    Ok(Claimed { place, lock, record, origin: Origin::Left, plan: plan.cloned() })
}

/// What of a recorded pod does not have the resources of its new definition.
fn resized(record: &PodRecord, pod: &Pod) -> Option<ResizeRecord> {
    let (before, after) = (record.pod.spec.clone().unwrap_or_default(), pod.spec.clone().unwrap_or_default());
    let generation = pod.metadata.generation;
    let change = resize::record::Change { before: &before, after: &after, generation, instances: None };
    ResizeRecord::begin(record.resize.clone(), &change)
}

fn with_uid(pod: &Pod, uid: &PodUid) -> Pod {
    let mut pod = pod.clone();
    pod.metadata.uid = Some(uid.as_str().to_owned());
    pod
}

/// A hash over all parts of a pod's definition and its user namespace.
pub(crate) fn definition(pod: &Pod, users: UserNamespacePlan) -> u64 {
    hash(&(&pod.spec, &pod.metadata.labels, &pod.metadata.annotations, users))
}

fn new_uid() -> Result<PodUid> {
    valid_uid(&random_uuid()?)
}

#[cfg(test)]
mod tests {
    use crate::pod::owners::GivenUid;
    use crate::pod::store::StopRequest;
    use crate::pod::unrecorded::SandboxUsers;
    use plan::{Gates, Intent, Namespaces, Owner, PodIdentity};

    use super::*;

    #[test]
    fn a_record_that_cannot_be_read_keeps_its_name_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("agent.json");
        std::fs::write(&path, r#"{"version":9,"namespace":"shop","name":"web","more":1}"#).unwrap();
        let error = Error::Record { path: path.clone(), cause: "version 9 is not known here".into() };
        assert!(is_of(&error, "shop", "web") && !is_of(&error, "shop", "db"));
        std::fs::write(&path, "rubbish").unwrap();
        assert!(!is_of(&error, "shop", "web"));
    }

    fn found(sandbox: Sandbox) -> Found {
        Found { sandbox, unrecorded: None, actuated: None }
    }

    fn home(state: &Path) -> Home<'_> {
        Home { state, endpoint: "unix:///run/x.sock", pod_logs_dir: None, root_dir: None }
    }

    fn intent() -> Intent {
        let text =
            "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: a, image: i}]}\n";
        let objects = manifest::read("x.yaml", text.as_bytes()).objects;
        admission::consider(&objects, &Gates::default())[0].intent.clone().unwrap()
    }

    fn admitted(label: &str, image: &str, mode: UserNamespaceMode) -> Admitted {
        let text = format!(
            r#"{{"metadata":{{"name":"web","namespace":"shop","labels":{{"app":"{label}"}}}},
            "spec":{{"containers":[{{"name":"a","image":"{image}","tty":{}}}]}}}}"#,
            image.ends_with("tty")
        );
        let namespaces = Namespaces { network: Owner::Own, pid: Owner::Own, ipc: Owner::Own };
        let plan = Plan {
            pod: PodIdentity::default(),
            user_namespace: UserNamespacePlan { mode, length: None },
            namespaces,
            closed_gate: None,
            lease_categories: false,
            volumes: Vec::new(),
            mounts: Vec::new(),
            warnings: Vec::new(),
            reasons: Vec::new(),
        };
        Admitted {
            pod: serde_json::from_str(&text).unwrap(),
            intent: intent(),
            plan: Ok(plan),
            running: None,
        }
    }

    #[test]
    fn a_pod_that_was_left_is_adopted_by_an_update_and_by_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let claim = |admitted: &Admitted| {
            claim(home(dir.path()), admitted, &Owners::default(), found(Sandbox::Ready))
        };
        let own = UserNamespaceMode::Own;
        let first = claim(&admitted("first", "i:1", own)).unwrap();
        assert_eq!(first.origin, Origin::New);
        let uid = first.record.uid.clone();
        let taken = claim(&admitted("first", "i:1", own)).err().unwrap();
        assert!(matches!(taken, Error::Managed { .. }), "{taken}");
        drop(first);

        let again = claim(&admitted("first", "i:1", own)).unwrap();
        assert_eq!((again.origin, &again.record.uid), (Origin::Left, &uid));
        drop(again);
        let updated = claim(&admitted("second", "i:2", own)).unwrap();
        assert_eq!((updated.origin, &updated.record.uid), (Origin::Left, &uid));
        assert_eq!(updated.record.pod.metadata.uid.as_deref(), Some(uid.as_str()));
        assert_eq!(updated.record.pod.metadata.labels.clone().unwrap()["app"], "second");
        // It has its block: something of it may run.
        let mut prepared = updated.record.clone();
        prepared.uids = vec![ids::IdMapping::new(0, 65_536, 65_536).unwrap()];
        prepared.mode = "own".to_owned();
        updated.place.write_record(&prepared).unwrap();
        drop(updated);

        // The next definition is compared with the recorded one.
        assert!(claim(&admitted("second", "i:2", own)).is_ok());
        let others =
            || [admitted("second", "i:2-tty", own), admitted("second", "i:2", UserNamespaceMode::Host)];
        for other in others() {
            let refused = claim(&other).err().unwrap();
            assert!(matches!(refused, Error::Other { .. }), "{refused}");
        }

        // The definition of a pod that was being stopped does not count: it is stopped first.
        let place = Place::new(dir.path(), &uid, "shop", "web");
        place.write_stop(&StopRequest { grace: None }).unwrap();
        for other in others() {
            let left = claim(&other).unwrap();
            assert_eq!((left.origin, &left.record.uid), (Origin::Left, &uid));
            assert_eq!(left.record.pod.spec.unwrap().containers[0].image.as_deref(), Some("i:2"));
        }

        // Nor does that of a pod that has ended.
        let status = serde_json::json!({"phase": "Succeeded", "stage": "Terminated", "started": 1, "ips": [],
            "conditions": [], "init": [], "containers": []});
        place.write_status(&serde_json::from_value(status).unwrap()).unwrap();
        for other in others() {
            assert_eq!(claim(&other).unwrap().origin, Origin::Ended);
        }
    }

    /// A gate that was switched off and on again changes the user namespace of new pods only.
    #[test]
    fn a_pod_that_was_left_keeps_its_user_namespace_and_a_new_one_gets_the_planned_one() {
        let dir = tempfile::tempdir().unwrap();
        let claim = |admitted: &Admitted| {
            claim(home(dir.path()), admitted, &Owners::default(), found(Sandbox::Ready))
        };
        let (own, host) = (UserNamespaceMode::Own, UserNamespaceMode::Host);
        let mode = |claimed: &Claimed| claimed.plan.as_ref().unwrap().user_namespace.mode;
        for (first, second) in [(own, host), (host, own)] {
            let started = claim(&admitted("a", "i:1", first)).unwrap();
            let mut record = started.record.clone();
            record.mode = if first == own { "own" } else { "host" }.to_owned();
            let line = ids::IdMapping::new(0, 65_536, 65_536).unwrap();
            record.uids = (first == own).then_some(line).into_iter().collect();
            started.place.write_record(&record).unwrap();
            drop(started);

            let key = ("shop".to_owned(), "web".to_owned());
            assert_eq!(running_pods(dir.path()).unwrap().0[&key].mode, first);
            let switched = admitted("a", "i:1", second);
            assert!(matches!(claim(&switched).err().unwrap(), Error::Other { .. }));
            let kept = Admitted { running: admitted("a", "i:1", first).plan.ok(), ..switched };
            let adopted = claim(&kept).unwrap();
            assert_eq!((adopted.origin, mode(&adopted)), (Origin::Left, first));
            assert_eq!(adopted.record.hash, record.hash);

            // The plan of a pod that ran is never that of a new one.
            adopted.place.remove().unwrap();
            drop(adopted);
            let anew = claim(&kept).unwrap();
            assert_eq!((anew.origin, mode(&anew)), (Origin::New, second));
            anew.place.remove().unwrap();
            drop(anew);
            let refused = admission::Refused {
                field: "spec.hostUsers".into(),
                cause: "off".into(),
                hint: String::new(),
                at: None,
            };
            let only_running = Admitted { plan: Err(refused), ..kept };
            assert!(matches!(claim(&only_running).err().unwrap(), Error::NotAdmitted { .. }));
        }
    }

    /// A pod that was recorded while the feature was off, and that was killed before its start or by a reboot, started with
    /// the host's users although the feature was on again, and although new pods were to be refused.
    #[test]
    fn a_pod_of_which_nothing_runs_does_not_keep_the_hosts_users() {
        let dir = tempfile::tempdir().unwrap();
        let (own, host) = (UserNamespaceMode::Own, UserNamespaceMode::Host);
        let claim =
            |admitted: &Admitted, sandbox| claim(home(dir.path()), admitted, &Owners::default(), sandbox);
        drop(claim(&admitted("a", "i:1", host), found(Sandbox::None)).unwrap());
        let kept = Admitted { running: admitted("a", "i:1", host).plan.ok(), ..admitted("a", "i:1", own) };
        let mode = |claimed: Claimed| claimed.plan.unwrap().user_namespace.mode;
        assert_eq!(mode(claim(&kept, found(Sandbox::Ready)).unwrap()), host);
        assert_eq!(mode(claim(&kept, found(Sandbox::None)).unwrap()), own);
        let (field, cause) = ("spec.hostUsers".to_owned(), "off".to_owned());
        let refused = admission::Refused { field, cause, hint: String::new(), at: None };
        let refused = Admitted { plan: Err(refused), ..kept };
        assert_eq!(mode(claim(&refused, found(Sandbox::Ready)).unwrap()), host);
        let error = claim(&refused, found(Sandbox::None)).err().unwrap();
        assert!(matches!(error, Error::NotAdmitted { .. }), "{error}");
    }

    /// Its record was lost: with another block its containers could not be adopted, and its volumes were not its own.
    #[test]
    fn a_pod_that_runs_without_a_record_gets_one_with_the_block_that_it_has() {
        let dir = tempfile::tempdir().unwrap();
        let (state, root) = (dir.path().join("state"), dir.path().join("root"));
        std::fs::create_dir(&state).unwrap();
        let line = ids::IdMapping::new(0, 131_072, 65_536).unwrap();
        let users = SandboxUsers { uids: Some(line), gids: Some(line) };
        let unrecorded = Unrecorded { handler: "runc".to_owned(), users };
        let claim = |admitted: &Admitted| {
            let found =
                Found { sandbox: Sandbox::None, unrecorded: Some(unrecorded.clone()), actuated: None };
            let home = Home { root_dir: Some(&root), ..home(&state) };
            claim(home, admitted, &Owners::default(), found)
        };
        let host = admitted("a", "i:1", UserNamespaceMode::Host);
        assert!(matches!(claim(&host).err().unwrap(), Error::Other { .. }), "it would lose its isolation");
        let own = admitted("a", "i:1", UserNamespaceMode::Own);
        let kept = Admitted { running: own.plan.clone().ok(), ..host };
        for admitted in [own, kept] {
            let claimed = claim(&admitted).unwrap();
            assert_eq!(claimed.origin, Origin::Unrecorded);
            assert_eq!(claimed.plan.unwrap().user_namespace.mode, UserNamespaceMode::Own);
            assert_eq!((&claimed.record.uids, &claimed.record.gids), (&vec![line], &vec![line]));
            assert_eq!(claimed.record.mode, "own", "until its block is leased, too");
            assert!(claimed.record.has_runtime_level, "its containers would not share their files");
            assert_eq!(
                (claimed.record.handler.as_str(), claimed.record.root_dir.as_deref()),
                ("runc", Some(&*root))
            );
            assert_eq!(claimed.place.files, root.join("pods").join(claimed.record.uid.as_str()));
            assert_eq!((claimed.place.home(), claimed.place.dir.starts_with(&state)), (&*root, true));
            claimed.place.remove().unwrap();
        }
    }

    /// Nothing of it was created, so it has nothing to keep.
    #[test]
    fn a_pod_that_was_recorded_and_not_prepared_gets_the_planned_user_namespace() {
        let dir = tempfile::tempdir().unwrap();
        let claim = |mode| {
            claim(home(dir.path()), &admitted("a", "i:1", mode), &Owners::default(), found(Sandbox::None))
        };
        drop(claim(UserNamespaceMode::Own).unwrap());
        let again = claim(UserNamespaceMode::Host).unwrap();
        assert_eq!(again.origin, Origin::Left);
        let host = UserNamespacePlan { mode: UserNamespaceMode::Host, length: None };
        assert_eq!(again.record.hash, format!("{:016x}", definition(&again.record.pod, host)));
    }

    /// A pod with the UID of one whose process was killed ran in that one's sandbox, with its volumes.
    #[test]
    fn a_pod_does_not_take_over_the_uid_of_another() {
        let dir = tempfile::tempdir().unwrap();
        let own = UserNamespaceMode::Own;
        let web =
            claim(home(dir.path()), &admitted("a", "i:1", own), &Owners::default(), found(Sandbox::Ready))
                .unwrap();
        let uid = web.record.uid.clone();
        let with_uid = |lease: Option<&str>| {
            let lease = lease.map(str::to_owned);
            Owners(Some(GivenUid { uid: uid.clone(), sandboxes: Vec::new(), lease }))
        };
        let mut thief = admitted("a", "i:1", own);
        (thief.pod.metadata.namespace, thief.pod.metadata.name) = (Some("evil".into()), Some("thief".into()));
        let refused =
            |owners: &Owners| claim(home(dir.path()), &thief, owners, found(Sandbox::Ready)).err().unwrap();
        let path = web.place.dir.join("agent.json");
        drop(web);
        let error = refused(&with_uid(None)).to_string();
        assert!(error.contains("evil/thief: metadata.uid") && error.ends_with("pod shop/web"), "{error}");

        // The pod itself is adopted, with the lease that it has.
        let leased = with_uid(Some("a holder"));
        let again =
            claim(home(dir.path()), &admitted("a", "i:1", own), &leased, found(Sandbox::Ready)).unwrap();
        assert_eq!((again.origin, &again.record.uid), (Origin::Left, &uid));
        let place = again.place.clone();
        drop(again);

        std::fs::write(&path, "rubbish").unwrap();
        assert!(matches!(refused(&with_uid(None)), Error::Record { .. }));
        std::fs::remove_file(&path).unwrap();
        let error = refused(&leased);
        assert!(matches!(&error, Error::UidTaken { owner, .. } if owner == "a holder"), "{error}");
        assert!(!place.dir.exists(), "a refused pod left a directory");
        assert_eq!(
            claim(home(dir.path()), &thief, &with_uid(None), found(Sandbox::Ready)).unwrap().record.uid,
            uid
        );
    }
}
