//! Garbage collection of images: those that no container and no pod uses are removed, the least recently used first.
//!
//! An image is in use if the runtime has a container of it, running or not and of whichever client, or if a pod that this agent
//! runs names it: for a container, as a volume, or to pull it. The record of which pods may use an image is removed with the
//! image, and only if no pull can have brought the image back meanwhile: an image without a record is free for all pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use manifest::k8s_openapi::api::core::v1::{Pod, PodSpec};
use tokio::time::Instant;
use tracing::{info, warn};
use types::ImageName;

use crate::blocking::blocking;
use crate::cri::calls::Cri;
use crate::error::Result;
use crate::images::access::{ImageAccess, Quiet};
use crate::metrics::images::ImageMetrics;
use crate::pod::running::RunningPods;

/// Which images are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reclaim {
    /// None: which images are used is only noted.
    None,
    /// Those that were not used for longer than this, once the agent has run for so long.
    Unused(Duration),
    /// As many as it takes to free so many bytes.
    Bytes {
        /// So many.
        bytes: u64,
        /// An image that was not on the node for so long is kept: a container may be about to use it.
        minimum_age: Duration,
    },
    /// All, because the node runs short of space. Records of images that are gone are left to the next other collection.
    All {
        /// An image that was not on the node for so long is kept, as above.
        minimum_age: Duration,
    },
}

impl Reclaim {
    /// Whether records of images that are gone are removed, too, which asks the runtime for each of them.
    fn forgets_records(self) -> bool {
        !matches!(self, Self::All { .. })
    }
}

/// What a collection of images has come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// The sizes of the images that were removed.
    pub bytes: u64,
    /// Why others were not.
    pub failures: Vec<String>,
}

/// What is known of the images on the node.
#[derive(Debug)]
pub(crate) struct ImageCollection {
    began: Instant,
    /// By ID. Locked by the collection that is under way.
    known: tokio::sync::Mutex<BTreeMap<String, Known>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Known {
    /// When it was first seen.
    since: Instant,
    /// When it was seen in use last; `None` if it never was.
    used: Option<Instant>,
    size: u64,
    is_pinned: bool,
}

impl Default for ImageCollection {
    fn default() -> Self {
        Self { began: Instant::now(), known: tokio::sync::Mutex::default() }
    }
}

/// What a collection works with.
pub(crate) struct Collector<'a> {
    pub(crate) cri: &'a Cri,
    /// The pods that the agent runs.
    pub(crate) running: &'a RunningPods,
    pub(crate) collection: &'a ImageCollection,
    pub(crate) access: Option<&'a Arc<ImageAccess>>,
    pub(crate) metrics: &'a ImageMetrics,
}

