//! Which pods may use an image that is on the node. The node remembers the credentials that each image was pulled with: a
//! pod with none of them must pull the image itself, so that the registry decides.
//!
//! An intent is on disk before a pull begins, and the record before the intent is removed. If the node stops in between,
//! the intent says that the image may have come from a registry, and a pod must prove that it may use it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cri::Image;
use types::ImageName;

use crate::error::Result;
use crate::images::credential::{Credential, CredentialSource};
use crate::images::records::{Found, ImagePulledRecord, PullCredentials, PullRecords, PullSecret};
use crate::images::verification::{CredentialVerification, ImageOrigin};
use crate::ports::Clock;

/// A record with so many secrets does not grow by what only matches it.
const MOST_SECRETS: usize = 100;

/// Where records of image pulls are, and when they count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageRecords {
    /// The directory: `image_manager` in that of the kubelet.
    pub dir: PathBuf,
    /// Which images pods may use without a proof.
    pub verification: CredentialVerification,
}

/// Decides which pods may use an image.
pub(crate) struct ImageAccess {
    records: PullRecords,
    verification: CredentialVerification,
    clock: Arc<dyn Clock>,
    /// The images that are being pulled, by the names that pods give them, and how often. Those that were being pulled when
    /// the node stopped, or when their pod was stopped, are never removed: the runtime may have them one day.
    intents: Mutex<BTreeMap<String, u32>>,
}

/// What must be done with an image that is on the node before a pod may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing.
    Allowed,
    /// The pod must pull it with its own credentials.
    Pull,
}

impl ImageAccess {
    /// # Errors
    /// If the records cannot be read.
    pub(crate) fn open(records: ImageRecords, clock: Arc<dyn Clock>) -> Result<Self> {
        let ImageRecords { dir, verification } = records;
        let records = PullRecords::open(&dir)?;
        let left = records.intents()?.into_iter().map(|image| (image, 1)).collect();
        Ok(Self { records, verification, clock, intents: Mutex::new(left) })
    }

    /// Records that an image is about to be pulled. Each call is followed by one of [`pulled`](Self::pulled) or
    /// [`failed`](Self::failed), or by neither if the pull was cancelled.
    ///
    /// # Errors
    /// If it cannot be recorded: the image must not be pulled then.
    pub(crate) fn intend(&self, image: &str) -> Result<()> {
        let mut intents = self.intents();
        if !intents.contains_key(image) {
            self.records.write_intent(image)?;
        }
        *intents.entry(image.to_owned()).or_default() += 1;
        Ok(())
    }

    /// Records that the image was pulled, and with what; `None` for no credentials.
    ///
    /// # Errors
    /// If it cannot be recorded. The intent is kept then: pods must prove that they may use the image.
    pub(crate) fn pulled(&self, name: &ImageName, id: &str, credential: Option<&Credential>) -> Result<()> {
        let mut intents = self.intents();
        let (source, hash) = match credential {
            Some(credential) => (credential.source.clone(), credential.hash.as_str()),
            None => (CredentialSource::Node, ""),
        };
        self.add(id, Some(Proof { repository: name.repository(), source: &source, hash }))?;
        self.end(&mut intents, &name.to_string())
    }

    /// Notes that the pull has failed.
    ///
    /// # Errors
    /// If the intent cannot be removed; it does no harm.
    pub(crate) fn failed(&self, image: &str) -> Result<()> {
        self.end(&mut self.intents(), image)
    }

    /// The images that were being pulled when the node stopped.
    pub(crate) fn unsettled(&self) -> Vec<String> {
        self.intents().keys().cloned().collect()
    }

    /// Turns the intent of an image that the runtime has into a record that allows no pod to use it without a proof.
    ///
    /// # Errors
    /// If that cannot be recorded. The intent is kept then.
    pub(crate) fn settle(&self, image: &str, id: &str) -> Result<()> {
        let mut intents = self.intents();
        self.add(id, None)?;
        self.end(&mut intents, image)
    }

    /// Whether a pod with these credentials may use an image that is on the node, under the name that it gives it.
    pub(crate) fn verdict(&self, name: &ImageName, image: &Image, credentials: &[Credential]) -> Verdict {
        let intents = self.intents();
        let found = self.records.pulled(&image.id);
        let origin = match found {
            Found::Nothing if !is_intended(&intents, name, image) => ImageOrigin::Preloaded,
            _ => ImageOrigin::Pulled,
        };
        if !self.verification.is_required(name, origin) && self.is_named_so(name, image) {
            return Verdict::Allowed;
        }
        let Found::Record(record) = found else { return Verdict::Pull };
        let Some(known) = record.credential_mapping.get(name.repository()) else { return Verdict::Pull };
        let Some(proof) = matching(known, credentials) else { return Verdict::Pull };
        // A secret that matches in one way is to match in the other one, too: it may be changed or replaced.
        if let Some(credential) = proof
            && known.kubernetes_secrets.len() < MOST_SECRETS
        {
            let Credential { source, hash, .. } = credential;
            let proof = Proof { repository: name.repository(), source, hash };
            if let Err(error) = self.add(&image.id, Some(proof)) {
                tracing::warn!("the record of image {name} is not renewed: {error}");
            }
        }
        Verdict::Allowed
    }

