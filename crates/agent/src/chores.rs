//! What `lifecycle` orders, done over CRI.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use lifecycle::{Action, ContainerName, Moment, Outcome, Task, Verdict};
use manifest::k8s_openapi::api::core::v1::Container;
use tokio::sync::watch;
use wire::cri::{CreateContainerRequest, Image, ImageSpec, Mount, PodSandboxConfig};

use crate::container::{self, Ready};
use crate::error::{Error, Result};
use crate::files::Files;
use crate::images::{Images, PullPolicy, check_user};
use crate::keyring::Keyring;
use crate::look::{Look, SeenSandbox};
use crate::mounts::{Mounter, wanted};
use crate::probe::Asked;
use crate::shared::{Shared, blocking};
use crate::store::Place;
use crate::ward::Ward;
use crate::{env, sandbox};

/// Milliseconds since 1970.
pub(crate) fn now() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// What there is to do for one pod.
#[derive(Clone)]
pub(crate) struct Chores {
    pub(crate) shared: Arc<Shared>,
    pub(crate) ward: Arc<Ward>,
    pub(crate) place: Place,
    /// Whether nothing more is to be started.
    pub(crate) ending: watch::Receiver<bool>,
}

impl Chores {
    /// Does it. Nothing is told of what can be seen in the runtime's lists.
    pub(crate) async fn carry_out(self, action: Action, look: Arc<Look>) -> Option<Outcome> {
        let task = action.task()?;
        match self.attempt(&action, &look).await {
            Ok(outcome) => outcome,
            Err(error) => {
                self.shared.warn(&self.ward.title(), format!("{}: {error}", in_words(&task)));
                let (reason, message) = (error.reason().to_owned(), error.to_string());
                Some(Outcome::Failed { task, at: now(), reason, message })
            }
        }
    }

    async fn attempt(&self, action: &Action, look: &Look) -> Result<Option<Outcome>> {
        let cri = &self.shared.cri;
        match action {
            Action::MakeSandbox { attempt } => self.make_sandbox(*attempt).await.map(|()| None),
            Action::StopSandbox { attempt } => {
                if let Some(sandbox) = look.sandbox(*attempt) {
                    cri.stop_sandbox(&sandbox.id).await?;
                }
                Ok(Some(Outcome::SandboxStopped { attempt: *attempt }))
            }
            Action::RemoveSandbox { attempt } => {
                if let Some(sandbox) = look.sandbox(*attempt) {
                    cri.remove_sandbox(&sandbox.id).await?;
                }
                Ok(None)
            }
            Action::StartContainer { container, attempt } => {
                self.start(container, *attempt, look).await.map(|()| None)
            }
            Action::StopContainer { container, attempt, grace, reason } => {
                self.shared.say(&self.ward.title(), format!("stopping {container}: {reason}"));
                if let Some(seen) = look.container(container, *attempt) {
                    cri.stop(&seen.id, *grace).await?;
                }
                Ok(Some(Outcome::ContainerStopped { container: container.clone(), attempt: *attempt }))
            }
            Action::RemoveContainer { container, attempt } => {
                if let Some(seen) = look.container(container, *attempt) {
                    cri.remove(&seen.id).await?;
                }
                self.remove_files(container, *attempt).await.map(|()| None)
            }
            Action::RunProbe { .. } | Action::RunHook { .. } => Ok(self.ask(action, look).await),
            Action::Wake { .. } => Ok(None),
        }
    }

    /// The log and the last words of an instance go with it: a container that fails again and again would fill the
    /// disk with them.
    async fn remove_files(&self, container: &ContainerName, attempt: u32) -> Result<()> {
        let (place, name) = (self.place.clone(), container.as_str().to_owned());
        blocking("removing a container's files", move || {
            let log = place.logs.join(&name);
            crate::logs::remove(&log, attempt).map_err(Error::file("remove the logs in", &log))?;
            crate::files::remove_words(&place.dir, &name, attempt)
                .map_err(Error::file("remove the last words in", &place.dir))
        })
        .await
    }

    async fn make_sandbox(&self, attempt: u32) -> Result<()> {
        self.place.make_logs()?;
        let config = sandbox::config(&self.ward, attempt, &self.place.logs);
        self.shared.cri.run_sandbox(config, &self.ward.handler).await.map(drop)
    }

