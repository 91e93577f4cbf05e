//! The real binary on a host of its own: a directory with the few files that it reads.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "each test binary uses what it needs, and a test may panic"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) struct Host {
    dir: tempfile::TempDir,
}

/// What one run came to, times and the host's own directory made comparable.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Host {
    /// Ten blocks from 65536, nobody else there.
    pub(crate) fn new() -> Self {
        let host = Self { dir: tempfile::tempdir().unwrap() };
        host.write("etc/subuid", "kubelet:65536:655360\n");
        host.write("etc/subgid", "kubelet:65536:655360\n");
        host.write("etc/passwd", "root:x:0:0:root:/root:/bin/sh\n");
        host.boot("boot-1");
        host
    }

    pub(crate) fn with_subids(subuid: &str, subgid: &str) -> Self {
        let host = Self::new();
        host.write("etc/subuid", subuid);
        host.write("etc/subgid", subgid);
        host
    }

    pub(crate) fn boot(&self, id: &str) {
        self.write("proc/sys/kernel/random/boot_id", &format!("{id}\n"));
    }

    /// Where the host's `path` is.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join("host").join(path)
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn config(&self, text: &str) {
        self.write("etc/wardlet/config.yaml", text);
    }

    /// A process in a user namespace with this number and this map for users and groups.
    pub(crate) fn process(&self, pid: u32, user_namespace: u64, map: &str) {
        let first = map.split_whitespace().nth(1).unwrap();
        let status = format!(
            "Name:\tfake\nPPid:\t1\nUid:\t{first}\t{first}\t{first}\t{first}\n\
             Gid:\t{first}\t{first}\t{first}\t{first}\nGroups:\t \nThreads:\t1\n"
        );
        let dir = format!("proc/{pid}");
        for (name, text) in
            [("status", status.as_str()), ("uid_map", map), ("gid_map", map), ("mountinfo", "")]
        {
            self.write(&format!("{dir}/{name}"), text);
        }
        fs::create_dir_all(self.path(&format!("{dir}/fd"))).unwrap();
        fs::create_dir_all(self.path(&format!("{dir}/ns"))).unwrap();
        let links = [
            ("ns/user", format!("user:[{user_namespace}]")),
            ("ns/mnt", "mnt:[7]".into()),
            ("root", "/".into()),
        ];
        for (name, target) in links {
            symlink(target, self.path(&format!("{dir}/{name}"))).unwrap();
        }
    }

    pub(crate) fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wardlet"));
        command.args(words.split_whitespace().map(|w| self.expanded(w)));
        command.arg("--state-dir").arg(self.state()).arg("--host-root").arg(self.path(""));
        command
    }

    /// HOST in a word stands for the host's root.
    fn expanded(&self, word: &str) -> String {
        word.replace("HOST", self.path("").to_str().unwrap().trim_end_matches('/'))
    }

    pub(crate) fn run(&self, words: &str) -> Ran {
        self.comparable(&self.command(words).output().unwrap())
    }

    fn comparable(&self, output: &Output) -> Ran {
        let text = |bytes: &[u8]| {
            let text = String::from_utf8(bytes.to_vec()).unwrap();
            let root = self.path("");
            let text = text.replace(root.to_str().unwrap().trim_end_matches('/'), "HOST");
            times_replaced(&text.replace(self.state().to_str().unwrap(), "STATE"))
        };
        Ran { code: output.status.code(), stdout: text(&output.stdout), stderr: text(&output.stderr) }
    }

    /// Runs and compares everything.
    #[track_caller]
    pub(crate) fn shows(&self, words: &str, expected: &str) {
        let Ran { code, stdout, stderr } = self.run(words);
        let mut found = stdout;
        if !stderr.is_empty() {
            found.push_str("~ stderr\n");
            found.push_str(&stderr);
        }
        if code != Some(0) {
            found.push_str(&format!("~ exit {}\n", code.unwrap()));
        }
        assert!(found == expected, "wardlet {words}\n--- found\n{found}--- expected\n{expected}---");
    }

    /// Runs what must work and is not looked at.
    #[track_caller]
    pub(crate) fn done(&self, words: &str) {
        let ran = self.run(words);
        assert_eq!(ran.code, Some(0), "wardlet {words}: {ran:?}");
    }

    #[track_caller]
    pub(crate) fn json(&self, words: &str) -> serde_json::Value {
        let ran = self.run(&format!("{words} -o json"));
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("wardlet {words}: {e}: {ran:?}"))
    }
}

/// Every `2026-01-31T12:00:00Z` becomes TIME.
pub(crate) fn times_replaced(text: &str) -> String {
    const LENGTH: usize = "2026-01-31T12:00:00Z".len();
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        match rest.get(..LENGTH).filter(|t| is_time(t)) {
            Some(_) => {
                out.push_str("TIME");
                rest = &rest[LENGTH..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

fn is_time(text: &str) -> bool {
    text.chars().zip("dddd-dd-ddTdd:dd:ddZ".chars()).all(|(c, shape)| match shape {
        'd' => c.is_ascii_digit(),
        other => c == other,
    })
}

/// The names of everything in a directory.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
