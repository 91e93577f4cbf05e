//! What a pod is called on its network.

use manifest::k8s_openapi::api::core::v1::PodSpec;

use crate::error::{Error, Result};
use crate::ward::Ward;

/// The longest name that is made from a pod's.
const LONGEST_LABEL: usize = 63;
/// The kernel's longest.
const LONGEST: usize = 64;
/// What pods with a subdomain are called in: the name that clusters have unless they are told another.
const CLUSTER: &str = "cluster.local";

/// A pod's name and the domain that it is in, if it is in one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) host: String,
    pub(crate) domain: Option<String>,
}

impl Named {
    pub(crate) fn of(ward: &Ward) -> Self {
        Self::new(&ward.spec, (&ward.namespace, &ward.name))
    }

    /// By its own word, else by the pod's name as far as a name can be long.
    pub(crate) fn new(spec: &PodSpec, (namespace, name): (&str, &str)) -> Self {
        let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
        if let Some(host) = given(&spec.hostname_override) {
            return Self { host, domain: None };
        }
        let host = given(&spec.hostname).unwrap_or_else(|| {
            let short: String = name.chars().take(LONGEST_LABEL).collect();
            short.trim_end_matches(['-', '.']).to_owned()
        });
        let domain = given(&spec.subdomain).map(|sub| format!("{sub}.{namespace}.svc.{CLUSTER}"));
        Self { host, domain }
    }

    /// With its domain.
    pub(crate) fn full(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{}.{domain}", self.host),
            None => self.host.clone(),
        }
    }

    /// What the kernel is told.
    pub(crate) fn for_kernel(&self, spec: &PodSpec) -> String {
        if spec.set_hostname_as_fqdn == Some(true) { self.full() } else { self.host.clone() }
    }
}

/// # Errors
/// If the kernel does not take the name that the pod asks for.
pub(crate) fn check(spec: &PodSpec, pod: (&str, &str)) -> Result<()> {
    let name = Named::new(spec, pod).for_kernel(spec);
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
        let named = Named::new(&spec, ("shop", "web-0"));
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
        assert!(check(&spec, ("shop", "web")).is_ok());
        let error = check(&spec, ("shop", &long)).unwrap_err().to_string();
        assert!(error.contains("spec.setHostnameAsFQDN") && error.contains("the kernel takes 64"), "{error}");
        assert_eq!(Named::new(&PodSpec::default(), ("shop", &long)).host, "a".repeat(62));
    }
}
