//! Every example, run for real on the built-in runtime and on containerd: what it shows is what its head says, what
//! was asked of runtime and kernel is what `explain` had said, and nothing is left of it.

use crate::stage;

use std::os::unix::fs::MetadataExt;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use stage::calls::{are_as_planned, are_as_the_kernel_shows};
use stage::kernel_calls::differences;
use stage::{Play, Stage, on_each_runtime, refused, text, to_its_end, top};

on_each_runtime! {
    the_first_pod_has_every_ephemeral_volume
    a_web_server_answers_with_its_config_map_and_asks_for_its_secret
    two_pods_share_a_directory_with_the_right_owners_and_nothing_is_chowned
    init_containers_come_first_and_sidecars_leave_last
    probes_decide_who_is_ready_and_who_is_started_again
    an_update_of_a_config_map_is_seen_inside_all_at_once
    a_misspelt_field_is_refused_by_name_and_nothing_is_started
    parts_of_volumes_are_mounted_and_made_for_the_disks_owners
    a_port_of_the_host_leads_to_the_pod
    a_filesystem_that_cannot_be_idmapped_takes_the_shared_block
    the_kernel_shows_the_planned_mounts_of_pods_that_would_have_ended
}

fn as_it_is(text: &str) -> String {
    text.to_owned()
}

/// What a client inside the testbed gets from `host:port/path`, its head included; with these lines in its own.
fn fetched(stage: &Stage, (host, port): (&str, u16), path: &str, head: &str) -> String {
    let script = r#"exec 3<>"/dev/tcp/$0/$1" && printf "GET $2 HTTP/1.0\r\n$3\r\n" >&3 && timeout 5 cat <&3"#;
    let words = ["-c", script, host, &port.to_string(), path, head];
    text(&stage.inside("bash", &words).output().unwrap())
}

fn the_first_pod_has_every_ephemeral_volume(stage: &Stage) {
    let file = stage.example("first-pod.yaml", as_it_is);
    let mut play = Play::start(stage, &file, &[]);
    play.await_out("first/main | scratch: written as 0:0");
    for line in [
        "inside:  uid=0(root) gid=0(root)",
        "config:  good day, owned by 0:0",
        "secret:  10 bytes, owned by 0:0",
        "name:    first",
        "both:    text token",
    ] {
        assert!(play.out().contains(&format!("first/main | {line}")), "{line}: {}", play.said());
    }
    are_as_planned(stage, &file);
    are_as_the_kernel_shows(stage, &file);
    play.end();
}

fn a_web_server_answers_with_its_config_map_and_asks_for_its_secret(stage: &Stage) {
    let file = stage.example("web-server.yaml", as_it_is);
    let mut play = Play::start(stage, &file, &[]);
    let is_ready =
        |play: &Play<'_>| play.container("web-server", "httpd").is_some_and(|c| c["ready"] == true);
    play.await_that("it is ready", is_ready);
    let address = play.pod("web-server").unwrap()["addresses"][0].as_str().unwrap().to_owned();
    let at = (address.as_str(), 8080);
    let page = fetched(stage, at, "/", "");
    assert!(page.contains("200 OK") && page.contains("good day"), "{page}");
    let shut = fetched(stage, at, "/private/", "");
    assert!(shut.contains("401") && !shut.contains("for guests only"), "{shut}");
    let open = fetched(stage, at, "/private/", "Authorization: Basic Z3Vlc3Q6d2VsY29tZQ==\\r\\n");
    assert!(open.contains("200 OK") && open.contains("for guests only"), "{open}");
    are_as_planned(stage, &file);
    are_as_the_kernel_shows(stage, &file);
    play.end();
}

