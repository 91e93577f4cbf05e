//! Changes of pods that run on `wardlet agent`, made with kubectl at a real API server.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::{wait_for, wait_until};

use crate::agent::{Cluster, IMAGE, pod};

/// The same image by another name.
const OTHER: &str = "localhost/agent-test:2";

impl Cluster {
    fn kubectl(&self, arguments: &[&str]) -> String {
        let output = self.testbed.command("kubectl").args(arguments).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "kubectl {arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// Names the image once more.
    fn import_other(&self) {
        let archive = self.dir.path().join("other.tar");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/busybox-image.sh");
        assert!(std::process::Command::new(script).arg(OTHER).arg(&archive).status().unwrap().success());
        assert!(self.wardlet().args(["image", "import"]).arg(&archive).status().unwrap().success());
    }

    /// The first process that has this argument.
    fn process(&self, word: &str) -> u32 {
        wait_for("the process", || {
            let all = std::fs::read_dir("/proc").ok()?.flatten();
            let mut numbers = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
            numbers.find(|number| {
                let arguments = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
                arguments.split(|byte| *byte == 0).any(|argument| argument == word.as_bytes())
            })
        })
    }
}

fn container<'a>(pod: &'a Value, list: &str, name: &str) -> &'a Value {
    let mut all = pod["status"][list].as_array().into_iter().flatten();
    all.find(|one| one["name"] == name).unwrap_or(&Value::Null)
}

fn simple(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"].as_object_mut().unwrap().remove("volumes");
    pod["spec"]["containers"][0].as_object_mut().unwrap().remove("volumeMounts");
    pod
}

fn id_map(process: u32) -> String {
    let text = std::fs::read_to_string(format!("/proc/{process}/uid_map")).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn ephemeral_containers_are_started_in_the_running_pod_and_never_again() {
    let cluster = Cluster::start();
    let agent = cluster.agent(&cluster.joined());
    cluster.apply(&simple("web"));
    cluster.running("web");
    let debug = |name: &str, more: &[&str], script: &str| {
        let image = format!("--image={IMAGE}");
        let fixed = ["debug", "web", &image, "--image-pull-policy=Never", "--profile=general", "-c", name];
        cluster.kubectl(&[&fixed[..], more, &["--", "sh", "-c", script]].concat());
    };
    debug("short", &[], "echo from the debugger; exit 5");
    let ended = cluster.pod("web", "has an ended ephemeral container", |pod| {
        container(pod, "ephemeralContainerStatuses", "short")["state"]["terminated"].is_object()
    });
    let short = container(&ended, "ephemeralContainerStatuses", "short").clone();
    assert_eq!((&short["state"]["terminated"]["exitCode"], &short["restartCount"]), (&json!(5), &json!(0)));
    assert_eq!(short["state"]["terminated"]["reason"], "Error");
    assert_eq!((&short["ready"], &short["started"]), (&json!(false), &Value::Null));
    assert_eq!(ended["status"]["observedGeneration"], ended["metadata"]["generation"]);
    assert_eq!(cluster.logs(&["web", "-c", "short"]), "from the debugger\n");

    debug("beside", &["--target=app"], "tr '\\0' ' ' < /proc/1/cmdline; echo; exec sleep 1000");
    let running = cluster.pod("web", "has an ephemeral container that runs", |pod| {
        container(pod, "ephemeralContainerStatuses", "beside")["state"]["running"].is_object()
    });
    assert_eq!(container(&running, "containerStatuses", "app")["restartCount"], 0);
    // In the PID namespace of its target the first process is the target's.
    wait_until("the debugger has seen its target", || {
        cluster.logs(&["web", "-c", "beside"]).contains("while :; do sleep 0.1; done")
    });

    // In the pod's mapping.
    let mark = format!("mark-{}", std::process::id());
    debug("held", &[], &format!(": {mark}; trap 'exit 0' TERM; while :; do sleep 0.1; done"));
    cluster.pod("web", "has a running ephemeral container", |pod| {
        container(pod, "ephemeralContainerStatuses", "held")["state"]["running"].is_object()
    });
    let process = cluster.process(&format!(": {mark}; trap 'exit 0' TERM; while :; do sleep 0.1; done"));
    let lease = &cluster.leases()[0]["uidMappings"][0];
    assert_eq!(id_map(process), format!("0 {} {}", lease["hostId"], lease["length"]));

    // A later agent adopts the pod with its ephemeral containers as they are.
    let before = cluster.get(&["pod", "web"]).unwrap();
    drop(agent);
    let _agent = cluster.agent(&cluster.joined());
    cluster.kubectl(&["label", "pod", "web", "seen=again"]);
    let after = cluster.pod("web", "is adopted", |pod| pod["metadata"]["labels"]["seen"] == "again");
    std::thread::sleep(Duration::from_secs(2));
    for list in ["containerStatuses", "ephemeralContainerStatuses"] {
        assert_eq!(cluster.get(&["pod", "web"]).unwrap()["status"][list], before["status"][list]);
    }
    assert_eq!(after["status"]["phase"], "Running");
    cluster.delete("web");
    wait_until("every block is returned", || cluster.leases().is_empty());
}

#[test]
fn an_image_restarts_its_container_and_labels_reach_the_files_of_the_pod() {
    let cluster = Cluster::start();
    cluster.import_other();
    let agent = cluster.agent(&cluster.joined());
    let mut web = simple("web");
    web["metadata"]["labels"] = json!({"version": "1"});
    web["spec"]["volumes"] = json!([{"name": "about", "downwardAPI": {"items": [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "notes", "fieldRef": {"fieldPath": "metadata.annotations['note']"}}]}}]);
    let script = "trap 'exit 0' TERM; while :; do cat /about/labels /about/notes; echo; sleep 0.2; done";
    web["spec"]["containers"][0]["command"] = json!(["sh", "-c", script]);
    web["spec"]["containers"][0]["volumeMounts"] = json!([{"name": "about", "mountPath": "/about"}]);
    let mut other = web["spec"]["containers"][0].clone();
    other["name"] = json!("beside");
    web["spec"]["containers"].as_array_mut().unwrap().push(other);
    cluster.apply(&web);
    let started = cluster.running("web");
    cluster.kubectl(&["label", "pod", "web", "version=2", "--overwrite"]);
    cluster.kubectl(&["annotate", "pod", "web", "note=written"]);
    wait_until("the files follow", || {
        let log = cluster.logs(&["web", "-c", "app", "--tail=2"]);
        log.contains("version=\"2\"") && log.contains("written")
    });

    cluster.kubectl(&["set", "image", "pod/web", &format!("app={OTHER}")]);
    let changed = cluster.pod("web", "runs with the other image", |pod| {
        let app = container(pod, "containerStatuses", "app");
        app["restartCount"] == 1 && app["state"]["running"].is_object() && app["ready"] == true
    });
    assert_eq!(changed["status"]["observedGeneration"], changed["metadata"]["generation"]);
    let of = |pod: &Value, name: &str| container(pod, "containerStatuses", name).clone();
    assert_eq!(of(&changed, "app")["lastState"]["terminated"]["exitCode"], 0);
    assert_eq!(
        of(&changed, "app")["lastState"]["terminated"]["containerID"],
        of(&started, "app")["containerID"]
    );
    assert_eq!(of(&changed, "beside")["containerID"], of(&started, "beside")["containerID"]);

    // The next agent adopts the pod after SIGKILL: its status stays as it was.
    drop(agent);
    let _agent = cluster.agent(&cluster.joined());
    cluster.kubectl(&["annotate", "pod", "web", "note=again", "--overwrite"]);
    wait_until("the pod is adopted", || cluster.logs(&["web", "-c", "app", "--tail=1"]).contains("again"));
    let adopted = cluster.get(&["pod", "web"]).unwrap();
    assert_eq!(adopted["status"], changed["status"]);
    cluster.delete("web");
}

