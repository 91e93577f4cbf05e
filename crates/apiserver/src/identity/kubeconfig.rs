//! The kubeconfig that a bootstrap leaves: the server and the authority of the bootstrap kubeconfig, and the client
//! certificate by its file.

use std::fmt::Write as _;
use std::path::Path;

use durable::AtomicFile;
use kube::config::Cluster;
use serde_json::json;

use super::IdentityError;

/// Writes the kubeconfig, as a whole.
pub(super) fn write(path: &Path, cluster: &Cluster, certificate: &Path) -> Result<(), IdentityError> {
    if let Some(dir) = path.parent() {
        durable::make_dirs(dir, 0o755)?;
    }
    AtomicFile::at(path).mode(0o600).replace(text(cluster, certificate).as_bytes())?;
    Ok(())
}

/// The names and the order of the fields are the kubelet's. Values are quoted: JSON strings are YAML.
fn text(cluster: &Cluster, certificate: &Path) -> String {
    let mut fields = String::new();
    let mut field = |name: &str, value: Option<serde_json::Value>| {
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _ = writeln!(fields, "    {name}: {value}");
        }
    };
    match &cluster.certificate_authority {
        Some(file) => field("certificate-authority", Some(json!(file))),
        None => field(
            "certificate-authority-data",
            cluster.certificate_authority_data.as_ref().map(|data| json!(data)),
        ),
    }
    field(
        "insecure-skip-tls-verify",
        cluster.insecure_skip_tls_verify.filter(|skip| *skip).map(|skip| json!(skip)),
    );
    field("proxy-url", cluster.proxy_url.as_ref().map(|url| json!(url)));
    field("server", cluster.server.as_ref().map(|url| json!(url)));
    field("tls-server-name", cluster.tls_server_name.as_ref().map(|name| json!(name)));
    let certificate = json!(certificate);
    format!(
        "apiVersion: v1
clusters:
- cluster:
{fields}  name: default-cluster
contexts:
- context:
    cluster: default-cluster
    namespace: default
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
    client-certificate: {certificate}
    client-key: {certificate}
"
    )
}

#[cfg(test)]
mod tests {
    use kube::config::Kubeconfig;

    use super::*;

    #[test]
    fn it_has_the_kubelets_names_and_keeps_what_the_server_needs() {
        let cluster: Cluster = serde_json::from_value(json!({
            "server": "https://10.0.0.1:6443", "certificate-authority-data": "YWJj", "tls-server-name": "kubernetes",
        }))
        .unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etc/kubelet.conf");
        write(&path, &cluster, Path::new("/var/lib/kubelet/pki/kubelet-client-current.pem")).unwrap();
        let read = serde_json::to_value(Kubeconfig::read_from(&path).unwrap()).unwrap();
        let file = "/var/lib/kubelet/pki/kubelet-client-current.pem";
        assert_eq!(read["current-context"], "default-context");
        assert_eq!(
            read["contexts"],
            json!([{"name": "default-context", "context": {"cluster": "default-cluster", "namespace": "default", "user": "default-auth"}}])
        );
        assert_eq!(
            read["users"],
            json!([{"name": "default-auth", "user": {"client-certificate": file, "client-key": file}}])
        );
        assert_eq!(
            read["clusters"],
            json!([{"name": "default-cluster", "cluster": {
                "server": "https://10.0.0.1:6443", "certificate-authority-data": "YWJj", "tls-server-name": "kubernetes",
            }}])
        );
    }
}
