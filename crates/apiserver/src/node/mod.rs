//! The Node object of this machine.
//!
//! Pure: [`NodeSettings`] and [`NodeState`] in, [`new_node`] and [`updated_node`] out, and [`status_patch`] for what has
//! changed. All lists have one order, so that the same state gives the same object.
//!
//! On the machine: [`read_machine`], [`addresses`].
//!
//! At the runtime: [`RuntimeProbe`].
//!
//! At the API server: [`spawn`] registers the Node, keeps its status up to date, and watches it.

mod addresses;
mod conditions;
mod config;
mod events;
mod facts;
mod images;
mod labels;
mod machine;
mod object;
mod patch;
pub(crate) mod pod_cidrs;
mod quantity;
mod recorder;
mod resources;
mod runtime;
mod seen;
mod settings;
mod sync;
mod watch;

pub use addresses::{AddressError, addresses};
pub use conditions::{Cause, NodeConditions, NotReady};
pub use events::NodeEvents;
pub use facts::{DeviceFacts, MachineFacts, NodeFacts, NodeImage, NodeState, RuntimeFacts, RuntimeHandler};
pub use machine::{MachineError, MachinePaths, read_machine};
pub use object::{adopted_node, new_node, updated_node};
pub use patch::{differs, status_patch};
pub(crate) use quantity::kernel_page_size;
pub(crate) use recorder::NodeRecorder;
pub use runtime::RuntimeProbe;
pub(crate) use runtime::{PressureSetter, Shutdown, ShutdownSetter};
pub use settings::{HardEviction, NodeSettings, Reservation, Threshold};
pub use sync::{NodeHandle, NodeTiming, spawn};

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use types::Refusal;

/// What of this machine is for pods, by the name of the resource.
pub(crate) fn allocatable(settings: &NodeSettings, machine: &MachineFacts) -> BTreeMap<String, Quantity> {
    resources::Resources::compute(settings, machine, None).allocatable
}

impl NodeSettings {
    /// Settings that the API server would refuse, or that leave nothing for pods.
    #[must_use]
    pub fn validate(&self, machine: &MachineFacts) -> Vec<Refusal> {
        let name = (!labels::is_dns_name(&self.name)).then(|| {
            let hint = "lower-case letters, digits, - and .; set --hostname-override or the host name";
            Refusal::hinted("node name", format!("{:?} is not a name of a Node", self.name), hint)
        });
        let labels = self.labels.iter().filter_map(|(key, value)| labels::check(key, value));
        name.into_iter().chain(labels).chain(resources::check(self, machine)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_a_wrong_label_and_too_large_a_reservation_are_refused_together() {
        let machine = MachineFacts { cpus: 1, memory: 1 << 30, ..MachineFacts::default() };
        let mut settings = NodeSettings::new("worker-1.example", "v1.37.1");
        assert_eq!(settings.validate(&machine), []);
        settings.name = "Worker_1".to_owned();
        settings.labels.insert("k8s.io/x".to_owned(), String::new());
        settings.kube_reserved.cpu_millis = 1001;
        assert_eq!(settings.validate(&machine).len(), 3);
    }
}
