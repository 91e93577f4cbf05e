//! Where a container's files come from, and what is refused. Needs root and Debian's runc.

use crate::isolation;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use isolation::{BASE, Host, Pod, checks, debians, owner, spec};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::{Value, json};

/// A bundle whose overlay is mounted anew, by other names of its layers.
fn mounted_anew(host: &Host, pod: &Pod, lowers: &str) -> (String, std::path::PathBuf) {
    mounted_by(host, pod, |number, at| host.mount_overlay(number, at, lowers))
}

fn mounted_by(host: &Host, pod: &Pod, mount: impl FnOnce(u32, &Path)) -> (String, std::path::PathBuf) {
    let (id, bundle) =
        host.bundle(pod, |spec| spec::script(spec, 0, "cat /home/ann/text; stat -c :%u /home/ann"));
    let upper = checks::upper_of(host, &bundle);
    let number = upper.parent().unwrap().file_name().unwrap().to_str().unwrap().parse().unwrap();
    unmount(bundle.join("rootfs"), UnmountFlags::empty()).unwrap();
    mount(number, &bundle.join("rootfs"));
    (id, bundle)
}

fn said(host: &Host, pod: &Pod, id: &str, bundle: &Path) -> String {
    let mut container = host.create_in(pod, id, bundle).unwrap_or_else(|error| panic!("{error}"));
    host.start(&container);
    let mut said = String::new();
    std::io::Read::read_to_string(&mut container.out.take().unwrap(), &mut said).unwrap();
    said.trim().to_owned()
}

/// containerd names layers so when their paths would not fit into one page.
#[test]
fn relative_layers_are_found_beside_the_containers_own() {
    Host::play(debians(), |host| {
        let pod = host.pod(BASE);
        let (id, bundle) = mounted_anew(host, &pod, "");
        assert!(
            host.mounts()
                .at(&bundle.join("rootfs"))
                .unwrap()
                .super_options
                .iter()
                .any(|o| o == "lowerdir=2/fs:1/fs")
        );
        assert_eq!(said(host, &pod, &id, &bundle), "ann's:1000");
    });
}

/// Somebody has put another image where the layers would be looked for.
#[test]
fn relative_layers_that_are_others_are_refused() {
    Host::play(debians(), |host| {
        let pod = host.pod(BASE);
        let (id, bundle) = mounted_anew(host, &pod, "");
        let layer = host.path("snapshots/2");
        fs::rename(&layer, host.path("snapshots/moved")).unwrap();
        fs::create_dir_all(layer.join("fs/home")).unwrap();
        let error = host.create_in(&pod, &id, &bundle).err().unwrap();
        assert!(error.contains("its layers are not where they seem to be: home is another file"), "{error}");
        fs::remove_dir_all(&layer).unwrap();
        let error = host.create_in(&pod, &id, &bundle).err().unwrap();
        assert!(error.contains("snapshots/2/fs is not there"), "{error}");
    });
}

#[test]
fn layers_are_found_by_names_that_need_escapes() {
    Host::play(debians(), |host| {
        let pod = host.pod(BASE);
        symlink(host.path("snapshots"), host.path("odd:, =name")).unwrap();
        let lowers = host.path(r"odd\:\, =name");
        let (id, bundle) = mounted_anew(host, &pod, lowers.to_str().unwrap());
        assert_eq!(said(host, &pod, &id, &bundle), "ann's:1000");
    });
}

/// As CRI-O mounts it. The kernel lets no other overlay have its directory for work.
#[test]
fn an_overlay_that_need_not_last_is_made_anew_beside_its_own() {
    Host::play(debians(), |host| {
        let pod = host.pod(BASE);
        let (id, bundle) = mounted_by(host, &pod, |number, at| host.mount_volatile(number, at));
        assert_eq!(said(host, &pod, &id, &bundle), "ann's:1000");
    });
}

/// As snapshotters without overlays have it: what is written is on disk as the container's numbers.
#[test]
fn a_directory_or_a_bind_is_idmapped_as_a_whole() {
    for bound in [false, true] {
        Host::play(debians(), |host| {
            let pod = host.pod(BASE);
            let (id, bundle) = host.bundle(&pod, |spec| {
                spec::script(spec, 0, "stat -c %u / /etc; touch /new && chown 5:5 /new && stat -c %u /new");
            });
            let rootfs = bundle.join("rootfs");
            unmount(&rootfs, UnmountFlags::empty()).unwrap();
            let on_disk = if bound { host.layer(1) } else { rootfs.clone() };
            if bound {
                rustix::mount::mount_bind(host.layer(1), &rootfs).unwrap();
            } else {
                fs::create_dir_all(rootfs.join("bin")).unwrap();
                fs::copy("/bin/busybox", rootfs.join("bin/busybox")).unwrap();
                for name in ["sh", "stat", "touch", "chown"] {
                    symlink("busybox", rootfs.join("bin").join(name)).unwrap();
                }
                ["proc", "sys", "dev", "etc"]
                    .iter()
                    .for_each(|dir| fs::create_dir(rootfs.join(dir)).unwrap());
            }
            assert_eq!(said(host, &pod, &id, &bundle).lines().collect::<Vec<_>>(), ["0", "0", "5"]);
            assert_eq!((owner(&on_disk), owner(&on_disk.join("new"))), ((0, 0), (5, 5)));
        });
    }
}

