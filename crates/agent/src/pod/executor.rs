//! The action executor: executes the actions of `lifecycle` over CRI.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cri::{CreateContainerRequest, Image, ImageSpec, Mount, PodSandboxConfig};
use ids::IdKind;
use lifecycle::{Action, ContainerName, HookKind, Outcome, ProbeKind, StopReason, Task, Verdict};
use manifest::k8s_openapi::api::core::v1::Container;
use tokio::sync::watch;
use tracing::warn;
use types::{PodUid, VolumeName, reason};
use volumes::PodVolumes;

use crate::cri::container::{self, Ready, log_path};
use crate::cri::observe::{ObservedSandbox, PodSnapshot};
use crate::cri::sandbox;
use crate::error::{Error, Result};
use crate::housekeeping::logs::{LogLink, remove_links};
use crate::images::providers::Asker;
use crate::pod::context::PodContext;
use crate::pod::env;
use crate::pod::env_file::VolumeFiles;
use crate::pod::files::Files;
use crate::pod::images::{ImageUser, Images, PullPolicy, check_user};
use crate::pod::keyring::Keyring;
use crate::pod::mounts::{Mounter, wanted};
use crate::pod::start_steps::{StartSteps, StepKind};
use crate::pod::starting::PullTime;
use crate::pod::store::Place;
use crate::ports::EventType;
use crate::probe::{Asked, Ran};
use crate::shared::{Shared, blocking};
use crate::status::events::{Recorder, Text};

/// The kernel's longest host name.
const LONGEST_HOSTNAME: usize = 64;

/// Executes the actions of one pod.
#[derive(Clone)]
pub(crate) struct ActionExecutor {
    pub(crate) shared: Arc<Shared>,
    pub(crate) context: Arc<PodContext>,
    pub(crate) place: Place,
    /// True once the pod is being stopped: no container is started then.
    pub(crate) ending: watch::Receiver<bool>,
    /// The pod after the latest update. A task that is under way keeps the definition that it began with.
    pub(crate) updates: watch::Receiver<Arc<PodContext>>,
    /// How long the pod has been waiting for images.
    pub(crate) pulling: PullTime,
    /// The steps of the pod's start.
    pub(crate) steps: StartSteps,
}

impl ActionExecutor {
    /// Executes an action. Returns `None` if the runtime's lists of sandboxes and containers show the
    /// outcome.
    pub(crate) async fn execute(self, action: Action, snapshot: Arc<PodSnapshot>) -> Option<Outcome> {
        let task = action.task()?;
        match self.attempt(&action, &snapshot).await {
            Ok(outcome) => outcome,
            Err(error) => {
                self.failed(&task, &error);
                let (reason, message) = (error.reason().to_owned(), error.to_string());
                Some(Outcome::Failed { task, at: self.shared.clock.now(), reason, message })
            }
        }
    }

    /// Records an event for a failed task. The event's reason is coarser than that of the waiting container,
    /// which is in the message.
    fn failed(&self, task: &Task, error: &Error) {
        let (what, events) = (in_words(task), self.events());
        let warning = EventType::Warning;
        match (task, container_of(task)) {
            (Task::MakeSandbox(_), _) => {
                let text =
                    Text::new(format!("Failed to create pod sandbox: {error}"), format!("{what}: {error}"));
                events.pod(warning, reason::FAILED_CREATE_POD_SANDBOX, text);
            }
            (Task::Start(..), Some(name)) => {
                // What is wrong with an image has an event of its own.
                let event = match error {
                    Error::NeverPull { .. } | Error::Pull { .. } | Error::ImageName(_) => {
                        format!("Error: {}", error.reason())
                    }
                    _ if error.reason() == reason::IMAGE_INSPECT_ERROR => {
                        format!("Error: {}", error.reason())
                    }
                    _ => format!("Error: {error}"),
                };
                let text = Text::new(event, format!("{what}: {}: {error}", error.reason()));
                events.container(name, warning, reason::FAILED, text);
            }
            (_, Some(name)) => {
                let text = Text::new(format!("error killing pod: {error}"), format!("{what}: {error}"));
                events.container(name, warning, reason::FAILED_KILL_POD, text);
            }
            (_, None) => {
                let text = Text::new(format!("error killing pod: {error}"), format!("{what}: {error}"));
                events.pod(warning, reason::FAILED_KILL_POD, text);
            }
        }
    }

