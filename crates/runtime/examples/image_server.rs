//! Serves images alone on a socket: what the tests of the image service talk to.
#![allow(missing_docs, clippy::print_stdout, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use cri::Endpoint;
use cri::runtime_service_server::RuntimeService;
use cri::server::{Listener, Services};
use images::{Images, Limits, Registry, Remote, Scheme};
use runtime::image_service::{ImageServer, ImageSettings};

/// Answers every call with Unimplemented.
struct NoContainers;

impl RuntimeService for NoContainers {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [socket, state, registries @ ..] = words.as_slice() else {
        eprintln!("usage: image_server SOCKET STATE [REGISTRY…]");
        return ExitCode::from(2);
    };
    match serve(Path::new(socket), Path::new(state), registries).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// The named registries, which are a testbed's, are spoken to in the clear.
async fn serve(socket: &Path, state: &Path, registries: &[String]) -> Result<(), Box<dyn std::error::Error>> {
    let plain = |host: &String| (host.clone(), Registry { scheme: Scheme::PlainHttp, ..Registry::default() });
    let settings = ImageSettings {
        remote: Remote { registries: registries.iter().map(plain).collect() },
        containers: state.join("containers"),
        ..ImageSettings::default()
    };
    let images = Arc::new(Images::open(&state.join("images"), Limits::default())?);
    let listener = Listener::bind(&Endpoint::try_from(PathBuf::from(socket))?).await?;
    println!("serving");
    let services = Services { runtime: NoContainers, images: ImageServer::new(images, settings) };
    Ok(listener.serve(services, std::future::pending()).await?)
}
