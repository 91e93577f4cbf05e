//! What a unit is, and its limits, as properties of systemd.

use super::names::Unit;
use crate::limits::weight;
use crate::resources::Resources;
use dbus::{Property, Value};

/// systemd's word for no limit.
const INFINITY: u64 = u64::MAX;
const SECOND: u64 = 1_000_000;
/// The kernel's period where none is given.
const PERIOD: u64 = 100_000;
/// systemd keeps a quota in hundredths of a CPU. Rounded up, so that it is never below a container's own.
const QUOTA_STEP: u64 = SECOND / 100;

/// Files of cgroup v2 that are properties of systemd.
const FILES: [(&str, &str); 6] = [
    ("cpu.weight", "CPUWeight"),
    ("memory.min", "MemoryMin"),
    ("memory.low", "MemoryLow"),
    ("memory.high", "MemoryHigh"),
    ("memory.max", "MemoryMax"),
    ("memory.swap.max", "MemorySwapMax"),
];

/// Properties that enable the controllers in a unit and above it.
const ACCOUNTING: [&str; 3] = ["MemoryAccounting", "TasksAccounting", "IOAccounting"];

fn property(name: &'static str, value: Value) -> Property {
    Property { name, value }
}

fn text(name: &'static str, text: &str) -> Property {
    property(name, Value::Text(text.to_owned()))
}

fn of_all(description: &str) -> Vec<Property> {
    let mut all = vec![text("Description", description)];
    // Pods end when the agent says so, or with the machine.
    all.push(property("DefaultDependencies", Value::Flag(false)));
    all.extend(ACCOUNTING.map(|name| property(name, Value::Flag(true))));
    all
}

/// A slice of pods.
pub(super) fn of_slice(unit: &Unit) -> Vec<Property> {
    of_all(&format!("Kubernetes pods in {}", unit.name()))
}

/// A scope of a container with this process. Below it nothing is systemd's.
pub(super) fn of_scope(unit: &Unit, pid: u32) -> Vec<Property> {
    let mut all = of_all(&format!("Kubernetes container in {}", unit.name()));
    all.extend(unit.slice().map(|slice| text("Slice", slice)));
    all.push(property("Delegate", Value::Flag(true)));
    // systemd's default for a scope is a part of the host's.
    all.push(property("TasksMax", Value::Number(INFINITY)));
    // Not kept for an administrator to look at when it has failed.
    all.push(text("CollectMode", "inactive-or-failed"));
    all.push(property("PIDs", Value::Numbers(vec![pid])));
    all
}

/// What counts in the cgroup of a scope, beside other containers of the pod. The container's own cgroup below it has all limits;
/// here they would also be those of the process that holds the scope.
const SHARES: [&str; 3] = ["CPUWeight", "MemoryMin", "MemoryLow"];

/// What systemd knows of these limits for a unit. It leaves the files of the others alone.
pub(super) fn of_limits(unit: &Unit, limits: &Resources) -> Vec<Property> {
    let mut all = all_of(limits);
    if unit.is_scope() {
        all.retain(|property| SHARES.contains(&property.name));
    }
    all
}

fn all_of(limits: &Resources) -> Vec<Property> {
    let mut all = Vec::new();
    let mut number = |name, value| all.push(property(name, Value::Number(value)));
    if let Some(shares) = limits.cpu_shares {
        number("CPUWeight", weight(shares));
    }
    if let Some(quota) = limits.cpu_quota {
        number("CPUQuotaPerSecUSec", per_second(quota, limits.cpu_period.unwrap_or(PERIOD)));
    }
    if let Some(period) = limits.cpu_period {
        number("CPUQuotaPeriodUSec", period);
    }
    if let Some(limit) = limits.memory {
        number("MemoryMax", or_infinity(limit));
    }
    if let Some(both) = limits.memory_swap {
        number("MemorySwapMax", or_infinity(both).saturating_sub(swap_base(both, limits.memory)));
    }
    if let Some(limit) = limits.pids {
        number("TasksMax", or_infinity(limit));
    }
    for (file, name) in FILES {
        if let Some(value) = limits.unified.get(file).and_then(|text| parse(text)) {
            number(name, value);
        }
    }
    for (name, list) in [("AllowedCPUs", &limits.cpuset_cpus), ("AllowedMemoryNodes", &limits.cpuset_mems)] {
        if let Some(bits) = list.as_deref().and_then(bits) {
            all.push(property(name, Value::Bytes(bits)));
        }
    }
    all
}

fn or_infinity(limit: i64) -> u64 {
    u64::try_from(limit).unwrap_or(INFINITY)
}

/// What of the limit of memory and swap together is memory.
fn swap_base(both: i64, memory: Option<i64>) -> u64 {
    if both < 0 { 0 } else { memory.and_then(|memory| u64::try_from(memory).ok()).unwrap_or(0) }
}

