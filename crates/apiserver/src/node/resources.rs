//! Capacity and allocatable resources.

use std::collections::BTreeMap;

use devices::DeviceCount;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use types::Refusal;

use super::facts::MachineFacts;
use super::quantity;
use super::settings::NodeSettings;

type Amounts = BTreeMap<String, Quantity>;

const CPU: &str = "cpu";
const MEMORY: &str = "memory";
const PODS: &str = "pods";
const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
const HUGE_PAGES: &str = "hugepages-";
/// Without these no pod can be scheduled.
const REQUIRED: [&str; 4] = [CPU, MEMORY, PODS, EPHEMERAL_STORAGE];

/// What the node has, and what of it is for pods.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Resources {
    pub(super) capacity: Amounts,
    pub(super) allocatable: Amounts,
}

impl Resources {
    /// Computes both. Resources of `seen`, the capacity of the Node as it is, that are not ours to compute are kept:
    /// administrators and device plugins set them. Huge pages of sizes that the kernel no longer has are dropped.
    pub(super) fn compute(
        settings: &NodeSettings,
        machine: &MachineFacts,
        seen: Option<&BTreeMap<String, Quantity>>,
    ) -> Self {
        let ours = |name: &str| REQUIRED.contains(&name) || name.starts_with(HUGE_PAGES);
        let foreign = seen.into_iter().flatten().filter(|(name, _)| !ours(name));
        let mut capacity: Amounts = foreign.map(|(name, amount)| (name.clone(), amount.clone())).collect();
        let mut allocatable = capacity.clone();
        let mut add = |name: &str, has: Quantity, gives: Quantity| {
            capacity.insert(name.to_owned(), has);
            allocatable.insert(name.to_owned(), gives);
        };
        let reserved = Reserved::of(settings, machine);
        let cpu = u64::from(machine.cpus) * 1000;
        add(CPU, quantity::millis(cpu), quantity::millis(cpu.saturating_sub(reserved.cpu_millis)));
        let pages: u64 = machine.huge_pages.iter().map(|(size, number)| size * number).sum();
        let memory = machine.memory.saturating_sub(reserved.memory).saturating_sub(pages);
        add(MEMORY, quantity::bytes(machine.memory), quantity::bytes(memory));
        for (size, number) in &machine.huge_pages {
            let amount = quantity::bytes(size * number);
            add(&format!("{HUGE_PAGES}{}", quantity::bytes(*size).0), amount.clone(), amount);
        }
        if let Some(storage) = machine.ephemeral_storage {
            let gives = storage.saturating_sub(reserved.ephemeral_storage);
            add(EPHEMERAL_STORAGE, quantity::bytes(storage), quantity::bytes(gives));
        }
        let pods = quantity::count(u64::from(pods(settings, machine.cpus)));
        add(PODS, pods.clone(), pods);
        Self { capacity, allocatable }
    }

    /// With the devices of plugins, which no other writer sets.
    pub(super) fn with_devices(mut self, devices: &BTreeMap<String, DeviceCount>) -> Self {
        let amount = |count: usize| quantity::count(u64::try_from(count).unwrap_or(u64::MAX));
        for (name, count) in devices {
            self.capacity.insert(name.clone(), amount(count.capacity));
            self.allocatable.insert(name.clone(), amount(count.allocatable));
        }
        self
    }

    /// Required resources that the capacity lacks.
    pub(super) fn missing(&self) -> Vec<&'static str> {
        REQUIRED.into_iter().filter(|name| !self.capacity.contains_key(*name)).collect()
    }
}

fn pods(settings: &NodeSettings, cpus: u32) -> u32 {
    match settings.pods_per_core {
        0 => settings.max_pods,
        each => settings.max_pods.min(each.saturating_mul(cpus)),
    }
}

/// All that pods do not get.
struct Reserved {
    cpu_millis: u64,
    memory: u64,
    ephemeral_storage: u64,
}

impl Reserved {
    fn of(settings: &NodeSettings, machine: &MachineFacts) -> Self {
        let (system, kube, eviction) =
            (settings.system_reserved, settings.kube_reserved, settings.hard_eviction);
        let storage = machine.ephemeral_storage.unwrap_or(0);
        let below = |threshold: Option<super::Threshold>, capacity| threshold.map_or(0, |t| t.of(capacity));
        let sum = |a: u64, b: u64, c: u64| a.saturating_add(b).saturating_add(c);
        let cpu_millis = match settings.reserved_cpus {
            Some(cpus) => u64::from(cpus) * 1000,
            None => system.cpu_millis.saturating_add(kube.cpu_millis),
        };
        Self {
            cpu_millis,
            memory: sum(system.memory, kube.memory, below(eviction.memory_available, machine.memory)),
            ephemeral_storage: sum(
                system.ephemeral_storage,
                kube.ephemeral_storage,
                below(eviction.nodefs_available, storage),
            ),
        }
    }
}

/// Reservations that are larger than the machine: nothing would be left for pods.
pub(super) fn check(settings: &NodeSettings, machine: &MachineFacts) -> Vec<Refusal> {
    let reserved = Reserved::of(settings, machine);
    let refusal = |name: &str, reserved: Quantity, has: Quantity| {
        let cause = format!("{} of {name} is reserved, and the node has {}", reserved.0, has.0);
        let hint = "lower systemReserved, kubeReserved, reservedSystemCPUs or evictionHard";
        Refusal::hinted(format!("node allocatable {name}"), cause, hint)
    };
    let mut refusals = Vec::new();
    let cpu = u64::from(machine.cpus) * 1000;
    if reserved.cpu_millis > cpu {
        refusals.push(refusal(CPU, quantity::millis(reserved.cpu_millis), quantity::millis(cpu)));
    }
    if reserved.memory > machine.memory {
        refusals.push(refusal(MEMORY, quantity::bytes(reserved.memory), quantity::bytes(machine.memory)));
    }
    if let Some(storage) = machine.ephemeral_storage.filter(|has| reserved.ephemeral_storage > *has) {
        let reserved = quantity::bytes(reserved.ephemeral_storage);
        refusals.push(refusal(EPHEMERAL_STORAGE, reserved, quantity::bytes(storage)));
    }
    refusals
}