fn two_pods_share_a_directory_with_the_right_owners_and_nothing_is_chowned(stage: &Stage) {
    let shared = stage.srv().join("shared");
    let _ = std::fs::remove_dir_all(&shared);
    let file = stage.example("shared-directory.yaml", as_it_is);
    let (code, said) = to_its_end(stage, &file, &[]);
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("right/main | from-left is 1000:2000:600"), "{said}");
    assert!(said.contains("left/main | from-right is 0:0:600"), "{said}");
    assert!(said.contains("left/main | made by left\nleft/main | read by right"), "{said}");
    assert!(said.contains("right/main | made by right\nright/main | read by left"), "{said}");
    let owners = |name: &str| {
        let found = std::fs::metadata(shared.join(name)).unwrap();
        (found.uid(), found.gid())
    };
    assert_eq!([owners("."), owners("from-left"), owners("from-right")], [(0, 0), (1000, 2000), (0, 0)]);
    are_as_planned(stage, &file);
}

fn init_containers_come_first_and_sidecars_leave_last(stage: &Stage) {
    let file = stage.example("init-and-sidecar.yaml", as_it_is);
    let (code, said) = to_its_end(stage, &file, &[]);
    assert_eq!(code, 0, "{said}");
    let read: Vec<&str> =
        said.lines().filter_map(|line| line.strip_prefix("init-and-sidecar/reader | ")).collect();
    assert_eq!(read, ["prepared", "step 1", "step 2", "step 3", "the work has ended"], "{said}");
    are_as_planned(stage, &file);
}

fn probes_decide_who_is_ready_and_who_is_started_again(stage: &Stage) {
    let file = stage.example("probes-and-restarts.yaml", as_it_is);
    let mut play = Play::start(stage, &file, &[]);
    let field = |play: &Play<'_>, name: &str, field: &str| {
        play.container("probes", name).map(|c| c[field].clone()).unwrap_or_default()
    };
    play.await_that("all are ready", |play| {
        ["web", "slow", "once"].iter().all(|name| field(play, name, "ready") == true)
    });
    assert_eq!(
        [field(&play, "web", "restarts"), field(&play, "once", "restarts")],
        [0, 1],
        "{}",
        play.said()
    );
    let first = play.out().find("probes/once | no luck").expect("it failed once");
    assert!(play.out()[first..].contains("probes/once | all well"), "{}", play.said());

    let done = play.exec(&["probes", "-c", "web", "--", "rm", "/tmp/page"]);
    assert!(done.status.success(), "{}", text(&done));
    play.await_that("web is not ready", |play| field(play, "web", "ready") == false);
    assert_eq!(field(&play, "web", "restarts"), 0, "{}", play.said());

    let done = play.exec(&["probes", "-c", "web", "--", "touch", "/tmp/ill"]);
    assert!(done.status.success(), "{}", text(&done));
    play.await_that("web was started again", |play| field(play, "web", "restarts") == 1);
    play.await_that("web is ready again", |play| field(play, "web", "ready") == true);
    are_as_planned(stage, &file);
    are_as_the_kernel_shows(stage, &file);
    play.end();
}

fn an_update_of_a_config_map_is_seen_inside_all_at_once(stage: &Stage) {
    let file = stage.example("config-update.yaml", as_it_is);
    let mut play = Play::start(stage, &file, &[]);
    play.await_out("config-update/main | colours: green green");
    are_as_planned(stage, &file);
    are_as_the_kernel_shows(stage, &file);
    stage.example("config-update.yaml", |text| text.replace("green", "blue"));
    play.await_out("config-update/main | colours: blue blue");
    let shown: Vec<String> = play.out().lines().map(str::to_owned).collect();
    assert_eq!(shown.len(), 2, "a half of an update was seen: {}", play.said());
    play.end();
}

fn a_misspelt_field_is_refused_by_name_and_nothing_is_started(stage: &Stage) {
    let file = stage.example("typo.yaml", as_it_is);
    let output = stage.run(&file, &[]).output().unwrap();
    let words = refused(&output);
    assert_eq!(output.status.code(), Some(2), "{words}");
    assert!(words.contains("typo.yaml:10:3: spec.hostUser: unknown field hostUser"), "{words}");
    assert!(words.contains("hint: did you mean hostUsers?"), "{words}");
    assert_eq!(stage.leftovers(), Vec::<String>::new(), "{words}");
}

