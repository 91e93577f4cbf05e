//! What may be shown of messages that hold secrets.

use std::fmt;

use crate::v1::{AuthConfig, KeyValue};

/// An environment variable's value may be a secret of the pod.
impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}=<{} bytes>", self.key, self.value.len())
    }
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthConfig")
            .field("username", &self.username)
            .field("server_address", &self.server_address)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::{ContainerConfig, PullImageRequest};

    #[test]
    fn secrets_are_never_shown() {
        let auth = AuthConfig {
            username: "reader".into(),
            password: "hunter2".into(),
            auth: "hunter3".into(),
            identity_token: "hunter4".into(),
            registry_token: "hunter5".into(),
            ..AuthConfig::default()
        };
        let envs = vec![KeyValue { key: "TOKEN".into(), value: b"hunter6".to_vec() }];
        let shown = format!(
            "{:?} {:?}",
            PullImageRequest { auth: Some(auth), ..PullImageRequest::default() },
            ContainerConfig { envs, ..ContainerConfig::default() }
        );
        assert!(shown.contains("reader") && shown.contains("TOKEN=<7 bytes>"), "{shown}");
        assert!(!shown.contains("hunter"), "{shown}");
    }
}
