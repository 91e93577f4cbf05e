//! What objects are called.

use std::fmt;
use std::sync::Arc;

macro_rules! namespaced {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        // One text, because keys are compared all the time, and each text lies elsewhere in memory.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name {
            text: Arc<str>,
            /// Where the slash is between namespace and name.
            slash: usize,
        }

        impl $name {
            /// The one of this name in this namespace.
            pub fn new(namespace: impl AsRef<str>, name: impl AsRef<str>) -> Self {
                let (namespace, name) = (namespace.as_ref(), name.as_ref());
                Self { text: [namespace, "/", name].concat().into(), slash: namespace.len() }
            }

            /// Its namespace.
            #[must_use]
            pub fn namespace(&self) -> &str {
                self.text.get(..self.slash).unwrap_or_default()
            }

            /// Its name.
            #[must_use]
            pub fn name(&self) -> &str {
                self.text.get(self.slash + 1..).unwrap_or_default()
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.text, f)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.text)
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }
    };
}

namespaced! {
    /// A pod, or whatever stands for one: a workload's template has no pod yet and may be called
    /// `Deployment/web`.
    PodKey
}

namespaced! {
    /// A claim.
    ClaimKey
}

impl From<&ClaimKey> for ClaimKey {
    fn from(key: &ClaimKey) -> Self {
        key.clone()
    }
}

impl PodKey {
    /// The claim of this name in the pod's own namespace.
    pub(crate) fn claim(&self, name: &str) -> ClaimKey {
        ClaimKey::new(self.namespace(), name)
    }
}

/// What a volume is in the storage behind it, whichever objects name it: two persistent volumes with
/// the same driver and handle are one volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(Arc<str>);

impl VolumeId {
    /// A volume of this plugin, by what the plugin calls it. Plugins never share volumes.
    #[must_use]
    pub fn new(plugin: &str, name: &str) -> Self {
        Self(format!("{plugin}/{name}").into())
    }

    /// A volume of a CSI driver, written as Kubernetes writes it.
    #[must_use]
    pub fn csi(driver: &str, handle: &str) -> Self {
        Self(format!("kubernetes.io/csi/{driver}^{handle}").into())
    }

    /// Whether both are one text in memory: then they are equal, and it need not be looked at.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for VolumeId {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_its_namespace_and_its_name_whatever_slashes_they_have() {
        let key = PodKey::new("shop", "Deployment/web");
        assert_eq!((key.namespace(), key.name()), ("shop", "Deployment/web"));
        assert_eq!(key.to_string(), "shop/Deployment/web");
        assert_ne!(key, PodKey::new("shop/Deployment", "web"));
        let nameless = PodKey::new("", "");
        assert_eq!((nameless.namespace(), nameless.name()), ("", ""));
    }
}
