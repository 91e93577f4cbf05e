//! The running containers and sandboxes of pods, for what is no worker of the agent.

use std::time::Duration;

use cri::client::Client;
use cri::{
    ContainerFilter, ContainerState, ContainerStateValue, ListContainersRequest, ListPodSandboxRequest,
    PodSandboxFilter, PodSandboxState, PodSandboxStateValue, within,
};
use types::PodUid;
use types::keys::{CONTAINER_NAME, POD_UID};

use crate::error::Result;
use crate::owned::Owned;

/// How long the runtime may take to answer.
const PATIENCE: Duration = Duration::from_secs(120);

impl Owned {
    /// The runtime's ID of the container of this name in a pod of this agent; `None` if it does not run. Other
    /// clients of the runtime may have containers with the same labels.
    ///
    /// # Errors
    /// If the runtime does not answer.
    pub async fn running_container(
        &self,
        client: &Client,
        pod: &PodUid,
        name: &str,
    ) -> Result<Option<String>> {
        let labels = [(POD_UID, pod.as_str()), (CONTAINER_NAME, name)]
            .map(|(key, value)| (key.to_owned(), value.to_owned()));
        let state = Some(ContainerStateValue { state: ContainerState::ContainerRunning.into() });
        let filter = ContainerFilter { state, label_selector: labels.into(), ..ContainerFilter::default() };
        let request = ListContainersRequest { filter: Some(filter) };
        let listed = within(PATIENCE, "ListContainers", client.runtime().list_containers(request)).await?;
        let own = listed.containers.into_iter().find(|container| self.container(container));
        Ok(own.map(|container| container.id))
    }

    /// The runtime's ID of the newest sandbox of a pod of this agent that is ready.
    ///
    /// # Errors
    /// If the runtime does not answer.
    pub async fn ready_sandbox(&self, client: &Client, pod: &PodUid) -> Result<Option<String>> {
        let state = Some(PodSandboxStateValue { state: PodSandboxState::SandboxReady.into() });
        let label_selector = [(POD_UID.to_owned(), pod.to_string())].into();
        let filter = PodSandboxFilter { state, label_selector, ..PodSandboxFilter::default() };
        let request = ListPodSandboxRequest { filter: Some(filter) };
        let listed = within(PATIENCE, "ListPodSandbox", client.runtime().list_pod_sandbox(request)).await?;
        let own = listed.items.into_iter().filter(|sandbox| self.sandbox(sandbox));
        Ok(own.max_by_key(|sandbox| sandbox.created_at).map(|sandbox| sandbox.id))
    }
}
