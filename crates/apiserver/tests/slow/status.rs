//! Statuses of pods, written and kept.

use std::sync::Arc;

use agent::ports::StatusSink;
use agent::{ExitView, StateView};
use apiserver::pods::PodWatch;
use apiserver::status::{ApiStatuses, StatusNode, StatusOptions};
use lifecycle::Moment;
use serde_json::{Value, json};
use telemetry::metrics::Registry;

use crate::cluster::{Cluster, Local, NODE, eventually, pod, reference, status};

const SINCE: u64 = 1_772_368_205_999;

fn running() -> agent::PodStatus {
    status("Running", StateView::Running { since: SINCE })
}

fn succeeded() -> agent::PodStatus {
    let exit = ExitView {
        code: 0,
        reason: "Completed".into(),
        message: "bye".into(),
        started: Some(SINCE),
        finished: SINCE + 5000,
    };
    status("Succeeded", StateView::Terminated(exit))
}

fn node() -> StatusNode {
    StatusNode {
        addresses: vec!["10.240.0.10".into()],
        runtime: "containerd".into(),
        recursive_read_only: true,
    }
}

struct Written {
    cluster: Arc<Cluster>,
    namespace: String,
    statuses: ApiStatuses,
    marker: agent::ports::PodRef,
    marks: u64,
    /// Its end would end the sets that the statuses follow.
    _pods: PodWatch,
}

impl Written {
    fn start(cluster: Arc<Cluster>, client: kube::Client, name: &str) -> Self {
        let namespace = cluster.namespace(name);
        let pods = PodWatch::start(client.clone(), NODE);
        let (local, metrics) = (Arc::new(Local::default()), Registry::default());
        let dir = tempfile::tempdir().unwrap();
        let devices = devices::DeviceManager::open(dir.path(), &metrics).unwrap();
        let options = StatusOptions { client, pods: pods.view(), node: node(), local, devices, metrics };
        let statuses = ApiStatuses::start(options).unwrap();
        let marker = reference(&cluster.create(&pod(&namespace, "marker")));
        Self { cluster, namespace, statuses, marker, marks: 0, _pods: pods }
    }

    fn pod(&self, name: &str) -> Option<Value> {
        self.cluster.get(&self.namespace, "pod", name)
    }

    async fn until(&self, what: &str, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        eventually(what, || self.pod(name).filter(&is_so)).await
    }

    /// Waits until two batches have been written: what was published before is in the API, or will not be.
    async fn settled(&mut self) {
        for _ in 0..2 {
            self.marks += 1;
            let mut status = running();
            status.containers[0].restarts = u32::try_from(self.marks).unwrap();
            self.statuses.publish(&self.marker, &status).await.unwrap();
            let marks = self.marks;
            let is_marked =
                move |pod: &Value| pod["status"]["containerStatuses"][0]["restartCount"] == json!(marks);
            self.until("the mark", "marker", is_marked).await;
        }
    }
}

