use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::time::Duration;

use durable::Guard;

use super::blob::Download;
use super::remote::Remote;
use super::session::{Ask, Session};
use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::image::Image;
use crate::images::Images;
use crate::install::{Candidate, Layers, Site};
use crate::json::LONGEST;
use crate::manifest::{ACCEPTED, Descriptor, Document, Manifest, choose};
use crate::platform::Platform;
use crate::progress::{Progress, Step, told};
use crate::reference::Reference;

/// An index may hold indexes, but not without end.
const DEPTH: u32 = 4;
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

impl Images {
    /// Pulls an image for this machine: from the registry's mirrors, then from itself.
    ///
    /// # Errors
    /// If no registry has it, or its content does not match its digest. If the connection broke, what was fetched is
    /// kept, and the next pull resumes; any other failure leaves nothing.
    pub fn pull(&self, reference: &Reference, remote: &Remote, progress: &dyn Progress) -> Result<Image> {
        let pulled = self.pull_from_all(reference, remote, progress);
        if pulled.as_ref().is_err_and(|error| !may_go_on(error)) {
            self.leave_no_trace();
        }
        self.find(pulled?.as_str())
    }

    fn pull_from_all(
        &self,
        reference: &Reference,
        remote: &Remote,
        progress: &dyn Progress,
    ) -> Result<Digest> {
        let work = self.store.begin()?;
        let site = Site { store: &self.store, work: &work, limits: &self.limits, progress };
        let endpoints = remote.endpoints(reference);
        let last = endpoints.len().saturating_sub(1);
        for (n, endpoint) in endpoints.into_iter().enumerate() {
            let pulled = Session::new(endpoint).and_then(|session| pull(&site, reference, &session));
            match pulled {
                // A mirror that fails is as if it were not there; the registry has the last word.
                Err(error) if n < last && !matches!(error, Error::Interrupted | Error::DiskFull { .. }) => {}
                pulled => return pulled,
            }
        }
        Err(Error::Unknown { name: reference.to_string() })
    }
}

fn pull(site: &Site<'_>, reference: &Reference, session: &Session) -> Result<Digest> {
    let (manifest, bytes, served) = manifest(site, reference, session)?;
    let name = match reference.digest() {
        Some(digest) => format!("{}@{digest}", reference.name()),
        None => reference.to_string(),
    };
    let config = patiently(|| small_blob(session, &manifest.config))?;
    let source = FromRegistry { site, session, layers: &manifest.layers, claims: RefCell::default() };
    let installed = site.install(&Candidate {
        called: reference.to_string(),
        config,
        manifest: Some(bytes),
        count: manifest.layers.len(),
        layers: &source,
        names: vec![(name, Some(served))],
    });
    if installed.as_ref().is_err_and(|error| !may_go_on(error)) {
        (0..manifest.layers.len()).try_for_each(|n| source.done(n))?;
    }
    installed
}

/// Whether what was fetched so far is of use to the next try.
fn may_go_on(error: &Error) -> bool {
    error.is_of_the_network() || matches!(error, Error::Interrupted)
}

/// Asks again where the way to the registry failed.
fn patiently<T>(ask: impl Fn() -> Result<T>) -> Result<T> {
    let mut tries = 0;
    loop {
        match ask() {
            Err(error) if error.is_of_the_network() && tries < TRIES => {
                tries += 1;
                std::thread::sleep(PAUSE * (1 << tries));
            }
            answer => return answer,
        }
    }
}

/// The manifest for this machine, its bytes, and the digest of what the registry serves under the name.
fn manifest(
    site: &Site<'_>,
    reference: &Reference,
    session: &Session,
) -> Result<(Manifest, Vec<u8>, Digest)> {
    let mut wanted = reference.wanted().to_owned();
    let mut expected = reference.digest().cloned();
    let mut served = None;
    for _ in 0..DEPTH {
        let what = format!("manifest {wanted} of {}", reference.name());
        let (bytes, digest) = patiently(|| fetch_manifest(session, &what, &wanted, expected.as_ref()))?;
        let served = served.get_or_insert(digest).clone();
        match Document::parse(&what, &bytes, site.limits)? {
            Document::Manifest(manifest) => return Ok((manifest, bytes, served)),
            Document::Index(all) => {
                let next = choose(&reference.to_string(), &all, &Platform::here())?;
                wanted = next.digest.to_string();
                expected = Some(next.digest.clone());
            }
        }
    }
    let what = format!("the index of {reference}");
    Err(Error::Document { what, why: format!("more than {DEPTH} indexes lead to the image") })
}

