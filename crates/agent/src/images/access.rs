//! Which pods may use an image that is on the node. The node remembers the credentials that each image was pulled with: a
//! pod with none of them must pull the image itself, so that the registry decides.
//!
//! An intent is on disk before a pull begins, and the record before the intent is removed. If the node stops in between,
//! the intent says that the image may have come from a registry, and a pod must prove that it may use it. That does not go
//! for the image that the node had under this name before: no pull has brought it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cri::Image;
use lifecycle::Moment;
use types::ImageName;

use crate::error::Result;
use crate::images::credential::{Credential, CredentialSource};
use crate::images::records::{Found, ImagePulledRecord, PullCredentials, PullRecords, PullSecret};
use crate::images::verification::{CredentialVerification, ImageOrigin};
use crate::ports::Clock;

/// A record with so many secrets does not grow by what only matches it.
const MOST_SECRETS: usize = 100;
/// How long after a pull whose end is not known the runtime may still come to have the image. The agent has broken the call off,
/// or its connection has ended: a runtime notices that within seconds.
const PATIENCE: Duration = Duration::from_secs(600);

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
    /// The images that are being pulled, by the names that pods give them.
    intents: Mutex<Intents>,
}

type Intents = BTreeMap<String, Pulling>;

/// Pulls of one name.
#[derive(Debug, Default)]
struct Pulling {
    /// How many are under way.
    under_way: u32,
    /// The runtime's ID of the image that the node had under this name before the first of them.
    present: Option<String>,
    /// When the last one ended whose end is not known: it was broken off, or the node stopped.
    lost: Option<Moment>,
}

