//! Our client and our server over a socket and over a pipe, and what is said when there is no conversation.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use cri::client::Client;
use cri::image_service_server::ImageService;
use cri::runtime_service_server::RuntimeService;
use cri::server::{Claim, Listener, Services};
use cri::{Code, Endpoint, Error, Request, Response, Status};
use cri::{
    ContainerConfig, ContainerEventResponse, CreateContainerRequest, CreateContainerResponse,
    GetEventsRequest, IdMapping, Image, ImageSpec, KeyValue, ListImagesRequest, ListImagesResponse, Mount,
    StatusRequest, VersionRequest, VersionResponse,
};
use tokio::sync::oneshot;

/// Answers with what it was asked, so that a test sees both directions.
struct Echo;

type Events = tonic::codegen::BoxStream<ContainerEventResponse>;

#[tonic::async_trait]
impl RuntimeService for Echo {
    async fn version(&self, request: Request<VersionRequest>) -> Result<Response<VersionResponse>, Status> {
        let version = request.into_inner().version;
        Ok(Response::new(VersionResponse { version, runtime_name: "echo".into(), ..Default::default() }))
    }

    async fn create_container(
        &self,
        request: Request<CreateContainerRequest>,
    ) -> Result<Response<CreateContainerResponse>, Status> {
        let config = request.into_inner().config.ok_or_else(|| Status::invalid_argument("config"))?;
        let value = |env: &KeyValue| env.value.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let envs: Vec<String> = config.envs.iter().map(value).collect();
        let ids: Vec<u32> =
            config.mounts.iter().flat_map(|m| &m.uid_mappings).map(|ids| ids.host_id).collect();
        Ok(Response::new(CreateContainerResponse { container_id: format!("{envs:?} {ids:?}") }))
    }

    async fn get_container_events(&self, _: Request<GetEventsRequest>) -> Result<Response<Events>, Status> {
        let event = |n: i64| Ok(ContainerEventResponse { created_at: n, ..Default::default() });
        Ok(Response::new(Box::pin(tokio_stream::iter((1..=3).map(event)))))
    }
}

#[tonic::async_trait]
impl ImageService for Echo {
    /// Six megabytes: more than a transport takes by default.
    async fn list_images(
        &self,
        _: Request<ListImagesRequest>,
    ) -> Result<Response<ListImagesResponse>, Status> {
        let annotations = BTreeMap::from([("padding".to_owned(), "x".repeat(6_000))]);
        let spec = Some(ImageSpec { image: "i".into(), annotations, ..Default::default() });
        let images = vec![Image { id: "one".into(), spec, ..Default::default() }; 1_000];
        Ok(Response::new(ListImagesResponse { images }))
    }
}

fn echo() -> Services<Echo, Echo> {
    Services { runtime: Echo, images: Echo }
}

fn endpoint(path: &Path) -> Endpoint {
    Endpoint::try_from(path.to_owned()).unwrap()
}

async fn all_kinds_of_calls(client: &Client) {
    let version = client.runtime().version(VersionRequest { version: "v1".into() }).await.unwrap();
    assert_eq!((version.get_ref().version.as_str(), version.get_ref().runtime_name.as_str()), ("v1", "echo"));

    let not_text = KeyValue { key: "K".into(), value: vec![0xff, 0x00, 0xfe] };
    let ids = vec![IdMapping { host_id: 65_536, container_id: 0, length: 65_536 }];
    let mount = Mount { uid_mappings: ids, ..Default::default() };
    let config = ContainerConfig { envs: vec![not_text], mounts: vec![mount], ..Default::default() };
    let request = CreateContainerRequest { config: Some(config), ..Default::default() };
    let created = client.runtime().create_container(request).await.unwrap();
    assert_eq!(created.get_ref().container_id, r#"["ff00fe"] [65536]"#);

    let refused = client.runtime().create_container(CreateContainerRequest::default()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (Code::InvalidArgument, "config"));

    let mut events = client.runtime().get_container_events(GetEventsRequest {}).await.unwrap().into_inner();
    let mut times = Vec::new();
    while let Some(event) = events.message().await.unwrap() {
        times.push(event.created_at);
    }
    assert_eq!(times, [1, 2, 3]);

    let images = client.images().list_images(ListImagesRequest::default()).await.unwrap().into_inner();
    assert_eq!(images.images.len(), 1_000);

    let unknown = client.runtime().status(StatusRequest::default()).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unimplemented);
}

