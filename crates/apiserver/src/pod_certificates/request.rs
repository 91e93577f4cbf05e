//! One PodCertificateRequest: created, and awaited.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use agent::ports::{CertificateRequest, EventSink};
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{PodCertificateRequest, PodCertificateRequestSpec};
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use kube_runtime::watcher::{Config, Event};
use serde_json::Value;
use tokio::sync::{Semaphore, watch};

use super::key::Key;
use super::outcome::{self, Outcome};
use crate::follow::{Followed, follow};
use crate::raw::{RawObject, cause, certificates_v1};

/// How long a request at the API server may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// The server ends a watch after so many seconds, and a new one is begun.
const WATCH_SECONDS: u32 = 290;

/// What requests certificates for the pods of a node.
#[derive(Clone)]
pub struct Requester {
    /// A client with the credentials of the node.
    pub client: Client,
    /// The name of the node.
    pub node: String,
    /// The Node as it was seen last.
    pub seen: watch::Receiver<Option<Arc<Node>>>,
    /// Receives what becomes of requests.
    pub events: Arc<dyn EventSink>,
}

/// How many keys are made at a time. An RSA key takes up to some seconds of a processor, and a pod can have any number of them.
static KEYS: Semaphore = Semaphore::const_new(1);

/// A request that was created.
pub(super) struct Created {
    pub(super) name: String,
    /// The key that the certificate will be for, as PEM.
    pub(super) key: String,
}

impl Requester {
    /// Makes a key and creates a request for it.
    ///
    /// # Errors
    /// Why it could not be created. It can be tried again.
    pub(super) async fn create(&self, request: &CertificateRequest) -> Result<Created, String> {
        let node_uid = self.seen.borrow().as_ref().and_then(|node| node.metadata.uid.clone());
        let node_uid = node_uid.ok_or("this node is not registered yet")?;
        let namespace = &request.pod.namespace;
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let account = in_time(accounts.get(&request.service_account)).await?;
        // The slot is taken until the key is made, also if the pod has gone meanwhile.
        let slot = KEYS.acquire().await.map_err(|error| error.to_string())?;
        let key_type = request.key_type.clone();
        let made = tokio::task::spawn_blocking(move || {
            let key = Key::generate(&key_type);
            drop(slot);
            let key = key?;
            Ok::<_, String>((key.pem(), key.stub_request()?))
        });
        let (key, stub) = made.await.map_err(|error| error.to_string())??;
        let wanted = self.object(request, stub, [node_uid, account.metadata.uid.unwrap_or_default()]);
        let requests: Api<PodCertificateRequest> = Api::namespaced(self.client.clone(), namespace);
        let created = in_time(requests.create(&PostParams::default(), &wanted)).await?;
        Ok(Created { name: created.metadata.name.unwrap_or_default(), key })
    }

    fn object(
        &self,
        request: &CertificateRequest,
        stub: Vec<u8>,
        [node_uid, account_uid]: [String; 2],
    ) -> PodCertificateRequest {
        let pod = &request.pod;
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: pod.name.clone(),
            uid: pod.uid.as_str().to_owned(),
            ..OwnerReference::default()
        };
        let annotations = Some(request.annotations.clone()).filter(|all| !all.is_empty());
        PodCertificateRequest {
            metadata: ObjectMeta {
                generate_name: Some("req-".to_owned()),
                namespace: Some(pod.namespace.clone()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: PodCertificateRequestSpec {
                max_expiration_seconds: request.max_expiration_seconds,
                node_name: self.node.clone(),
                node_uid,
                pod_name: pod.name.clone(),
                pod_uid: pod.uid.as_str().to_owned(),
                service_account_name: request.service_account.clone(),
                service_account_uid: account_uid,
                signer_name: request.signer.clone(),
                stub_pkc_s10_request: ByteString(stub),
                unverified_user_annotations: annotations,
            },
            status: None,
        }
    }

    /// Waits until a request is answered, however long that takes. A node may watch only requests of its own name.
    pub(super) async fn answer(&self, namespace: &str, name: &str) -> Outcome {
        let resource = certificates_v1("PodCertificateRequest", "podcertificaterequests");
        let api = Api::<RawObject>::namespaced_with(self.client.clone(), namespace, &resource);
        let fields = format!("metadata.name={name},spec.nodeName={}", self.node);
        let config = Config::default().fields(&fields).timeout(WATCH_SECONDS);
        let (mut is_listed, mut found) = (false, Outcome::Gone);
        follow(api, config, &format!("PodCertificateRequest {namespace}/{name}"), |followed| {
            let Followed::Event(event) = followed else { return ControlFlow::Continue(()) };
            match event {
                Event::Init => is_listed = false,
                Event::InitApply(raw) | Event::Apply(raw) => {
                    is_listed = true;
                    if let Some(outcome) = status(raw.field("status")) {
                        found = outcome;
                        return ControlFlow::Break(());
                    }
                }
                Event::InitDone if is_listed => {}
                Event::InitDone | Event::Delete(_) => return ControlFlow::Break(()),
            }
            ControlFlow::Continue(())
        })
        .await;
        found
    }
}

/// A status that cannot be read is of an open request.
fn status(status: &Value) -> Option<Outcome> {
    outcome::of(&serde_json::from_value(status.clone()).ok()?)
}

async fn in_time<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match tokio::time::timeout(DEADLINE, request).await {
        Ok(answer) => answer.map_err(|error| cause(&error)),
        Err(_) => Err(format!("the API server does not answer within {} s", DEADLINE.as_secs())),
    }
}
