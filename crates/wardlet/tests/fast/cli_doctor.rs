//! `wardlet doctor` on hosts that are files: what they say is found, and each fault has its cause and its fix.

use crate::support;

use std::os::unix::net::UnixListener;

use cri::image_service_server::ImageService;
use cri::runtime_service_server::RuntimeService;
use cri::server::{Listener, Services};
use cri::{Endpoint, Request, Response, Status};
use cri::{
    RuntimeHandler, RuntimeHandlerFeatures, StatusRequest, StatusResponse, VersionRequest, VersionResponse,
};
use serde_json::Value;
use support::Host;

const SETTINGS: &[(&str, &str)] = &[
    ("kernel/osrelease", "6.18.44"),
    ("user/max_user_namespaces", "96343"),
    ("kernel/seccomp/actions_avail", "kill_process errno allow"),
];

/// A host whose settings, IDs and cgroups are in order.
pub(crate) fn healthy() -> Host {
    let host = Host::with_subids("kubelet:65536:7208960\n", "kubelet:65536:7208960\n");
    for (name, value) in SETTINGS {
        host.write(&format!("proc/sys/{name}"), value);
    }
    host.write("sys/fs/cgroup/cgroup.controllers", "cpu memory pids");
    host.write("sys/fs/cgroup/cgroup.subtree_control", "cpu memory pids");
    host.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nkubelet:x:998:998::/:/usr/sbin/nologin\n");
    host.write("usr/bin/getsubids", "");
    host
}

pub(crate) fn checks(host: &Host, words: &str) -> Vec<Value> {
    host.json(&format!("doctor {words}"))["checks"].as_array().unwrap().clone()
}

#[track_caller]
pub(crate) fn check(checks: &[Value], need: &str) -> Value {
    let found = checks.iter().find(|check| check["need"].as_str().unwrap().starts_with(need));
    found.unwrap_or_else(|| panic!("nothing about {need:?} in {checks:#?}")).clone()
}

/// The one check that does not hold among those that files decide.
#[track_caller]
pub(crate) fn only_fault(host: &Host) -> Value {
    let faults: Vec<Value> = checks(host, "")
        .into_iter()
        .filter(|check| check["evidence"] == "files" && check["holds"] == false)
        .collect();
    assert_eq!(faults.len(), 1, "{faults:#?}");
    faults[0].clone()
}

pub(crate) fn text<'a>(check: &'a Value, field: &str) -> &'a str {
    check[field].as_str().unwrap_or_else(|| panic!("{check:#?} has no {field}"))
}

#[test]
fn every_check_says_what_is_needed_whether_it_holds_and_what_was_found() {
    let host = healthy();
    let all = checks(&host, "");
    assert!(all.len() > 20);
    for check in &all {
        assert!(!text(check, "need").is_empty() && !text(check, "found").is_empty(), "{check}");
        let fault = !check["holds"].as_bool().unwrap();
        assert_eq!((check["cause"].is_string(), check["fix"].is_string()), (fault, fault), "{check}");
    }
    let of_files = all.iter().filter(|check| check["evidence"] == "files");
    assert_eq!(of_files.filter(|check| check["holds"] == false).count(), 0);
    assert_eq!(text(&check(&all, "UserNamespacesSupport"), "found"), "on by default in Kubernetes 1.37");
    let pool = check(&all, "there is a pool");
    assert_eq!(text(&pool, "found"), "65536-7274495 (subuid and subgid entries of user kubelet)");
}

#[test]
fn the_first_fields_of_a_check_come_first() {
    let ran = healthy().run("doctor -o json");
    let order: Vec<_> = ["\"checks\"", "\"need\"", "\"holds\"", "\"found\"", "\"cause\"", "\"fix\""]
        .iter()
        .map(|field| ran.stdout.find(field).unwrap())
        .collect();
    assert!(order.is_sorted(), "{}", ran.stdout);
}

#[test]
fn the_table_fits_eighty_columns_and_says_what_is_not_from_files() {
    let host = healthy();
    host.write("proc/sys/user/max_user_namespaces", "0\n");
    let ran = host.run("doctor");
    assert_eq!(ran.code, Some(1));
    assert!(ran.stdout.lines().all(|line| line.chars().count() <= 80), "{}", ran.stdout);
    let fault = "  FAILS user.max_user_namespaces leaves room for 110 pods: 0\n        cause: user.max_user_namespaces is 0: ";
    assert!(ran.stdout.contains(fault), "{}", ran.stdout);
    assert!(ran.stderr.contains("note: what is tried is tried on the running kernel"), "{}", ran.stderr);
}

