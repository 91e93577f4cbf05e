//! How a look is taken: processes first, then whoever can say more about them.

use std::collections::{BTreeSet, HashMap};
use std::fs;

use census::{Census, HostRoot, Owner, OwnerKind, Report};
use ids::HostSpan;
use ids::allocator::State;
use kernel::NamespaceKind;
use ledger::Lease;
use wardlet_oci::lease::{Records, gone};
use wire::Endpoint;

use super::cri::{self, Silence};
use super::identity::{Identity, Recorded, membership};
use super::look::{Books, LeaseFact, Look, Told};
use super::pods::{self, Known, Naming, Pod};
use super::violation::{Findings, Note, Unseen};
use super::walk::{Process, Walk};
use crate::failure::Failure;
use crate::node::Node;

/// Where the kubelet and whoever works like it keep the logs of pods: `<namespace>_<name>_<uid>`.
const POD_LOGS: &str = "/var/log/pods";

/// What is looked for, and where.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ask {
    /// The runtime's socket; the usual ones if not said.
    pub(crate) endpoint: Option<Endpoint>,
    /// How many entries of each mount are looked at.
    pub(crate) files: usize,
}

/// Looks, and says what could not be seen.
pub(super) fn look(node: &Node, ask: &Ask) -> Result<(Look, Findings), Failure> {
    let mut findings = Findings::default();
    let root = node.host_root().clone();
    let census = node.census().take()?;
    let walk = Walk::over(&root).map_err(|e| {
        Failure::unknown(format!("cannot list the processes in {}: {e}", root.path("/proc").display()))
    })?;
    census.blind.iter().chain(&walk.unseen).for_each(|text| findings.unseen_on_node(text));
    let on_node = |text: &String| Note { pod: None, uid: None, text: text.clone() };
    findings.notes.extend(census.notes.iter().map(on_node));
    findings.notes.extend(census.problems.iter().map(|problem| on_node(&problem.to_string())));
    let mut sources = vec![root.path("/proc").display().to_string()];
    let mut books = books(node, &census, (&mut sources, &mut findings));
    add_other_kubelets(node, &walk, &mut books, &mut sources);
    let own = recorded(node, (&mut sources, &mut findings));
    let mut known = Known::default();
    known.record(&own);
    let mut pods = pods::group(&walk, &known);
    let mut told = told(node, ask, &pods, (&mut sources, &mut findings));
    add_recorded(&mut told, own);
    known.record(&told);
    pods = pods::group(&walk, &known);
    known.started = started(&told, &pods);
    if !known.started.is_empty() {
        pods = pods::group(&walk, &known);
    }
    let mut look = Look { walk, census, pods, books, told, sources, files: ask.files, root };
    name(&mut look);
    without_processes(&look, &mut findings);
    Ok((look, findings))
}

/// A sandbox that its runtime calls ready, and of which nothing runs here, was not looked at: its processes may be where they
/// are not known for the pod's.
fn without_processes(look: &Look, findings: &mut Findings) {
    for told in look.told.iter().filter(|told| told.ready && !is_found(told, &look.pods)) {
        let text = format!(
            "sandbox {} of {}/{} is ready, but no process of it was found",
            told.id, told.namespace, told.name
        );
        findings.unseen.push(Unseen { uid: Some(told.uid.clone()), text });
    }
}

fn is_found(told: &Told, pods: &[Pod]) -> bool {
    pods.iter().any(|pod| pod.identity.key() == told.uid || pod.identity.key() == told.id)
}

type Notebook<'a> = (&'a mut Vec<String>, &'a mut Findings);

fn books(node: &Node, census: &Report, (sources, findings): Notebook<'_>) -> Books {
    let leases = node.with_existing_ledger(|ledger| match ledger {
        Some(ledger) => Ok(Some(ledger.list()?)),
        None => Ok(None),
    });
    let leases = leases.unwrap_or_else(|failure| {
        findings.unseen_on_node(format!("the ledger cannot be read: {}", failure.message()));
        None
    });
    if leases.is_some() {
        sources.push(format!("the ledger in {}", node.state_dir().display()));
    }
    let records = records(&census.owners).collect();
    let of_kubelet = node.kubelet_pods();
    let kubelet = of_kubelet.is_dir();
    if kubelet {
        sources.push(format!("the kubelet's records in {}", of_kubelet.display()));
    }
    let homes = vec![of_kubelet, node.state_dir().join("pods")];
    let leases = leases.map(|leases| leases.iter().map(fact).collect());
    Books { leases, records, kubelet, homes }
}

/// The blocks that a kubelet has recorded, by the UIDs of the pods.
fn records(owners: &[Owner]) -> impl Iterator<Item = (String, HostSpan)> {
    owners.iter().filter_map(|owner| match &owner.kind {
        OwnerKind::KubeletRecord { pod, .. } => Some((pod.clone(), *owner.uids.first()?)),
        _ => None,
    })
}

