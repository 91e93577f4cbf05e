//! Kubeconfigs that do not work: one clear error each.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use apiserver::client::{ApiError, ClientError, Clients, ErrorKind};
use apiserver::node::spawn;
use testbed::{User, Validity};
use tokio::sync::watch;

use crate::support::{OFTEN, cluster, node_kubeconfig, ready, run, settings, until};

/// The problem of an agent with this kubeconfig, which stays the same while it tries again.
async fn problem(kubeconfig: &Path, name: &str) -> Arc<ApiError> {
    let clients = Clients::from_kubeconfig(kubeconfig).await.unwrap();
    let state = watch::Sender::new(ready());
    let handle = spawn(&clients, settings(name), OFTEN, state.subscribe());
    let mut problems = handle.problem();
    let found = until(&mut problems, "a problem", Option::is_some).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!problems.has_changed().unwrap(), "{found}, then {:?}", problems.borrow());
    found
}

fn user(file: &str, common_name: &str, validity: Validity) -> PathBuf {
    let organization = common_name.starts_with("system:node:").then_some("system:nodes");
    cluster().user_kubeconfig(&User { file, common_name, organization, validity }).unwrap()
}

fn names(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in {text:?}");
    }
}

#[test]
fn a_user_without_rights_is_forbidden() {
    run(cluster(), async || {
        let file = user("stranger", "stranger", Validity::Valid);
        let error = problem(&file, "stranger").await;
        assert_eq!(error.kind(), ErrorKind::Forbidden);
        names(&error.to_string(), &["create Node stranger", "https://10.240.0.10:6443", "User \"stranger\""]);
        names(error.hint(), &[file.to_str().unwrap(), "system:nodes"]);
    });
}

#[test]
fn a_node_may_not_register_under_another_name() {
    run(cluster(), async || {
        let error = problem(&user("named", "system:node:named", Validity::Valid), "unnamed").await;
        assert_eq!(error.kind(), ErrorKind::Forbidden);
        names(&error.to_string(), &["unnamed"]);
    });
}

#[test]
fn an_expired_certificate_is_named_with_its_end() {
    run(cluster(), async || {
        let file = user("expired", "system:node:expired", Validity::Expired);
        let error = problem(&file, "expired").await;
        assert_eq!(error.kind(), ErrorKind::ClientCertificateExpired);
        names(&error.to_string(), &[file.to_str().unwrap(), "2021-01-01"]);
    });
}

#[test]
fn a_server_of_another_authority_is_not_trusted() {
    run(cluster(), async || {
        let good = fs::read_to_string(node_kubeconfig(cluster(), "mistrust")).unwrap();
        let directory = tempfile::tempdir().unwrap();
        // The certificate of the node itself, which signed nothing.
        let bad = good.replace("/ca.crt", "/mistrust.crt");
        assert_ne!(good, bad);
        let file = directory.path().join("kubeconfig");
        fs::write(&file, bad).unwrap();
        let error = problem(&file, "mistrust").await;
        assert_eq!(error.kind(), ErrorKind::ServerCertificate, "{error}");
        names(error.hint(), &["certificate-authority", file.to_str().unwrap()]);
    });
}

#[test]
fn a_server_that_does_not_listen_is_unreachable() {
    run(cluster(), async || {
        let good = fs::read_to_string(node_kubeconfig(cluster(), "alone")).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("kubeconfig");
        fs::write(&file, good.replace(":6443", ":6444")).unwrap();
        let error = problem(&file, "alone").await;
        assert_eq!(error.kind(), ErrorKind::Unreachable);
        names(&error.to_string(), &["https://10.240.0.10:6444"]);
        names(error.hint(), &["nothing listens", file.to_str().unwrap()]);
    });
}

#[test]
fn files_that_are_missing_are_named() {
    run(cluster(), async || {
        let directory = tempfile::tempdir().unwrap();
        let absent = directory.path().join("absent");
        let error = Clients::from_kubeconfig(&absent).await.unwrap_err();
        assert!(matches!(error, ClientError::Unreadable { .. }), "{error}");
        names(&error.to_string(), &[absent.to_str().unwrap()]);
        let good = fs::read_to_string(node_kubeconfig(cluster(), "keyless")).unwrap();
        for name in ["ca.crt", "keyless.crt", "keyless.key"] {
            let file = directory.path().join("kubeconfig");
            fs::write(&file, good.replace(name, "gone.pem")).unwrap();
            let error = Clients::from_kubeconfig(&file).await.unwrap_err();
            assert!(matches!(error, ClientError::Unusable { .. }), "{error}");
            names(&error.to_string(), &[file.to_str().unwrap(), "gone.pem"]);
        }
    });
}