#[test]
fn a_broken_subuid_has_its_line_named_and_a_command_that_mends_it() {
    let host = healthy();
    host.write("etc/subuid", "alice:65536:65536\nkubelet:100000:65536\n");
    let fault = only_fault(&host);
    assert_eq!(text(&fault, "need"), "there is a pool of host IDs to give out");
    let cause = "/etc/subuid line 2: uids 100000-165535 start at 100000, which is not a multiple of the block length 65536";
    assert_eq!(text(&fault, "cause"), cause);
    let mend = "for f in /etc/subuid /etc/subgid; do sed -i '/^kubelet:/d' $f; echo kubelet:131072:7208960 >> $f; done";
    assert!(text(&fault, "fix").ends_with(mend), "{fault:#?}");
    assert_eq!(host.run("doctor").code, Some(1));

    // Typed on the host, it does.
    let typed = mend.replace("/etc/", &format!("{}/", host.path("etc").display()));
    assert!(std::process::Command::new("sh").args(["-c", &typed]).status().unwrap().success());
    let pool = check(&checks(&host, ""), "there is a pool");
    assert_eq!(text(&pool, "found"), "131072-7340031 (subuid and subgid entries of user kubelet)");
}

#[test]
fn entries_in_one_file_only_and_entries_of_the_hosts_own_ids_are_faults() {
    let host = healthy();
    host.write("etc/subgid", "");
    assert!(text(&only_fault(&host), "cause").contains("none in /etc/subgid"));
    host.write("etc/subgid", "kubelet:0:65536\n");
    assert!(text(&only_fault(&host), "cause").contains("the host's own IDs 0-65535"));
}

#[test]
fn a_neighbour_in_the_pool_is_named() {
    let host = healthy();
    host.write("etc/subgid", "kubelet:65536:7208960\nbob:131072:65536\n");
    let fault = only_fault(&host);
    assert_eq!(
        (text(&fault, "need"), text(&fault, "severity")),
        ("no other owner has IDs of the pool", "useful")
    );
    assert_eq!(text(&fault, "found"), "gids 131072-196607 of user bob (/etc/subgid line 2)");
    host.write("etc/subgid", "kubelet:65536:7208960\n");
    host.write("etc/passwd", "kubelet:x:998:998::/:/bin/false\nbig:x:200000:200000::/:/bin/sh\n");
    assert!(text(&only_fault(&host), "found").contains("200000 of user big (/etc/passwd line 2)"));
}

/// An upstream defect: a kubelet that finds the user and not the program does not start.
#[test]
fn a_node_on_which_a_kubelet_would_take_other_ids_or_not_start_is_found() {
    let host = healthy();
    std::fs::remove_file(host.path("usr/bin/getsubids")).unwrap();
    let fault = only_fault(&host);
    assert!(text(&fault, "cause").contains("no getsubids does not start"), "{fault:#?}");
    assert!(text(&fault, "fix").starts_with("apt-get install uidmap"));
    host.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
    assert!(text(&only_fault(&host), "fix").starts_with("useradd --system "));
}

#[test]
fn a_pool_that_is_too_small_for_the_nodes_pods_is_found() {
    let host = healthy();
    host.config("userNamespaces: {maxPods: 200}\n");
    let fault = only_fault(&host);
    assert_eq!(text(&fault, "need"), "the pool has a block for each of 200 pods");
    assert!(text(&fault, "fix").contains("13107200 IDs"), "{fault:#?}");
}

