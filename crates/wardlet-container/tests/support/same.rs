//! A container's first process and one more, side by side.

use std::collections::BTreeMap;
use std::fs;

use container::{Engine, Seccomp, WantedUser};
use kernel::{Namespace, NamespaceKind, Process};
use serde_json::json;

use super::{BASE, Box, Users};

/// Kinds of processes that a container may begin with.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub users: Users,
    pub user: Option<u32>,
    pub no_new_privileges: bool,
    pub filtered: bool,
}

pub const CASES: [Case; 5] = [
    Case { users: Users::Host, user: None, no_new_privileges: false, filtered: true },
    Case { users: Users::Host, user: Some(1000), no_new_privileges: true, filtered: true },
    Case { users: Users::Pod, user: None, no_new_privileges: false, filtered: true },
    Case { users: Users::Pod, user: Some(1000), no_new_privileges: true, filtered: true },
    Case { users: Users::New, user: Some(1000), no_new_privileges: false, filtered: false },
];

pub fn one_more_is_as_the_first(engine: &Engine, case: Case) {
    let mut one = Box::new(engine.clone(), case.users, &["/bin/sleep", "1000"]);
    let process = &mut one.job.start.process;
    process.no_new_privileges = case.no_new_privileges;
    if case.filtered {
        process.seccomp = Seccomp::Profile(std::boxed::Box::new(container::seccomp::runtime_default(
            &process.capabilities,
        )));
    }
    process.user = WantedUser { uid: case.user, groups: vec![7, 8], ..WantedUser::default() };
    let init = one.started();
    super::wait_until("the program runs", || comm(init) == "sleep");
    let exec = one.exec(json!({ "args": ["sleep", "1000"], "tty": false }));
    let more = exec.started();
    let (first, second) = (facts(init), facts(more));
    assert_eq!(first, second, "{engine:?} {case:?}");
    are_right(&one, init, &first, case);
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(more.cast_signed()).unwrap(),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    assert_eq!(exec.next().0, json!({ "exited": { "signal": 15 } }));
    let mut exec = exec;
    assert_eq!(exec.status().code(), Some(128 + 15));
    one.delete_and_look();
}

fn comm(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

/// The signals up to 31: two of the others are glibc's own, and runc hands on how it found them.
fn ordinary(set: &str) -> String {
    let set = u64::from_str_radix(set.trim(), 16).unwrap();
    format!("{:016x}", set & 0x7fff_ffff)
}

/// All that a process is held by.
fn facts(pid: u32) -> BTreeMap<String, String> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let mut facts = BTreeMap::new();
    for (kind, id) in Process::open(pid).unwrap().namespaces().unwrap().iter() {
        facts.insert(format!("{kind} namespace"), id.to_string());
    }
    let lines = [
        "CapInh",
        "CapPrm",
        "CapEff",
        "CapBnd",
        "CapAmb",
        "Seccomp",
        "Seccomp_filters",
        "NoNewPrivs",
        "Uid",
        "Gid",
        "Groups",
        "Umask",
        "SigBlk",
        "SigIgn",
        "SigCgt",
    ];
    for line in read("status").lines() {
        if let Some((name, value)) = line.split_once(':')
            && lines.contains(&name)
        {
            facts.insert(
                name.to_owned(),
                if name == "SigIgn" { ordinary(value) } else { value.trim().to_owned() },
            );
        }
    }
    for file in ["uid_map", "gid_map", "limits", "cgroup", "oom_score_adj", "mountinfo"] {
        facts.insert(file.to_owned(), read(file));
    }
    // Nothing where no security module gives labels.
    let label = fs::read_to_string(format!("/proc/{pid}/attr/current")).unwrap_or_default();
    facts.insert("label".to_owned(), label);
    let fds = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let mut fds: Vec<String> = fds.map(|fd| fd.unwrap().file_name().into_string().unwrap()).collect();
    fds.sort();
    facts.insert("descriptors".to_owned(), fds.join(" "));
    let link = |name: &str| fs::read_link(format!("/proc/{pid}/{name}")).unwrap().display().to_string();
    facts.insert("cwd".to_owned(), link("cwd"));
    facts
}

