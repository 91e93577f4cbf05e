//! What a pod is called in its UTS namespace and on its network.

use manifest::k8s_openapi::api::core::v1::PodSpec;

use crate::error::{Error, Result};

/// The longest name that is made from a pod's.
const LONGEST_LABEL: usize = 63;
/// The kernel's longest.
const LONGEST: usize = 64;
/// The cluster domain of pods with a subdomain: the default of clusters.
const CLUSTER: &str = "cluster.local";

/// A pod's host name, by the rules of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hostname {
    /// The name without its domain.
    pub host: String,
    /// The domain that the pod is in, if it is in one.
    pub domain: Option<String>,
}

impl Hostname {
    /// What the spec says, else the pod's name, cut to the length of a DNS label. The cluster has the default domain.
    #[must_use]
    pub fn new(spec: &PodSpec, namespace: &str, name: &str) -> Self {
        Self::in_cluster(spec, namespace, name, CLUSTER)
    }

    /// The same in a cluster of this domain.
    #[must_use]
    pub fn in_cluster(spec: &PodSpec, namespace: &str, name: &str, cluster: &str) -> Self {
        let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        if let Some(host) = given(&spec.hostname_override) {
            return Self { host, domain: None };
        }
        let host = given(&spec.hostname).unwrap_or_else(|| {
            let short: String = name.chars().take(LONGEST_LABEL).collect();
            short.trim_end_matches(['-', '.']).to_owned()
        });
        let domain = given(&spec.subdomain).map(|sub| format!("{sub}.{namespace}.svc.{cluster}"));
        Self { host, domain }
    }

    /// The name with its domain.
    #[must_use]
    pub fn full(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{}.{domain}", self.host),
            None => self.host.clone(),
        }
    }

    /// The name that the pod's UTS namespace gets.
    #[must_use]
    pub fn for_kernel(&self, spec: &PodSpec) -> String {
        if spec.set_hostname_as_fqdn == Some(true) { self.full() } else { self.host.clone() }
    }
}

/// # Errors
/// If the kernel does not take the name that the pod asks for.
pub(crate) fn check(spec: &PodSpec, namespace: &str, name: &str) -> Result<()> {
    let name = Hostname::new(spec, namespace, name).for_kernel(spec);
    if name.len() <= LONGEST {
        return Ok(());
    }
    let cause = format!("{name:?} has {} characters, and the kernel takes {LONGEST}", name.len());
    Err(Error::Unfit {
        field: "spec.setHostnameAsFQDN".to_owned(),
        cause,
        hint: "shorten hostname or subdomain",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(spec: &str) -> (String, String, String) {
        let spec: PodSpec = serde_json::from_str(&format!(r#"{{"containers":[]{spec}}}"#)).unwrap();
        let named = Hostname::new(&spec, "shop", "web-0");
        (named.for_kernel(&spec), named.host.clone(), named.full())
    }

    #[test]
    fn a_pod_is_called_as_kubernetes_calls_it() {
        let same = |text: &str| (text.to_owned(), text.to_owned(), text.to_owned());
        assert_eq!(named(""), same("web-0"));
        assert_eq!(named(r#","hostname":"db""#), same("db"));
        assert_eq!(named(r#","hostnameOverride":"db.example.com","subdomain":"x""#), same("db.example.com"));
        let full = "db.back.shop.svc.cluster.local";
        let sub = r#","hostname":"db","subdomain":"back""#;
        assert_eq!(named(sub), ("db".into(), "db".into(), full.into()));
        let whole = format!(r#"{sub},"setHostnameAsFQDN":true"#);
        assert_eq!(named(&whole), (full.into(), "db".into(), full.into()));
    }

    #[test]
    fn a_name_that_the_kernel_does_not_take_is_refused_and_a_pods_own_is_cut() {
        let long = "a".repeat(62) + "-b-c";
        let text = r#"{"containers":[],"subdomain":"back","setHostnameAsFQDN":true}"#;
        let spec: PodSpec = serde_json::from_str(text).unwrap();
        assert!(check(&spec, "shop", "web").is_ok());
        let error = check(&spec, "shop", &long).unwrap_err().to_string();
        assert!(error.contains("spec.setHostnameAsFQDN") && error.contains("the kernel takes 64"), "{error}");
        assert_eq!(Hostname::new(&PodSpec::default(), "shop", &long).host, "a".repeat(62));
    }
}
