//! The control plane of a cluster as static pods of the node that it controls: the agent starts them without an API server,
//! and registers with the one that it runs itself.

use std::path::Path;

use serde_json::{Value, json};
use testbed::Part;
use testkit::wait_until;

use crate::cluster::pods::{container_id, deployment, restarts};
use crate::cluster::{Cluster, NODE, Runtime, is_true, name, uid};

/// A part, the component that it is, and where it says how it is.
struct Member {
    part: Part,
    component: &'static str,
    scheme: &'static str,
    port: u16,
    path: &'static str,
}

const MEMBERS: [Member; 4] = [
    Member { part: Part::Etcd, component: "etcd", scheme: "HTTP", port: 2379, path: "/health" },
    Member {
        part: Part::Apiserver,
        component: "kube-apiserver",
        scheme: "HTTPS",
        port: 6443,
        path: "/livez",
    },
    Member {
        part: Part::ControllerManager,
        component: "kube-controller-manager",
        scheme: "HTTPS",
        port: 10257,
        path: "/healthz",
    },
    Member {
        part: Part::Scheduler,
        component: "kube-scheduler",
        scheme: "HTTPS",
        port: 10259,
        path: "/healthz",
    },
];

impl Member {
    /// The manifest, with the fields of those that kubeadm writes.
    fn manifest(&self, cluster: &Cluster) -> Value {
        let image = cluster.import_component(self.component);
        let arguments = cluster.testbed.arguments(self.part).unwrap();
        let command: Vec<String> = std::iter::once(image.program).chain(arguments).collect();
        let get = json!({"host": "127.0.0.1", "port": self.port, "scheme": self.scheme, "path": self.path});
        let data = &cluster.testbed.record().places.data;
        let volume = |name: &str, path: &Path, kind: &str| json!({"name": name, "hostPath": {"path": path, "type": kind}});
        let mount = |name: &str, path: &Path, read_only: bool| json!({"name": name, "mountPath": path, "readOnly": read_only});
        let (pki, etcd) = (data.join("pki"), data.join("etcd"));
        let mut volumes = vec![volume("pki", &pki, "Directory")];
        let mut mounts = vec![mount("pki", &pki, true)];
        if self.part == Part::Etcd {
            volumes.push(volume("data", &etcd, "DirectoryOrCreate"));
            mounts.push(mount("data", &etcd, false));
        }
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": self.component, "namespace": "kube-system",
                "labels": {"tier": "control-plane", "component": self.component},
            },
            "spec": {
                "hostNetwork": true, "priority": 2_000_001_000, "priorityClassName": "system-node-critical",
                "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
                "volumes": volumes,
                "containers": [{
                    "name": self.component, "image": image.name, "imagePullPolicy": "IfNotPresent",
                    "command": command, "volumeMounts": mounts,
                    "resources": {"requests": {"cpu": "50m", "memory": "50Mi"}},
                    "startupProbe": {"httpGet": get, "periodSeconds": 2, "timeoutSeconds": 15, "failureThreshold": 60},
                    "livenessProbe": {"httpGet": get, "periodSeconds": 10, "timeoutSeconds": 15, "failureThreshold": 8},
                }],
            },
        })
    }
}

/// The mirror pods, once all are ready.
fn mirrors(cluster: &Cluster) -> Vec<Value> {
    let all = || cluster.list("pods -n kube-system -l tier=control-plane");
    wait_until("the control plane is shown by mirror pods", || {
        let pods = all();
        pods.len() == MEMBERS.len() && pods.iter().all(|pod| is_true(pod, "Ready"))
    });
    all()
}

/// What is the same as long as the pod was not touched.
fn identity(pods: &[Value]) -> Vec<[String; 4]> {
    let of =
        |pod: &Value| [name(pod), uid(pod), container_id(pod), &restarts(pod).to_string()].map(str::to_owned);
    pods.iter().map(of).collect()
}

fn is_answering(cluster: &Cluster) -> bool {
    let mut kubectl = cluster.testbed.command("kubectl");
    kubectl.args(["get", "--raw", "/readyz", "--request-timeout=5s"]).output().unwrap().status.success()
}

#[test]
fn an_agent_runs_the_control_plane_that_it_registers_with() {
    let mut cluster = Cluster::of(Runtime::BuiltIn, &[]);
    cluster.import();
    let manifests = cluster.path("manifests");
    std::fs::create_dir(&manifests).unwrap();
    cluster.kubelet = json!({"staticPodPath": manifests});
    let agent = cluster.agent();
    for member in &MEMBERS {
        let file = manifests.join(format!("{}.yaml", member.component));
        std::fs::write(file, member.manifest(&cluster).to_string()).unwrap();
    }
    wait_until("the API server answers", || is_answering(&cluster));
    cluster.await_node_ready();
    let before = mirrors(&cluster);
    for pod in &before {
        let annotations = &pod["metadata"]["annotations"];
        assert!(annotations["kubernetes.io/config.mirror"].is_string(), "{annotations}");
        assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], NODE);
        assert_eq!(
            (&pod["status"]["phase"], &pod["status"]["hostIP"]),
            (&json!("Running"), &json!("10.240.0.10"))
        );
    }
    cluster.apply(&deployment("web", 2));
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    let web = cluster.await_ready_pods("web", 2);
    cluster.each_pod_has_its_own_block(&web);

    // Killed: the control plane goes on, also with work, and the next agent adopts all of it.
    drop(agent);
    assert!(is_answering(&cluster));
    cluster.kubectl("scale deployment/web --replicas=3");
    wait_until("the new pod is scheduled", || {
        cluster.list("pods -l app=web").iter().filter(|pod| pod["spec"]["nodeName"] == NODE).count() == 3
    });
    let _agent = cluster.agent();
    let three = cluster.await_ready_pods("web", 3);
    assert!(identity(&web).iter().all(|one| identity(&three).contains(one)), "{three:#?}");
    assert_eq!(identity(&mirrors(&cluster)), identity(&before));

    // The API server that is stopped last cannot be told of its own end.
    cluster.kubectl("scale deployment/web --replicas=0");
    cluster.await_no_leases();
    for member in &MEMBERS {
        std::fs::remove_file(manifests.join(format!("{}.yaml", member.component))).unwrap();
    }
    wait_until("the control plane has stopped", || cluster.json(&["ps"]) == json!([]));
}