impl Collector<'_> {
    /// Notes which images are used, and removes some that are not.
    ///
    /// # Errors
    /// If the runtime does not list its images and containers. An image that cannot be removed is no error.
    pub(crate) async fn collect(&self, reclaim: Reclaim) -> Result<Reclaimed> {
        let mut known = self.collection.known.lock().await;
        let access = self.access.filter(|_| reclaim.forgets_records());
        let quiet = access.and_then(|access| access.quiet());
        let now = Instant::now();
        let images = self.cri.images().await?;
        let used = self.note(&images, &mut known, now).await?;
        let mut reclaimed = Reclaimed::default();
        for Candidate { id, known: image } in candidates(&known, &used) {
            let Some(reason) = self.reason(reclaim, &reclaimed, &image, now) else { continue };
            // A pod may have come since: the removal of images takes time.
            let named = self.named_by_pods();
            if images.iter().any(|image| image.id == id && named.contains(image)) {
                continue;
            }
            match self.cri.remove_image(&id).await {
                Ok(()) => {
                    info!(image = id, "removed image {id} of {} bytes, which no pod uses", image.size);
                    self.metrics.collected(reason);
                    reclaimed.bytes = reclaimed.bytes.saturating_add(image.size);
                    known.remove(&id);
                }
                Err(error) => reclaimed.failures.push(format!("{id}: {error}")),
            }
        }
        if let (Some(access), Some(quiet)) = (access, quiet) {
            self.forget_records(access, quiet, &known).await;
        }
        Ok(reclaimed)
    }

    /// Why an image that is not used is removed, as the metric names it; `None` if it is kept.
    fn reason(
        &self,
        reclaim: Reclaim,
        done: &Reclaimed,
        image: &Known,
        now: Instant,
    ) -> Option<&'static str> {
        let is_young = |minimum_age: Duration| now.duration_since(image.since) < minimum_age;
        match reclaim {
            Reclaim::None => None,
            Reclaim::Unused(age) => is_old(self.collection.began, image, age, now).then_some("age"),
            Reclaim::Bytes { bytes, minimum_age } => {
                (done.bytes < bytes && !is_young(minimum_age)).then_some("space")
            }
            Reclaim::All { minimum_age } => (!is_young(minimum_age)).then_some("space"),
        }
    }

    /// The images that the pods name which this agent runs.
    fn named_by_pods(&self) -> NamedImages {
        let mut named = NamedImages::default();
        let running = self.running.all();
        running.iter().filter(|pod| pod.is_managed()).for_each(|pod| named.add_pod(&pod.pod));
        named
    }

    /// Brings what is known up to date with the images that there are. Returns the IDs of those in use.
    async fn note(
        &self,
        images: &[cri::Image],
        known: &mut BTreeMap<String, Known>,
        now: Instant,
    ) -> Result<BTreeSet<String>> {
        // After the images: a container that is made meanwhile is seen.
        let containers = self.cri.containers_of_all_clients().await?;
        let mut named = self.named_by_pods();
        containers.iter().for_each(|container| named.add_container(container));
        let used: BTreeSet<String> =
            images.iter().filter(|image| named.contains(image)).map(|image| image.id.clone()).collect();
        known.retain(|id, _| images.iter().any(|image| image.id == *id));
        for image in images {
            let entry = known.entry(image.id.clone());
            let entry = entry.or_insert(Known { since: now, used: None, size: 0, is_pinned: false });
            (entry.size, entry.is_pinned) = (image.size, image.pinned);
            if used.contains(&image.id) {
                entry.used = Some(now);
            }
        }
        Ok(used)
    }

    /// Removes the records of images that are not on the node. `quiet` is older than the list of images.
    async fn forget_records(&self, access: &Arc<ImageAccess>, quiet: Quiet, known: &BTreeMap<String, Known>) {
        let of_records = Arc::clone(access);
        let recorded = blocking("reading records of image pulls", move || of_records.recorded()).await;
        let recorded = recorded.unwrap_or_else(|error| {
            warn!("records of images that are gone are kept: {error}");
            Vec::new()
        });
        for id in recorded.into_iter().filter(|id| !known.contains_key(id)) {
            let spec = cri::ImageSpec { image: id.clone(), ..cri::ImageSpec::default() };
            // A list may be incomplete; only an answer for this image counts.
            if !matches!(self.cri.image(spec).await, Ok(None)) {
                continue;
            }
            let (access, image) = (Arc::clone(access), id.clone());
            let forgotten =
                blocking("removing a record of an image pull", move || access.forget(&image, quiet));
            if let Err(error) = forgotten.await {
                warn!("the record of image {id}, which is gone, is kept: {error}");
            }
        }
    }
}

/// An image that may be removed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Candidate {
    id: String,
    known: Known,
}

/// The images that may be removed, the least recently used first, and of those the one that was seen first.
fn candidates(known: &BTreeMap<String, Known>, used: &BTreeSet<String>) -> Vec<Candidate> {
    let free = known.iter().filter(|(id, image)| !used.contains(*id) && !image.is_pinned);
    let mut all: Vec<Candidate> =
        free.map(|(id, image)| Candidate { id: id.clone(), known: *image }).collect();
    all.sort_by_key(|image| (image.known.used, image.known.since));
    all
}

/// Whether an image was not used for longer than `age`. Before the agent began, nothing is known.
fn is_old(began: Instant, image: &Known, age: Duration, now: Instant) -> bool {
    now.duration_since(began) > age && now.duration_since(image.used.unwrap_or(began)) > age
}

/// Images as containers and pods name them: by ID, and by names in their canonical form.
#[derive(Debug, Default)]
struct NamedImages(BTreeSet<String>);

impl NamedImages {
    fn add(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.0.insert(text.to_owned());
        if let Ok(name) = ImageName::parse(text) {
            self.0.insert(name.canonical());
        }
    }

    fn add_container(&mut self, container: &cri::Container) {
        let named = container.image.as_ref().map_or("", |image| image.image.as_str());
        [container.image_id.as_str(), container.image_ref.as_str(), named]
            .into_iter()
            .for_each(|text| self.add(text));
    }

    fn add_pod(&mut self, pod: &Pod) {
        pod.spec.iter().flat_map(images).for_each(|text| self.add(text));
    }

