//! Every default is visible, and what is printed can be read again.

use crate::support;

use support::Host;

#[test]
fn the_effective_configuration_and_pool_are_shown() {
    let host = Host::with_subids("", "");
    host.shows(
        "config",
        "# there is no configuration file: these are the defaults
userNamespaces:
  idsPerPod: 65536
  maxIdsPerPod: null
  maxPods: null
  subidOwner: kubelet
  quarantineSeconds: 60
  pool:
    uids: null
    gids: null
    exclude: []
ledger:
  lockSeconds: 30
kubelet:
  podsDir: /var/lib/kubelet/pods
kubernetesVersion: \"1.37\"
featureGates: {}
policy:
  volumes:
    rules: []
    otherwise: own
    cannotIdmap: refuse
    hostSetuid: warn
    podsMayChoose:
    - refuse
    - ephemeralOnly
  disabledFeatures: []
  onClosedGate: asBefore
  isolate: whenAsked
  defaultChangePolicy: null
  allowedUnsafeSysctls: []
wrapper:
  runtime: runc
  runtimes: {}
  runDir: /run/wardlet-oci
  enable_user_namespace_annotation: false
  user_namespace_host_uid_base: null
  user_namespace_host_gid_base: null
  user_namespace_range_size: 65536
  user_namespace_pool_size: 1000
  user_namespace_state_dir: /var/lib/wardlet
agent:
  page:
    address: 127.0.0.1:10280
    proofSeconds: 60
# the pool: default: everything from 65536 up, nothing else is configured
#   uids 65536-4294901759
#   gids 65536-4294901759
#   65534 leases of 65536 IDs fit
",
    );
}

#[test]
fn what_is_shown_is_a_configuration_again() {
    let host = Host::new();
    host.config(
        "userNamespaces: {maxPods: 4, pool: {uids: [\"65536-393215\"], gids: [\"131072-327679\"], exclude: [\"131072-131072\"]}}\n",
    );
    let first = host.run("config");
    assert_eq!(
        first.stderr,
        "note: the user ID ranges hold 4 blocks and the group ID ranges 2: 2 leases fit\nnote: maxPods is 4, but only 2 isolated pods fit into the pool\n"
    );
    host.config(&first.stdout);
    assert_eq!(host.run("config"), first);
}

#[test]
fn the_configured_pool_wins_and_exclusions_hold_for_every_pool() {
    let host = Host::new();
    host.config("userNamespaces: {pool: {exclude: [\"65536-131071\"]}}\n");
    assert_eq!(host.json("config")["pool"]["uids"][0]["hostId"], 131_072);
    assert_eq!(host.json("config")["pool"]["origin"]["from"], "subids");
    host.config("userNamespaces: {pool: {uids: [\"1048576-1310719\"], exclude: [\"1048577-1048577\"]}}\n");
    assert_eq!(host.json("config")["pool"]["uids"][0]["hostId"], 1_114_112);
    assert_eq!(host.json("config")["pool"]["origin"]["from"], "configuration");
}

#[test]
fn another_owner_of_subids_can_be_chosen() {
    let host = Host::with_subids(
        "pods:131072:131072\nkubelet:65536:65536\n",
        "pods:131072:131072\nkubelet:65536:65536\n",
    );
    host.config("userNamespaces: {subidOwner: pods, idsPerPod: 131072}\n");
    let lease = host.json("ids lease web");
    assert_eq!(
        lease["uidMappings"][0],
        serde_json::json!({"hostId": 131_072, "containerId": 0, "length": 131_072})
    );
}
