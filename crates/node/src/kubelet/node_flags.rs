use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::GoDuration;
use super::flag::NodeFlag;
use super::validate_lists::{is_label_value, is_qualified_name};
use super::view::Why;

/// Labels of Kubernetes that a node may set on itself.
const OWN_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
/// Prefixes of labels of Kubernetes that a node may set on itself.
const OWN_PREFIXES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// Flags of the node itself, which no configuration that nodes share can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFlags {
    /// The configuration file.
    pub config: Option<PathBuf>,
    /// The directory of drop-ins.
    pub config_dir: Option<PathBuf>,
    /// How to reach the API server; nothing: only static pods run.
    pub kubeconfig: Option<PathBuf>,
    /// How to get a client certificate where `kubeconfig` has none.
    pub bootstrap_kubeconfig: Option<PathBuf>,
    /// Where certificates are kept.
    pub cert_dir: PathBuf,
    /// The kubelet's directory.
    pub root_dir: PathBuf,
    /// The node's name, where it is not the host's.
    pub hostname_override: Option<String>,
    /// The node's addresses: none, one, or one of each family. An unspecified one chooses the family only.
    pub node_ips: Vec<IpAddr>,
    /// Labels that the node is registered with.
    pub node_labels: BTreeMap<String, String>,
    /// Whether a cloud controller completes the node.
    pub has_external_cloud_provider: bool,
    /// The configuration of credential providers: a file, or a directory of files.
    pub image_credential_provider_config: Option<PathBuf>,
    /// The directory of their programs.
    pub image_credential_provider_bin_dir: Option<PathBuf>,
    /// How long every container that has ended is kept.
    pub minimum_container_ttl: Duration,
    /// How many instances of a container are kept that ended before its newest one; `None`: all.
    pub maximum_dead_per_container: Option<u32>,
    /// How many ended instances of containers are kept in all; `None`: no limit.
    pub maximum_dead: Option<u32>,
}

impl Default for NodeFlags {
    fn default() -> Self {
        Self {
            config: None,
            config_dir: None,
            kubeconfig: None,
            bootstrap_kubeconfig: None,
            cert_dir: PathBuf::from("/var/lib/kubelet/pki"),
            root_dir: PathBuf::from("/var/lib/kubelet"),
            hostname_override: None,
            node_ips: Vec::new(),
            node_labels: BTreeMap::new(),
            has_external_cloud_provider: false,
            image_credential_provider_config: None,
            image_credential_provider_bin_dir: None,
            minimum_container_ttl: Duration::ZERO,
            maximum_dead_per_container: Some(1),
            maximum_dead: None,
        }
    }
}

impl NodeFlags {
    pub(super) fn set(&mut self, flag: NodeFlag, text: &str) -> Result<(), Why> {
        let path = || Some(PathBuf::from(text)).filter(|path| !path.as_os_str().is_empty());
        match flag {
            NodeFlag::Config => self.config = path(),
            NodeFlag::ConfigDir => self.config_dir = path(),
            NodeFlag::Kubeconfig => self.kubeconfig = path(),
            NodeFlag::BootstrapKubeconfig => self.bootstrap_kubeconfig = path(),
            NodeFlag::CertDir => self.cert_dir = directory(text)?,
            NodeFlag::ImageCredentialProviderConfig => self.image_credential_provider_config = path(),
            NodeFlag::ImageCredentialProviderBinDir => self.image_credential_provider_bin_dir = path(),
            NodeFlag::RootDir => self.root_dir = directory(text)?,
            NodeFlag::HostnameOverride => {
                self.hostname_override = Some(text.trim().to_lowercase()).filter(|name| !name.is_empty());
            }
            NodeFlag::MinimumContainerTtl => self.minimum_container_ttl = duration(text)?,
            NodeFlag::MaximumDeadPerContainer => self.maximum_dead_per_container = limit(text)?,
            NodeFlag::MaximumDead => self.maximum_dead = limit(text)?,
            NodeFlag::NodeIp => self.node_ips = node_ips(text)?,
            NodeFlag::NodeLabels => self.node_labels.extend(labels(text)?),
            NodeFlag::CloudProvider => {
                self.has_external_cloud_provider = match text {
                    "" => false,
                    "external" => true,
                    _ => {
                        let cause = format!("there is no cloud provider {text:?} in Kubernetes 1.37");
                        return Err(Why::new(cause, "use external, and run the provider's controller"));
                    }
                };
            }
        }
        Ok(())
    }
}

fn duration(text: &str) -> Result<Duration, Why> {
    let wrong = || Why::new(format!("{text:?} is no duration"), "write it as 300ms, 10s or 2h45m");
    text.parse::<GoDuration>().map(GoDuration::to_std).map_err(|_| wrong())
}

/// A number; a negative one is no limit.
fn limit(text: &str) -> Result<Option<u32>, Why> {
    let wrong = |_| Why::new(format!("{text:?} is no whole number"), "use a number, or -1 for no limit");
    text.parse::<i32>().map(|number| u32::try_from(number).ok()).map_err(wrong)
}

fn directory(text: &str) -> Result<PathBuf, Why> {
    let path = PathBuf::from(text);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Why::new(format!("{text:?} is no absolute path"), "begin with /"))
}

fn node_ips(text: &str) -> Result<Vec<IpAddr>, Why> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let parse = |word: &str| {
        let wrong =
            |_| Why::new(format!("{word:?} is no IP address"), "use an address, or one of each family");
        word.parse().map_err(wrong)
    };
    let found = words.map(parse).collect::<Result<Vec<IpAddr>, Why>>()?;
    match found.as_slice() {
        [] | [_] => Ok(found),
        [one, two] if one.is_ipv4() != two.is_ipv4() && !one.is_unspecified() && !two.is_unspecified() => {
            Ok(found)
        }
        _ => Err(Why::new(
            "it is not one address of each family",
            "use one address, or an IPv4 and an IPv6 address",
        )),
    }
}

fn labels(text: &str) -> Result<BTreeMap<String, String>, Why> {
    let label = |word: &str| {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let (key, value) = (key.trim(), value.trim());
        if !is_qualified_name(key) || !is_label_value(value) {
            return Err(Why::new(format!("{word:?} is no label"), "write KEY=VALUE, separated by commas"));
        }
        if is_of_kubernetes(key) && !may_set(key) {
            let hint = format!(
                "use a prefix of your own, or {}, or one of {}",
                OWN_PREFIXES.join(", "),
                OWN_LABELS.join(", ")
            );
            return Err(Why::new(format!("a node may not label itself with {key}"), hint));
        }
        Ok((key.to_owned(), value.to_owned()))
    };
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(label).collect()
}

fn is_of_kubernetes(key: &str) -> bool {
    key.split_once('/')
        .is_some_and(|(prefix, _)| is_below(prefix, "kubernetes.io") || is_below(prefix, "k8s.io"))
}

fn may_set(key: &str) -> bool {
    let prefix = key.split_once('/').map_or("", |(prefix, _)| prefix);
    OWN_LABELS.contains(&key) || OWN_PREFIXES.iter().any(|own| is_below(prefix, own))
}

fn is_below(domain: &str, parent: &str) -> bool {
    domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}
