//! The status of the cluster in a ConfigMap: numbers for gates and for people, and no names.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use api_client::raw::{RawObject, cause, core};
use check::controller::{ControllerStatus, NAME};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use tracing::{info, warn};
use types::time::stamp;

use crate::cluster::Cluster;
use crate::shared::Shared;

/// The status is written at least this often, so that its age shows that a controller leads.
const RENEWAL: Duration = Duration::from_secs(60);
/// How often it is looked for changes.
const PERIOD: Duration = Duration::from_secs(5);
/// How long a request may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// What the writer of the status needs.
pub(crate) struct StatusWriter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) client: Client,
    pub(crate) namespace: String,
    /// Whether this replica leads.
    pub(crate) leads: watch::Receiver<bool>,
}

/// Writes the status for ever, while this replica leads.
pub(crate) async fn run(writer: StatusWriter) {
    let StatusWriter { shared, client, namespace, leads } = writer;
    let api: Api<RawObject> = Api::namespaced_with(client, &namespace, &core("ConfigMap", "configmaps"));
    let mut written: Option<(ControllerStatus, Instant)> = None;
    let mut is_failing = false;
    loop {
        tokio::time::sleep(PERIOD).await;
        if !*leads.borrow() {
            // The status of another leader may be there.
            written = None;
            continue;
        }
        let Some(found) = shared.with(|cluster| cluster.is_settled().then(|| status(cluster))) else {
            continue;
        };
        let is_known = |(last, at): &(ControllerStatus, Instant)| *last == found && at.elapsed() < RENEWAL;
        if written.as_ref().is_some_and(is_known) {
            continue;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        match write(&api, &found, now).await {
            Ok(()) => {
                written = Some((found, Instant::now()));
                if std::mem::replace(&mut is_failing, false) {
                    info!("the status in the ConfigMap {NAME} is written again");
                }
            }
            Err(cause) => {
                if !std::mem::replace(&mut is_failing, true) {
                    let hint = "a Role in the controller's namespace needs the verbs create and patch for configmaps";
                    warn!(
                        hint,
                        "the status in the ConfigMap {NAME} cannot be written: {cause}; it is tried again"
                    );
                }
            }
        }
    }
}

/// The status of a cluster, without its time.
fn status(cluster: &Cluster) -> ControllerStatus {
    let (summary, totals) = (cluster.summary(), cluster.totals());
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    ControllerStatus {
        renewed: String::new(),
        renew_seconds: RENEWAL.as_secs(),
        unread: cluster.unread().into_iter().map(|watched| watched.resource().to_owned()).collect(),
        conflicts: summary.conflicts(),
        label_conflicts: summary.label_conflicts,
        policy_conflicts: summary.policy_conflicts,
        volumes: summary.volumes,
        meeting_volumes: summary.meeting_volumes,
        pods: summary.pods,
        multiple_labels: summary.multiple_labels,
        observed_pods: count(totals.pods),
        isolated_pods: count(totals.isolated_pods),
        observed_nodes: count(totals.nodes),
        able_nodes: count(totals.able_nodes),
    }
}

/// The ConfigMap with a status of this time.
fn document(status: &ControllerStatus, now: u64) -> Value {
    let status = ControllerStatus { renewed: stamp(now), ..status.clone() };
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": NAME, "labels": {"app.kubernetes.io/managed-by": "wardlet"}},
        "data": status.data(),
    })
}

async fn write(api: &Api<RawObject>, status: &ControllerStatus, now: u64) -> Result<(), String> {
    let params = PatchParams::apply(NAME).force();
    let patch = Patch::Apply(document(status, now));
    match timeout(DEADLINE, api.patch(NAME, &params, &patch)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(cause(&error)),
        Err(_) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use conflicts::Rules;

    use super::*;
    use crate::cluster::Details;
    use crate::objects::Watched;

    #[test]
    fn a_status_is_read_by_check_as_it_is_written_and_says_what_was_not_read() {
        let mut cluster = Cluster::new(Rules::default(), Details::Dropped);
        for watched in Watched::ALL.into_iter().filter(|watched| *watched != Watched::Nodes) {
            cluster.begin(watched);
            cluster.finish(watched);
        }
        let written = document(&status(&cluster), 1_772_368_205);
        let data: BTreeMap<String, String> = serde_json::from_value(written["data"].clone()).unwrap();
        let read = ControllerStatus::from_data(&data).unwrap();
        assert_eq!((read.renewed.as_str(), read.renew_seconds), ("2026-03-01T12:30:05Z", 60));
        assert_eq!(read.unread, ["nodes"]);
        assert_eq!(written["metadata"]["name"], "wardlet-controller");
    }
}