#[tokio::test]
async fn both_sides_understand_each_other_over_a_socket_that_is_roots_alone_and_goes_with_its_server() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cri.sock");
    let listener = Listener::bind(&endpoint(&path)).await.unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(listener.serve(echo(), async { stopped.await.unwrap_or_default() }));
    let client = Client::connect(&endpoint(&path)).await.unwrap();
    all_kinds_of_calls(&client).await;
    assert_eq!(client.server_process(), Some(std::process::id()));

    let second = Listener::bind(&endpoint(&path)).await.unwrap_err();
    assert!(matches!(second, Error::Taken { .. }), "{second}");
    all_kinds_of_calls(&client).await;

    drop(client);
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert!(!path.exists());
}

/// `wardlet run` beside another one: the process that serves the runtime ends, and the next one serves a moment later.
#[tokio::test]
async fn a_client_of_successors_waits_for_the_next_server_and_another_one_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = endpoint(&dir.path().join("cri.sock"));
    let serve = |listener: Listener| {
        let (stop, stopped) = oneshot::channel::<()>();
        (stop, tokio::spawn(listener.serve(echo(), async { stopped.await.unwrap_or_default() })))
    };
    let (stop, serving) = serve(Listener::bind(&endpoint).await.unwrap());
    let patient = Client::connect_to_successors(&endpoint).await.unwrap();
    let plain = Client::connect(&endpoint).await.unwrap();
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    let version = |client: &Client| {
        let mut runtime = client.runtime();
        async move { runtime.version(VersionRequest { version: "v1".into() }).await }
    };
    assert_eq!(version(&plain).await.unwrap_err().code(), Code::Unavailable);
    let next = async {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        serve(Listener::bind(&endpoint).await.unwrap())
    };
    let (answer, (stop, serving)) = tokio::join!(version(&patient), next);
    assert_eq!(answer.unwrap().get_ref().runtime_name, "echo");
    // What the server itself refuses is not asked again.
    let refused = patient.status(std::time::Duration::from_secs(9)).await.unwrap_err();
    assert!(matches!(refused, cri::CallError::Refused { code: Code::Unimplemented, .. }), "{refused}");
    drop((patient, plain));
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

/// Whoever can open the lock could hold it, and no server would start again.
#[tokio::test]
async fn the_lock_of_a_socket_is_roots_alone_also_if_it_was_left_open_to_others() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("cri.sock.lock");
    std::fs::write(&lock, "").unwrap();
    std::fs::set_permissions(&lock, std::fs::Permissions::from_mode(0o644)).unwrap();
    let claim = Claim::take(&endpoint(&dir.path().join("cri.sock"))).await.unwrap();
    assert_eq!(std::fs::metadata(&lock).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!claim.socket().exists(), "nobody can connect before there is somebody to answer");
    let second = Claim::take(&endpoint(claim.socket())).await.unwrap_err();
    assert!(matches!(second, Error::Taken { .. }), "{second}");
    claim.listen().unwrap();
}

