//! What a runtime says, from one that answers as each test wants.

use std::fs;

use cri::client::Client;
use cri::image_service_server::ImageService;
use cri::runtime_service_server::RuntimeService;
use cri::server::Services;
use cri::{
    ContainerAttributes, ContainerStats, CpuUsage, FilesystemIdentifier, FilesystemUsage, ImageFsInfoRequest,
    ImageFsInfoResponse, ListContainerStatsRequest, ListContainerStatsResponse, ListMetricDescriptorsRequest,
    ListMetricDescriptorsResponse, ListPodSandboxMetricsRequest, ListPodSandboxMetricsResponse,
    ListPodSandboxRequest, ListPodSandboxResponse, MemoryUsage, Metric, MetricDescriptor, PodSandbox,
    PodSandboxMetadata, PodSandboxMetrics, Request, Response, Status, StreamPodSandboxMetricsRequest,
    StreamPodSandboxMetricsResponse, SwapUsage, UInt64Value,
};
use tonic::codegen::BoxStream;

use super::*;

type Answer<T> = Result<Response<T>, Status>;

/// How a runtime answers a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum How {
    #[default]
    Unimplemented,
    Fails,
    Answers,
    /// Answers a part, and fails then.
    Breaks,
}

impl How {
    fn check(self) -> Result<(), Status> {
        match self {
            Self::Unimplemented => Err(Status::unimplemented("unknown method")),
            Self::Fails => Err(Status::internal("no space left")),
            Self::Answers | Self::Breaks => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct Runtime {
    descriptors: How,
    stream: How,
    list: How,
    stats: How,
    /// The directory of images and of the layer of container `c1`.
    dir: String,
}

fn value(value: u64) -> Option<UInt64Value> {
    Some(UInt64Value { value })
}

fn of_pod(name: &str) -> PodSandboxMetrics {
    let label_values = vec![name.to_owned()];
    let metric = Metric { name: "sent".to_owned(), label_values, value: value(7), ..Metric::default() };
    PodSandboxMetrics {
        pod_sandbox_id: name.to_owned(),
        metrics: vec![metric],
        ..PodSandboxMetrics::default()
    }
}

fn filesystem(dir: &str) -> FilesystemUsage {
    FilesystemUsage {
        fs_id: Some(FilesystemIdentifier { mountpoint: dir.to_owned() }),
        used_bytes: value(4096),
        inodes_used: value(3),
        ..FilesystemUsage::default()
    }
}

#[tonic::async_trait]
impl RuntimeService for Runtime {
    async fn list_metric_descriptors(
        &self,
        _: Request<ListMetricDescriptorsRequest>,
    ) -> Answer<ListMetricDescriptorsResponse> {
        self.descriptors.check()?;
        let sent = MetricDescriptor {
            name: "sent".to_owned(),
            help: "Bytes".to_owned(),
            label_keys: vec!["pod".to_owned()],
        };
        let unreadable = MetricDescriptor { name: "a b".to_owned(), ..MetricDescriptor::default() };
        Ok(Response::new(ListMetricDescriptorsResponse { descriptors: vec![sent, unreadable] }))
    }

    async fn stream_pod_sandbox_metrics(
        &self,
        _: Request<StreamPodSandboxMetricsRequest>,
    ) -> Answer<BoxStream<StreamPodSandboxMetricsResponse>> {
        self.stream.check()?;
        let message = |name| Ok(StreamPodSandboxMetricsResponse { pod_sandbox_metrics: vec![of_pod(name)] });
        let last = if self.stream == How::Breaks { Err(Status::internal("broken")) } else { message("db") };
        let messages = [message("web"), last];
        Ok(Response::new(Box::pin(futures_util::stream::iter(messages))))
    }

    async fn list_pod_sandbox_metrics(
        &self,
        _: Request<ListPodSandboxMetricsRequest>,
    ) -> Answer<ListPodSandboxMetricsResponse> {
        self.list.check()?;
        Ok(Response::new(ListPodSandboxMetricsResponse { pod_metrics: vec![of_pod("listed")] }))
    }

    async fn list_container_stats(
        &self,
        _: Request<ListContainerStatsRequest>,
    ) -> Answer<ListContainerStatsResponse> {
        self.stats.check()?;
        let id = |id: &str| Some(ContainerAttributes { id: id.to_owned(), ..ContainerAttributes::default() });
        let cpu =
            CpuUsage { timestamp: 5_000_000_000, usage_core_nano_seconds: value(70), ..CpuUsage::default() };
        let memory = MemoryUsage {
            working_set_bytes: value(600),
            usage_bytes: value(1000),
            available_bytes: value(400),
            ..MemoryUsage::default()
        };
        let swap =
            SwapUsage { swap_usage_bytes: value(3), swap_available_bytes: value(7), ..SwapUsage::default() };
        let known = ContainerStats {
            attributes: id("c1"),
            cpu: Some(cpu),
            memory: Some(memory),
            swap: Some(swap),
            writable_layer: Some(filesystem(&self.dir)),
            ..ContainerStats::default()
        };
        let unknown = ContainerStats { attributes: id("c2"), ..ContainerStats::default() };
        Ok(Response::new(ListContainerStatsResponse { stats: vec![known, unknown] }))
    }

    async fn list_pod_sandbox(&self, _: Request<ListPodSandboxRequest>) -> Answer<ListPodSandboxResponse> {
        self.stats.check()?;
        let metadata = PodSandboxMetadata { uid: "u-1".to_owned(), ..PodSandboxMetadata::default() };
        let sandbox = PodSandbox { id: "s1".to_owned(), metadata: Some(metadata), ..PodSandbox::default() };
        Ok(Response::new(ListPodSandboxResponse { items: vec![sandbox] }))
    }
}

#[tonic::async_trait]
impl ImageService for Runtime {
    async fn image_fs_info(&self, _: Request<ImageFsInfoRequest>) -> Answer<ImageFsInfoResponse> {
        self.stats.check()?;
        let image_filesystems = vec![filesystem(&self.dir), filesystem("/elsewhere")];
        Ok(Response::new(ImageFsInfoResponse { image_filesystems, ..ImageFsInfoResponse::default() }))
    }
}

async fn client(runtime: &Runtime) -> Client {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let services = Services { runtime: runtime.clone(), images: runtime.clone() };
    tokio::spawn(services.serve_over(theirs, std::future::pending()));
    Client::over(ours).await.unwrap()
}

async fn metrics(runtime: Runtime, warned: &WarnOnce) -> String {
    let machine = MachineFacts { cpus: 2, memory: 4096, boot_id: "b".to_owned(), ..MachineFacts::default() };
    containers::metrics(&client(&runtime).await, &machine, warned).await.unwrap()
}

fn samples(text: &str) -> Vec<&str> {
    text.lines().filter(|line| line.starts_with("sent") || line.starts_with("container_scrape")).collect()
}

/// Any error of the runtime was an answer without metrics of the machine, and an alert that the node is away.
#[tokio::test]
async fn the_machine_has_metrics_whatever_the_runtime_answers() {
    use How::{Answers, Breaks, Fails, Unimplemented};
    for (descriptors, stream, list, expected) in [
        (Unimplemented, Unimplemented, Unimplemented, &["container_scrape_error 1"][..]),
        (Fails, Answers, Answers, &["container_scrape_error 1"]),
        (Answers, Unimplemented, Unimplemented, &["container_scrape_error 1"]),
        (Answers, Fails, Answers, &["container_scrape_error 1"]),
        (Answers, Breaks, Answers, &["container_scrape_error 1", "sent{pod=\"web\"} 7"]),
        (Answers, Unimplemented, Fails, &["container_scrape_error 1"]),
        (Answers, Unimplemented, Answers, &["container_scrape_error 0", "sent{pod=\"listed\"} 7"]),
        (
            Answers,
            Answers,
            Unimplemented,
            &["container_scrape_error 0", "sent{pod=\"web\"} 7", "sent{pod=\"db\"} 7"],
        ),
    ] {
        let runtime = Runtime { descriptors, stream, list, ..Runtime::default() };
        let text = metrics(runtime.clone(), &WarnOnce::default()).await;
        assert_eq!(samples(&text), expected, "{runtime:?}");
        for line in [
            "machine_cpu_cores{boot_id=\"b\",machine_id=\"\",system_uuid=\"\"} 2",
            "machine_memory_bytes{boot_id=\"b\",machine_id=\"\",system_uuid=\"\"} 4096",
        ] {
            assert!(text.lines().any(|found| found == line), "{runtime:?}: {text}");
        }
    }
}

#[tokio::test]
async fn a_runtime_without_metrics_and_metrics_that_cannot_be_read_are_warned_of_once() {
    let warned = WarnOnce::default();
    for _ in 0..2 {
        metrics(Runtime::default(), &warned).await;
        metrics(Runtime { descriptors: How::Answers, stream: How::Answers, ..Runtime::default() }, &warned)
            .await;
    }
    let given = warned.given();
    assert_eq!(given.len(), 2, "{given:?}");
    assert!(given.iter().any(|text| text.contains("ListMetricDescriptors")), "{given:?}");
    assert!(given.iter().any(|text| text.contains("\"a b\"")), "{given:?}");
}

#[tokio::test]
async fn disks_and_containers_are_as_the_runtime_says() {
    let host = tempfile::tempdir().unwrap();
    fs::create_dir_all(host.path().join("var/lib/images")).unwrap();
    let runtime = Runtime { stats: How::Answers, dir: "/var/lib/images".to_owned(), ..Runtime::default() };
    let warned = WarnOnce::default();
    let read = RuntimeUsage::read(&client(&runtime).await, &warned).await;
    let images = read.images.as_ref().unwrap().with_statvfs(host.path()).unwrap();
    assert_eq!((images.used, images.inodes_used), (4096, 3));
    assert!(images.capacity > 0 && images.capacity >= images.available, "{images:?}");
    assert_eq!(read.containers, None);
    assert!(
        read.images.as_ref().unwrap().with_statvfs(&host.path().join("var")).is_none(),
        "it is not there"
    );
    assert!(read.layer("c1", &warned).unwrap().with_statvfs(host.path()).is_some());
    assert_eq!(
        (read.layer("c2", &warned), read.sandbox("u-1"), read.sandbox("u-2")),
        (None, Some("s1"), None)
    );
    let used = read.used("c1").unwrap();
    assert_eq!((used.at, used.cpu_rate, used.counters.cpu), (5_000, None, Some(70)));
    let memory = &used.counters.memory;
    assert_eq!((memory.usage, memory.working_set(), memory.available()), (Some(1000), Some(600), Some(400)));
    assert_eq!((memory.swap, memory.swap_limit), (Some(3), Some(10)));
    assert!(read.used("c2").is_none() && read.used("c3").is_none());
    assert!(warned.given().is_empty());
    let few = RuntimeUsage::read_containers(&client(&runtime).await).await;
    assert!(few.images.is_none() && few.used("c1").is_some());
    assert_eq!((read.check_stats(), few.check_stats()), (Ok(()), Ok(())));
}

/// A runtime's `/var/lib/../../etc` would be a directory outside of the host's root.
#[tokio::test]
async fn directories_that_lead_elsewhere_are_refused() {
    for dir in ["/a/../../etc", "..", "a", "", "/../etc"] {
        let runtime = Runtime { stats: How::Answers, dir: dir.to_owned(), ..Runtime::default() };
        let warned = WarnOnce::default();
        let read = RuntimeUsage::read(&client(&runtime).await, &warned).await;
        assert_eq!((&read.images, read.layer("c1", &warned)), (&None, None), "{dir}");
        assert_eq!(warned.given().len(), 1, "{dir}: {:?}", warned.given());
    }
}

#[tokio::test]
async fn a_runtime_that_does_not_answer_leaves_all_unknown() {
    let runtime = Runtime { stats: How::Fails, ..Runtime::default() };
    let read = RuntimeUsage::read(&client(&runtime).await, &WarnOnce::default()).await;
    assert!(read.images.is_none() && read.used("c1").is_none() && read.sandbox("u-1").is_none());
}

/// The writable layers of all containers were empty then, and eviction for disk space ended another pod than the one that had
/// filled the disk.
#[tokio::test]
async fn a_failed_list_of_stats_is_not_an_empty_one() {
    let runtime = Runtime { stats: How::Fails, ..Runtime::default() };
    for read in [
        RuntimeUsage::read(&client(&runtime).await, &WarnOnce::default()).await,
        RuntimeUsage::read_containers(&client(&runtime).await).await,
        RuntimeUsage::unknown("it is slow: no space left".to_owned()),
    ] {
        let cause = read.check_stats().unwrap_err();
        assert!(cause.contains("no space left"), "{cause}");
    }
    // Nothing is asked where cgroups say it.
    assert_eq!(RuntimeUsage::default().check_stats(), Ok(()));
}
