//! Observes the state of a pod in the runtime.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use cri::{
    Container, ContainerState, ContainerStatus, LinuxContainerResources, NamespaceMode, PodSandboxState,
    PodSandboxStatus,
};
use lifecycle::{ContainerName, Exit, Instance, InstanceState, Moment, Network, Sandbox};

use types::keys::CONTAINER_NAME;

use crate::cri::calls::{Cri, TERMINATION_MESSAGE_PATH, TERMINATION_MESSAGE_POLICY};
use crate::cri::marks::Revisions;
use crate::error::Result;
use crate::housekeeping::logs;
use crate::housekeeping::logs::Running;
use crate::metrics::observed::Found;
use crate::pod::files;
use crate::pod::store::Place;
use crate::status::view::{InstanceView, UserView};

/// An observed sandbox.
#[derive(Debug, Clone)]
pub(crate) struct ObservedSandbox {
    pub(crate) id: String,
    pub(crate) ips: Vec<String>,
    pub(crate) seen: Sandbox,
}

/// An observed container.
#[derive(Debug, Clone)]
pub(crate) struct ObservedContainer {
    pub(crate) id: String,
    /// Its image, as the runtime names it.
    pub(crate) image: String,
    /// The runtime's reference to the image.
    pub(crate) image_ref: String,
    /// The user of its first process.
    pub(crate) user: Option<UserView>,
    /// The resources that the runtime reports of it.
    pub(crate) resources: Option<LinuxContainerResources>,
    pub(crate) seen: Instance,
}

/// The observed sandboxes and containers of a pod.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodSnapshot {
    pub(crate) sandboxes: Vec<ObservedSandbox>,
    pub(crate) containers: Vec<ObservedContainer>,
}

impl PodSnapshot {
    pub(crate) fn sandbox(&self, attempt: u32) -> Option<&ObservedSandbox> {
        self.sandboxes.iter().find(|s| s.seen.attempt == attempt)
    }

    /// The newest sandbox, if it is ready.
    pub(crate) fn current(&self) -> Option<&ObservedSandbox> {
        self.sandboxes.iter().max_by_key(|s| s.seen.attempt).filter(|s| s.seen.ready)
    }

    /// How much there is of it.
    pub(crate) fn found(&self) -> Found {
        let count = |is_it: fn(&InstanceState) -> bool| {
            self.containers.iter().filter(|one| is_it(&one.seen.state)).fold(0, |count: u64, _| count + 1)
        };
        Found {
            sandboxes: self.sandboxes.iter().filter(|one| one.seen.ready).fold(0, |count: u64, _| count + 1),
            containers: [
                count(|state| matches!(state, InstanceState::Created)),
                count(|state| matches!(state, InstanceState::Running { .. })),
                count(|state| matches!(state, InstanceState::Exited(_))),
                count(|state| matches!(state, InstanceState::Unknown)),
            ],
        }
    }

    /// The containers that run, as writers of logs.
    pub(crate) fn running(&self) -> Vec<Running> {
        let runs = |one: &&ObservedContainer| matches!(one.seen.state, InstanceState::Running { .. });
        let running = |one: &ObservedContainer| Running {
            id: one.id.clone(),
            name: one.seen.container.as_str().to_owned(),
            attempt: one.seen.attempt,
        };
        self.containers.iter().filter(runs).map(running).collect()
    }

    /// The instances of a container, newest first.
    pub(crate) fn instances(&self, name: &str) -> Vec<InstanceView> {
        let named = self.containers.iter().filter(|one| one.seen.container.as_str() == name);
        let mut found: Vec<&ObservedContainer> = named.collect();
        found.sort_by_key(|one| std::cmp::Reverse(one.seen.attempt));
        let view = |one: &ObservedContainer| InstanceView {
            id: one.id.clone(),
            image: one.image.clone(),
            image_id: one.image_ref.clone(),
            user: one.user.clone(),
        };
        found.into_iter().map(view).collect()
    }

