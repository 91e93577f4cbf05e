//! `wardlet verify` on real pods made by hand: good ones pass, and every planted violation is named.

use crate::test_pods;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use kernel::NamespaceKind;
use test_pods::{Planted, Site, TestPod, Users, Volume, Wanted, entering, maps};

/// Far from the blocks of all other tests; each test has 16 blocks of its own.
fn pool(number: u64) -> u64 {
    3_623_878_656 + number * 16 * 65_536
}

#[test]
fn good_pods_pass_and_the_answer_has_what_the_contract_says() {
    let site = Site::new(pool(0), 16);
    let (one, two) = (site.isolated_pod("good-one"), site.isolated_pod("good-two"));
    for isolated in [&one, &two] {
        let report = site.passes(&isolated.uid);
        let pod = &report["pods"][0];
        assert_eq!(pod["uid"], isolated.uid.as_str());
        assert_eq!(pod["block"], serde_json::json!({"hostId": isolated.base, "length": 65_536}));
        assert_eq!((&pod["processes"], &pod["verdict"]), (&1.into(), &"isolated".into()));
        assert_eq!(pod["mounts"], 2, "the root and the volume: {report:#}");
        assert_eq!(report["violations"], serde_json::json!([]));
        let evidence = &report["evidence"];
        assert!(evidence["time"].as_str().unwrap().ends_with('Z'), "{evidence}");
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        assert_eq!(evidence["bootId"], boot.trim());
        assert!(evidence["node"].is_string() && evidence["kernel"].is_string(), "{evidence}");
        assert!(evidence["files"].as_u64().unwrap() >= 7, "{evidence}");
    }
    let text = String::from_utf8(site.run("verify good-one").stdout).unwrap();
    let row = format!("good-one  {}-{}  1          2       isolated\n", one.base, one.base + 65_535);
    assert!(text.starts_with("POD ") && text.contains(&row), "{text}");
}

#[test]
fn a_process_of_the_block_outside_its_namespace_is_named() {
    let site = Site::new(pool(1), 16);
    let isolated = site.isolated_pod("setuid");
    site.passes("setuid");
    let id = (isolated.base + 1000).to_string();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", "0", "--clear-groups", "/usr/bin/busybox", "sleep", "100"]);
    let planted = Planted::start(&mut command, "busybox");
    let violation = site.convicts("setuid", "foreignProcess");
    assert_eq!(violation["pid"], planted.pid());
    assert!(violation["found"].as_str().unwrap().contains(&format!("uid {id}")), "{violation}");
    drop(planted);
    site.passes("setuid");
}

#[test]
fn a_process_in_the_pods_group_with_the_hosts_users_is_named() {
    let site = Site::new(pool(2), 16);
    let isolated = site.isolated_pod("grouped");
    let planted = Planted::start(Command::new("/usr/bin/busybox").args(["sleep", "100"]), "busybox");
    isolated.group.add(planted.pid());
    let violation = site.convicts("grouped", "outsideNamespace");
    assert_eq!(violation["pid"], planted.pid());
    assert!(violation["found"].as_str().unwrap().ends_with("the host's user namespace"), "{violation}");
}

#[test]
fn a_process_in_the_pods_namespace_with_an_id_of_the_host_is_named() {
    let site = Site::new(pool(3), 16);
    let isolated = site.isolated_pod("kept");
    let mut command = Command::new("nsenter");
    command.arg(format!("--user=/proc/{}/ns/user", isolated.pid())).args(["--preserve-credentials", "--"]);
    let planted = Planted::start(command.args(["/usr/bin/busybox", "sleep", "100"]), "busybox");
    let violation = site.convicts("kept", "credentials");
    assert_eq!(violation["pid"], planted.pid());
    assert!(violation["found"].as_str().unwrap().contains("has uid 0 and gid 0"), "{violation}");
}

#[test]
fn a_mount_without_idmap_is_named() {
    let site = Site::new(pool(4), 16);
    let base = site.lease("plain-volume");
    let _isolated = TestPod::start(&Wanted { volume: Volume::Plain, ..Wanted::new("plain-volume", base) });
    let violation = site.convicts("plain-volume", "mountNotIdmapped");
    assert_eq!(violation["path"], "/data");
    assert_eq!(violation["expected"], format!("idmapped to {base}-{}", base + 65_535));
    assert!(violation["found"].as_str().unwrap().ends_with("not idmapped, owner 0:0"), "{violation}");
}

