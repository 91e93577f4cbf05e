//! From a pod, and the objects it names, to an intent.

mod cluster;
mod container;
mod devices;
mod volume;

use std::fmt::Display;

use k8s_openapi::api::core::v1::SELinuxOptions;
use plan::{ChangePolicy, HostNamespaces, Intent, PodIdentity, VolumeChoice};
use selinux::SelinuxOptions;
use types::keys::{IDS, VOLUME_POLICY};

use crate::finding::{Finding, Problem};
use crate::object::PodRef;
use crate::place::Path;

pub use cluster::Cluster;
pub use devices::{DEVICES, devices};
pub use volume::lower_volume;

/// The intent of a pod, or of a workload's pods. The pod is taken to be valid; only our own
/// annotations are looked at here for the first time.
pub fn lower(pod: &PodRef<'_>, cluster: &Cluster<'_>) -> Result<Intent, Vec<Finding>> {
    let annotations = Annotations::of(pod);
    match (annotations.ids(), annotations.volume_policy(), annotations.devices()) {
        (Ok(ids), Ok(volume_policy), Ok(())) => Ok(Intent { ids, volume_policy, ..plain(pod, cluster) }),
        (ids, policy, devices) => {
            Err([ids.err(), policy.err(), devices.err()].into_iter().flatten().collect())
        }
    }
}

fn plain(pod: &PodRef<'_>, cluster: &Cluster<'_>) -> Intent {
    let spec = pod.spec;
    let context = spec.security_context.clone().unwrap_or_default();
    let root = pod.field("");
    Intent {
        pod: PodIdentity {
            namespace: pod.object.namespace().to_owned(),
            name: pod.object.name().to_owned(),
            uid: pod.metadata.and_then(|m| m.uid.clone()),
        },
        asked_by: pod.field("hostUsers"),
        host_users: spec.host_users,
        host: HostNamespaces {
            network: spec.host_network == Some(true),
            pid: spec.host_pid == Some(true),
            ipc: spec.host_ipc == Some(true),
        },
        containers: container::all(spec, &root),
        volumes: volume::all(pod, cluster, &root),
        selinux: context.se_linux_options.as_ref().map(selinux),
        change_policy: context.se_linux_change_policy.as_deref().and_then(ChangePolicy::from_name),
        fs_group: context.fs_group.and_then(id),
        supplemental_groups: context.supplemental_groups.into_iter().flatten().filter_map(id).collect(),
        ids: None,
        volume_policy: None,
        runtime_handler: cluster.handler(spec.runtime_class_name.as_deref().unwrap_or_default()),
    }
}

/// A field's number as an ID, if it is one.
fn id<T: TryFrom<u64>>(number: i64) -> Option<T> {
    u64::try_from(number).ok().and_then(|n| T::try_from(n).ok())
}

fn selinux(options: &SELinuxOptions) -> SelinuxOptions {
    let SELinuxOptions { level, role, type_, user } = options.clone();
    SelinuxOptions { user, role, kind: type_, level }
}

/// A pod's annotations of ours.
struct Annotations<'a, 'b>(&'b PodRef<'a>);

impl<'a, 'b> Annotations<'a, 'b> {
    fn of(pod: &'b PodRef<'a>) -> Self {
        Self(pod)
    }

    fn get(&self, name: &str) -> Option<&'a String> {
        self.0.metadata?.annotations.as_ref()?.get(name)
    }

    fn wrong(&self, name: &str, problem: Problem) -> Finding {
        let object = self.0.object;
        let mut place = (object.tree.at, String::new());
        crate::place::under(&Path::Under(&object.prefix), self.0.steps, &mut |root| {
            let metadata = root.field("metadata");
            let annotations = metadata.field("annotations");
            let path = annotations.field(name);
            place = (object.tree.place_of(&path), path.to_string());
        });
        Finding { file: object.file.clone(), at: place.0, path: place.1, problem }
    }

    fn ids(&self) -> Result<Option<u64>, Finding> {
        let read = |text: &String| match text.parse::<u64>() {
            Ok(ids) if ids > 0 && ids % 65_536 == 0 => Ok(ids),
            _ => Err(self.wrong(IDS, Problem::invalid(quoted(text), "must be a multiple of 65536"))),
        };
        self.get(IDS).map(read).transpose()
    }

    fn devices(&self) -> Result<(), Finding> {
        let named = devices(self.0.metadata.and_then(|m| m.annotations.as_ref()));
        named.map(drop).map_err(|word| {
            let allowed = devices::GIVEN.to_vec();
            self.wrong(DEVICES, Problem::NotSupported { value: quoted(word), allowed })
        })
    }

    fn volume_policy(&self) -> Result<Option<VolumeChoice>, Finding> {
        let read = |text: &String| match text.as_str() {
            "refuse" => Ok(VolumeChoice::Refuse),
            "sharedBlock" => Ok(VolumeChoice::SharedBlock),
            "chownOnce" => Ok(VolumeChoice::ChownOnce),
            "ephemeralOnly" => Ok(VolumeChoice::EphemeralOnly),
            _ => {
                let allowed = vec!["refuse", "sharedBlock", "chownOnce", "ephemeralOnly"];
                Err(self.wrong(VOLUME_POLICY, Problem::NotSupported { value: quoted(text), allowed }))
            }
        };
        self.get(VOLUME_POLICY).map(read).transpose()
    }
}

fn quoted(text: impl Display) -> String {
    format!("{:?}", text.to_string().chars().take(60).collect::<String>())
}
