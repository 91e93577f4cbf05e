//! Conversion of a pod's volumes to requests to `volumes`, and of a container's mounts to CRI.

use std::collections::BTreeMap;
use std::path::PathBuf;

use ids::IdKind;
use manifest::k8s_openapi::api::core::v1::{Container, Volume, VolumeMount};
use plan::{HowLabelled, MountPlan, Owners};
use types::MountPropagation;
use volumes::kinds::{EmptyDir, HostPath, HostPathType, Medium};
use volumes::sub_path::{SubPath, expand};
use volumes::{
    ContainerName, HostMount, MountAccess, Relabel, Source, VolumeManager, VolumeName, Wanted, WantedMount,
    WantedVolume,
};

use crate::cri::mappings::id_mappings;
use crate::error::{Error, Result};
use crate::pod::context::PodContext;
use crate::pod::fields;
use crate::pod::images;
use crate::pod::payload::Writer;
use crate::pod::users;
use crate::ports::ObjectStore;

/// Maximum size of the files of all configMap, secret, downwardAPI and projected volumes of a pod. They are in memory while they
/// are written, and many volumes can be of one object.
const LARGEST_FILES: u64 = volumes::payload::LARGEST as u64;
/// The kernel's limit of a path.
const LONGEST_PATH: usize = 4096;

/// The desired volumes of a pod, with the current contents of their files.
///
/// # Errors
/// The first volume whose content cannot be had, and why.
pub(crate) fn wanted(context: &PodContext, objects: &dyn ObjectStore) -> Result<Wanted> {
    let (wanted, errors) = available(context, objects);
    errors.into_iter().next().map_or(Ok(wanted), Err)
}

/// The desired volumes of a pod whose contents can be had, and why those of the others cannot.
pub(crate) fn available(context: &PodContext, objects: &dyn ObjectStore) -> (Wanted, Vec<Error>) {
    let fields = fields::of(context);
    let writer = Writer { context, fields: &fields, objects };
    let (mut volumes, mut errors) = (Vec::new(), Vec::new());
    let mut room = LARGEST_FILES;
    for volume in context.spec.volumes.iter().flatten().filter(|volume| volume.image.is_none()) {
        match one(context, volume, &writer).and_then(|volume| within(&mut room, volume)) {
            Ok(volume) => volumes.push(volume),
            Err(error) => errors.push(error),
        }
    }
    let (pod, users, fs_group) = (context.uid.clone(), context.users.clone(), users::fs_group(context));
    (Wanted { pod, users, fs_group, volumes }, errors)
}

/// The volume, if there is room for its files.
fn within(room: &mut u64, volume: WantedVolume) -> Result<WantedVolume> {
    if let Source::Written(written) = &volume.source {
        *room = room.checked_sub(written.payload.size()).ok_or_else(|| {
            let cause =
                format!("with it the files of the pod's volumes have more than {} MiB", LARGEST_FILES >> 20);
            Error::config(format!("volume {:?}", volume.name.as_str()), cause)
        })?;
    }
    Ok(volume)
}

fn one(context: &PodContext, volume: &Volume, writer: &Writer<'_>) -> Result<WantedVolume> {
    let source = match writer.written(volume)? {
        Some(written) => Source::Written(written),
        None => made_of(volume)?,
    };
    let planned = context.plan.iter().flat_map(|plan| &plan.volumes).find(|v| v.name == volume.name);
    // A volume that no container mounts has no plan, and needs no owners.
    let owners = planned.map_or(Owners::AsOnDisk, |v| v.owners);
    Ok(WantedVolume { name: name(&volume.name)?, owners, source })
}

fn name(name: &str) -> Result<VolumeName> {
    VolumeName::new(name).map_err(|e| Error::config("spec.volumes", e.to_string()))
}

fn made_of(volume: &Volume) -> Result<Source> {
    let field = format!("volume {:?}", volume.name);
    let wrong = |cause: String| Error::config(field.clone(), cause);
    if let Some(empty) = &volume.empty_dir {
        let medium = empty.medium.as_deref().unwrap_or_default();
        let size = empty.size_limit.as_ref().map(|q| fields::quantity(q).units());
        return Ok(Source::EmptyDir(EmptyDir {
            medium: Medium::parse(medium).map_err(|e| wrong(e.to_string()))?,
            size_limit: size.and_then(|n| u64::try_from(n).ok()),
            mode: empty.mode.and_then(|n| u32::try_from(n).ok()),
        }));
    }
    if let Some(host) = &volume.host_path {
        let kind = HostPathType::parse(host.type_.as_deref().unwrap_or_default());
        let kind = kind.map_err(|e| wrong(e.to_string()))?;
        return Ok(Source::HostPath(HostPath { path: PathBuf::from(&host.path), kind }));
    }
    let hint = "use emptyDir, hostPath, configMap, secret, downwardAPI, projected or image volumes";
    Err(admission::Error::NotRun { field, what: "a volume of this kind".to_owned(), hint }.into())
}

