//! Images of a registry that requires credentials, pulled by `wardlet agent` on containerd for the pods of a real API server,
//! and which pods may use them.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testbed::cluster::addresses::{REGISTRY_BASIC, REGISTRY_TOKEN};
use testbed::registry::{PASSWORD, USER};
use testbed::{Part, Parts, Testbed, User, Validity, yardstick};
use testkit::{wait_for, wait_until};

const NODE: &str = "images0";
/// It has no program: that it is there is seen by the events and by what the container waits for.
const IMAGE: &str = "registry-only:1";

struct Cluster {
    testbed: Testbed,
    dir: tempfile::TempDir,
}

/// Killed when it is dropped.
struct Agent(Child);

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", std::fs::read_to_string(self.path("log")).unwrap_or_default());
        }
        let _ = self.wardlet().args(["stop", "--all", "--grace", "0"]).output();
    }
}

impl Cluster {
    fn start() -> Self {
        let parts = Parts::of(&[Part::Apiserver, Part::Containerd, Part::Registry]);
        let testbed = Testbed::start(parts).unwrap();
        let dir = tempfile::Builder::new().prefix("wg").tempdir_in("/var/tmp").unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        let cluster = Self { testbed, dir };
        std::fs::create_dir(cluster.path("state")).unwrap();
        for namespace in ["shop", "evil"] {
            cluster.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
            let metadata = json!({"name": "default", "namespace": namespace});
            cluster.apply(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}));
        }
        cluster
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn wardlet(&self) -> Command {
        let mut command = self.testbed.command(testkit::programs().join("wardlet"));
        command.arg("--state-dir").arg(self.path("state"));
        command
    }

    fn agent(&self, settings: &Value, flags: &[String]) -> Agent {
        let pki = |name: &str| self.testbed.kubeconfig().with_file_name(name).display().to_string();
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "tlsCertFile": pki("kubelet-serving.crt"), "tlsPrivateKeyFile": pki("kubelet-serving.key"),
            "containerRuntimeEndpoint": format!("unix://{}", self.testbed.containerd_socket().display()),
            "cgroupDriver": "cgroupfs", "resolvConf": "", "failCgroupV1": false,
            "podLogsDir": self.path("logs/pods"),
            // However full the disk of this machine is.
            "evictionHard": {"nodefs.available": "0%"}, "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
        });
        config.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        std::fs::write(self.path("kubelet.json"), config.to_string()).unwrap();
        let common_name = format!("system:node:{NODE}");
        let organization = Some("system:nodes");
        let user = User { file: NODE, common_name: &common_name, organization, validity: Validity::Valid };
        let log = std::fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = self.wardlet();
        command.args(["agent", "--run-dir"]).arg(self.path("run")).arg("--").args(flags).args([
            format!("--kubeconfig={}", self.testbed.user_kubeconfig(&user).unwrap().display()),
            format!("--config={}", self.path("kubelet.json").display()),
            format!("--cert-dir={}", self.path("pki").display()),
            format!("--root-dir={}", self.path("kubelet").display()),
            format!("--hostname-override={NODE}"),
            "--node-ip=10.240.0.10".to_owned(),
        ]);
        let agent = Agent(command.stdin(Stdio::null()).stderr(log).spawn().unwrap());
        wait_until("the node is registered", || self.get(&["node", NODE]).is_some());
        agent
    }

    fn get(&self, what: &[&str]) -> Option<Value> {
        let output =
            self.testbed.command("kubectl").arg("get").args(what).args(["-o", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).ok()
    }

    fn apply(&self, object: &Value) {
        yardstick::apply(&self.testbed, &object.to_string()).unwrap();
    }

    /// A secret with credentials for both registries.
    fn secret(&self, namespace: &str, password: &str) {
        let entry = json!({"username": USER, "password": password});
        let config = json!({"auths": {REGISTRY_BASIC: entry, REGISTRY_TOKEN: entry}}).to_string();
        self.apply(&json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": "pull", "namespace": namespace}, "stringData": {".dockerconfigjson": config},
        }));
    }

    fn pod(&self, namespace: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "nodeName": NODE, "hostNetwork": true, "automountServiceAccountToken": false,
                "containers": [{
                    "name": "app", "image": format!("{REGISTRY_TOKEN}/{IMAGE}"), "imagePullPolicy": "IfNotPresent",
                    "command": ["/none"],
                }],
            },
        });
        change(&mut pod["spec"]);
        self.apply(&pod);
    }

    /// The events of a pod: reason and message.
    fn events(&self, namespace: &str, name: &str) -> Vec<(String, String)> {
        let events = self.get(&["events", "-n", namespace]).unwrap_or_default()["items"].clone();
        let of_pod = |event: &&Value| event["involvedObject"]["name"] == name;
        let text = |event: &Value, field: &str| event[field].as_str().unwrap_or_default().to_owned();
        let all = events.as_array().cloned().unwrap_or_default();
        all.iter().filter(of_pod).map(|event| (text(event, "reason"), text(event, "message"))).collect()
    }

    /// Waits for an event with this reason, whose message begins so.
    #[track_caller]
    fn await_event(&self, namespace: &str, name: &str, reason: &str, begins: &str) -> String {
        wait_for(&format!("{reason} of {namespace}/{name}: {begins}"), || {
            let events = self.events(namespace, name);
            events.into_iter().find(|(r, m)| r == reason && m.starts_with(begins)).map(|(_, message)| message)
        })
    }

    /// Waits until the container waits for one of these reasons.
    #[track_caller]
    fn await_waiting(&self, namespace: &str, name: &str, reasons: &[&str]) -> String {
        wait_for(&format!("{namespace}/{name} waits: {reasons:?}"), || {
            let pod = self.get(&["pod", "-n", namespace, name])?;
            let waiting = pod["status"]["containerStatuses"][0]["state"]["waiting"].clone();
            let is_it = reasons.iter().any(|reason| waiting["reason"] == *reason);
            is_it.then(|| waiting["message"].as_str().unwrap_or_default().to_owned())
        })
    }

    fn records(&self, kind: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("kubelet/image_manager").join(kind)).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

