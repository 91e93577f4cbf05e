//! What the facts of a node change in the answer of `check`.

use crate::cli_check_selinux::{driver_daemon, list, two_labels};
use crate::support::Host;

use serde_json::json;

#[test]
fn facts_that_say_selinux_is_disabled_leave_nothing_to_break() {
    let host = Host::new();
    let mut objects = two_labels("ReadWriteMany");
    objects.push(driver_daemon(&[]));
    host.write("dump.json", &list(&objects));
    host.write(
        "pod.yaml",
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}",
    );
    let mut facts = host.json("explain HOST/pod.yaml")["facts"].clone();
    for (state, breaks, exit) in [("enforcing", true, 1), ("permissive", true, 1), ("disabled", false, 0)] {
        facts["selinux"]["state"] = json!(state);
        host.write("facts.json", &facts.to_string());
        let words = "check HOST/dump.json --gate --facts HOST/facts.json";
        assert_eq!(host.run(words).code, Some(exit), "{state}");
        let report = host.json(words);
        for list in ["breaks", "conflicts", "fixes", "drivers"] {
            assert_eq!(!report[list].as_array().unwrap().is_empty(), breaks, "{state}: {list}");
        }
        assert_eq!(report["volumes"][0]["mountedWithContext"]["after"], breaks, "{state}");
        let note = "SELinux is disabled in the facts of the node: the labels of volumes were not compared";
        assert_eq!(report["notes"].as_array().unwrap().contains(&json!(note)), !breaks, "{state}");
    }
}
