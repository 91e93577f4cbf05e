//! A kubelet's node audited, taken over and given back.

use crate::support;

use serde_json::json;
use support::Host;

fn record(base: u64, length: u64) -> String {
    let line = format!(r#"[{{"hostId":{base},"containerId":0,"length":{length}}}]"#);
    format!(r#"{{"uidMappings":{line},"gidMappings":{line}}}"#)
}

fn kubelet_node() -> Host {
    let host = Host::new();
    host.write("var/lib/kubelet/pods/a/userns", &record(65_536, 65_536));
    host.write("var/lib/kubelet/pods/b/userns", &record(0, 65_536));
    host.write("var/lib/kubelet/pods/c/userns", "{");
    host.write("var/lib/kubelet/pods/d/userns", &record(131_072, 65_536));
    host.write("var/lib/kubelet/pods/e/userns", &record(131_072, 65_536));
    host.write("var/lib/kubelet/pods/f/userns", "");
    host
}

#[test]
fn an_import_takes_what_it_can_and_names_the_rest() {
    let host = kubelet_node();
    host.shows(
        "ids import HOST/var/lib/kubelet --dry-run",
        "POD  UIDS           OUTCOME
a    65536-131071   taken over
b    -              refused: 65536 IDs from 0 touch the host's own IDs 0-65535
c    -              refused: not a userns record: EOF while parsing an object at line 1 column 1
d    131072-196607  taken over
e    -              refused: 131072-196607 is in the way of 131072-196607, held by d
~ stderr
nothing was changed: this was a dry run
~ exit 1
",
    );
    assert!(!host.state().exists());
    for dir in ["HOST/var/lib/kubelet", "HOST/var/lib/kubelet/pods"] {
        let ran = host.run(&format!("ids import {dir}"));
        assert_eq!(ran.code, Some(1));
        let taken: Vec<_> = ran.stdout.lines().filter(|l| l.ends_with("taken over")).collect();
        assert_eq!(taken, ["a    65536-131071   taken over", "d    131072-196607  taken over"]);
        assert!(
            ran.stdout.contains("\ne    -              refused: e: uids 131072-196607 overlap"),
            "{ran:?}"
        );
    }
    assert_eq!(host.json("ids list").as_array().unwrap().len(), 2);
}

#[test]
fn a_path_that_is_no_directory_cannot_be_imported() {
    let host = Host::new();
    for (command, path) in
        [("ids import", "nowhere"), ("ids import", "etc/passwd"), ("ids import --dry-run", "etc/passwd")]
    {
        host.shows(
            &format!("{command} HOST/{path}"),
            &format!(
                "~ stderr
error: HOST/{path} is no directory

hint: name the kubelet's root directory, such as /var/lib/kubelet
~ exit 2
"
            ),
        );
    }
    assert!(!host.state().exists());
}

#[test]
fn an_audit_of_a_kubelets_node_needs_no_ledger() {
    let host = kubelet_node();
    let audit = host.json("ids audit");
    assert_eq!(audit["verdict"], "violated");
    let whats: Vec<_> =
        audit["findings"].as_array().unwrap().iter().map(|f| f["what"].as_str().unwrap()).collect();
    assert!(whats.contains(&"overlap") && whats.contains(&"hostIds"), "{whats:?}");
    assert_eq!(host.run("ids audit").code, Some(1));
    assert!(!host.state().exists());
}

#[test]
fn an_audit_is_not_stopped_by_a_pool_it_does_not_need() {
    let host = Host::with_subids("kubelet:1:1\n", "");
    assert_eq!(host.run("ids audit").code, Some(0));
}

#[test]
fn a_lease_can_write_the_kubelets_record() {
    let host = Host::new();
    let ran = host.run("ids lease pod-1 --write-record");
    assert_eq!(ran.stderr, "note: wrote HOST/var/lib/kubelet/pods/pod-1/userns\n");
    let written = std::fs::read_to_string(host.path("var/lib/kubelet/pods/pod-1/userns")).unwrap();
    assert_eq!(written, record(65_536, 65_536));
}

#[test]
fn where_users_and_groups_differ_no_record_is_written() {
    let host = Host::with_subids("kubelet:65536:131072\n", "kubelet:131072:131072\n");
    host.shows(
        "ids lease pod-1 --write-record",
        "holder  pod-1
state   leased
uids    65536-131071
gids    131072-196607
size    65536
~ stderr
error: pod-1 has its lease, but no kubelet record: its user IDs 65536-131071 and group IDs 131072-196607 differ, which a kubelet's record cannot say
~ exit 1
",
    );
}

#[test]
fn leases_are_handed_back_to_the_kubelet() {
    let host = Host::new();
    for holder in ["pod-1", "script", "gone"] {
        host.done(&format!("ids lease {holder}"));
    }
    host.done("ids release gone");
    host.write("var/lib/kubelet/pods/pod-1/volumes/x", "");
    host.shows(
        "ids export HOST/var/lib/kubelet",
        "HOLDER  OUTCOME
pod-1   wrote HOST/var/lib/kubelet/pods/pod-1/userns
~ stderr
note: script (131072-196607) stays here: the kubelet has no directory of such a pod
note: gone (196608-262143) stays here: it is quarantined
",
    );
    assert_eq!(
        host.json("ids export HOST/var/lib/kubelet"),
        json!([{"holder": "pod-1", "path": "HOST/var/lib/kubelet/pods/pod-1/userns", "cause": null}])
    );
    assert_eq!(host.run("ids audit").code, Some(0));
}
