use std::io;
use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::files::{read, try_write, write};
use crate::find::Kind;
use crate::group::{Group, Place};
use crate::resources::Resources;

/// The range of weights of the unified hierarchy, and that of shares of version 1.
const WEIGHTS: (u64, u64) = (1, 10_000);
const SHARES: (u64, u64) = (2, 262_144);

impl Group {
    /// Writes the limits that are `Some`, and leaves the others unchanged. Fails with [`Error::NoController`] if a limit
    /// needs a controller that this host does not have: no container runs without a limit that it was given.
    pub fn apply(&self, limits: &Resources) -> Result<()> {
        self.processor(limits)?;
        self.processors(limits)?;
        self.memory(limits)?;
        if let Some(limit) = limits.pids {
            write(&self.file("pids", "pids.max")?, &or_max(limit))?;
        }
        for (size, limit) in &limits.hugepages {
            self.huge_pages(size, *limit)?;
        }
        for (name, value) in &limits.unified {
            write(&self.unified_file(name)?, value)?;
        }
        Ok(())
    }

    fn processor(&self, limits: &Resources) -> Result<()> {
        if let Some(shares) = limits.cpu_shares {
            let place = self.place("cpu")?;
            match place.hierarchy.kind {
                Kind::Split => write(&place.dir.join("cpu.shares"), &shares.to_string())?,
                Kind::Unified => write(&place.dir.join("cpu.weight"), &weight(shares).to_string())?,
            }
        }
        if limits.cpu_quota.is_none() && limits.cpu_period.is_none() {
            return Ok(());
        }
        let place = self.place("cpu")?;
        match place.hierarchy.kind {
            Kind::Split => split_quota(place, limits),
            Kind::Unified => unified_quota(place, limits),
        }
    }

    fn processors(&self, limits: &Resources) -> Result<()> {
        for (name, list) in [("cpuset.cpus", &limits.cpuset_cpus), ("cpuset.mems", &limits.cpuset_mems)] {
            if let Some(list) = list.as_deref().filter(|list| !list.is_empty()) {
                write(&self.file("cpuset", name)?, list)?;
            }
        }
        Ok(())
    }

    fn memory(&self, limits: &Resources) -> Result<()> {
        if limits.memory.is_none() && limits.memory_swap.is_none() {
            return Ok(());
        }
        let place = self.place("memory")?;
        match place.hierarchy.kind {
            Kind::Split => split_memory(place, limits),
            Kind::Unified => unified_memory(place, limits),
        }
    }

    fn huge_pages(&self, size: &str, limit: u64) -> Result<()> {
        let place = self.place("hugetlb")?;
        let names = match place.hierarchy.kind {
            Kind::Split => ["limit_in_bytes", "rsvd.limit_in_bytes"],
            Kind::Unified => ["max", "rsvd.max"],
        };
        let [used, reserved] = names.map(|name| place.dir.join(format!("hugetlb.{size}.{name}")));
        if !plain(size) {
            return Err(Error::Path { path: size.to_owned(), why: "it is not a huge page size such as 2MB" });
        }
        write(&used, &limit.to_string())?;
        // Since Linux 5.7.
        if reserved.exists() { write(&reserved, &limit.to_string()) } else { Ok(()) }
    }

    fn unified_file(&self, name: &str) -> Result<PathBuf> {
        let unified = self.places.iter().find(|place| place.hierarchy.kind == Kind::Unified);
        let file = unified.filter(|_| plain(name) && !name.starts_with("cgroup.")).map(|u| u.dir.join(name));
        file.filter(|file| file.exists())
            .ok_or_else(|| Error::NoController { group: self.path.clone(), controller: name.to_owned() })
    }

    fn file(&self, controller: &str, name: &str) -> Result<PathBuf> {
        Ok(self.place(controller)?.dir.join(name))
    }

    fn place(&self, controller: &str) -> Result<&Place> {
        self.with(controller).ok_or_else(|| Error::NoController {
            group: self.path.clone(),
            controller: controller.to_owned(),
        })
    }
}

/// Whether the name is that of one file: without a slash, and not hidden.
fn plain(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && !name.starts_with('.')
}