/// How a pull ended that was not recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PullEnd {
    /// The runtime does not have the image by it.
    Failed,
    /// The runtime may have the image, or get it yet.
    Unknown,
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
        let lost = Some(clock.now());
        let left = records
            .intents()?
            .into_iter()
            .map(|intent| (intent.image, Pulling { under_way: 0, present: intent.present, lost }));
        Ok(Self { records, verification, clock, intents: Mutex::new(left.collect()) })
    }

    /// Records that an image is about to be pulled, and the ID of the one that the node has under this name. Each call is
    /// followed by one of [`pulled`](Self::pulled) and [`ended`](Self::ended).
    ///
    /// # Errors
    /// If it cannot be recorded: the image must not be pulled then.
    pub(crate) fn intend(&self, image: &str, present: Option<String>) -> Result<()> {
        let mut intents = self.intents();
        // What is present now may come from another pull that is under way, or from one whose end is not known.
        if !intents.contains_key(image) {
            self.records.write_intent(image, present.as_deref())?;
            intents.insert(image.to_owned(), Pulling { present, ..Pulling::default() });
        }
        intents.entry(image.to_owned()).or_default().under_way += 1;
        Ok(())
    }

    /// Records that the image was pulled, and with what; `None` for no credentials.
    ///
    /// # Errors
    /// If it cannot be recorded. The intent is kept then: pods must prove that they may use the image.
    pub(crate) fn pulled(
        &self,
        name: &ImageName,
        image: &Image,
        credential: Option<&Credential>,
    ) -> Result<()> {
        let mut intents = self.intents();
        if self.is_preloaded(&intents, name, image) {
            return self.end(&mut intents, &name.to_string(), PullEnd::Failed);
        }
        let (source, hash) = match credential {
            Some(credential) => (credential.source.clone(), credential.hash.as_str()),
            None => (CredentialSource::Node, ""),
        };
        let added = self.add(&image.id, Some(Proof { repository: name.repository(), source: &source, hash }));
        let end = if added.is_ok() { PullEnd::Failed } else { PullEnd::Unknown };
        added.and(self.end(&mut intents, &name.to_string(), end))
    }

    /// Whether the node had an image before this pull of it, and all pods may use it: one pod's credentials must not take it from
    /// the others.
    fn is_preloaded(&self, intents: &Intents, name: &ImageName, image: &Image) -> bool {
        let pulling = intents.get(&name.to_string());
        self.verification == CredentialVerification::NeverVerifyPreloadedImages
            && pulling.is_some_and(|pulling| pulling.present.as_ref() == Some(&image.id))
            && !is_intended(intents, name, image)
            && self.records.pulled(&image.id) == Found::Nothing
    }

    /// Notes that the pull has ended without a record.
    ///
    /// # Errors
    /// If the intent cannot be removed.
    pub(crate) fn ended(&self, image: &str, end: PullEnd) -> Result<()> {
        self.end(&mut self.intents(), image, end)
    }

    /// The images of pulls whose end is not known, and of which none is under way.
    pub(crate) fn unsettled(&self) -> Vec<String> {
        self.unsettled_since(None)
    }

    /// Those of them that the runtime no longer gets: they are to be settled.
    pub(crate) fn overdue(&self) -> Vec<String> {
        self.unsettled_since(Some(self.clock.now()))
    }

    fn unsettled_since(&self, now: Option<Moment>) -> Vec<String> {
        let is_due = |at: Moment| now.is_none_or(|now| is_overdue(at, now));
        let intents = self.intents();
        let due =
            intents.iter().filter(|(_, pulling)| pulling.under_way == 0 && pulling.lost.is_some_and(is_due));
        due.map(|(image, _)| image.clone()).collect()
    }

    /// Removes the intent of a pull whose end was not known. `found` is the ID of the image that the runtime has under this
    /// name: unless the node had it before the pull, no pod may use it without a proof, and a record says so. If the pull has
    /// brought no image, the intent stays for as long as it may yet.
    ///
    /// # Errors
    /// If that cannot be recorded. The intent is kept then.
    pub(crate) fn settle(&self, image: &str, found: Option<&str>) -> Result<()> {
        let mut intents = self.intents();
        let Some(pulling) = intents.get(image).filter(|pulling| pulling.under_way == 0) else {
            return Ok(());
        };
        match found.filter(|id| pulling.present.as_deref() != Some(*id)) {
            Some(id) => self.add(id, None)?,
            None if pulling.lost.is_none_or(|at| is_overdue(at, self.clock.now())) => {}
            None => return Ok(()),
        }
        self.records.remove_intent(image)?;
        intents.remove(image);
        Ok(())
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
        !self.verification.is_of_names()
            || names_of(image).any(|known| known.repository() == name.repository())
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

    fn end(&self, intents: &mut Intents, image: &str, end: PullEnd) -> Result<()> {
        let Some(pulling) = intents.get_mut(image) else { return Ok(()) };
        pulling.under_way = pulling.under_way.saturating_sub(1);
        if end == PullEnd::Unknown {
            pulling.lost = Some(self.clock.now());
        }
        if pulling.under_way == 0 && pulling.lost.is_none() {
            // One that cannot be removed is settled later.
            pulling.lost = Some(self.clock.now());
            self.records.remove_intent(image)?;
            intents.remove(image);
        }
        Ok(())
    }

    fn intents(&self) -> MutexGuard<'_, Intents> {
        self.intents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_overdue(lost: Moment, now: Moment) -> bool {
    now.since(lost) >= PATIENCE
}

/// What a pod was proven to be allowed to use an image with.
struct Proof<'a> {
    repository: &'a str,
    source: &'a CredentialSource,
    hash: &'a str,
}

/// The names under which the runtime has the image.
fn names_of(image: &Image) -> impl Iterator<Item = ImageName> {
    image.repo_tags.iter().chain(&image.repo_digests).filter_map(|text| ImageName::parse(text).ok())
}

