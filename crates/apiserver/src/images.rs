//! How images are pulled, by the kubelet's configuration.

use ::node::kubelet::{
    CredentialProvidersError, CredentialsVerificationPolicy, KubeletConfig, NodeFlags, TokenAttributes,
    read_credential_providers,
};
use agent::{CredentialVerification, ImageOptions, ImageRecords, PullLimits};
use types::{CredentialProvider, ImagePattern};

const RECORDS: &str = "image_manager";
const CONFIG: &str = "image-credential-provider-config";
const BIN_DIR: &str = "image-credential-provider-bin-dir";

/// Limits, records and credential providers of a node.
///
/// # Errors
/// If the configuration of the credential providers cannot be used.
pub(crate) fn options(
    config: &KubeletConfig,
    flags: &NodeFlags,
) -> Result<ImageOptions, CredentialProvidersError> {
    let limits = PullLimits {
        at_once: if config.serialize_image_pulls { Some(1) } else { config.max_parallel_image_pulls },
        per_second: config.registry_pull_qps,
        burst: config.registry_burst,
    };
    let is_recorded = config.is_gate_on("KubeletEnsureSecretPulledImages");
    let records = is_recorded
        .then(|| ImageRecords { dir: flags.root_dir.join(RECORDS), verification: verification(config) });
    let root_dir = Some(flags.root_dir.clone());
    Ok(ImageOptions { limits, records, root_dir, providers: providers(config, flags)? })
}

fn verification(config: &KubeletConfig) -> CredentialVerification {
    match config.image_pull_credentials_verification_policy {
        CredentialsVerificationPolicy::NeverVerify => CredentialVerification::NeverVerify,
        CredentialsVerificationPolicy::NeverVerifyPreloadedImages => {
            CredentialVerification::NeverVerifyPreloadedImages
        }
        CredentialsVerificationPolicy::NeverVerifyAllowlistedImages => {
            // What is no pattern was refused with the configuration.
            let patterns = config.preloaded_images_verification_allowlist.iter();
            let patterns = patterns.filter_map(|text| ImagePattern::parse(text).ok());
            CredentialVerification::NeverVerifyAllowlistedImages(patterns.collect())
        }
        CredentialsVerificationPolicy::AlwaysVerify => CredentialVerification::AlwaysVerify,
    }
}

fn providers(
    config: &KubeletConfig,
    flags: &NodeFlags,
) -> Result<Vec<CredentialProvider>, CredentialProvidersError> {
    let alone = |set, missing| Err(CredentialProvidersError::Alone { set, missing });
    match (&flags.image_credential_provider_config, &flags.image_credential_provider_bin_dir) {
        (None, None) => Ok(Vec::new()),
        (Some(_), None) => alone(CONFIG, BIN_DIR),
        (None, Some(_)) => alone(BIN_DIR, CONFIG),
        (Some(file), Some(programs)) => {
            let tokens = match config.is_gate_on("KubeletServiceAccountTokenForCredentialProviders") {
                true => TokenAttributes::Allowed,
                false => TokenAttributes::Refused,
            };
            read_credential_providers(file, programs, tokens)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use ::node::kubelet::KubeletFlags;

    use super::*;

    fn of(fields: &str, flags: &[&str]) -> Result<ImageOptions, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("config.yaml");
        let kind = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
        std::fs::write(&file, format!("{kind}{fields}")).unwrap();
        let flags: Vec<String> = flags.iter().map(|&flag| flag.to_owned()).collect();
        let flags = KubeletFlags::parse(&flags).unwrap();
        let config = KubeletConfig::load(Some(&file), None, &flags).unwrap().config;
        options(&config, &flags.node).map_err(|error| error.to_string())
    }

    #[test]
    fn images_are_pulled_one_after_the_other_unless_the_node_is_configured_otherwise() {
        let plain = of("", &[]).unwrap();
        assert_eq!(plain.limits, PullLimits { at_once: Some(1), per_second: 5, burst: 10 });
        let at_once = |fields: &str| of(fields, &[]).unwrap().limits.at_once;
        assert_eq!(at_once("serializeImagePulls: false\n"), None);
        assert_eq!(at_once("serializeImagePulls: false\nmaxParallelImagePulls: 4\n"), Some(4));
        assert_eq!(at_once("maxParallelImagePulls: 1\n"), Some(1));
        assert_eq!(of("registryPullQPS: 0\n", &[]).unwrap().limits.per_second, 0);
    }

    #[test]
    fn private_images_are_protected_unless_the_feature_is_off() {
        let records = |fields: &str| of(fields, &["--root-dir=/srv/kubelet"]).unwrap().records;
        let plain = records("").unwrap();
        assert_eq!(plain.dir, PathBuf::from("/srv/kubelet/image_manager"));
        assert_eq!(plain.verification, CredentialVerification::NeverVerifyPreloadedImages);
        assert!(records("featureGates: {KubeletEnsureSecretPulledImages: false}\n").is_none());
        let policy = "imagePullCredentialsVerificationPolicy";
        let listed = format!(
            "{policy}: NeverVerifyAllowlistedImages\npreloadedImagesVerificationAllowlist: [quay.io/a/*]\n"
        );
        let patterns = vec![ImagePattern::parse("quay.io/a/*").unwrap()];
        let expected = CredentialVerification::NeverVerifyAllowlistedImages(patterns);
        assert_eq!(records(&listed).unwrap().verification, expected);
        let always = records(&format!("{policy}: AlwaysVerify\n")).unwrap().verification;
        assert_eq!(always, CredentialVerification::AlwaysVerify);
    }

    #[test]
    fn one_flag_of_credential_providers_without_the_other_is_refused() {
        let error = of("", &["--image-credential-provider-config=/c"]).unwrap_err();
        assert_eq!(
            error,
            "--image-credential-provider-config is set, and --image-credential-provider-bin-dir is not"
        );
        assert!(of("", &["--image-credential-provider-bin-dir=/b"]).unwrap_err().contains("-config is not"));
    }
}