fn with_secret(spec: &mut Value) {
    spec["imagePullSecrets"] = json!([{"name": "missing"}, {"name": "pull"}]);
}

const PULLED: &str = "Successfully pulled image";
const PRESENT: &str = "Container image";
const FAILS: [&str; 2] = ["ErrImagePull", "ImagePullBackOff"];

/// The attack: an image that one tenant pulled with a secret is on the node, and a pod of another tenant names it.
#[test]
fn a_private_image_on_the_node_is_for_pods_with_its_credentials_only() {
    let cluster = Cluster::start();
    let agent = cluster.agent(&json!({}), &[]);
    cluster.secret("shop", PASSWORD);
    cluster.secret("evil", "wrong");
    cluster.pod("shop", "owner", with_secret);
    cluster.await_event("shop", "owner", "Pulled", PULLED);
    wait_until("the pull is recorded", || {
        cluster.records("pulled").len() == 1 && cluster.records("pulling").is_empty()
    });

    cluster.pod("evil", "without", |_| {});
    cluster.await_waiting("evil", "without", &FAILS);
    cluster.pod("evil", "wrong", with_secret);
    cluster.await_waiting("evil", "wrong", &FAILS);
    cluster.await_event(
        "evil",
        "wrong",
        "FailedToRetrieveImagePullSecret",
        "Unable to retrieve some image pull secrets (missing)",
    );
    cluster.pod("evil", "never", |spec| spec["containers"][0]["imagePullPolicy"] = json!("Never"));
    cluster.await_waiting("evil", "never", &["ErrImageNeverPull"]);
    cluster.pod("evil", "volume", |spec| {
        spec["containers"][0]["image"] = json!("registry.k8s.io/e2e-test-images/busybox:1.37.0-2");
        spec["containers"][0]["volumeMounts"] = json!([{"name": "loot", "mountPath": "/loot"}]);
        let image = json!({"reference": format!("{REGISTRY_TOKEN}/{IMAGE}"), "pullPolicy": "IfNotPresent"});
        spec["volumes"] = json!([{"name": "loot", "image": image}]);
    });
    cluster.await_waiting("evil", "volume", &FAILS);
    for name in ["without", "wrong", "never", "volume"] {
        let image = format!("{PRESENT} \"{REGISTRY_TOKEN}/{IMAGE}\" already present");
        assert!(
            cluster.events("evil", name).iter().all(|(_, message)| !message.starts_with(&image)),
            "{name}"
        );
    }
    // Once it has the right credentials, it may. The same credentials elsewhere need no pull.
    cluster.secret("evil", PASSWORD);
    cluster.pod("evil", "right", with_secret);
    cluster.await_event("evil", "right", "Pulled", PRESENT);
    cluster.pod("shop", "second", with_secret);
    cluster.await_event("shop", "second", "Pulled", PRESENT);

    // Killed between the end of a pull and its record: what is on disk then is the intent.
    drop(agent);
    let record: Value =
        serde_json::from_slice(&std::fs::read(&cluster.records("pulled")[0]).unwrap()).unwrap();
    std::fs::remove_file(&cluster.records("pulled")[0]).unwrap();
    let intent = json!({
        "kind": "ImagePullIntent", "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "image": format!("{REGISTRY_TOKEN}/{IMAGE}"),
    });
    let name = cluster.path("kubelet/image_manager/pulling/sha256-0");
    std::fs::write(&name, intent.to_string()).unwrap();
    let _agent = cluster.agent(&json!({}), &[]);
    cluster.pod("evil", "late", |_| {});
    cluster.await_waiting("evil", "late", &FAILS);
    cluster.pod("shop", "again", with_secret);
    // By a pull of its own, or of a pod with the same credentials that was tried before it.
    cluster.await_event("shop", "again", "Pulled", "");
    let new: Value = serde_json::from_slice(&std::fs::read(&cluster.records("pulled")[0]).unwrap()).unwrap();
    assert_eq!(new["imageRef"], record["imageRef"]);
}