    /// Whether the image is of the repository that the pod names, as far as that counts: an ID has the form of a name, too,
    /// and a list of repositories allows no image by its ID.
    fn is_named_so(&self, name: &ImageName, image: &Image) -> bool {
        let of_image = image.repo_tags.iter().chain(&image.repo_digests);
        !self.verification.is_of_names()
            || of_image
                .filter_map(|text| ImageName::parse(text).ok())
                .any(|known| known.repository() == name.repository())
    }

    fn add(&self, id: &str, proof: Option<Proof<'_>>) -> Result<()> {
        let (mut record, mut is_new) = match self.records.pulled(id) {
            Found::Record(record) => (record, false),
            Found::Nothing | Found::Unreadable => (ImagePulledRecord::new(id), true),
        };
        if let Some(proof) = proof {
            is_new |= record.add(proof.repository, proof.source, proof.hash);
        }
        if is_new { self.records.write_pulled(record, self.clock.now().millis() / 1000) } else { Ok(()) }
    }

    fn end(&self, intents: &mut BTreeMap<String, u32>, image: &str) -> Result<()> {
        match intents.get_mut(image) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                self.records.remove_intent(image)?;
                intents.remove(image);
            }
        }
        Ok(())
    }

    fn intents(&self) -> MutexGuard<'_, BTreeMap<String, u32>> {
        self.intents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a pod was proven to be allowed to use an image with.
struct Proof<'a> {
    repository: &'a str,
    source: &'a CredentialSource,
    hash: &'a str,
}

/// Whether the image may be one that is being pulled, under whichever of its names.
fn is_intended(intents: &BTreeMap<String, u32>, name: &ImageName, image: &Image) -> bool {
    let of_image = image.repo_tags.iter().chain(&image.repo_digests);
    let names: Vec<ImageName> = of_image.filter_map(|text| ImageName::parse(text).ok()).collect();
    intents.keys().any(|intent| match ImageName::parse(intent) {
        Ok(intent) => intent.is_same(name) || names.iter().any(|name| name.is_same(&intent)),
        // No pull begins with such a name.
        Err(_) => false,
    })
}

/// Whether one of the credentials is known; if so, and if the record is to be renewed by it, which one.
fn matching<'a>(known: &PullCredentials, credentials: &'a [Credential]) -> Option<Option<&'a Credential>> {
    if known.node_pods_accessible {
        return Some(None);
    }
    credentials.iter().find_map(|credential| match &credential.source {
        CredentialSource::Node => None,
        CredentialSource::Secret(secret) => {
            let own = PullSecret::new(secret, &credential.hash);
            let mut secrets = known.kubernetes_secrets.iter();
            // Without a hash, and without a UID, nothing is the same.
            let is_hash = |secret: &PullSecret| {
                !secret.credential_hash.is_empty() && secret.credential_hash == own.credential_hash
            };
            let is_object = |secret: &PullSecret| !own.uid.is_empty() && secret.is_same_object(&own);
            secrets
                .find(|secret| is_hash(secret) || is_object(secret))
                .map(|secret| (!is_hash(secret) || !is_object(secret)).then_some(credential))
        }
        CredentialSource::ServiceAccount(account) => {
            known.kubernetes_service_accounts.contains(account).then_some(None)
        }
    })
}

#[cfg(test)]
mod tests {
    use types::DockerAuth;

    use super::*;
    use crate::images::credential::{AccountRef, SecretRef};
    use crate::ports::SystemClock;

    struct Node {
        dir: tempfile::TempDir,
        access: ImageAccess,
    }

    impl Node {
        fn new(verification: CredentialVerification) -> Self {
            let dir = tempfile::tempdir().unwrap();
            let access = Self::open(&dir, verification);
            Self { dir, access }
        }

        fn open(dir: &tempfile::TempDir, verification: CredentialVerification) -> ImageAccess {
            let records = ImageRecords { dir: dir.path().to_owned(), verification };
            ImageAccess::open(records, Arc::new(SystemClock)).unwrap()
        }