    fn contains(&self, image: &cri::Image) -> bool {
        let id = image.id.as_str();
        let bare = id.split_once(':').map_or(id, |(_, bare)| bare);
        let names = image.repo_tags.iter().chain(&image.repo_digests);
        let mut names = names.filter_map(|text| ImageName::parse(text).ok());
        self.0.contains(id) || self.0.contains(bare) || names.any(|name| self.0.contains(&name.canonical()))
    }
}

/// The images that a pod names.
fn images(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let containers = containers.filter_map(|container| container.image.as_deref());
    let added = spec.ephemeral_containers.iter().flatten();
    let added = added.filter_map(|container| container.image.as_deref());
    let volumes = spec.volumes.iter().flatten();
    let volumes = volumes.filter_map(|volume| volume.image.as_ref()?.reference.as_deref());
    containers.chain(added).chain(volumes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Eviction waited for a call of the runtime for each record of an image that was gone.
    #[test]
    fn only_a_collection_from_time_to_time_removes_records() {
        for periodic in
            [Reclaim::None, Reclaim::Unused(MINUTE), Reclaim::Bytes { bytes: 1, minimum_age: MINUTE }]
        {
            assert!(periodic.forgets_records(), "{periodic:?}");
        }
        assert!(!Reclaim::All { minimum_age: MINUTE }.forgets_records());
    }

    fn image(id: &str, tags: &[&str], digests: &[&str]) -> cri::Image {
        let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        cri::Image {
            id: id.to_owned(),
            repo_tags: owned(tags),
            repo_digests: owned(digests),
            ..cri::Image::default()
        }
    }

    #[test]
    fn an_image_is_in_use_under_each_of_its_names() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let mut named = NamedImages::default();
        named.add_pod(
            &serde_json::from_value(json!({"metadata": {}, "spec": {
                "initContainers": [{"name": "i", "image": "quay.io/init:2"}],
                "containers": [{"name": "a", "image": "busybox"}, {"name": "b"}],
                "ephemeralContainers": [{"name": "e", "image": "debug"}],
                "volumes": [{"name": "v", "image": {"reference": format!("quay.io/data:1@{digest}")}}, {"name": "w"}],
            }}))
            .unwrap(),
        );
        named.add_container(&cri::Container {
            image: Some(cri::ImageSpec { image: "sha256:c0".to_owned(), ..cri::ImageSpec::default() }),
            image_ref: format!("quay.io/ref@{digest}"),
            image_id: "sha256:c1".to_owned(),
            ..cri::Container::default()
        });
        let data = format!("quay.io/data@{digest}");
        let reference = format!("quay.io/ref@{digest}");
        for (used, image) in [
            (true, image("sha256:1", &["docker.io/library/busybox:latest"], &[])),
            (true, image("sha256:2", &["quay.io/init:2", "quay.io/init:3"], &[])),
            (true, image("sha256:3", &["docker.io/library/debug:latest"], &[])),
            (true, image("sha256:4", &[], &[&data])),
            (true, image("sha256:5", &[], &[&reference])),
            (true, image("sha256:c0", &[], &[])),
            (true, image("sha256:c1", &["quay.io/other:1"], &[])),
            (false, image("sha256:6", &["docker.io/library/busybox:1"], &[])),
            (false, image("sha256:7", &["quay.io/init:1"], &[])),
            (false, image("sha256:8", &[], &[])),
        ] {
            assert_eq!(named.contains(&image), used, "{image:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_least_recently_used_go_first_and_pinned_ones_stay() {
        let began = Instant::now();
        let at = |minutes: u32| began + MINUTE * minutes;
        let known = |since: u32, used: Option<u32>| Known {
            since: at(since),
            used: used.map(at),
            size: 1,
            is_pinned: false,
        };
        let all = BTreeMap::from([
            ("late".to_owned(), known(0, Some(30))),
            ("early".to_owned(), known(0, Some(10))),
            ("second".to_owned(), known(5, None)),
            ("first".to_owned(), known(1, None)),
            ("pinned".to_owned(), Known { is_pinned: true, ..known(0, None) }),
            ("used".to_owned(), known(0, Some(40))),
        ]);
        let order = candidates(&all, &BTreeSet::from(["used".to_owned()]));
        let names: Vec<&str> = order.iter().map(|image| image.id.as_str()).collect();
        assert_eq!(names, ["first", "second", "early", "late"]);
        // Nothing is old before the agent has run for so long.
        let is_old = |image: &Known, now: u32| is_old(began, image, MINUTE * 20, at(now));
        assert!(!is_old(&known(0, None), 20) && is_old(&known(0, None), 21));
        assert!(!is_old(&known(0, Some(10)), 30) && is_old(&known(0, Some(10)), 31));
    }
}
