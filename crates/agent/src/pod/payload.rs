//! The files of configMap, secret, downwardAPI and projected volumes, from the current objects.

use manifest::k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath as ApiKey, ServiceAccountTokenProjection, Volume as ApiVolume,
    VolumeProjection,
};
use volumes::kinds::{Written, WrittenKind};
use volumes::payload::downward::DownwardFile;
use volumes::payload::{
    Bytes, ConfigMap, KeyToPath, Mode, Need, Object, Payload, PodFields, Secret, Source, Volume,
};

use crate::error::{Error, Result};
use crate::pod::context::PodContext;
use crate::pod::{fields, users};
use crate::ports::{ObjectStore, TokenRequest};

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
        let field = format!("volume {:?}", volume.name);
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
            let sources = projected.sources.iter().flatten().map(|source| self.projection(source, &field));
            (WrittenKind::Projected, projected.default_mode, sources.collect::<Result<_>>()?)
        } else {
            return Ok(None);
        };
        let default_mode = bits(mode)?.unwrap_or(Mode::DEFAULT);
        let named = Volume { name: volume.name.clone(), default_mode, sources };
        Ok(Some(Written { kind, payload: Payload::of(&named, self.fields)? }))
    }

    fn projection(&self, source: &VolumeProjection, field: &str) -> Result<Source> {
        if let Some(map) = &source.config_map {
            return Ok(Source::ConfigMap(self.config_map(&map.name, map.items.as_deref(), map.optional)?));
        }
        if let Some(secret) = &source.secret {
            return Ok(Source::Secret(self.secret(
                &secret.name,
                secret.items.as_deref(),
                secret.optional,
            )?));
        }
        if let Some(downward) = &source.downward_api {
            return Ok(Source::DownwardApi(self.downward(downward.items.as_deref())?));
        }
        if let Some(token) = &source.service_account_token {
            return Ok(Source::Bytes(self.token(token)?));
        }
        let what = "a source that only an API server has".to_owned();
        let hint = "leave it out: it is not supported";
        Err(admission::Error::NotRun { field: field.to_owned(), what, hint }.into())
    }

    /// A token as a file. It has the volume's mode, unless it can belong to the one user of all containers or to the pod's
    /// fsGroup: then it is closed to all others.
    fn token(&self, source: &ServiceAccountTokenProjection) -> Result<Bytes> {
        let request = TokenRequest {
            pod: self.context.reference(),
            service_account: self.context.spec.service_account_name.clone().unwrap_or_default(),
            audience: source.audience.clone().filter(|audience| !audience.is_empty()),
            expiration_seconds: source.expiration_seconds.unwrap_or(DEFAULT_SECONDS),
        };
        let owner = users::common_user(self.context);
        let is_private = owner.is_some() || users::fs_group(self.context).is_some();
        Ok(Bytes {
            what: "serviceAccountToken".to_owned(),
            path: source.path.clone(),
            content: self.objects.token(&request)?.expose().as_bytes().to_vec(),
            mode: is_private.then_some(Mode::PRIVATE),
            owner,
        })
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
    use crate::ports::Token;

    #[derive(Default)]
    struct Issuer(Mutex<Vec<TokenRequest>>);

    impl ObjectStore for Issuer {
        fn config_map(&self, _: &str, _: &str) -> Result<Option<ConfigMap>> {
            Ok(None)
        }

        fn secret(&self, _: &str, _: &str) -> Result<Option<Secret>> {
            Ok(None)
        }

        fn token(&self, request: &TokenRequest) -> Result<Token> {
            self.0.lock().unwrap().push(request.clone());
            Ok(Token::new("t0ken".to_owned()))
        }
    }

    fn written(security: &str, source: &str, objects: &dyn ObjectStore) -> Result<Written> {
        let context = PodContext::for_test(&format!(
            r#"{{"serviceAccountName":"robot","securityContext":{{{security}}},"containers":[{{"name":"a"}}],
            "volumes":[{{"name":"v","projected":{{"defaultMode":288,"sources":[{{"serviceAccountToken":{{{source}}}}}]}}}}]}}"#
        ));
        let fields = fields::of(&context);
        let writer = Writer { context: &context, fields: &fields, objects };
        writer.written(&context.spec.volumes.as_ref().unwrap()[0]).map(Option::unwrap)
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
        let requests = issuer.0.lock().unwrap();
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
