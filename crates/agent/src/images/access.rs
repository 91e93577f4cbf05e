//! Which pods may use an image that is on the node. The node remembers the credentials that each image was pulled with: a
//! pod with none of them must pull the image itself, so that the registry decides.
//!
//! An intent is on disk before a pull begins, and the record before the intent is removed. If the node stops in between,
//! the intent says that the image may have come from a registry, and a pod must prove that it may use it. That does not go
//! for the image that the node had under this name before: no pull has brought it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// How many pulls have begun. Counted while `intents` is locked.
    begun: AtomicU64,
}

/// A moment at which no pull was under way, and the end of each was known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quiet {
    begun: u64,
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
        let intents = Mutex::new(left.collect());
        Ok(Self { records, verification, clock, intents, begun: AtomicU64::new(0) })
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
        self.begun.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Now, if no pull is under way or unsettled. Images that are found to be missing later were not brought by a pull, unless
    /// one has begun since.
    pub(crate) fn quiet(&self) -> Option<Quiet> {
        self.intents().is_empty().then(|| Quiet { begun: self.begun.load(Ordering::Relaxed) })
    }

    /// The IDs of the images that have a record.
    ///
    /// # Errors
    /// If the records cannot be read.
    pub(crate) fn recorded(&self) -> Result<Vec<String>> {
        self.records.recorded()
    }

    /// Removes the record of an image that was found to be missing after `since`. If a pull has begun since, the record is
    /// kept: it may be of an image that is there again, which all pods could use without it.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn forget(&self, id: &str, since: Quiet) -> Result<()> {
        let intents = self.intents();
        if self.begun.load(Ordering::Relaxed) != since.begun {
            return Ok(());
        }
        self.records.remove_pulled(id)?;
        drop(intents);
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
mod tests;
