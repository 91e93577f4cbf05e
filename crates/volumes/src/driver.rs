//! Drivers of volumes behind one asynchronous trait, and the manager that calls them.
//!
//! A pod's volumes are of several kinds, and each kind has its driver. [`LocalDriver`] makes what the node makes itself:
//! emptyDir, hostPath, configMap, secret, downwardAPI, projected. A driver of another kind, such as a CSI driver's client,
//! stands beside it. [`VolumeManager`] asks the right driver for each volume, drivers beside each other, and lets only one
//! operation at a time touch a volume: an update waits for the set-up of the same volume, and the tear-down of a pod waits
//! for all operations on its volumes.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Mutex as Exclusive, OwnedMutexGuard, OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use types::{PodUid, VolumeName};

use crate::error::{Error, Result};
use crate::pod::PodVolumes;
use crate::present::HostMount;
use crate::probe::Notice;
use crate::wanted::{Source, Wanted, WantedMount};
use crate::writer::Written;

/// A future that a driver returns.
pub type DriverFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>;

/// What makes volumes of some kinds.
///
/// Every call is about volumes of one pod, and only about those that [`VolumeDriver::handles`]; it may be repeated, also
/// after a crash, and then completes what was begun. No two calls touch the same volume at once.
pub trait VolumeDriver: Send + Sync {
    /// Whether volumes of this source are this driver's.
    fn handles(&self, source: &Source) -> bool;

    /// Makes these volumes what is wanted. A driver whose volumes depend on nothing common makes each by itself.
    fn set_up<'a>(&'a self, wanted: &'a Wanted) -> DriverFuture<'a, Vec<Notice>>;

    /// Brings the files that the node writes into these volumes up to date; volumes without such files stay as they are.
    fn update<'a>(&'a self, wanted: &'a Wanted) -> DriverFuture<'a, Vec<(VolumeName, Written)>>;

    /// Where the runtime finds what a container sees of a volume that is set up. Called on a thread that may block.
    ///
    /// # Errors
    /// If the volume is not set up, or the part of it that is asked for cannot be had.
    fn host_mount(&self, wanted: &Wanted, mount: &WantedMount) -> Result<HostMount>;

    /// Removes all that this driver has made for the pod. Nothing there is fine.
    fn tear_down<'a>(&'a self, pod: &'a PodUid) -> DriverFuture<'a, Vec<Notice>>;
}

/// The driver of what the node makes itself.
#[derive(Debug, Clone)]
pub struct LocalDriver {
    volumes: PodVolumes,
}

impl LocalDriver {
    /// Over these volumes.
    #[must_use]
    pub fn new(volumes: PodVolumes) -> Self {
        Self { volumes }
    }

    /// Does what waits for the disk on a thread for that.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&PodVolumes) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let volumes = self.volumes.clone();
        tokio::task::spawn_blocking(move || work(&volumes)).await.unwrap_or(Err(Error::Interrupted))
    }
}

impl VolumeDriver for LocalDriver {
    fn handles(&self, source: &Source) -> bool {
        match source {
            Source::EmptyDir(_) | Source::HostPath(_) | Source::Written(_) | Source::Image(_) => true,
        }
    }

    fn set_up<'a>(&'a self, wanted: &'a Wanted) -> DriverFuture<'a, Vec<Notice>> {
        let wanted = wanted.clone();
        Box::pin(self.blocking(move |volumes| volumes.set_up(&wanted)))
    }

    fn update<'a>(&'a self, wanted: &'a Wanted) -> DriverFuture<'a, Vec<(VolumeName, Written)>> {
        let wanted = wanted.clone();
        Box::pin(self.blocking(move |volumes| volumes.update(&wanted)))
    }

    fn host_mount(&self, wanted: &Wanted, mount: &WantedMount) -> Result<HostMount> {
        self.volumes.host_mount(wanted, mount)
    }

