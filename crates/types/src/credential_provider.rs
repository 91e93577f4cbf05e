use std::path::PathBuf;
use std::time::Duration;

/// A plugin that knows credentials of registries: a program that is asked for those of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialProvider {
    /// Its name, which is that of its program.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// The version of the protocol, such as `credentialprovider.kubelet.k8s.io/v1`.
    pub api_version: String,
    /// The images that it is asked about.
    pub match_images: Vec<String>,
    /// How long an answer is kept that does not say it itself; zero: not at all.
    pub default_cache_duration: Duration,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Variables that the program gets beside those of the agent.
    pub env: Vec<EnvironmentVariable>,
    /// The service account's token that it gets; `None`: none.
    pub token: Option<ProviderToken>,
}

/// A variable of the environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvironmentVariable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Which token of the pod's service account a credential provider gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderToken {
    /// The audience that the token is for.
    pub audience: String,
    /// For which pods an answer is kept.
    pub cache: TokenCache,
    /// Whether the plugin is asked only for pods that have a service account.
    pub is_account_required: bool,
    /// Annotations that the service account must have; they are given to the plugin.
    pub required_annotations: Vec<String>,
    /// Annotations that are given to the plugin if the service account has them.
    pub optional_annotations: Vec<String>,
}

/// For which pods the answer of a credential provider that gets tokens is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenCache {
    /// For those of the same service account.
    ServiceAccount,
    /// For those with the same token: for one pod.
    Token,
}
