//! The files of configMap, secret, downwardAPI and projected volumes, from the current objects.

use manifest::k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, DownwardAPIVolumeFile, KeyToPath as ApiKey, PodCertificateProjection,
    ProjectedVolumeSource, ServiceAccountTokenProjection, Volume as ApiVolume, VolumeProjection,
};
use volumes::kinds::{Written, WrittenKind};
use volumes::payload::downward::DownwardFile;
use volumes::payload::{
    Bytes, ConfigMap, KeyToPath, Mode, Need, Object, Payload, PodFields, Secret, Source, Volume,
};

use crate::error::{Error, Result};
use crate::pod::context::PodContext;
use crate::pod::{fields, users};
use crate::ports::{CertificatePlace, CertificateRequest, ObjectStore, TokenRequest, TrustBundles};

/// How long a token is valid whose definition says nothing, as in the API.
const DEFAULT_SECONDS: i64 = 3600;

/// Derives the files of volumes from the pod's fields and the objects that it references.
pub(crate) struct Writer<'a> {
    pub(crate) context: &'a PodContext,
    pub(crate) fields: &'a PodFields,
    pub(crate) objects: &'a dyn ObjectStore,
}

impl Writer<'_> {
    /// The files of a volume; `None` for a volume of another kind.
    pub(crate) fn written(&self, volume: &ApiVolume) -> Result<Option<Written>> {
        let (kind, mode, sources) = if let Some(map) = &volume.config_map {
            let source = Source::ConfigMap(self.config_map(&map.name, map.items.as_deref(), map.optional)?);
            (WrittenKind::ConfigMap, map.default_mode, vec![source])
        } else if let Some(secret) = &volume.secret {
            let name = secret.secret_name.as_deref().unwrap_or_default();
            let source = Source::Secret(self.secret(name, secret.items.as_deref(), secret.optional)?);
            (WrittenKind::Secret, secret.default_mode, vec![source])
        } else if let Some(downward) = &volume.downward_api {
            let files = self.downward(downward.items.as_deref())?;
            (WrittenKind::DownwardApi, downward.default_mode, vec![Source::DownwardApi(files)])
        } else if let Some(projected) = &volume.projected {
            (WrittenKind::Projected, projected.default_mode, self.projected(&volume.name, projected)?)
        } else {
            return Ok(None);
        };
        let default_mode = bits(mode)?.unwrap_or(Mode::DEFAULT);
        let named = Volume { name: volume.name.clone(), default_mode, sources };
        Ok(Some(Written { kind, payload: Payload::of(&named, self.fields)? }))
    }

    /// The sources of a projected volume.
    fn projected(&self, volume: &str, projected: &ProjectedVolumeSource) -> Result<Vec<Source>> {
        let mut all = Vec::new();
        let mut room = volumes::payload::LARGEST;
        for (index, source) in projected.sources.iter().flatten().enumerate() {
            let place = CertificatePlace { volume: volume.to_owned(), source: index };
            let sources = self.projection(source, place)?;
            // Before the next is read: thousands of sources can be of one object.
            let size: usize = sources.iter().map(Source::size).sum();
            room = room.checked_sub(size).ok_or_else(|| {
                let cause =
                    format!("its objects have more than {} MiB together", volumes::payload::LARGEST >> 20);
                Error::config(format!("volume {volume:?}"), cause)
            })?;
            all.extend(sources);
        }
        Ok(all)
    }

    fn projection(&self, source: &VolumeProjection, place: CertificatePlace) -> Result<Vec<Source>> {
        let volume = place.volume.clone();
        let of_volume = |cause| Error::OfVolume { volume: volume.clone(), cause: Box::new(cause) };
        if let Some(map) = &source.config_map {
            let object = self.config_map(&map.name, map.items.as_deref(), map.optional)?;
            return Ok(vec![Source::ConfigMap(object)]);
        }
        if let Some(secret) = &source.secret {
            let object = self.secret(&secret.name, secret.items.as_deref(), secret.optional)?;
            return Ok(vec![Source::Secret(object)]);
        }
        if let Some(downward) = &source.downward_api {
            return Ok(vec![Source::DownwardApi(self.downward(downward.items.as_deref())?)]);
        }
        if let Some(token) = &source.service_account_token {
            return Ok(vec![Source::Bytes(self.token(token)?)]);
        }
        if let Some(bundle) = &source.cluster_trust_bundle {
            return Ok(vec![Source::Bytes(self.trust_bundles(bundle).map_err(of_volume)?)]);
        }
        if let Some(certificate) = &source.pod_certificate {
            let files = self.certificate(certificate, place).map_err(of_volume)?;
            return Ok(files.into_iter().map(Source::Bytes).collect());
        }
        let field = format!("volume {volume:?}");
        let what = "a source of this kind".to_owned();
        Err(admission::Error::NotRun { field, what, hint: "leave it out: it is not supported" }.into())
    }

    fn token(&self, source: &ServiceAccountTokenProjection) -> Result<Bytes> {
        let request = TokenRequest {
            pod: self.context.reference(),
            service_account: self.context.spec.service_account_name.clone().unwrap_or_default(),
            audience: source.audience.clone().filter(|audience| !audience.is_empty()),
            expiration_seconds: source.expiration_seconds.unwrap_or(DEFAULT_SECONDS),
        };
        let token = self.objects.token(&request)?;
        Ok(self.private("serviceAccountToken", &source.path, token.expose().to_owned()))
    }

    /// The certificates of trust bundles as a file; an empty one if there are none and the source is optional.
    fn trust_bundles(&self, source: &ClusterTrustBundleProjection) -> Result<Bytes> {
        let bundles = match (&source.name, &source.signer_name) {
            (Some(name), _) => TrustBundles::Named(name.clone()),
            (None, signer) => TrustBundles::OfSigner {
                signer: signer.clone().unwrap_or_default(),
                labels: source.label_selector.clone(),
            },
        };
        let content = match self.objects.trust_bundles(&bundles)? {
            Some(content) => content,
            None if source.optional == Some(true) => String::new(),
            None => {
                let cause = "not found".to_owned();
                return Err(Error::TrustBundles { bundles: bundles.to_string(), cause });
            }
        };
        Ok(self.private("clusterTrustBundle", &source.path, content))
    }

    /// The files of a key and its certificates.
    fn certificate(&self, source: &PodCertificateProjection, place: CertificatePlace) -> Result<Vec<Bytes>> {
        let found = self.objects.certificate(&CertificateRequest {
            pod: self.context.reference(),
            place,
            service_account: self.context.spec.service_account_name.clone().unwrap_or_default(),
            signer: source.signer_name.clone(),
            key_type: source.key_type.clone(),
            max_expiration_seconds: source.max_expiration_seconds,
            annotations: source.user_annotations.clone().unwrap_or_default(),
        })?;
        let bundle = || format!("{}{}", found.expose_key(), found.chain());
        let files = [
            source.credential_bundle_path.as_ref().map(|path| (path, bundle())),
            source.key_path.as_ref().map(|path| (path, found.expose_key().to_owned())),
            source.certificate_chain_path.as_ref().map(|path| (path, found.chain().to_owned())),
        ];
        let files = files.into_iter().flatten().filter(|(path, _)| !path.is_empty());
        Ok(files.map(|(path, content)| self.private("podCertificate", path, content)).collect())
    }

    /// A file for this pod alone. It has the volume's mode, unless it can belong to the one user of all containers or to the
    /// pod's fsGroup: then it is closed to all others.
    fn private(&self, what: &str, path: &str, content: String) -> Bytes {
        let owner = users::common_user(self.context);
        let is_private = owner.is_some() || users::fs_group(self.context).is_some();
        Bytes {
            what: what.to_owned(),
            path: path.to_owned(),
            content: content.into_bytes(),
            mode: is_private.then_some(Mode::PRIVATE),
            owner,
        }
    }

    fn config_map(
        &self,
        name: &str,
        items: Option<&[ApiKey]>,
        optional: Option<bool>,
    ) -> Result<Object<ConfigMap>> {
        let found = self.objects.config_map(&self.context.namespace, name)?;
        Ok(Object { name: name.to_owned(), found, items: keys(items)?, need: need(optional) })
    }

    fn secret(&self, name: &str, items: Option<&[ApiKey]>, optional: Option<bool>) -> Result<Object<Secret>> {
        let found = self.objects.secret(&self.context.namespace, name)?;
        Ok(Object { name: name.to_owned(), found, items: keys(items)?, need: need(optional) })
    }

    fn downward(&self, items: Option<&[DownwardAPIVolumeFile]>) -> Result<Vec<DownwardFile>> {
        let one = |item: &DownwardAPIVolumeFile| {
            let value = match (&item.field_ref, &item.resource_field_ref) {
                (Some(field), _) => fields::field_value(field)?,
                (None, Some(resource)) => fields::resource_value(resource, "")?,
                (None, None) => {
                    return Err(Error::config(&item.path, "it has neither fieldRef nor resourceFieldRef"));
                }
            };
            Ok(DownwardFile { path: item.path.clone(), mode: bits(item.mode)?, value })
        };
        items.unwrap_or_default().iter().map(one).collect()
    }
}