    fn events(&self) -> Recorder<'_> {
        self.shared.events_of(&self.context)
    }

    async fn attempt(&self, action: &Action, snapshot: &PodSnapshot) -> Result<Option<Outcome>> {
        let cri = &self.shared.cri;
        match action {
            Action::MakeSandbox { attempt } => {
                if !snapshot.sandboxes.is_empty() {
                    let text = "Pod sandbox changed, it will be killed and re-created.".to_owned();
                    self.events().pod(EventType::Normal, reason::SANDBOX_CHANGED, text);
                }
                self.make_sandbox(*attempt).await.map(|()| None)
            }
            Action::StopSandbox { attempt } => {
                if let Some(sandbox) = snapshot.sandbox(*attempt) {
                    cri.stop_sandbox(&sandbox.id).await?;
                }
                Ok(Some(Outcome::SandboxStopped { attempt: *attempt }))
            }
            Action::RemoveSandbox { attempt } => {
                if let Some(sandbox) = snapshot.sandbox(*attempt) {
                    cri.remove_sandbox(&sandbox.id).await?;
                }
                Ok(None)
            }
            Action::StartContainer { container, attempt } => {
                let started = self.start(container, *attempt, snapshot).await;
                // `lifecycle` orders the start again, with the new definition.
                if let Err(Error::Superseded { .. }) = started {
                    return Ok(None);
                }
                let kind = self.context.container_type(container.as_str());
                let metrics = &self.shared.metrics;
                metrics.containers.started(kind, started.as_ref().map_err(|e| e.reason()).copied());
                if started.is_err() {
                    metrics.pods.container_failed(&self.context.users);
                }
                started.map(|()| None)
            }
            Action::StopContainer { container, attempt, grace, reason } => {
                let text = Text::new(killing(container, *reason), format!("stopping {container}: {reason}"));
                self.events().container(container.as_str(), EventType::Normal, reason::KILLING, text);
                if let Some(seen) = snapshot.container(container, *attempt) {
                    cri.stop(&seen.id, *grace).await?;
                }
                Ok(Some(Outcome::ContainerStopped { container: container.clone(), attempt: *attempt }))
            }
            Action::RemoveContainer { container, attempt } => {
                if let Some(seen) = snapshot.container(container, *attempt) {
                    cri.remove(&seen.id).await?;
                }
                self.remove_files(container, *attempt).await.map(|()| None)
            }
            Action::RunProbe { .. } | Action::RunHook { .. } => Ok(self.ask(action, snapshot).await),
            Action::Wake { .. } => Ok(None),
        }
    }

    /// Removes the logs and the termination message of a container instance: those of a container in a crash
    /// loop would fill the disk.
    async fn remove_files(&self, container: &ContainerName, attempt: u32) -> Result<()> {
        let (place, name) = (self.place.clone(), container.as_str().to_owned());
        blocking("removing a container's files", move || {
            let log = place.logs.join(&name);
            crate::housekeeping::logs::remove(&log, attempt)
                .map_err(Error::file("remove the logs in", &log))?;
            if let Some(links) = &place.log_links {
                let log = place.logs.join(log_path(&name, attempt));
                remove_links(links, &log).map_err(Error::file("remove links in", links))?;
            }
            crate::pod::files::remove_words(&place.files, &name, attempt)
                .map_err(Error::file("remove a termination message in", &place.files))
        })
        .await
    }

    async fn make_sandbox(&self, attempt: u32) -> Result<()> {
        let _step = self.steps.begin(StepKind::Sandbox);
        self.place.make_logs()?;
        let host = self.context.hostname().for_kernel(&self.context.spec);
        if host.len() > LONGEST_HOSTNAME && !self.context.is_host_network() {
            return Err(Error::HostnameTooLong { name: host, longest: LONGEST_HOSTNAME });
        }
        let dns = self.shared.defaults.dns.of_pod(&self.context)?;
        for problem in &dns.problems {
            self.events().pod(EventType::Warning, problem.reason(), problem.to_string());
        }
        let (shared, context) = (Arc::clone(&self.shared), Arc::clone(&self.context));
        if let Some(cgroups) = shared.cgroups.clone() {
            blocking("making a pod's cgroup", move || cgroups.ensure(&context.uid, &context.spec)).await?;
        }
        let config = sandbox::config(&self.context, attempt, &self.place.logs, dns.config);
        let made = self.shared.cri.run_sandbox(config, &self.context.handler).await;
        self.shared.metrics.pods.started(&self.context.users, &made);
        made.map(drop)
    }

    async fn ask(&self, action: &Action, snapshot: &PodSnapshot) -> Option<Outcome> {
        let (name, attempt) = match action {
            Action::RunProbe { container, attempt, .. } | Action::RunHook { container, attempt, .. } => {
                (container.clone(), *attempt)
            }
            _ => return None,
        };
        let begun = self.shared.clock.now();
        let seen = snapshot.container(&name, attempt);
        let container = self.context.container(name.as_str());
        let address = snapshot.current().and_then(|s| s.ips.first().cloned());
        let address = address.unwrap_or_else(|| self.shared.host_ip.clone());
        let asked = seen.zip(container).map(|(seen, container)| Asked {
            cri: &self.shared.cri,
            id: &seen.id,
            container,
            address: &address,
        });
        match action {
            Action::RunProbe { kind, timeout, .. } => {
                let verdict = match asked {
                    Some(asked) => {
                        let ran = asked.probe(*kind, *timeout).await;
                        self.report(&name, *kind, &ran);
                        ran.verdict
                    }
                    None => Verdict::Error,
                };
                Some(Outcome::ProbeRan { container: name, attempt, kind: *kind, begun, verdict })
            }
            Action::RunHook { hook, limit, .. } => {
                let verdict = match asked {
                    Some(asked) => {
                        let ran = asked.hook(*hook, *limit).await;
                        if ran.verdict != Verdict::Success {
                            // The output of a hook is not for all readers of events.
                            let log = format!("{hook:?} hook of {name} failed: {}", ran.words);
                            let text = Text::new(format!("{hook:?}Hook failed"), log);
                            let reason = match hook {
                                HookKind::PostStart => reason::FAILED_POST_START_HOOK,
                                HookKind::PreStop => reason::FAILED_PRE_STOP_HOOK,
                            };
                            let events = self.events();
                            events.container(name.as_str(), EventType::Warning, reason, text);
                        }
                        ran.verdict
                    }
                    None => Verdict::Failure,
                };
                Some(Outcome::HookRan { container: name, attempt, hook: *hook, verdict })
            }
            _ => None,
        }
    }

    /// The event of a probe that failed, or succeeded with a warning.
    fn report(&self, name: &ContainerName, kind: ProbeKind, ran: &Ran) {
        let (reason, what) = match ran.verdict {
            Verdict::Success if ran.words.is_empty() => return,
            Verdict::Success => (reason::PROBE_WARNING, "warning"),
            Verdict::Failure | Verdict::Error => (reason::UNHEALTHY, "failed"),
        };
        let log = format!("{kind} probe of {name} {what}: {}", ran.words);
        let text = Text::new(format!("{kind:?} probe {what}: {}", ran.words), log);
        self.events().container(name.as_str(), EventType::Warning, reason, text);
    }

    async fn start(&self, name: &ContainerName, attempt: u32, snapshot: &PodSnapshot) -> Result<()> {
        let container = self.context.container(name.as_str());
        let container =
            container.ok_or_else(|| Error::config(name.as_str(), "there is no such container"))?;
        let missing = || Error::config(name.as_str(), "the sandbox is not ready");
        let sandbox = snapshot.current().ok_or_else(missing)?;
        let dns = self.shared.defaults.dns.of_pod(&self.context)?.config;
        let config = sandbox::config(&self.context, sandbox.seen.attempt, &self.place.logs, dns);
        let mut ending = self.ending.clone();
        let mut updates = self.updates.clone();
        let is_other = |now: &Arc<PodContext>| {
            now.container(name.as_str()).is_none_or(|other| other.image != container.image)
        };
        let of_image = self.steps.begin_for(StepKind::Image, name.as_str());
        // A pull has no time limit: the end of the pod, or an update of the image, cancels it.
        let image = tokio::select! {
            biased;
            _ = updates.wait_for(is_other) => {
                return Err(Error::Superseded { image: container.image.clone().unwrap_or_default() });
            }
            image = self.images(container, &config) => image?,
            _ = ending.wait_for(|is_ending| *is_ending) => {
                return Err(Error::Ending { image: container.image.clone().unwrap_or_default() });
            }
        };
        drop(of_image);
        let _of_container = self.steps.begin_for(StepKind::Container, name.as_str());
        let OfImages { image, volumes } = image;
        let (variables, mounts) = self.prepared(container, attempt, sandbox, volumes).await?;
        let user = ImageUser::of(&image);
        let image = ImageSpec {
            image: image.id,
            user_specified_image: container.image.clone().unwrap_or_default(),
            ..ImageSpec::default()
        };
        let target = self.target(name, snapshot)?;
        let ready = Ready { attempt, image, user, variables, mounts, target };
        let (context, owned) = (Arc::clone(&self.context), container.clone());
        let container_config = move || container::config(&context, &owned, ready);
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.id.clone(),
            config: Some(blocking("making a container's configuration", container_config).await?),
            sandbox_config: Some(config),
        };
        let id = self.shared.cri.create(request).await?;
        self.link_log(name, attempt, &id).await;
        let (normal, events) = (EventType::Normal, self.events());
        let text = Text::new("Container created", format!("created {name}"));
        events.container(name.as_str(), normal, reason::CREATED, text);
        // Some runtimes have made the process by now, so that nothing of the image runs outside.
        self.check_users(name, &id, &sandbox.id).await?;
        self.shared.cri.start(&id).await?;
        self.check_users(name, &id, &sandbox.id).await?;
        let text = Text::new("Container started", format!("started {name}"));
        events.container(name.as_str(), normal, reason::STARTED, text);
        Ok(())
    }

    /// Ends a container that the runtime runs outside of the pod's user namespace, and stops the sandbox, so that the pod gets a
    /// new one: CRI-O without the fix of its pull request 10014 forgets, at its restart, that running pods have one.
    async fn check_users(&self, container: &ContainerName, id: &str, sandbox: &str) -> Result<()> {
        let map = self.context.mappings(IdKind::Uid);
        let Some(cgroups) = self.shared.cgroups.clone().filter(|_| !map.is_empty()) else { return Ok(()) };
        let (context, owned) = (Arc::clone(&self.context), id.to_owned());
        let look = move || cgroups.kill_outside(&context.uid, &context.spec, &owned, &map);
        let Some(process) = blocking("looking at a container's processes", look).await? else {
            return Ok(());
        };
        self.shared.cri.stop_sandbox(sandbox).await?;
        Err(Error::Outside { container: container.to_string(), process })
    }

    /// Links to the log of a container, where the node has such links. Without one the container runs as well.
    async fn link_log(&self, container: &ContainerName, attempt: u32, id: &str) {
        let Some(links) = self.place.log_links.clone() else { return };
        let log = self.place.logs.join(log_path(container.as_str(), attempt));
        let (context, container, id) = (Arc::clone(&self.context), container.clone(), id.to_owned());
        let made = blocking("linking to a log", move || {
            let (namespace, pod) = (context.namespace.as_str(), context.name.as_str());
            let link = LogLink { namespace, pod, container: container.as_str(), id: &id };
            link.make(&links, &log).map_err(Error::file("make a link in", &links))
        });
        if let Err(error) = made.await {
            warn!("collectors of logs will not find that of a container: {error}");
        }
    }

    /// The runtime's ID of the container whose processes an ephemeral container is to see.
    fn target(&self, name: &ContainerName, snapshot: &PodSnapshot) -> Result<Option<String>> {
        let Some(target) = self.context.target(name.as_str()) else { return Ok(None) };
        let found = snapshot.running().into_iter().find(|running| running.name == target);
        let cause = || format!("the target container {target:?} does not run");
        found.map(|running| Some(running.id)).ok_or_else(|| Error::config(name.as_str(), cause()))
    }

    /// Makes sure that the images of the container and of its image volumes are present.
    async fn images(&self, container: &Container, sandbox: &PodSandboxConfig) -> Result<OfImages> {
        let mut of_volumes = BTreeMap::new();
        let (shared, context) = (Arc::clone(&self.shared), Arc::clone(&self.context));
        let keyring = move || Keyring::of(&context, &*shared.objects);
        let images = Images {
            keyring: blocking("reading pull secrets", keyring).await?,
            cri: &self.shared.cri,
            handler: &self.context.handler,
            sandbox: sandbox.clone(),
            asker: Asker {
                pod: self.context.reference(),
                service_account: self.context.spec.service_account_name.clone().unwrap_or_default(),
                objects: Arc::clone(&self.shared.objects),
            },
            pulls: &self.shared.images,
            metrics: &self.shared.metrics.images,
            pulling: &self.pulling,
            events: self.events(),
            container: &container.name,
        };
        let policy = PullPolicy::of(container.image_pull_policy.as_deref());
        let image = images.get(container.image.as_deref().unwrap_or_default(), policy).await?;
        check_user(&self.context, container, &image)?;
        for mount in container.volume_mounts.iter().flatten() {
            let mut volumes = self.context.spec.volumes.iter().flatten();
            let Some(source) = volumes.find(|v| v.name == mount.name).and_then(|v| v.image.as_ref()) else {
                continue;
            };
            let policy = PullPolicy::of(source.pull_policy.as_deref());
            let found = images.get(source.reference.as_deref().unwrap_or_default(), policy).await?;
            of_volumes.insert(mount.name.clone(), found.id);
        }
        Ok(OfImages { image, volumes: of_volumes })
    }

    /// The pod's addresses; the node's address for a pod on the host's network.
    pub(crate) fn addresses(&self, sandbox: &ObservedSandbox) -> Vec<String> {
        if sandbox.ips.is_empty() && self.context.is_host_network() {
            return vec![self.shared.host_ip.clone()];
        }
        sandbox.ips.clone()
    }

    /// Prepares the container's variables, mounts and log directory, on a blocking thread.
    async fn prepared(
        &self,
        container: &Container,
        attempt: u32,
        sandbox: &ObservedSandbox,
        images: BTreeMap<String, String>,
    ) -> Result<(BTreeMap<String, String>, Vec<Mount>)> {
        let ips = self.addresses(sandbox);
        let (executor, container) = (self.clone(), container.clone());
        blocking("getting a container's mounts ready", move || {
            let ActionExecutor { shared, context, place, .. } = executor;
            let (objects, host_ip) = (&*shared.objects, shared.host_ip.as_str());
            let home = shared.volumes.of(&place)?;
            let files = &WrittenFiles { volumes: &home.local, pod: &context.uid };
            let around = env::Surroundings { context: &context, objects, ips: &ips, host_ip, files };
            let variables = env::of(&container, &around)?;
            let wanted = wanted(&context, objects)?;
            let volumes = &home.manager;
            let mounter = Mounter { context: &context, volumes, wanted: &wanted, images: &images };
            let mut mounts = mounter.all(&container, &variables)?;
            mounts.extend(Files { dir: &place.files, context: &context }.mounts(&container, attempt, &ips)?);
            let logs = place.logs.join(&container.name);
            crate::housekeeping::logs::LogDir::make(&logs).map_err(Error::file("make", &logs))?;
            Ok((variables, mounts))
        })
        .await
    }
}

