//! What goes wrong around the agent of a real cluster: the API server away, a watch expired, the agent killed or restarted,
//! containerd restarted, the disk full. Pods go on, no container is restarted, and no block is lost, doubled or leaked.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};
use testbed::{Handler, Part, Shim, faults};
use testkit::{Dice, rounds, rounds_or, wait_for, wait_until};

use crate::cluster::pods::{
    LASTING, bound_pod, container_id, deployment, ready_since, restarts, spec, workload,
};
use crate::cluster::{Cluster, NODE, Runtime, is_true, uid};

/// What must be the same before and after: pod, container, number of restarts, and since when it is ready.
type Identity = BTreeSet<(String, String, u64, String)>;

fn identity(pods: &[Value]) -> Identity {
    let of = |pod: &Value| {
        (uid(pod).to_owned(), container_id(pod).to_owned(), restarts(pod), ready_since(pod).to_string())
    };
    pods.iter().map(of).collect()
}

fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// A pod that is made now runs, and is removed with its block.
fn a_new_pod_comes_and_goes(cluster: &Cluster, name: &str) {
    cluster.apply(&bound_pod(name, LASTING));
    let pods = cluster.await_ready_pods(name, 1);
    cluster.kubectl(&format!("delete pod {name} --timeout=60s"));
    wait_until("its block is returned", || cluster.leases().iter().all(|one| one["holder"] != uid(&pods[0])));
}

/// The end of each test: every block is returned, and no pod is left.
fn scale_to_zero(cluster: &Cluster, apps: &[&str]) {
    for app in apps {
        cluster.kubectl(&format!("scale deployment/{app} --replicas=0"));
    }
    cluster.await_no_leases();
    wait_until("no pod is left", || cluster.get("pods").is_some_and(|list| list["items"] == json!([])));
    assert_eq!(cluster.json(&["ps"]), json!([]));
}

#[test]
fn pods_outlive_an_agent_that_is_restarted_and_stay_ready() {
    let (cluster, agent) = Cluster::with_agent(Runtime::BuiltIn);
    let count = if rounds() > 1 { 30 } else { 5 };
    cluster.apply(&deployment("web", count));
    let before = cluster.await_ready_pods("web", count);
    let leases = cluster.leases();
    agent.stop();
    let agent = cluster.agent();
    a_new_pod_comes_and_goes(&cluster, "after-stop");
    drop(agent);
    let _agent = cluster.agent();
    a_new_pod_comes_and_goes(&cluster, "after-kill");
    let after = cluster.await_ready_pods("web", count);
    assert_eq!(identity(&after), identity(&before));
    assert_eq!(cluster.leases(), leases, "each pod has kept its block");
    cluster.each_pod_has_its_own_block(&after);
    scale_to_zero(&cluster, &["web"]);
}

#[test]
fn pods_run_on_while_the_api_server_is_away() {
    let (mut cluster, _agent) = Cluster::with_agent(Runtime::BuiltIn);
    cluster.apply(&deployment("web", 2));
    // A container that ends while there is no API server is started again all the same.
    cluster.apply(&bound_pod("ends", "n=0; while [ $n -lt 40 ]; do n=$((n+1)); sleep 0.2; done; exit 1"));
    let before = cluster.await_ready_pods("web", 2);
    let ended = restarts(&cluster.await_pods("ends", 1, |pod| is_true(pod, "Ready"))[0]);
    faults::kill(&cluster.testbed, Part::Apiserver).unwrap();
    pause(Duration::from_secs(if rounds() > 1 { 120 } else { 12 }));
    cluster.testbed.restart(Part::Apiserver).unwrap();
    cluster.await_node_ready();
    wait_until("the restart is reported", || {
        cluster.list("pods -l app=ends").iter().any(|pod| restarts(pod) > ended)
    });
    let after = cluster.await_ready_pods("web", 2);
    assert_eq!(identity(&after), identity(&before));
    cluster.kubectl("delete pod ends --timeout=60s");
    a_new_pod_comes_and_goes(&cluster, "later");
    cluster.each_pod_has_its_own_block(&after);
    scale_to_zero(&cluster, &["web"]);
}