    fn tear_down<'a>(&'a self, pod: &'a PodUid) -> DriverFuture<'a, Vec<Notice>> {
        let pod = pod.clone();
        Box::pin(self.blocking(move |volumes| volumes.tear_down(&pod)))
    }
}

/// The volumes of all pods, each with its driver.
pub struct VolumeManager {
    drivers: Vec<Arc<dyn VolumeDriver>>,
    operations: Operations,
}

impl VolumeManager {
    /// With these drivers; the first that handles a volume has it.
    #[must_use]
    pub fn new(drivers: Vec<Arc<dyn VolumeDriver>>) -> Self {
        Self { drivers, operations: Operations::default() }
    }

    /// Makes a pod's volumes what is wanted.
    ///
    /// # Errors
    /// The first that a driver returns; what other drivers have made stays for the next try, or for the tear-down.
    pub async fn set_up(&self, wanted: &Wanted) -> Result<Vec<Notice>> {
        let mut notices = Vec::new();
        for (driver, part) in self.parts(wanted)? {
            let _operation = self.operations.on(&part).await;
            notices.extend(driver.set_up(&part).await?);
        }
        Ok(notices)
    }

    /// Brings the files that the node writes up to date. One driver's failure keeps none of the others.
    ///
    /// # Errors
    /// All that drivers return.
    pub async fn update(&self, wanted: &Wanted) -> Result<Vec<(VolumeName, Written)>> {
        let (mut written, mut errors) = (Vec::new(), Vec::new());
        for (driver, part) in self.parts(wanted)? {
            let _operation = self.operations.on(&part).await;
            match driver.update(&part).await {
                Ok(done) => written.extend(done),
                Err(error) => errors.push(error),
            }
        }
        Error::all(errors).map(|()| written)
    }

    /// Where the runtime finds what a container sees of a volume that is set up. Call it on a thread that may block.
    ///
    /// # Errors
    /// If the pod has no such volume, or its driver cannot show it.
    pub fn host_mount(&self, wanted: &Wanted, mount: &WantedMount) -> Result<HostMount> {
        let no_such = || Error::NoSuchVolume { pod: wanted.pod.clone(), volume: mount.volume.clone() };
        let volume = wanted.volume(&mount.volume).ok_or_else(no_such)?;
        let driver = self.driver(&volume.source).ok_or_else(|| no_driver(wanted, &mount.volume))?;
        // The driver's own volumes only: it knows nothing of the others.
        driver.host_mount(&part(wanted, |source| driver.handles(source)), mount)
    }

    /// Removes all that was made for a pod, by every driver.
    ///
    /// # Errors
    /// All that drivers return.
    pub async fn tear_down(&self, pod: &PodUid) -> Result<Vec<Notice>> {
        let operation = self.operations.on_all(pod).await;
        let (mut notices, mut errors) = (Vec::new(), Vec::new());
        for driver in &self.drivers {
            match driver.tear_down(pod).await {
                Ok(found) => notices.extend(found),
                Err(error) => errors.push(error),
            }
        }
        self.operations.forget(pod);
        drop(operation);
        Error::all(errors).map(|()| notices)
    }

    fn driver(&self, source: &Source) -> Option<&Arc<dyn VolumeDriver>> {
        self.drivers.iter().find(|driver| driver.handles(source))
    }

    /// What each driver has to do.
    fn parts(&self, wanted: &Wanted) -> Result<Vec<(&Arc<dyn VolumeDriver>, Wanted)>> {
        if let Some(volume) = wanted.volumes.iter().find(|volume| self.driver(&volume.source).is_none()) {
            return Err(no_driver(wanted, &volume.name));
        }
        let is_firsts = |index: usize, source: &Source| {
            self.drivers.iter().position(|driver| driver.handles(source)) == Some(index)
        };
        let parts = self.drivers.iter().enumerate();
        let parts = parts.map(|(index, driver)| (driver, part(wanted, |source| is_firsts(index, source))));
        Ok(parts.filter(|(_, part)| !part.volumes.is_empty()).collect())
    }
}

