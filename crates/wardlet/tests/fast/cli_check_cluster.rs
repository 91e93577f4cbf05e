//! `check --cluster` against answers that are rare in life; a real API server is in slow_check_cluster.rs.

use crate::api;
use crate::support;

use api::{Api, Asked, status};
use serde_json::{Value, json};
use support::{Host, Ran};

const USER: &str = "{token: secret}";

/// A host with a kubeconfig for this server.
fn host(server: &str, user: &str) -> Host {
    let host = Host::new();
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\nclusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\ncontexts: [{{name: here, context: {{cluster: c, user: u}}}}, {{name: there, context: {{cluster: nowhere}}}}]\nusers: [{{name: u, user: {user}}}]\n"
    );
    host.write("kubeconfig", &kubeconfig);
    host
}

fn checked(api: &Api, options: &str) -> Ran {
    host(&api.server(), USER).run(&format!("check --cluster --kubeconfig HOST/kubeconfig {options}"))
}

fn report(ran: &Ran) -> Value {
    serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}: {ran:?}"))
}

fn names(report: &Value) -> Vec<&str> {
    report["workloads"].as_array().unwrap().iter().map(|w| w["name"].as_str().unwrap()).collect()
}

/// An empty list of any kind, and a version.
fn nothing(asked: &Asked) -> (u16, String) {
    if asked.path.starts_with("/version") {
        let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.4", "gitCommit": "",
            "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
        return (200, version.to_string());
    }
    (200, json!({"kind": "List", "apiVersion": "v1", "metadata": {}, "items": []}).to_string())
}

fn pods(next: &str, names: &[&str]) -> (u16, String) {
    let pod = |name: &&str| {
        json!({"metadata": {"name": name, "namespace": "shop", "uid": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]}})
    };
    let items: Vec<Value> = names.iter().map(pod).collect();
    let list = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": next}, "items": items});
    (200, list.to_string())
}

fn is_pods(asked: &Asked) -> bool {
    asked.path.starts_with("/api/v1/pods?")
}

#[test]
fn pages_are_followed_to_the_last() {
    let api = Api::start(|asked| match &asked.path {
        path if !is_pods(asked) => nothing(&Asked { path: path.clone(), authorization: None }),
        path if path.contains("continue=two") => pods("", &["c"]),
        path if path.contains("continue=one") => pods("two", &["b"]),
        _ => pods("one", &["a"]),
    });
    assert_eq!(names(&report(&checked(&api, "-o json"))), ["a", "b", "c"]);
    assert!(api.asked().iter().filter(|asked| is_pods(asked)).all(|asked| asked.path.contains("limit=500")));
}

/// The first page's state is compacted away before the second is asked for.
#[test]
fn a_list_goes_on_when_the_server_forgot_its_state() {
    let api = Api::start(|asked| match &asked.path {
        _ if !is_pods(asked) => nothing(asked),
        path if path.contains("continue=fresh") => pods("", &["b"]),
        path if path.contains("continue=old") => {
            let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired",
                "message": "the provided continue parameter is too old", "code": 410,
                "metadata": {"continue": "fresh"}});
            (410, body.to_string())
        }
        _ => pods("old", &["a"]),
    });
    let ran = checked(&api, "-o json");
    assert_eq!(names(&report(&ran)), ["a", "b"]);
    assert_eq!(report(&ran)["problems"], json!([]));
}

#[test]
fn a_list_that_cannot_go_on_is_said_and_what_was_read_is_used() {
    let api = Api::start(|asked| match &asked.path {
        _ if !is_pods(asked) => nothing(asked),
        path if path.contains("continue=") => status(410, "too old"),
        _ => pods("old", &["a"]),
    });
    let ran = checked(&api, "-o json");
    assert_eq!(names(&report(&ran)), ["a"]);
    assert_eq!(report(&ran)["problems"][0]["field"], "pods");
    assert!(ran.stderr.contains("pods: could not be read from"), "{}", ran.stderr);
    assert_eq!(checked(&api, "--gate").code, Some(2));
}

#[test]
fn a_kind_that_may_not_be_read_is_said_and_the_rest_is_used() {
    let api = Api::start(|asked| match &asked.path {
        path if path.starts_with("/api/v1/nodes") => {
            status(403, "nodes is forbidden: User \"u\" cannot list")
        }
        _ if is_pods(asked) => pods("", &["a"]),
        _ => nothing(asked),
    });
    let ran = checked(&api, "-o json");
    assert_eq!(ran.code, Some(0));
    assert_eq!(names(&report(&ran)), ["a"]);
    let problem = &report(&ran)["problems"][0];
    assert!(problem["cause"].as_str().unwrap().contains("nodes is forbidden"), "{problem}");
    assert!(problem["hint"].as_str().unwrap().contains("right to list"), "{problem}");
}

#[test]
fn a_kind_that_the_server_does_not_have_is_no_problem() {
    let api = Api::start(|asked| match &asked.path {
        path if path.contains("runtimeclasses") => (404, "404 page not found\n".to_owned()),
        _ if is_pods(asked) => pods("", &["a"]),
        _ => nothing(asked),
    });
    assert_eq!(report(&checked(&api, "-o json"))["problems"], json!([]));
}

