//! A certificate authority for one testbed, its certificates, and the kubeconfigs made of them.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};

use super::addresses::{NODE_IP, NODE_NAME, SERVICE_IP};
use crate::{Error, Result};

/// The subject of a certificate.
struct Subject {
    /// The file's stem.
    file: &'static str,
    common_name: &'static str,
    organization: Option<&'static str>,
    /// Names and addresses it serves under; empty for a client.
    serves: &'static [&'static str],
    /// Where its kubeconfig finds the API server; none if it needs no kubeconfig.
    server: Option<&'static str>,
}

const fn client(file: &'static str, common_name: &'static str) -> Subject {
    Subject { file, common_name, organization: None, serves: &[], server: Some(ADMIN_SERVER) }
}

/// Nodes reach the API server by the node's address, all other clients by loopback: so a node can be cut off from the
/// API server while a test still reads from it.
const NODE_SERVER: &str = "https://10.240.0.10:6443";
const ADMIN_SERVER: &str = "https://127.0.0.1:6443";

const SUBJECTS: &[Subject] = &[
    Subject {
        serves: &[
            "127.0.0.1",
            SERVICE_IP,
            NODE_IP,
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
        ],
        server: None,
        ..client("apiserver", "kube-apiserver")
    },
    Subject {
        organization: Some("system:masters"),
        server: None,
        ..client("apiserver-kubelet", "kube-apiserver-kubelet-client")
    },
    Subject { organization: Some("system:masters"), ..client("admin", "admin") },
    client("controller-manager", "system:kube-controller-manager"),
    client("scheduler", "system:kube-scheduler"),
    Subject {
        organization: Some("system:nodes"),
        server: Some(NODE_SERVER),
        ..client("kubelet", "system:node:node0")
    },
    Subject { serves: &[NODE_IP, NODE_NAME], server: None, ..client("kubelet-serving", "system:node:node0") },
];

/// Makes everything in `dir`.
pub(crate) fn make(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
    let write = |name: String, text: &str| {
        let path = dir.join(name);
        fs::write(&path, text).map_err(Error::file("write", path))
    };
    let key = KeyPair::generate().map_err(Error::crypto("the authority's key"))?;
    let params = authority("testbed-ca")?;
    let certificate = params.self_signed(&key).map_err(Error::crypto("the authority"))?;
    write("ca.crt".into(), &certificate.pem())?;
    write("ca.key".into(), &key.serialize_pem())?;
    let issuer = Issuer::new(params, key);
    for subject in SUBJECTS {
        let key = KeyPair::generate().map_err(Error::crypto(subject.file))?;
        let certificate = subject.params()?.signed_by(&key, &issuer).map_err(Error::crypto(subject.file))?;
        write(format!("{}.crt", subject.file), &certificate.pem())?;
        write(format!("{}.key", subject.file), &key.serialize_pem())?;
        if let Some(server) = subject.server {
            write(format!("{}.kubeconfig", subject.file), &kubeconfig(dir, subject.file, server))?;
        }
    }
    let account = KeyPair::generate().map_err(Error::crypto("the service-account key"))?;
    write("sa.key".into(), &account.serialize_pem())?;
    write("sa.pub".into(), &account.public_key_pem())
}

/// The parameters of a self-signed authority.
pub(crate) fn authority(name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new()).map_err(Error::crypto(name))?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

impl Subject {
    fn params(&self) -> Result<CertificateParams> {
        let mut params = CertificateParams::new(Vec::new()).map_err(Error::crypto(self.file))?;
        params.distinguished_name.push(DnType::CommonName, self.common_name);
        if let Some(organization) = self.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let usage = if self.serves.is_empty() {
            ExtendedKeyUsagePurpose::ClientAuth
        } else {
            ExtendedKeyUsagePurpose::ServerAuth
        };
        params.extended_key_usages = vec![usage];
        for &name in self.serves {
            params.subject_alt_names.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(name.try_into().map_err(Error::crypto(self.file))?),
            });
        }
        Ok(params)
    }
}

/// A kubeconfig that names files, so that a renewed certificate is found.
fn kubeconfig(dir: &Path, user: &str, server: &str) -> String {
    let dir = dir.display();
    format!(
        "apiVersion: v1
kind: Config
clusters: [{{name: testbed, cluster: {{server: \"{server}\", certificate-authority: {dir}/ca.crt}}}}]
users: [{{name: {user}, user: {{client-certificate: {dir}/{user}.crt, client-key: {dir}/{user}.key}}}}]
contexts: [{{name: testbed, context: {{cluster: testbed, user: {user}}}}}]
current-context: testbed
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_gets_a_certificate_and_nodes_their_own_way_to_the_server() {
        let dir = tempfile::tempdir().expect("a directory");
        make(dir.path()).expect("certificates");
        let read = |name: &str| fs::read_to_string(dir.path().join(name)).expect(name);
        assert!(read("kubelet.kubeconfig").contains(NODE_SERVER));
        assert!(read("admin.kubeconfig").contains(ADMIN_SERVER));
        assert!(read("sa.pub").contains("PUBLIC KEY"));
        assert!(NODE_SERVER.contains(NODE_IP));
    }
}
