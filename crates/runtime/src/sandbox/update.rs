use std::sync::Arc;

use wire::cri::LinuxContainerResources;

use crate::error::Result;
use crate::node::{Node, blocking};
use crate::order;
use crate::records::CgroupParent;

/// Gives the control group above a pod's containers other limits. One that the caller made is the caller's to
/// change, as with other runtimes: nothing is done to it.
pub(crate) async fn update(
    node: Arc<Node>,
    id: String,
    wanted: Option<LinuxContainerResources>,
) -> Result<()> {
    let sandbox = node.book.sandbox(&id)?;
    let _gate = sandbox.gate.lock().await;
    let wanted = wanted.unwrap_or_default();
    let limits = order::limits(&wanted, &node.facts).map_err(|refusal| refusal.below("resources"))?;
    let record = sandbox.record();
    let of_sandbox = Arc::clone(&sandbox);
    blocking(move || {
        if let CgroupParent::Own(path) = &record.cgroup {
            node.groups.apply(path, &limits)?;
        }
        of_sandbox.change(|record| {
            record.config.linux.get_or_insert_default().resources = Some(wanted);
        })
    })
    .await
}
