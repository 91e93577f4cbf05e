//! Metadata of objects, as far as a watch needs it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Read {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
}

/// Name, namespace, UID and version: labels, annotations and managed fields are not kept while an object is read.
pub(super) fn slim<'de, D: Deserializer<'de>>(from: D) -> Result<ObjectMeta, D::Error> {
    let Read { name, namespace, uid, resource_version } = Read::deserialize(from)?;
    Ok(ObjectMeta { name, namespace, uid, resource_version, ..ObjectMeta::default() })
}

/// The name of an object; empty if it has none.
pub(crate) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// The namespace of an object; empty if it has none.
pub(crate) fn namespace(meta: &ObjectMeta) -> &str {
    meta.namespace.as_deref().unwrap_or_default()
}

/// Makes a slim type the type of a resource of the API.
macro_rules! resource {
    ($type:ty, $scope:ty, $group:literal, $kind:literal, $plural:literal) => {
        impl ::kube::Resource for $type {
            type DynamicType = ();
            type Scope = $scope;

            fn kind(_: &()) -> ::std::borrow::Cow<'_, str> {
                $kind.into()
            }

            fn group(_: &()) -> ::std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version(_: &()) -> ::std::borrow::Cow<'_, str> {
                "v1".into()
            }

            fn plural(_: &()) -> ::std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ::k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(super) use resource;