fn no_driver(wanted: &Wanted, volume: &VolumeName) -> Error {
    Error::NoDriver { pod: wanted.pod.clone(), volume: volume.clone() }
}

fn part(wanted: &Wanted, is_in: impl Fn(&Source) -> bool) -> Wanted {
    let volumes = wanted.volumes.iter().filter(|volume| is_in(&volume.source)).cloned().collect();
    Wanted { volumes, ..wanted.clone() }
}

/// Which operations are under way: one at a time on each volume.
#[derive(Default)]
struct Operations(Mutex<HashMap<PodUid, OfPod>>);

#[derive(Clone, Default)]
struct OfPod {
    /// Shared by operations on single volumes, exclusive to one on all of them.
    all: Arc<RwLock<()>>,
    volumes: HashMap<VolumeName, Arc<Exclusive<()>>>,
}

/// An operation on some volumes of a pod. It ends when this is dropped.
struct Operation {
    _all: OwnedRwLockReadGuard<()>,
    _volumes: Vec<OwnedMutexGuard<()>>,
}

impl Operations {
    fn pods<T>(&self, ask: impl FnOnce(&mut HashMap<PodUid, OfPod>) -> T) -> T {
        ask(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Waits for all other operations on these volumes.
    async fn on(&self, wanted: &Wanted) -> Operation {
        let mut names: Vec<&VolumeName> = wanted.volumes.iter().map(|volume| &volume.name).collect();
        // In one order, or two operations could wait for each other.
        names.sort();
        let (all, locks) = self.pods(|pods| {
            let pod = pods.entry(wanted.pod.clone()).or_default();
            let lock = |name: &&VolumeName| Arc::clone(pod.volumes.entry((*name).clone()).or_default());
            let locks: Vec<_> = names.iter().map(lock).collect();
            (Arc::clone(&pod.all), locks)
        });
        let all = all.read_owned().await;
        let mut volumes = Vec::new();
        for lock in locks {
            volumes.push(lock.lock_owned().await);
        }
        Operation { _all: all, _volumes: volumes }
    }

    /// Waits for all operations on this pod's volumes, and keeps others from them.
    async fn on_all(&self, pod: &PodUid) -> OwnedRwLockWriteGuard<()> {
        let all = self.pods(|pods| Arc::clone(&pods.entry(pod.clone()).or_default().all));
        all.write_owned().await
    }

    /// The pod is gone, unless an operation on it waits.
    fn forget(&self, pod: &PodUid) {
        self.pods(|pods| {
            // One is in the table, one is held by the operation that ends.
            if pods.get(pod).is_some_and(|of_pod| Arc::strong_count(&of_pod.all) <= 2) {
                pods.remove(pod);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use ids::UserNamespace;
    use plan::Owners;

    use super::*;
    use crate::kinds::{EmptyDir, HostPath, HostPathType, Medium};
    use crate::wanted::WantedVolume;

    /// Takes its time, and counts how many operations are under way at once.
    #[derive(Default)]
    struct Slow {
        handles_host_paths: bool,
        now: AtomicUsize,
        most: AtomicUsize,
        calls: Mutex<Vec<String>>,
    }

    impl Slow {
        async fn work(&self, call: String) {
            let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
            self.most.fetch_max(now, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(20)).await;
            self.calls.lock().unwrap().push(call);
            self.now.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn names(wanted: &Wanted) -> String {
        wanted.volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>().join(",")
    }

    impl VolumeDriver for Slow {
        fn handles(&self, source: &Source) -> bool {
            matches!(source, Source::HostPath(_)) == self.handles_host_paths
        }

        fn set_up<'a>(&'a self, wanted: &'a Wanted) -> DriverFuture<'a, Vec<Notice>> {
            Box::pin(async move {
                self.work(format!("set up {}", names(wanted))).await;
                Ok(Vec::new())
            })
        }

        fn update<'a>(&'a self, wanted: &'a Wanted) -> DriverFuture<'a, Vec<(VolumeName, Written)>> {
            Box::pin(async move {
                self.work(format!("update {}", names(wanted))).await;
                Ok(Vec::new())
            })
        }

        fn host_mount(&self, wanted: &Wanted, mount: &WantedMount) -> Result<HostMount> {
            Err(Error::NotSetUp { pod: wanted.pod.clone(), volume: mount.volume.clone() })
        }

        fn tear_down<'a>(&'a self, pod: &'a PodUid) -> DriverFuture<'a, Vec<Notice>> {
            Box::pin(async move {
                self.work(format!("tear down {pod}")).await;
                Ok(Vec::new())
            })
        }
    }

    fn scratch() -> Source {
        Source::EmptyDir(EmptyDir { medium: Medium::parse("").unwrap(), size_limit: None, mode: None })
    }

    fn host() -> Source {
        Source::HostPath(HostPath { path: "/srv".into(), kind: HostPathType::parse("").unwrap() })
    }

    fn wanted(volumes: Vec<(&str, Source)>) -> Wanted {
        let one = |(name, source): (&str, Source)| WantedVolume {
            name: VolumeName::new(name).unwrap(),
            owners: Owners::AsOnDisk,
            source,
        };
        let (pod, users) = (PodUid::new("u-1").unwrap(), UserNamespace::Host);
        Wanted { pod, users, fs_group: None, volumes: volumes.into_iter().map(one).collect() }
    }

    #[tokio::test]
    async fn each_volume_goes_to_its_driver_and_one_without_a_driver_is_refused() {
        let (local, hosts) =
            (Arc::new(Slow::default()), Arc::new(Slow { handles_host_paths: true, ..Slow::default() }));
        let manager = VolumeManager::new(vec![Arc::clone(&local) as _, Arc::clone(&hosts) as _]);
        let all = wanted(vec![("a", scratch()), ("b", host()), ("c", scratch())]);
        manager.set_up(&all).await.unwrap();
        assert_eq!(*local.calls.lock().unwrap(), ["set up a,c"]);
        assert_eq!(*hosts.calls.lock().unwrap(), ["set up b"]);
        manager.tear_down(&all.pod).await.unwrap();
        assert_eq!(hosts.calls.lock().unwrap().last().unwrap(), "tear down u-1");
        let only = VolumeManager::new(vec![hosts as _]);
        assert!(matches!(only.set_up(&all).await, Err(Error::NoDriver { .. })));
    }

    #[tokio::test]
    async fn one_operation_at_a_time_touches_a_volume_and_other_volumes_go_on() {
        let driver = Arc::new(Slow::default());
        let manager = VolumeManager::new(vec![Arc::clone(&driver) as _]);
        let (a, both) = (wanted(vec![("a", scratch())]), wanted(vec![("b", scratch()), ("a", scratch())]));
        let (first, second, third) =
            tokio::join!(manager.set_up(&both), manager.update(&a), manager.update(&both));
        assert!(first.is_ok() && second.is_ok() && third.is_ok());
        assert_eq!(driver.most.load(Ordering::SeqCst), 1);
        let b = wanted(vec![("b", scratch())]);
        let (first, second) = tokio::join!(manager.update(&a), manager.update(&b));
        assert!(first.is_ok() && second.is_ok());
        assert_eq!(driver.most.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn a_tear_down_waits_for_what_is_under_way_and_nothing_is_kept_of_the_pod() {
        let driver = Arc::new(Slow::default());
        let manager = VolumeManager::new(vec![Arc::clone(&driver) as _]);
        let all = wanted(vec![("a", scratch())]);
        let (set_up, torn_down) = tokio::join!(manager.set_up(&all), manager.tear_down(&all.pod));
        assert!(set_up.is_ok() && torn_down.is_ok());
        assert_eq!(*driver.calls.lock().unwrap(), ["set up a", "tear down u-1"]);
        assert_eq!(driver.most.load(Ordering::SeqCst), 1);
        assert!(manager.operations.pods(|pods| pods.is_empty()));
    }
}
