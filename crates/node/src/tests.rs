use super::*;
use crate::WrapperSettings;

fn failure(text: &str) -> (String, String) {
    let e = parse(Path::new("c.yaml"), text).unwrap_err();
    (e.to_string(), e.hint().unwrap_or_default())
}

#[test]
fn what_the_defaults_serialise_to_reads_as_the_defaults() {
    let text = serde_saphyr::to_string(&Settings::default()).unwrap();
    assert_eq!(parse(Path::new("c.yaml"), &text).unwrap(), Settings::default());
}

#[test]
fn nothing_at_all_means_the_defaults() {
    for text in ["", "\n", "# only a comment\n", "{}", "userNamespaces:\n", "userNamespaces:\n  pool:\n"] {
        assert_eq!(parse(Path::new("c.yaml"), text).unwrap(), Settings::default(), "{text:?}");
    }
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_name() {
    let (message, hint) = failure("userNamespaces:\n  idsPerPods: 65536\n");
    assert_eq!(message, "c.yaml: userNamespaces.idsPerPods: there is no such setting");
    assert_eq!(hint, "did you mean userNamespaces.idsPerPod?");
    assert_eq!(failure("quarantineSeconds: 1\n").1, "did you mean userNamespaces.quarantineSeconds?");
    assert_eq!(
        failure("zzz: 1\n").1,
        "known here: agent, featureGates, kubelet, kubernetesVersion, ledger, policy, userNamespaces, wrapper"
    );
    assert_eq!(failure("ledgr:\n").1, "did you mean ledger?");
}

#[test]
fn a_wrong_value_names_its_field_and_the_way_out() {
    for (text, message, hint) in [
        (
            "userNamespaces: {maxIdsPerPod: 100000}",
            "c.yaml: userNamespaces.maxIdsPerPod: a block cannot have 100000 IDs: it takes a multiple of 65536",
            "use 65536 or 131072",
        ),
        (
            "userNamespaces: {maxIdsPerPod: 65536, idsPerPod: 131072}",
            "c.yaml: userNamespaces.maxIdsPerPod: it is less than idsPerPod, which every pod has",
            "use idsPerPod or more, or leave it out for that",
        ),
        (
            "userNamespaces: {maxPods: 5, idsPerPod: 100000}",
            "c.yaml: userNamespaces.idsPerPod: a block cannot have 100000 IDs: it takes a multiple of 65536",
            "use 65536 or 131072",
        ),
        (
            "userNamespaces: {quarantineSeconds: soon}",
            "c.yaml: userNamespaces.quarantineSeconds: invalid type: string \"soon\", expected u32",
            "leave it out for its default, 60",
        ),
        (
            "ledger: 5",
            "c.yaml: ledger: invalid type: integer `5`, expected a map of settings",
            "leave it out for its default, or see `wardlet config`",
        ),
        (
            "userNamespaces: {pool: {uids: [\"7\"]}}",
            "c.yaml: userNamespaces.pool.uids: \"7\" is not FIRST-LAST, such as 65536-131071",
            "write a list of FIRST-LAST, such as [\"65536-131071\"]",
        ),
        (
            "userNamespaces: {pool: {gids: [\"65536-131071\"]}}",
            "c.yaml: userNamespaces.pool: it has gids and no uids",
            "add uids; gids may be left out if they are the same",
        ),
        (
            "kubelet: {podsDir: var/pods}",
            "c.yaml: kubelet.podsDir: it is no absolute path that ends in /pods",
            "it is the directory pods under the kubelet's root",
        ),
        (
            "agent: {page: {address: here}}",
            "c.yaml: agent.page.address: invalid socket address syntax",
            "leave it out for its default, \"127.0.0.1:10280\"",
        ),
    ] {
        assert_eq!(failure(text), (message.to_owned(), hint.to_owned()), "{text}");
    }
}

#[test]
fn what_is_no_map_or_no_yaml_is_refused() {
    assert_eq!(failure("- 1\n").0, "c.yaml: it is no map of settings");
    assert!(
        failure("ledger: {}\nledger: {}\n").0.contains("duplicate"),
        "{:?}",
        failure("ledger: {}\nledger: {}\n")
    );
    assert!(failure("ledger: [\n").0.starts_with("c.yaml: "));
}

fn wrapper(text: &str) -> Result<Settings, (String, String)> {
    let text = format!("wrapper: {{{text}}}");
    parse(Path::new("c.yaml"), &text).map_err(|e| (e.to_string(), e.hint().unwrap_or_default()))
}

#[test]
fn the_six_options_of_gvisors_shim_are_known_by_their_names() {
    let settings = wrapper(
        "enable_user_namespace_annotation: true, user_namespace_host_uid_base: 131072, \
         user_namespace_host_gid_base: 262144, user_namespace_range_size: 65536, \
         user_namespace_pool_size: 3, user_namespace_state_dir: /var/lib/w",
    );
    let wrapper = settings.unwrap().wrapper;
    assert!(wrapper.enabled);
    let (uids, gids) = wrapper.spans().unwrap();
    assert_eq!((uids.to_string(), gids.to_string()), ("131072-327679".into(), "262144-458751".into()));
    let defaults = WrapperSettings::default();
    assert_eq!((defaults.enabled, defaults.pool_size, u64::from(defaults.range_size)), (false, 1000, 65_536));
}

#[test]
fn a_pool_of_its_own_has_both_bases_and_fits() {
    let bases = |uids: u64, gids: u64| {
        let text = format!("user_namespace_host_uid_base: {uids}, user_namespace_host_gid_base: {gids}");
        wrapper(&text).unwrap_err()
    };
    assert!(wrapper("user_namespace_host_uid_base: 65536, user_namespace_host_gid_base: 65536").is_ok());
    assert!(
        wrapper("user_namespace_host_uid_base: 65536").unwrap_err().0.contains("gid_base: it is not set")
    );
    assert!(
        wrapper("user_namespace_host_gid_base: 65536").unwrap_err().0.contains("uid_base: it is not set")
    );
    let unaligned = bases(100_000, 65_536);
    assert!(unaligned.0.contains("100000 is not a multiple of the block length 65536"), "{unaligned:?}");
    assert_eq!(unaligned.1, "the nearest valid is 131072");
    assert_eq!(bases(70_000, 65_536).1, "the nearest valid is 65536");
    assert!(bases(65_536, 0).0.contains("0 is one of the host's own IDs"));
    let past = bases(4_294_901_760, 65_536);
    assert!(past.0.contains("go past the last ID"), "{past:?}");
    assert_eq!(past.1, format!("the nearest valid is {}", (65_535 - 1000) * 65_536_u64));
    let text = "user_namespace_host_uid_base: 65536, user_namespace_host_gid_base: 65536, user_namespace_pool_size: 65535";
    let (message, hint) = wrapper(text).unwrap_err();
    assert!(message.contains("do not fit below 2^32"), "{message}");
    assert_eq!(hint, "use 65534 or less");
    assert!(wrapper(&text.replace("size: 65535", "size: 65533")).is_ok());
}

#[test]
fn runtimes_have_names_of_the_operators_choice_and_absolute_paths() {
    assert!(wrapper("runtimes: {gvisor: /usr/bin/runsc}").is_ok());
    assert!(wrapper("runtimes: {gvisor: runsc}").unwrap_err().0.contains("wrapper.runtimes.gvisor"));
    assert!(wrapper("runtime: bin/runc").is_err() && wrapper("runtime: crun").is_ok());
}