#[cfg(test)]
mod tests {
    use super::super::Reservation;
    use super::*;

    const GI: u64 = 1 << 30;

    fn machine() -> MachineFacts {
        MachineFacts {
            cpus: 4,
            memory: 8 * GI,
            ephemeral_storage: Some(100 * GI),
            huge_pages: BTreeMap::from([(2 << 20, 512), (GI, 0)]),
            ..MachineFacts::default()
        }
    }

    fn text(amounts: &Amounts) -> Vec<String> {
        amounts.iter().map(|(name, amount)| format!("{name}={}", amount.0)).collect()
    }

    #[test]
    fn allocatable_is_capacity_without_reservations_evictions_and_huge_pages() {
        let mut settings = NodeSettings::new("a", "v1.37.1");
        settings.system_reserved = Reservation { cpu_millis: 100, memory: GI, ephemeral_storage: 5 * GI };
        settings.kube_reserved = Reservation { cpu_millis: 50, memory: GI, ephemeral_storage: 0 };
        let resources = Resources::compute(&settings, &machine(), None);
        assert_eq!(
            text(&resources.capacity),
            [
                "cpu=4",
                "ephemeral-storage=100Gi",
                "hugepages-1Gi=0",
                "hugepages-2Mi=1Gi",
                "memory=8Gi",
                "pods=110"
            ]
        );
        assert_eq!(
            text(&resources.allocatable),
            [
                "cpu=3850m",
                "ephemeral-storage=85Gi",
                "hugepages-1Gi=0",
                "hugepages-2Mi=1Gi",
                // 8 Gi without 2 Gi reserved, 100 Mi of the eviction threshold and 1 Gi of huge pages.
                "memory=5020Mi",
                "pods=110"
            ]
        );
        assert!(check(&settings, &machine()).is_empty());
    }

    #[test]
    fn reserved_processors_replace_both_reservations() {
        let mut settings = NodeSettings::new("a", "v1.37.1");
        settings.kube_reserved.cpu_millis = 500;
        settings.reserved_cpus = Some(1);
        let resources = Resources::compute(&settings, &machine(), None);
        assert_eq!(resources.allocatable["cpu"].0, "3");
    }

    #[test]
    fn foreign_resources_are_kept_and_huge_pages_of_lost_sizes_are_not() {
        let seen = BTreeMap::from([
            ("example.com/gpu".to_owned(), Quantity("2".to_owned())),
            ("hugepages-32Mi".to_owned(), Quantity("0".to_owned())),
            ("cpu".to_owned(), Quantity("64".to_owned())),
        ]);
        let resources = Resources::compute(&NodeSettings::new("a", "v1.37.1"), &machine(), Some(&seen));
        assert_eq!(resources.capacity["example.com/gpu"].0, "2");
        assert_eq!(resources.allocatable["example.com/gpu"].0, "2");
        assert_eq!(resources.capacity["cpu"].0, "4");
        assert!(!resources.capacity.contains_key("hugepages-32Mi"));
    }

    #[test]
    fn devices_of_plugins_are_counted_and_those_of_lost_ones_cannot_be_had() {
        let seen = BTreeMap::from([("example.com/gpu".to_owned(), Quantity("9".to_owned()))]);
        let settings = NodeSettings::new("a", "v1.37.1");
        let of = |capacity, allocatable| {
            let count = DeviceCount { capacity, allocatable };
            let devices = BTreeMap::from([("example.com/gpu".to_owned(), count)]);
            let resources = Resources::compute(&settings, &machine(), Some(&seen)).with_devices(&devices);
            [resources.capacity, resources.allocatable].map(|of| of["example.com/gpu"].0.clone())
        };
        assert_eq!(of(4, 3), ["4", "3"]);
        assert_eq!(of(4, 0), ["4", "0"]);
        assert_eq!(of(0, 0), ["0", "0"], "forgotten");
    }

    #[test]
    fn the_number_of_pods_is_limited_by_processors() {
        let mut settings = NodeSettings::new("a", "v1.37.1");
        settings.pods_per_core = 10;
        assert_eq!(Resources::compute(&settings, &machine(), None).capacity["pods"].0, "40");
        settings.pods_per_core = 100;
        assert_eq!(Resources::compute(&settings, &machine(), None).capacity["pods"].0, "110");
    }

    #[test]
    fn reservations_beyond_the_machine_are_refused_and_leave_nothing() {
        let mut settings = NodeSettings::new("a", "v1.37.1");
        settings.system_reserved =
            Reservation { cpu_millis: 5000, memory: 9 * GI, ephemeral_storage: 99 * GI };
        assert_eq!(check(&settings, &machine()).len(), 3);
        let resources = Resources::compute(&settings, &machine(), None);
        assert_eq!(resources.allocatable["memory"].0, "0");
    }

    #[test]
    fn a_filesystem_that_cannot_be_read_is_a_missing_resource() {
        let machine = MachineFacts { ephemeral_storage: None, ..machine() };
        let resources = Resources::compute(&NodeSettings::new("a", "v1.37.1"), &machine, None);
        assert_eq!(resources.missing(), ["ephemeral-storage"]);
    }
}
