//! How the host is scanned: processes first, then the runtimes and records that name their pods.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use census::{Census, HostRoot, Owner, OwnerKind, Report};
use cri::Endpoint;
use ids::HostSpan;
use ids::allocator::State;
use kernel::NamespaceKind;
use ledger::{Lease, PairConflict};
use node::Node;
use oci_records::{Records, gone};

use crate::Error;
use crate::identity::{Identity, Recorded, membership};
use crate::pods::{self, Known, Naming, Pod};
use crate::sandboxes::{self, Silence};
use crate::scan::{HostScan, LeaseFact, NodeRecords, ReportedSandbox, SharedPair};
use crate::violation::{Findings, Note, Unseen};
use crate::walk::{Process, Walk};

/// Where the kubelet, and a runtime in its place, keep the logs of pods: `<namespace>_<name>_<uid>`.
const POD_LOGS: &str = "/var/log/pods";

/// What is looked for, and where.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The runtime's socket; those at the usual addresses if `None`.
    pub endpoint: Option<Endpoint>,
    /// How many entries of each mount are looked at.
    pub files: usize,
    /// Reads the records of the built-in runtime below the node's state directory, without its server. It is a function,
    /// because each look reads them anew.
    pub recorded: fn(&Path) -> RecordedSandboxes,
}

/// The records of the built-in runtime.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordedSandboxes {
    /// Every sandbox whose record can be read.
    pub sandboxes: Vec<RecordedSandbox>,
    /// Why the other records cannot be read, a sentence each.
    pub unreadable: Vec<String>,
}

/// A sandbox, as the built-in runtime has recorded it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedSandbox {
    /// Its ID.
    pub id: String,
    /// The pod's UID.
    pub uid: String,
    /// The pod's namespace.
    pub namespace: String,
    /// The pod's name.
    pub name: String,
    /// The control group that its containers are in: the path from the root of each hierarchy.
    pub cgroup: String,
    /// Whether it was asked for with a user namespace of its own.
    pub isolated: bool,
    /// Whether it was made in this boot and has not been stopped.
    pub ready: bool,
}

/// Looks, and says what could not be seen.
pub(crate) fn scan(node: &Node, ask: &Ask) -> Result<(HostScan, Findings), Error> {
    let mut findings = Findings::default();
    let root = node.host_root().clone();
    let census = node.census().take()?;
    let unlisted = |cause| Error::Processes { dir: root.path("/proc"), cause };
    let walk = Walk::over(&root).map_err(unlisted)?;
    census.blind.iter().chain(&walk.unseen).for_each(|text| findings.unseen_on_node(text));
    let on_node = |text: &String| Note { pod: None, uid: None, text: text.clone() };
    findings.notes.extend(census.notes.iter().map(on_node));
    findings.notes.extend(census.problems.iter().map(|problem| on_node(&problem.to_string())));
    let mut sources = vec![root.path("/proc").display().to_string()];
    let mut records = records(node, &census, &mut sources, &mut findings);
    add_other_kubelets(node, &walk, &mut records, &mut sources);
    let own = recorded(node, ask, &mut sources, &mut findings);
    let mut known = Known::default();
    known.record(&own);
    let mut pods = pods::group(&walk, &known);
    let mut reported = reported(node, ask, &pods, &mut sources, &mut findings);
    add_recorded(&mut reported, own);
    known.record(&reported);
    pods = pods::group(&walk, &known);
    known.started = started(&reported, &pods);
    if !known.started.is_empty() {
        pods = pods::group(&walk, &known);
    }
    let mut scan = HostScan { walk, census, pods, records, reported, sources, files: ask.files, root };
    name(&mut scan);
    without_processes(&scan, &mut findings);
    unread(&scan, &mut findings);
    Ok((scan, findings))
}

/// A pod whose processes show no user namespace is neither isolated nor not isolated, as far as can be seen.
fn unread(scan: &HostScan, findings: &mut Findings) {
    for pod in &scan.pods {
        let Some(process) = pod.unread.and_then(|at| scan.walk.processes.get(at)) else { continue };
        let text = format!(
            "whether {} is isolated: reading the user namespace of {} takes root (CAP_SYS_PTRACE)",
            pod.title(),
            process.name()
        );
        findings.unseen_of(pod, text);
    }
}

/// A sandbox that its runtime calls ready, and of which nothing runs here, was not looked at: its processes may be where they
/// are not known for the pod's.
fn without_processes(scan: &HostScan, findings: &mut Findings) {
    for reported in scan.reported.iter().filter(|reported| reported.ready && !is_found(reported, &scan.pods))
    {
        let text = format!(
            "sandbox {} of {}/{} is ready, but no process of it was found",
            reported.id, reported.namespace, reported.name
        );
        findings.unseen.push(Unseen { uid: Some(reported.uid.clone()), text });
    }
}