#[test]
fn a_status_is_written_kept_and_final() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let mut written = Written::start(inside, client, "status");
        let namespace = written.namespace.clone();
        let web = reference(&written.cluster.create(&pod(&namespace, "web")));
        let patch = |patch: Value| {
            let patch = patch.to_string();
            let arguments = ["patch", "pod", "-n", &namespace, "web", "--subresource=status", "-p", &patch];
            written.cluster.kubectl(&arguments);
        };
        patch(json!({"status": {"conditions": [{"type": "example.com/gate", "status": "True"}]}}));

        written.statuses.publish(&web, &running()).await.unwrap();
        let pod = written.until("the status", "web", |pod| pod["status"]["phase"] == "Running").await;
        let status = &pod["status"];
        assert_eq!((&status["podIP"], &status["hostIP"]), (&json!("10.88.0.7"), &json!("10.240.0.10")));
        assert_eq!(status["podIPs"], json!([{"ip": "10.88.0.7"}]));
        assert_eq!(
            (&status["startTime"], &status["observedGeneration"]),
            (&json!("2026-03-01T12:30:00Z"), &json!(1))
        );
        assert_eq!(status["qosClass"], "BestEffort");
        let container = &status["containerStatuses"][0];
        assert_eq!(container["containerID"], "containerd://0123abcd");
        assert_eq!(container["state"], json!({"running": {"startedAt": "2026-03-01T12:30:05Z"}}));
        let conditions: Vec<(&str, &str)> = status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|one| (one["type"].as_str().unwrap(), one["status"].as_str().unwrap()))
            .collect();
        let expected = [
            ("example.com/gate", "True"),
            ("PodReadyToStartContainers", "True"),
            ("Initialized", "True"),
            ("Ready", "True"),
            ("ContainersReady", "True"),
            ("PodScheduled", "True"),
        ];
        assert_eq!(conditions, expected);

        // Nothing is sent when nothing differs.
        let version = pod["metadata"]["resourceVersion"].clone();
        written.statuses.publish(&web, &running()).await.unwrap();
        written.settled().await;
        assert_eq!(written.pod("web").unwrap()["metadata"]["resourceVersion"], version);

        // What another client writes over it is put right.
        patch_status(
            &written,
            "web",
            &json!({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"$patch": "replace"}]}}),
        );
        let is_ours = |pod: &Value| pod["status"]["podIPs"] == json!([{"ip": "10.88.0.7"}]);
        written.until("the address", "web", is_ours).await;

        // What has ended for good stays so.
        written.statuses.publish(&web, &succeeded()).await.unwrap();
        let pod = written.until("the end", "web", |pod| pod["status"]["phase"] == "Succeeded").await;
        let end = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
        assert_eq!((&end["message"], &end["finishedAt"]), (&json!("bye"), &json!("2026-03-01T12:30:10Z")));
        written.statuses.publish(&web, &running()).await.unwrap();
        written.settled().await;
        let pod = written.pod("web").unwrap();
        assert_eq!(pod["status"]["phase"], "Succeeded");
        let ready = pod["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["type"] == "Ready")
            .unwrap();
        assert_eq!((&ready["status"], &ready["reason"]), (&json!("False"), &json!("PodCompleted")));
        assert_eq!(written.statuses.last(&web), Some(running()), "the local sink has what the agent said");
    });
}

fn patch_status(written: &Written, name: &str, patch: &Value) {
    let patch = patch.to_string();
    let arguments = ["patch", "pod", "-n", &written.namespace, name, "--subresource=status", "-p", &patch];
    written.cluster.kubectl(&arguments);
}

#[test]
fn a_deleted_pod_goes_when_its_clean_up_is_finished() {
    let cluster = Cluster::shared();
    let inside = Arc::clone(&cluster);
    cluster.run(move |client| async move {
        let mut written = Written::start(inside, client, "deletion");
        let namespace = written.namespace.clone();
        let web = reference(&written.cluster.create(&pod(&namespace, "web")));
        let ended = reference(&written.cluster.create(&pod(&namespace, "ended")));
        written.statuses.publish(&web, &running()).await.unwrap();
        written.until("the status", "web", |pod| pod["status"]["phase"] == "Running").await;
        let delete = ["delete", "pod", "-n", &namespace, "web", "--wait=false", "--grace-period=30"];
        written.cluster.kubectl(&delete);
        written.settled().await;
        assert_eq!(written.pod("web").unwrap()["status"]["phase"], "Running", "it is not cleaned up");
        written.statuses.finish(&web);
        eventually("the removal", || written.pod("web").is_none().then_some(())).await;

        // A pod that ended by itself stays until it is deleted.
        written.statuses.publish(&ended, &succeeded()).await.unwrap();
        written.statuses.finish(&ended);
        written.until("the end", "ended", |pod| pod["status"]["phase"] == "Succeeded").await;
        written.settled().await;
        assert!(written.pod("ended").is_some());
        written.cluster.kubectl(&["delete", "pod", "-n", &namespace, "ended", "--wait=false"]);
        eventually("the removal", || written.pod("ended").is_none().then_some(())).await;

        // A pod of the same name is another pod.
        let again = reference(&written.cluster.create(&pod(&namespace, "web")));
        written.statuses.publish(&web, &running()).await.unwrap();
        written.settled().await;
        assert_eq!(written.pod("web").unwrap()["status"]["phase"], "Pending");
        written.statuses.reject(
            &again,
            "OutOfcpu",
            "Pod was rejected: no CPU is left",
            Moment::from_millis(SINCE),
        );
        let pod = written.until("the rejection", "web", |pod| pod["status"]["phase"] == "Failed").await;
        assert_eq!(pod["status"]["reason"], "OutOfcpu");
    });
}
