use std::fs;
use std::path::Path;

use crate::census::Census;
use crate::host_root::HostRoot;
use crate::owner::{OwnerKind, Report};

fn report(files: &[(&str, &str)]) -> Report {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let census = Census { host_root: HostRoot::new(dir.path()), ..Census::default() };
    let mut report = Report::default();
    super::read(&census, &mut report);
    report
}

/// Name, user IDs, group IDs.
fn told(report: &Report) -> Vec<(String, String, String)> {
    let text = |spans: &[ids::HostSpan]| spans.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
    report.owners.iter().map(|o| (o.name.clone(), text(&o.uids), text(&o.gids))).collect()
}

fn row(name: &str, uids: &str, gids: &str) -> (String, String, String) {
    (name.into(), uids.into(), gids.into())
}

#[test]
fn a_host_without_any_of_the_files_claims_nothing() {
    let report = report(&[("etc/hostname", "x")]);
    assert!(report.owners.is_empty() && report.problems.is_empty());
}

#[test]
fn accounts_claim_their_ids_from_65536_up() {
    let report = report(&[
        ("etc/passwd", "root:x:0:0::/:/bin/sh\n+nis\n\nbig:x:70000:70001::/:\nmid:x:5:80000::/:\n"),
        ("etc/group", "root:x:0:\nfar:x:90000:root\n"),
    ]);
    assert_eq!(
        told(&report),
        [
            row("user big (/etc/passwd line 4)", "70000-70000", "70001-70001"),
            row("user mid (/etc/passwd line 5)", "", "80000-80000"),
            row("group far (/etc/group line 2)", "", "90000-90000"),
        ]
    );
    assert!(report.problems.is_empty());
}

#[test]
fn a_broken_account_is_a_problem_with_file_and_line_and_the_rest_is_read() {
    let report = report(&[("etc/passwd", "a:x:4294967295:0::/:\nb:x\nc:x:70000:1::/:\n")]);
    let problems: Vec<_> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems[0], "/etc/passwd: line 1 \"a:x:4294967295:0::/:\": uid \"4294967295\" is no ID");
    assert_eq!(problems[1], "/etc/passwd: line 2 \"b:x\": the uid is missing");
    assert_eq!(report.owners.len(), 1);
}

#[test]
fn subordinate_ids_are_claims_of_everybody_but_the_pool() {
    let report = report(&[
        ("etc/subuid", "alice:100000:65536\nkubelet:65536:1000\nbob:x:1\n"),
        ("etc/subgid", "alice:200000:65536\n"),
    ]);
    assert_eq!(
        told(&report),
        [
            row("subordinate IDs of alice (/etc/subuid line 1)", "100000-165535", ""),
            row("subordinate IDs of alice (/etc/subgid line 1)", "", "200000-265535"),
        ]
    );
    assert_eq!(report.problems.len(), 1);
    assert!(report.problems[0].to_string().starts_with("/etc/subuid: line 3 "), "{}", report.problems[0]);
}

#[test]
fn kubelet_records_are_claims_and_broken_ones_problems() {
    let line = |host: u64, n: u64| {
        let m = format!("[{{\"hostId\":{host},\"containerId\":0,\"length\":{n}}}]");
        format!("{{\"uidMappings\":{m},\"gidMappings\":{m}}}")
    };
    let report = report(&[
        ("var/lib/kubelet/pods/one/userns", &line(131_072, 65_536)),
        ("var/lib/kubelet/pods/two/userns", ""),
        ("var/lib/kubelet/pods/three/userns", "{"),
        ("var/lib/kubelet/pods/zlast/userns", &line(4_294_901_760, 65_536)),
        ("var/lib/kubelet/pods/none/volumes", ""),
    ]);
    assert_eq!(
        told(&report),
        [
            row("kubelet record of pod one", "131072-196607", "131072-196607"),
            row("kubelet record of pod zlast", "4294901760-4294967294", "4294901760-4294967294"),
        ]
    );
    let last = &report.owners[1].kind;
    assert!(matches!(last, OwnerKind::KubeletRecord { reaches_last_id: true, .. }));
    assert_eq!(report.problems[0].file, "/var/lib/kubelet/pods/three/userns");
}

#[test]
fn containers_of_podman_claim_their_maps_and_those_of_crio_name_their_pod() {
    let list = r#"[
        {"id":"aa","names":["web"],"metadata":"{\"image-name\":\"x\"}",
         "uidmap":[{"container_id":0,"host_id":300000,"size":1024}],
         "gidmap":[{"container_id":0,"host_id":300000,"size":1024}]},
        {"id":"bb","names":["host"]},
        {"id":"cc","metadata":"{\"pod-id\":\"cc\",\"uid\":\"pod-7\"}",
         "uidmap":[{"container_id":0,"host_id":131072,"size":65536}]},
        {"id":"dd","metadata":"{\"pod-id\":\"cc\"}",
         "uidmap":[{"container_id":0,"host_id":131072,"size":65536}]},
        {"id":"ee","uidmap":[{"container_id":0,"host_id":4294967295,"size":2}]}
    ]"#;
    let store = "var/lib/containers/storage";
    let report = report(&[
        (&format!("{store}/overlay-containers/containers.json"), list),
        (&format!("{store}/vfs-containers/containers.json"), "{}"),
        (&format!("{store}/overlay-layers/layers.json"), "nonsense"),
    ]);
    let names: Vec<_> = told(&report).into_iter().map(|(_, uids, _)| uids).collect();
    assert_eq!(names, ["300000-301023", "131072-196607", "131072-196607"]);
    for owner in &report.owners[1..] {
        assert!(matches!(&owner.kind, OwnerKind::Podman { pod: Some(p), .. } if p == "pod-7"), "{owner:?}");
    }
    assert_eq!(report.problems.len(), 2, "{:?}", report.problems);
}

#[test]
fn instances_of_incus_claim_the_maps_in_their_backup_file() {
    let both = r#"[{"Isuid":true,"Isgid":false,"Hostid":1000000,"Nsid":0,"Maprange":65536},{"Isuid":false,"Isgid":true,"Hostid":2000000,"Nsid":0,"Maprange":65536}]"#;
    let escaped = both.replace('"', "\\\"");
    let text = format!(
        "container:\n  config:\n    volatile.idmap.base: \"0\"\n    volatile.idmap.current: '{both}'\n    \
         volatile.idmap.next: \"{escaped}\"\n    volatile.last_state.idmap: '[]'\n"
    );
    let report = report(&[
        ("var/lib/incus/storage-pools/default/containers/c1/backup.yaml", &text),
        ("var/lib/incus/containers/c1/backup.yaml", &text),
        ("var/lib/lxd/containers/c2/backup.yaml", "    volatile.idmap.current: '[{\"Isuid\":1}]'\n"),
    ]);
    let told = told(&report);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].1.as_str(), told[0].2.as_str()), ("1000000-1065535", "2000000-2065535"));
    assert!(report.problems[0].to_string().starts_with("/var/lib/lxd/containers/c2/backup.yaml: line 1: "));
}

#[test]
fn a_file_that_cannot_be_read_is_a_problem() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("etc/passwd")).unwrap();
    let census = Census { host_root: HostRoot::new(dir.path()), ..Census::default() };
    let mut report = Report::default();
    super::read(&census, &mut report);
    assert_eq!(report.problems[0].file, "/etc/passwd");
    assert!(Path::new(&report.problems[0].file).is_absolute());
}