fn is_found(reported: &ReportedSandbox, pods: &[Pod]) -> bool {
    pods.iter().any(|pod| pod.identity.key() == reported.uid || pod.identity.key() == reported.id)
}

fn records(node: &Node, census: &Report, sources: &mut Vec<String>, findings: &mut Findings) -> NodeRecords {
    let leases = node.with_existing_ledger(|ledger| match ledger {
        Some(ledger) => Ok(Some((ledger.list()?, ledger.pair_conflicts()?))),
        None => Ok(None),
    });
    let leases = leases.unwrap_or_else(|error: node::Error| {
        findings.unseen_on_node(format!("the ledger cannot be read: {error}"));
        None
    });
    if leases.is_some() {
        sources.push(format!("the ledger in {}", node.state_dir().display()));
    }
    let kubelet_records = kubelet_records(&census.owners).collect();
    let of_kubelet = node.kubelet_pods();
    let kubelet = of_kubelet.is_dir();
    if kubelet {
        sources.push(format!("the kubelet's records in {}", of_kubelet.display()));
    }
    let homes = vec![of_kubelet, node.state_dir().join("pods")];
    let logs = vec![node.host_root().path(POD_LOGS), node.state_dir().join("logs")];
    let (leases, conflicts) = leases.unzip();
    let shared_pairs = conflicts.iter().flatten().map(shared_pair).collect();
    let leases = leases.map(|leases: Vec<Lease>| leases.iter().map(fact).collect());
    NodeRecords { leases, shared_pairs, kubelet_records, kubelet, homes, logs }
}

/// The blocks that a kubelet has recorded, by the UIDs of the pods.
fn kubelet_records(owners: &[Owner]) -> impl Iterator<Item = (String, HostSpan)> {
    owners.iter().filter_map(|owner| match &owner.kind {
        OwnerKind::KubeletRecord { pod, .. } => Some((pod.clone(), *owner.uids.first()?)),
        _ => None,
    })
}

