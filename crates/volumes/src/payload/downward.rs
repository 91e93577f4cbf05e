use std::collections::BTreeMap;
use std::fmt;

use types::Quantity;

use super::quote::lines;
use super::{Mode, Problem};

/// What the downward API can give to a pod.
#[derive(Debug, Clone, Default)]
pub struct PodFields {
    /// metadata.name
    pub name: String,
    /// metadata.namespace
    pub namespace: String,
    /// metadata.uid
    pub uid: String,
    /// metadata.labels
    pub labels: BTreeMap<String, String>,
    /// metadata.annotations
    pub annotations: BTreeMap<String, String>,
    /// What each container, init containers too, may use.
    pub containers: BTreeMap<String, Resources>,
    /// What the node has for pods: the limit of a container that has none.
    pub allocatable: BTreeMap<Resource, Quantity>,
}

/// What one container asks for and may use.
#[derive(Debug, Clone, Default)]
pub struct Resources {
    /// resources.limits
    pub limits: BTreeMap<Resource, Quantity>,
    /// resources.requests
    pub requests: BTreeMap<Resource, Quantity>,
}

/// A resource that a file can tell about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// cpu
    Cpu,
    /// memory
    Memory,
    /// ephemeral-storage
    EphemeralStorage,
    /// hugepages-SIZE
    HugePages(String),
}

impl Resource {
    fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::EphemeralStorage,
            _ => Self::HugePages(name.strip_prefix("hugepages-")?.to_owned()),
        })
    }

    fn grain(&self) -> Quantity {
        match self {
            Self::Cpu => Quantity::MILLI,
            Self::Memory | Self::EphemeralStorage | Self::HugePages(_) => Quantity::ONE,
        }
    }

    /// Huge pages are never promised beyond what there is, so no container is without a limit of them.
    fn falls_back_on_the_node(&self) -> bool {
        !matches!(self, Self::HugePages(_))
    }
}

/// Which of a container's two lists is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// resources.limits
    Limit,
    /// resources.requests
    Request,
}

/// One file of a downwardAPI volume.
#[derive(Debug, Clone)]
pub struct DownwardFile {
    /// Where it goes.
    pub path: String,
    /// Its mode, if not the volume's.
    pub mode: Option<Mode>,
    /// What is in it.
    pub value: Value,
}

/// What a file tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A field of the pod.
    Field(Field),
    /// An amount.
    Resource(ResourceField),
}

/// A field of the pod, as fieldRef names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Field {
    /// metadata.name
    Name,
    /// metadata.namespace
    Namespace,
    /// metadata.uid
    Uid,
    /// metadata.labels: all of them
    Labels,
    /// metadata.annotations: all of them
    Annotations,
    /// metadata.labels['KEY']
    Label(String),
    /// metadata.annotations['KEY']
    Annotation(String),
}

/// A field that a volume cannot tell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a field that a downwardAPI volume supports")]
pub struct UnknownField(pub String);

impl Field {
    /// The field that `path` names.
    pub fn parse(path: &str) -> Result<Self, UnknownField> {
        let keyed = path.strip_suffix("']").and_then(|rest| rest.split_once("['"));
        Ok(match (path, keyed) {
            (_, Some(("metadata.labels", key))) => Self::Label(key.to_owned()),
            (_, Some(("metadata.annotations", key))) => Self::Annotation(key.to_owned()),
            ("metadata.name", None) => Self::Name,
            ("metadata.namespace", None) => Self::Namespace,
            ("metadata.uid", None) => Self::Uid,
            ("metadata.labels", None) => Self::Labels,
            ("metadata.annotations", None) => Self::Annotations,
            _ => return Err(UnknownField(path.to_owned())),
        })
    }

    fn of(&self, pod: &PodFields) -> String {
        match self {
            Self::Name => pod.name.clone(),
            Self::Namespace => pod.namespace.clone(),
            Self::Uid => pod.uid.clone(),
            Self::Labels => lines(&pod.labels),
            Self::Annotations => lines(&pod.annotations),
            // One that is not there reads as nothing.
            Self::Label(key) => pod.labels.get(key).cloned().unwrap_or_default(),
            Self::Annotation(key) => pod.annotations.get(key).cloned().unwrap_or_default(),
        }
    }
}

/// An amount of one container, as resourceFieldRef names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceField {
    /// The container.
    pub container: String,
    /// Its limit or its request.
    pub bound: Bound,
    /// Of what.
    pub resource: Resource,
    /// The unit of the value.
    pub divisor: Quantity,
}

impl ResourceField {
    /// The amount that `resource`, such as `limits.cpu`, names; in whole units, unless `divisor` is set.
    pub fn parse(container: &str, resource: &str) -> Result<Self, UnknownField> {
        let unknown = || UnknownField(resource.to_owned());
        let (list, name) = resource.split_once('.').ok_or_else(unknown)?;
        let bound = match list {
            "limits" => Bound::Limit,
            "requests" => Bound::Request,
            _ => return Err(unknown()),
        };
        let resource = Resource::parse(name).ok_or_else(unknown)?;
        Ok(Self { container: container.to_owned(), bound, resource, divisor: Quantity::ONE })
    }