/// Mounts a pod's volumes into its containers.
pub(crate) struct Mounter<'a> {
    pub(crate) context: &'a PodContext,
    pub(crate) volumes: &'a VolumeManager,
    pub(crate) wanted: &'a Wanted,
    /// The IDs of the images of image volumes, by the volume's name.
    pub(crate) images: &'a BTreeMap<String, String>,
}

impl Mounter<'_> {
    /// The container's mounts, in the order of volumeMounts. `variables` are for subPathExpr.
    pub(crate) fn all(
        &self,
        container: &Container,
        variables: &BTreeMap<String, String>,
    ) -> Result<Vec<cri::Mount>> {
        let mounts = container.volume_mounts.iter().flatten().enumerate();
        mounts.map(|(index, mount)| self.one(container, index, mount, variables)).collect()
    }

    fn one(
        &self,
        container: &Container,
        index: usize,
        mount: &VolumeMount,
        variables: &BTreeMap<String, String>,
    ) -> Result<cri::Mount> {
        let planned = self.planned(container, mount);
        let sub_path = sub_path(mount, variables)?;
        let listed = self.context.spec.volumes.iter().flatten().find(|v| v.name == mount.name);
        if let Some(image) = listed.and_then(|v| v.image.as_ref()) {
            return Ok(self.image(image.reference.as_deref().unwrap_or_default(), mount, sub_path.as_ref()));
        }
        let field = || format!("container {:?}", container.name);
        let wanted = WantedMount {
            container: ContainerName::new(container.name.as_str())
                .map_err(|e| Error::config(field(), e.to_string()))?,
            index,
            volume: name(&mount.name)?,
            path: PathBuf::from(&mount.mount_path),
            sub_path,
            access: access(mount, planned),
            propagation: propagation(mount),
            relabel: relabel(planned),
        };
        Ok(lowered(&self.volumes.host_mount(self.wanted, &wanted)?))
    }

    fn planned(&self, container: &Container, mount: &VolumeMount) -> Option<&MountPlan> {
        let mut all = self.context.plan.iter().flat_map(|plan| &plan.mounts);
        all.find(|m| m.container == container.name && m.path == mount.mount_path)
    }

    /// An image volume: the runtime mounts it and resolves its sub path.
    fn image(&self, reference: &str, mount: &VolumeMount, sub_path: Option<&SubPath>) -> cri::Mount {
        // The image that was pulled or found, whatever its name stands for by now.
        let id = self.images.get(&mount.name).map(String::as_str).unwrap_or_default();
        cri::Mount {
            container_path: mount.mount_path.clone(),
            readonly: true,
            uid_mappings: self.context.mappings(IdKind::Uid),
            gid_mappings: self.context.mappings(IdKind::Gid),
            image: Some(cri::ImageSpec {
                user_specified_image: reference.to_owned(),
                annotations: self.context.annotations(),
                ..images::spec(id, &self.context.handler)
            }),
            image_sub_path: sub_path.map(|p| p.as_path().display().to_string()).unwrap_or_default(),
            ..cri::Mount::default()
        }
    }
}

fn sub_path(mount: &VolumeMount, variables: &BTreeMap<String, String>) -> Result<Option<SubPath>> {
    let expression = mount.sub_path_expr.as_deref().filter(|e| !e.is_empty());
    let path = match expression {
        Some(expression) if expression.len() > LONGEST_PATH => {
            return Err(Error::config("subPathExpr", "it is longer than a path may be"));
        }
        Some(expression) => {
            // With a limit to the expression and to each variable, the text that they make has one too.
            let usable = variables.iter().filter(|(_, value)| value.len() <= LONGEST_PATH);
            let variables = &usable.map(|(name, value)| (name.clone(), value.clone())).collect();
            expand(expression, variables).map_err(|e| Error::config("subPathExpr", e.to_string()))?
        }
        None => mount.sub_path.clone().unwrap_or_default(),
    };
    SubPath::new(&path).map_err(|e| Error::config("subPath", e.to_string()))
}

fn access(mount: &VolumeMount, planned: Option<&MountPlan>) -> MountAccess {
    match (mount.read_only == Some(true), planned.is_some_and(|p| p.recursive_read_only)) {
        (true, true) => MountAccess::RecursiveReadOnly,
        (true, false) => MountAccess::ReadOnly,
        (false, _) => MountAccess::ReadWrite,
    }
}

fn relabel(planned: Option<&MountPlan>) -> Relabel {
    match planned.map(|p| p.label.how) {
        Some(HowLabelled::Relabel) => Relabel::Yes,
        _ => Relabel::No,
    }
}

