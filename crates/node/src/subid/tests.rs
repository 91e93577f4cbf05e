use std::fs;

use super::*;

fn host(files: &[(&str, &str)]) -> (tempfile::TempDir, HostRoot) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("etc")).unwrap();
    for (name, text) in files {
        fs::write(dir.path().join("etc").join(name), text).unwrap();
    }
    let root = HostRoot::new(dir.path());
    (dir, root)
}

#[test]
fn entries_of_the_kubelet_are_found_with_their_lines() {
    let (_dir, root) = host(&[
        ("subuid", "alice:100000:65536\nkubelet:65536:65536\nkubelet:262144:131072\n"),
        ("subgid", "kubelet:65536:196608\n"),
    ]);
    let source = discover(&root, None).unwrap().unwrap();
    let origins: Vec<_> = source.uids.iter().map(|r| (r.ids.first(), r.origin.as_str())).collect();
    assert_eq!(origins, [(65_536, "/etc/subuid line 2"), (262_144, "/etc/subuid line 3")]);
    assert_eq!(source.gids[0].origin, "/etc/subgid line 1");
}

#[test]
fn an_owner_without_any_entry_has_no_source() {
    let (_dir, root) = host(&[("subuid", "alice:100000:65536\n")]);
    assert!(discover(&root, None).unwrap().is_none());
    let (_dir, root) = host(&[]);
    assert!(discover(&root, Some("pods")).unwrap().is_none());
}

#[test]
fn an_entry_in_one_file_only_names_the_other() {
    let (_dir, root) = host(&[("subuid", "kubelet:65536:65536\n")]);
    let error = discover(&root, None).unwrap_err();
    assert_eq!(error.to_string(), "kubelet has an entry in /etc/subuid and none in /etc/subgid");
    assert_eq!(error.hint(), "add a line for kubelet to /etc/subgid");
    let (_dir, root) = host(&[("subgid", "pods:65536:65536\n")]);
    let error = discover(&root, Some("pods")).unwrap_err();
    assert!(matches!(error, SourceError::OneSided { missing: SUBUID, .. }));
}

#[test]
fn a_bad_line_of_the_owner_is_refused_and_one_of_others_is_not() {
    let (_dir, root) = host(&[
        ("subuid", "alice:nonsense\nkubelet:65536:65536\n"),
        ("subgid", "kubelet:65536:65536\nkubelet:4294901760:131072\n"),
    ]);
    let error = discover(&root, None).unwrap_err();
    assert!(error.to_string().starts_with("/etc/subgid line 2 "), "{error}");
    assert!(!error.hint().is_empty());
    let (_dir, root) =
        host(&[("subuid", "alice:nonsense\nkubelet:65536:65536\n"), ("subgid", "kubelet:65536:65536\n")]);
    assert!(discover(&root, None).unwrap().is_some());
}

#[test]
fn nsswitch_with_files_or_without_a_word_reads_the_files() {
    for text in ["", "passwd: files ldap\n", "subid: files\n", "# subid: sss\nsubid:files # sss\n"] {
        assert_eq!(foreign_service(text), None, "{text}");
    }
    assert_eq!(foreign_service("subid: files [NOTFOUND=return] sss\n").as_deref(), Some("sss"));
}

#[test]
fn another_source_under_another_root_is_refused_and_the_files_are_not_read() {
    let (_dir, root) = host(&[
        ("nsswitch.conf", "subid: sss\n"),
        ("subuid", "kubelet:65536:65536\n"),
        ("subgid", "kubelet:65536:65536\n"),
    ]);
    assert!(matches!(discover(&root, None), Err(SourceError::ForeignRoot { .. })));
}

/// The program is copied by a child: had this process ever had it open for writing, a test that
/// forks at that moment would make it busy.
fn program(dir: &Path, script: &str) -> std::path::PathBuf {
    let (text, path) = (dir.join("text"), dir.join("getsubids"));
    fs::write(&text, format!("#!/bin/sh\n{script}\n")).unwrap();
    let copied = Command::new("install").args(["-m", "755"]).args([&text, &path]).status().unwrap();
    assert!(copied.success());
    path
}

#[test]
fn another_source_is_asked_through_getsubids_for_users_and_groups() {
    let dir = tempfile::tempdir().unwrap();
    let path = program(
        dir.path(),
        "if [ \"$1\" = -g ]; then echo \"0: $2 131072 65536\"; else echo \"0: $1 65536 65536\"; fi",
    );
    let source = from_getsubids(&path, "sss", "kubelet").unwrap().unwrap();
    assert_eq!(source.uids[0].ids.first(), 65_536);
    assert_eq!(source.gids[0].ids.first(), 131_072);
    assert!(source.gids[0].origin.ends_with("getsubids -g kubelet line 1"));
}

#[test]
fn a_getsubids_that_is_missing_fails_or_prints_nonsense_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let missing = from_getsubids(&dir.path().join("none"), "sss", "kubelet").unwrap_err();
    assert!(matches!(missing, SourceError::NoAnswer { .. }), "{missing}");
    let failing = program(dir.path(), "echo Error fetching ranges >&2; exit 1");
    let failed = from_getsubids(&failing, "sss", "kubelet").unwrap_err();
    assert!(failed.to_string().contains("Error fetching ranges"), "{failed}");
    let other = tempfile::tempdir().unwrap();
    let odd = program(other.path(), "echo hello");
    assert!(matches!(from_getsubids(&odd, "sss", "k"), Err(SourceError::BadLine { .. })));
}
