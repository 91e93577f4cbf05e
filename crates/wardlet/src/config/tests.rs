use super::*;

fn failure(text: &str) -> (String, String) {
    let e = parse(Path::new("c.yaml"), text).unwrap_err();
    (e.message().to_owned(), e.hint().unwrap_or_default().to_owned())
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
    assert_eq!(failure("zzz: 1\n").1, "known here: kubelet, ledger, policy, userNamespaces");
    assert_eq!(failure("ledgr:\n").1, "did you mean ledger?");
}

#[test]
fn a_wrong_value_names_its_field_and_the_way_out() {
    for (text, message, hint) in [
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