fn propagation(mount: &VolumeMount) -> MountPropagation {
    mount.mount_propagation.as_deref().and_then(MountPropagation::from_name).unwrap_or_default()
}

fn lowered(mount: &HostMount) -> cri::Mount {
    let propagation = match mount.propagation {
        MountPropagation::None => cri::MountPropagation::PropagationPrivate,
        MountPropagation::HostToContainer => cri::MountPropagation::PropagationHostToContainer,
        MountPropagation::Bidirectional => cri::MountPropagation::PropagationBidirectional,
    };
    cri::Mount {
        container_path: mount.container_path.display().to_string(),
        host_path: mount.host_path.display().to_string(),
        readonly: mount.access != MountAccess::ReadWrite,
        recursive_read_only: mount.access == MountAccess::RecursiveReadOnly,
        selinux_relabel: mount.relabel == Relabel::Yes,
        propagation: propagation.into(),
        uid_mappings: id_mappings(&mount.uid_mappings),
        gid_mappings: id_mappings(&mount.gid_mappings),
        ..cri::Mount::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cri::security::of_container;
    use crate::pod::images::ImageUser;

    #[test]
    fn a_mount_is_carried_on_and_closed_as_it_says() {
        let of = |text: &str| {
            let mount: VolumeMount =
                serde_json::from_str(&format!(r#"{{"name":"v","mountPath":"/v"{text}}}"#)).unwrap();
            (propagation(&mount), access(&mount, None))
        };
        assert_eq!(of(""), (MountPropagation::None, MountAccess::ReadWrite));
        assert_eq!(
            of(r#","mountPropagation":"Bidirectional""#),
            (MountPropagation::Bidirectional, MountAccess::ReadWrite)
        );
        let host = r#","mountPropagation":"HostToContainer","readOnly":true"#;
        assert_eq!(of(host), (MountPropagation::HostToContainer, MountAccess::ReadOnly));
    }

    const FACTS: &str = r#"{"kernel":{"userNamespaces":"yes","maxUserNamespaces":9,"idmappedMounts":"yes"},
        "filesystems":{"idmap":{},"kinds":{},"paths":{}},
        "runtime":{"handlers":{"":{"userNamespaces":true,"recursiveReadOnlyMounts":true}},"userNamespacesHostNetwork":false},
        "selinux":{"state":"disabled","defaults":null},
        "pool":{"length":65536,"longest":65536,"blocks":9,"origin":"a test"}}"#;

    /// `explain` shows the plan, and the runtime gets what this module makes of the pod.
    #[test]
    fn the_plan_says_of_read_only_and_propagation_what_the_runtime_is_asked_for() {
        let facts: plan::Facts = serde_json::from_str(FACTS).unwrap();
        for more in [
            "",
            ", readOnly: true",
            ", readOnly: true, recursiveReadOnly: IfPossible",
            ", readOnly: true, recursiveReadOnly: Enabled",
            ", mountPropagation: HostToContainer",
            ", mountPropagation: None",
        ] {
            let text = format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [{{name: c, image: i, \
                 volumeMounts: [{{name: v, mountPath: /v{more}}}]}}], volumes: [{{name: v, emptyDir: {{}}}}]}}}}"
            );
            let reading = manifest::read("p.yaml", text.as_bytes());
            let candidates = admission::consider(&reading.objects, &plan::Gates::default());
            let running = admission::RunningPods::default();
            let admitted =
                admission::admit(&candidates, &facts, &plan::Policy::default(), "node-1", &running).admitted;
            let spec = admitted[0].pod.spec.clone().unwrap();
            let asked = &spec.containers[0].volume_mounts.as_ref().unwrap()[0];
            let planned = &admitted[0].plan.as_ref().unwrap().mounts[0];
            let access = access(asked, Some(planned));
            assert_eq!(planned.read_only, access != MountAccess::ReadWrite, "{more}");
            assert_eq!(planned.recursive_read_only, access == MountAccess::RecursiveReadOnly, "{more}");
            assert_eq!(planned.propagation, propagation(asked), "{more}");
        }
    }

    /// With SELinux: a volume is relabelled where the plan says so, and the label that the plan names has the level that the
    /// runtime gets for the container.
    #[test]
    fn the_plan_says_of_labels_what_the_runtime_is_asked_for() {
        let file = "system_u:object_r:container_file_t:s0";
        let enforcing = format!(
            r#"{{"state":"enforcing","defaults":{{"process":"system_u:system_r:container_t:s0","file":"{file}","readOnlyFile":"{file}"}}}}"#
        );
        let facts = FACTS.replace(r#"{"state":"disabled","defaults":null}"#, &enforcing);
        let facts: plan::Facts = serde_json::from_str(&facts).unwrap();
        let pod_level = "securityContext: {seLinuxOptions: {level: 's0:c1,c2'}}, ";
        let own_level = ", securityContext: {seLinuxOptions: {level: 's0:c3,c4'}}";
        for (pod, container, relabels, level) in [
            (pod_level, "", true, Some("s0:c1,c2")),
            ("", own_level, true, Some("s0:c3,c4")),
            (pod_level, own_level, true, Some("s0:c3,c4")),
            // The runtime picks the level, or finds the leased one in the request.
            ("", "", true, None),
            (pod_level, ", securityContext: {privileged: true}", false, None),
        ] {
            let text = format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{{pod}containers: [{{name: c, image: i{container}, \
                 volumeMounts: [{{name: v, mountPath: /v}}]}}], volumes: [{{name: v, emptyDir: {{}}}}]}}}}"
            );
            let reading = manifest::read("p.yaml", text.as_bytes());
            let candidates = admission::consider(&reading.objects, &plan::Gates::default());
            let admitted = admission::admit(
                &candidates,
                &facts,
                &plan::Policy::default(),
                "node-1",
                &admission::RunningPods::default(),
            )
            .admitted;
            let spec = admitted[0].pod.spec.clone().unwrap();
            let context = PodContext::for_test(&serde_json::to_string(&spec).unwrap());
            let asked = of_container(&context, &spec.containers[0], &ImageUser::default());
            let planned = &admitted[0].plan.as_ref().unwrap().mounts[0];
            assert_eq!(relabel(Some(planned)) == Relabel::Yes, relabels, "{text}: {planned:?}");
            let of_plan = planned.label.context.as_ref().map(ToString::to_string);
            assert_eq!(of_plan, level.map(|level| file.replace("s0", level)), "{text}");
            if level.is_some() {
                assert_eq!(asked.selinux_options.map(|options| options.level).as_deref(), level, "{text}");
            }
        }
    }

    /// One ConfigMap with 1 MiB, in many volumes.
    #[test]
    fn the_files_of_a_pod_have_a_limit() {
        struct One;
        impl ObjectStore for One {
            fn config_map(&self, _: &str, _: &str) -> Result<Option<volumes::payload::ConfigMap>> {
                let data = [("k".to_owned(), "x".repeat(1 << 20))].into();
                Ok(Some(volumes::payload::ConfigMap { data, ..Default::default() }))
            }
            fn secret(&self, _: &str, _: &str) -> Result<Option<volumes::payload::Secret>> {
                Ok(None)
            }
        }
        let of = |count: usize| {
            let volume = |number: usize| format!(r#"{{"name":"v{number}","configMap":{{"name":"x"}}}}"#);
            let volumes = (0..count).map(volume).collect::<Vec<_>>().join(",");
            let context = PodContext::for_test(&format!(r#"{{"containers":[],"volumes":[{volumes}]}}"#));
            super::wanted(&context, &One).map(|wanted| wanted.volumes.len())
        };
        assert_eq!(of(64).unwrap(), 64);
        let error = of(65).unwrap_err().to_string();
        assert!(error.contains("volume \"v64\"") && error.contains("64 MiB"), "{error}");
    }

    /// A ConfigMap that was deleted kept all other files of the pod as they were.
    #[test]
    fn a_volume_without_its_object_does_not_keep_others_from_being_updated() {
        let context = PodContext::for_test(
            r#"{"containers":[],"volumes":[{"name":"gone","configMap":{"name":"x"}},
            {"name":"about","downwardAPI":{"items":[{"path":"n","fieldRef":{"fieldPath":"metadata.name"}}]}}]}"#,
        );
        let objects = crate::Objects::default();
        let (wanted, errors) = available(&context, &objects);
        assert_eq!(wanted.volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), ["about"]);
        assert!(matches!(&errors[..], [Error::Payload(error)] if error.volume == "gone"), "{errors:?}");
        assert!(super::wanted(&context, &objects).is_err());
    }

    #[test]
    fn volumes_are_made_of_what_they_name() {
        let of = |text: &str| {
            let volume: Volume = serde_json::from_str(&format!(r#"{{"name":"v",{text}}}"#)).unwrap();
            made_of(&volume).map_err(|e| e.to_string())
        };
        let Ok(Source::HostPath(host)) = of(r#""hostPath":{"path":"/srv","type":"Directory"}"#) else {
            panic!()
        };
        assert_eq!(
            (host.path, host.kind),
            (PathBuf::from("/srv"), HostPathType::parse("Directory").unwrap())
        );
        let Ok(Source::EmptyDir(empty)) =
            of(r#""emptyDir":{"medium":"Memory","sizeLimit":"1Mi","mode":1023}"#)
        else {
            panic!()
        };
        assert_eq!((empty.size_limit, empty.mode), (Some(1 << 20), Some(1023)));
        assert!(of(r#""hostPath":{"path":"/srv","type":"Nonsense"}"#).is_err());
    }
}
