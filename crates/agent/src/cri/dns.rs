//! DNS configuration of a pod, by the rules of a kubelet.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;

use cri::DnsConfig;
use manifest::k8s_openapi::api::core::v1::PodDNSConfig;
use types::reason;

use crate::cri::resolv_conf::{self, set_option};
use crate::error::Result;
use crate::pod::context::PodContext;
use crate::pod::node_fields::NodeFields;
use crate::pod::parent::OomKill;

/// The limits of the API: of servers, of search domains, of the characters of all and of one.
const SERVERS: usize = 3;
const SEARCHES: usize = 32;
const SEARCH_LINE: usize = 2048;
const LONGEST_DOMAIN: usize = 253;

/// The options of a pod that asks the cluster's DNS first.
const CLUSTER_OPTIONS: &str = "ndots:5";
/// The domain of `wardlet run`, which is a cluster's by default.
const CLUSTER_DOMAIN: &str = "cluster.local";

/// What pods get that do not say it themselves. The default is that of a node without a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodDefaults {
    /// Where names are looked up on this node.
    pub dns: DnsSettings,
    /// Whether a container without a seccomp profile has that of the runtime, and not none.
    pub seccomp_default: bool,
    /// What the kernel kills when a container runs out of memory.
    pub oom_kill: OomKill,
    /// The node, as variables and files of pods tell of it.
    pub node: NodeFields,
}

/// Where names are looked up on this node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DnsSettings {
    /// The cluster's DNS; `None` without a cluster: pods have the node's.
    pub cluster: Option<ClusterDns>,
    /// The domain of the cluster; may be empty.
    pub domain: String,
    /// The node's resolv.conf; `None`: pods without cluster DNS look up nothing.
    pub resolv_conf: Option<PathBuf>,
}

/// The cluster's DNS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClusterDns {
    /// `clusterDNS`; may be empty.
    pub servers: Vec<IpAddr>,
    /// The node's own addresses.
    pub node_ips: Vec<IpAddr>,
}

impl Default for DnsSettings {
    /// Those of a node without a cluster.
    fn default() -> Self {
        Self {
            cluster: None,
            domain: CLUSTER_DOMAIN.to_owned(),
            resolv_conf: Some(PathBuf::from("/etc/resolv.conf")),
        }
    }
}

/// The configuration of a pod, and what to say about it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct PodDns {
    pub(crate) config: DnsConfig,
    pub(crate) problems: Vec<DnsProblem>,
}

/// What a pod asks for and does not get, as events say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DnsProblem {
    /// Too many servers; these are used.
    Servers(Vec<String>),
    /// Too many search domains, or too long ones; these are used.
    Searches(Vec<String>),
    /// The pod asks for the cluster's DNS, and the node knows none. The pod, as a kubelet writes it.
    NoClusterDns(String),
}

impl DnsProblem {
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Servers(_) | Self::Searches(_) => reason::DNS_CONFIG_FORMING,
            Self::NoClusterDns(_) => reason::MISSING_CLUSTER_DNS,
        }
    }
}

/// In the kubelet's words, which users search for.
impl fmt::Display for DnsProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Servers(used) => write!(
                f,
                "Nameserver limits were exceeded, some nameservers have been omitted, the applied nameserver line is: {}",
                used.join(" ")
            ),
            Self::Searches(used) => write!(
                f,
                "Search Line limits were exceeded, some search paths have been omitted, the applied search line is: {}",
                used.join(" ")
            ),
            Self::NoClusterDns(pod) => write!(
                f,
                "pod: {pod:?}. kubelet does not have ClusterDNS IP configured and cannot create Pod using \
                 \"ClusterFirst\" policy. Falling back to \"Default\" policy."
            ),
        }
    }
}

/// Whose configuration a pod begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Nothing,
    Cluster,
    Node,
}

impl Base {
    fn of(context: &PodContext) -> Self {
        match context.spec.dns_policy.as_deref() {
            Some("None") => Self::Nothing,
            Some("Default") => Self::Node,
            Some("ClusterFirstWithHostNet") => Self::Cluster,
            // The default of the API is ClusterFirst, which is for pods with a network of their own.
            _ if context.is_host_network() => Self::Node,
            _ => Self::Cluster,
        }
    }
}