#[test]
fn a_pull_that_cannot_be_done_says_why_in_the_words_of_a_kubelet() {
    let cluster = Cluster::start();
    let _agent = cluster.agent(&json!({"registryPullQPS": 1, "registryBurst": 1}), &[]);
    let pod = |name: &str, image: &str, policy: &str| {
        cluster.pod("shop", name, |spec| {
            spec["containers"][0]["image"] = json!(image);
            spec["containers"][0]["imagePullPolicy"] = json!(policy);
        });
    };
    pod("invalid", "Upper/Case", "IfNotPresent");
    let cause = "couldn't parse image name \"Upper/Case\"";
    cluster.await_event(
        "shop",
        "invalid",
        "InspectFailed",
        &format!("Failed to apply default image tag \"Upper/Case\": {cause}"),
    );
    assert!(cluster.await_waiting("shop", "invalid", &["InvalidImageName"]).contains(cause));
    cluster.await_event("shop", "invalid", "Failed", "Error: InvalidImageName");

    let absent = format!("{REGISTRY_BASIC}/absent:1");
    pod("never", &absent, "Never");
    let message = format!("Container image \"{absent}\" is not present with pull policy of Never");
    cluster.await_event("shop", "never", "ErrImageNeverPull", &message);
    cluster.await_event("shop", "never", "Failed", "Error: ErrImageNeverPull");

    // More pulls than are allowed at once: one of them fails for that.
    for name in ["a", "b", "c"] {
        pod(name, &absent, "Always");
    }
    let exceeded = format!("Failed to pull image \"{absent}\": pull QPS exceeded");
    wait_until("a pull exceeds the limit", || {
        ["a", "b", "c"]
            .iter()
            .any(|name| cluster.events("shop", name).contains(&("Failed".to_owned(), exceeded.clone())))
    });
    cluster.await_event("shop", "a", "Pulling", &format!("Pulling image \"{absent}\""));
    cluster.await_event("shop", "a", "Failed", "Error: ErrImagePull");
    cluster.await_event("shop", "a", "BackOff", &format!("Back-off pulling image \"{absent}\""));
}

