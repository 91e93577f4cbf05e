//! Records of image pulls on disk, in the kubelet's format: `pulling/` has what is being pulled, `pulled/` what was. A kubelet
//! has no `present/`: which image the node had, before the pull, under a name that is being pulled.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use durable::{AtomicFile, make_dirs};
use ring::digest::{SHA256, digest};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::error::{Error, Result};
use crate::images::credential::{AccountRef, CredentialSource, SecretRef, hex};

const API_VERSION: &str = "kubelet.config.k8s.io/v1beta1";
const OLD_API_VERSION: &str = "kubelet.config.k8s.io/v1alpha1";
const INTENT: &str = "ImagePullIntent";
const PULLED: &str = "ImagePulledRecord";
const PREFIX: &str = "sha256-";
/// A kubelet ignores files that end so.
const TEMPORARY: &str = ".tmp";
/// No record is nearly as large.
const LARGEST: u64 = 16 << 20;

/// An image is being pulled, or was when the node stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ImagePullIntent {
    kind: String,
    api_version: String,
    /// The image as the pod names it.
    image: String,
}

/// Which image the node had under a name before a pull of that name began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ImagePresent {
    /// As the pod names it.
    image: String,
    /// The runtime's ID of the image.
    image_ref: String,
}

/// A pull that has begun, as it is on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Intent {
    /// The image as the pod names it.
    pub(crate) image: String,
    /// The runtime's ID of the image that the node had under this name before.
    pub(crate) present: Option<String>,
}

/// What an image was pulled with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ImagePulledRecord {
    kind: String,
    api_version: String,
    last_updated_time: String,
    /// The runtime's ID of the image.
    pub(crate) image_ref: String,
    /// By repository: with which credentials the image was pulled from it. A repository that is missing was not proven by
    /// any pod.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) credential_mapping: BTreeMap<String, PullCredentials>,
}

/// The credentials with which an image was pulled from a repository.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PullCredentials {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kubernetes_secrets: Vec<PullSecret>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) kubernetes_service_accounts: Vec<AccountRef>,
    /// Whether all pods of the node may use it: it was pulled without credentials, or with the node's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) node_pods_accessible: bool,
}

/// A secret with which an image was pulled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct PullSecret {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) credential_hash: String,
}

impl PullSecret {
    pub(crate) fn new(secret: &SecretRef, hash: &str) -> Self {
        let SecretRef { namespace, name, uid } = secret.clone();
        Self { uid, namespace, name, credential_hash: hash.to_owned() }
    }

    /// Whether it is the same object.
    pub(crate) fn is_same_object(&self, other: &Self) -> bool {
        (&self.uid, &self.namespace, &self.name) == (&other.uid, &other.namespace, &other.name)
    }
}

impl ImagePulledRecord {
    /// A record of an image that no pod has been proven to be allowed to use.
    pub(crate) fn new(image_ref: &str) -> Self {
        Self {
            kind: PULLED.to_owned(),
            api_version: API_VERSION.to_owned(),
            last_updated_time: String::new(),
            image_ref: image_ref.to_owned(),
            credential_mapping: BTreeMap::new(),
        }
    }

    /// Adds what the image was pulled with. Returns whether that is new.
    pub(crate) fn add(&mut self, repository: &str, source: &CredentialSource, hash: &str) -> bool {
        let known = self.credential_mapping.entry(repository.to_owned()).or_default();
        if known.node_pods_accessible {
            return false;
        }
        match source {
            CredentialSource::Node => {
                *known = PullCredentials { node_pods_accessible: true, ..PullCredentials::default() };
                true
            }
            CredentialSource::Secret(secret) => add_secret(known, PullSecret::new(secret, hash)),
            CredentialSource::ServiceAccount(account) => {
                let accounts = &mut known.kubernetes_service_accounts;
                let is_new = !accounts.contains(account);
                if is_new {
                    accounts.push(account.clone());
                    accounts.sort();
                }
                is_new
            }
        }
    }
}

