use std::collections::BTreeMap;

/// A user of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its UID; empty if it has none.
    pub uid: String,
    /// Its groups.
    pub groups: Vec<String>,
    /// What the authenticator adds, such as the ID of the credentials.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// The user of a request without credentials.
    #[must_use]
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
            ..Self::default()
        }
    }

    /// The same user in the group of all users with valid credentials.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        const GROUP: &str = "system:authenticated";
        if !self.groups.iter().any(|group| group == GROUP) {
            self.groups.push(GROUP.to_owned());
        }
        self
    }
}
