//! The image service over its socket, with a real registry behind it.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use cri::client::Client;
use cri::{
    AuthConfig, Image, ImageFilter, ImageFsInfoRequest, ImageSpec, ImageStatusRequest, ImageStatusResponse,
    ListImagesRequest, PullImageRequest, RemoveImageRequest, StreamImagesRequest,
};
use cri::{Code, Endpoint, Status};
use testbed::cluster::addresses::{FAULT_PROXY, REGISTRY, REGISTRY_BASIC, REGISTRY_TOKEN};
use testbed::registry::faults::{Fault, Rule, requests, set};
use testbed::registry::{PASSWORD, USER};
use testbed::{Part, Parts, Testbed};

const IMAGE: &str = "registry-only:1";

/// A server inside of the testbed, whose socket is reached from outside.
struct Server {
    child: Child,
    testbed: Testbed,
    dir: tempfile::TempDir,
}

impl Server {
    fn start() -> Self {
        let testbed = Testbed::start(Parts::of(&[Part::Registry])).expect("a registry");
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let mut command = testbed.command(program());
        command.arg(dir.path().join("cri.sock")).arg(dir.path().join("state"));
        command.args([REGISTRY, REGISTRY_BASIC, REGISTRY_TOKEN, FAULT_PROXY]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "serving\n");
        Self { child, testbed, dir }
    }