/// Whether the image may be one that is being pulled, under whichever of its names.
fn is_intended(intents: &Intents, name: &ImageName, image: &Image) -> bool {
    let names: Vec<ImageName> = names_of(image).collect();
    let others = intents.iter().filter(|(_, pulling)| pulling.present.as_ref() != Some(&image.id));
    others.map(|(intent, _)| intent).any(|intent| match ImageName::parse(intent) {
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
    use std::sync::atomic::{AtomicU64, Ordering};

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
            self.access.intend(text, None).unwrap();
            self.access.pulled(&name(text), &image(), credential).unwrap();
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
        node.access.intend("quay.io/a:1", None).unwrap();
        assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Pull);
        let node = node.restarted();
        let own = of_secret("shop", "u-1", "p");
        for image in ["quay.io/a:1", "quay.io/a", "quay.io/b", "sha256:1111"] {
            assert_eq!(node.verdict(image, std::slice::from_ref(&own)), Verdict::Pull, "{image}");
        }
        assert_eq!(node.access.unsettled(), ["quay.io/a:1"]);
        node.access.settle("quay.io/a:1", Some("sha256:1")).unwrap();
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
        node.access.intend("busybox", None).unwrap();
        let tags = vec!["docker.io/library/busybox:latest".to_owned()];
        let image = Image { id: "sha256:2".into(), repo_tags: tags, ..Image::default() };
        for text in ["busybox:latest", "docker.io/library/busybox", "quay.io/x"] {
            assert_eq!(node.access.verdict(&name(text), &image, &[]), Verdict::Pull, "{text}");
        }
    }

    #[test]
    fn an_intent_is_removed_with_the_last_pull_unless_the_end_of_one_is_not_known() {
        let node = Node::new(CredentialVerification::default());
        let end = |end: PullEnd| node.access.ended("quay.io/a:1", end).unwrap();
        let begin = || node.access.intend("quay.io/a:1", None).unwrap();
        begin();
        begin();
        end(PullEnd::Failed);
        assert_eq!((node.intents(), node.verdict("quay.io/a:1", &[])), (1, Verdict::Pull));
        end(PullEnd::Failed);
        assert_eq!((node.intents(), node.verdict("quay.io/a:1", &[])), (0, Verdict::Allowed));
        begin();
        begin();
        end(PullEnd::Unknown);
        end(PullEnd::Failed);
        assert_eq!((node.intents(), node.verdict("quay.io/a:1", &[])), (1, Verdict::Pull));
        assert_eq!(node.access.unsettled(), ["quay.io/a:1"]);
    }

    /// A tenant that named a preloaded image in a pod which it then deleted made it unusable for all others.
    #[test]
    fn an_image_that_the_node_had_before_a_pull_of_its_name_stays_preloaded() {
        let node = Node::new(CredentialVerification::default());
        let present = || Some("sha256:1".to_owned());
        node.access.intend("quay.io/a:1", present()).unwrap();
        assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Allowed);
        // What the pull brings is another image. A second pull of the name does not find it there before.
        let other = Image { id: "sha256:2".into(), ..image() };
        assert_eq!(node.access.verdict(&name("quay.io/a:1"), &other, &[]), Verdict::Pull);
        node.access.intend("quay.io/a:1", Some("sha256:2".to_owned())).unwrap();
        assert_eq!(node.access.verdict(&name("quay.io/a:1"), &other, &[]), Verdict::Pull);
        node.access.ended("quay.io/a:1", PullEnd::Unknown).unwrap();
        node.access.ended("quay.io/a:1", PullEnd::Unknown).unwrap();
        // Nor does a restart make it an image that was pulled.
        let node = node.restarted();
        assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Allowed);
        assert_eq!(node.access.verdict(&name("quay.io/a:1"), &other, &[]), Verdict::Pull);
        node.access.settle("quay.io/a:1", Some("sha256:1")).unwrap();
        let node = node.restarted();
        assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Allowed);
        node.access.settle("quay.io/a:1", Some("sha256:2")).unwrap();
        assert_eq!((node.intents(), node.verdict("quay.io/a:1", &[])), (0, Verdict::Allowed));
        assert_eq!(node.access.verdict(&name("quay.io/a:1"), &other, &[]), Verdict::Pull);
    }

    /// A tenant that pulled it with a secret took it from all others.
    #[test]
    fn an_image_that_the_node_had_stays_preloaded_when_it_is_pulled_again() {
        let own = of_secret("evil", "u-1", "p");
        let pull = |node: &Node, text: &str| {
            node.access.intend(text, Some("sha256:1".to_owned())).unwrap();
            node.access.pulled(&name(text), &image(), Some(&own)).unwrap();
        };
        let node = Node::new(CredentialVerification::default());
        pull(&node, "quay.io/a:1");
        assert_eq!((node.intents(), node.verdict("quay.io/a:1", &[])), (0, Verdict::Allowed));
        // Where preloaded images need a proof, the pull is one.
        let node = Node::new(CredentialVerification::AlwaysVerify);
        pull(&node, "quay.io/a:1");
        assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Pull);
        assert_eq!(node.verdict("quay.io/a:1", std::slice::from_ref(&own)), Verdict::Allowed);
        // What another pod is pulling is not preloaded, nor what one has pulled.
        let node = Node::new(CredentialVerification::default());
        node.access.intend("quay.io/a:1", None).unwrap();
        pull(&node, "evil.io/b:1");
        node.access.ended("quay.io/a:1", PullEnd::Failed).unwrap();
        assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Pull);
        let node = Node::new(CredentialVerification::default());
        node.pulls("quay.io/a:1", Some(&of_secret("shop", "u-2", "q")));
        pull(&node, "evil.io/b:1");
        assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Pull);
        assert_eq!(node.verdict("evil.io/b:1", std::slice::from_ref(&own)), Verdict::Allowed);
    }

    /// Intents of pulls that were broken off grew without end, over restarts.
    #[test]
    fn the_intent_of_a_pull_that_has_brought_nothing_ends() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(Hand(AtomicU64::new(1)));
        let open = || {
            let records =
                ImageRecords { dir: dir.path().to_owned(), verification: CredentialVerification::default() };
            ImageAccess::open(records, Arc::<Hand>::clone(&clock)).unwrap()
        };
        let later =
            |by: Duration| clock.0.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::Relaxed);
        let access = open();
        for image in ["quay.io/a:1", "quay.io/b:1"] {
            access.intend(image, None).unwrap();
        }
        later(PATIENCE * 2);
        // A pull that is under way has all the time that it needs.
        assert!(access.unsettled().is_empty() && access.overdue().is_empty());
        access.ended("quay.io/a:1", PullEnd::Unknown).unwrap();
        // The runtime may get the image yet.
        access.settle("quay.io/a:1", None).unwrap();
        access.settle("quay.io/b:1", None).unwrap();
        let access = open();
        assert_eq!(access.unsettled(), ["quay.io/a:1", "quay.io/b:1"]);
        access.settle("quay.io/a:1", None).unwrap();
        assert!(access.overdue().is_empty());
        later(PATIENCE);
        assert_eq!(access.overdue(), ["quay.io/a:1", "quay.io/b:1"]);
        access.settle("quay.io/a:1", None).unwrap();
        // A new pull of the name is under way.
        access.intend("quay.io/b:1", None).unwrap();
        access.settle("quay.io/b:1", None).unwrap();
        assert_eq!(std::fs::read_dir(dir.path().join("pulling")).unwrap().count(), 1);
        access.ended("quay.io/b:1", PullEnd::Failed).unwrap();
        later(PATIENCE);
        access.settle("quay.io/b:1", None).unwrap();
        assert!(open().unsettled().is_empty());
    }

    /// A clock that is set by hand, in milliseconds.
    struct Hand(AtomicU64);

    impl Clock for Hand {
        fn now(&self) -> Moment {
            Moment::from_millis(self.0.load(Ordering::Relaxed))
        }
    }

    #[test]
    fn an_image_whose_intent_cannot_be_written_must_not_be_pulled() {
        let node = Node::new(CredentialVerification::default());
        std::fs::remove_dir(node.dir.path().join("pulling")).unwrap();
        assert!(node.access.intend("quay.io/a:1", None).is_err());
        assert!(node.access.unsettled().is_empty());
    }
}
