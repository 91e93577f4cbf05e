//! Image pulls: credentials, limits, and which pods may use an image that is on the node. And the removal of images.
//!
//! | file | what |
//! |---|---|
//! | `credential`, `scope` | a credential, where it comes from, and the registries that it is for |
//! | `node_config`, `providers/` | credentials of the node: docker configurations, credential provider plugins |
//! | `limits` | pulls at once, and per second |
//! | `access`, `records`, `verification` | which pods may use an image that was pulled with credentials |
//! | `collection` | the removal of images that no pod uses |

pub(crate) mod access;
pub(crate) mod collection;
pub(crate) mod credential;
pub(crate) mod limits;
pub(crate) mod node_config;
pub(crate) mod providers;
pub(crate) mod records;
pub(crate) mod scope;
pub(crate) mod verification;

use std::path::PathBuf;
use std::sync::Arc;

use cri::ImageSpec;
use tracing::warn;
use types::CredentialProvider;

use crate::blocking::blocking;
use crate::cri::calls::Cri;
use crate::error::Result;
use crate::images::access::{ImageAccess, ImageRecords};
use crate::images::collection::ImageCollection;
use crate::images::limits::{PullGate, PullLimits};
use crate::images::node_config::NodeConfig;
use crate::images::providers::Providers;
use crate::ports::Clock;

/// How many pulls are settled before the next one begins.
const MOST_AT_ONCE: usize = 100;

/// How images are pulled.
#[derive(Debug, Clone, Default)]
pub struct ImageOptions {
    /// How many at once, and how fast.
    pub limits: PullLimits,
    /// Records of which pods may use an image; `None`: all may use what is on the node.
    pub records: Option<ImageRecords>,
    /// The kubelet's directory, where the node's own credentials are; `None`: it has none.
    pub root_dir: Option<PathBuf>,
    /// Plugins that know credentials.
    pub providers: Vec<CredentialProvider>,
}

/// What the pulls of all pods share.
pub(crate) struct ImagePulls {
    pub(crate) gate: PullGate,
    pub(crate) access: Option<Arc<ImageAccess>>,
    pub(crate) node: NodeConfig,
    pub(crate) providers: Providers,
    /// When each image was used last.
    pub(crate) collection: ImageCollection,
}

impl ImagePulls {
    /// # Errors
    /// If the records cannot be read.
    pub(crate) fn open(options: ImageOptions, clock: &Arc<dyn Clock>) -> Result<Self> {
        let ImageOptions { limits, records, root_dir, providers } = options;
        let access = records.map(|records| ImageAccess::open(records, Arc::clone(clock))).transpose()?;
        Ok(Self {
            gate: PullGate::new(limits),
            access: access.map(Arc::new),
            node: root_dir.map(|dir| NodeConfig::new(&dir)).unwrap_or_default(),
            providers: Providers::new(providers),
            collection: ImageCollection::default(),
        })
    }

    /// Records which of the images that were being pulled when the node stopped the runtime has. Nothing fails: an image
    /// without a record counts as pulled as long as its intent is there.
    pub(crate) async fn settle(&self, cri: &Cri) {
        let Some(access) = &self.access else { return };
        self.settle_each(cri, access.unsettled()).await;
    }

    /// The same for pulls whose end is not known, and that can bring an image no longer.
    pub(crate) async fn settle_overdue(&self, cri: &Cri) {
        let Some(access) = &self.access else { return };
        let mut overdue = access.overdue();
        overdue.truncate(MOST_AT_ONCE);
        self.settle_each(cri, overdue).await;
    }

    async fn settle_each(&self, cri: &Cri, images: Vec<String>) {
        let Some(access) = &self.access else { return };
        for image in images {
            let spec = ImageSpec { image: image.clone(), ..ImageSpec::default() };
            let found = match cri.image(spec).await {
                Ok(found) => found.map(|found| found.id),
                Err(error) => {
                    warn!("whether image {image} was pulled is not known: {error}");
                    continue;
                }
            };
            let access = Arc::clone(access);
            let settled =
                blocking("recording an image pull", move || access.settle(&image, found.as_deref()));
            if let Err(error) = settled.await {
                warn!("an image pull that has ended is not recorded: {error}");
            }
        }
    }
}