#[test]
fn a_deadline_that_is_set_later_ends_the_pod() {
    let cluster = Cluster::start();
    let _agent = cluster.agent(&cluster.joined());
    cluster.apply(&simple("web"));
    cluster.running("web");
    cluster.kubectl(&["patch", "pod", "web", "-p", r#"{"spec":{"activeDeadlineSeconds":100000}}"#]);
    cluster.kubectl(&["patch", "pod", "web", "-p", r#"{"spec":{"activeDeadlineSeconds":1}}"#]);
    let ended = cluster.pod("web", "has failed", |pod| pod["status"]["phase"] == "Failed");
    assert_eq!(ended["status"]["reason"], "DeadlineExceeded");
    let message = "Pod was active on the node longer than the specified deadline";
    assert_eq!(ended["status"]["message"], message);
    wait_until("the event is there", || cluster.has_event("web", "DeadlineExceeded", message));
    cluster.delete("web");
    wait_until("every block is returned", || cluster.leases().is_empty());
}

#[test]
fn a_second_deletion_shortens_the_grace_period_and_a_forced_one_needs_none() {
    let cluster = Cluster::start();
    let _agent = cluster.agent(&cluster.joined());
    let stubborn = |name: &str| {
        let mut pod = simple(name);
        pod["spec"]["terminationGracePeriodSeconds"] = json!(600);
        pod["spec"]["containers"][0]["command"] =
            json!(["sh", "-c", "trap '' TERM; while :; do sleep 0.1; done"]);
        cluster.apply(&pod);
        cluster.running(name);
    };
    stubborn("slow");
    cluster.kubectl(&["delete", "pod", "slow", "--wait=false"]);
    let ending = cluster.pod("slow", "is being deleted", |pod| {
        pod["metadata"]["deletionTimestamp"].is_string()
            && pod["status"]["observedGeneration"] == pod["metadata"]["generation"]
    });
    assert_eq!(ending["status"]["phase"], "Running");
    // Fails if the first grace period is waited for.
    cluster.kubectl(&["delete", "pod", "slow", "--grace-period=2", "--timeout=120s"]);
    wait_until("its block is returned", || cluster.leases().is_empty());

    stubborn("forced");
    cluster.kubectl(&["delete", "pod", "forced", "--grace-period=0", "--force"]);
    assert_eq!(cluster.get(&["pod", "forced"]), None);
    wait_until("its block is returned", || cluster.leases().is_empty());
    assert!(!cluster.log().contains("cannot write its status"), "{}", cluster.log());
}