fn parts_of_volumes_are_mounted_and_made_for_the_disks_owners(stage: &Stage) {
    let logs = stage.srv().join("logs");
    let _ = std::fs::remove_dir_all(&logs);
    let file = stage.example("sub-paths.yaml", as_it_is);
    let (code, said) = to_its_end(stage, &file, &[]);
    assert_eq!(code, 0, "{said}");
    for line in ["config: level = quiet, beside it: 0", "logs: 0:0", "emptyDir: file is 0:0"] {
        assert!(said.contains(&format!("sub-paths/main | {line}")), "{line}: {said}");
    }
    for made in ["pods", "pods/sub-paths", "pods/sub-paths/log"] {
        let found = std::fs::metadata(logs.join(made)).unwrap();
        assert_eq!((found.uid(), found.gid()), (0, 0), "{made}");
    }
    are_as_planned(stage, &file);
}

fn a_port_of_the_host_leads_to_the_pod(stage: &Stage) {
    // Both runtimes are on one node, which has each port once.
    static PORT: Mutex<()> = Mutex::new(());
    let _port = PORT.lock().unwrap_or_else(PoisonError::into_inner);
    let file = stage.example("host-port.yaml", as_it_is);
    let mut play = Play::start(stage, &file, &[]);
    play.await_running("host-port");
    // The node as another machine sees it: by an address that is not loopback.
    let shown = stage.inside("hostname", &["-I"]).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let node = shown.split_whitespace().next().expect("the node has an address").to_owned();
    let page = || fetched(stage, (&node, 18_080), "/page", "");
    play.await_that("it answers", |_| page().contains("through the host"));
    are_as_planned(stage, &file);
    play.end();
    assert!(page().contains("Connection refused"), "the port is still there: {}", page());
}

fn a_filesystem_that_cannot_be_idmapped_takes_the_shared_block(stage: &Stage) {
    let overlay = stage.data_on_an_overlay();
    let file = stage.example("shared-block.yaml", as_it_is);
    let words = refused(&stage.run(&file, &[]).output().unwrap());
    assert!(words.contains("overlay") && words.contains("cannot be idmapped"), "{words}");
    assert_eq!(stage.leftovers(), Vec::<String>::new(), "{words}");

    // The operator joins the block, too: so it is known, and stays the same while no pod has it.
    let lease = stage.json(&["ids", "lease", "operator", "--shared", "shared-block"]);
    let block = u32::try_from(lease["uidMappings"][0]["hostId"].as_u64().unwrap()).unwrap();
    let (owner, data) = (format!("{block}:{block}"), stage.srv().join("data"));
    assert!(stage.inside("chown", &[&owner, data.to_str().unwrap()]).status().unwrap().success());
    let (code, said) = stage.with_a_shared_block(|| {
        let ended = Play::start(stage, &file, &[]).ended();
        are_as_planned(stage, &file);
        ended
    });
    assert_eq!(code, 0, "{said}");
    for line in [
        &format!("one/main | map  0 {block} 65536"),
        &format!("two/main | map  0 {block} 65536"),
        "one/main | data is 0:0",
        "one/main | two is 0:0",
        "two/main | one",
    ] {
        assert!(said.contains(line), "{line}: {said}");
    }
    let found = std::fs::metadata(overlay.upper.join("two")).unwrap();
    assert_eq!((found.uid(), found.gid()), (block, block), "on disk it is the block's");
    let released = stage.wardlet(&["ids", "release", "operator"]).output().unwrap();
    assert!(released.status.success(), "{}", text(&released));
    assert_eq!(stage.leftovers(), Vec::<String>::new(), "{said}");
}

/// The same pods with another script, which stays: what they mount can be looked at.
fn held(text: &str) -> String {
    let stays = r#"[sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.1; done"]"#;
    text.replace("[sh, -ec]", stays).replace("for n in 1 2 3", "sleep 3600; for n in 1 2 3")
}