#[test]
fn a_cluster_that_shows_no_pods_and_no_workloads_is_not_called_fine() {
    let api = Api::start(|asked| match asked.path.starts_with("/version") {
        true => nothing(asked),
        false => status(403, "forbidden"),
    });
    let ran = checked(&api, "");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("shows neither pods nor workloads"), "{}", ran.stderr);
}

#[test]
fn refused_credentials_are_said_once() {
    let api = Api::start(|_| status(401, "Unauthorized"));
    let ran = checked(&api, "");
    assert_eq!(ran.code, Some(2));
    assert_eq!(ran.stderr.matches("error: ").count(), 1, "{}", ran.stderr);
    assert!(ran.stderr.contains("does not accept our credentials"), "{}", ran.stderr);
    assert_eq!(api.asked().len(), 1);
}

#[test]
fn a_proxys_page_is_not_taken_for_a_list() {
    let api = Api::start(|asked| match asked.path.starts_with("/version") {
        true => nothing(asked),
        false => (200, "<html>please log in</html>".to_owned()),
    });
    let ran = checked(&api, "");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("the answer is no list of objects"), "{}", ran.stderr);
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_cause() {
    let ran = host("https://127.0.0.1:1", USER).run("check --cluster --kubeconfig HOST/kubeconfig");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""));
    assert!(ran.stderr.contains("cannot reach https://127.0.0.1:1: Connection refused"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: nothing listens there"), "{}", ran.stderr);
}

#[test]
fn the_token_of_the_kubeconfig_is_sent() {
    let api = Api::start(|asked| if is_pods(asked) { pods("", &["a"]) } else { nothing(asked) });
    checked(&api, "");
    assert!(api.asked().iter().all(|asked| asked.authorization.as_deref() == Some("Bearer secret")));
}

#[test]
fn a_credential_plugin_is_asked_for_the_token() {
    let api = Api::start(|asked| if is_pods(asked) { pods("", &["a"]) } else { nothing(asked) });
    let credential = r#"{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"kind\": \"ExecCredential\", \"status\": {\"token\": \"from-plugin\"}}"#;
    let user = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: printf, args: [\"%s\", \"{credential}\"]}}}}"
    );
    let ran = host(&api.server(), &user).run("check --cluster --kubeconfig HOST/kubeconfig");
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(api.asked().iter().all(|asked| asked.authorization.as_deref() == Some("Bearer from-plugin")));
}

#[test]
fn a_credential_plugin_that_fails_is_said_with_its_last_words() {
    let user = "{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: sh, args: [-c, \"echo please log in >&2; exit 3\"]}}";
    let ran = host("https://127.0.0.1:1", user).run("check --cluster --kubeconfig HOST/kubeconfig");
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.stderr.contains("credential plugin ended with exit status: 3: please log in"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_context_that_is_not_there_is_said_with_those_that_are() {
    let host = host("https://127.0.0.1:1", USER);
    let ran = host.run("check --cluster --kubeconfig HOST/kubeconfig --context nope");
    assert!(ran.stderr.contains("has no context \"nope\""), "{}", ran.stderr);
    assert!(ran.stderr.contains("it has here, there"), "{}", ran.stderr);
    let ran = host.run("check --cluster --kubeconfig HOST/kubeconfig --context there");
    assert!(ran.stderr.contains("has no cluster \"nowhere\""), "{}", ran.stderr);
    let ran = host.run("check --cluster --kubeconfig HOST/none");
    assert!(ran.stderr.contains("cannot read the kubeconfig HOST/none"), "{}", ran.stderr);
}

#[test]
fn one_namespace_is_asked_for_where_only_one_is_wanted() {
    let api = Api::start(|asked| match asked.path.starts_with("/api/v1/namespaces/shop/pods?") {
        true => pods("", &["a"]),
        false => nothing(asked),
    });
    let ran = checked(&api, "--namespace shop -o json");
    assert_eq!(names(&report(&ran)), ["a"]);
    assert!(!api.asked().iter().any(is_pods));
}

#[test]
fn the_upgrade_starts_from_the_servers_own_version() {
    let api = Api::start(|asked| if is_pods(asked) { pods("", &["a"]) } else { nothing(asked) });
    assert_eq!(report(&checked(&api, "-o json"))["upgrade"]["from"]["version"], "1.36");
    assert_eq!(report(&checked(&api, "-o json --from 1.35"))["upgrade"]["from"]["version"], "1.35");
}

#[test]
fn only_reading_is_asked_for_and_never_secrets() {
    let api = Api::start(|asked| if is_pods(asked) { pods("", &["a"]) } else { nothing(asked) });
    checked(&api, "");
    assert!(api.asked().len() > 10);
    let private = |asked: &Asked| asked.path.contains("secrets") || asked.path.contains("configmaps");
    assert!(!api.asked().iter().any(private));
}