fn are_right(one: &Box, init: u32, facts: &BTreeMap<String, String>, case: Case) {
    let fact = |name: &str| facts[name].as_str();
    let base = if case.users == Users::Host { 0 } else { BASE };
    let map = fact("uid_map").split_whitespace().collect::<Vec<_>>().join(" ");
    if case.users == Users::Host {
        assert_eq!(map, "0 0 4294967295");
    } else {
        assert_eq!(map, format!("0 {BASE} 65536"));
    }
    let (uid, gid) = (base + case.user.unwrap_or(0), base + case.user.map_or(0, |_| 1001));
    assert_eq!(fact("Uid"), format!("{uid}\t{uid}\t{uid}\t{uid}"));
    assert_eq!(fact("Gid"), format!("{gid}\t{gid}\t{gid}\t{gid}"));
    let mut groups: Vec<u32> = match case.user {
        Some(_) => vec![1001, 50, 7, 8],
        None => vec![0, 7, 8],
    };
    groups.sort_unstable();
    let groups: Vec<String> = groups.iter().map(|gid| (base + gid).to_string()).collect();
    assert_eq!(fact("Groups"), groups.join(" "));
    let usual = "00000000a80425fb";
    let (held, none) = if case.user.is_none() {
        (usual, "0000000000000000")
    } else {
        ("0000000000000000", "0000000000000000")
    };
    assert_eq!([fact("CapPrm"), fact("CapEff"), fact("CapBnd")], [held, held, usual]);
    assert_eq!([fact("CapInh"), fact("CapAmb")], [none; 2]);
    assert_eq!(fact("Seccomp"), if case.filtered { "2" } else { "0" });
    assert_eq!(fact("NoNewPrivs"), if case.no_new_privileges { "1" } else { "0" });
    assert_eq!([fact("Umask"), fact("oom_score_adj").trim()], ["0022", "123"]);
    assert_eq!(
        [fact("SigBlk"), fact("SigIgn")],
        ["0000000000000000"; 2],
        "a program finds signals as they begin"
    );
    assert_eq!((fact("cwd"), fact("descriptors")), ("/", "0 1 2"));
    if !one.job.start.process.rlimits.is_empty() {
        assert!(
            fact("limits").lines().any(|l| l.split_whitespace().collect::<Vec<_>>()
                == ["Max", "open", "files", "777", "9999", "files"])
        );
    }
    for line in fact("cgroup")
        .lines()
        .filter(|line| ["memory", "pids", "devices"].iter().any(|c| line.split(':').nth(1) == Some(c)))
    {
        assert!(line.ends_with(&one.job.start.cgroup.path), "{line}");
    }
    // With one hierarchy there is one line, which names no controllers.
    if fact("cgroup").lines().count() == 1 {
        assert!(fact("cgroup").trim().ends_with(&one.job.start.cgroup.path), "{}", fact("cgroup"));
    }
    let own = Process::own().unwrap().namespaces().unwrap();
    let theirs = Process::open(init).unwrap().namespaces().unwrap();
    let differing: Vec<_> = theirs.differing(&own).collect();
    let expected: Vec<_> = NamespaceKind::ALL
        .into_iter()
        .filter(|kind| {
            *kind != NamespaceKind::Time && (*kind != NamespaceKind::User || case.users != Users::Host)
        })
        .collect();
    assert_eq!(differing, expected);
    if case.users == Users::Pod {
        for (kind, pin) in [
            (NamespaceKind::User, "user"),
            (NamespaceKind::Net, "net"),
            (NamespaceKind::Ipc, "ipc"),
            (NamespaceKind::Uts, "uts"),
        ] {
            let pinned = Namespace::open(&one.path("ns").join(pin)).unwrap();
            assert_eq!(theirs.get(kind), Some(pinned.id()), "{kind}");
        }
    }
    let owner = Process::open(init).unwrap().namespace(NamespaceKind::Pid).unwrap().owner().unwrap().unwrap();
    assert_eq!(Some(owner.id()), theirs.get(NamespaceKind::User));
}
