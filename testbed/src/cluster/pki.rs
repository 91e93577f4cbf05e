//! A certificate authority for one testbed, its certificates, and the kubeconfigs made of them.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType, date_time_ymd,
};

use super::addresses::{NODE_IP, NODE_NAME, SERVICE_IP};
use crate::{Error, Result};

/// The subject of a certificate.
struct Subject<'a> {
    /// The file's stem.
    file: &'a str,
    common_name: &'a str,
    organization: Option<&'a str>,
    /// Names and addresses it serves under; empty for a client.
    serves: &'static [&'static str],
    /// Where its kubeconfig finds the API server; none if it needs no kubeconfig.
    server: Option<&'static str>,
    validity: Validity,
}

/// Whether a certificate is valid now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// For as long as any testbed lives.
    Valid,
    /// It ended years ago.
    Expired,
}

/// A user of a testbed's cluster beside those that every testbed has.
#[derive(Debug, Clone, Copy)]
pub struct User<'a> {
    /// The stem of its files.
    pub file: &'a str,
    /// The name that the API server knows it by: `system:node:NAME`.
    pub common_name: &'a str,
    /// Its group: `system:nodes`.
    pub organization: Option<&'a str>,
    /// Whether its certificate is valid.
    pub validity: Validity,
}

const fn client<'a>(file: &'a str, common_name: &'a str) -> Subject<'a> {
    let (server, validity) = (Some(ADMIN_SERVER), Validity::Valid);
    Subject { file, common_name, organization: None, serves: &[], server, validity }
}

/// Nodes reach the API server by the node's address, all other clients by loopback: so a node can be cut off from the
/// API server while a test still reads from it.
const NODE_SERVER: &str = "https://10.240.0.10:6443";
const ADMIN_SERVER: &str = "https://127.0.0.1:6443";

const SUBJECTS: &[Subject<'static>] = &[
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

/// What the API server is to the API servers beside it, such as that of metrics: it tells them the users of requests.
const FRONT_PROXY: Subject<'static> =
    Subject { server: None, ..client("front-proxy-client", "front-proxy-client") };

/// Makes everything in `dir`.
pub(crate) fn make(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).map_err(Error::file("make", dir))?;
    let write = |name: String, text: &str| write(dir, name, text);
    let key = KeyPair::generate().map_err(Error::crypto("the authority's key"))?;
    let params = authority("testbed-ca")?;
    let certificate = params.self_signed(&key).map_err(Error::crypto("the authority"))?;
    write("ca.crt".into(), &certificate.pem())?;
    write("ca.key".into(), &key.serialize_pem())?;
    let issuer = Issuer::new(params, key);
    for subject in SUBJECTS {
        subject.write(dir, &issuer)?;
    }
    // An authority of its own: whatever it signs may name any user.
    let key = KeyPair::generate().map_err(Error::crypto("the front proxy's key"))?;
    let params = authority("testbed-front-proxy-ca")?;
    let certificate = params.self_signed(&key).map_err(Error::crypto("the front proxy's authority"))?;
    write("front-proxy-ca.crt".into(), &certificate.pem())?;
    FRONT_PROXY.write(dir, &Issuer::new(params, key))?;
    let account = KeyPair::generate().map_err(Error::crypto("the service-account key"))?;
    write("sa.key".into(), &account.serialize_pem())?;
    write("sa.pub".into(), &account.public_key_pem())
}

/// Makes a certificate and a kubeconfig for another user, in the `dir` that [`make`] has filled. Its server is the nodes'.
pub(crate) fn add(dir: &Path, user: &User<'_>) -> Result<PathBuf> {
    let path = dir.join("ca.key");
    let key = fs::read_to_string(&path).map_err(Error::file("read", &path))?;
    let key = KeyPair::from_pem(&key).map_err(Error::crypto("the authority's key"))?;
    let subject = Subject {
        organization: user.organization,
        server: Some(NODE_SERVER),
        validity: user.validity,
        ..client(user.file, user.common_name)
    };
    subject.write(dir, &Issuer::new(authority("testbed-ca")?, key))?;
    Ok(dir.join(format!("{}.kubeconfig", user.file)))
}

fn write(dir: &Path, name: String, text: &str) -> Result<()> {
    let path = dir.join(name);
    fs::write(&path, text).map_err(Error::file("write", path))
}

/// The parameters of a self-signed authority.
pub(crate) fn authority(name: &str) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new()).map_err(Error::crypto(name))?;
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

impl Subject<'_> {
    fn write(&self, dir: &Path, issuer: &Issuer<'_, KeyPair>) -> Result<()> {
        let key = KeyPair::generate().map_err(Error::crypto(self.file))?;
        let certificate = self.params()?.signed_by(&key, issuer).map_err(Error::crypto(self.file))?;
        write(dir, format!("{}.crt", self.file), &certificate.pem())?;
        write(dir, format!("{}.key", self.file), &key.serialize_pem())?;
        match self.server {
            Some(server) => {
                write(dir, format!("{}.kubeconfig", self.file), &kubeconfig(dir, self.file, server))
            }
            None => Ok(()),
        }
    }

    fn params(&self) -> Result<CertificateParams> {
        let mut params = CertificateParams::new(Vec::new()).map_err(Error::crypto(self.file))?;
        params.distinguished_name.push(DnType::CommonName, self.common_name);
        if let Some(organization) = self.organization {
            params.distinguished_name.push(DnType::OrganizationName, organization);
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        if self.validity == Validity::Expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        }
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
        assert_ne!(read("front-proxy-ca.crt"), read("ca.crt"));
        assert!(read("front-proxy-client.crt").contains("CERTIFICATE"));
        assert!(NODE_SERVER.contains(NODE_IP));
    }
}
