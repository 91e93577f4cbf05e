//! The downward API: fields of a pod that its files and variables can contain.

use std::collections::BTreeMap;

use manifest::k8s_openapi::api::core::v1::{
    ObjectFieldSelector, ResourceFieldSelector, ResourceRequirements,
};
use manifest::k8s_openapi::apimachinery::pkg::api::resource::Quantity as Written;
use types::Quantity;
use volumes::payload::downward::{DownwardFile, Field, Resource, ResourceField, Resources, Value};
use volumes::payload::{Mode, Payload, PodFields, Source, Volume};

use crate::error::{Error, Result};
use crate::pod::context::PodContext;
use crate::pod::node_fields::NodeFields;

/// The parsed quantity; zero if it is negative or invalid, which validation has already refused.
pub(crate) fn quantity(written: &Written) -> Quantity {
    written.0.parse().map_or(Quantity::ZERO, |amount: Quantity| amount.max(Quantity::ZERO))
}

fn amounts(list: Option<&BTreeMap<String, Written>>) -> BTreeMap<Resource, Quantity> {
    let all = list.into_iter().flatten();
    all.filter_map(|(name, q)| Some((resource(name)?, quantity(q)))).collect()
}

/// A resource that the downward API can tell of.
fn resource(name: &str) -> Option<Resource> {
    ResourceField::parse("", &format!("limits.{name}")).ok().map(|field| field.resource)
}

fn resources(found: Option<&ResourceRequirements>) -> Resources {
    Resources {
        limits: amounts(found.and_then(|r| r.limits.as_ref())),
        requests: amounts(found.and_then(|r| r.requests.as_ref())),
    }
}

/// The pod's fields for the downward API.
pub(crate) fn of(context: &PodContext) -> PodFields {
    let metadata = &context.pod.metadata;
    let containers = context.all_containers();
    PodFields {
        name: context.name.clone(),
        namespace: context.namespace.clone(),
        uid: context.uid.as_str().to_owned(),
        labels: metadata.labels.clone().unwrap_or_default(),
        annotations: metadata.annotations.clone().unwrap_or_default(),
        containers: containers.map(|c| (c.name.clone(), resources(c.resources.as_ref()))).collect(),
        allocatable: allocatable(&context.node_fields),
    }
}

/// The node's allocatable resources: the downward API reports them for a container without a limit.
fn allocatable(node: &NodeFields) -> BTreeMap<Resource, Quantity> {
    let named = |(name, amount): (&String, &Quantity)| Some((resource(name)?, *amount));
    let all: BTreeMap<Resource, Quantity> = node.allocatable.iter().filter_map(named).collect();
    if !all.is_empty() {
        return all;
    }
    let cores = std::thread::available_parallelism().map_or(1, |n| u64::try_from(n.get()).unwrap_or(1));
    let mut all = BTreeMap::from([(Resource::Cpu, Quantity::from_units(cores))]);
    if let Some(bytes) = memory() {
        all.insert(Resource::Memory, Quantity::from_units(bytes));
    }
    all
}

/// The node's memory in bytes.
pub(crate) fn memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

pub(crate) fn field_value(selector: &ObjectFieldSelector) -> Result<Value> {
    let field = Field::parse(&selector.field_path);
    field.map(Value::Field).map_err(|e| Error::config("fieldRef.fieldPath", e.to_string()))
}

pub(crate) fn resource_value(selector: &ResourceFieldSelector, own: &str) -> Result<Value> {
    let container = selector.container_name.as_deref().filter(|n| !n.is_empty()).unwrap_or(own);
    let mut field = ResourceField::parse(container, &selector.resource)
        .map_err(|e| Error::config("resourceFieldRef.resource", e.to_string()))?;
    if let Some(divisor) = selector.divisor.as_ref().map(quantity).filter(|n| *n > Quantity::ZERO) {
        field.divisor = divisor;
    }
    Ok(Value::Resource(field))
}

/// One value as text, formatted as in a downwardAPI volume.
pub(crate) fn text(value: Value, fields: &PodFields) -> Result<String> {
    let file = DownwardFile { path: "value".to_owned(), mode: None, value };
    let sources = vec![Source::DownwardApi(vec![file])];
    let volume = Volume { name: "env".to_owned(), default_mode: Mode::DEFAULT, sources };
    let payload = Payload::of(&volume, fields)?;
    let content = payload.files().next().map(|(_, file)| file.content.clone()).unwrap_or_default();
    Ok(String::from_utf8_lossy(&content).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_without_a_limit_is_told_what_the_node_has_for_pods() {
        let mut context = PodContext::for_test(r#"{"containers":[{"name":"a"}]}"#);
        let told = |context: &PodContext, resource: &str| {
            let selector = ResourceFieldSelector { resource: resource.into(), ..Default::default() };
            text(resource_value(&selector, "a").unwrap(), &of(context)).unwrap()
        };
        assert_eq!(told(&context, "limits.memory"), memory().unwrap().to_string());
        let amounts = [("cpu", 1500), ("memory", 64_000), ("ephemeral-storage", 7_000), ("pods", 110_000)];
        let amounts = amounts.map(|(name, n)| (name.to_owned(), Quantity::from_thousandths(n)));
        context.node_fields = NodeFields { allocatable: amounts.into(), ..NodeFields::default() }.into();
        let all = ["limits.cpu", "limits.memory", "limits.ephemeral-storage", "requests.cpu"];
        assert_eq!(all.map(|resource| told(&context, resource)), ["2", "64", "7", "0"]);
    }

    #[test]
    fn an_amount_that_is_no_quantity_or_negative_counts_as_zero() {
        let of = |text: &str| quantity(&Written(text.into()));
        assert_eq!(of("250m"), Quantity::from_thousandths(250));
        assert_eq!(of("2Ki"), Quantity::from_units(2048));
        assert_eq!((of("rubbish"), of("-500m"), of("-5")), (Quantity::ZERO, Quantity::ZERO, Quantity::ZERO));
    }
}