    /// The resources that the runtime reports of the running instance of a container.
    pub(crate) fn resources(&self, name: &str) -> Option<LinuxContainerResources> {
        let runs = |one: &&ObservedContainer| {
            one.seen.container.as_str() == name && matches!(one.seen.state, InstanceState::Running { .. })
        };
        let newest = self.containers.iter().filter(runs).max_by_key(|one| one.seen.attempt)?;
        Some(newest.resources.clone().unwrap_or_default())
    }

    pub(crate) fn container(&self, name: &ContainerName, attempt: u32) -> Option<&ObservedContainer> {
        self.containers.iter().find(|c| c.seen.container == *name && c.seen.attempt == attempt)
    }
}

/// Observes one pod repeatedly. It caches statuses, and requests only those that may have changed.
pub(crate) struct PodObserver {
    pub(crate) uid: String,
    /// The directory of the pod's files.
    pub(crate) dir: PathBuf,
    pub(crate) logs: PathBuf,
    revisions: Revisions,
    /// Statuses by container ID and state: the status of a running or exited container does not change.
    statuses: HashMap<(String, i32), ContainerStatus>,
    addresses: HashMap<String, PodSandboxStatus>,
}

impl PodObserver {
    pub(crate) fn new(uid: &str, place: &Place, revisions: Revisions) -> Self {
        let (statuses, addresses) = (HashMap::new(), HashMap::new());
        let (dir, logs) = (place.files.clone(), place.logs.clone());
        Self { uid: uid.to_owned(), dir, logs, revisions, statuses, addresses }
    }

    /// Forgets the statuses that do not change by themselves: containers were given other resources.
    pub(crate) fn forget_statuses(&mut self) {
        self.statuses.clear();
    }

    pub(crate) async fn observe(&mut self, cri: &Cri) -> Result<PodSnapshot> {
        let mut snapshot = PodSnapshot::default();
        let mut attempts = HashMap::new();
        for listed in cri.sandboxes(&self.uid).await? {
            let attempt = listed.metadata.as_ref().map_or(0, |m| m.attempt);
            attempts.insert(listed.id.clone(), attempt);
            let ready = listed.state() == PodSandboxState::SandboxReady;
            let Some(status) = self.sandbox_status(cri, &listed.id).await? else { continue };
            snapshot.sandboxes.push(sandbox(&status, attempt, ready));
        }
        let containers = cri.containers(&self.uid).await?;
        self.statuses.retain(|(id, _), _| containers.iter().any(|listed| listed.id == *id));
        self.addresses.retain(|id, _| attempts.contains_key(id));
        for listed in containers {
            let Some(sandbox) = attempts.get(&listed.pod_sandbox_id).copied() else { continue };
            let Some(status) = self.status(cri, &listed).await? else { continue };
            snapshot.containers.extend(self.container(&listed, &status, sandbox));
        }
        Ok(snapshot)
    }

    async fn sandbox_status(&mut self, cri: &Cri, id: &str) -> Result<Option<PodSandboxStatus>> {
        if let Some(known) = self.addresses.get(id) {
            return Ok(Some(known.clone()));
        }
        let status = cri.sandbox_status(id).await?;
        if let Some(found) = status.as_ref().filter(|s| !ips(s).is_empty()) {
            self.addresses.insert(id.to_owned(), found.clone());
        }
        Ok(status)
    }

    async fn status(&mut self, cri: &Cri, listed: &Container) -> Result<Option<ContainerStatus>> {
        let key = (listed.id.clone(), listed.state);
        if let Some(known) = self.statuses.get(&key) {
            return Ok(Some(known.clone()));
        }
        let status = cri.container_status(&listed.id).await?;
        let is_settled = |s: &&ContainerStatus| {
            s.state == listed.state
                && matches!(s.state(), ContainerState::ContainerRunning | ContainerState::ContainerExited)
        };
        if let Some(settled) = status.as_ref().filter(is_settled) {
            self.statuses.insert(key, settled.clone());
        }
        Ok(status)
    }

