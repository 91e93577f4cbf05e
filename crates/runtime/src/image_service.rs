//! CRI's image service over the store of images.
//!
//! - [`auth`]: registry credentials from CRI.
//! - [`pulls`]: one pull of an image at a time, shared by all calls for it.
//! - [`view`]: an image as CRI shows it.
//!
//! The store blocks: whatever touches it is done away from the threads that answer.

mod auth;
mod pulls;
mod view;

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use cri::image_service_server::ImageService;
use cri::{Code, Request, Response, Status};
use cri::{FilesystemIdentifier, FilesystemUsage, ImageFilter, UInt64Value};
use images::{Error, Image, Images, Reference, Remote};
use kernel::disk_usage::{DiskUsage, DiskUsageCache, Round};
use tokio::sync::Semaphore;
use tonic::codegen::BoxStream;
use tracing::debug;

use pulls::{PullKey, Pulls};

/// How many calls measure disk usage at a time; each may take long.
const LOOKING: usize = 2;
/// How many images one message of a stream has.
const A_MESSAGE: usize = 100;

/// Images, as far as a server has to say something about them.
#[derive(Debug, Clone, Default)]
pub struct ImageSettings {
    /// How registries are reached.
    pub remote: Remote,
    /// Names of images that are never to be collected.
    pub pinned: BTreeSet<String>,
    /// Where containers keep what they write.
    pub containers: PathBuf,
    /// How much that is.
    pub written: Arc<DiskUsageCache>,
}

/// The image service.
#[derive(Debug, Clone)]
pub struct ImageServer {
    images: Arc<Images>,
    settings: Arc<ImageSettings>,
    pulls: Arc<Pulls>,
    looking: Arc<Semaphore>,
}

impl ImageServer {
    /// Over this store, which others may use meanwhile.
    #[must_use]
    pub fn new(images: Arc<Images>, settings: ImageSettings) -> Self {
        Self {
            images,
            settings: Arc::new(settings),
            pulls: Arc::default(),
            looking: Arc::new(Semaphore::new(LOOKING)),
        }
    }

    /// Does something with the store on a thread that may block.
    async fn with<T, F>(&self, work: F) -> Result<T, Status>
    where
        T: Send + 'static,
        F: FnOnce(&Images, &ImageSettings) -> Result<T, Status> + Send + 'static,
    {
        let (images, settings) = (Arc::clone(&self.images), Arc::clone(&self.settings));
        let done = tokio::task::spawn_blocking(move || work(&images, &settings)).await;
        done.unwrap_or_else(|error| Err(Status::internal(error.to_string())))
    }

    async fn listed(&self, filter: Option<ImageFilter>) -> Result<Vec<cri::Image>, Status> {
        let name = filter.and_then(|filter| filter.image).map(|image| image.image).unwrap_or_default();
        self.with(move |images, settings| {
            let found = match name.as_str() {
                "" => images.list().map_err(refused)?.images,
                name => find(images, name)?.into_iter().collect(),
            };
            Ok(found.iter().map(|image| view::image(image, &settings.pinned)).collect())
        })
        .await
    }
}

#[tonic::async_trait]
impl ImageService for ImageServer {
    async fn list_images(
        &self,
        request: Request<cri::ListImagesRequest>,
    ) -> Result<Response<cri::ListImagesResponse>, Status> {
        let images = self.listed(request.into_inner().filter).await?;
        Ok(Response::new(cri::ListImagesResponse { images }))
    }

    async fn stream_images(
        &self,
        request: Request<cri::StreamImagesRequest>,
    ) -> Result<Response<BoxStream<cri::StreamImagesResponse>>, Status> {
        let images = self.listed(request.into_inner().filter).await?;
        let parts: Vec<_> = images
            .chunks(A_MESSAGE)
            .map(|images| Ok(cri::StreamImagesResponse { images: images.to_vec() }))
            .collect();
        Ok(Response::new(Box::pin(tokio_stream::iter(parts))))
    }

    async fn image_status(
        &self,
        request: Request<cri::ImageStatusRequest>,
    ) -> Result<Response<cri::ImageStatusResponse>, Status> {
        let request = request.into_inner();
        let name = named(request.image)?;
        let answer = self.with(move |images, settings| {
            let Some(image) = find(images, &name)? else { return Ok(cri::ImageStatusResponse::default()) };
            let info = if request.verbose { view::details(&image) } else { Default::default() };
            Ok(cri::ImageStatusResponse { image: Some(view::image(&image, &settings.pinned)), info })
        });
        Ok(Response::new(answer.await?))
    }

