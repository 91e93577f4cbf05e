//! Our side of the conflicts' suite: the same pods as the peer's program loads, in a process of its own, so
//! that its memory is the engine's. Prints the same JSON object.
//!
//! Ours gets more than the peer: claims, volumes and the driver too, which upstream has in other caches.

use std::ops::Range;
use std::time::Instant;

use anyhow::Context;
use clap::Args;
use conflicts::{
    AccessMode, Claim, ClaimKey, ClaimReference, Conflict, CsiDriver, Engine, Mount, PersistentVolume, Pod,
    PodKey, PodVolume, PodVolumeSource, Rules, VolumeId, VolumeSource,
};
use selinux::SelinuxOptions;

use crate::conflicts::Measured;

const DRIVER: &str = "csi.example.com";
/// More pairs than this are not listed one by one.
const LISTED: u64 = 1_000_000;
const BATCH: usize = 1000;

/// Which pods there are. Without volumes of their own, all share one and have two labels.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Scene {
    pods: usize,
    deletes: usize,
    volumes: Option<usize>,
    /// How many volumes have one pod with another label.
    contested: Option<usize>,
}

impl Scene {
    fn volumes(self) -> usize {
        self.volumes.unwrap_or(1).max(1)
    }

    fn label(self, pod: usize) -> usize {
        match self.contested {
            Some(contested) => usize::from(pod < contested),
            None => pod % 2,
        }
    }

    fn claim(self, volume: usize) -> Claim {
        let key = ClaimKey::new("shop", format!("data-{volume:05}"));
        Claim { key, uid: None, volume: Some(format!("pv-{volume:05}")) }
    }

    fn volume(self, volume: usize) -> PersistentVolume {
        PersistentVolume {
            name: format!("pv-{volume:05}"),
            id: VolumeId::csi(DRIVER, &format!("vol-{volume:05}")),
            source: VolumeSource::Csi { driver: DRIVER.to_owned() },
            access_modes: vec![AccessMode::ReadWriteMany],
            claim: Some(ClaimReference { key: self.claim(volume).key, uid: None }),
        }
    }

    fn pod(self, pod: usize, label: usize) -> Pod {
        let level = Some(format!("s0:c{},c{}", 10 + label, 20 + label));
        let options = Some(SelinuxOptions { level, ..SelinuxOptions::default() });
        let source = PodVolumeSource::Claim(format!("data-{:05}", pod % self.volumes()));
        let mounts = vec![Mount { options, ..Mount::default() }];
        let volumes = vec![PodVolume { name: "data".to_owned(), source, mounts }];
        Pod { volumes, ..Pod::new(PodKey::new("shop", format!("web-{pod:06}"))) }
    }

    /// Loads everything; the objects are made in batches, while the clock stands.
    fn load(self) -> (u64, Engine) {
        let mut engine = Engine::new(Rules::default());
        engine.put_driver(&CsiDriver { name: DRIVER.to_owned(), selinux_mount: true });
        let mut total = 0;
        for batch in batches(self.volumes()) {
            let made: Vec<_> = batch.map(|v| (self.claim(v), self.volume(v))).collect();
            total += timed(|| {
                for (claim, volume) in &made {
                    engine.put_claim(claim);
                    engine.put_volume(volume);
                }
            })
            .0;
        }
        for batch in batches(self.pods) {
            let made: Vec<_> = batch.map(|pod| self.pod(pod, self.label(pod))).collect();
            total += timed(|| made.iter().for_each(|pod| drop(engine.put_pod(pod)))).0;
        }
        (total, engine)
    }

    /// Does it all, and prints what it took.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let before = resident()?;
        let (load_ns, mut engine) = self.load();
        let heap_bytes = resident()?.saturating_sub(before);
        let (conflicts, list_ns) = listed(&engine);
        let mut measured = Measured { load_ns, conflicts, list_ns, heap_bytes, ..Measured::default() };
        for index in 0..self.deletes.min(self.pods) {
            let pod = self.pod(index, 1 - self.label(index));
            measured.event_ns.push(timed(|| engine.put_pod(&pod)).0);
            measured.delete_ns.push(timed(|| engine.remove_pod(&pod.key, None)).0);
        }
        println!("{}", serde_json::to_string(&measured)?);
        Ok(())
    }
}

/// The numbers below `n` in ranges.
fn batches(n: usize) -> impl Iterator<Item = Range<usize>> {
    (0..n).step_by(BATCH).map(move |first| first..n.min(first + BATCH))
}

/// How many records there are, and what it takes to make them all, as the peer does; too many are only
/// counted.
fn listed(engine: &Engine) -> (u64, Option<u64>) {
    if engine.count() > LISTED {
        return (engine.count() * 2, None);
    }
    let (ns, all) = timed(|| engine.records().collect::<Vec<Conflict<'_>>>());
    (u64::try_from(all.len()).unwrap_or(u64::MAX), Some(ns))
}

fn timed<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let began = Instant::now();
    let done = work();
    (u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX), done)
}

/// The memory that this process has of the machine: all that the allocator keeps, not only what is used.
fn resident() -> anyhow::Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").trim().parse().context("no number in VmRSS")?;
    Ok(kilobytes * 1024)
}