/// The newest resource version.
fn version(cluster: &Cluster) -> String {
    let list: Value = serde_json::from_str(&cluster.kubectl("get --raw /api/v1/pods?limit=1")).unwrap();
    list["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Where the API server's history begins now: etcd forgets all before it, and so does the API server's cache.
fn forget_history(cluster: &mut Cluster) {
    let version = version(cluster);
    let body = json!({"revision": version, "physical": true}).to_string();
    let mut curl = cluster.testbed.command("curl");
    curl.args(["--silent", "--fail", "-d", &body, "http://127.0.0.1:2379/v3/kv/compaction"]);
    assert!(curl.output().unwrap().status.success(), "etcd compacts at {version}");
    faults::kill(&cluster.testbed, Part::Apiserver).unwrap();
    cluster.testbed.restart(Part::Apiserver).unwrap();
}

#[test]
fn an_expired_watch_is_followed_by_a_new_list() {
    let (mut cluster, agent) = Cluster::with_agent(Runtime::BuiltIn);
    cluster.apply(&deployment("web", 2));
    cluster.apply(&bound_pod("goes", LASTING));
    cluster.await_ready_pods("goes", 1);
    let before = cluster.await_ready_pods("web", 2);
    let version = version(&cluster);

    // What happens now the agent could learn only by events that nothing remembers when it runs again.
    agent.signal(Signal::STOP);
    cluster.kubectl("delete pod goes --wait=false");
    cluster.apply(&bound_pod("comes", LASTING));
    forget_history(&mut cluster);
    let expired = wait_for("the API server answers a watch", || {
        let path = format!("/api/v1/pods?watch=1&resourceVersion={version}&timeoutSeconds=5");
        let output = cluster.testbed.command("kubectl").args(["get", "--raw", &path]).output().unwrap();
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (!said.contains("refused")).then_some(said)
    });
    assert!(expired.contains("410") || expired.contains("too old resource version"), "{expired}");
    agent.signal(Signal::CONT);

    wait_until("the deleted pod is gone", || cluster.get("pod goes").is_none());
    cluster.await_ready_pods("comes", 1);
    let after = cluster.await_ready_pods("web", 2);
    assert_eq!(identity(&after), identity(&before));
    a_new_pod_comes_and_goes(&cluster, "later");
    cluster.kubectl("delete pod comes --timeout=60s");
    scale_to_zero(&cluster, &["web"]);
}

#[test]
fn an_agent_killed_at_any_instant_loses_and_doubles_no_block() {
    let (cluster, agent) = Cluster::with_agent(Runtime::BuiltIn);
    let mut dice = Dice::thrown("an agent killed at any instant");
    let (rounds, pods) = if rounds() > 1 { (rounds_or(1).min(200), 30) } else { (10, 8) };
    let calm = workload("Deployment", "calm", &spec(LASTING));
    cluster.apply(&calm);
    let before = cluster.await_ready_pods("calm", 1);
    cluster.apply(&deployment("web", pods));
    let mut agent = Some(agent);
    for round in 0..rounds {
        // Pods come and go while it dies.
        let replicas = if round % 2 == 0 { pods } else { dice.below(pods) };
        cluster.kubectl(&format!("scale deployment/web --replicas={replicas}"));
        if dice.coin() {
            cluster.kubectl("delete pods -l app=web --wait=false --grace-period=1");
        }
        pause(Duration::from_millis(u64::try_from(dice.below(3000)).unwrap()));
        drop(agent.take());
        no_block_is_doubled(&cluster);
        agent = Some(cluster.agent());
    }
    cluster.kubectl(&format!("scale deployment/web --replicas={pods}"));
    let all = cluster.await_ready_pods("web", pods);
    cluster.each_pod_has_its_own_block(&all);
    let after = cluster.await_ready_pods("calm", 1);
    assert_eq!(identity(&after), identity(&before), "a pod that did not change was not touched");
    wait_until("no block is held but by a pod that runs", || {
        let holders: BTreeSet<String> =
            cluster.leases().iter().filter_map(|one| one["holder"].as_str().map(str::to_owned)).collect();
        holders == all.iter().chain(&after).map(|pod| uid(pod).to_owned()).collect()
    });
    scale_to_zero(&cluster, &["web", "calm"]);
}

fn no_block_is_doubled(cluster: &Cluster) {
    let mut seen = BTreeSet::new();
    for lease in cluster.leases() {
        let base = lease["uidMappings"][0]["hostId"].as_u64().unwrap();
        assert!(seen.insert(base), "two leases of the block from {base}");
    }
}

#[test]
fn isolated_pods_run_on_containerd_and_outlive_its_restart() {
    let (mut cluster, _agent) = Cluster::with_agent(Runtime::Containerd);
    cluster.apply(&deployment("web", 3));
    cluster.kubectl("rollout status deployment/web --timeout=120s");
    let before = cluster.await_ready_pods("web", 3);
    assert!(before.iter().all(|pod| container_id(pod).starts_with("containerd://")), "{before:#?}");
    assert!(cluster.kubectl("get nodes -o wide").contains("containerd://2."));
    cluster.each_pod_has_its_own_block(&before);

    faults::kill(&cluster.testbed, Part::Containerd).unwrap();
    pause(Duration::from_secs(3));
    cluster.testbed.restart(Part::Containerd).unwrap();
    a_new_pod_comes_and_goes(&cluster, "later");
    let after = cluster.await_ready_pods("web", 3);
    assert_eq!(identity(&after), identity(&before));
    cluster.await_node_ready();
    cluster.each_pod_has_its_own_block(&after);
    scale_to_zero(&cluster, &["web"]);
}

/// An OCI runtime that takes the user namespace from containers, but not from sandboxes, while the file `forgets` is beside it:
/// CRI-O 1.36.3 does so after its restart.
fn forgetful_runtime(dir: &Path) -> Handler {
    let runc = testbed::cache::program("runc", "runc").unwrap();
    let binary = dir.join("forgetful");
    let script = format!(
        r#"#!/bin/sh
for word; do
    if [ "$last" = --bundle ]; then bundle=$word; fi
    if [ "$word" = create ]; then create=1; fi
    last=$word
done
if [ -n "$create" ] && [ -e {forgets} ] && grep -q '"io.kubernetes.cri.container-type":"container"' "$bundle/config.json"; then
    sed -i -E -e 's/"(uid|gid)Mappings":\[[^]]*\],?//g' -e 's/\{{"type":"user"(,"path":"[^"]*")?\}},?//' \
        -e 's/,(\]|\}})/\1/g' "$bundle/config.json"
fi
exec {runc} "$@"
"#,
        forgets = dir.join("forgets").display(),
        runc = runc.display(),
    );
    std::fs::write(&binary, script).unwrap();
    std::fs::set_permissions(&binary, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    Handler { name: "runc".into(), shim: Shim::Runc, binary }
}

#[test]
fn a_container_that_the_runtime_puts_outside_of_the_pods_user_namespace_is_killed() {
    let dir = tempfile::Builder::new().prefix("forgetful").tempdir_in("/var/tmp").unwrap();
    let parts = [Part::ControllerManager, Part::Scheduler];
    let cluster = Cluster::with(Runtime::Containerd, &parts, vec![forgetful_runtime(dir.path())]);
    let _agent = cluster.agent();
    cluster.await_node_ready();
    // It ends when it is told to, and tells which users it has.
    let script = "cat /proc/self/uid_map; while [ ! -e /tmp/end ]; do sleep 0.1; done";
    cluster.apply(&bound_pod("web", script));
    let before = cluster.await_ready_pods("web", 1);
    cluster.each_pod_has_its_own_block(&before);

    std::fs::write(dir.path().join("forgets"), "").unwrap();
    cluster.kubectl("exec web -- touch /tmp/end");
    wait_until("the pod has an event", || {
        let events = cluster.list("events --field-selector involvedObject.name=web");
        let says = |event: &Value| {
            event["message"].as_str().is_some_and(|text| text.contains("outside of the pod's user namespace"))
        };
        events.iter().any(says)
    });
    // Neither the container nor one in a new sandbox stays outside.
    for _ in 0..20 {
        pause(Duration::from_millis(250));
        let process = processes(script);
        pause(Duration::from_millis(250));
        let stays = processes(script).intersection(&process).count();
        assert_eq!(stays, 0, "a container runs as the host's users");
    }

    std::fs::remove_file(dir.path().join("forgets")).unwrap();
    // One that is killed can have been ready for a moment.
    wait_until("the container stays", || {
        let first = processes(script);
        pause(Duration::from_secs(1));
        processes(script).intersection(&first).count() > 0
    });
    let after = cluster.await_ready_pods("web", 1);
    assert_eq!(uid(&after[0]), uid(&before[0]));
    cluster.each_pod_has_its_own_block(&after);
    cluster.kubectl("delete pod web --timeout=60s");
    cluster.await_no_leases();
}

/// The processes with this argument.
fn processes(argument: &str) -> BTreeSet<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let has = |number: &u32| {
        let line = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(argument)
    };
    numbers.filter(has).collect()
}

#[test]
fn a_full_disk_is_reported_and_pods_run_when_there_is_room_again() {
    let cluster = Cluster::start(Runtime::BuiltIn);
    let disk = faults::disk::small(&cluster.testbed, &cluster.state(), 96 << 20).unwrap();
    cluster.import();
    let _agent = cluster.agent();
    cluster.await_node_ready();
    cluster.apply(&deployment("web", 1));
    let before = cluster.await_ready_pods("web", 1);

    disk.fill().unwrap();
    cluster.apply(&bound_pod("late", LASTING));
    let reported = wait_for("the cause is in an event of the pod", || {
        let events = cluster.list("events --field-selector involvedObject.name=late");
        let says =
            |event: &&Value| event["message"].as_str().is_some_and(|text| text.contains("No space left"));
        events.iter().find(says).cloned()
    });
    assert_eq!(reported["type"], "Warning", "{reported:#}");
    let late = cluster.await_pods("late", 1, |pod| pod["status"]["phase"] == "Pending");
    assert_eq!(late[0]["spec"]["nodeName"], NODE);
    disk.free().unwrap();
    cluster.await_ready_pods("late", 1);
    let after = cluster.await_ready_pods("web", 1);
    assert_eq!(identity(&after), identity(&before));
    cluster.each_pod_has_its_own_block(&after);
    cluster.kubectl("delete pod late --timeout=60s");
    scale_to_zero(&cluster, &["web"]);
}
