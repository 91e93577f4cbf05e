//! Names of resources.

/// Whether a resource is not one of Kubernetes' own, by its name: one of a device plugin or of an administrator.
#[must_use]
pub fn is_extended_resource(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extended_resource_has_a_domain_that_is_not_of_kubernetes() {
        assert!(is_extended_resource("example.com/gpu"));
        for own in
            ["cpu", "hugepages-2Mi", "kubernetes.io/x", "a.kubernetes.io/x", "requests.example.com/gpu"]
        {
            assert!(!is_extended_resource(own), "{own}");
        }
    }
}
