//! What the containers of a pod ask for of device plugins.

use std::collections::BTreeMap;

use devices::{ContainerEdits, ContainerRequest, Lifetime, PodRequest};
use manifest::k8s_openapi::api::core::v1::{Container, Pod};
use types::is_extended_resource;

use crate::error::Result;
use crate::pod::context::PodContext;
use crate::pod::fields::quantity;
use crate::shared::Shared;

/// What a container's mounts are made from, beside its volumes.
pub(crate) struct Given {
    /// The IDs of the images of its image volumes, by the volume's name.
    pub(crate) images: BTreeMap<String, String>,
    pub(crate) devices: ContainerEdits,
}

/// What a container gets with the devices of plugins that it asks for.
///
/// # Errors
/// Why it does not get them now.
pub(crate) async fn devices_of(
    shared: &Shared,
    context: &PodContext,
    container: &str,
) -> Result<ContainerEdits> {
    let Some(devices) = &shared.devices else { return Ok(ContainerEdits::default()) };
    let request = device_request(context.uid.as_str(), &context.pod);
    Ok(devices.start_container(&request, container).await?)
}

/// What the pod of this UID asks for. Devices cannot be shared, so that a limit is what is requested; ephemeral containers
/// have none.
#[must_use]
pub fn device_request(uid: &str, pod: &Pod) -> PodRequest {
    let spec = pod.spec.as_ref();
    let init = spec.into_iter().flat_map(|spec| spec.init_containers.iter().flatten()).map(|container| {
        let is_sidecar = container.restart_policy.as_deref() == Some("Always");
        of_container(container, if is_sidecar { Lifetime::Pod } else { Lifetime::Init })
    });
    let regular = spec.into_iter().flat_map(|spec| &spec.containers);
    let regular = regular.map(|container| of_container(container, Lifetime::Pod));
    PodRequest { uid: uid.to_owned(), containers: init.chain(regular).collect() }
}

fn of_container(container: &Container, lifetime: Lifetime) -> ContainerRequest {
    let limits = container.resources.iter().flat_map(|resources| resources.limits.iter().flatten());
    let count = |text| u64::try_from(quantity(text).units()).unwrap_or(0);
    let resources: BTreeMap<String, u64> = limits
        .filter(|(name, _)| is_extended_resource(name))
        .map(|(name, amount)| (name.clone(), count(amount)))
        .collect();
    ContainerRequest { name: container.name.clone(), lifetime, resources }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_asks_for_the_extended_resources_of_its_limits() {
        let pod: Pod = serde_json::from_str(
            r#"{"spec":{
            "initContainers":[{"name":"init","resources":{"limits":{"example.com/gpu":"2"}}},
                {"name":"side","restartPolicy":"Always","resources":{"limits":{"example.com/gpu":"1"}}}],
            "containers":[{"name":"app","resources":{"limits":{"cpu":"1","memory":"1Gi","example.com/nic":"3"},
                "requests":{"example.com/nic":"3"}}},{"name":"plain"}]}}"#,
        )
        .unwrap();
        let asked = device_request("u-1", &pod);
        assert_eq!(asked.uid, "u-1");
        let of = |container: &ContainerRequest| {
            let resources: Vec<String> =
                container.resources.iter().map(|(name, count)| format!("{name}={count}")).collect();
            (container.name.clone(), container.lifetime, resources.join(","))
        };
        let expected = [
            ("init", Lifetime::Init, "example.com/gpu=2"),
            ("side", Lifetime::Pod, "example.com/gpu=1"),
            ("app", Lifetime::Pod, "example.com/nic=3"),
            ("plain", Lifetime::Pod, ""),
        ];
        let expected =
            expected.map(|(name, lifetime, resources)| (name.to_owned(), lifetime, resources.to_owned()));
        assert_eq!(asked.containers.iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!(device_request("", &Pod::default()), PodRequest::default());
    }
}