#[test]
fn two_pods_on_one_block_are_both_named() {
    let site = Site::new(pool(5), 16);
    let one = site.isolated_pod("twin-one");
    let _two = TestPod::start(&Wanted::new("twin-two", one.base));
    for uid in ["twin-one", "twin-two"] {
        let violation = site.convicts(uid, "overlap");
        assert_eq!(violation["pods"], serde_json::json!(["twin-one", "twin-two"]));
    }
}

/// The namespace is convicted at every look. What keeps it is told at one of them at least: somebody else's census
/// may be inside for a moment to read its maps.
#[track_caller]
fn kept_by(site: &Site, words: &str) {
    let looks = (0..10).map(|_| site.convicts("overlapped", "foreignNamespace"));
    let mut found = looks.map(|violation| violation["found"].as_str().unwrap().to_owned());
    assert!(found.any(|found| found.contains(words)), "never {words}");
}

#[test]
fn an_overlapping_foreign_user_namespace_is_named_whatever_keeps_it() {
    let site = Site::new(pool(6), 16);
    let isolated = site.isolated_pod("overlapped");
    site.passes("overlapped");

    let userns = maps(isolated.base + 60_000, 10);
    kept_by(&site, "kept by the open descriptor");

    let mut command = entering(&userns);
    let process = Planted::start(command.args(["--", "/usr/bin/busybox", "sleep", "100"]), "busybox");
    let network = kernel::namespace::make(Some(&userns), &[NamespaceKind::Net], None).unwrap();
    drop(userns);
    kept_by(&site, &format!("with process {} in it", process.pid()));

    drop(process);
    kept_by(&site, "kept by the net namespace");
    drop(network);
    site.passes("overlapped");
}

#[test]
fn a_namespace_with_the_pods_map_that_only_serves_its_mounts_is_a_note() {
    let site = Site::new(pool(7), 16);
    let isolated = site.isolated_pod("served");
    let _userns = maps(isolated.base, 65_536);
    let report = site.passes("served");
    let notes = report["notes"].as_array().unwrap();
    assert!(
        notes.iter().any(|note| note["text"].as_str().unwrap().contains("has its map and no process")),
        "{report:#}"
    );
}

/// Something may act through it: whoever comes into that network is somebody of the block.
#[test]
fn a_namespace_with_the_pods_map_that_owns_a_network_is_foreign_however_it_is_kept() {
    let site = Site::new(pool(16), 16);
    let isolated = site.isolated_pod("owned");
    let userns = maps(isolated.base, 65_536);
    site.passes("owned");
    let network = kernel::namespace::make(Some(&userns), &[NamespaceKind::Net], None).unwrap();
    site.convicts("owned", "foreignNamespace");
    drop(userns);
    site.convicts("owned", "foreignNamespace");
    drop(network);
    site.passes("owned");
}

#[test]
fn a_chowned_file_of_the_root_is_named_also_with_the_ledger_deleted() {
    let site = Site::new(pool(8), 16);
    let isolated = site.isolated_pod("chowned");
    site.passes("chowned");
    chown(isolated.path("/etc/motd"), Some(0), Some(0)).unwrap();
    let violation = site.convicts("chowned", "fileOwner");
    assert_eq!(
        (&violation["path"], &violation["found"]),
        (&"/etc/motd".into(), &"owner 0:0 on overlay".into())
    );
    fs::remove_dir_all(site.state()).unwrap();
    let violation = site.convicts("chowned", "fileOwner");
    assert_eq!(violation["path"], "/etc/motd");
    assert!(!site.state().exists(), "verify makes no ledger");
}

#[test]
fn a_lease_without_a_pod_and_a_pod_without_a_lease_are_named() {
    let site = Site::new(pool(9), 16);
    let _good = site.isolated_pod("leased");
    let block = site.lease("vanished");
    let violation = site.convicts("vanished", "leaseWithoutPod");
    assert_eq!(violation["pod"], "vanished");
    assert!(violation["found"].as_str().unwrap().contains(&format!("{block}-")), "{violation}");
    site.passes("leased");

    let stray = TestPod::start(&Wanted::new("unleased", block + 65_536));
    let violation = site.convicts("unleased", "podWithoutLease");
    assert!(violation["found"].as_str().unwrap().contains(&stray.base.to_string()), "{violation}");
}

#[test]
fn a_pod_that_the_kubelet_is_still_busy_with_keeps_its_lease_in_peace() {
    let site = Site::new(pool(10), 16);
    site.lease("starting");
    site.convicts("starting", "leaseWithoutPod");
    fs::create_dir_all(site.kubelet_pods().join("starting")).unwrap();
    let output = site.run("verify starting");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("no pod starting runs on this node"),
        "{output:?}"
    );
}

