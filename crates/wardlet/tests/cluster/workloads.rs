//! Every kind of workload on the node: made by the real controllers, bound by the real scheduler, run by the agent.

use serde_json::{Value, json};
use testkit::wait_until;

use super::pods::{LASTING, container_id, deployment, restarts, spec, template, workload};
use super::{Cluster, NODE, Runtime, is_true, name};

/// How much of it.
pub(crate) struct Extent {
    /// Pods of the Deployment.
    pub(crate) replicas: usize,
    /// Whether the CronJob is waited for, up to a minute; else its Job is made by hand.
    pub(crate) schedule: bool,
}

/// Ends at once.
const BRIEF: &str = "cat /proc/self/uid_map";

fn job_spec() -> Value {
    let mut spec = spec(BRIEF);
    spec["restartPolicy"] = json!("Never");
    spec
}

fn job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once", "namespace": "default"},
        "spec": {"completions": 2, "parallelism": 2, "template": template("once", &job_spec())},
    })
}

fn cron_job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "often", "namespace": "default"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template("often", &job_spec())}}},
    })
}

/// Runs all of it, from the first pod to the last block returned.
pub(crate) fn run(extent: &Extent) {
    let (cluster, _agent) = Cluster::with_agent(Runtime::BuiltIn);
    let mut ordered = workload("StatefulSet", "ordered", &spec(LASTING));
    ordered["spec"]["serviceName"] = json!("ordered");
    ordered["spec"]["replicas"] = json!(2);
    let objects = [
        deployment("web", extent.replicas),
        ordered,
        workload("DaemonSet", "each", &spec(LASTING)),
        job(),
        cron_job(),
    ];
    objects.iter().for_each(|object| cluster.apply(object));
    if !extent.schedule {
        cluster.kubectl("create job by-hand --from=cronjob/often");
    }
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    cluster.kubectl("rollout status statefulset/ordered --timeout=120s");
    cluster.kubectl("rollout status daemonset/each --timeout=120s");
    let mut pods = cluster.await_ready_pods("web", extent.replicas);
    pods.extend(cluster.await_ready_pods("ordered", 2));
    pods.extend(cluster.await_ready_pods("each", 1));
    assert!(pods.iter().all(|pod| pod["spec"]["nodeName"] == NODE && restarts(pod) == 0), "{pods:#?}");
    cluster.each_pod_has_its_own_block(&pods);
    jobs(&cluster);
    kubectl_shows(&cluster, &pods);
    rolling_update(&cluster, extent.replicas);
    drain(&cluster);

    cluster.kubectl("scale deployment/web --replicas=0");
    cluster.kubectl("scale statefulset/ordered --replicas=0");
    cluster.kubectl("delete cronjob/often daemonset/each --timeout=60s");
    cluster.kubectl("delete jobs --all --timeout=60s");
    wait_until("no pod is left", || cluster.get("pods").is_some_and(|list| list["items"] == json!([])));
    cluster.await_no_leases();
    assert_eq!(cluster.json(&["ps"]), json!([]));
}

/// The Jobs complete, each pod in a user namespace: its log has its map.
fn jobs(cluster: &Cluster) {
    cluster.kubectl("wait --for=condition=Complete job/once --timeout=60s");
    let complete = |job: &Value| is_true(job, "Complete");
    wait_until("a Job of the CronJob completes", || {
        let of_cron = |job: &&Value| job["metadata"]["ownerReferences"][0]["kind"] == "CronJob";
        cluster.list("jobs").iter().filter(of_cron).any(complete)
    });
    let once = cluster.await_pods("once", 2, |pod| pod["status"]["phase"] == "Succeeded");
    let maps: Vec<String> = once.iter().map(|pod| cluster.kubectl(&format!("logs {}", name(pod)))).collect();
    let bases: Vec<&str> = maps.iter().map(|map| map.split_whitespace().nth(1).unwrap()).collect();
    assert!(bases[0] != "0" && bases[1] != "0" && bases[0] != bases[1], "{maps:?}");
}

