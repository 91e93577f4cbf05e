//! Whether a pod must prove that it may use an image that is on the node: imagePullCredentialsVerificationPolicy.

use types::{ImageName, ImagePattern};

/// Which images a pod may use without a proof.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CredentialVerification {
    /// All that are on the node.
    NeverVerify,
    /// Those that the node did not pull.
    #[default]
    NeverVerifyPreloadedImages,
    /// Those of these repositories.
    NeverVerifyAllowlistedImages(Vec<ImagePattern>),
    /// None.
    AlwaysVerify,
}

impl CredentialVerification {
    /// Whether it goes by the names of images.
    pub(crate) fn is_of_names(&self) -> bool {
        matches!(self, Self::NeverVerifyAllowlistedImages(_))
    }

    /// Whether a pod that names this image must prove that it may use it.
    pub(crate) fn is_required(&self, name: &ImageName, origin: ImageOrigin) -> bool {
        match self {
            Self::NeverVerify => false,
            Self::NeverVerifyPreloadedImages => origin == ImageOrigin::Pulled,
            Self::NeverVerifyAllowlistedImages(allowed) => {
                !allowed.iter().any(|images| images.holds(name.repository()))
            }
            Self::AlwaysVerify => true,
        }
    }
}

/// How an image came to the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ImageOrigin {
    /// The node pulled it, or may have.
    Pulled,
    /// In another way: imported, for example.
    Preloaded,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_policy_has_other_images_that_need_no_proof() {
        let allowed = ["quay.io/open/*", "quay.io/one"].map(|text| ImagePattern::parse(text).unwrap());
        let listed = CredentialVerification::NeverVerifyAllowlistedImages(allowed.to_vec());
        let preloaded = CredentialVerification::default();
        for (policy, image, origin, expected) in [
            (&CredentialVerification::NeverVerify, "quay.io/x", ImageOrigin::Pulled, false),
            (&preloaded, "quay.io/x", ImageOrigin::Pulled, true),
            (&preloaded, "quay.io/x", ImageOrigin::Preloaded, false),
            (&listed, "quay.io/open/x:1", ImageOrigin::Pulled, false),
            (&listed, "quay.io/one:2", ImageOrigin::Preloaded, false),
            (&listed, "quay.io/ones", ImageOrigin::Preloaded, true),
            (&listed, "quay.io/open", ImageOrigin::Preloaded, true),
            (&CredentialVerification::AlwaysVerify, "quay.io/x", ImageOrigin::Preloaded, true),
        ] {
            let name = ImageName::parse(image).unwrap();
            assert_eq!(policy.is_required(&name, origin), expected, "{policy:?} {image} {origin:?}");
        }
    }
}