fn refused(host: &Host, change: impl FnOnce(&mut Value)) -> String {
    let pod = host.pod(BASE);
    let (id, bundle) = host.bundle(&pod, change);
    let before = host.mounts();
    let error = host.create_in(&pod, &id, &bundle).err().unwrap();
    host.assert_mounts(&before, "at the end");
    error
}

#[test]
fn what_cannot_be_idmapped_or_would_let_mounts_out_is_refused_with_its_name() {
    Host::play(debians(), |host| {
        let merged = host.path("merged");
        fs::create_dir(&merged).unwrap();
        let options = format!("lowerdir={}:{}", host.layer(2).display(), host.layer(1).display());
        let options = std::ffi::CString::new(options).unwrap();
        mount("overlay", &merged, "overlay", MountFlags::empty(), options.as_c_str()).unwrap();
        let error = refused(host, |spec| spec::bind(spec, &merged, "/data", &["rbind", "rprivate"]));
        assert!(error.contains(&format!("{} cannot be idmapped for /data", merged.display())), "{error}");
        let error = refused(host, |spec| spec::bind(spec, &merged, "/data", &["rbind", "rshared"]));
        assert!(error.contains("/data: mounts cannot propagate from a user namespace"), "{error}");
        let error = refused(host, |spec| spec["process"]["user"] = json!({ "uid": 70_000, "gid": 0 }));
        assert!(error.contains("user 70000 is not in the pod's maps"), "{error}");
        let error = refused(host, |spec| spec["linux"]["sysctl"] = json!({ "net.core.nonsense": "1" }));
        assert!(error.contains("sysctl net.core.nonsense=1"), "{error}");
    });
}

/// A number that is another process's by now would lead to another pod's users.
#[test]
fn a_user_namespace_with_other_maps_is_not_joined() {
    Host::play(debians(), |host| {
        let mut pod = host.running_pod(BASE);
        pod.base = 2 * BASE;
        let (id, bundle) = host.bundle(&pod, |_| {});
        let error = host.create_in(&pod, &id, &bundle).err().unwrap();
        assert!(error.contains("it maps 0:1048576:65536 and not 0:2097152:65536"), "{error}");
        pod.init = Some(std::process::id());
        let error = host.create_in(&pod, &id, &bundle).err().unwrap();
        assert!(error.contains("it maps 0:0:4294967295 and not 0:2097152:65536"), "{error}");
    });
}

/// A snapshot that was written to in one block is not taken into another, where its files would be nobody's.
#[test]
fn what_another_block_has_written_to_is_refused() {
    Host::play(debians(), |host| {
        let pod = host.pod(BASE);
        let (id, bundle) = host.bundle(&pod, |spec| spec::script(spec, 0, "touch /mine"));
        assert_eq!(said(host, &pod, &id, &bundle), "");
        assert!(host.runtime(&["delete", "--force", &id]).status.success());
        assert_eq!(said(host, &pod, &id, &bundle), "", "in the same block it goes on");
        assert!(host.runtime(&["delete", "--force", &id]).status.success());
        let error = host.create_in(&host.pod(2 * BASE), &id, &bundle).err().unwrap();
        assert!(
            error.contains("belongs to 1048576:1048576: it was used with another block of IDs"),
            "{error}"
        );
    });
}

/// Whose settings are the host's, and stay so.
#[test]
fn with_the_hosts_network_sys_is_the_hosts_and_no_setting_is_made() {
    Host::play(debians(), |host| {
        let pod = host.pod(BASE);
        let ports = "/proc/sys/net/ipv4/ip_unprivileged_port_start";
        let before = fs::read_to_string(ports).unwrap();
        let said = host.run(&pod, |spec| {
            let namespaces = spec["linux"]["namespaces"].as_array_mut().unwrap();
            namespaces.retain(|namespace| namespace["type"] != "network");
            spec::script(
                spec,
                0,
                "readlink /proc/self/ns/net; touch /sys/x 2>/dev/null || echo kept; ls /sys/class/net",
            );
        });
        let own = fs::read_link("/proc/thread-self/ns/net").unwrap().display().to_string();
        assert_eq!(said.lines().take(2).collect::<Vec<_>>(), [own.as_str(), "kept"]);
        assert_eq!(fs::read_to_string(ports).unwrap(), before);
    });
}
