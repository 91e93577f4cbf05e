//! The lease of this node in `kube-node-lease`: its heartbeat. A node whose lease is not renewed becomes `Unknown`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::backoff::{Backoff, jittered};
use crate::client::{ApiClient, ApiError, Clients, ErrorKind};
use crate::problem::{Problem, Problems};

/// The name space of the leases of all nodes.
pub const NAMESPACE: &str = "kube-node-lease";
/// How often a renewal is tried before the next period.
const TRIES: u32 = 5;

/// How long a lease lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTiming {
    /// `nodeLeaseDurationSeconds`. The lease is renewed four times in this time.
    pub duration_seconds: u16,
}

impl Default for LeaseTiming {
    /// The kubelet's default.
    fn default() -> Self {
        Self { duration_seconds: 40 }
    }
}

/// The task that renews a lease; it ends when it is dropped.
#[derive(Debug)]
pub struct LeaseHandle {
    problem: watch::Receiver<Problem>,
    tasks: JoinSet<()>,
}

impl LeaseHandle {
    /// Why the lease cannot be renewed at the moment.
    #[must_use]
    pub fn problem(&self) -> watch::Receiver<Problem> {
        self.problem.clone()
    }

    /// Ends the task. The lease stays and expires.
    pub async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

/// Renews the lease of the node `name`. The lease is created when `node` is known, which owns it: it is deleted with
/// the Node.
#[must_use]
pub fn spawn(
    clients: &Clients,
    name: &str,
    timing: LeaseTiming,
    node: watch::Receiver<Option<Arc<Node>>>,
) -> LeaseHandle {
    let problems = Problems::new("node lease");
    let problem = problems.subscribe();
    let client = clients.heartbeat.clone();
    let renewer = Renewer {
        api: Api::namespaced(client.kube(), NAMESPACE),
        client,
        name: name.to_owned(),
        timing,
        node,
        held: None,
        problems,
    };
    let mut tasks = JoinSet::new();
    tasks.spawn(renewer.run());
    LeaseHandle { problem, tasks }
}

struct Renewer {
    client: ApiClient,
    api: Api<Lease>,
    name: String,
    timing: LeaseTiming,
    node: watch::Receiver<Option<Arc<Node>>>,
    /// The lease as the server last answered: renewed without reading it first.
    held: Option<Lease>,
    problems: Problems,
}

impl Renewer {
    async fn run(mut self) {
        let period = Duration::from_secs(u64::from(self.timing.duration_seconds)) / 4;
        loop {
            if self.held.is_none() {
                self.acquire().await;
            } else {
                self.renew().await;
            }
            if self.held.is_some() {
                tokio::time::sleep(jittered(period, 4)).await;
            }
        }
    }

    /// Creates the lease, or takes over the one that exists; returns when that has succeeded.
    async fn acquire(&mut self) {
        let mut backoff = Backoff::new(Duration::from_millis(200), Duration::from_secs(7));
        loop {
            match self.get_or_create().await {
                Ok(lease) => {
                    self.held = Some(lease);
                    return self.problems.solved();
                }
                Err(error) => self.problems.failed(error),
            }
            tokio::time::sleep(backoff.after_failure()).await;
        }
    }

    async fn get_or_create(&mut self) -> Result<Lease, ApiError> {
        let action = format!("get lease {NAMESPACE}/{}", self.name);
        let found = self.client.call(&action, self.api.get_opt(&self.name)).await?;
        let params = PostParams::default();
        match found {
            Some(mut lease) => {
                renew(&mut lease, self.owner(), self.timing);
                self.replace(&lease).await
            }
            None => {
                let owner = self.await_owner().await;
                let action = format!("create lease {NAMESPACE}/{}", self.name);
                let lease = new_lease(&self.name, owner, self.timing);
                self.client.call(&action, self.api.create(&params, &lease)).await
            }
        }
    }

    /// Renews the lease that is held. If another writer has changed or deleted it, it is held no more.
    async fn renew(&mut self) {
        for _ in 0..TRIES {
            let Some(mut lease) = self.held.clone() else { return };
            renew(&mut lease, self.owner(), self.timing);
            match self.replace(&lease).await {
                Ok(lease) => {
                    self.held = Some(lease);
                    return self.problems.solved();
                }
                Err(error) => {
                    if matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound) {
                        tracing::debug!("{error}");
                        self.held = None;
                    } else {
                        self.problems.failed(error);
                    }
                }
            }
        }
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, ApiError> {
        let action = format!("renew lease {NAMESPACE}/{}", self.name);
        self.client.call(&action, self.api.replace(&self.name, &PostParams::default(), lease)).await
    }

    /// The reference to the Node, if it is known.
    fn owner(&self) -> Option<OwnerReference> {
        let uid = self.node.borrow().as_ref()?.metadata.uid.clone()?;
        Some(OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.name.clone(),
            uid,
            ..OwnerReference::default()
        })
    }

    /// The reference to the Node, when it is known.
    async fn await_owner(&mut self) -> OwnerReference {
        loop {
            self.node.mark_unchanged();
            if let Some(owner) = self.owner() {
                return owner;
            }
            if self.node.changed().await.is_err() {
                // The Node is watched no more: the agent ends.
                std::future::pending::<()>().await;
            }
        }
    }
}

fn new_lease(name: &str, owner: OwnerReference, timing: LeaseTiming) -> Lease {
    let mut lease = Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec { holder_identity: Some(name.to_owned()), ..LeaseSpec::default() }),
    };
    renew(&mut lease, Some(owner), timing);
    lease
}

/// Sets the time of renewal, and the owner if there is none.
fn renew(lease: &mut Lease, owner: Option<OwnerReference>, timing: LeaseTiming) {
    let spec = lease.spec.get_or_insert_default();
    spec.lease_duration_seconds = Some(i32::from(timing.duration_seconds));
    spec.renew_time = Some(MicroTime(Timestamp::now()));
    let owners = lease.metadata.owner_references.get_or_insert_default();
    if owners.is_empty() {
        owners.extend(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str) -> OwnerReference {
        OwnerReference { uid: uid.to_owned(), ..OwnerReference::default() }
    }

    #[test]
    fn a_renewal_keeps_the_holder_and_an_owner_that_is_set() {
        let timing = LeaseTiming::default();
        let mut lease = new_lease("a", owner("1"), timing);
        let spec = lease.spec.clone().unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("a"), Some(40)));
        renew(&mut lease, Some(owner("2")), timing);
        assert_eq!(lease.metadata.owner_references, Some(vec![owner("1")]));
        assert!(lease.spec.as_ref().unwrap().renew_time >= spec.renew_time);
        lease.metadata.owner_references = None;
        renew(&mut lease, Some(owner("2")), timing);
        assert_eq!(lease.metadata.owner_references, Some(vec![owner("2")]));
    }
}