/// cgroup v2 writes `max` for unlimited.
fn or_max(limit: i64) -> String {
    if limit < 0 { "max".to_owned() } else { limit.to_string() }
}

/// Shares of version 1 as a weight of version 2: the curve that newer runtimes agreed on, through both ends of
/// the two ranges and through both defaults, 1024 and 100. The built-in engine has the same, so that a container
/// whose limits are set anew keeps its weight.
pub(crate) fn weight(shares: u64) -> u64 {
    let (least, most) = WEIGHTS;
    match u32::try_from(shares) {
        Ok(shares) if u64::from(shares) <= SHARES.0 => least,
        Ok(shares) if u64::from(shares) < SHARES.1 => {
            let log = f64::from(shares).log2();
            let weight = 10_f64.powf((log * log + 125.0 * log) / 612.0 - 7.0 / 34.0).ceil();
            format!("{weight:.0}").parse().unwrap_or(most).clamp(least, most)
        }
        _ => most,
    }
}

fn split_quota(place: &Place, limits: &Resources) -> Result<()> {
    let period = limits.cpu_period.map(|period| ("cpu.cfs_period_us", period.to_string()));
    let quota = limits.cpu_quota.map(|quota| ("cpu.cfs_quota_us", quota.max(-1).to_string()));
    in_either_order(place, &period.into_iter().chain(quota).collect::<Vec<_>>())
}

fn unified_quota(place: &Place, limits: &Resources) -> Result<()> {
    let file = place.dir.join("cpu.max");
    let present = read(&file)?.unwrap_or_default();
    let mut present = present.split_whitespace();
    let (quota, period) = (present.next().unwrap_or("max"), present.next().unwrap_or("100000"));
    let quota = limits.cpu_quota.map_or_else(|| quota.to_owned(), or_max);
    let period = limits.cpu_period.map_or_else(|| period.to_owned(), |period| period.to_string());
    write(&file, &format!("{quota} {period}"))
}

fn split_memory(place: &Place, limits: &Resources) -> Result<()> {
    let memory = limits.memory.map(|limit| ("memory.limit_in_bytes", limit.max(-1).to_string()));
    let both = limits.memory_swap.map(|limit| ("memory.memsw.limit_in_bytes", limit.max(-1).to_string()));
    in_either_order(place, &memory.into_iter().chain(both).collect::<Vec<_>>())
}

/// The kernel takes two values that depend on each other only in the order in which each is possible
/// beside the other's old value.
fn in_either_order(place: &Place, values: &[(&str, String)]) -> Result<()> {
    let set = |(name, value): &(&str, String)| write(&place.dir.join(name), value);
    values.iter().try_for_each(set).or_else(|_| values.iter().rev().try_for_each(set))
}

fn unified_memory(place: &Place, limits: &Resources) -> Result<()> {
    if let Some(limit) = limits.memory {
        write(&place.dir.join("memory.max"), &or_max(limit))?;
    }
    let Some(both) = limits.memory_swap else { return Ok(()) };
    let swap = match (both, limits.memory) {
        (both, _) if both < 0 => "max".to_owned(),
        (both, Some(memory)) if memory >= 0 && both >= memory => (both - memory).to_string(),
        (both, _) => {
            return Err(Error::WriteFile {
                path: place.dir.join("memory.swap.max"),
                value: both.to_string(),
                cause: io::Error::other("memory and swap together need a limit of memory that is not larger"),
            });
        }
    };
    let file = place.dir.join("memory.swap.max");
    match try_write(&file, &swap) {
        // A kernel without swap has nothing to keep from being used.
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && swap == "0" => Ok(()),
        Err(cause) => Err(Error::WriteFile { path: file, value: swap, cause }),
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::weight;

    #[test]
    fn shares_become_weights_from_end_to_end() {
        let shares = [0, 2, 3, 512, 1024, 2048, 262_143, 262_144, u64::MAX];
        assert_eq!(shares.map(weight), [1, 1, 2, 59, 100, 174, 10_000, 10_000, 10_000]);
        assert!((0..4096).is_sorted_by_key(weight));
    }
}