        /// The node after a restart.
        fn restarted(self) -> Self {
            let access = Self::open(&self.dir, CredentialVerification::default());
            Self { access, ..self }
        }

        fn pulls(&self, text: &str, credential: Option<&Credential>) {
            self.access.intend(text).unwrap();
            self.access.pulled(&name(text), "sha256:1", credential).unwrap();
        }

        fn verdict(&self, text: &str, credentials: &[Credential]) -> Verdict {
            self.access.verdict(&name(text), &image(), credentials)
        }

        fn intents(&self) -> usize {
            std::fs::read_dir(self.dir.path().join("pulling")).unwrap().count()
        }
    }

    fn name(text: &str) -> ImageName {
        ImageName::parse(text).unwrap()
    }

    fn image() -> Image {
        Image { id: "sha256:1".into(), repo_tags: vec!["quay.io/a:1".into()], ..Image::default() }
    }

    fn of_secret(namespace: &str, uid: &str, password: &str) -> Credential {
        let secret = SecretRef { namespace: namespace.into(), name: "pull".into(), uid: uid.into() };
        let entry = DockerAuth { username: "u".into(), password: password.into(), ..DockerAuth::default() };
        Credential::new(&entry, CredentialSource::Secret(secret))
    }

    #[test]
    fn an_image_that_was_pulled_with_a_secret_is_for_pods_that_have_the_secret() {
        let node = Node::new(CredentialVerification::default());
        node.pulls("quay.io/a:1", Some(&of_secret("shop", "u-1", "p")));
        assert_eq!(node.intents(), 0);
        // Another tenant, without and with other credentials, under each name that the image has.
        for image in ["quay.io/a:1", "quay.io/b:1", "sha256:1111"] {
            assert_eq!(node.verdict(image, &[]), Verdict::Pull, "{image}");
            assert_eq!(node.verdict(image, &[of_secret("evil", "u-2", "q")]), Verdict::Pull, "{image}");
        }
        // A secret of the same name in another namespace, and one that was created anew with another password.
        assert_eq!(node.verdict("quay.io/a:1", &[of_secret("evil", "u-1", "q")]), Verdict::Pull);
        assert_eq!(node.verdict("quay.io/a:1", &[of_secret("shop", "u-3", "q")]), Verdict::Pull);
        // The secret itself, the same credential in another namespace, and the secret with a new password.
        assert_eq!(node.verdict("quay.io/a:2", &[of_secret("shop", "u-1", "p")]), Verdict::Allowed);
        assert_eq!(node.verdict("quay.io/a:1", &[of_secret("other", "u-9", "p")]), Verdict::Allowed);
        assert_eq!(node.verdict("quay.io/a:1", &[of_secret("shop", "u-1", "new")]), Verdict::Allowed);
        // Only for its own repository.
        assert_eq!(node.verdict("quay.io/b:1", &[of_secret("shop", "u-1", "p")]), Verdict::Pull);
        let node = node.restarted();
        assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Pull);
        assert_eq!(node.verdict("quay.io/a:1", &[of_secret("else", "u-7", "new")]), Verdict::Allowed);
    }

    #[test]
    fn secrets_without_a_uid_are_the_same_only_if_their_credentials_are() {
        let node = Node::new(CredentialVerification::default());
        node.pulls("quay.io/a:1", Some(&of_secret("shop", "", "p")));
        assert_eq!(node.verdict("quay.io/a:1", &[of_secret("shop", "", "q")]), Verdict::Pull);
        assert_eq!(node.verdict("quay.io/a:1", &[of_secret("shop", "", "p")]), Verdict::Allowed);
    }

    #[test]
    fn an_image_that_was_pulled_without_credentials_or_with_the_nodes_is_for_all_pods() {
        for credential in [None, Some(Credential::new(&DockerAuth::default(), CredentialSource::Node))] {
            let node = Node::new(CredentialVerification::default());
            node.pulls("quay.io/a:1", Some(&of_secret("shop", "u-1", "p")));
            assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Pull);
            node.pulls("quay.io/a:1", credential.as_ref());
            assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Allowed);
        }
    }

    #[test]
    fn an_image_that_was_pulled_for_a_service_account_is_for_its_pods() {
        let of = |uid: &str| {
            let account = AccountRef { namespace: "shop".into(), name: "robot".into(), uid: uid.into() };
            Credential::new(&DockerAuth::default(), CredentialSource::ServiceAccount(account))
        };
        let node = Node::new(CredentialVerification::default());
        node.pulls("quay.io/a:1", Some(&of("u-1")));
        assert_eq!(node.verdict("quay.io/a:1", &[of("u-1")]), Verdict::Allowed);
        assert_eq!(node.verdict("quay.io/a:1", &[of("u-2")]), Verdict::Pull);
        assert_eq!(node.verdict("quay.io/a:1", &[of_secret("shop", "u-1", "")]), Verdict::Pull);
    }

    #[test]
    fn an_image_that_the_node_did_not_pull_is_for_all_pods_unless_the_policy_says_otherwise() {
        assert_eq!(
            Node::new(CredentialVerification::default()).verdict("quay.io/a:1", &[]),
            Verdict::Allowed
        );
        assert_eq!(
            Node::new(CredentialVerification::AlwaysVerify).verdict("quay.io/a:1", &[]),
            Verdict::Pull
        );
        let node = Node::new(CredentialVerification::NeverVerify);
        node.pulls("quay.io/a:1", Some(&of_secret("shop", "u-1", "p")));
        assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Allowed);
    }

    /// The runtime has the image before the record is written: the agent may be killed in between.
    #[test]
    fn an_image_whose_pull_was_not_recorded_to_the_end_counts_as_pulled() {
        let node = Node::new(CredentialVerification::default());
        node.access.intend("quay.io/a:1").unwrap();
        assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Pull);
        let node = node.restarted();
        let own = of_secret("shop", "u-1", "p");
        for image in ["quay.io/a:1", "quay.io/a", "quay.io/b", "sha256:1111"] {
            assert_eq!(node.verdict(image, std::slice::from_ref(&own)), Verdict::Pull, "{image}");
        }
        assert_eq!(node.access.unsettled(), ["quay.io/a:1"]);
        node.access.settle("quay.io/a:1", "sha256:1").unwrap();
        assert_eq!(
            (node.intents(), node.verdict("quay.io/a:1", std::slice::from_ref(&own))),
            (0, Verdict::Pull)
        );
        let node = node.restarted();
        assert_eq!(node.verdict("quay.io/a:1", std::slice::from_ref(&own)), Verdict::Pull);
        node.pulls("quay.io/a:1", Some(&own));
        assert_eq!(node.verdict("quay.io/a:1", &[own]), Verdict::Allowed);
    }

    /// A pod with a short name pulled the image: the runtime lists it under the long one.
    /// An ID has the form of a name of Docker Hub, so that a list with `docker.io/library/*` allowed every image by its ID.
    #[test]
    fn a_list_of_repositories_allows_no_image_by_its_id() {
        let allowed = vec![types::ImagePattern::parse("docker.io/library/*").unwrap()];
        let node = Node::new(CredentialVerification::NeverVerifyAllowlistedImages(allowed));
        assert_eq!(node.verdict(&format!("sha256:{}", "a".repeat(64)), &[]), Verdict::Pull);
    }

    #[test]
    fn an_intent_holds_for_every_way_to_write_the_name() {
        let node = Node::new(CredentialVerification::default());
        node.access.intend("busybox").unwrap();
        let tags = vec!["docker.io/library/busybox:latest".to_owned()];
        let image = Image { id: "sha256:2".into(), repo_tags: tags, ..Image::default() };
        for text in ["busybox:latest", "docker.io/library/busybox", "quay.io/x"] {
            assert_eq!(node.access.verdict(&name(text), &image, &[]), Verdict::Pull, "{text}");
        }
    }

    #[test]
    fn an_intent_is_removed_with_the_last_pull_unless_one_was_cancelled() {
        let node = Node::new(CredentialVerification::default());
        node.access.intend("quay.io/a:1").unwrap();
        node.access.intend("quay.io/a:1").unwrap();
        node.access.failed("quay.io/a:1").unwrap();
        assert_eq!((node.intents(), node.verdict("quay.io/a:1", &[])), (1, Verdict::Pull));
        node.access.failed("quay.io/a:1").unwrap();
        assert_eq!((node.intents(), node.verdict("quay.io/a:1", &[])), (0, Verdict::Allowed));
        // Cancelled: neither a success nor a failure.
        node.access.intend("quay.io/a:1").unwrap();
        node.access.intend("quay.io/a:1").unwrap();
        node.access.failed("quay.io/a:1").unwrap();
        assert_eq!((node.intents(), node.verdict("quay.io/a:1", &[])), (1, Verdict::Pull));
    }

    #[test]
    fn an_image_whose_intent_cannot_be_written_must_not_be_pulled() {
        let node = Node::new(CredentialVerification::default());
        std::fs::remove_dir(node.dir.path().join("pulling")).unwrap();
        assert!(node.access.intend("quay.io/a:1").is_err());
        assert!(node.access.unsettled().is_empty());
    }
}
