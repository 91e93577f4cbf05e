//! What a claim's volume lies on, as far as the objects say.

use plan::{Intent, PersistentSource, PersistentVolume, VolumeSource};

use crate::objects::Objects;
use crate::volumes::{Claim, StoredVolume};

/// What the volumes of well-known drivers and plugins lie on where they do not say.
const LIES_ON: [(&str, &str); 32] = [
    ("nfs.csi.k8s.io", "nfs"),
    ("efs.csi.aws.com", "nfs"),
    ("filestore.csi.storage.gke.io", "nfs"),
    ("smb.csi.k8s.io", "cifs"),
    ("file.csi.azure.com", "cifs"),
    ("cephfs.csi.ceph.com", "ceph"),
    ("openshift-storage.cephfs.csi.ceph.com", "ceph"),
    ("rook-ceph.cephfs.csi.ceph.com", "ceph"),
    ("cephfs", "ceph"),
    ("glusterfs", "fuse"),
    ("s3.csi.aws.com", "fuse"),
    ("gcsfuse.csi.storage.gke.io", "fuse"),
    ("csi.juicefs.com", "fuse"),
    ("blob.csi.azure.com", "fuse"),
    ("ebs.csi.aws.com", "ext4"),
    ("pd.csi.storage.gke.io", "ext4"),
    ("disk.csi.azure.com", "ext4"),
    ("cinder.csi.openstack.org", "ext4"),
    ("csi.vsphere.vmware.com", "ext4"),
    ("rbd.csi.ceph.com", "ext4"),
    ("openshift-storage.rbd.csi.ceph.com", "ext4"),
    ("rook-ceph.rbd.csi.ceph.com", "ext4"),
    ("rbd", "ext4"),
    ("driver.longhorn.io", "ext4"),
    ("csi.hetzner.cloud", "ext4"),
    ("dobs.csi.digitalocean.com", "ext4"),
    ("linodebs.csi.linode.com", "ext4"),
    ("linstor.csi.linbit.com", "ext4"),
    ("topolvm.io", "xfs"),
    ("local.csi.openebs.io", "ext4"),
    ("zfs.csi.openebs.io", "zfs"),
    ("block.csi.ibm.com", "ext4"),
];

fn lies_on(driver: &str) -> Option<String> {
    LIES_ON.iter().find(|(name, _)| *name == driver).map(|(_, filesystem)| (*filesystem).to_owned())
}

impl Objects {
    /// The same intent with claims followed to their volumes and runtime classes to their handlers.
    /// `made` are the claims that its owner makes for its pods, by the volume's name.
    #[must_use]
    pub fn resolved(&self, intent: &Intent, made: &[(String, Claim)]) -> Intent {
        let mut intent = intent.clone();
        if let Some(handler) = self.runtime_classes.get(&intent.runtime_handler) {
            intent.runtime_handler.clone_from(handler);
        }
        let namespace = intent.pod.namespace.clone();
        for volume in &mut intent.volumes {
            if let VolumeSource::InTree(own) = &mut volume.source {
                own.volume = self.known(&own.volume);
            }
            let VolumeSource::Claim { name } = &volume.source else { continue };
            let template = made.iter().find(|(of, _)| *of == volume.name).map(|(_, claim)| claim);
            let name = if template.is_some() { format!("{name}-0") } else { name.clone() };
            let found = self.volume_of(&namespace, &name).map(|stored| self.known(&stored.plan));
            let claim = self.claims.get(&(namespace.clone(), name)).or(template);
            if let Some(known) = found.or_else(|| self.provisioned(claim?)) {
                volume.source = VolumeSource::Persistent(known);
            }
        }
        intent
    }

    /// The volume that a claim is bound to: the one it names, or the one that names it.
    pub(crate) fn volume_of(&self, namespace: &str, claim: &str) -> Option<&StoredVolume> {
        let key = (namespace.to_owned(), claim.to_owned());
        let named = self.claims.get(&key).and_then(|claim| claim.volume.as_ref());
        match named {
            Some(name) => self.volumes.get(name),
            None => self.volumes.get(self.bound.get(&key)?),
        }
    }

    fn known(&self, volume: &PersistentVolume) -> PersistentVolume {
        let mut volume = volume.clone();
        let provider = match &mut volume.source {
            PersistentSource::Csi { driver, selinux_mount } => {
                *selinux_mount = self.drivers.get(driver).copied();
                Some(driver.clone())
            }
            PersistentSource::Other(plugin) => Some(plugin.clone()),
            _ => None,
        };
        volume.fs_type = volume.fs_type.or_else(|| lies_on(&provider?));
        volume
    }

    /// The volume that an unbound claim will get, where its class names a provisioner.
    fn provisioned(&self, claim: &Claim) -> Option<PersistentVolume> {
        let driver = self.storage_classes.get(claim.storage_class.as_ref()?)?;
        let source = PersistentSource::Csi { driver: driver.clone(), selinux_mount: None };
        let access_modes = claim.access_modes.clone();
        let made = PersistentVolume { name: String::new(), access_modes, source, fs_type: None };
        Some(self.known(&made))
    }
}
