//! What `wardlet doctor` says of the pool: other owners of its IDs, and entries that a kubelet does not take.

use crate::cli_doctor::{check, checks, healthy, only_fault, text};
use crate::support::Host;

use serde_json::Value;

const ALONE: &str = "no other owner has IDs of the pool";
const ONE_LINE: &str = "kubelet has one line in /etc/subuid and the same in /etc/subgid";

fn alone(host: &Host) -> Value {
    check(&checks(host, ""), ALONE)
}

/// The audit listed the namespace, and doctor said that no other owner had IDs of the pool.
#[test]
fn a_user_namespace_in_the_pool_that_the_audit_lists_is_named() {
    let host = healthy();
    host.process(20, 5, "0 131072 65536\n");
    let audit = host.json("ids audit");
    let name = "user namespace 5 of process 20";
    assert!(audit["owners"].as_array().unwrap().iter().any(|owner| owner["name"] == name), "{audit}");
    let fault = only_fault(&host);
    assert_eq!((text(&fault, "need"), text(&fault, "severity")), (ALONE, "useful"));
    assert_eq!(text(&fault, "found"), format!("uids 131072-196607 of {name} (in use) and 1 more"));
    assert!(text(&fault, "fix").contains("echo kubelet:196608:7208960 >> $f"), "{fault:#?}");
}

#[test]
fn namespaces_of_leases_and_of_a_kubelets_records_are_no_other_owners() {
    let host = healthy();
    host.done("ids lease web");
    host.process(20, 5, "0 65536 65536\n");
    host.process(21, 6, "0 65636 10\n");
    host.process(22, 7, "0 131072 65536\n");
    let maps = r#"[{"hostId":131072,"containerId":0,"length":65536}]"#;
    let record = format!(r#"{{"uidMappings":{maps},"gidMappings":{maps}}}"#);
    host.write("var/lib/kubelet/pods/4d8ad3c5-0000-4000-8000-000000000001/userns", &record);
    assert_eq!(text(&alone(&host), "found"), "none");
    host.process(23, 8, "0 10000000 65536\n");
    assert_eq!(text(&alone(&host), "found"), "none", "it is outside the pool");
}

#[test]
fn what_could_not_be_seen_is_not_called_none() {
    let host = healthy();
    host.process(20, 5, "0 0 1\n");
    host.write("proc/20/uid_map", "0 4294967295 10\n");
    let open = alone(&host);
    assert_eq!((text(&open, "verdict"), text(&open, "severity")), ("open", "useful"));
    assert!(
        text(&open, "cause").starts_with("could not be seen: process 20 (fake): its ID maps"),
        "{open:#?}"
    );
    assert!(text(&open, "fix").contains("run it as root"), "{open:#?}");
}

/// Both keep a kubelet from starting, and wardlet alone has no trouble with them.
#[test]
fn entries_that_keep_a_kubelet_from_starting_are_found_and_the_fix_is_a_fix() {
    for (subuid, subgid, cause, kept) in [
        (
            "kubelet:65536:65536\nkubelet:131072:7208960\n",
            "kubelet:65536:65536\nkubelet:131072:7208960\n",
            "a kubelet does not start where kubelet has several lines: it takes one range only",
            "kubelet:131072:7208960",
        ),
        (
            "kubelet:65536:7208960\n",
            "kubelet:7274496:7208960\n",
            "a kubelet does not start where user and group IDs of kubelet differ",
            "kubelet:7274496:7208960",
        ),
        (
            "kubelet:65536:7208960\n",
            "kubelet:7274496:7208960\nbob:7274496:65536\n",
            "a kubelet does not start where user and group IDs of kubelet differ",
            "kubelet:65536:7208960",
        ),
    ] {
        let host = healthy();
        host.write("etc/subuid", subuid);
        host.write("etc/subgid", subgid);
        let fault = check(&checks(&host, ""), ONE_LINE);
        assert_eq!((text(&fault, "severity"), text(&fault, "cause")), ("useful", cause));
        let fix = text(&fault, "fix");
        assert!(fix.contains(&format!("echo {kept} >> $f")), "{fix}");
        let typed = fix.replace("/etc/", &format!("{}/", host.path("etc").display()));
        assert!(std::process::Command::new("sh").args(["-c", &typed]).status().unwrap().success());
        assert_eq!(check(&checks(&host, ""), ONE_LINE)["holds"], true, "{fix}");
    }
}