fn add_secret(known: &mut PullCredentials, new: PullSecret) -> bool {
    let secrets = &mut known.kubernetes_secrets;
    match secrets.iter_mut().find(|secret| secret.is_same_object(&new)) {
        Some(secret) if secret.credential_hash == new.credential_hash => return false,
        Some(secret) => secret.credential_hash = new.credential_hash,
        None => secrets.push(new),
    }
    let order = |secret: &PullSecret| (secret.namespace.clone(), secret.name.clone(), secret.uid.clone());
    secrets.sort_by_key(order);
    true
}

/// The record of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is none.
    Nothing,
    /// There is one that cannot be read: the node pulled the image, and no pod is proven to be allowed to use it.
    Unreadable,
    Record(ImagePulledRecord),
}

/// The directory of the records. One process at a time writes to it.
#[derive(Debug)]
pub(crate) struct PullRecords {
    pulling: PathBuf,
    pulled: PathBuf,
    present: PathBuf,
}

impl PullRecords {
    /// Makes the directories.
    ///
    /// # Errors
    /// If they cannot be made.
    pub(crate) fn open(dir: &Path) -> Result<Self> {
        let [pulling, pulled, present] = ["pulling", "pulled", "present"].map(|name| dir.join(name));
        let records = Self { pulling, pulled, present };
        for dir in [&records.pulling, &records.pulled, &records.present] {
            make_dirs(dir, 0o700)?;
        }
        Ok(records)
    }

    /// Records that an image is about to be pulled, and the ID of the image that the node has under this name.
    ///
    /// # Errors
    /// If the record cannot be written: the image must not be pulled then.
    pub(crate) fn write_intent(&self, image: &str, present: Option<&str>) -> Result<()> {
        // What an earlier intent has left must not count for this one.
        match present {
            Some(id) => {
                write(
                    &self.present,
                    image,
                    &ImagePresent { image: image.to_owned(), image_ref: id.to_owned() },
                )?;
            }
            None => self.remove_present(image)?,
        }
        let (kind, api_version) = (INTENT.to_owned(), API_VERSION.to_owned());
        write(&self.pulling, image, &ImagePullIntent { kind, api_version, image: image.to_owned() })
    }

    /// Removes such a record. None is no error.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn remove_intent(&self, image: &str) -> Result<()> {
        durable::remove(&self.pulling.join(file_name(image)))?;
        self.remove_present(image)
    }

    fn remove_present(&self, image: &str) -> Result<()> {
        durable::remove(&self.present.join(file_name(image)))?;
        Ok(())
    }

    /// The ID of the image that the node had. One that cannot be read is none: then the image that the node has now counts as
    /// pulled.
    fn present(&self, image: &str) -> Option<String> {
        let path = self.present.join(file_name(image));
        match read::<ImagePresent>(&path) {
            Ok(found) => found.filter(|found| found.image == image).map(|found| found.image_ref),
            Err(error) => {
                warn!("what the node had before a pull of {image} is ignored: {error}");
                None
            }
        }
    }

    /// The pulls that had begun when the node stopped. Records that cannot be read are logged.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn intents(&self) -> Result<Vec<Intent>> {
        let mut intents = Vec::new();
        let unreadable = || Error::file("read", &self.pulling);
        for entry in std::fs::read_dir(&self.pulling).map_err(unreadable())? {
            let path = entry.map_err(unreadable())?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.starts_with(PREFIX) || name.ends_with(TEMPORARY) {
                continue;
            }
            match read::<ImagePullIntent>(&path) {
                Ok(Some(intent)) if is_known(&intent.kind, &intent.api_version, INTENT) => {
                    let present = self.present(&intent.image);
                    intents.push(Intent { image: intent.image, present });
                }
                Ok(None) => {}
                Ok(Some(_)) => warn!("{} is no record of an image pull; ignored", path.display()),
                Err(error) => warn!("a record of an image pull is ignored: {error}"),
            }
        }
        Ok(intents)
    }

    /// The record of an image.
    pub(crate) fn pulled(&self, image_ref: &str) -> Found {
        let path = self.pulled.join(file_name(image_ref));
        match read::<ImagePulledRecord>(&path) {
            Ok(None) => Found::Nothing,
            Ok(Some(record))
                if is_known(&record.kind, &record.api_version, PULLED) && record.image_ref == image_ref =>
            {
                Found::Record(record)
            }
            Ok(Some(_)) => {
                warn!(
                    "{} is no record of image {image_ref}; pods must prove that they may use it",
                    path.display()
                );
                Found::Unreadable
            }
            Err(error) => {
                warn!("pods must prove that they may use image {image_ref}: {error}");
                Found::Unreadable
            }
        }
    }

    /// The IDs of the images that have a record. Records that cannot be read are left out.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub(crate) fn recorded(&self) -> Result<Vec<String>> {
        let unreadable = || Error::file("read", &self.pulled);
        let mut ids = Vec::new();
        for entry in std::fs::read_dir(&self.pulled).map_err(unreadable())? {
            let path = entry.map_err(unreadable())?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if let Ok(Some(record)) = read::<ImagePulledRecord>(&path)
                && name == file_name(&record.image_ref)
            {
                ids.push(record.image_ref);
            }
        }
        Ok(ids)
    }

    /// Removes the record of an image. None is no error.
    ///
    /// # Errors
    /// If it cannot be removed.
    pub(crate) fn remove_pulled(&self, image_ref: &str) -> Result<()> {
        durable::remove(&self.pulled.join(file_name(image_ref)))?;
        Ok(())
    }

    /// Writes the record of an image.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) fn write_pulled(&self, mut record: ImagePulledRecord, now: u64) -> Result<()> {
        record.api_version = API_VERSION.to_owned();
        record.last_updated_time = types::time::stamp(now);
        write(&self.pulled, &record.image_ref.clone(), &record)
    }
}

