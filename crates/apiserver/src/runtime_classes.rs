//! The RuntimeClasses of the cluster: they name the runtime handler of a pod.

use k8s_openapi::api::node::v1::RuntimeClass;
use kube::Api;
use manifest::{Object, Resource};

use crate::client::{ApiClient, ErrorKind};

/// The RuntimeClasses of a cluster.
#[derive(Debug)]
pub struct RuntimeClasses {
    client: ApiClient,
}

impl RuntimeClasses {
    /// Those of this API server.
    #[must_use]
    pub fn new(client: ApiClient) -> Self {
        Self { client }
    }

    /// The handler of a class.
    ///
    /// # Errors
    /// If there is no such class, or the API server does not tell. The text is for an event.
    pub(crate) async fn handler(&self, class: &str) -> Result<String, String> {
        let api: Api<RuntimeClass> = Api::all(self.client.kube());
        match self.client.call(&format!("get RuntimeClass {class}"), api.get(class)).await {
            Ok(found) => Ok(found.handler),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(format!("runtimeclass.node.k8s.io {class:?} not found; create it, or delete the pod"))
            }
            Err(error) => Err(error.to_string()),
        }
    }
}

/// The class that a pod names.
pub(crate) fn class_of(pod: &Object) -> Option<String> {
    pod.pod().and_then(|pod| pod.spec.runtime_class_name.clone()).filter(|class| !class.is_empty())
}

/// The same pod with the handler in place of its RuntimeClass: admission knows no object of the cluster.
pub(crate) fn with_handler(pod: &Object, handler: String) -> Object {
    let mut pod = pod.clone();
    if let Resource::Pod(found) = &mut pod.resource
        && let Some(spec) = &mut found.spec
    {
        spec.runtime_class_name = Some(handler).filter(|handler| !handler.is_empty());
    }
    pod
}
