//! Many pods of one node: some one after the other, many at once, and some one after the other again. All run in blocks of
//! their own, and a pod does not start slower because many run already. `make bench-many` measures that with 250 pods.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testbed::Part;
use testkit::{rounds, wait_for, wait_until};

use crate::cluster::pods::{LASTING, bound_pod, restarts};
use crate::cluster::{Cluster, Runtime, is_true};

/// The pods that are started one after the other, on a node with few pods and on one with many.
const SINGLE: usize = 10;
/// A start with many pods may take so many times as long as with few. If the time was proportional to the number of pods, it
/// would be about seven times as long.
const FACTOR: u32 = 2;
/// Other tests use the processors, too: it is enough that one of so many rounds was fast.
const ROUNDS: usize = 3;

/// When the events of a pod came.
#[derive(Debug, Clone, Copy)]
struct Seen {
    created: Instant,
    ready: Option<Instant>,
}

/// By name.
type Pods = BTreeMap<String, Seen>;

/// Follows the pods by a watch, which ends with this value.
struct Follower {
    kubectl: Child,
    pods: Arc<Mutex<Pods>>,
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.kubectl.kill();
        let _ = self.kubectl.wait();
    }
}

impl Follower {
    fn start(cluster: &Cluster) -> Self {
        let path = "/api/v1/namespaces/default/pods?watch=1&timeoutSeconds=1200";
        let mut command = cluster.testbed.command("kubectl");
        command.args(["get", "--raw", path]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut kubectl = command.spawn().unwrap();
        let lines = BufReader::new(kubectl.stdout.take().unwrap()).lines().map_while(Result::ok);
        let pods = Arc::new(Mutex::new(Pods::new()));
        let seen = Arc::clone(&pods);
        std::thread::spawn(move || {
            lines.for_each(|line| note(&mut seen.lock().unwrap(), &line, Instant::now()))
        });
        Self { kubectl, pods }
    }

    /// How long the pod took from its creation until it was ready.
    fn took(&self, name: &str) -> Option<Duration> {
        let seen = self.pods.lock().unwrap().get(name).copied()?;
        Some(seen.ready?.duration_since(seen.created))
    }

    /// Creates these pods at once: how long each took until it was ready.
    #[track_caller]
    fn create(&self, cluster: &Cluster, names: &[String]) -> Vec<Duration> {
        let items: Vec<Value> = names.iter().map(|name| bound_pod(name, LASTING)).collect();
        cluster.apply(&json!({"apiVersion": "v1", "kind": "List", "items": items}));
        names.iter().map(|name| wait_for(&format!("pod {name} is ready"), || self.took(name))).collect()
    }

    /// Creates these pods one after the other: the median of what each took.
    #[track_caller]
    fn median(&self, cluster: &Cluster, names: &[String]) -> Duration {
        let mut took: Vec<Duration> =
            names.iter().flat_map(|name| self.create(cluster, std::slice::from_ref(name))).collect();
        took.sort();
        took[took.len() / 2]
    }
}

fn note(pods: &mut Pods, event: &str, at: Instant) {
    let event: Value = serde_json::from_str(event).unwrap_or_default();
    let Some(name) = event["object"]["metadata"]["name"].as_str() else { return };
    let seen = pods.entry(name.to_owned()).or_insert(Seen { created: at, ready: None });
    if is_true(&event["object"], "Ready") {
        seen.ready.get_or_insert(at);
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

#[test]
fn a_pod_starts_with_many_pods_on_the_node_as_fast_as_with_few() {
    let at_once = if rounds() > 1 { 80 } else { 30 };
    let cluster = Cluster::of(Runtime::BuiltIn, &[Part::ControllerManager]);
    cluster.import();
    let _agent = cluster.agent();
    cluster.await_node_ready();
    let follower = Follower::start(&cluster);
    // What is done for the first pod only does not count.
    follower.create(&cluster, &names("first", 1));
    let few = follower.median(&cluster, &names("few", SINGLE));
    follower.create(&cluster, &names("burst", at_once));

    let mut medians = Vec::new();
    loop {
        let last = names(&format!("many{}", medians.len()), SINGLE);
        medians.push(follower.median(&cluster, &last));
        if medians.iter().any(|many| *many <= few * FACTOR) {
            break;
        }
        assert!(medians.len() < ROUNDS, "{few:?} with few pods, {medians:?} with many");
        cluster.kubectl(&format!("delete pods {} --timeout=100s", last.join(" ")));
    }
    println!("{few:?} with few pods, {medians:?} with many");

    let pods = cluster.list("pods");
    assert_eq!(pods.len(), 1 + SINGLE + at_once + SINGLE);
    assert!(pods.iter().all(|pod| is_true(pod, "Ready") && restarts(pod) == 0), "{pods:#?}");
    cluster.distinct_blocks(&pods);
    cluster.each_pod_has_its_own_block(&pods[..2]);

    cluster.kubectl("delete pods --all --timeout=100s");
    wait_until("no pod is left", || cluster.get("pods").is_some_and(|list| list["items"] == json!([])));
    cluster.await_no_leases();
    assert_eq!(cluster.json(&["ps"]), json!([]));
}

#[test]
fn a_pod_is_ready_at_the_first_event_that_says_so() {
    let (mut pods, began) = (Pods::new(), Instant::now());
    let at = |seconds| began + Duration::from_secs(seconds);
    let event = |ready: &str| {
        let status = json!({"conditions": [{"type": "Ready", "status": ready}]});
        json!({"type": "MODIFIED", "object": {"metadata": {"name": "a"}, "status": status}}).to_string()
    };
    for (seconds, ready) in [(1, "False"), (3, "True"), (4, "False"), (5, "True")] {
        note(&mut pods, &event(ready), at(seconds));
    }
    note(&mut pods, "no event", at(6));
    assert_eq!((pods["a"].created, pods["a"].ready), (at(1), Some(at(3))));
}
