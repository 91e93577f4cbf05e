//! The files of configMap, secret, downwardAPI and projected volumes, from the current objects.

use manifest::k8s_openapi::api::core::v1::{
    DownwardAPIVolumeFile, KeyToPath as ApiKey, Volume as ApiVolume, VolumeProjection,
};
use volumes::kinds::{Written, WrittenKind};
use volumes::payload::downward::DownwardFile;
use volumes::payload::{
    ConfigMap, KeyToPath, Mode, Need, Object, Payload, PodFields, Secret, Source, Volume,
};

use crate::error::{Error, Result};
use crate::pod::fields;
use crate::ports::ObjectStore;

/// Derives the files of volumes from the pod's fields and the objects that it references.
pub(crate) struct Writer<'a> {
    pub(crate) namespace: &'a str,
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
        let what = if source.service_account_token.is_some() {
            "a service account's token"
        } else {
            "a source that only an API server has"
        };
        let hint = "leave it out: there is no API server that could give it";
        Err(admission::Error::NotRun { field: field.to_owned(), what: what.to_owned(), hint }.into())
    }

    fn config_map(
        &self,
        name: &str,
        items: Option<&[ApiKey]>,
        optional: Option<bool>,
    ) -> Result<Object<ConfigMap>> {
        let found = self.objects.config_map(self.namespace, name)?;
        Ok(Object { name: name.to_owned(), found, items: keys(items)?, need: need(optional) })
    }

    fn secret(&self, name: &str, items: Option<&[ApiKey]>, optional: Option<bool>) -> Result<Object<Secret>> {
        let found = self.objects.secret(self.namespace, name)?;
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