fn need(optional: Option<bool>) -> Need {
    if optional == Some(true) { Need::Optional } else { Need::Required }
}

fn bits(mode: Option<i32>) -> Result<Option<Mode>> {
    let out_of_range = |n: i32| Error::config("mode", format!("{n:#o} is no file mode"));
    let one = |n: i32| u32::try_from(n).ok().and_then(|n| Mode::new(n).ok()).ok_or_else(|| out_of_range(n));
    mode.map(one).transpose()
}

fn keys(items: Option<&[ApiKey]>) -> Result<Vec<KeyToPath>> {
    let one = |item: &ApiKey| {
        Ok(KeyToPath { key: item.key.clone(), path: item.path.clone(), mode: bits(item.mode)? })
    };
    items.unwrap_or_default().iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::ports::{Credentials, Token};

    #[derive(Default)]
    struct Issuer {
        tokens: Mutex<Vec<TokenRequest>>,
        certificates: Mutex<Vec<CertificateRequest>>,
        bundles: Mutex<Vec<String>>,
    }

    impl ObjectStore for Issuer {
        fn config_map(&self, _: &str, _: &str) -> Result<Option<ConfigMap>> {
            Ok(None)
        }

        fn secret(&self, _: &str, _: &str) -> Result<Option<Secret>> {
            Ok(None)
        }

        fn token(&self, request: &TokenRequest) -> Result<Token> {
            self.tokens.lock().unwrap().push(request.clone());
            Ok(Token::new("t0ken".to_owned()))
        }

        fn trust_bundles(&self, bundles: &TrustBundles) -> Result<Option<String>> {
            self.bundles.lock().unwrap().push(bundles.to_string());
            Ok((*bundles == TrustBundles::Named("known".to_owned())).then(|| "roots".to_owned()))
        }

        fn certificate(&self, request: &CertificateRequest) -> Result<Credentials> {
            self.certificates.lock().unwrap().push(request.clone());
            Ok(Credentials::new("k3y\n".to_owned(), "chain\n".to_owned()))
        }
    }

    fn written(security: &str, source: &str, objects: &dyn ObjectStore) -> Result<Written> {
        projected(security, &format!(r#"{{"serviceAccountToken":{{{source}}}}}"#), objects)
    }

    fn projected(security: &str, sources: &str, objects: &dyn ObjectStore) -> Result<Written> {
        let context = PodContext::for_test(&format!(
            r#"{{"serviceAccountName":"robot","securityContext":{{{security}}},"containers":[{{"name":"a"}}],
            "volumes":[{{"name":"v","projected":{{"defaultMode":288,"sources":[{sources}]}}}}]}}"#
        ));
        let fields = fields::of(&context);
        let writer = Writer { context: &context, fields: &fields, objects };
        writer.written(&context.spec.volumes.as_ref().unwrap()[0]).map(Option::unwrap)
    }

    fn files(written: &Written) -> Vec<(String, String, u32)> {
        let text = |content: &[u8]| String::from_utf8(content.to_vec()).unwrap();
        let one = written.payload.files();
        one.map(|(path, file)| (path.to_string(), text(&file.content), file.mode.bits())).collect()
    }

    #[test]
    fn a_missing_trust_bundle_is_an_error_that_names_it_or_an_empty_file() {
        let issuer = Issuer::default();
        let bundle = |source: &str| {
            projected("", &format!(r#"{{"clusterTrustBundle":{{"path":"ca",{source}}}}}"#), &issuer)
        };
        assert_eq!(files(&bundle(r#""name":"known""#).unwrap()), [("ca".into(), "roots".into(), 0o440)]);
        let optional = bundle(r#""name":"gone","optional":true"#).unwrap();
        assert_eq!(files(&optional), [("ca".into(), String::new(), 0o440)]);
        let error = bundle(r#""name":"gone""#).unwrap_err();
        assert_eq!(error.to_string(), r#"volume "v": clusterTrustBundle "gone": not found"#);
        let error = bundle(r#""signerName":"a.b/c","labelSelector":{"matchLabels":{"k":"v"}}"#).unwrap_err();
        let expected = r#"signerName "a.b/c" and labelSelector {"matchLabels":{"k":"v"}}: not found"#;
        assert!(error.to_string().ends_with(expected), "{error}");
        bundle(r#""signerName":"a.b/c""#).unwrap_err();
        assert!(issuer.bundles.lock().unwrap().last().unwrap().contains("matches none"));
    }

    #[test]
    fn a_key_and_its_certificates_are_files_of_their_own_or_one() {
        let issuer = Issuer::default();
        let source = |paths: &str| {
            format!(
                r#"{{"podCertificate":{{"signerName":"a.b/c","keyType":"ED25519","maxExpirationSeconds":3600,
                "userAnnotations":{{"a.b/d":"e"}},{paths}}}}}"#
            )
        };
        let paths = r#""credentialBundlePath":"all","keyPath":"key","certificateChainPath":"chain""#;
        let sources = format!(r#"{{"downwardAPI":{{}}}},{}"#, source(paths));
        let written = projected("", &sources, &issuer).unwrap();
        let all = [("all", "k3y\nchain\n"), ("chain", "chain\n"), ("key", "k3y\n")];
        assert_eq!(files(&written), all.map(|(path, content)| (path.into(), content.into(), 0o440)));
        assert!(!format!("{written:?}").contains("k3y"));
        let own = projected(r#""runAsUser":5"#, &source(r#""keyPath":"key""#), &issuer).unwrap();
        assert_eq!(files(&own), [("key".into(), "k3y\n".into(), 0o600)]);
        let requests = issuer.certificates.lock().unwrap();
        let first = &requests[0];
        assert_eq!(first.place, CertificatePlace { volume: "v".into(), source: 1 });
        assert_eq!((first.service_account.as_str(), first.signer.as_str()), ("robot", "a.b/c"));
        assert_eq!((first.key_type.as_str(), first.max_expiration_seconds), ("ED25519", Some(3600)));
        assert_eq!(first.annotations["a.b/d"], "e");
    }

    #[test]
    fn a_token_is_asked_for_the_pod_and_closed_to_all_but_its_user_or_group() {
        let issuer = Issuer::default();
        let file = |security: &str| {
            let written = written(security, r#""path":"token""#, &issuer).unwrap();
            assert!(!format!("{written:?}").contains("t0ken"));
            let (path, file) = written.payload.files().next().unwrap();
            assert_eq!((path.to_string().as_str(), file.content.as_slice()), ("token", &b"t0ken"[..]));
            (file.mode.bits(), file.owner.map(ids::ContainerId::get))
        };
        assert_eq!(file(""), (0o440, None), "the volume's defaultMode");
        assert_eq!(file(r#""runAsUser":1000"#), (0o600, Some(1000)));
        assert_eq!(file(r#""fsGroup":2000"#), (0o600, None));
        written("", r#""path":"t","audience":"vault","expirationSeconds":600"#, &issuer).unwrap();
        let requests = issuer.tokens.lock().unwrap();
        let (first, last) = (&requests[0], requests.last().unwrap());
        assert_eq!((first.account().as_str(), first.pod.uid.as_str()), ("shop/robot", "u-1"));
        assert_eq!((first.audience.as_deref(), first.expiration_seconds), (None, 3600));
        assert_eq!((last.audience.as_deref(), last.expiration_seconds), (Some("vault"), 600));
    }

    #[test]
    fn without_an_api_server_there_is_no_token() {
        let error = written("", r#""path":"token""#, &crate::Objects::default()).unwrap_err();
        assert!(matches!(error, Error::Token { .. }), "{error}");
    }
}