fn parse(text: &str) -> Option<u64> {
    match text.trim() {
        "max" => Some(INFINITY),
        text => text.parse().ok(),
    }
}

/// Microseconds of CPU time in each second.
fn per_second(quota: i64, period: u64) -> u64 {
    let Ok(quota) = u64::try_from(quota) else { return INFINITY };
    let each = u128::from(quota) * u128::from(SECOND) / u128::from(period.max(1));
    u64::try_from(each).map_or(INFINITY, |each| each.next_multiple_of(QUOTA_STEP))
}

/// A list of ranges such as `0-3,8` as a set of bits, the lowest first; `None` for an empty list or another text.
fn bits(list: &str) -> Option<Vec<u8>> {
    let mut bits = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        for number in first..=last {
            let (byte, bit) = (usize::from(number / 8), number % 8);
            if bits.len() <= byte {
                bits.resize(byte + 1, 0);
            }
            *bits.get_mut(byte)? |= 1 << bit;
        }
    }
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(limits: &Resources) -> Vec<(&'static str, u64)> {
        let number = |property: Property| match property.value {
            Value::Number(number) => Some((property.name, number)),
            _ => None,
        };
        all_of(limits).into_iter().filter_map(number).collect()
    }

    #[test]
    fn limits_are_the_properties_that_systemd_writes_the_same_values_for() {
        let limits = Resources {
            cpu_shares: Some(1024),
            cpu_quota: Some(50_000),
            cpu_period: Some(100_000),
            memory: Some(64 << 20),
            memory_swap: Some(96 << 20),
            pids: Some(100),
            unified: [("memory.high", "1048576"), ("memory.min", "0"), ("memory.oom.group", "1")]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..Resources::default()
        };
        let expected = [
            ("CPUWeight", 100),
            ("CPUQuotaPerSecUSec", 500_000),
            ("CPUQuotaPeriodUSec", 100_000),
            ("MemoryMax", 64 << 20),
            ("MemorySwapMax", 32 << 20),
            ("TasksMax", 100),
            ("MemoryMin", 0),
            ("MemoryHigh", 1_048_576),
        ];
        assert_eq!(numbers(&limits), expected);
        assert!(all_of(&Resources::default()).is_empty());
    }

    #[test]
    fn a_scope_has_the_shares_of_its_container_and_no_limit() {
        let limits = Resources {
            cpu_shares: Some(1024),
            cpu_quota: Some(50_000),
            memory: Some(64 << 20),
            pids: Some(100),
            unified: [("memory.low".to_owned(), "1048576".to_owned())].into(),
            ..Resources::default()
        };
        let names = |path: &str| {
            let unit = Unit::of(path).unwrap().unwrap();
            of_limits(&unit, &limits).into_iter().map(|property| property.name).collect::<Vec<_>>()
        };
        assert_eq!(names("/a.slice/wardlet-1.scope"), ["CPUWeight", "MemoryLow"]);
        assert_eq!(
            names("/a.slice"),
            ["CPUWeight", "CPUQuotaPerSecUSec", "MemoryMax", "TasksMax", "MemoryLow"]
        );
    }

    #[test]
    fn no_limit_is_infinity() {
        let limits = Resources {
            cpu_quota: Some(-1),
            memory: Some(-1),
            memory_swap: Some(-1),
            pids: Some(-1),
            unified: [("memory.high".to_owned(), "max".to_owned())].into(),
            ..Resources::default()
        };
        let found = numbers(&limits);
        assert_eq!(found.len(), 5);
        assert!(found.iter().all(|(_, value)| *value == INFINITY), "{found:?}");
    }

    #[test]
    fn a_quota_is_rounded_up_to_what_systemd_keeps() {
        let table = [((50_000, 100_000), 500_000), ((1_500, 100_000), 20_000), ((1_000, 100_000), 10_000)];
        for ((quota, period), expected) in table {
            assert_eq!(per_second(quota, period), expected, "{quota} in {period}");
        }
    }

    #[test]
    fn a_list_of_cpus_is_a_set_of_bits() {
        assert_eq!(bits("0-3,8\n"), Some(vec![0b1111, 1]));
        assert_eq!(bits("0"), Some(vec![1]));
        assert_eq!(bits("15-16"), Some(vec![0, 0x80, 1]));
        for wrong in ["", "a", "1-", "70000"] {
            assert_eq!(bits(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_scope_is_delegated_and_in_its_slice() {
        let unit = Unit::of("/a.slice/wardlet-1.scope").unwrap().unwrap();
        let all = of_scope(&unit, 7);
        for expected in [
            property("Delegate", Value::Flag(true)),
            property("PIDs", Value::Numbers(vec![7])),
            text("Slice", "a.slice"),
            property("DefaultDependencies", Value::Flag(false)),
        ] {
            assert!(all.contains(&expected), "{expected:?}");
        }
    }
}