    /// Bytes of layers that are not whole yet.
    fn fetched(&self) -> u64 {
        let partial = std::fs::read_dir(self.dir.path().join("state/images/partial")).unwrap();
        partial.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len()).sum()
    }

    async fn client(&self) -> Asker {
        let socket = self.dir.path().join("cri.sock");
        Asker(Client::connect(&Endpoint::try_from(socket).unwrap()).await.unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> PathBuf {
    testkit::example("image_server", env!("CARGO_MANIFEST_DIR"))
}

#[derive(Clone)]
struct Asker(Client);

fn named(name: &str) -> Option<ImageSpec> {
    Some(ImageSpec { image: name.into(), ..Default::default() })
}

impl Asker {
    async fn pull_as(&self, name: &str, auth: Option<AuthConfig>) -> Result<String, Status> {
        let request = PullImageRequest { image: named(name), auth, ..Default::default() };
        self.0.images().pull_image(request).await.map(|answer| answer.into_inner().image_ref)
    }

    async fn pull(&self, name: &str) -> Result<String, Status> {
        self.pull_as(name, None).await
    }

    async fn status(&self, name: &str, verbose: bool) -> ImageStatusResponse {
        let request = ImageStatusRequest { image: named(name), verbose };
        self.0.images().image_status(request).await.unwrap().into_inner()
    }

    async fn list(&self, name: Option<&str>) -> Vec<Image> {
        let filter = name.map(|name| ImageFilter { image: named(name) });
        self.0.images().list_images(ListImagesRequest { filter }).await.unwrap().into_inner().images
    }

    async fn remove(&self, name: &str) {
        self.0.images().remove_image(RemoveImageRequest { image: named(name) }).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_pulled_shown_listed_and_removed() {
    let server = Server::start();
    let asker = server.client().await;
    let name = format!("{REGISTRY}/{IMAGE}");
    assert!(asker.status(&name, false).await.image.is_none(), "what is not there is no error");
    assert!(asker.list(None).await.is_empty());

    let id = asker.pull(&name).await.unwrap();
    let shown = asker.status(&id, true).await;
    let image = shown.image.unwrap();
    assert_eq!((image.id.as_str(), &image.repo_tags), (id.as_str(), &vec![name.clone()]));
    let digest = &image.repo_digests[0];
    assert!(digest.starts_with(&format!("{REGISTRY}/registry-only@sha256:")), "{digest}");
    assert!(image.size > 0 && !image.pinned);
    assert!(shown.info["info"].contains("\"config\""), "{:?}", shown.info);
    assert_eq!(asker.status(digest, false).await.image.unwrap().id, id);

    let listed = std::slice::from_ref(&image);
    assert_eq!(asker.list(None).await, listed);
    assert_eq!(asker.list(Some(&name)).await, listed);
    assert!(asker.list(Some("not-there")).await.is_empty());
    let mut stream =
        asker.0.images().stream_images(StreamImagesRequest::default()).await.unwrap().into_inner();
    let mut streamed = vec![];
    while let Some(part) = stream.message().await.unwrap() {
        streamed.extend(part.images);
    }
    assert_eq!(streamed, listed);

    let used = asker.0.images().image_fs_info(ImageFsInfoRequest {}).await.unwrap().into_inner();
    let filesystem = &used.image_filesystems[0];
    assert!(filesystem.used_bytes.unwrap().value > 0 && filesystem.inodes_used.unwrap().value > 0);
    let place = &filesystem.fs_id.as_ref().unwrap().mountpoint;
    assert!(place.ends_with("/state/images"), "{place}");
    assert_eq!(used.container_filesystems.len(), 1);

    // By a pull of the same name, the image stays the same; by any of its names, it goes.
    assert_eq!(asker.pull(&name).await.unwrap(), id);
    asker.remove(digest).await;
    assert!(asker.status(&id, false).await.image.is_none());
    asker.remove(&name).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_gets_the_secret_that_is_for_it_and_no_other() {
    let server = Server::start();
    let asker = server.client().await;
    let secret = |address: &str| AuthConfig {
        username: USER.into(),
        password: PASSWORD.into(),
        server_address: address.into(),
        ..Default::default()
    };
    for host in [REGISTRY_BASIC, REGISTRY_TOKEN] {
        let name = format!("{host}/{IMAGE}");
        for wrong in [None, Some(secret("other.example"))] {
            let refused = asker.pull_as(&name, wrong).await.unwrap_err();
            assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
            assert!(!refused.message().contains(PASSWORD));
        }
        asker.pull_as(&name, Some(secret(host))).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_pulled_is_told_in_cris_codes() {
    let server = Server::start();
    let asker = server.client().await;
    for (name, code) in [
        (format!("{REGISTRY}/not-there:1"), Code::NotFound),
        ("127.0.0.1:1/nobody:1".to_owned(), Code::Unavailable),
        ("Not A Name".to_owned(), Code::InvalidArgument),
        (String::new(), Code::InvalidArgument),
    ] {
        let refused = asker.pull(&name).await.unwrap_err();
        assert_eq!(refused.code(), code, "{name}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_pull_serves_all_who_want_the_image_and_ends_with_the_last_of_them() {
    let server = Server::start();
    let asker = server.client().await;
    let record = server.testbed.record();
    let name = format!("{FAULT_PROXY}/{IMAGE}");
    let slow =
        |milliseconds| Rule { target: "/blobs/".into(), times: 1000, fault: Fault::Slow { milliseconds } };

    // Whoever began it goes away, and it ends with him: what is fetched grows no more, and is no image.
    set(record, &[slow(200)]).unwrap();
    let alone = tokio::time::timeout(Duration::from_secs(2), asker.pull(&name)).await;
    assert!(alone.is_err(), "the proxy is not slow: {alone:?}");
    let mut fetched = server.fetched();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = server.fetched();
        if now == fetched {
            break;
        }
        fetched = now;
    }
    assert!(fetched > 0, "nothing was kept for the next pull");
    assert_eq!(asker.list(None).await, []);

    set(record, &[slow(20)]).unwrap();
    let before = requests(record).unwrap().len();
    let pulls: Vec<_> = (0..8)
        .map(|_| {
            let (asker, name) = (asker.clone(), name.clone());
            tokio::spawn(async move { asker.pull(&name).await.unwrap() })
        })
        .collect();
    let mut ids = vec![];
    for pull in pulls {
        ids.push(pull.await.unwrap());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    let log = requests(record).unwrap();
    let manifests = log[before..].iter().filter(|line| line.contains("/manifests/")).count();
    // One who comes when it is just done asks once more.
    assert!((1..=2).contains(&manifests), "{log:?}");
    assert_eq!(asker.list(None).await.len(), 1);
}