#[test]
fn settings_that_stop_pods_are_found_with_the_command_that_sets_them() {
    for (setting, value, need, fix) in [
        (
            "user/max_net_namespaces",
            "0",
            "user.max_net_namespaces is at least 110",
            "sysctl -w user.max_net_namespaces=110 && ",
        ),
        (
            "kernel/yama/ptrace_scope",
            "3",
            "kernel.yama.ptrace_scope is below 3",
            "write kernel.yama.ptrace_scope=2 ",
        ),
        (
            "fs/inotify/max_user_instances",
            "10",
            "fs.inotify.max_user_instances is",
            "sysctl -w fs.inotify.max_user_instances=128 && ",
        ),
        (
            "kernel/unprivileged_userns_clone",
            "0",
            "kernel.unprivileged_userns_clone forbids",
            "sysctl -w kernel.unprivileged_userns_clone=1 && ",
        ),
        ("kernel/osrelease", "5.15.0-1", "kernel 5.19 or newer", "boot a newer kernel"),
        (
            "kernel/seccomp/actions_avail",
            "kill",
            "the kernel filters system calls",
            "boot a kernel with CONFIG_SECCOMP_FILTER=y",
        ),
    ] {
        let host = healthy();
        host.write(&format!("proc/sys/{setting}"), value);
        let fault = only_fault(&host);
        assert!(text(&fault, "need").starts_with(need), "{fault:#?}");
        assert!(text(&fault, "fix").starts_with(fix), "{fault:#?}");
    }
}

#[test]
fn selinux_without_a_contexts_file_is_a_fault() {
    let host = healthy();
    host.write("sys/fs/selinux/enforce", "1");
    let fault = only_fault(&host);
    assert_eq!(text(&fault, "cause"), "there is no contexts file");
    assert!(text(&fault, "fix").contains("install container-selinux"));
}

#[test]
fn a_runtime_that_is_not_there_or_speaks_no_cri_leaves_the_question_open() {
    let host = healthy();
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("a.sock");
    let asked =
        || check(&checks(&host, &format!("--runtime-endpoint {}", socket.display())), "the runtime at");
    let absent = asked();
    assert_eq!((text(&absent, "verdict"), absent["holds"].as_bool()), ("open", Some(false)));
    assert!(text(&absent, "cause").ends_with("there is no such socket"), "{absent:#?}");
    let listener = UnixListener::bind(&socket).unwrap();
    let closing = std::thread::spawn(move || listener.incoming().take(2).for_each(drop));
    assert!(text(&asked(), "cause").contains("a.sock"));
    closing.join().unwrap();
    assert!(text(&asked(), "fix").starts_with("start the container runtime"));
    let refused = host.run("doctor --runtime-endpoint tcp://127.0.0.1:1");
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("only Unix sockets are understood"), "{}", refused.stderr);
}

/// Stands in for CRI-O, which is in no package registry: it tells handlers, and its configuration in words that
/// are not containerd's.
struct CriO {
    user_namespaces: bool,
}

#[tonic::async_trait]
impl RuntimeService for CriO {
    async fn version(&self, _: Request<VersionRequest>) -> Result<Response<VersionResponse>, Status> {
        let (runtime_name, runtime_version) = ("cri-o".into(), "1.36.0".into());
        Ok(Response::new(VersionResponse { runtime_name, runtime_version, ..Default::default() }))
    }

    async fn status(&self, _: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        let user_namespaces = self.user_namespaces;
        let features = Some(RuntimeHandlerFeatures { user_namespaces, recursive_read_only_mounts: true });
        let runtime_handlers = vec![RuntimeHandler { name: "crun".into(), features }];
        let info = [("config".to_owned(), "[crio]\nroot = \"/x\"\n".to_owned())].into();
        Ok(Response::new(StatusResponse { runtime_handlers, info, ..Default::default() }))
    }
}

struct NoImages;

impl ImageService for NoImages {}

#[test]
fn a_runtime_other_than_containerd_is_taken_at_its_word() {
    let host = healthy();
    for (user_namespaces, found) in
        [(true, "claimed; which program is behind it is not known"), (false, "no")]
    {
        let dir = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::try_from(dir.path().join("crio.sock")).unwrap();
        let threads =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = threads.block_on(Listener::bind(&endpoint)).unwrap();
        let services = Services { runtime: CriO { user_namespaces }, images: NoImages };
        threads.spawn(listener.serve(services, std::future::pending()));
        let all = checks(&host, &format!("--runtime-endpoint {endpoint}"));
        assert_eq!(text(&check(&all, "the runtime at"), "found"), "cri-o 1.36.0");
        let handler = check(&all, "handler \"crun\" gives pods user namespaces");
        assert_eq!((text(&handler, "found"), text(&handler, "severity")), (found, "needed"));
        assert_eq!(handler["holds"].as_bool(), Some(user_namespaces));
    }
}