    fn container(
        &self,
        listed: &Container,
        status: &ContainerStatus,
        sandbox: u32,
    ) -> Option<ObservedContainer> {
        // A container without a valid container name is not one of the agent's.
        let container = ContainerName::new(listed.labels.get(CONTAINER_NAME)?.as_str()).ok()?;
        let attempt = listed.metadata.as_ref().map_or(0, |m| m.attempt);
        let revision = self.revisions.of(&listed.annotations);
        let state = match status.state() {
            ContainerState::ContainerCreated => InstanceState::Created,
            ContainerState::ContainerRunning => InstanceState::Running { since: moment(status.started_at) },
            ContainerState::ContainerExited => InstanceState::Exited(self.exit(&container, attempt, status)),
            ContainerState::ContainerUnknown => InstanceState::Unknown,
        };
        Some(ObservedContainer {
            id: listed.id.clone(),
            image: status.image.as_ref().map(|image| image.image.clone()).unwrap_or_default(),
            image_ref: status.image_ref.clone(),
            user: user(status),
            resources: status.resources.as_ref().and_then(|resources| resources.linux.clone()),
            seen: Instance { container, attempt, sandbox, revision, state },
        })
    }

    fn exit(&self, container: &ContainerName, attempt: u32, status: &ContainerStatus) -> Exit {
        let name = container.as_str();
        let file = files::words_file(&self.dir, name, attempt, mounted_words(status));
        let mut message = files::last_words(&file).unwrap_or_default();
        let policy = status.annotations.get(TERMINATION_MESSAGE_POLICY);
        let falls_back = policy.is_some_and(|policy| policy == "FallbackToLogsOnError");
        if message.is_empty() && falls_back && status.exit_code != 0 {
            message = logs::tail(&self.logs.join(name), attempt);
        }
        if message.is_empty() {
            message.clone_from(&status.message);
        }
        Exit {
            code: status.exit_code,
            reason: Some(status.reason.clone()).filter(|reason| !reason.is_empty()),
            message,
            started: (status.started_at > 0).then(|| moment(status.started_at)),
            finished: moment(status.finished_at),
        }
    }
}

/// Where the file with the termination message of a container is, by its mounts.
fn mounted_words(status: &ContainerStatus) -> Option<&Path> {
    let point = status.annotations.get(TERMINATION_MESSAGE_PATH)?;
    let mount = status.mounts.iter().find(|mount| mount.container_path == *point)?;
    Some(Path::new(&mount.host_path))
}

fn user(status: &ContainerStatus) -> Option<UserView> {
    let user = status.user.as_ref()?.linux.as_ref()?;
    Some(UserView { uid: user.uid, gid: user.gid, supplemental_groups: user.supplemental_groups.clone() })
}

fn moment(nanoseconds: i64) -> Moment {
    Moment::from_millis(u64::try_from(nanoseconds).unwrap_or(0) / 1_000_000)
}

fn ips(status: &PodSandboxStatus) -> Vec<String> {
    let network = status.network.clone().unwrap_or_default();
    let more = network.additional_ips.into_iter().map(|ip| ip.ip);
    std::iter::once(network.ip).chain(more).filter(|ip| !ip.is_empty()).collect()
}

fn sandbox(status: &PodSandboxStatus, attempt: u32, ready: bool) -> ObservedSandbox {
    let options = status.linux.as_ref().and_then(|l| l.namespaces.as_ref()?.options.as_ref());
    let is_host = options.is_some_and(|options| options.network() == NamespaceMode::Node);
    let ips = ips(status);
    let network = if is_host { Network::Host } else { Network::Own };
    let seen = Sandbox { attempt, ready, addressed: !ips.is_empty(), network };
    ObservedSandbox { id: status.id.clone(), ips, seen }
}
