//! The configuration of credential providers: CredentialProviderConfig.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use types::{CredentialProvider, EnvironmentVariable, ProviderToken, TokenCache};

use super::GoDuration;
use super::validate_lists::is_qualified_name;

const GROUP: &str = "kubelet.config.k8s.io";
const KIND: &str = "CredentialProviderConfig";
const V1: &str = "credentialprovider.kubelet.k8s.io/v1";
const API_VERSIONS: [&str; 3] =
    [V1, "credentialprovider.kubelet.k8s.io/v1beta1", "credentialprovider.kubelet.k8s.io/v1alpha1"];

/// Why the configuration of credential providers cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CredentialProvidersError {
    /// A file or directory cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Unreadable {
        /// Its path.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
    /// A file is no CredentialProviderConfig.
    #[error("{}: {cause}", file.display())]
    Syntax {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A field cannot be used as it is.
    #[error("{}: {field}: {cause}", file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The field.
        field: String,
        /// What is wrong with it.
        cause: String,
    },
    /// Only one of two flags is set.
    #[error("--{set} is set, and --{missing} is not")]
    Alone {
        /// The one that is set.
        set: &'static str,
        /// The other one.
        missing: &'static str,
    },
}

impl CredentialProvidersError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Unreadable { .. } => {
                "name a file, or a directory with *.json, *.yaml or *.yml (--image-credential-provider-config), and the directory of the programs (--image-credential-provider-bin-dir)"
            }
            Self::Syntax { .. } => {
                "write one CredentialProviderConfig of kubelet.config.k8s.io/v1, each key once"
            }
            Self::Invalid { .. } => "see CredentialProviderConfig in the reference of Kubernetes",
            Self::Alone { .. } => "set both, or none",
        }
    }
}