    fn of(&self, pod: &PodFields) -> Result<String, Problem> {
        let container = pod
            .containers
            .get(&self.container)
            .ok_or_else(|| Problem::NoContainer { container: self.container.clone() })?;
        let list = match self.bound {
            Bound::Limit => &container.limits,
            Bound::Request => &container.requests,
        };
        let own = list.get(&self.resource).copied().unwrap_or_default();
        let amount = match self.bound {
            Bound::Limit if own == Quantity::ZERO && self.resource.falls_back_on_the_node() => {
                pod.allocatable.get(&self.resource).copied().unwrap_or_default()
            }
            _ => own,
        };
        Ok(amount.divided_by(self.divisor, self.resource.grain()).to_string())
    }
}

impl Value {
    pub(crate) fn of(&self, pod: &PodFields) -> Result<Vec<u8>, Problem> {
        match self {
            Self::Field(field) => Ok(field.of(pod).into_bytes()),
            Self::Resource(resource) => resource.of(pod).map(String::into_bytes),
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Memory => f.write_str("memory"),
            Self::EphemeralStorage => f.write_str("ephemeral-storage"),
            Self::HugePages(size) => write!(f, "hugepages-{size}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> PodFields {
        let container = Resources {
            limits: BTreeMap::from([
                (Resource::Cpu, Quantity::from_thousandths(1500)),
                (Resource::Memory, Quantity::default()),
                (Resource::HugePages("2Mi".to_owned()), Quantity::from_units(4 << 20)),
            ]),
            requests: BTreeMap::from([(Resource::Cpu, Quantity::from_thousandths(250))]),
        };
        PodFields {
            name: "web".to_owned(),
            namespace: "shop".to_owned(),
            uid: "u-1".to_owned(),
            labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
            annotations: BTreeMap::from([("note".to_owned(), "two\nlines".to_owned())]),
            containers: BTreeMap::from([("app".to_owned(), container)]),
            allocatable: BTreeMap::from([
                (Resource::Cpu, Quantity::from_units(8)),
                (Resource::Memory, Quantity::from_units(1 << 30)),
                (Resource::EphemeralStorage, Quantity::from_units(5)),
                (Resource::HugePages("1Gi".to_owned()), Quantity::from_units(1 << 30)),
            ]),
        }
    }

    fn field(path: &str) -> String {
        Field::parse(path).unwrap().of(&pod())
    }

    fn amount(resource: &str, divisor: Quantity) -> String {
        ResourceField { divisor, ..ResourceField::parse("app", resource).unwrap() }.of(&pod()).unwrap()
    }

    #[test]
    fn fields_are_told() {
        assert_eq!(field("metadata.name"), "web");
        assert_eq!(field("metadata.namespace"), "shop");
        assert_eq!(field("metadata.uid"), "u-1");
        assert_eq!(field("metadata.labels"), "app=\"web\"");
        assert_eq!(field("metadata.annotations"), "note=\"two\\nlines\"");
        assert_eq!(field("metadata.labels['app']"), "web");
        assert_eq!(field("metadata.annotations['note']"), "two\nlines");
        assert_eq!(field("metadata.labels['none']"), "");
    }

    #[test]
    fn fields_that_only_a_variable_can_tell_are_unknown() {
        for path in
            ["spec.nodeName", "status.podIP", "metadata", "metadata.name['x']", "metadata.labels['x'", ""]
        {
            assert_eq!(Field::parse(path), Err(UnknownField(path.to_owned())));
        }
    }

    #[test]
    fn amounts_are_told_in_the_divisors_unit_rounded_up() {
        assert_eq!(amount("limits.cpu", Quantity::ONE), "2");
        assert_eq!(amount("limits.cpu", Quantity::from_thousandths(1)), "1500");
        assert_eq!(amount("requests.cpu", Quantity::from_thousandths(1)), "250");
        assert_eq!(amount("limits.hugepages-2Mi", Quantity::from_units(1 << 20)), "4");
    }

    #[test]
    fn a_limit_that_is_not_set_is_the_nodes_and_a_request_is_nothing() {
        assert_eq!(amount("limits.memory", Quantity::from_units(1 << 20)), "1024");
        assert_eq!(amount("limits.ephemeral-storage", Quantity::ONE), "5");
        assert_eq!(amount("limits.hugepages-1Gi", Quantity::ONE), "0", "the node's huge pages are no limit");
        assert_eq!(amount("requests.memory", Quantity::ONE), "0");
    }

    #[test]
    fn resources_and_containers_that_are_not_there_are_named() {
        for name in ["limits", "limits.gpu", "cpu", "limit.cpu"] {
            assert!(ResourceField::parse("app", name).is_err(), "{name}");
        }
        let of_none = ResourceField::parse("missing", "limits.cpu").unwrap().of(&pod()).unwrap_err();
        assert_eq!(of_none.to_string(), "container missing is not in the pod");
    }
}