#[test]
fn a_record_or_a_lease_of_another_block_is_named() {
    let site = Site::new(pool(11), 16);
    let isolated = TestPod::start(&Wanted::new("recorded", pool(11)));
    let record = |base: u64| {
        let dir = site.kubelet_pods().join("recorded");
        fs::create_dir_all(&dir).unwrap();
        let line = format!("[{{\"hostId\":{base},\"containerId\":0,\"length\":65536}}]");
        fs::write(dir.join("userns"), format!("{{\"uidMappings\":{line},\"gidMappings\":{line}}}")).unwrap();
    };
    record(isolated.base);
    site.passes("recorded");
    record(isolated.base + 65_536);
    let violation = site.convicts("recorded", "recordDiffers");
    assert_eq!(violation["path"], "pods/recorded/userns");
    fs::remove_dir_all(site.kubelet_pods()).unwrap();
    assert_ne!(site.lease("recorded"), isolated.base, "the ledger sees that the block is in use");
    site.convicts("recorded", "leaseDiffers");
}

#[test]
fn a_pod_with_the_hosts_users_is_listed_and_convicted_only_if_it_asked_for_its_own() {
    let site = Site::new(pool(12), 16);
    let _pod = TestPod::start(&Wanted { users: Users::Hosts, ..Wanted::new("of-the-host", 0) });
    let report = site.passes("of-the-host");
    assert_eq!(report["pods"][0]["verdict"], "notIsolated");
    assert_eq!(report["pods"][0]["block"], serde_json::Value::Null);
    site.lease("of-the-host");
    let violation = site.convicts("of-the-host", "notIsolated");
    assert!(violation["expected"].as_str().unwrap().ends_with("as the ledger says"), "{violation}");
}

#[test]
fn a_map_with_ids_of_the_host_is_named() {
    let site = Site::new(pool(13), 16);
    let isolated = TestPod::start(&Wanted::new("host-ids", 1000));
    let violation = site.convicts("host-ids", "hostIds");
    assert!(violation["found"].as_str().unwrap().contains("1000-65535"), "{violation}");
    drop(isolated);
}

#[test]
fn a_pod_that_is_not_there_cannot_be_verified() {
    let site = Site::new(pool(14), 16);
    let output = site.run("verify nobody-here");
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        words.contains("error: no pod nobody-here runs on this node") && words.contains("hint: "),
        "{words}"
    );
}

#[test]
fn a_runtime_that_was_named_and_does_not_answer_leaves_the_answer_open() {
    let site = Site::new(pool(15), 16);
    let _isolated = site.isolated_pod("open");
    let (code, report) = site.json("verify open --runtime-endpoint unix:///nowhere/cri.sock");
    assert_eq!((code, &report["verdict"]), (Some(2), &"unknown".into()), "{report:#}");
    assert!(report["unseen"][0].as_str().unwrap().contains("/nowhere/cri.sock"), "{report:#}");
}

/// An isolated pod was called not isolated, and a violation of what the ledger says.
#[test]
fn without_root_an_isolated_pod_is_not_judged() {
    let site = Site::new(pool(17), 16);
    let pod = site.isolated_pod("hidden");
    site.passes("hidden");
    // Another user may not be able to reach the program where it was built.
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let program = dir.path().join("wardlet");
    fs::copy(env!("CARGO_BIN_EXE_wardlet"), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    let output =
        command.args(["verify", "hidden", "-o", "json", "--state-dir", "/nowhere"]).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code(), Some(2), "{report:#}");
    assert_eq!(report["pods"][0]["verdict"], "unseen", "{report:#}");
    assert_eq!(report["violations"], serde_json::json!([]));
    let why = "whether hidden is isolated: reading the user namespace of process ";
    let texts = report["unseen"].as_array().unwrap().iter();
    assert!(texts.map(|text| text.as_str().unwrap()).any(|text| text.starts_with(why)), "{report:#}");
    drop(pod);
}

#[test]
fn files_of_a_volume_that_the_map_leaves_out_are_noted() {
    let site = Site::new(pool(18), 16);
    let pod = site.isolated_pod("left-out");
    let file = pod.volume().join("foreign");
    fs::write(&file, "x").unwrap();
    chown(&file, Some(4_000_000), Some(0)).unwrap();
    let report = site.passes("left-out");
    let notes = report["notes"].as_array().unwrap().iter();
    let texts: Vec<&str> = notes.map(|note| note["text"].as_str().unwrap()).collect();
    let said = "1 files of /data belong to IDs that its map leaves out, such as /data/foreign";
    assert!(texts.iter().any(|text| text.starts_with(said)), "{texts:?}");
}
