//! What the operator wants for files that cannot be idmapped, and what becomes of a pod by annotation that has such.
//! Needs root.

use crate::isolation;
use crate::wrapped;

use std::fs;
use std::path::Path;

use isolation::{Host, debians};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::json;
use wrapped::{Wrapped, stderr};

const RUNC: &str = "/usr/sbin/runc";

/// What is said of a container with a volume on a filesystem that the kernel does not idmap.
fn refused(policy: &str) -> String {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let policy = format!("policy: {{volumes: {{cannotIdmap: {policy}}}}}");
        wrapped.configure(Path::new(RUNC), "enable_user_namespace_annotation: true", &policy);
        let volume = host.path("ramfs");
        fs::create_dir(&volume).unwrap();
        mount("ramfs", &volume, "ramfs", MountFlags::empty(), None).unwrap();
        fs::write(volume.join("file"), "words").unwrap();
        let (id, bundle) = host.bundle(&host.pod(0), |spec| {
            spec["annotations"] = json!({
                "io.kubernetes.cri.container-type": "sandbox",
                "wardlet.dev/user-namespace": "true",
            });
            spec["mounts"].as_array_mut().unwrap().push(json!({
                "destination": "/data", "type": "bind", "source": volume, "options": ["rbind", "rw"],
            }));
        });
        let output = wrapped.create(&bundle, &id);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(wrapped.records(), [], "nothing is left of it");
        assert_eq!(isolation::owner(&volume.join("file")), (0, 0), "nothing was given away");
        unmount(bundle.join("rootfs"), UnmountFlags::DETACH).unwrap();
        unmount(&volume, UnmountFlags::DETACH).unwrap();
        stderr(&output)
    })
}

#[test]
fn a_volume_that_cannot_be_idmapped_is_refused_by_the_policys_name_with_what_the_kernel_said() {
    let cases = [
        ("refuse", "/ramfs cannot be idmapped for /data: "),
        ("sharedBlock", "cannotIdmap: sharedBlock is not for pods by annotation"),
        ("chownOnce", "cannotIdmap: chownOnce is not for pods by annotation"),
    ];
    for (policy, word) in cases {
        let said = refused(policy);
        assert!(said.contains(word), "{policy}: {said}");
        assert!(said.contains("Invalid argument"), "{policy}: {said}");
        let hint = said.split_once("hint: ").unwrap_or_else(|| panic!("no hint: {said}")).1;
        assert!(hint.contains("ext4"), "{hint}");
        assert_eq!(hint.contains("wardlet agent"), policy != "refuse", "{hint}");
    }
}