/// Adds the records of kubelets that have a root directory of their own: one in a container keeps them there, and this
/// node's directory says nothing about its pods. What the node's own kubelet has recorded goes first.
fn add_other_kubelets(node: &Node, walk: &Walk, books: &mut Books, sources: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for kubelet in walk.processes.iter().filter(|process| is_kubelet(walk, process)) {
        let Some(mounts) = kubelet.space(NamespaceKind::Mnt) else { continue };
        if !seen.insert(mounts) {
            continue;
        }
        let root = node.host_root().path(format!("/proc/{}/root", kubelet.pid));
        let census = Census { host_root: HostRoot::new(root), ..node.census() };
        let before = books.records.len();
        for (pod, span) in records(&census.recorded_owners()) {
            books.records.entry(pod).or_insert(span);
        }
        if books.records.len() > before {
            sources.push(format!("the records of the kubelet with process ID {}", kubelet.pid));
        }
    }
}

/// The name alone proves nothing: a process of a pod may have it. A kubelet has the host's users and is in no pod.
fn is_kubelet(walk: &Walk, process: &Process) -> bool {
    process.status.name == "kubelet"
        && process.space(NamespaceKind::User).is_some_and(|user| pods::is_the_hosts(walk, user))
        && membership(&process.cgroups, &Recorded::default()).is_none()
}

fn fact(lease: &Lease) -> LeaseFact {
    LeaseFact {
        holder: lease.holder.as_ref().map(ToString::to_string),
        members: lease.members.as_ref().map(|members| members.iter().map(ToString::to_string).collect()),
        uids: lease.uids.span(),
        gids: lease.gids.span(),
        leased: matches!(lease.state, State::Leased),
        categories: lease.categories.map(|pair| pair.to_string()),
    }
}

/// More is asked about sandboxes whose pod was not found, or is not isolated: nothing depends on it for others.
fn told(node: &Node, ask: &Ask, pods: &[Pod], (sources, findings): Notebook<'_>) -> Vec<Told> {
    let isolated = |told: &Told| {
        pods.iter().any(|pod| {
            pod.home.is_some() && (pod.identity.key() == told.uid || pod.identity.key() == told.id)
        })
    };
    let mut all = Vec::new();
    for endpoint in cri::endpoints(node.host_root(), ask.endpoint.as_ref()) {
        match cri::ask(&endpoint, |told| !isolated(told)) {
            Ok(told) => {
                sources.push(format!("the runtime at {endpoint}"));
                all.extend(told);
            }
            // A socket that was left behind; one that was named should answer.
            Err(Silence::Absent(_)) if ask.endpoint.is_none() => {}
            Err(Silence::Absent(cause) | Silence::Failed(cause)) => {
                findings.unseen_on_node(format!("the CRI endpoint did not respond: {cause}"));
            }
        }
    }
    wrapped(node, &mut all, (sources, findings));
    all
}

/// The sandboxes of the built-in runtime, by its own records: no server need answer for them to be known.
fn recorded(node: &Node, (sources, findings): Notebook<'_>) -> Vec<Told> {
    let (sandboxes, unreadable) = runtime::recorded_sandboxes(node.state_dir());
    unreadable.iter().for_each(|error| findings.unseen_on_node(error.to_string()));
    if !sandboxes.is_empty() {
        sources.push(format!("the records of the built-in runtime in {}", node.state_dir().display()));
    }
    let told = sandboxes.into_iter().map(|sandbox| Told {
        id: sandbox.id,
        uid: sandbox.uid,
        namespace: sandbox.namespace,
        name: sandbox.name,
        ready: sandbox.ready,
        asked: sandbox.isolated,
        pid: None,
        cgroup: Some(sandbox.cgroup),
    });
    told.collect()
}

/// What the server itself says of a sandbox is newer than its record, but for the control group, which never changes.
fn add_recorded(told: &mut Vec<Told>, own: Vec<Told>) {
    for sandbox in own {
        match told.iter_mut().find(|told| told.id == sandbox.id) {
            Some(known) => known.cgroup = sandbox.cgroup,
            None => told.push(sandbox),
        }
    }
}

impl Known {
    /// Takes note of the control groups that runtimes have told of.
    fn record(&mut self, told: &[Told]) {
        for told in told {
            if let Some(cgroup) = &told.cgroup {
                self.recorded.add(cgroup, &told.id);
            }
        }
    }
}