impl DnsSettings {
    /// The DNS configuration by the pod's dnsPolicy and dnsConfig, within the limits of the API.
    ///
    /// # Errors
    /// If the node's resolv.conf cannot be read. A node without a cluster may have none.
    pub(crate) fn of_pod(&self, context: &PodContext) -> Result<PodDns> {
        let mut problems = Vec::new();
        let mut config = match (Base::of(context), &self.cluster) {
            (Base::Nothing, _) => DnsConfig::default(),
            (Base::Cluster, Some(cluster)) if !cluster.servers.is_empty() => {
                let mut searches = self.cluster_searches(&context.namespace);
                add(&mut searches, self.host()?.searches.iter());
                DnsConfig {
                    servers: cluster.servers.iter().map(ToString::to_string).collect(),
                    searches,
                    options: vec![CLUSTER_OPTIONS.to_owned()],
                }
            }
            (base, cluster) => {
                if base == Base::Cluster && cluster.is_some() {
                    let pod = format!("{}_{}({})", context.name, context.namespace, context.uid.as_str());
                    problems.push(DnsProblem::NoClusterDns(pod));
                }
                self.node()?
            }
        };
        if let Some(own) = &context.spec.dns_config {
            extend(&mut config, own);
        }
        limit(&mut config, &mut problems);
        Ok(PodDns { config, problems })
    }

    fn cluster_searches(&self, namespace: &str) -> Vec<String> {
        if self.domain.is_empty() {
            return Vec::new();
        }
        let domain = &self.domain;
        vec![format!("{namespace}.svc.{domain}"), format!("svc.{domain}"), domain.clone()]
    }

    /// What the node's file says.
    fn host(&self) -> Result<DnsConfig> {
        match (&self.resolv_conf, &self.cluster) {
            (Some(file), None) if !file.exists() => Ok(DnsConfig::default()),
            (Some(file), _) => resolv_conf::read(file),
            (None, _) => Ok(DnsConfig::default()),
        }
    }

    /// The configuration of the node, for its pods.
    fn node(&self) -> Result<DnsConfig> {
        if self.resolv_conf.is_some() {
            return self.host();
        }
        // With an empty configuration a runtime would give the pod that of the host.
        let ips = self.cluster.iter().flat_map(|cluster| &cluster.node_ips);
        let loopback = |ip: &IpAddr| if ip.is_ipv6() { "::1" } else { "127.0.0.1" }.to_owned();
        let servers: Vec<String> = ips.map(loopback).collect();
        let servers = if servers.is_empty() { vec!["127.0.0.1".to_owned()] } else { servers };
        Ok(DnsConfig { servers, searches: vec![".".to_owned()], options: Vec::new() })
    }
}

/// Adds what the pod itself asks for. Its options replace others of the same name.
fn extend(config: &mut DnsConfig, own: &PodDNSConfig) {
    add(&mut config.servers, own.nameservers.iter().flatten());
    add(&mut config.searches, own.searches.iter().flatten());
    for option in own.options.iter().flatten() {
        let name = option.name.clone().unwrap_or_default();
        let value = option.value.as_deref().filter(|value| !value.is_empty());
        let text = value.map_or_else(|| name.clone(), |value| format!("{name}:{value}"));
        set_option(&mut config.options, &text);
    }
}

/// Adds what is not there yet; what is there twice stays once.
fn add<'a>(list: &mut Vec<String>, more: impl Iterator<Item = &'a String>) {
    for one in std::mem::take(list).into_iter().chain(more.cloned()) {
        if !list.contains(&one) {
            list.push(one);
        }
    }
}

fn limit(config: &mut DnsConfig, problems: &mut Vec<DnsProblem>) {
    if config.servers.len() > SERVERS {
        config.servers.truncate(SERVERS);
        problems.push(DnsProblem::Servers(config.servers.clone()));
    }
    let searches = &mut config.searches;
    let before = searches.len();
    searches.truncate(SEARCHES);
    // glibc aborts on a longer one.
    searches.retain(|domain| domain.len() <= LONGEST_DOMAIN);
    while searches.join(" ").len() > SEARCH_LINE {
        searches.pop();
    }
    if searches.len() < before {
        problems.push(DnsProblem::Searches(searches.clone()));
    }
}

#[cfg(test)]
mod tests;