/// The files of a pod's emptyDir volumes.
struct WrittenFiles<'a> {
    volumes: &'a PodVolumes,
    pod: &'a PodUid,
}

impl VolumeFiles for WrittenFiles<'_> {
    fn read(&self, volume: &str, path: &Path) -> Result<Option<Vec<u8>>> {
        let name = VolumeName::new(volume).map_err(|e| Error::config("volumeName", e.to_string()))?;
        Ok(self.volumes.read_file(self.pod, &name, path)?)
    }
}

/// The images of a container.
struct OfImages {
    /// Its own.
    image: Image,
    /// The IDs of those of its image volumes, by the volume's name.
    volumes: BTreeMap<String, String>,
}

/// The container that a task is about, unless it is about a sandbox.
fn container_of(task: &Task) -> Option<&str> {
    match task {
        Task::MakeSandbox(_) | Task::StopSandbox(_) | Task::RemoveSandbox(_) => None,
        Task::Start(name, _)
        | Task::Stop(name, _)
        | Task::Remove(name, _)
        | Task::Probe(name, ..)
        | Task::Hook(name, ..) => Some(name.as_str()),
    }
}

/// Why a container is stopped, as the kubelet says it.
fn killing(container: &ContainerName, reason: StopReason) -> String {
    let why = match reason {
        StopReason::LivenessProbe => "failed liveness probe",
        StopReason::StartupProbe => "failed startup probe",
        StopReason::DefinitionChanged => "definition changed",
        StopReason::FailedPostStartHook => return reason::FAILED_POST_START_HOOK.to_owned(),
        _ => return format!("Stopping container {container}"),
    };
    format!("Container {container} {why}, will be restarted")
}

/// The failed task, for messages.
fn in_words(task: &Task) -> String {
    match task {
        Task::MakeSandbox(_) => "the sandbox cannot be made".to_owned(),
        Task::StopSandbox(_) => "the sandbox cannot be stopped".to_owned(),
        Task::RemoveSandbox(_) => "a sandbox cannot be removed".to_owned(),
        Task::Start(name, _) => format!("{name} cannot be started"),
        Task::Stop(name, _) => format!("{name} cannot be stopped"),
        Task::Remove(name, _) => format!("{name} cannot be removed"),
        Task::Probe(name, _, kind) => format!("the {kind} probe of {name} cannot be run"),
        Task::Hook(name, ..) => format!("a hook of {name} cannot be run"),
    }
}
