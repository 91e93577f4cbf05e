//! Capabilities, system calls, AppArmor, SELinux, paths, devices.

use std::io;

use container::{Device, DeviceRule, NodeOwner, Seccomp, capabilities};
use cri::security_profile::ProfileType;
use cri::{Capability, CdiDevice, Device as CriDevice, SeLinuxOption, SecurityProfile};
use runtime::spec::AppArmor;
use serde_json::json;

use super::{Wish, strings};

const SECURITY: &str = "linux.security_context";

fn profile(kind: ProfileType, local: &str) -> Option<SecurityProfile> {
    Some(SecurityProfile { profile_type: kind.into(), localhost_ref: local.into() })
}

#[test]
fn capabilities_are_added_and_dropped() {
    let caps = |add: &[&str], drop: &[&str], ambient: &[&str]| {
        Wish::new().with(|security| {
            security.capabilities = Some(Capability {
                add_capabilities: strings(add),
                drop_capabilities: strings(drop),
                add_ambient_capabilities: strings(ambient),
            });
        })
    };
    assert_eq!(caps(&["SYS_TIME"], &["ALL"], &[]).start().process.capabilities.effective, ["CAP_SYS_TIME"]);
    assert_eq!(caps(&[], &["ALL"], &["NET_RAW"]).start().process.capabilities.ambient, ["CAP_NET_RAW"]);
    let field = |list: &str| format!("{SECURITY}.capabilities.{list}");
    assert_eq!(caps(&["NOPE"], &[], &[]).refused("NOPE"), field("add_capabilities"));
    assert_eq!(caps(&[], &["NOPE"], &[]).refused("NOPE"), field("drop_capabilities"));
    assert_eq!(caps(&[], &[], &["NOPE"]).refused("NOPE"), field("add_ambient_capabilities"));
}

#[test]
fn a_privileged_container_has_everything_where_the_sandbox_allows_it() {
    let wish = Wish::new().with(|security| security.privileged = true);
    assert_eq!(wish.refused("not made for privileged"), format!("{SECURITY}.privileged"));
    for wish in [Wish::new(), Wish::in_user_namespace()] {
        let start = wish
            .with(|security| {
                security.masked_paths = strings(&["/proc/kcore"]);
                security.seccomp = profile(ProfileType::RuntimeDefault, "");
            })
            .privileged()
            .start();
        assert_eq!(start.process.capabilities, capabilities::all());
        assert_eq!(start.process.seccomp, Seccomp::Unconfined);
        assert!(start.masked_paths.is_empty() && start.read_only_paths.is_empty());
        let all = DeviceRule { allow: true, kind: 'a', major: None, minor: None, access: "rwm".into() };
        assert_eq!(start.device_rules, [all]);
        let every = Device {
            source: "/dev".into(),
            target: "/dev".into(),
            access: "rwm".into(),
            owner: NodeOwner::Host,
        };
        assert_eq!(start.devices, [every]);
    }
}

#[test]
fn nothing_said_is_no_filter_and_the_runtimes_own_depends_on_capabilities() {
    assert_eq!(Wish::new().start().process.seccomp, Seccomp::Unconfined);
    let filter = |add: &[&str]| {
        let wish = Wish::new().with(|security| {
            security.seccomp = profile(ProfileType::RuntimeDefault, "");
            security.capabilities = Some(Capability { add_capabilities: strings(add), ..Default::default() });
        });
        match wish.start().process.seccomp {
            Seccomp::Profile(profile) => *profile,
            Seccomp::Unconfined => panic!("there is no filter"),
        }
    };
    assert_eq!(filter(&[])["defaultAction"], "SCMP_ACT_ERRNO");
    assert_ne!(filter(&[]), filter(&["SYS_ADMIN"]));
}

