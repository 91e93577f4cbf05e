//! What is wrong is refused in one line that names it, with the way out below.

use crate::support;

use support::Host;

fn refused_subids(subuid: &str, expected: &str) {
    let host = Host::with_subids(subuid, "kubelet:65536:655360\n");
    host.shows("ids lease web", expected);
    assert!(!host.state().exists());
}

#[test]
fn a_subuid_line_that_passes_the_last_id_is_refused() {
    refused_subids(
        "root:1:1\nkubelet:65536:4294967296\n",
        "~ stderr
error: /etc/subuid line 2 \"kubelet:65536:4294967296\": 4294967296 IDs from 65536 pass 4294967294, the last ID there is

hint: the largest count that fits from 65536 is 4294901759
~ exit 2
",
    );
}

#[test]
fn a_subuid_line_on_the_hosts_own_ids_is_refused() {
    refused_subids(
        "kubelet:0:196608\n",
        "~ stderr
error: /etc/subuid line 1: uids 0-196607 overlap the host's own IDs 0-65535

hint: start it at 65536 with 131072 IDs
~ exit 2
",
    );
}

#[test]
fn a_subuid_line_too_short_for_a_block_is_refused() {
    refused_subids(
        "kubelet:131072:1000\n",
        "~ stderr
error: /etc/subuid line 1: uids 131072-132071 are 1000 IDs, too short for one block of 65536

hint: give it at least 65536 IDs from a multiple of 65536, such as 131072
~ exit 2
",
    );
}

#[test]
fn an_unaligned_subuid_line_is_refused() {
    refused_subids(
        "kubelet:100000:655360\n",
        "~ stderr
error: /etc/subuid line 1: uids 100000-755359 start at 100000, which is not a multiple of the block length 65536

hint: start it at 131072 with 589824 IDs (9 blocks)
~ exit 2
",
    );
}

#[test]
fn a_subuid_line_that_is_no_entry_is_refused() {
    refused_subids(
        "kubelet:65536\n",
        "~ stderr
error: /etc/subuid line 1 \"kubelet:65536\": expected three fields, name:first:count

hint: write name:first:count, for example kubelet:65536:7208960
~ exit 2
",
    );
}

#[test]
fn user_ids_without_group_ids_are_refused() {
    let host = Host::with_subids("kubelet:65536:655360\n", "");
    host.shows(
        "ids list",
        "~ stderr
error: kubelet has an entry in /etc/subuid and none in /etc/subgid

hint: add a line for kubelet to /etc/subgid
~ exit 2
",
    );
}

#[test]
fn ranges_of_different_size_are_said_to_be() {
    let host = Host::with_subids("kubelet:65536:262144\n", "kubelet:65536:131072\n");
    host.config("userNamespaces: {maxPods: 110}\n");
    host.shows(
        "ids lease web",
        "holder  web
state   leased
uids    65536-131071
gids    65536-131071
size    65536
~ stderr
note: the user ID ranges hold 4 blocks and the group ID ranges 2: 2 leases fit
note: maxPods is 110, but only 2 isolated pods fit into the pool
",
    );
}

#[test]
fn a_size_that_no_lease_has_offers_the_nearest_ones() {
    let host = Host::new();
    for (ids, below, above) in [(100_000, 65_536, 131_072), (196_608, 131_072, 262_144)] {
        host.shows(
            &format!("ids lease web --ids {ids}"),
            &format!(
                "~ stderr
error: web: a lease cannot have {ids} IDs; the nearest valid sizes are {below} and {above}

hint: ask for {below} or {above}
~ exit 1
"
            ),
        );
    }
    host.shows(
        "ids lease web --ids 1048576",
        "~ stderr
error: web: 1048576 IDs are more than one block of this pool can have; the longest is 262144

hint: ask for 262144 or less
~ exit 1
",
    );
}

#[test]
fn an_unknown_setting_is_refused_with_the_nearest_one() {
    let host = Host::new();
    host.config("userNamespaces:\n  quarantineSecond: 5\n");
    for command in ["ids lease web", "ids list", "ids audit", "config"] {
        host.shows(
            command,
            "~ stderr
error: HOST/etc/wardlet/config.yaml: userNamespaces.quarantineSecond: there is no such setting

hint: did you mean userNamespaces.quarantineSeconds?
~ exit 2
",
        );
    }
}

#[test]
fn a_wrong_setting_names_file_field_and_way_out() {
    let host = Host::new();
    host.config("userNamespaces:\n  idsPerPod: 100000\n");
    host.shows(
        "ids list",
        "~ stderr
error: HOST/etc/wardlet/config.yaml: userNamespaces.idsPerPod: a block cannot have 100000 IDs: it takes a multiple of 65536

hint: use 65536 or 131072
~ exit 2
",
    );
}

#[test]
fn a_configured_pool_is_held_to_the_same_rules() {
    let host = Host::new();
    host.config("userNamespaces: {pool: {uids: [\"65536-131071\", \"1000-66535\"]}}\n");
    host.shows(
        "ids list",
        "~ stderr
error: HOST/etc/wardlet/config.yaml: userNamespaces.pool.uids[1] and HOST/etc/wardlet/config.yaml: userNamespaces.pool.uids[0] both give uids 65536-66535

hint: leave the shared IDs out of one of them
~ exit 2
",
    );
}

#[test]
fn a_named_configuration_that_is_not_there_is_an_error() {
    Host::new().shows(
        "ids list --config HOST/nowhere.yaml",
        "~ stderr
error: cannot read the configuration HOST/nowhere.yaml: No such file or directory (os error 2)

hint: name a readable file (--config, or WARDLET_CONFIG for wardlet-oci), or leave it out for the defaults
~ exit 2
",
    );
}

#[test]
fn another_source_of_subids_is_never_replaced_by_the_files() {
    let host = Host::new();
    host.write("etc/nsswitch.conf", "passwd: files\nsubid: sss\n");
    host.shows(
        "ids lease web",
        "~ stderr
error: /etc/nsswitch.conf takes subordinate IDs from \"sss\", which can be asked only on the host itself, not under HOST/

hint: configure the pool explicitly
~ exit 2
",
    );
    host.config("userNamespaces: {pool: {uids: [\"131072-262143\"]}}\n");
    assert_eq!(host.json("ids lease web")["uidMappings"][0]["hostId"], 131_072);
}

#[test]
fn a_name_that_no_holder_can_have_is_wrong_usage() {
    let ran = Host::new().run("ids lease we$b");
    assert_eq!(ran.code, Some(2));
    assert!(ran.stderr.contains("only letters, digits and . _ : / @ - are allowed"), "{}", ran.stderr);
}

#[test]
fn a_host_without_a_boot_id_is_said_to_be() {
    let host = Host::new();
    std::fs::remove_file(host.path("proc/sys/kernel/random/boot_id")).unwrap();
    host.shows(
        "ids lease web",
        "~ stderr
error: cannot read this boot's ID in HOST/proc/sys/kernel/random/boot_id: No such file or directory (os error 2)

hint: mount the host's proc filesystem there, or choose another --host-root
~ exit 2
",
    );
}
