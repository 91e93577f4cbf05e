//! `wardlet verify` on hosts that are files: what cannot be read is not judged, and pods are known by their names.

use crate::support::{Host, Ran};

use serde_json::Value;

const UID: &str = "4d8ad3c5-0000-4000-8000-000000000001";

/// A pod of a kubelet with one process, and nothing of its namespaces that may be read.
fn unreadable() -> Host {
    let host = Host::new();
    host.write(
        "proc/20/status",
        "Name:\tapp\nUid:\t65536\t65536\t65536\t65536\nGid:\t0\t0\t0\t0\nThreads:\t1\nGroups:\t \n",
    );
    host.write("proc/20/cgroup", &format!("0::/kubepods/besteffort/pod{UID}/x\n"));
    host
}

fn pod(report: &Value) -> &Value {
    assert_eq!(report["pods"].as_array().unwrap().len(), 1, "{report:#}");
    &report["pods"][0]
}

/// Without root no namespace of another user's process can be read, and an isolated pod was called not isolated.
#[test]
fn a_pod_whose_user_namespace_cannot_be_read_is_not_judged() {
    let host = unreadable();
    let report = host.json("verify");
    assert_eq!(pod(&report)["verdict"], "unseen");
    assert_eq!((&report["holds"], &report["violations"]), (&Value::Bool(false), &Value::Array(vec![])));
    let why = format!(
        "whether {UID} is isolated: reading the user namespace of process 20 (app) takes root (CAP_SYS_PTRACE)"
    );
    assert!(report["unseen"].as_array().unwrap().iter().any(|text| *text == *why), "{report:#}");
    let Ran { code, stdout, stderr } = host.run(&format!("verify {UID}"));
    assert_eq!(code, Some(2), "{stdout}{stderr}");
    assert!(stdout.contains("unseen") && !stdout.contains("not isolated"), "{stdout}");
    assert!(stderr.contains(&format!("warning: could not be seen: {why}")), "{stderr}");
}

#[test]
fn a_pod_that_should_be_isolated_and_cannot_be_read_is_no_violation() {
    let host = unreadable();
    let maps = r#"[{"hostId":65536,"containerId":0,"length":65536}]"#;
    let record = format!(r#"{{"uidMappings":{maps},"gidMappings":{maps}}}"#);
    host.write(&format!("var/lib/kubelet/pods/{UID}/userns"), &record);
    let report = host.json("verify");
    assert_eq!(pod(&report)["verdict"], "unseen", "{report:#}");
    assert_eq!(report["violations"], Value::Array(vec![]));
}

#[test]
fn a_pod_of_the_agent_is_found_by_name_whatever_runtime_runs_it() {
    let host = Host::new();
    host.done(&format!("ids lease {UID}"));
    host.process(20, 5, "0 65536 65536\n");
    let sandbox = "5f".repeat(16);
    host.write("proc/20/cgroup", &format!("0::/wardlet/{sandbox}\n"));
    std::fs::create_dir_all(host.state().join(format!("logs/shop_web_{UID}"))).unwrap();
    for name in ["web", "shop/web", UID] {
        let report = host.json(&format!("verify {name}"));
        assert_eq!((&pod(&report)["namespace"], &pod(&report)["name"]), (&"shop".into(), &"web".into()));
        assert_eq!(pod(&report)["uid"], UID);
    }
}