/// Adds the records of kubelets that have a root directory of their own: one in a container keeps them there, and this
/// node's directory says nothing about its pods. What the node's own kubelet has recorded goes first.
fn add_other_kubelets(node: &Node, walk: &Walk, records: &mut NodeRecords, sources: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for kubelet in walk.processes.iter().filter(|process| is_kubelet(walk, process)) {
        let Some(mounts) = kubelet.space(NamespaceKind::Mnt) else { continue };
        if !seen.insert(mounts) {
            continue;
        }
        let root = node.host_root().path(format!("/proc/{}/root", kubelet.pid));
        let census = Census { host_root: HostRoot::new(root), ..node.census() };
        let before = records.kubelet_records.len();
        for (pod, span) in kubelet_records(&census.recorded_owners()) {
            records.kubelet_records.entry(pod).or_insert(span);
        }
        if records.kubelet_records.len() > before {
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

fn shared_pair(conflict: &PairConflict) -> SharedPair {
    SharedPair {
        pair: conflict.pair.to_string(),
        holder: conflict.holder.to_string(),
        other: conflict.other.as_ref().map_or_else(|| "a pinned lease".to_owned(), ToString::to_string),
    }
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
fn reported(
    node: &Node,
    ask: &Ask,
    pods: &[Pod],
    sources: &mut Vec<String>,
    findings: &mut Findings,
) -> Vec<ReportedSandbox> {
    let isolated = |reported: &ReportedSandbox| {
        pods.iter().any(|pod| {
            pod.home.is_some() && (pod.identity.key() == reported.uid || pod.identity.key() == reported.id)
        })
    };
    let mut all = Vec::new();
    for endpoint in sandboxes::endpoints(node, ask.endpoint.as_ref()) {
        match sandboxes::ask(&endpoint, |reported| !isolated(reported)) {
            Ok(reported) => {
                sources.push(format!("the runtime at {endpoint}"));
                all.extend(reported);
            }
            // A socket that was left behind; one that was named should answer.
            Err(Silence::Absent(_)) if ask.endpoint.is_none() => {}
            Err(Silence::Absent(cause) | Silence::Failed(cause)) => {
                findings.unseen_on_node(format!("the CRI endpoint did not respond: {cause}"));
            }
        }
    }
    wrapped(node, &mut all, sources, findings);
    all
}

/// The sandboxes of the built-in runtime, by its own records: no server need answer for them to be known.
fn recorded(
    node: &Node,
    ask: &Ask,
    sources: &mut Vec<String>,
    findings: &mut Findings,
) -> Vec<ReportedSandbox> {
    let RecordedSandboxes { sandboxes, unreadable } = (ask.recorded)(node.state_dir());
    unreadable.into_iter().for_each(|text| findings.unseen_on_node(text));
    if !sandboxes.is_empty() {
        sources.push(format!("the records of the built-in runtime in {}", node.state_dir().display()));
    }
    let reported = sandboxes.into_iter().map(|sandbox| ReportedSandbox {
        id: sandbox.id,
        uid: sandbox.uid,
        namespace: sandbox.namespace,
        name: sandbox.name,
        ready: sandbox.ready,
        asked: sandbox.isolated,
        pid: None,
        cgroup: Some(sandbox.cgroup),
    });
    reported.collect()
}

/// What the server itself says of a sandbox is newer than its record, but for the control group, which never changes.
fn add_recorded(reported: &mut Vec<ReportedSandbox>, own: Vec<ReportedSandbox>) {
    for sandbox in own {
        match reported.iter_mut().find(|reported| reported.id == sandbox.id) {
            Some(known) => known.cgroup = sandbox.cgroup,
            None => reported.push(sandbox),
        }
    }
}

impl Known {
    /// Records the cgroups that runtimes have reported.
    fn record(&mut self, reported: &[ReportedSandbox]) {
        for reported in reported {
            if let Some(cgroup) = &reported.cgroup {
                self.recorded.add(cgroup, &reported.id);
            }
        }
    }
}

/// Pods that asked the wrapper, by its own records: no runtime need answer for them to be known.
fn wrapped(
    node: &Node,
    reported: &mut Vec<ReportedSandbox>,
    sources: &mut Vec<String>,
    findings: &mut Findings,
) {
    let dir = node.host_root().path(&node.config.settings.wrapper.run_dir);
    if !dir.is_dir() {
        return;
    }
    let (records, unreadable) = Records::new(&dir).all().unwrap_or_else(|e| (Vec::new(), vec![e]));
    unreadable.iter().for_each(|error| findings.unseen_on_node(error.to_string()));
    sources.push(format!("the records of wardlet-oci in {}", dir.display()));
    for record in records.into_iter().filter(|record| record.is_sandbox() && !gone(record)) {
        match reported.iter_mut().find(|reported| reported.id == record.sandbox) {
            Some(known) => known.asked = true,
            None => reported.push(ReportedSandbox {
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
fn started(reported: &[ReportedSandbox], pods: &[Pod]) -> HashMap<u32, Identity> {
    let unknown = reported.iter().filter(|reported| reported.ready && !is_found(reported, pods));
    unknown.filter_map(|reported| Some((reported.pid?, Identity::Sandbox(reported.id.clone())))).collect()
}

/// Names pods, by the first source that has a name: the runtime, the directories of logs, the census, the ledger.
fn name(scan: &mut HostScan) {
    let logs = log_names(scan);
    let mut pods = std::mem::take(&mut scan.pods);
    for pod in &mut pods {
        let key = pod.identity.key();
        let reported = scan
            .reported
            .iter()
            .filter(|reported| reported.uid == key || reported.id == key)
            .max_by_key(|reported| reported.ready);
        if let Some(reported) = reported {
            let said = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
            pod.naming = Naming {
                uid: said(&reported.uid),
                namespace: said(&reported.namespace),
                name: said(&reported.name),
            };
        }
        if pod.naming.uid.is_none() {
            pod.naming.uid = leased_uid(scan, pod);
        }
        if let Some((namespace, name)) = logs.get(pod.uid()).filter(|_| pod.naming.name.is_none()) {
            (pod.naming.namespace, pod.naming.name) = (Some(namespace.clone()), Some(name.clone()));
        }
    }
    scan.pods = pods;
}

/// The agent leases in the name of the pod's UID: a sandbox that has that block is that pod's.
fn leased_uid(scan: &HostScan, pod: &Pod) -> Option<String> {
    let (Identity::Sandbox(_), Some(_)) = (&pod.identity, pod.home) else { return None };
    let lease = scan.records.leases.iter().flatten().find(|lease| lease.leased && lease.is(&pod.maps))?;
    lease.members.is_none().then(|| lease.holder.clone()).flatten()
}

fn log_names(scan: &HostScan) -> HashMap<String, (String, String)> {
    let entries = scan.records.logs.iter().flat_map(|dir| fs::read_dir(dir).into_iter().flatten().flatten());
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
        const HOSTS: u64 = crate::spaces::HOST;
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
