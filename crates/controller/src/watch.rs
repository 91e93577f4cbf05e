//! The watches: each feeds the cluster with the objects of one resource, listed page by page and then followed.

use std::fmt::Debug;
use std::ops::ControlFlow;
use std::sync::Arc;

use api_client::follow::{Followed, follow};
use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{Api, Client, Resource};
use kube_runtime::watcher::{Config, Event};
use serde::de::DeserializeOwned;
use telemetry::metrics::Counter;
use tracing::warn;

use crate::cluster::Cluster;
use crate::objects::{ClaimObject, DriverObject, NodeObject, PodObject, Watched};
use crate::shared::Shared;

/// The server ends a watch after so many seconds, and a new one is begun: a connection that has silently died is noticed
/// soon after that.
const WATCH_SECONDS: u32 = 60;

/// An object of a watched resource.
pub(crate) trait Object:
    Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static
{
    /// The resource.
    const WATCHED: Watched;

    /// It has come or changed.
    fn put(&self, cluster: &mut Cluster);

    /// It has gone.
    fn remove(&self, cluster: &mut Cluster);
}

macro_rules! object {
    ($type:ty, $watched:ident, $put:ident, $remove:ident) => {
        impl Object for $type {
            const WATCHED: Watched = Watched::$watched;

            fn put(&self, cluster: &mut Cluster) {
                cluster.$put(self);
            }

            fn remove(&self, cluster: &mut Cluster) {
                cluster.$remove(self);
            }
        }
    };
}

object!(PodObject, Pods, put_pod, remove_pod);
object!(ClaimObject, Claims, put_claim, remove_claim);
object!(PersistentVolume, Volumes, put_volume, remove_volume);
object!(DriverObject, Drivers, put_driver, remove_driver);
object!(NodeObject, Nodes, put_node, remove_node);

/// Watches a resource for ever. What cannot be watched is reported, and does not concern other resources.
pub(crate) async fn watch<K: Object>(client: Client, shared: Arc<Shared>, failures: Counter) {
    let api: Api<K> = Api::all(client);
    let config = Config::default().timeout(WATCH_SECONDS);
    follow(api, config, K::WATCHED.resource(), |followed| {
        take(&shared, &failures, followed);
        ControlFlow::Continue(())
    })
    .await;
}

fn take<K: Object>(shared: &Shared, failures: &Counter, followed: Followed<'_, K>) {
    let watched = K::WATCHED;
    match followed {
        Followed::Event(event) => shared.change(|cluster| apply(cluster, event)),
        Followed::Failed(failure) => {
            failures.increment();
            if shared.change(|cluster| cluster.failed(watched, &failure)) {
                let (resource, consequence) = (watched.resource(), watched.consequence());
                let hint =
                    format!("give this user a ClusterRole with the verbs list and watch for {resource}");
                warn!(hint = hint.as_str(), "{resource} cannot be read: {}; {consequence}", failure.cause);
            }
        }
    }
}

fn apply<K: Object>(cluster: &mut Cluster, event: &Event<K>) {
    match event {
        Event::Init => cluster.begin(K::WATCHED),
        Event::InitApply(object) => {
            object.put(cluster);
            cluster.answered(K::WATCHED);
        }
        Event::InitDone => cluster.finish(K::WATCHED),
        Event::Apply(object) => {
            object.put(cluster);
            cluster.followed(K::WATCHED);
        }
        Event::Delete(object) => {
            object.remove(cluster);
            cluster.followed(K::WATCHED);
        }
    }
}
