//! The running container of a pod, for a command that is no agent.

use std::time::Duration;

use cri::client::Client;
use cri::{ContainerFilter, ContainerState, ContainerStateValue, ListContainersRequest, within};
use types::PodUid;
use types::keys::{CONTAINER_NAME, POD_UID};

use crate::error::Result;
use crate::instance::InstanceId;

/// How long the runtime may take to answer.
const PATIENCE: Duration = Duration::from_secs(120);

impl InstanceId {
    /// The runtime's ID of the container of this name in a pod of this instance; `None` if it does not run. Other
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
        let own = listed.containers.into_iter().find(|container| self.owns(&container.annotations));
        Ok(own.map(|container| container.id))
    }
}
