//! From counters to usage: with rates, and of containers without a cgroup as the runtime says.

use cgroups::{Counters, Rates};
use kubelet_api::Used;

const NANOS_OF_MILLI: u64 = 1_000_000;

/// Keeps the last sample of each counter of CPU time.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    rates: Rates,
}

/// What is known of what a container uses.
pub(super) struct Known<'a> {
    /// The runtime's ID.
    pub(super) id: &'a str,
    /// When its cgroup was read: milliseconds since 1970.
    pub(super) at: u64,
    /// What its cgroup has counted; `None` if it has none.
    pub(super) counted: Option<Counters>,
    /// What the runtime says.
    pub(super) reported: Option<Used>,
}

/// Where it is known from what a container uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Cgroup,
    /// The runtime, if any: for a container in a virtual machine or on a kernel in user space.
    Runtime,
}

impl Sampler {
    /// What is used by what has this name, with the CPU usage rate since the last sample of it.
    pub(super) fn used(&self, name: &str, at: u64, counters: Counters) -> Used {
        let nanos = i64::try_from(at.saturating_mul(NANOS_OF_MILLI)).unwrap_or(i64::MAX);
        let cpu_rate = counters.cpu.and_then(|cpu| self.rates.record(name, nanos, cpu));
        Used { at, cpu_rate, counters }
    }

    /// What a container uses, as its cgroup says, or the runtime where that counts nothing; without counters if neither knows.
    pub(super) fn container(&self, known: Known<'_>) -> (Used, Source) {
        let Known { id, at, counted, reported } = known;
        let counted = counted.unwrap_or_default();
        if counted.has_usage() {
            return (self.used(id, at, counted), Source::Cgroup);
        }
        let used = match reported {
            Some(Used { at, cpu_rate, counters }) => {
                let own = self.used(id, at, counters);
                Used { cpu_rate: cpu_rate.or(own.cpu_rate), ..own }
            }
            None => Used { at, ..Used::default() },
        };
        (used, Source::Runtime)
    }
}

#[cfg(test)]
mod tests {
    use cgroups::Memory;

    use super::*;

    fn counters(cpu: u64, memory: u64) -> Counters {
        let memory = Memory { usage: Some(memory), ..Memory::default() };
        Counters { cpu: Some(cpu), memory, ..Counters::default() }
    }

    fn known(at: u64, counted: Option<Counters>, reported: Option<Used>) -> Known<'static> {
        Known { id: "c", at, counted, reported }
    }

    #[test]
    fn a_container_uses_what_its_cgroup_has_counted() {
        let sampler = Sampler::default();
        let reported = || Some(Used { at: 1, cpu_rate: Some(1), counters: counters(1, 1) });
        let (first, source) = sampler.container(known(1_000, Some(counters(1_000_000_000, 7)), reported()));
        assert_eq!((first.at, first.cpu_rate, first.counters.memory.usage), (1_000, None, Some(7)));
        assert_eq!(source, Source::Cgroup);
        let (second, _) = sampler.container(known(3_000, Some(counters(2_000_000_000, 7)), None));
        assert_eq!(second.cpu_rate, Some(500_000_000));
    }

    /// Kata and gVisor: the container was left out, and the rest of its pod was taken for all of it.
    #[test]
    fn a_container_without_a_cgroup_that_counts_uses_what_the_runtime_says() {
        for counted in [None, Some(Counters::default()), Some(counters(0, 0))] {
            let sampler = Sampler::default();
            let reported = |at, cpu, cpu_rate| Some(Used { at, cpu_rate, counters: counters(cpu, 9) });
            let (first, source) = sampler.container(known(5, counted.clone(), reported(1_000, 100, None)));
            assert_eq!((first.at, first.cpu_rate, first.counters.cpu), (1_000, None, Some(100)));
            assert_eq!(source, Source::Runtime);
            let (second, _) = sampler.container(known(5, counted.clone(), reported(2_000, 600, None)));
            assert_eq!(second.cpu_rate, Some(500), "by two samples");
            let (third, _) = sampler.container(known(5, counted, reported(3_000, 700, Some(42))));
            assert_eq!(third.cpu_rate, Some(42), "as the runtime says");
        }
    }

    #[test]
    fn a_container_that_neither_knows_has_no_counters() {
        let (used, source) = Sampler::default().container(known(5, Some(counters(0, 0)), None));
        assert_eq!((used, source), (Used { at: 5, ..Used::default() }, Source::Runtime));
    }
}
