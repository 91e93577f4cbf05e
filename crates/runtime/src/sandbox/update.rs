use std::sync::Arc;

use cri::UpdatePodSandboxResourcesRequest;

use crate::error::Result;
use crate::node::Node;
use crate::records::CgroupParent;
use crate::spec;
use crate::work::blocking;

/// Gives the control group above a pod's containers other limits. One that the caller made is the caller's to
/// change, as with other runtimes: nothing is done to it. What is not said stays.
pub(crate) async fn update(node: Arc<Node>, request: UpdatePodSandboxResourcesRequest) -> Result<()> {
    let UpdatePodSandboxResourcesRequest { pod_sandbox_id, overhead, resources } = request;
    let sandbox = node.store.sandbox(&pod_sandbox_id)?;
    let _gate = sandbox.gate.lock().await;
    let record = sandbox.record();
    let known = record.config.linux.unwrap_or_default();
    let (overhead, resources) = (overhead.or(known.overhead), resources.or(known.resources));
    let limits = spec::pod_limits(resources.as_ref(), overhead.as_ref(), &node.facts)?;
    let of_sandbox = Arc::clone(&sandbox);
    blocking(move || {
        if let CgroupParent::Own(path) = &record.cgroup
            && node.groups.exists(path)
        {
            node.groups.apply(path, &limits)?;
        }
        of_sandbox.change(|record| {
            let linux = record.config.linux.get_or_insert_default();
            (linux.overhead, linux.resources) = (overhead, resources);
        })
    })
    .await
}