/// Pods that asked the wrapper, by its own records: no runtime need answer for them to be known.
fn wrapped(node: &Node, told: &mut Vec<Told>, (sources, findings): Notebook<'_>) {
    let dir = node.host_root().path(&node.config.settings.wrapper.run_dir);
    if !dir.is_dir() {
        return;
    }
    let (records, unreadable) = Records::new(&dir).all().unwrap_or_else(|e| (Vec::new(), vec![e]));
    unreadable.iter().for_each(|error| findings.unseen_on_node(error.to_string()));
    sources.push(format!("the records of wardlet-oci in {}", dir.display()));
    for record in records.into_iter().filter(|record| record.is_sandbox() && !gone(record)) {
        match told.iter_mut().find(|told| told.id == record.sandbox) {
            Some(known) => known.asked = true,
            None => told.push(Told {
                pid: record.pid(),
                id: record.sandbox,
                uid: record.pod.uid,
                namespace: record.pod.namespace,
                name: record.pod.name,
                ready: true,
                asked: true,
                cgroup: None,
            }),
        }
    }
}

/// The processes of sandboxes that no control group tells of.
fn started(told: &[Told], pods: &[Pod]) -> HashMap<u32, Identity> {
    let unknown = told.iter().filter(|told| told.ready && !is_found(told, pods));
    unknown.filter_map(|told| Some((told.pid?, Identity::Sandbox(told.id.clone())))).collect()
}

/// Names, from whoever knows: the runtime, the directories of logs, the census, the ledger.
fn name(look: &mut Look) {
    let logs = log_names(look);
    let mut pods = std::mem::take(&mut look.pods);
    for pod in &mut pods {
        let key = pod.identity.key();
        let told =
            look.told.iter().filter(|told| told.uid == key || told.id == key).max_by_key(|told| told.ready);
        if let Some(told) = told {
            let said = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
            pod.naming =
                Naming { uid: said(&told.uid), namespace: said(&told.namespace), name: said(&told.name) };
        }
        if pod.naming.uid.is_none() {
            pod.naming.uid = leased_uid(look, pod);
        }
        if let Some((namespace, name)) = logs.get(pod.uid()).filter(|_| pod.naming.name.is_none()) {
            (pod.naming.namespace, pod.naming.name) = (Some(namespace.clone()), Some(name.clone()));
        }
    }
    look.pods = pods;
}

/// The agent leases in the name of the pod's UID: a sandbox that has that block is that pod's.
fn leased_uid(look: &Look, pod: &Pod) -> Option<String> {
    let (Identity::Sandbox(_), Some(_)) = (&pod.identity, pod.home) else { return None };
    let lease = look.books.leases.iter().flatten().find(|lease| lease.leased && lease.is(&pod.maps))?;
    lease.members.is_none().then(|| lease.holder.clone()).flatten()
}

fn log_names(look: &Look) -> HashMap<String, (String, String)> {
    let entries = fs::read_dir(look.root.path(POD_LOGS)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let mut parts = name.splitn(3, '_').map(str::to_owned);
        let (namespace, name, uid) = (parts.next()?, parts.next()?, parts.next()?);
        Some((uid, (namespace, name)))
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use super::*;

    /// A process in a /proc of a test's own.
    struct Shown<'a> {
        pid: u32,
        name: &'a str,
        cgroup: &'a str,
        user_namespace: u64,
    }

    fn show(root: &Path, process: &Shown<'_>) {
        let Shown { pid, name, cgroup, user_namespace } = process;
        let dir = root.join(format!("proc/{pid}"));
        fs::create_dir_all(dir.join("ns")).unwrap();
        let status = format!("Name:\t{name}\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nThreads:\t1\nGroups:\t\n");
        fs::write(dir.join("status"), status).unwrap();
        fs::write(dir.join("cgroup"), format!("0::{cgroup}\n")).unwrap();
        symlink(format!("user:[{user_namespace}]"), dir.join("ns/user")).unwrap();
    }

    #[test]
    fn only_a_process_with_the_hosts_users_outside_of_pods_is_a_kubelet() {
        const HOSTS: u64 = super::super::spaces::HOST;
        let root = tempfile::tempdir().unwrap();
        for process in [
            Shown { pid: 1, name: "init", cgroup: "/", user_namespace: HOSTS },
            Shown { pid: 2, name: "kubelet", cgroup: "/system.slice/kubelet.service", user_namespace: HOSTS },
            Shown { pid: 3, name: "kubelet", cgroup: "/kubepods/podx/container", user_namespace: HOSTS },
            Shown { pid: 4, name: "kubelet", cgroup: "/", user_namespace: 7 },
        ] {
            show(root.path(), &process);
        }
        let walk = Walk::over(&HostRoot::new(root.path())).unwrap();
        assert_eq!(walk.processes.len(), 4);
        let kubelets = walk.processes.iter().filter(|process| is_kubelet(&walk, process));
        assert_eq!(kubelets.map(|process| process.pid).collect::<Vec<_>>(), [2]);
    }
}
