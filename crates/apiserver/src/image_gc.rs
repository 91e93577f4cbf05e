//! Garbage collection of images, by the kubelet's configuration.

use std::sync::Arc;
use std::time::Duration;

use ::node::kubelet::KubeletConfig;
use agent::{Agent, Reclaim, Reclaimed};
use kubelet_api::Filesystem;
use tracing::{info, warn};
use types::reason;

use crate::node::NodeRecorder;
use crate::usage::UsageReader;

/// How often images are collected.
const PERIOD: Duration = Duration::from_secs(300);

/// When images are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImagePolicy {
    /// How full the filesystem is, in percent, when images are removed.
    high: u8,
    /// How full it is when no more images are removed.
    low: u8,
    /// An image that was not on the node for so long is kept.
    minimum_age: Duration,
    /// One that was not used for longer is removed; `None`: age is no reason.
    maximum_age: Option<Duration>,
}

impl From<&KubeletConfig> for ImagePolicy {
    fn from(config: &KubeletConfig) -> Self {
        let maximum_age = config.image_maximum_gc_age.to_std();
        Self {
            high: config.image_gc_high_threshold_percent,
            low: config.image_gc_low_threshold_percent,
            minimum_age: config.image_minimum_gc_age.to_std(),
            maximum_age: Some(maximum_age).filter(|age| !age.is_zero()),
        }
    }
}

/// What is to be done about a filesystem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    Nothing,
    /// So many bytes.
    Bytes(u64),
    /// It has no size.
    Invalid,
}

impl ImagePolicy {
    /// Whether images are ever removed but for the node's need.
    fn is_on(&self) -> bool {
        self.high < 100 || self.maximum_age.is_some()
    }

    fn need(&self, of: &Filesystem) -> Need {
        let available = u128::from(of.available.min(of.capacity));
        let capacity = u128::from(of.capacity);
        if capacity == 0 {
            return Need::Invalid;
        }
        let used = 100 - available * 100 / capacity;
        if used < u128::from(self.high) {
            return Need::Nothing;
        }
        let wanted = capacity * (100 - u128::from(self.low.min(100))) / 100;
        match u64::try_from(wanted.saturating_sub(available)) {
            Ok(0) => Need::Nothing,
            Ok(bytes) => Need::Bytes(bytes),
            Err(_) => Need::Bytes(u64::MAX),
        }
    }
}

/// Removes images that no pod uses.
#[derive(Clone)]
pub(crate) struct ImageGc {
    pub(crate) agent: Agent,
    pub(crate) usage: Arc<UsageReader>,
    pub(crate) recorder: NodeRecorder,
    pub(crate) policy: ImagePolicy,
}

impl ImageGc {
    /// Collects images from time to time. Does not end.
    pub(crate) async fn run(self) {
        let mut has_failed = false;
        loop {
            let collected = if self.policy.is_on() { self.collect().await } else { self.note_use().await };
            match &collected {
                // The runtime may not be ready yet.
                Err(cause) if !has_failed => warn!("images are not collected: {cause}"),
                Err(cause) => self.recorder.warn(reason::IMAGE_GC_FAILED, cause.clone()),
                Ok(()) => {}
            }
            has_failed = collected.is_err();
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Removes all images that no pod uses, because the node runs short of space.
    ///
    /// # Errors
    /// If images cannot be listed, or some of them not removed.
    pub(crate) async fn remove_unused(&self) -> Result<(), String> {
        let ImagePolicy { minimum_age, .. } = self.policy;
        self.reclaim(Reclaim::All { minimum_age }).await.map(drop)
    }

    /// Notes which images are used, for when they must be removed.
    async fn note_use(&self) -> Result<(), String> {
        self.reclaim(Reclaim::None).await.map(drop)
    }

    async fn collect(&self) -> Result<(), String> {
        let ImagePolicy { minimum_age, maximum_age, high, low } = self.policy;
        match maximum_age {
            Some(age) => drop(self.reclaim(Reclaim::Unused(age)).await?),
            None => self.note_use().await?,
        }
        let filesystem = self.usage.image_filesystem().await?;
        let bytes = match self.policy.need(&filesystem) {
            Need::Nothing => return Ok(()),
            Need::Bytes(bytes) => bytes,
            Need::Invalid => {
                let cause = "invalid capacity 0 on image filesystem".to_owned();
                self.recorder.warn(reason::INVALID_DISK_CAPACITY, cause.clone());
                return Err(cause);
            }
        };
        info!(
            "the filesystem of images is {high} % full or more; images of {bytes} bytes are removed, to {low} %"
        );
        let reclaimed = self.reclaim(Reclaim::Bytes { bytes, minimum_age }).await?;
        if reclaimed.bytes >= bytes {
            return Ok(());
        }
        let cause = format!(
            "Failed to garbage collect required amount of images. Attempted to free {bytes} bytes, but only found {} bytes eligible to free.",
            reclaimed.bytes
        );
        self.recorder.warn(reason::FREE_DISK_SPACE_FAILED, cause.clone());
        Err(cause)
    }

    async fn reclaim(&self, what: Reclaim) -> Result<Reclaimed, String> {
        let reclaimed = self.agent.collect_images(what).await.map_err(|error| error.to_string())?;
        if reclaimed.failures.is_empty() {
            return Ok(reclaimed);
        }
        let failures = reclaimed.failures.join(", ");
        Err(match what {
            Reclaim::None | Reclaim::Unused(_) | Reclaim::All { .. } => {
                format!("encountered errors in image deletion: [{failures}]")
            }
            Reclaim::Bytes { bytes, .. } => format!(
                "wanted to free {bytes} bytes, but freed {} bytes space with errors in image deletion: [{failures}]",
                reclaimed.bytes
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use ::node::kubelet::KubeletFlags;

    use super::*;

    fn policy(fields: &str) -> ImagePolicy {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        let kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        std::fs::write(&file, format!("{kind}{fields}")).unwrap();
        let loaded = KubeletConfig::load(Some(&file), None, &KubeletFlags::default()).unwrap();
        ImagePolicy::from(&loaded.config)
    }

    fn need(policy: &ImagePolicy, available: u64, capacity: u64) -> Need {
        policy.need(&Filesystem { available, capacity, ..Filesystem::default() })
    }

    #[test]
    fn a_filesystem_beyond_the_high_threshold_is_freed_down_to_the_low_one() {
        let policy = policy("");
        assert_eq!((policy.high, policy.low, policy.maximum_age), (85, 80, None));
        assert_eq!(policy.minimum_age, Duration::from_secs(120));
        assert_eq!(need(&policy, 151, 1000), Need::Bytes(49), "85 % when it is rounded");
        assert_eq!(need(&policy, 160, 1000), Need::Nothing);
        assert_eq!(need(&policy, 0, 1000), Need::Bytes(200));
        assert_eq!(need(&policy, 2000, 1000), Need::Nothing);
        assert_eq!(need(&policy, 0, 0), Need::Invalid);
        assert_eq!(need(&policy, 0, u64::MAX), Need::Bytes(u64::MAX / 5));
    }

    #[test]
    fn images_are_removed_for_neither_space_nor_age_if_both_are_off() {
        let off = "imageGCHighThresholdPercent: 100\nimageGCLowThresholdPercent: 99\n";
        assert!(!policy(off).is_on());
        let aged = policy(&format!("{off}imageMaximumGCAge: 24h\n"));
        assert!(aged.is_on() && aged.maximum_age == Some(Duration::from_secs(86_400)));
        assert!(policy("").is_on());
    }
}