    async fn pull_image(
        &self,
        request: Request<cri::PullImageRequest>,
    ) -> Result<Response<cri::PullImageResponse>, Status> {
        let request = request.into_inner();
        let reference: Reference = named(request.image)?.parse().map_err(refused)?;
        let credentials = auth::credentials(request.auth.unwrap_or_default(), reference.registry())?;
        debug!(image = %reference, "PullImage {reference}");
        let wanted = PullKey { reference, credentials };
        let image = self.pulls.pull(&self.images, &self.settings.remote, wanted).await.map_err(refused)?;
        Ok(Response::new(cri::PullImageResponse { image_ref: image.id.to_string() }))
    }

    async fn remove_image(
        &self,
        request: Request<cri::RemoveImageRequest>,
    ) -> Result<Response<cri::RemoveImageResponse>, Status> {
        let name = named(request.into_inner().image)?;
        debug!(image = name, "RemoveImage {name}");
        self.with(move |images, _| {
            let Some(image) = find(images, &name)? else { return Ok(()) };
            match images.remove(image.id.as_str()) {
                // Another call has removed it.
                Ok(_) | Err(Error::Unknown { .. }) => Ok(()),
                Err(error) => Err(refused(error)),
            }
        })
        .await?;
        Ok(Response::new(cri::RemoveImageResponse {}))
    }

    async fn image_fs_info(
        &self,
        _: Request<cri::ImageFsInfoRequest>,
    ) -> Result<Response<cri::ImageFsInfoResponse>, Status> {
        let answer = self.with(|images, settings| {
            let stored = images.usage().map_err(refused)?;
            let stored = DiskUsage { bytes: stored.bytes, inodes: stored.inodes, at_least: false };
            let place = if same_filesystem(images.root(), &settings.containers) {
                images.root()
            } else {
                &settings.containers
            };
            Ok(cri::ImageFsInfoResponse {
                image_filesystems: vec![filesystem(images.root(), stored)],
                container_filesystems: vec![filesystem(place, written(settings))],
            })
        });
        let _turn = self.looking.acquire().await;
        Ok(Response::new(answer.await?))
    }
}

/// What all containers have written. One that is taken away meanwhile takes nothing.
fn written(settings: &ImageSettings) -> DiskUsage {
    let round = Round::begin();
    let all = std::fs::read_dir(&settings.containers).into_iter().flatten().flatten();
    let places = all.flat_map(|entry| ["rw/upper", "volumes"].map(|name| entry.path().join(name)));
    let known = places.filter_map(|place| settings.written.usage(&place, round).ok().flatten());
    known.fold(DiskUsage::default(), DiskUsage::and)
}

/// To a kubelet, two places of one filesystem are two filesystems unless they are called the same.
fn same_filesystem(one: &Path, other: &Path) -> bool {
    let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev()).ok();
    device(one).is_some_and(|found| device(other) == Some(found))
}

fn filesystem(path: &Path, usage: DiskUsage) -> FilesystemUsage {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    FilesystemUsage {
        timestamp: i64::try_from(since.as_nanos()).unwrap_or(i64::MAX),
        fs_id: Some(FilesystemIdentifier { mountpoint: path.display().to_string() }),
        used_bytes: Some(UInt64Value { value: usage.bytes }),
        inodes_used: Some(UInt64Value { value: usage.inodes }),
    }
}

fn named(image: Option<cri::ImageSpec>) -> Result<String, Status> {
    let name = image.map(|image| image.image).filter(|name| !name.is_empty());
    name.ok_or_else(|| Status::invalid_argument("image.image: names no image"))
}

/// Nothing if there is no such image, which is no error to CRI.
fn find(images: &Images, name: &str) -> Result<Option<Image>, Status> {
    match images.find(name) {
        Ok(image) => Ok(Some(image)),
        Err(Error::Unknown { .. }) => Ok(None),
        Err(error) => Err(refused(error)),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "for map_err")]
fn refused(error: Error) -> Status {
    let code = match &error {
        Error::Reference { .. } | Error::Digest { .. } | Error::Ambiguous { .. } => Code::InvalidArgument,
        Error::Unknown { .. } | Error::NotThere { .. } => Code::NotFound,
        Error::Unauthorized { .. } => Code::PermissionDenied,
        Error::InUse { .. } | Error::OtherPlatform { .. } => Code::FailedPrecondition,
        Error::Registry { .. } => Code::Unavailable,
        Error::DiskFull { .. } => Code::ResourceExhausted,
        Error::Interrupted => Code::Cancelled,
        _ => Code::Internal,
    };
    match error.hint() {
        Some(hint) => Status::new(code, format!("{error} (hint: {hint})")),
        None => Status::new(code, error.to_string()),
    }
}