/// Writes its request to a file, and knows the password if the request has what it wants.
fn provider(cluster: &Cluster, wanted: &str) {
    let dir = cluster.path("providers");
    std::fs::create_dir_all(&dir).unwrap();
    let asked = cluster.path("asked");
    let script = format!(
        r#"#!/bin/sh
request=$(cat)
printf '%s\n' "$request" >> {asked}
case $request in *{wanted}*) ;; *) echo "no $WANTED" >&2; exit 1 ;; esac
printf '{{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Registry","cacheDuration":"1h","auth":{{"{REGISTRY_BASIC}":{{"username":"{USER}","password":"{PASSWORD}"}}}}}}'
"#,
        asked = asked.display()
    );
    std::fs::write(dir.join("provider"), script).unwrap();
    std::fs::set_permissions(dir.join("provider"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn provider_flags(cluster: &Cluster, token: &Value) -> Vec<String> {
    let mut provider = json!({
        "name": "provider", "matchImages": ["127.0.0.*:5001"], "defaultCacheDuration": "0s",
        "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "env": [{"name": "WANTED", "value": "luck"}],
    });
    if !token.is_null() {
        provider["tokenAttributes"] = token.clone();
    }
    let config = json!({
        "apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [provider],
    });
    let file = cluster.path("providers.json");
    std::fs::write(&file, config.to_string()).unwrap();
    vec![
        format!("--image-credential-provider-config={}", file.display()),
        format!("--image-credential-provider-bin-dir={}", cluster.path("providers").display()),
    ]
}

fn of_basic(spec: &mut Value) {
    spec["containers"][0]["image"] = json!(format!("{REGISTRY_BASIC}/{IMAGE}"));
}

#[test]
fn a_credential_provider_gets_the_token_of_the_service_account_and_gives_credentials() {
    let cluster = Cluster::start();
    // What fails is named, and the pull fails with it.
    provider(&cluster, "absent");
    let flags = provider_flags(&cluster, &Value::Null);
    let agent = cluster.agent(&json!({}), &flags);
    cluster.pod("shop", "refused", of_basic);
    cluster.await_waiting("shop", "refused", &FAILS);
    let log = std::fs::read_to_string(cluster.path("log")).unwrap();
    assert!(log.contains("credential provider provider") && log.contains("no luck"), "{log}");
    drop(agent);
    std::fs::remove_file(cluster.path("asked")).unwrap();

    provider(&cluster, "serviceAccountToken");
    for (kind, name, spec) in [
        (
            "ClusterRole",
            "audience",
            json!({"rules": [{
                "apiGroups": [""], "resources": ["registry.example"], "verbs": ["request-serviceaccounts-token-audience"],
            }]}),
        ),
        (
            "ClusterRoleBinding",
            "audience",
            json!({
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "audience"},
                "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "system:nodes"}],
            }),
        ),
    ] {
        let mut object = spec;
        object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
        object["kind"] = json!(kind);
        object["metadata"] = json!({"name": name});
        cluster.apply(&object);
    }
    cluster.apply(&json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": "robot", "namespace": "shop", "annotations": {"registry.example/role": "puller"}},
    }));
    let token = json!({
        "serviceAccountTokenAudience": "registry.example", "cacheType": "ServiceAccount", "requireServiceAccount": true,
        "requiredServiceAccountAnnotationKeys": ["registry.example/role"],
    });
    let _agent = cluster.agent(&json!({}), &provider_flags(&cluster, &token));
    let of_robot = |spec: &mut Value| {
        of_basic(spec);
        spec["serviceAccountName"] = json!("robot");
    };
    cluster.pod("shop", "first", of_robot);
    cluster.await_event("shop", "first", "Pulled", PULLED);
    let asked = std::fs::read_to_string(cluster.path("asked")).unwrap();
    let request: Value = serde_json::from_str(asked.lines().next().unwrap()).unwrap();
    assert_eq!(request["kind"], "CredentialProviderRequest");
    assert_eq!(request["image"], format!("{REGISTRY_BASIC}/registry-only"));
    assert_eq!(request["serviceAccountAnnotations"], json!({"registry.example/role": "puller"}));
    // Its answer is kept for the service account, and the image is for that account's pods.
    cluster.pod("shop", "second", |spec| {
        of_robot(spec);
        spec["containers"][0]["imagePullPolicy"] = json!("Always");
    });
    cluster.await_event("shop", "second", "Pulled", PULLED);
    cluster.pod("shop", "third", of_robot);
    cluster.await_event("shop", "third", "Pulled", PRESENT);
    cluster.pod("evil", "other", of_basic);
    cluster.await_waiting("evil", "other", &FAILS);
    assert_eq!(std::fs::read_to_string(cluster.path("asked")).unwrap().lines().count(), 1, "{asked}");
}
