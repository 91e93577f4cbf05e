//! `wardlet run` follows its manifests: pods are updated while they run, replaced, started and ended.

use std::path::PathBuf;

use testbed::images::BUSYBOX;

use crate::run_support::{Node, Running, text};

/// Two containers that say which start of theirs it was, and a file with the pod's labels.
const POD: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: first}}
spec:
  hostUsers: false
  terminationGracePeriodSeconds: 2
  volumes:
  - {name: self, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
  containers:
  - name: app
    image: IMAGE
    command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
    env: [{name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}]
    volumeMounts: [{name: self, mountPath: /self}]
  - name: other
    image: IMAGE
    command: [sh, -c, "trap 'exit 0' TERM; while :; do sleep 0.1; done"]
"#;

/// The built-in runtime with a directory of manifests that `run` follows.
struct Followed {
    node: Node,
    dir: PathBuf,
    running: Running,
}

impl Followed {
    fn new() -> Self {
        let node = Node::built_in();
        let dir = node.path("manifests");
        std::fs::create_dir(&dir).unwrap();
        let mut followed = Self { node, dir, running: Running(None) };
        followed.write("web.yaml", POD);
        followed.running.0 =
            Some(followed.node.run(&[followed.dir.to_str().unwrap(), "--quiet"]).spawn().unwrap());
        followed.await_running("web");
        followed
    }

    /// Written beside and renamed into place.
    fn write(&self, name: &str, text: &str) {
        let next = self.dir.join("next");
        std::fs::write(&next, text.replace("IMAGE", BUSYBOX)).unwrap();
        std::fs::rename(next, self.dir.join(name)).unwrap();
    }

    fn pod(&self, name: &str) -> Option<serde_json::Value> {
        self.node.json(&["ps"]).as_array().unwrap().iter().find(|pod| pod["name"] == name).cloned()
    }

    fn await_running(&self, name: &str) {
        self.node.await_that(&format!("{name} runs"), || {
            self.pod(name).is_some_and(|pod| pod["phase"] == "Running")
        });
    }

    fn uid(&self, name: &str) -> String {
        self.pod(name).unwrap()["uid"].as_str().unwrap().to_owned()
    }

    /// How often each container of the pod was started again.
    fn restarts(&self) -> Vec<(String, u64)> {
        let pod = self.pod("web").unwrap_or_default();
        let containers = pod["status"]["containers"].as_array().cloned().unwrap_or_default();
        let one =
            |c: &serde_json::Value| (c["name"].as_str().unwrap().to_owned(), c["restarts"].as_u64().unwrap());
        containers.iter().map(one).collect()
    }

    fn exec(&self, command: &str) -> String {
        let words = ["exec", "web", "-c", "app", "--", "sh", "-c", command];
        let output = self.node.command(&words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// Ends it as Ctrl-C does; what it has said.
    fn end(mut self) -> String {
        let child = self.running.0.take().unwrap();
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        // One that has ended by itself is fine.
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let said = text(&child.wait_with_output().unwrap());
        assert_eq!(self.node.leftovers(), Vec::<String>::new(), "{said}");
        said
    }
}

#[test]
fn a_changed_label_reaches_the_pods_files_and_an_image_restarts_one_container() {
    let followed = Followed::new();
    let uid = followed.uid("web");
    assert_eq!(followed.exec("cat /self/labels"), r#"app="first""#);

    followed.write("web.yaml", &POD.replace("app: first", "app: second"));
    followed.node.await_that("the label inside", || followed.exec("cat /self/labels") == r#"app="second""#);
    // Variables are of the start of the container.
    assert_eq!(followed.exec("echo $APP"), "first");
    let restarts = |app, other| vec![("app".to_owned(), app), ("other".to_owned(), other)];
    assert_eq!(followed.restarts(), restarts(0, 0));

    let other_image =
        POD.replace("app: first", "app: second").replacen("image: IMAGE", "image: localhost/busybox:1", 1);
    followed.write("web.yaml", &other_image);
    followed.node.await_that("one container was replaced", || followed.restarts() == restarts(1, 0));
    followed.await_running("web");
    assert_eq!(followed.uid("web"), uid, "another pod");
    let said = followed.end();
    assert!(said.contains("default/web: updated metadata.labels"), "{said}");
    assert!(said.contains("default/web: updated spec.containers[0].image"), "{said}");
}

#[test]
fn a_deadline_that_is_set_later_ends_the_pod() {
    let followed = Followed::new();
    followed.write("web.yaml", &POD.replace("spec:\n", "spec:\n  activeDeadlineSeconds: 1\n"));
    followed.node.await_that("it has ended", || followed.pod("web").is_none());
    let said = followed.end();
    assert!(
        said.contains("activeDeadlineSeconds") && said.contains("updated spec.activeDeadlineSeconds"),
        "{said}"
    );
}

#[test]
fn what_cannot_change_makes_another_pod_files_that_come_start_and_files_that_go_end_theirs() {
    let followed = Followed::new();
    let uid = followed.uid("web");
    followed.write("web.yaml", &POD.replace("sleep 0.1", "sleep 0.2"));
    followed.node.await_that("another pod of its name", || {
        followed.pod("web").is_some_and(|pod| pod["uid"] != uid.as_str() && pod["phase"] == "Running")
    });

    followed.write("two.yaml", &POD.replace("name: web", "name: two"));
    followed.await_running("two");
    let uid = followed.uid("web");
    // Back, be it before the old pod has ended: it is started anew.
    let web = std::fs::read(followed.dir.join("web.yaml")).unwrap();
    std::fs::remove_file(followed.dir.join("web.yaml")).unwrap();
    followed.node.await_that("it is being ended", || {
        followed.pod("web").is_none_or(|pod| pod["status"]["stage"] == "Terminating")
    });
    std::fs::write(followed.dir.join("web.yaml"), web).unwrap();
    followed.node.await_that("it runs again", || {
        followed.pod("web").is_some_and(|pod| pod["uid"] != uid.as_str() && pod["phase"] == "Running")
    });
    let uid = followed.uid("web");

    std::fs::remove_file(followed.dir.join("two.yaml")).unwrap();
    followed.node.await_that("its pod is gone", || followed.pod("two").is_none());

    // One that makes no sense changes nothing.
    followed.write("web.yaml", &POD.replace("hostUsers", "hostUser"));
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(followed.uid("web"), uid);
    let said = followed.end();
    assert!(said.contains("spec.containers[0].command[2]") && said.contains("hostUser"), "{said}");
}