/// What an administrator reads.
fn kubectl_shows(cluster: &Cluster, pods: &[Value]) {
    let nodes = cluster.kubectl("get nodes -o wide --no-headers");
    let cells: Vec<&str> = nodes.split_whitespace().collect();
    assert_eq!((cells[0], cells[1], cells[5]), (NODE, "Ready", "10.240.0.10"), "{nodes}");
    assert!(nodes.contains("wardlet://"), "{nodes}");
    let wide = cluster.kubectl("get pods -o wide --no-headers");
    for pod in pods {
        let row = wide.lines().find(|row| row.starts_with(name(pod))).unwrap_or_else(|| panic!("{wide}"));
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!((cells[1], cells[2], cells[3], cells[6]), ("1/1", "Running", "0", NODE), "{row}");
        assert_eq!(pod["status"]["podIP"], cells[5], "{row}");
    }
    let node = cluster.kubectl(&format!("describe node {NODE}"));
    let count = format!("({} in total)", pods.len());
    assert!(node.contains("KubeletReady") && node.contains(&count), "{count}: {node}");
    let described = cluster.kubectl(&format!("describe pod {}", name(&pods[0])));
    for part in ["Successfully assigned", "Started", container_id(&pods[0]), "QoS Class"] {
        assert!(described.contains(part), "{part}: {described}");
    }
    cluster.kubectl(&format!("label node {NODE} disk=fast"));
    let labels = cluster.get(&format!("node {NODE}")).unwrap()["metadata"]["labels"].clone();
    assert_eq!((&labels["disk"], &labels["kubernetes.io/hostname"]), (&json!("fast"), &json!(NODE)));
}

/// Every pod is another one after it, and the blocks of the old ones are returned.
fn rolling_update(cluster: &Cluster, replicas: usize) {
    let before = cluster.await_ready_pods("web", replicas);
    cluster.kubectl("set env deployment/web VERSION=2");
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    let after = cluster.await_ready_pods("web", replicas);
    assert!(after.iter().all(|new| before.iter().all(|old| name(old) != name(new))));
    cluster.each_pod_has_its_own_block(&after);
    let is_held = |pod: &Value| cluster.leases().iter().any(|lease| lease["holder"] == super::uid(pod));
    wait_until("the old pods' blocks are returned", || !before.iter().any(is_held));
}

/// A drained node has its DaemonSet's pod only, and none of the others comes back before it is uncordoned.
fn drain(cluster: &Cluster) {
    let drain = format!("drain {NODE} --ignore-daemonsets --delete-emptydir-data --force --timeout=100s");
    cluster.kubectl(&drain);
    let shown = cluster.kubectl("get nodes --no-headers");
    assert!(shown.contains("Ready,SchedulingDisabled"), "{shown}");
    let bound = cluster.list(&format!("pods --field-selector spec.nodeName={NODE}"));
    let active: Vec<&Value> = bound
        .iter()
        .filter(|pod| !["Succeeded", "Failed"].map(Some).contains(&pod["status"]["phase"].as_str()))
        .collect();
    assert!(active.len() == 1 && name(active[0]).starts_with("each-"), "{active:#?}");
    cluster.kubectl(&format!("uncordon {NODE}"));
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    cluster.kubectl(&format!("cordon {NODE}"));
    cluster.kubectl("scale deployment/web --replicas=0");
    cluster.kubectl("scale deployment/web --replicas=1");
    let unscheduled = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array();
        conditions.is_some_and(|all| all.iter().any(|one| one["reason"] == "Unschedulable"))
    };
    wait_until("a new pod waits for a node", || cluster.list("pods -l app=web").iter().any(unscheduled));
    cluster.kubectl(&format!("uncordon {NODE}"));
    cluster.await_ready_pods("web", 1);
}
