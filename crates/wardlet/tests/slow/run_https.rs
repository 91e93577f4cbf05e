//! Probes over HTTPS ask a server that the pod has, on both runtimes.

use crate::run_support;

use std::path::{Path, PathBuf};
use std::process::Command;

use run_support::{Node, Running, text};

/// One whose certificate nobody has signed, and one that speaks no TLS at all. IMAGE has no libraries: the server
/// comes with its own.
const SERVED: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: served}
spec:
  hostUsers: false
  terminationGracePeriodSeconds: 1
  volumes:
  - {name: server, hostPath: {path: DIR, type: Directory}}
  - {name: state, emptyDir: {}}
  containers:
  - name: tls
    image: IMAGE
    command: [sh, -c, "touch /state/well; exec /server/LOADER --library-path /server /server/https_server 8443 /state/well"]
    readinessProbe: {httpGet: {scheme: HTTPS, path: /well, port: 8443}, periodSeconds: 1, failureThreshold: 1}
    livenessProbe: {httpGet: {scheme: HTTPS, path: /well, port: 8443}, periodSeconds: 1, failureThreshold: 600}
    volumeMounts: [{name: server, mountPath: /server, readOnly: true}, {name: state, mountPath: /state}]
  - name: plain
    image: IMAGE
    command: [sh, -c, "echo ok > /tmp/well; exec busybox httpd -f -p 8080 -h /tmp"]
    readinessProbe: {httpGet: {scheme: HTTPS, path: /well, port: 8080}, periodSeconds: 1}
"#;

/// The server with all that it is linked to in one directory, and the name of its loader there.
fn with_libraries(node: &Node) -> (PathBuf, String) {
    let server = testkit::example("https_server", concat!(env!("CARGO_MANIFEST_DIR"), "/../agent"));
    let dir = node.path("server");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::copy(&server, dir.join("https_server")).unwrap();
    let shown = Command::new("ldd").arg(&server).output().unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let paths = shown.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    let mut loader = None;
    for path in paths.map(Path::new) {
        let name = path.file_name().unwrap().to_str().unwrap();
        std::fs::copy(path, dir.join(name)).unwrap();
        if name.starts_with("ld-linux") {
            loader = Some(name.to_owned());
        }
    }
    (dir, loader.expect(&shown))
}

fn probes_over_https_follow_what_the_server_says(node: &Node) {
    let (dir, loader) = with_libraries(node);
    let manifest = SERVED.replace("DIR", dir.to_str().unwrap()).replace("LOADER", &loader);
    let file = node.manifest("pod.yaml", &manifest);
    let mut running = Running(Some(node.run(&[file.to_str().unwrap(), "--quiet"]).spawn().unwrap()));
    let container = |n: usize| node.json(&["ps"])[0]["status"]["containers"][n].clone();
    node.await_that("it is ready", || container(0)["ready"] == true);
    let done = node.command(&["exec", "served", "-c", "tls", "--", "rm", "/state/well"]).output().unwrap();
    assert!(done.status.success(), "{}", text(&done));
    node.await_that("it is not ready any more", || container(0)["ready"] == false);
    let done = node.command(&["exec", "served", "-c", "tls", "--", "touch", "/state/well"]).output().unwrap();
    assert!(done.status.success(), "{}", text(&done));
    node.await_that("it is ready again", || container(0)["ready"] == true);
    assert_eq!((&container(1)["started"], &container(1)["ready"]), (&true.into(), &false.into()));
    assert_eq!([&container(0)["restarts"], &container(1)["restarts"]], [0, 0]);
    let places = node.places();
    let words = ["stop", "served"].into_iter().chain(places.iter().map(String::as_str));
    let stop = node.command(&words.collect::<Vec<_>>()).output().unwrap();
    assert!(stop.status.success(), "{}", text(&stop));
    let said = text(&running.0.take().unwrap().wait_with_output().unwrap());
    assert!(said.contains("readiness probe of tls failed: https://"), "{said}");
    assert!(said.contains(":8443/well: status 503"), "{said}");
    assert!(said.contains("readiness probe of plain failed: https://"), "{said}");
    assert_eq!(node.leftovers(), Vec::<String>::new(), "{said}");
}

#[test]
fn probes_over_https_follow_what_the_server_says_on_containerd() {
    probes_over_https_follow_what_the_server_says(&Node::new());
}

#[test]
fn probes_over_https_follow_what_the_server_says_on_the_built_in_runtime() {
    probes_over_https_follow_what_the_server_says(&Node::built_in());
}
