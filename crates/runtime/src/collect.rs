//! Collects the statistics of sandboxes and containers.

use std::sync::Arc;

use cgroups::Counters;
use cri::{ContainerStatsFilter, PodSandboxStatsFilter};
use kernel::NamespaceKind;
use kernel::disk_usage::Round;
use tokio::sync::SemaphorePermit;

use crate::container_state::ContainerState;
use crate::error::Result;
use crate::node::Node;
use crate::records::SandboxStage;
use crate::sandbox::namespaces::{Own, Sharing};
use crate::stats::{self, Link, Processes, Written};
use crate::store::{Container, Sandbox};
use crate::work::blocking;
use crate::{spec, view};

/// All containers that have run or run, as far as the filter goes.
pub(crate) async fn containers(
    node: &Arc<Node>,
    filter: Option<ContainerStatsFilter>,
) -> Result<Vec<stats::Container>> {
    let filter = filter.unwrap_or_default();
    let mut found = node.store.containers();
    found.retain(|container| {
        matches!(container.state(), ContainerState::Running(_))
            && container.id.as_str().starts_with(&filter.id)
            && container.sandbox.as_str().starts_with(&filter.pod_sandbox_id)
            && view::selected(&container.record().config.labels, &filter.label_selector)
    });
    let on_node = Arc::clone(node);
    let _turn = turn(node).await;
    blocking(move || Ok(each(&on_node, &found, Round::begin()))).await
}

/// Limits how many calls collect statistics at a time, so that calls that start or stop a pod have threads.
async fn turn(node: &Node) -> Option<SemaphorePermit<'_>> {
    // The semaphore is never closed.
    node.looking.acquire().await.ok()
}

/// Statistics of those containers that still exist.
fn each(node: &Node, all: &[Arc<Container>], round: Round) -> Vec<stats::Container> {
    all.iter().filter_map(|one| container(node, one, round).ok()).collect()
}

/// One container. Blocks.
pub(crate) fn container(node: &Node, of: &Container, round: Round) -> Result<stats::Container> {
    let record = of.record();
    let group = node.groups.open(&record.cgroup)?;
    let limits = record.config.linux.as_ref().and_then(|linux| linux.resources.as_ref());
    Ok(stats::Container {
        id: record.id.to_string(),
        metadata: record.config.metadata.clone().unwrap_or_default(),
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        image: record.image_name.clone(),
        cgroup: record.cgroup.clone(),
        started_at: match of.state() {
            ContainerState::Running(started) => started.started_at,
            _ => 0,
        },
        // What was refused was never in force.
        limits: limits.and_then(|limits| spec::limits(limits, &node.facts).ok()).unwrap_or_default(),
        counters: Counters::read(&group),
        processes: Processes::read(&group.processes().unwrap_or_default()),
        // It may be removed at this moment.
        written: Written::read(&of.places.state.join("rw/upper"), &node.written, round).ok().flatten(),
    })
}

/// All sandboxes that are ready, as far as the filter goes.
pub(crate) async fn sandboxes(
    node: &Arc<Node>,
    filter: Option<PodSandboxStatsFilter>,
) -> Result<Vec<stats::Sandbox>> {
    let filter = filter.unwrap_or_default();
    let round = Round::begin();
    let mut looked = vec![];
    for found in node.store.sandboxes() {
        if found.is(SandboxStage::Ready)
            && found.id.as_str().starts_with(&filter.id)
            && view::selected(&found.record().config.labels, &filter.label_selector)
        {
            // It may be stopped at this moment.
            looked.extend(sandbox(node, &found, round).await);
        }
    }
    Ok(looked)
}

pub(crate) async fn sandbox(node: &Arc<Node>, of: &Arc<Sandbox>, round: Round) -> Result<stats::Sandbox> {
    let _turn = turn(node).await;
    let record = of.record();
    let links = if Own::of(&record.config)?.network == Sharing::Pod {
        // It may be stopped at this moment.
        node.network.counters(&of.places.pin(NamespaceKind::Net)).await.unwrap_or_default()
    } else {
        vec![]
    };
    let (on_node, id) = (Arc::clone(node), of.id.clone());
    blocking(move || {
        let mut running = on_node.store.containers_of(&id);
        running.retain(|container| matches!(container.state(), ContainerState::Running(_)));
        Ok(stats::Sandbox {
            id: id.to_string(),
            metadata: record.config.metadata.unwrap_or_default(),
            labels: record.config.labels,
            annotations: record.config.annotations,
            counters: Counters::read(&on_node.groups.open(record.cgroup.path())?),
            cgroup: record.cgroup.path().to_owned(),
            links: links.iter().filter(|link| link.name != "lo").map(Link::from).collect(),
            containers: each(&on_node, &running, round),
        })
    })
    .await
}