#[test]
fn a_profile_of_the_hosts_is_read_whole_or_refused() {
    let good = json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": ["SCMP_ARCH_X86_64"],
        "syscalls": [{ "names": ["chmod"], "action": "SCMP_ACT_ERRNO", "errnoRet": 1,
                       "args": [{ "index": 1, "value": 7, "op": "SCMP_CMP_EQ" }] }],
    });
    let wish = |path: &str| Wish::new().with(|s| s.seccomp = profile(ProfileType::Localhost, path));
    let read = |text: String| {
        let file = move |path: &std::path::Path| {
            if path.to_str() == Some("/p.json") {
                Ok(text.clone().into_bytes())
            } else {
                Err(io::ErrorKind::NotFound.into())
            }
        };
        wish("/p.json").read_with(&file)
    };
    let Seccomp::Profile(found) = read(good.to_string()).unwrap().process.seccomp else { panic!() };
    assert_eq!(found["syscalls"][0]["args"][0]["value"], 7);
    assert_eq!(
        (&found["defaultAction"], &found["architectures"]),
        (&good["defaultAction"], &good["architectures"])
    );
    for (text, cause) in [
        ("nonsense", "expected"),
        ("{}", "defaultAction"),
        // A form of docker's, whose conditions would be lost.
        (
            r#"{"defaultAction":"A","syscalls":[{"names":["x"],"action":"B","includes":{"caps":["C"]}}]}"#,
            "includes",
        ),
        (r#"{"defaultAction":"SCMP_ACT_NOTIFY"}"#, "SCMP_ACT_NOTIFY"),
        (r#"{"defaultAction":"A","listenerPath":"/x"}"#, "listenerPath"),
        // By position nothing is left out, and nothing is what it seems.
        (r#"["SCMP_ACT_ALLOW"]"#, "a list stands"),
        (r#"{"defaultAction":"A","syscalls":[[["x"],"B"]]}"#, "a list stands"),
    ] {
        let refusal = read(text.to_owned()).unwrap_err();
        assert_eq!(refusal.field, format!("{SECURITY}.seccomp.localhost_ref"));
        assert!(refusal.cause.contains("/p.json") && refusal.cause.contains(cause), "{refusal}");
    }
    assert_eq!(wish("/other").refused("not found"), format!("{SECURITY}.seccomp.localhost_ref"));
    assert_eq!(wish("p.json").refused("not absolute"), format!("{SECURITY}.seccomp.localhost_ref"));
    assert_eq!(wish("").refused("is empty"), format!("{SECURITY}.seccomp.localhost_ref"));
}

#[test]
fn profiles_in_the_fields_of_old_are_understood() {
    let wish = |path: &str| Wish::new().with(|security| security.seccomp_profile_path = path.into());
    assert_eq!(wish("unconfined").start().process.seccomp, Seccomp::Unconfined);
    assert!(matches!(wish("runtime/default").start().process.seccomp, Seccomp::Profile(_)));
    assert_eq!(wish("localhost//p").refused("/p"), format!("{SECURITY}.seccomp_profile_path"));
    assert_eq!(wish("mine").refused("is no runtime/default"), format!("{SECURITY}.seccomp_profile_path"));
    // What is said today counts before it.
    let both = wish("mine").with(|s| s.seccomp = profile(ProfileType::Unconfined, ""));
    assert_eq!(both.start().process.seccomp, Seccomp::Unconfined);
}

#[test]
fn a_path_for_a_profile_that_takes_none_is_refused() {
    for kind in [ProfileType::Unconfined, ProfileType::RuntimeDefault] {
        let wish = Wish::new().with(|s| s.seccomp = profile(kind, "/p"));
        assert_eq!(wish.refused("only for"), format!("{SECURITY}.seccomp.localhost_ref"));
    }
    let wish = Wish::new()
        .with(|s| s.seccomp = Some(SecurityProfile { profile_type: 9, localhost_ref: String::new() }));
    assert_eq!(wish.refused("no type"), format!("{SECURITY}.seccomp.profile_type"));
}

#[test]
fn apparmor_is_applied_where_it_is_on_and_refused_where_it_is_not() {
    let wish = |kind: Option<SecurityProfile>, node: Option<AppArmor>| {
        let mut wish = Wish::new().with(|security| security.apparmor = kind.clone());
        wish.node.apparmor = node;
        wish
    };
    let loaded = AppArmor { default: Some("own".into()), loaded: strings(&["own", "mine"]) };
    let bare = AppArmor { default: None, loaded: strings(&["mine"]) };
    let name = |wish: &Wish| wish.start().process.apparmor_profile;
    assert_eq!(name(&wish(None, None)), None);
    assert_eq!(name(&wish(profile(ProfileType::Unconfined, ""), None)), None);
    assert_eq!(name(&wish(None, Some(loaded.clone()))).as_deref(), Some("own"));
    assert_eq!(name(&wish(None, Some(bare.clone()))), None);
    let mine = profile(ProfileType::Localhost, "localhost/mine");
    assert_eq!(name(&wish(mine.clone(), Some(bare.clone()))).as_deref(), Some("mine"));
    assert_eq!(name(&wish(profile(ProfileType::Unconfined, ""), Some(loaded.clone()))), None);
    assert_eq!(name(&wish(None, Some(loaded.clone())).privileged()), None);
    assert_eq!(name(&wish(mine.clone(), Some(loaded)).privileged()).as_deref(), Some("mine"));
    let field = format!("{SECURITY}.apparmor");
    assert_eq!(wish(mine, None).refused("not switched on"), field);
    let default = profile(ProfileType::RuntimeDefault, "");
    assert_eq!(wish(default.clone(), None).refused("not switched on"), field);
    assert_eq!(wish(default, Some(bare.clone())).refused("no AppArmor profile"), field);
    assert_eq!(wish(profile(ProfileType::Localhost, "other"), Some(bare)).refused("\"other\""), field);
    let old = Wish::new().with(|security| security.apparmor_profile = "localhost/x".into());
    assert_eq!(old.refused("not switched on"), format!("{SECURITY}.apparmor_profile"));
}

#[test]
fn selinux_labels_are_the_containers_else_the_pods() {
    let contexts =
        "process = \"system_u:system_r:container_t:s0\"\nfile = \"system_u:object_r:container_file_t:s0\"\n";
    let wish = |options: SeLinuxOption, pod: Option<&str>| {
        let mut wish = Wish::new().with(|security| security.selinux_options = Some(options.clone()));
        wish.node.selinux = Some(contexts.parse().unwrap());
        wish.place.label = pod.map(|label| label.parse().unwrap());
        wish
    };
    let label = |wish: &Wish| wish.start().process.selinux_label;
    let files = |wish: &Wish| wish.start().rootfs.label;
    let none = SeLinuxOption::default();
    let kind = SeLinuxOption { r#type: "spc_t".into(), ..none.clone() };
    let level = SeLinuxOption { level: "s0:c7,c8".into(), ..none.clone() };
    let pod = Some("system_u:system_r:container_t:s0:c1,c2");
    assert_eq!(label(&wish(none.clone(), pod)).as_deref(), pod);
    assert_eq!(label(&wish(kind.clone(), pod)).as_deref(), Some("system_u:system_r:spc_t:s0:c1,c2"));
    assert_eq!(label(&wish(level.clone(), pod)).as_deref(), Some("system_u:system_r:container_t:s0:c7,c8"));
    assert_eq!(label(&wish(none.clone(), None)).as_deref(), Some("system_u:system_r:container_t:s0"));
    let of_files = |level: &str| Some(format!("system_u:object_r:container_file_t:{level}"));
    assert_eq!(files(&wish(none, pod)), of_files("s0:c1,c2"), "its files are its own");
    assert_eq!(files(&wish(kind.clone(), pod).privileged()), None);
    assert_eq!(label(&wish(kind.clone(), pod).privileged()), None, "the policy has no label for it");
    let mut privileged = wish(level, pod).privileged();
    privileged.node.privileged_label = Some("system_u:system_r:spc_t:s0".parse().unwrap());
    assert_eq!(label(&privileged).as_deref(), Some("system_u:system_r:spc_t:s0"));
    assert_eq!(files(&privileged), None, "its files stay as they are");
    let mut off = wish(kind, pod);
    off.node.selinux = None;
    assert_eq!(label(&off), None);
    let bad = SeLinuxOption { user: "a b".into(), ..Default::default() };
    assert_eq!(wish(bad, pod).refused("a b"), format!("{SECURITY}.selinux_options"));
}

#[test]
fn paths_are_the_callers_and_the_usual_ones_only_for_who_says_nothing_at_all() {
    let mut silent = Wish::new();
    silent.config.linux = None;
    let start = silent.start();
    let ready = container::spec::PreparedPaths {
        rootfs: "/stage/rootfs".into(),
        binds: Vec::new(),
        volumes: Vec::new(),
        devices: Vec::new(),
        user: container::User { uid: 0, gid: 0, groups: Vec::new() },
        home: None,
        capabilities: start.process.capabilities.clone(),
    };
    let masked = container::spec::of(&start, &ready)["linux"]["maskedPaths"].clone();
    let throttling = "/sys/devices/system/cpu/cpu0/thermal_throttle";
    for path in ["/proc/kcore", "/sys/devices/virtual/powercap", throttling] {
        assert!(masked.as_array().unwrap().contains(&json!(path)), "{path} is missing in {masked}");
    }
    assert!(start.read_only_paths.contains(&"/proc/sys".to_owned()));
    // procMount: Unmasked
    let start = Wish::new().start();
    assert!(start.masked_paths.is_empty() && start.read_only_paths.is_empty());
    let given = Wish::new().with(|security| {
        security.masked_paths = strings(&["/proc/acpi"]);
        security.readonly_paths = strings(&["/proc/bus"]);
    });
    let start = given.start();
    assert_eq!(
        (start.masked_paths, start.read_only_paths),
        (strings(&["/proc/acpi"]), strings(&["/proc/bus"]))
    );
    let wrong = given.with(|security| security.readonly_paths = strings(&["/a", "b"]));
    assert_eq!(wrong.refused("not absolute"), format!("{SECURITY}.readonly_paths[1]"));
}

#[test]
fn no_new_privileges_is_handed_on() {
    assert!(!Wish::new().start().process.no_new_privileges);
    assert!(Wish::new().with(|security| security.no_new_privs = true).start().process.no_new_privileges);
}

#[test]
fn devices_are_handed_on_and_cdi_is_refused() {
    let device = |host: &str, inside: &str, permissions: &str| {
        let mut wish = Wish::new();
        wish.config.devices = vec![CriDevice {
            host_path: host.into(),
            container_path: inside.into(),
            permissions: permissions.into(),
        }];
        wish
    };
    let fuse = Device {
        source: "/dev/fuse".into(),
        target: "/dev/f".into(),
        access: "rw".into(),
        owner: NodeOwner::Container,
    };
    assert_eq!(device("/dev/fuse", "/dev/f", "rw").start().devices, [fuse]);
    assert_eq!(device("/dev/fuse", "", "r").start().devices[0].target.to_str(), Some("/dev/fuse"));
    assert_eq!(device("fuse", "/f", "r").refused("absolute"), "devices[0].host_path");
    assert_eq!(device("/dev/fuse", "f", "r").refused("absolute"), "devices[0].container_path");
    for letters in ["", "x", "rwx"] {
        assert_eq!(device("/dev/fuse", "", letters).refused("rwm"), "devices[0].permissions");
    }
    let mut cdi = Wish::new();
    cdi.config.cdi_devices = vec![CdiDevice { name: "vendor.com/gpu=0".into() }];
    assert_eq!(cdi.refused("vendor.com/gpu=0"), "CDI_devices[0]");
    let mut old = Wish::new();
    old.config.annotations.insert("cdi.k8s.io/plugin_0".into(), "vendor.com/gpu=0".into());
    assert_eq!(old.refused("CDI"), "annotations[cdi.k8s.io/plugin_0]");
}