fn the_kernel_shows_the_planned_mounts_of_pods_that_would_have_ended(stage: &Stage) {
    let _overlay = stage.data_on_an_overlay();
    stage.with_a_shared_block(|| {
        let names = ["shared-directory.yaml", "sub-paths.yaml", "init-and-sidecar.yaml", "shared-block.yaml"];
        let files = names.map(|name| stage.example(name, held));
        let [first, more @ ..] = &files;
        let more = more.each_ref().map(|file| file.to_str().unwrap());
        let mut play = Play::start(stage, first, &more);
        let pods = ["left", "right", "sub-paths", "init-and-sidecar", "one", "two"];
        play.await_that("all run", |play| {
            pods.iter().all(|name| play.pod(name).is_some_and(|pod| pod["phase"] == "Running"))
        });
        files.iter().for_each(|file| are_as_the_kernel_shows(stage, file));
        play.end();
    });
}

#[test]
fn every_example_is_run_by_a_test() {
    let sources = ["examples.rs", "stories.rs"]
        .map(|name| std::fs::read_to_string(top().join("crates/wardlet/tests/slow").join(name)).unwrap())
        .concat();
    for dir in ["examples", "examples/stories"] {
        for entry in std::fs::read_dir(top().join(dir)).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.ends_with(".yaml") || sources.contains(&name), "{dir}/{name} is never run");
        }
    }
}

/// A plan of two volumes, and calls as they are recorded of a pod that follows it.
fn followed() -> (Value, Vec<Value>) {
    let mount = |volume: &str, why: &str| json!({"container": "main", "volume": volume, "path": format!("/{volume}"), "idmap": "own", "label": {"how": "none"}, "why": why});
    let plan = json!({"name": "web", "mounts": [mount("scratch", "ext4 can be idmapped"), mount("key", "tmpfs can be idmapped")]});
    let maps = json!({"uids": [{"hostId": 65536, "containerId": 0, "length": 65536}], "gids": []});
    let set = |what: &str| json!({"kernel": {"set": {"what": what, "change": {"idmap": maps, "propagation": null}}}});
    let users = json!({"uids": [[65536, 0, 65536]]});
    let hosts = json!([{"path": "/etc/hosts", "hostPath": "/state/pods/uid/etc-hosts"}]);
    let calls = vec![
        json!({"kernel": {"userNamespace": maps}}),
        json!({"kernel": {"clone": {"source": "/state"}}}),
        set("the clone of /state"),
        json!({"kernel": {"make": {"kind": "tmpfs", "context": null}}}),
        set("tmpfs"),
        json!({"kernel": {"attach": {"what": "tmpfs", "target": "/state/pods/uid/volumes/kubernetes.io~secret/key"}}}),
        json!({"call": "RunPodSandbox", "pod": "web", "userNamespace": users, "mounts": []}),
        json!({"call": "CreateContainer", "pod": "web", "userNamespace": users, "mounts": hosts}),
    ];
    (plan, calls)
}

#[test]
fn calls_of_the_kernel_that_are_not_the_planned_ones_are_told() {
    let (plan, calls) = followed();
    assert_eq!(differences(std::slice::from_ref(&plan), &calls), Vec::<String>::new());
    let told = |change: &dyn Fn(&mut Vec<Value>)| {
        let mut calls = calls.clone();
        change(&mut calls);
        differences(std::slice::from_ref(&plan), &calls).join("; ")
    };
    let untried = told(&|calls| drop(calls.remove(4)));
    assert!(untried.contains("volumes that are idmapped") && untried.contains("\"2\""), "{untried}");
    let elsewhere =
        told(&|calls| calls[5]["kernel"]["attach"]["target"] = "/state/pods/uid/volumes/a/other".into());
    assert!(elsewhere.contains("volumes in memory") && elsewhere.contains("other"), "{elsewhere}");
    let foreign = told(&|calls| calls[2]["kernel"]["set"]["change"]["idmap"]["uids"][0]["hostId"] = 0.into());
    assert!(foreign.contains("a map of no pod: [[0, 0, 65536]]"), "{foreign}");
    let part = json!({"kernel": {"attach": {"target": "/state/pods/uid/volume-subpaths/key/other/0"}}});
    let part = told(&|calls| calls.push(part.clone()));
    assert!(part.contains("parts of volumes beyond the plan"), "{part}");
    let unmapped = told(&|calls| drop(calls.drain(..5)));
    assert!(unmapped.contains("a user namespace"), "{unmapped}");
}