/// Whether providers may get tokens of service accounts: the feature gate
/// `KubeletServiceAccountTokenForCredentialProviders`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenAttributes {
    /// They may.
    Allowed,
    /// A configuration that asks for them is refused.
    Refused,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Config {
    api_version: String,
    kind: String,
    #[serde(default)]
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Provider {
    name: String,
    #[serde(default)]
    match_images: Vec<String>,
    default_cache_duration: Option<GoDuration>,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
    token_attributes: Option<Token>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Variable {
    name: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Token {
    #[serde(default)]
    service_account_token_audience: String,
    #[serde(default)]
    cache_type: String,
    require_service_account: Option<bool>,
    #[serde(default)]
    required_service_account_annotation_keys: Vec<String>,
    #[serde(default)]
    optional_service_account_annotation_keys: Vec<String>,
}

/// Reads a file, or all files of a directory in lexical order. The program of each provider must be in `programs`.
///
/// # Errors
/// If a file or a program is missing, or a file cannot be used as it is.
pub fn read_credential_providers(
    path: &Path,
    programs: &Path,
    tokens: TokenAttributes,
) -> Result<Vec<CredentialProvider>, CredentialProvidersError> {
    let mut names = BTreeSet::new();
    let mut all = Vec::new();
    for file in files(path)? {
        let config = read(&file)?;
        if config.providers.is_empty() {
            return Err(invalid(&file, "providers", "at least one is needed"));
        }
        for provider in config.providers {
            if !names.insert(provider.name.clone()) {
                return Err(invalid(&file, "providers.name", &format!("{:?} is there twice", provider.name)));
            }
            let (name, checked) = (provider.name.clone(), checked(provider, programs, tokens));
            let checked = checked.map_err(|Wrong { field, cause }| {
                invalid(&file, &format!("providers[{name}].{field}"), &cause)
            })?;
            all.push(checked);
        }
    }
    Ok(all)
}

fn files(path: &Path) -> Result<Vec<PathBuf>, CredentialProvidersError> {
    let unreadable = |source| CredentialProvidersError::Unreadable { path: path.to_owned(), source };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        let ending = file.extension().and_then(|ending| ending.to_str());
        if ending.is_some_and(|ending| ["json", "yaml", "yml"].contains(&ending)) && !file.is_dir() {
            files.push(file);
        }
    }
    files.sort();
    if files.is_empty() {
        return Err(unreadable(io::Error::other("it has no file *.json, *.yaml or *.yml")));
    }
    Ok(files)
}

fn read(file: &Path) -> Result<Config, CredentialProvidersError> {
    let text = fs::read_to_string(file)
        .map_err(|source| CredentialProvidersError::Unreadable { path: file.to_owned(), source })?;
    let syntax = |cause: String| CredentialProvidersError::Syntax { file: file.to_owned(), cause };
    let config: Config = serde_saphyr::from_str(&text).map_err(|error| syntax(error.to_string()))?;
    let is_known = ["v1", "v1beta1", "v1alpha1"]
        .iter()
        .any(|version| config.api_version == format!("{GROUP}/{version}"));
    if config.kind != KIND || !is_known {
        let cause = format!("it is a {} of {}, not a {KIND} of {GROUP}/v1", config.kind, config.api_version);
        return Err(syntax(cause));
    }
    Ok(config)
}

fn invalid(file: &Path, field: &str, cause: &str) -> CredentialProvidersError {
    let (field, cause) = (field.to_owned(), cause.to_owned());
    CredentialProvidersError::Invalid { file: file.to_owned(), field, cause }
}

/// A field of a provider that cannot be used.
struct Wrong {
    field: &'static str,
    cause: String,
}

fn wrong(field: &'static str, cause: impl Into<String>) -> Wrong {
    Wrong { field, cause: cause.into() }
}

fn checked(
    provider: Provider,
    programs: &Path,
    tokens: TokenAttributes,
) -> Result<CredentialProvider, Wrong> {
    let Provider { name, match_images, default_cache_duration, api_version, args, env, token_attributes } =
        provider;
    if name.is_empty() || name.contains(['/', ' ']) || [".", ".."].contains(&name.as_str()) {
        return Err(wrong("name", format!("{name:?} is no name of a program")));
    }
    if !API_VERSIONS.contains(&api_version.as_str()) {
        let known = API_VERSIONS.join(", ");
        return Err(wrong("apiVersion", format!("it is {api_version:?}, and none of {known}")));
    }
    if match_images.is_empty() {
        return Err(wrong("matchImages", "at least one is needed"));
    }
    if let Some(bad) =
        match_images.iter().find(|image| image.contains("://") || image.contains(' ') || image.is_empty())
    {
        return Err(wrong("matchImages", format!("{bad:?} is no host with a path")));
    }
    let duration = default_cache_duration.ok_or_else(|| wrong("defaultCacheDuration", "it is not set"))?;
    if duration.nanoseconds() < 0 {
        return Err(wrong("defaultCacheDuration", "it is negative"));
    }
    let token = token_attributes.map(|token| checked_token(token, &api_version, tokens)).transpose()?;
    let program = programs.join(&name);
    let is_program =
        fs::metadata(&program).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0);
    if !is_program {
        return Err(wrong("name", format!("{} is no executable file", program.display())));
    }
    let env = env.unwrap_or_default().into_iter();
    Ok(CredentialProvider {
        name,
        program,
        api_version,
        match_images,
        default_cache_duration: duration.to_std(),
        args: args.unwrap_or_default(),
        env: env.map(|Variable { name, value }| EnvironmentVariable { name, value }).collect(),
        token,
    })
}

fn checked_token(token: Token, api_version: &str, allowed: TokenAttributes) -> Result<ProviderToken, Wrong> {
    let Token {
        service_account_token_audience: audience,
        cache_type,
        require_service_account,
        required_service_account_annotation_keys: required_annotations,
        optional_service_account_annotation_keys: optional_annotations,
    } = token;
    if allowed == TokenAttributes::Refused {
        let cause = "the feature gate KubeletServiceAccountTokenForCredentialProviders is off";
        return Err(wrong("tokenAttributes", cause));
    }
    if api_version != V1 {
        return Err(wrong("tokenAttributes", format!("apiVersion is not {V1}")));
    }
    if audience.is_empty() {
        return Err(wrong("tokenAttributes.serviceAccountTokenAudience", "it is not set"));
    }
    let cache = match cache_type.as_str() {
        "ServiceAccount" => TokenCache::ServiceAccount,
        "Token" => TokenCache::Token,
        other => {
            let cause = format!("it is {other:?}, and neither ServiceAccount nor Token");
            return Err(wrong("tokenAttributes.cacheType", cause));
        }
    };
    let is_account_required = require_service_account
        .ok_or_else(|| wrong("tokenAttributes.requireServiceAccount", "it is not set"))?;
    if !is_account_required && !required_annotations.is_empty() {
        let cause = "requireServiceAccount is false";
        return Err(wrong("tokenAttributes.requiredServiceAccountAnnotationKeys", cause));
    }
    let mut seen = BTreeSet::new();
    for key in required_annotations.iter().chain(&optional_annotations) {
        if !is_qualified_name(&key.to_lowercase()) {
            return Err(wrong("tokenAttributes", format!("{key:?} is no key of an annotation")));
        }
        if !seen.insert(key) {
            return Err(wrong("tokenAttributes", format!("the annotation {key:?} is there twice")));
        }
    }
    Ok(ProviderToken { audience, cache, is_account_required, required_annotations, optional_annotations })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    struct Files(tempfile::TempDir);

    impl Files {
        fn new() -> Self {
            let files = Self(tempfile::tempdir().unwrap());
            for name in ["ecr", "acr"] {
                fs::write(files.path(name), "").unwrap();
                fs::set_permissions(files.path(name), fs::Permissions::from_mode(0o755)).unwrap();
            }
            files
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn read(&self, text: &str) -> Result<Vec<CredentialProvider>, String> {
            fs::write(self.path("config"), text).unwrap();
            let read =
                read_credential_providers(&self.path("config"), self.0.path(), TokenAttributes::Allowed);
            read.map_err(|error| error.to_string())
        }
    }

    fn config(provider: &str) -> String {
        format!(
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- {provider}\n"
        )
    }

    const ECR: &str = "{name: ecr, matchImages: ['*.dkr.ecr.*.amazonaws.com'], defaultCacheDuration: 12h, \
        apiVersion: credentialprovider.kubelet.k8s.io/v1";

    #[test]
    fn a_configuration_as_clouds_write_it_is_read() {
        let files = Files::new();
        let found = files
            .read(&config(&format!(
                "{ECR}, args: [get-credentials], env: [{{name: AWS_PROFILE, value: x}}]}}"
            )))
            .unwrap();
        assert_eq!((found[0].name.as_str(), &found[0].args), ("ecr", &vec!["get-credentials".to_owned()]));
        assert_eq!(found[0].default_cache_duration, Duration::from_secs(12 * 3600));
        assert_eq!(found[0].program, files.path("ecr"));
        let token = "tokenAttributes: {serviceAccountTokenAudience: reg, cacheType: Token, requireServiceAccount: true, \
            requiredServiceAccountAnnotationKeys: [a.example/Role]}";
        let found = files.read(&config(&format!("{ECR}, {token}}}"))).unwrap();
        let token = found[0].token.clone().unwrap();
        assert_eq!(
            (token.audience.as_str(), token.cache, token.is_account_required),
            ("reg", TokenCache::Token, true)
        );
    }

    #[test]
    fn the_files_of_a_directory_are_one_configuration() {
        let files = Files::new();
        let dir = files.path("conf");
        fs::create_dir(&dir).unwrap();
        let read = || {
            let read = read_credential_providers(&dir, files.0.path(), TokenAttributes::Allowed);
            read.map(|all| all.into_iter().map(|one| one.name).collect::<Vec<_>>()).map_err(|e| e.to_string())
        };
        assert!(read().unwrap_err().contains("no file *.json"));
        let acr = ECR.replace("ecr, match", "acr, match");
        fs::write(dir.join("2.yaml"), config(&format!("{ECR}}}"))).unwrap();
        fs::write(dir.join("1.yml"), config(&format!("{acr}}}"))).unwrap();
        fs::write(dir.join("3.txt"), "{").unwrap();
        assert_eq!(read().unwrap(), ["acr", "ecr"]);
        fs::write(dir.join("4.json"), config(&format!("{ECR}}}"))).unwrap();
        assert!(read().unwrap_err().ends_with("4.json: providers.name: \"ecr\" is there twice"));
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_field() {
        let files = Files::new();
        let token = "tokenAttributes: {serviceAccountTokenAudience: reg, cacheType: Token, requireServiceAccount: true}";
        let with = |from: &str, to: &str| config(&format!("{ECR}, {token}}}").replace(from, to));
        for (text, expected) in [
            (config(&format!("{ECR}, more: 1}}")), "more"),
            (with("kubelet.config.k8s.io/v1", "kubelet.config.k8s.io/v1"), ""),
            (with("name: ecr", "name: absent"), "providers[absent].name: "),
            (with("name: ecr", "name: ../ecr"), "is no name of a program"),
            (
                with("apiVersion: credentialprovider.kubelet.k8s.io/v1", "apiVersion: v1"),
                "providers[ecr].apiVersion: it is \"v1\"",
            ),
            (with("['*.dkr.ecr.*.amazonaws.com']", "[]"), "providers[ecr].matchImages: at least one"),
            (with("'*.dkr.ecr.*.amazonaws.com'", "'https://a'"), "is no host with a path"),
            (with("defaultCacheDuration: 12h, ", ""), "providers[ecr].defaultCacheDuration: it is not set"),
            (with("12h", "-1s"), "it is negative"),
            (with("cacheType: Token", "cacheType: Pod"), "tokenAttributes.cacheType: it is \"Pod\""),
            (with("serviceAccountTokenAudience: reg, ", ""), "serviceAccountTokenAudience: it is not set"),
            (with(", requireServiceAccount: true", ""), "requireServiceAccount: it is not set"),
            (with("k8s.io/v1,", "k8s.io/v1beta1,"), "providers[ecr].tokenAttributes: apiVersion is not"),
        ] {
            match files.read(&text) {
                Ok(_) => assert_eq!(expected, "", "{text}"),
                Err(error) => assert!(!expected.is_empty() && error.contains(expected), "{error}\n{text}"),
            }
        }
        fs::write(files.path("config"), config(&format!("{ECR}, {token}}}"))).unwrap();
        let off = read_credential_providers(&files.path("config"), files.0.path(), TokenAttributes::Refused);
        assert!(
            off.unwrap_err()
                .to_string()
                .contains("feature gate KubeletServiceAccountTokenForCredentialProviders is off")
        );
    }
}