fn fetch_manifest(
    session: &Session,
    what: &str,
    wanted: &str,
    expected: Option<&Digest>,
) -> Result<(Vec<u8>, Digest)> {
    let path = format!("manifests/{wanted}");
    let mut answer = session.get(&Ask { what, path: &path, fields: &[("Accept", ACCEPTED)] })?;
    let said = answer.headers().get("docker-content-digest").and_then(|field| field.to_str().ok());
    let said: Option<Digest> = said.and_then(|text| text.parse().ok());
    let body = answer.body_mut().with_config().limit(LONGEST).read_to_vec();
    let bytes = body.map_err(|error| session.failed(what, error.to_string()))?;
    let found = Digest::of(&bytes);
    match expected.or(said.as_ref()) {
        Some(expected) if *expected != found => {
            Err(Error::WrongDigest { what: what.to_owned(), expected: expected.clone(), found })
        }
        _ => Ok((bytes, found)),
    }
}

/// A configuration.
fn small_blob(session: &Session, descriptor: &Descriptor) -> Result<Vec<u8>> {
    let what = format!("configuration {}", descriptor.digest);
    if descriptor.size > LONGEST {
        let why = format!("it has {} bytes, more than {LONGEST}", descriptor.size);
        return Err(Error::Document { what, why });
    }
    let path = format!("blobs/{}", descriptor.digest);
    let mut answer = session.get(&Ask { what: &what, path: &path, fields: &[] })?;
    let body = answer.body_mut().with_config().limit(LONGEST).read_to_vec();
    let bytes = body.map_err(|error| session.failed(&what, error.to_string()))?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if length != descriptor.size {
        return Err(Error::WrongSize { what, expected: descriptor.size, found: length });
    }
    let found = Digest::of(&bytes);
    if found != descriptor.digest {
        return Err(Error::WrongDigest { what, expected: descriptor.digest.clone(), found });
    }
    Ok(bytes)
}

struct FromRegistry<'a> {
    site: &'a Site<'a>,
    session: &'a Session,
    layers: &'a [Descriptor],
    /// Archives that are ours until their layers are unpacked.
    claims: RefCell<BTreeMap<usize, Guard>>,
}

impl Layers for FromRegistry<'_> {
    fn name(&self, n: usize) -> String {
        self.layers.get(n).map_or_else(String::new, |layer| format!("layer {}", layer.digest))
    }

    fn announced(&self, n: usize) -> Option<&Descriptor> {
        self.layers.get(n)
    }

    fn open(&self, n: usize) -> Result<Box<dyn Read + '_>> {
        let missing = || Error::Unknown { name: self.name(n) };
        let descriptor = self.layers.get(n).ok_or_else(missing)?;
        let name = self.name(n);
        let mut waiting = || told(self.site.progress, Step::Waiting { what: &name });
        let claim = self.site.store.claim_blob(&descriptor.digest, &mut waiting)?;
        self.claims.borrow_mut().insert(n, claim);
        let path = self.site.store.partial(&descriptor.digest);
        Download::open(descriptor, &path, self.site.progress)?.fetch(self.session)?;
        Ok(Box::new(File::open(&path).map_err(Error::io("read", &path))?))
    }

    fn done(&self, n: usize) -> Result<()> {
        if let (Some(descriptor), Some(claim)) = (self.layers.get(n), self.claims.borrow_mut().remove(&n)) {
            durable::remove(&self.site.store.partial(&descriptor.digest))?;
            drop(claim);
        }
        Ok(())
    }
}
