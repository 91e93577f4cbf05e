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
    assert_eq!(Node::new(CredentialVerification::default()).verdict("quay.io/a:1", &[]), Verdict::Allowed);
    assert_eq!(Node::new(CredentialVerification::AlwaysVerify).verdict("quay.io/a:1", &[]), Verdict::Pull);
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
    assert_eq!((node.intents(), node.verdict("quay.io/a:1", std::slice::from_ref(&own))), (0, Verdict::Pull));
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

/// The record of a private image goes with the image, and not with one that a pull has brought back: it would be free for all
/// pods.
#[test]
fn the_record_of_an_image_that_is_gone_is_removed_unless_a_pull_has_begun_since() {
    let node = Node::new(CredentialVerification::default());
    let own = of_secret("shop", "u-1", "p");
    node.pulls("quay.io/a:1", Some(&own));
    let before = node.access.quiet().unwrap();
    assert_eq!(node.access.recorded().unwrap(), ["sha256:1"]);
    // The image was removed, and is pulled again before its record is removed.
    node.pulls("quay.io/a:1", Some(&own));
    node.access.forget("sha256:1", before).unwrap();
    assert_eq!(node.verdict("quay.io/a:1", &[]), Verdict::Pull);
    // While a pull is under way, or its end is not known, nothing is known to be gone.
    node.access.intend("quay.io/b:1", None).unwrap();
    assert_eq!(node.access.quiet(), None);
    node.access.ended("quay.io/b:1", PullEnd::Unknown).unwrap();
    assert_eq!(node.access.quiet(), None);
    node.access.settle("quay.io/b:1", Some("sha256:2")).unwrap();
    let now = node.access.quiet().unwrap();
    assert_eq!(node.access.recorded().unwrap().len(), 2);
    node.access.forget("sha256:1", now).unwrap();
    node.access.forget("sha256:2", now).unwrap();
    assert!(node.access.recorded().unwrap().is_empty());
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
    let later = |by: Duration| clock.0.fetch_add(u64::try_from(by.as_millis()).unwrap(), Ordering::Relaxed);
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
