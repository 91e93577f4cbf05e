//! The lease of a node.

use apiserver::lease::{self, LeaseTiming, NAMESPACE};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;

use crate::support::{Agent, BY_CHANGE, admin, cluster, eventually, is_ready, ready, run, settings};

/// Renewed every second.
const SHORT: LeaseTiming = LeaseTiming { duration_seconds: 4 };

async fn renewed_after(leases: &Api<Lease>, name: &str, before: Option<MicroTime>) -> Lease {
    let renewed = async || {
        let lease = leases.get_opt(name).await.unwrap()?;
        let time = lease.spec.as_ref()?.renew_time.clone();
        (time.is_some() && time > before).then_some(lease)
    };
    eventually("a renewal", renewed).await
}

fn time(lease: &Lease) -> Option<MicroTime> {
    lease.spec.as_ref()?.renew_time.clone()
}

#[test]
fn the_lease_belongs_to_the_node_and_is_renewed_whatever_others_do_to_it() {
    run(cluster(), async || {
        let leases: Api<Lease> = Api::namespaced(admin(cluster()).await, NAMESPACE);
        let agent = Agent::start(cluster(), settings("leased"), BY_CHANGE, ready()).await;
        let handle = lease::spawn(&agent.clients, "leased", SHORT, agent.handle.node());
        let node = agent.node_with("registered", is_ready).await;
        let first = renewed_after(&leases, "leased", None).await;
        let spec = first.spec.clone().unwrap();
        assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some("leased"), Some(4)));
        let uid = node.metadata.uid.clone().unwrap();
        assert_eq!(
            json!(first.metadata.owner_references),
            json!([{"apiVersion": "v1", "kind": "Node", "name": "leased", "uid": uid}])
        );
        let second = renewed_after(&leases, "leased", time(&first)).await;

        // Another writer: the next renewal conflicts and reads the lease again.
        let note = json!({"metadata": {"annotations": {"foreign": "kept"}, "ownerReferences": null}});
        leases.patch("leased", &PatchParams::default(), &Patch::Merge(note)).await.unwrap();
        let third = renewed_after(&leases, "leased", time(&second)).await;
        assert_eq!(third.metadata.annotations.as_ref().unwrap()["foreign"], "kept");
        assert_eq!(third.metadata.owner_references.as_ref().map(Vec::len), Some(1));

        leases.delete("leased", &DeleteParams::default()).await.unwrap();
        let fourth = renewed_after(&leases, "leased", time(&third)).await;
        assert_ne!(fourth.metadata.uid, third.metadata.uid);
        assert!(handle.problem().borrow().is_none());
    });
}

#[test]
fn there_is_no_lease_before_there_is_a_node() {
    run(cluster(), async || {
        let leases: Api<Lease> = Api::namespaced(admin(cluster()).await, NAMESPACE);
        let mut settings = settings("later");
        settings.register = false;
        let agent = Agent::start(cluster(), settings, BY_CHANGE, ready()).await;
        let _lease = lease::spawn(&agent.clients, "later", SHORT, agent.handle.node());
        crate::support::until(&mut agent.handle.problem(), "no Node", Option::is_some).await;
        assert!(leases.get_opt("later").await.unwrap().is_none());
    });
}
