//! The status that the controller keeps.

use std::collections::BTreeMap;

use kube::api::GetParams;
use kube::core::request::Request;
use serde::Deserialize;

use super::{Access, Error, Trouble, connect};
use crate::controller::{ControllerStatus, NAME, NAMESPACE};

/// What is read of the ConfigMap.
#[derive(Deserialize)]
struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

pub(super) async fn status(access: &Access) -> Result<ControllerStatus, Error> {
    let target = connect::target(access).await?;
    let namespace = access.namespace.as_deref().unwrap_or(NAMESPACE);
    let trouble = |error: kube::Error| Error::from(Trouble::of(&error, &target.server));
    let request = Request::new(format!("/api/v1/namespaces/{namespace}/configmaps"));
    let request = request.get(NAME, &GetParams::default());
    let request = request.map_err(|error| trouble(kube::Error::BuildRequest(error)))?;
    let found: ConfigMap = match target.client.request(request).await {
        Ok(found) => found,
        Err(kube::Error::Api(status)) if status.code == 404 => {
            return Err(Error::NoStatus { namespace: namespace.to_owned() });
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            return Err(Error::Server {
                cause: status.message.clone(),
                hint: format!("the right to get the ConfigMap {NAME} of namespace {namespace} is missing"),
            });
        }
        Err(error) => return Err(trouble(error)),
    };
    ControllerStatus::from_data(&found.data)
        .map_err(|cause| Error::Status { namespace: namespace.to_owned(), cause })
}
