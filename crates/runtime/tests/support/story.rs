//! A pod from its beginning to its end as a kubelet sees to it: what fails is looked at and done again, and a
//! server that is gone is started again.

use std::collections::BTreeMap;
use std::time::Duration;

use cri::Status;
use cri::client::Client;
use cri::{ContainerState, PodSandboxState};
use tokio::sync::Mutex;

use super::House;
use super::pods::{create, exec_within, in_users, pod, run_pod, shell, start, status, stop};

/// The code that every container of a story ends with.
pub const CODE: i32 = 7;
const NEVER_RAN: i32 = 128;
const LOST: i32 = 255;
/// More than any one kill costs.
const TRIES: usize = 60;
const LABEL: &str = "story";

/// Starts a server whenever there is none.
pub struct Keeper(pub Mutex<House>);

impl Keeper {
    pub async fn client(&self) -> Client {
        let mut house = self.0.lock().await;
        loop {
            if house.server().is_none() {
                house.start().await;
            }
            if let Ok(client) = Client::connect(&house.socket()).await {
                return client;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// How a container of a story ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    WhenAsked,
    ByItself,
}

/// Whose death may cost the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitor {
    Lives,
    MayBeKilled,
}

pub struct Story<'a> {
    pub keeper: &'a Keeper,
    pub config: cri::PodSandboxConfig,
    pub ends: Ends,
    pub monitor: Monitor,
}

impl<'a> Story<'a> {
    pub async fn new(keeper: &'a Keeper, name: &str, n: u32) -> Story<'a> {
        let house = keeper.0.lock().await;
        let mut config = in_users(pod(&house, name), house.users().start + n * 65_536);
        config.labels.insert(LABEL.into(), name.into());
        let host_port = i32::try_from(18_000 + n).unwrap();
        config.port_mappings = vec![cri::PortMapping { container_port: 80, host_port, ..Default::default() }];
        Story { keeper, config, ends: Ends::WhenAsked, monitor: Monitor::Lives }
    }

    fn script(&self) -> String {
        match self.ends {
            Ends::WhenAsked => {
                format!("trap 'exit {CODE}' TERM; touch /tmp/up; while :; do sleep 0.02; done")
            }
            Ends::ByItself => format!("sleep 0.2; exit {CODE}"),
        }
    }

    /// All of it.
    pub async fn tell(&self) {
        let sandbox = self.sandbox().await;
        self.go_on(&sandbox).await;
    }

    /// From a sandbox that is ready to nothing at all.
    pub async fn go_on(&self, sandbox: &str) {
        let container = self.container(sandbox).await;
        if self.ends == Ends::WhenAsked {
            self.is_up(&container).await;
        }
        let ended = self.end(&container).await;
        let lost = ended.exit_code == LOST && !ended.message.is_empty();
        assert!(
            ended.exit_code == CODE || self.monitor == Monitor::MayBeKilled && lost,
            "{} ended with {}: {} {}",
            container,
            ended.exit_code,
            ended.reason,
            ended.message
        );
        self.remove(sandbox).await;
    }

    /// A sandbox that is ready, made if there is none.
    pub async fn sandbox(&self) -> String {
        for _ in 0..TRIES {
            let client = self.keeper.client().await;
            match self.sandboxes(&client).await {
                Err(error) => Self::again("list sandboxes", &error).await,
                Ok(found) => match found.first() {
                    Some(found) if found.state() == PodSandboxState::SandboxReady => return found.id.clone(),
                    Some(found) => self.remove(&found.id).await,
                    None => {
                        if let Err(error) = run_pod(&client, &self.config).await {
                            Self::again("run the sandbox", &error).await;
                        }
                    }
                },
            }
        }
        panic!("the sandbox does not become ready");
    }

    async fn sandboxes(&self, client: &Client) -> Result<Vec<cri::PodSandbox>, Status> {
        let label_selector = BTreeMap::from([(LABEL.to_owned(), self.config.labels[LABEL].clone())]);
        let filter = cri::PodSandboxFilter { label_selector, ..Default::default() };
        let request = cri::ListPodSandboxRequest { filter: Some(filter) };
        Ok(client.runtime().list_pod_sandbox(request).await?.into_inner().items)
    }

    /// A container that runs, or has run to its own end. One that could not be started is made anew.
    pub async fn container(&self, sandbox: &str) -> String {
        for attempt in 0..u32::try_from(TRIES).unwrap() {
            let client = self.keeper.client().await;
            let found = match containers(&client, sandbox).await {
                Ok(found) => found,
                Err(error) => {
                    Self::again("list containers", &error).await;
                    continue;
                }
            };
            assert!(found.len() <= 1, "{found:?}");
            let Some(found) = found.first() else {
                let mut config = shell("main", &self.script(), &self.config);
                config.metadata = Some(cri::ContainerMetadata { name: "main".into(), attempt });
                if let Err(error) = create(&client, sandbox, &config, &self.config).await {
                    Self::again("create the container", &error).await;
                }
                continue;
            };
            match found.state() {
                ContainerState::ContainerRunning => return found.id.clone(),
                ContainerState::ContainerCreated => {
                    if let Err(error) = start(&client, &found.id).await {
                        Self::again("start the container", &error).await;
                    }
                }
                _ => {
                    let Ok(status) = status(&client, &found.id).await else { continue };
                    if status.exit_code != NEVER_RAN {
                        return found.id.clone();
                    }
                    let request = cri::RemoveContainerRequest { container_id: found.id.clone() };
                    if let Err(error) = client.runtime().remove_container(request).await {
                        Self::again("remove the container", &error).await;
                    }
                }
            }
        }
        panic!("the container does not start");
    }

    async fn is_up(&self, container: &str) {
        for _ in 0..TRIES {
            let client = self.keeper.client().await;
            match exec_within(&client, container, "test -e /tmp/up", 30).await {
                Ok(answer) if answer.exit_code == 0 => return,
                Ok(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                Err(error) => Self::again("exec", &error).await,
            }
        }
        panic!("the container is not up");
    }

    /// How it ended, once it has.
    pub async fn end(&self, container: &str) -> cri::ContainerStatus {
        for _ in 0..TRIES {
            let client = self.keeper.client().await;
            match status(&client, container).await {
                Ok(status) if status.state() == ContainerState::ContainerExited => return status,
                Ok(_) if self.ends == Ends::ByItself => tokio::time::sleep(Duration::from_millis(50)).await,
                Ok(_) => {
                    if let Err(error) = stop(&client, container, 60).await {
                        Self::again("stop the container", &error).await;
                    }
                }
                Err(error) => Self::again("look at the container", &error).await,
            }
        }
        panic!("the container does not end");
    }

    pub async fn remove(&self, sandbox: &str) {
        for _ in 0..TRIES {
            let client = self.keeper.client().await;
            let id = sandbox.to_owned();
            let stop = cri::StopPodSandboxRequest { pod_sandbox_id: id.clone() };
            let remove = cri::RemovePodSandboxRequest { pod_sandbox_id: id };
            let stopped = client.runtime().stop_pod_sandbox(stop).await;
            let outcome = match stopped {
                Ok(_) => client.runtime().remove_pod_sandbox(remove).await.map(drop),
                Err(error) => Err(error),
            };
            match outcome {
                Ok(()) => return,
                Err(error) => Self::again("remove the sandbox", &error).await,
            }
        }
        panic!("the sandbox is not removed");
    }

    async fn again(what: &str, error: &Status) {
        println!("  {what}: {} {}", error.code(), error.message());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn containers(client: &Client, sandbox: &str) -> Result<Vec<cri::Container>, Status> {
    let filter = cri::ContainerFilter { pod_sandbox_id: sandbox.into(), ..Default::default() };
    let request = cri::ListContainersRequest { filter: Some(filter) };
    Ok(client.runtime().list_containers(request).await?.into_inner().containers)
}