    async fn ask(&self, action: &Action, look: &Look) -> Option<Outcome> {
        let (name, attempt) = match action {
            Action::RunProbe { container, attempt, .. } | Action::RunHook { container, attempt, .. } => {
                (container.clone(), *attempt)
            }
            _ => return None,
        };
        let begun = now();
        let seen = look.container(&name, attempt);
        let container = self.ward.container(name.as_str());
        let address = look.current().and_then(|s| s.ips.first().cloned());
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
                        self.tell_unwell(&format!("{kind} probe of {name}"), ran.verdict, &ran.words);
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
                        self.tell_unwell(&format!("{hook:?} hook of {name}"), ran.verdict, &ran.words);
                        ran.verdict
                    }
                    None => Verdict::Failure,
                };
                Some(Outcome::HookRan { container: name, attempt, hook: *hook, verdict })
            }
            _ => None,
        }
    }

    fn tell_unwell(&self, what: &str, verdict: Verdict, words: &str) {
        if verdict != Verdict::Success {
            self.shared.warn(&self.ward.title(), format!("{what} failed: {words}"));
        }
    }

    async fn start(&self, name: &ContainerName, attempt: u32, look: &Look) -> Result<()> {
        let container = self.ward.container(name.as_str());
        let container =
            container.ok_or_else(|| Error::config(name.as_str(), "there is no such container"))?;
        let missing = || Error::config(name.as_str(), "the sandbox is not ready");
        let sandbox = look.current().ok_or_else(missing)?;
        let config = sandbox::config(&self.ward, sandbox.seen.attempt, &self.place.logs);
        let mut ending = self.ending.clone();
        // A registry may keep us waiting for as long as it likes; whoever ends the pod need not.
        let image = tokio::select! {
            image = self.image(container, &config) => image?,
            _ = ending.wait_for(|is_ending| *is_ending) => {
                return Err(Error::Ending { image: container.image.clone().unwrap_or_default() });
            }
        };
        let (variables, mounts) = self.prepared(container, attempt, sandbox).await?;
        let image = ImageSpec {
            image: image.id,
            user_specified_image: container.image.clone().unwrap_or_default(),
            runtime_handler: self.ward.handler.clone(),
            ..ImageSpec::default()
        };
        let ready = Ready { attempt, image, variables, mounts };
        let request = CreateContainerRequest {
            pod_sandbox_id: sandbox.id.clone(),
            config: Some(container::config(&self.ward, container, ready)),
            sandbox_config: Some(config),
        };
        let id = self.shared.cri.create(request).await?;
        self.shared.cri.start(&id).await?;
        self.shared.say(&self.ward.title(), format!("started {name}"));
        Ok(())
    }

    /// The container's image, with those of its image volumes there too.
    async fn image(&self, container: &Container, sandbox: &PodSandboxConfig) -> Result<Image> {
        let (shared, title) = (Arc::clone(&self.shared), self.ward.title());
        let tell = move |text: String| shared.say(&title, text);
        let warn = |text: String| self.shared.warn(&self.ward.title(), text);
        let images = Images {
            keyring: Keyring::of(&self.ward, &self.shared.objects, &warn)?,
            cri: &self.shared.cri,
            handler: &self.ward.handler,
            sandbox: sandbox.clone(),
            tell: &tell,
        };
        let policy = PullPolicy::of(container.image_pull_policy.as_deref());
        let image = images.get(container.image.as_deref().unwrap_or_default(), policy).await?;
        check_user(&self.ward, container, &image)?;
        for mount in container.volume_mounts.iter().flatten() {
            let mut volumes = self.ward.spec.volumes.iter().flatten();
            let Some(source) = volumes.find(|v| v.name == mount.name).and_then(|v| v.image.as_ref()) else {
                continue;
            };
            let policy = PullPolicy::of(source.pull_policy.as_deref());
            images.get(source.reference.as_deref().unwrap_or_default(), policy).await?;
        }
        Ok(image)
    }

    /// The pod's addresses; the node's with the host's network.
    pub(crate) fn addresses(&self, sandbox: &SeenSandbox) -> Vec<String> {
        if sandbox.ips.is_empty() && self.ward.is_host_network() {
            return vec![self.shared.host_ip.clone()];
        }
        sandbox.ips.clone()
    }

    /// Its variables and mounts. All of it waits for the disk.
    async fn prepared(
        &self,
        container: &Container,
        attempt: u32,
        sandbox: &SeenSandbox,
    ) -> Result<(BTreeMap<String, String>, Vec<Mount>)> {
        let ips = self.addresses(sandbox);
        let (chores, container) = (self.clone(), container.clone());
        blocking("getting a container's mounts ready", move || {
            let Chores { shared, ward, place, .. } = chores;
            let (objects, host_ip) = (&shared.objects, shared.host_ip.as_str());
            let around = env::Surroundings { ward: &ward, objects, ips: &ips, host_ip };
            let variables = env::of(&container, &around)?;
            let wanted = wanted(&ward, objects)?;
            let mounter = Mounter { ward: &ward, volumes: &shared.volumes, wanted: &wanted };
            let mut mounts = mounter.all(&container, &variables)?;
            mounts.extend(Files { dir: &place.dir, ward: &ward }.mounts(&container, attempt, &ips)?);
            let logs = place.logs.join(&container.name);
            crate::logs::LogDir::make(&logs).map_err(Error::file("make", &logs))?;
            Ok((variables, mounts))
        })
        .await
    }
}

/// What was tried, for words.
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