fn is_known(kind: &str, api_version: &str, expected: &str) -> bool {
    kind == expected && [API_VERSION, OLD_API_VERSION].contains(&api_version)
}

fn file_name(of: &str) -> String {
    format!("{PREFIX}{}", hex(&digest(&SHA256, of.as_bytes()).as_ref()))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(text) = durable::read(path, LARGEST)? else { return Ok(None) };
    let parsed = serde_json::from_slice(&text);
    parsed.map(Some).map_err(|cause| Error::Record { path: path.to_owned(), cause: cause.to_string() })
}

fn write<T: Serialize>(dir: &Path, of: &str, value: &T) -> Result<()> {
    let path = dir.join(file_name(of));
    let damaged = |cause: serde_json::Error| Error::Record { path: path.clone(), cause: cause.to_string() };
    let mut text = serde_json::to_vec(value).map_err(damaged)?;
    text.push(b'\n');
    let mut temporary = OsString::from(file_name(of));
    temporary.push(TEMPORARY);
    AtomicFile::at(&path).temporary(temporary).replace(&text)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    fn secret(name: &str) -> CredentialSource {
        let (namespace, name, uid) = ("shop".to_owned(), name.to_owned(), format!("u-{name}"));
        CredentialSource::Secret(SecretRef { namespace, name, uid })
    }

    fn json_of(path: &Path) -> Value {
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    }

    #[test]
    fn records_have_the_names_and_the_content_that_a_kubelet_gives_them() {
        let dir = tempfile::tempdir().unwrap();
        let records = PullRecords::open(dir.path()).unwrap();
        records.write_intent("quay.io/a:1", None).unwrap();
        // echo -n quay.io/a:1 | sha256sum
        let name = "sha256-".to_owned() + &hex(&digest(&SHA256, b"quay.io/a:1").as_ref());
        let expected = json!({"kind": "ImagePullIntent", "apiVersion": API_VERSION, "image": "quay.io/a:1"});
        assert_eq!(json_of(&dir.path().join("pulling").join(&name)), expected);
        let intent = |present: Option<&str>| {
            vec![Intent { image: "quay.io/a:1".to_owned(), present: present.map(str::to_owned) }]
        };
        assert_eq!(records.intents().unwrap(), intent(None));
        records.write_intent("quay.io/a:1", Some("sha256:0")).unwrap();
        // The kubelet's record has no field for what is present.
        assert_eq!(json_of(&dir.path().join("pulling").join(&name)), expected);
        assert_eq!(records.intents().unwrap(), intent(Some("sha256:0")));
        fs::write(dir.path().join("present").join(&name), "{").unwrap();
        assert_eq!(records.intents().unwrap(), intent(None));
        records.write_intent("quay.io/a:1", Some("sha256:0")).unwrap();
        records.write_intent("quay.io/a:1", None).unwrap();
        assert_eq!(records.intents().unwrap(), intent(None));
        records.remove_intent("quay.io/a:1").unwrap();
        assert!(records.intents().unwrap().is_empty());

        let mut record = ImagePulledRecord::new("sha256:1");
        assert!(record.add("quay.io/a", &secret("pull"), "h"));
        records.write_pulled(record.clone(), 1_772_368_205).unwrap();
        let name = "sha256-".to_owned() + &hex(&digest(&SHA256, b"sha256:1").as_ref());
        let path = dir.path().join("pulled").join(name);
        let of_secret = json!({"uid": "u-pull", "namespace": "shop", "name": "pull", "credentialHash": "h"});
        let expected = json!({
            "kind": "ImagePulledRecord", "apiVersion": API_VERSION, "lastUpdatedTime": "2026-03-01T12:30:05Z",
            "imageRef": "sha256:1", "credentialMapping": {"quay.io/a": {"kubernetesSecrets": [of_secret]}},
        });
        assert_eq!(json_of(&path), expected);
        let Found::Record(read) = records.pulled("sha256:1") else { panic!() };
        assert_eq!(read.credential_mapping, record.credential_mapping);
        assert_eq!(records.pulled("sha256:2"), Found::Nothing);
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(dir.path().join("pulled")).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o700);
    }

    #[test]
    fn a_record_that_cannot_be_read_or_is_of_another_image_is_not_no_record() {
        let dir = tempfile::tempdir().unwrap();
        let records = PullRecords::open(dir.path()).unwrap();
        let path = dir.path().join("pulled").join(file_name("sha256:1"));
        let other =
            json!({"kind": PULLED, "apiVersion": API_VERSION, "lastUpdatedTime": "", "imageRef": "sha256:2"});
        let newer = json!({"kind": PULLED, "apiVersion": "kubelet.config.k8s.io/v1", "lastUpdatedTime": "", "imageRef": "sha256:1"});
        let unknown = json!({"kind": PULLED, "apiVersion": API_VERSION, "lastUpdatedTime": "", "imageRef": "sha256:1", "deny": true});
        for text in ["", "{", "[]", &other.to_string(), &newer.to_string(), &unknown.to_string()] {
            fs::write(&path, text).unwrap();
            assert_eq!(records.pulled("sha256:1"), Found::Unreadable, "{text}");
        }
        let old = json!({"kind": PULLED, "apiVersion": OLD_API_VERSION, "lastUpdatedTime": "x", "imageRef": "sha256:1"});
        fs::write(&path, old.to_string()).unwrap();
        assert!(matches!(records.pulled("sha256:1"), Found::Record(_)));
        fs::write(dir.path().join("pulling/sha256-0.tmp"), "{").unwrap();
        fs::write(dir.path().join("pulling/sha256-1"), "{").unwrap();
        assert!(records.intents().unwrap().is_empty());
    }

    #[test]
    fn credentials_add_up_and_access_for_all_replaces_them() {
        let mut record = ImagePulledRecord::new("sha256:1");
        assert!(record.add("a", &secret("z"), "1") && record.add("a", &secret("b"), "2"));
        assert!(!record.add("a", &secret("b"), "2") && record.add("a", &secret("b"), "3"));
        let names: Vec<_> = record.credential_mapping["a"]
            .kubernetes_secrets
            .iter()
            .map(|secret| (secret.name.as_str(), secret.credential_hash.as_str()))
            .collect();
        assert_eq!(names, [("b", "3"), ("z", "1")]);
        let account = AccountRef { namespace: "n".into(), name: "s".into(), uid: "u".into() };
        let account = CredentialSource::ServiceAccount(account);
        assert!(record.add("a", &account, "x") && !record.add("a", &account, "y"));
        assert!(record.add("a", &CredentialSource::Node, "") && !record.add("a", &secret("c"), "1"));
        let all = PullCredentials { node_pods_accessible: true, ..PullCredentials::default() };
        assert_eq!(record.credential_mapping["a"], all);
    }
}
