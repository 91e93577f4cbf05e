//! The questions to a runtime, on its socket.

use std::time::Duration;

use cri::client::Client;
use cri::{CallError, Endpoint, within};
use cri::{ImageFsInfoRequest, StatusRequest, StatusResponse, VersionRequest, VersionResponse};

use crate::check::Fault;

/// How long a runtime may take for one answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a runtime says of itself.
#[derive(Debug)]
pub(super) struct RuntimeInfo {
    pub(super) version: VersionResponse,
    pub(super) status: StatusResponse,
    /// Where its images are, as it names the place.
    pub(super) images: Option<String>,
}

/// Asks; nothing is changed by it.
pub(super) fn ask(endpoint: &Endpoint) -> Result<RuntimeInfo, Fault> {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let threads =
        threads.map_err(|e| Fault::new(format!("cannot start the CRI client: {e}"), "try again"))?;
    threads.block_on(asked(endpoint))
}

async fn asked(endpoint: &Endpoint) -> Result<RuntimeInfo, Fault> {
    let client = Client::connect(endpoint).await.map_err(|e| Fault::new(e.to_string(), e.hint()))?;
    let (mut runtime, mut images) = (client.runtime(), client.images());
    let fault = |error: CallError| fault(endpoint, &error);
    let version = within(PATIENCE, "Version", runtime.version(VersionRequest::default()));
    let version = version.await.map_err(fault)?;
    let status = within(PATIENCE, "Status", runtime.status(StatusRequest { verbose: true }));
    let status = status.await.map_err(fault)?;
    // Not every runtime knows; nothing but the snapshotter's name depends on it.
    let places = within(PATIENCE, "ImageFsInfo", images.image_fs_info(ImageFsInfoRequest {})).await.ok();
    let place = places.and_then(|places| places.image_filesystems.into_iter().next());
    Ok(RuntimeInfo { version, status, images: place.and_then(|place| place.fs_id).map(|id| id.mountpoint) })
}

fn fault(endpoint: &Endpoint, error: &CallError) -> Fault {
    let socket = endpoint.socket().display();
    match error {
        CallError::Refused { code, message, .. } => {
            let fix = format!(
                "see whether {socket} is the CRI socket of a runtime, and whether its CRI plugin is on"
            );
            Fault::new(format!("{socket} answers {code:?}: {message}"), fix)
        }
        CallError::DeadlineExceeded { seconds, .. } => {
            let cause = format!("{socket} did not respond within {seconds} s");
            Fault::new(cause, "look into the runtime's log: journalctl -u containerd -u crio")
        }
    }
}
