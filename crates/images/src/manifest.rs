//! Manifests and indexes, of OCI and of docker.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::digest::Digest;
use crate::error::{Error, Result};
use crate::json;
use crate::limits::Limits;
use crate::platform::Platform;

/// The media types of the `Accept` header.
pub(crate) const ACCEPTED: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, \
     application/vnd.docker.distribution.manifest.v2+json";

/// Content by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// Its media type.
    #[serde(default, deserialize_with = "json::null_is_default")]
    pub media_type: String,
    /// Its digest.
    pub digest: Digest,
    /// Its length.
    pub size: u64,
    /// Its platform, in an index.
    #[serde(default)]
    pub platform: Option<Platform>,
    /// Annotations, names among them.
    #[serde(default, deserialize_with = "json::null_is_default")]
    pub annotations: BTreeMap<String, String>,
}

/// One image for one platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// The configuration.
    pub config: Descriptor,
    /// The layers, the lowest first.
    pub layers: Vec<Descriptor>,
}

/// A parsed manifest or index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// An image.
    Manifest(Manifest),
    /// An index of manifests by platform.
    Index(Vec<Descriptor>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw {
    #[serde(default)]
    schema_version: Option<u64>,
    #[serde(default)]
    media_type: Option<String>,
    #[serde(default)]
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Option<Vec<Descriptor>>,
    #[serde(default)]
    manifests: Option<Vec<Descriptor>>,
}

impl Document {
    /// Parses `bytes`; a document must not be both an index and a manifest.
    ///
    /// # Errors
    /// If they are neither, or of an unsupported old version.
    pub fn parse(what: &str, bytes: &[u8], limits: &Limits) -> Result<Self> {
        let wrong = |why: String| Error::Document { what: what.to_owned(), why };
        let raw: Raw = json::read(what, bytes)?;
        if raw.schema_version != Some(2) {
            return Err(wrong(format!("schemaVersion is {:?}, not 2", raw.schema_version)));
        }
        let kind = raw.media_type.as_deref().unwrap_or_default();
        match (raw.config, raw.layers, raw.manifests) {
            (None, None, Some(manifests)) if !kind.contains("image.manifest") => Ok(Self::Index(manifests)),
            (Some(config), Some(layers), None) if !kind.contains("index") && !kind.contains("list") => {
                let most = limits.layers;
                if u64::try_from(layers.len()).unwrap_or(u64::MAX) > most {
                    return Err(wrong(format!("it has {} layers, more than {most}", layers.len())));
                }
                Manifest { config, layers }.checked(what).map(Self::Manifest)
            }
            _ => Err(wrong("it is neither an image's manifest nor an index".to_owned())),
        }
    }
}

impl Manifest {
    fn checked(self, what: &str) -> Result<Self> {
        let wrong = |why: String| Error::Document { what: what.to_owned(), why };
        let kind = &self.config.media_type;
        let image = kind.is_empty() || kind.contains("image.config") || kind.contains("container.image");
        if !image {
            return Err(wrong(format!("its configuration is of type {kind}: it is no container image")));
        }
        match self.layers.iter().find(|layer| layer.media_type.contains("encrypted")) {
            Some(layer) => Err(wrong(format!("its layer {} is encrypted", layer.digest))),
            None => Ok(self),
        }
    }
}

/// The manifest of an index that fits this machine best.
///
/// # Errors
/// If none fits, with the platforms of the index.
pub fn choose<'a>(image: &str, offered: &'a [Descriptor], wanted: &Platform) -> Result<&'a Descriptor> {
    // Attestations are entries for an unknown platform; one without any platform is taken if nothing fits.
    let rank = |descriptor: &Descriptor| match &descriptor.platform {
        Some(platform) => wanted.rank(platform),
        None => Some(0),
    };
    let ranked = offered.iter().filter_map(|descriptor| Some((rank(descriptor)?, descriptor)));
    // Of equals the first.
    let best = ranked.reduce(|best, next| if next.0 > best.0 { next } else { best });
    best.map(|(_, descriptor)| descriptor).ok_or_else(|| Error::OtherPlatform {
        image: image.to_owned(),
        wanted: wanted.to_string(),
        offered: offered.iter().filter_map(|d| d.platform.as_ref()).map(ToString::to_string).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Document> {
        Document::parse("manifest", text.as_bytes(), &Limits::default())
    }

    fn descriptor(extra: &str) -> String {
        format!(r#"{{"digest":"{}","size":3{extra}}}"#, Digest::of(extra.as_bytes()))
    }

    #[test]
    fn manifests_and_indexes_are_told_by_what_they_hold() {
        let (config, layer) = (descriptor(""), descriptor(r#","annotations":null"#));
        let manifest = format!(r#"{{"schemaVersion":2,"config":{config},"layers":[{layer}]}}"#);
        assert!(matches!(parse(&manifest), Ok(Document::Manifest(m)) if m.layers.len() == 1));
        let index = format!(r#"{{"schemaVersion":2,"manifests":[{layer}]}}"#);
        assert!(matches!(parse(&index), Ok(Document::Index(all)) if all.len() == 1));
    }

    /// One document that two programs read differently is how digests are made to lie.
    #[test]
    fn what_is_both_is_neither() {
        let one = descriptor("");
        for text in [
            format!(r#"{{"schemaVersion":2,"config":{one},"layers":[],"manifests":[]}}"#),
            format!(
                r#"{{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","config":{one},"layers":[]}}"#
            ),
            r#"{"schemaVersion":2}"#.to_owned(),
            r#"{"schemaVersion":1,"manifests":[]}"#.to_owned(),
            r#"{"manifests":[]}"#.to_owned(),
            "[]".to_owned(),
        ] {
            assert!(parse(&text).is_err(), "{text}");
        }
    }

    #[test]
    fn other_artifacts_and_encrypted_layers_are_refused_by_name() {
        let one = descriptor("");
        let helm = descriptor(r#","mediaType":"application/vnd.cncf.helm.config.v1+json""#);
        let error = parse(&format!(r#"{{"schemaVersion":2,"config":{helm},"layers":[]}}"#)).unwrap_err();
        assert!(error.to_string().contains("helm"), "{error}");
        let secret = descriptor(r#","mediaType":"application/vnd.oci.image.layer.v1.tar+gzip+encrypted""#);
        let error =
            parse(&format!(r#"{{"schemaVersion":2,"config":{one},"layers":[{secret}]}}"#)).unwrap_err();
        assert!(error.to_string().contains("encrypted"), "{error}");
    }

    #[test]
    fn this_machines_manifest_is_chosen_and_a_missing_one_is_told() {
        let on = |arch: &str| descriptor(&format!(r#","platform":{{"os":"linux","architecture":"{arch}"}}"#));
        let text = format!(
            r#"{{"schemaVersion":2,"manifests":[{},{},{}]}}"#,
            on("unknown"),
            on("arm64"),
            on("amd64")
        );
        let Ok(Document::Index(all)) = parse(&text) else { panic!("no index") };
        let here =
            |arch: &str| Platform { os: "linux".into(), architecture: arch.into(), variant: String::new() };
        assert_eq!(choose("x", &all, &here("amd64")).unwrap(), &all[2]);
        let error = choose("x", &all, &here("s390x")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "x is for linux/unknown, linux/arm64, linux/amd64, not for linux/s390x"
        );
    }
}