/// The attack: a user that can write to the directory puts a link where root makes its lock.
#[tokio::test]
async fn a_link_at_the_lock_makes_and_changes_no_other_file() {
    let dir = tempfile::tempdir().unwrap();
    let (victim, absent) = (dir.path().join("victim"), dir.path().join("absent"));
    std::fs::write(&victim, "precious").unwrap();
    std::fs::set_permissions(&victim, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (path, lock) = (dir.path().join("cri.sock"), dir.path().join("cri.sock.lock"));
    for target in [&victim, &absent] {
        std::os::unix::fs::symlink(target, &lock).unwrap();
        let error = Claim::take(&endpoint(&path)).await.unwrap_err();
        assert!(matches!(error, Error::Lock(_)), "{error}");
        std::fs::remove_file(&lock).unwrap();
    }
    assert_eq!(std::fs::metadata(&victim).unwrap().permissions().mode() & 0o777, 0o644);
    assert!(!absent.exists());
    std::fs::hard_link(&victim, &lock).unwrap();
    let error = Claim::take(&endpoint(&path)).await.unwrap_err();
    assert!(error.to_string().contains("hard links"), "{error}");
    assert_eq!(std::fs::metadata(&victim).unwrap().permissions().mode() & 0o777, 0o644);
}

/// A user that can write there could put another socket in place of ours.
#[tokio::test]
async fn no_socket_is_made_where_another_user_can_write() {
    let dir = tempfile::tempdir().unwrap();
    let open = dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    for mode in [0o777, 0o1777] {
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(mode)).unwrap();
        let error = Listener::bind(&endpoint(&open.join("cri.sock"))).await.unwrap_err();
        assert!(
            error.to_string().contains(&format!("{}: it can be written to by every user", open.display())),
            "{error}"
        );
        assert!(error.hint().contains("only root can write to"), "{}", error.hint());
        assert_eq!(std::fs::read_dir(&open).unwrap().count(), 0);
    }
}

#[tokio::test]
async fn both_sides_understand_each_other_over_a_pipe() {
    let (ours, theirs) = tokio::io::duplex(4096);
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = tokio::spawn(echo().serve_over(theirs, async { stopped.await.unwrap_or_default() }));
    let client = Client::over(ours).await.unwrap();
    all_kinds_of_calls(&client).await;
    stop.send(()).unwrap();
    drop(client);
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_finds_the_runtime_again_that_was_started_anew() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cri.sock");
    let serve = |listener: Listener| {
        let (stop, stopped) = oneshot::channel::<()>();
        (stop, tokio::spawn(listener.serve(echo(), async { stopped.await.unwrap_or_default() })))
    };
    let (stop, serving) = serve(Listener::bind(&endpoint(&path)).await.unwrap());
    let client = Client::connect(&endpoint(&path)).await.unwrap();
    client.runtime().version(VersionRequest::default()).await.unwrap();
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
    assert_eq!(
        client.runtime().version(VersionRequest::default()).await.unwrap_err().code(),
        Code::Unavailable
    );
    let (_stop, _serving) = serve(Listener::bind(&endpoint(&path)).await.unwrap());
    client.runtime().version(VersionRequest::default()).await.unwrap();
}

#[tokio::test]
async fn why_there_is_no_conversation_is_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cri.sock");
    let connecting = async || Client::connect(&endpoint(&path)).await.unwrap_err();

    let absent = connecting().await;
    assert!(matches!(absent, Error::Absent { .. }), "{absent}");
    assert_eq!(absent.to_string(), format!("{}: there is no such socket", path.display()));

    drop(UnixListener::bind(&path).unwrap());
    let left = connecting().await;
    assert!(matches!(left, Error::NobodyListens { .. }), "{left}");
    assert!(left.hint().contains("start the container runtime"));

    let listener = Listener::bind(&endpoint(&path)).await.expect("a socket that was left is replaced");
    drop(listener);
    assert!(!path.exists());

    std::fs::write(&path, "precious").unwrap();
    let other = Listener::bind(&endpoint(&path)).await.unwrap_err();
    assert!(matches!(other, Error::NoSocket { .. }), "{other}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn a_socket_that_somebody_else_serves_on_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cri.sock");
    let _theirs = UnixListener::bind(&path).unwrap();
    let taken = Listener::bind(&endpoint(&path)).await.unwrap_err();
    assert!(matches!(taken, Error::Taken { .. }), "{taken}");
    assert!(path.exists());
}
