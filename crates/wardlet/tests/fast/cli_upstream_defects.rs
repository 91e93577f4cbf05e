//! What the kubelet's allocator, and others like it, got wrong on real nodes, each told to wardlet.

use crate::support;

use support::Host;

fn host_ids(lease: &serde_json::Value) -> (u64, u64) {
    let id = |side: &str| lease[side][0]["hostId"].as_u64().unwrap();
    (id("uidMappings"), id("gidMappings"))
}

fn record(base: u64, length: u64) -> String {
    let line = format!(r#"[{{"hostId":{base},"containerId":0,"length":{length}}}]"#);
    format!(r#"{{"uidMappings":{line},"gidMappings":{line}}}"#)
}

/// kubernetes#139916: the default pool held the block that ends at 2^32-1, which the kernel refuses;
/// a pod that got it failed for ever.
#[test]
fn the_block_that_the_kernel_refuses_is_in_no_pool() {
    let host = Host::with_subids("", "");
    let last = host.json("config")["pool"]["uids"][0].clone();
    assert_eq!(last["hostId"].as_u64().unwrap() + last["length"].as_u64().unwrap(), 4_294_901_760, "{last}");
    let host = Host::with_subids("kubelet:4294901760:65536\n", "kubelet:4294901760:65536\n");
    let ran = host.run("ids lease pod");
    assert_eq!(ran.code, Some(2), "{ran:?}");
}

/// kubernetes#141345: a subuid entry passing 2^32 wrapped around and gave a pod host root's IDs.
#[test]
fn a_range_that_passes_the_last_id_never_wraps_to_the_host() {
    for line in
        ["kubelet:4294836224:131072\n", "kubelet:4294901760:131072\n", "kubelet:65536:18446744073709551615\n"]
    {
        let host = Host::with_subids(line, line);
        let ran = host.run("ids lease pod");
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{line}: {ran:?}");
        assert!(ran.stderr.contains("/etc/subuid") && ran.stderr.contains("hint:"), "{ran:?}");
    }
}

/// kubernetes#141970: with `getent` missing the configured range was ignored without a word, and the
/// whole 32-bit space used. kubernetes#141345: with `getsubids` missing the kubelet did not start.
#[test]
fn a_configured_range_is_honoured_without_any_helper_program() {
    let host = Host::with_subids("kubelet:1073741824:655360\n", "kubelet:1073741824:655360\n");
    let ran = host.command("ids lease pod -o json").env_clear().output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    assert_eq!(host_ids(&serde_json::from_slice(&ran.stdout).unwrap()), (1_073_741_824, 1_073_741_824));
    assert!(host.json("config")["pool"]["origin"].to_string().contains("kubelet"));
}

/// kubernetes#141941, #132966, #137922: a changed range or idsPerPod with any old pod directory left,
/// and the kubelet refused to start.
#[test]
fn a_changed_range_or_block_length_starts_and_keeps_old_pods() {
    let host = Host::new();
    let old = host_ids(&host.json("ids lease old"));
    host.write("etc/subuid", "kubelet:1073741824:655360\n");
    host.write("etc/subgid", "kubelet:1073741824:655360\n");
    host.config("userNamespaces: {idsPerPod: 131072}\n");
    assert_eq!(host_ids(&host.json("ids lease new")), (1_073_741_824, 1_073_741_824));
    assert_eq!(host_ids(&host.json("ids lease old")), old);
}

/// kubernetes.md A.6: with the default range an idsPerPod that is no power of two kept the kubelet from
/// starting.
#[test]
fn any_multiple_of_65536_is_a_block_length() {
    let host = Host::with_subids("", "");
    host.config("userNamespaces: {idsPerPod: 196608}\n");
    let lease = host.json("ids lease pod");
    assert_eq!(host_ids(&lease), (196_608, 196_608));
    assert_eq!(lease["uidMappings"][0]["length"], 196_608);
}

/// kubernetes.md A.5: the kubelet refuses a range with fewer blocks than maxPods.
#[test]
fn a_pool_smaller_than_max_pods_starts_and_says_how_many_fit() {
    let host = Host::new();
    host.config("userNamespaces: {maxPods: 110}\n");
    let ran = host.run("ids lease pod");
    assert_eq!(ran.code, Some(0));
    assert!(ran.stderr.contains("maxPods is 110, but only 10 isolated pods fit"), "{ran:?}");
}

/// kubernetes.md A.8, A.5: one record that cannot be read kept the whole node from starting.
#[test]
fn one_bad_record_stops_nothing() {
    let host = Host::new();
    host.write("var/lib/kubelet/pods/aaa/userns", "{not json");
    host.write("var/lib/kubelet/pods/bbb/userns", &record(65_536, 65_536));
    let ran = host.run("ids import HOST/var/lib/kubelet");
    assert_eq!(ran.code, Some(1));
    assert_eq!(host_ids(&host.json("ids lease bbb")), (65_536, 65_536));
    host.done("ids lease new");
}

/// A record that the wrapped allocator wrote: taken over, it would be host root in a pod.
#[test]
fn a_record_on_host_ids_is_named_and_never_taken_over() {
    let host = Host::new();
    host.write("var/lib/kubelet/pods/wrapped/userns", &record(0, 65_536));
    host.write("var/lib/kubelet/pods/last/userns", &record(4_294_901_760, 65_536));
    let ran = host.run("ids import HOST/var/lib/kubelet");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(host.json("ids list").as_array().unwrap().len(), 0);
    let audit = host.run("ids audit");
    assert_eq!(audit.code, Some(1), "{audit:?}");
    assert!(audit.stdout.contains("wrapped") && audit.stdout.contains("last"), "{audit:?}");
}

/// kubernetes.md A.9: orphan cleanup freed IDs although the pod's volumes were still mounted.
#[test]
fn ids_are_not_freed_while_the_pods_volumes_exist() {
    let host = Host::new();
    host.config("userNamespaces: {quarantineSeconds: 0}\n");
    host.write("var/lib/kubelet/pods/uid/volumes/data", "");
    host.done("ids lease uid --place /var/lib/kubelet/pods/uid/volumes");
    host.done("ids release uid");
    host.done("ids gc");
    host.done("ids gc");
    assert_eq!(host.json("ids list")[0]["state"], "draining");
}

/// kubernetes.md A.9: an allocation whose pod directory was gone was freed though the pod still ran.
/// lxc/incus#4000: a fixed base went past the check for overlaps.
#[test]
fn a_block_that_is_held_cannot_be_claimed_by_another_record() {
    let host = Host::new();
    let held = host_ids(&host.json("ids lease running")).0;
    host.write("var/lib/kubelet/pods/thief/userns", &record(held, 65_536));
    let ran = host.run("ids import HOST/var/lib/kubelet");
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert_eq!(host.json("ids list").as_array().unwrap().len(), 1);
    assert_eq!(host.run("ids audit").code, Some(1));
}

/// systemd#42534: ranges of dead namespaces were never given back and starved the pool.
#[test]
fn a_full_pool_reclaims_what_is_vacant_by_itself() {
    let host = Host::with_subids("kubelet:65536:65536\n", "kubelet:65536:65536\n");
    host.config("userNamespaces: {quarantineSeconds: 0}\n");
    for pod in ["a", "b", "c", "d"] {
        assert_eq!(host_ids(&host.json(&format!("ids lease {pod}"))), (65_536, 65_536));
        host.done(&format!("ids release {pod}"));
    }
}

/// nestybox/sysbox#566: subuid and subgid had to be the same.
#[test]
fn user_and_group_ranges_may_differ() {
    let host = Host::with_subids("kubelet:131072:655360\n", "kubelet:1073741824:655360\n");
    assert_eq!(host_ids(&host.json("ids lease pod")), (131_072, 1_073_741_824));
}
