//! The command line on the real host. Needs root.

use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// A state directory with a pool of its own, so that tests side by side do not see each other's
/// processes in their blocks.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    /// Ten blocks from `first` on.
    fn new(first: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let pool = format!("{first}-{}", first + 655_359);
        let config = format!("userNamespaces: {{pool: {{uids: [\"{pool}\"]}}}}\n");
        fs::write(dir.path().join("config.yaml"), config).unwrap();
        Self { dir }
    }

    fn run(&self, words: &str) -> Output {
        self.run_in("state", words)
    }

    fn run_in(&self, state: &str, words: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wardlet"));
        command.args(words.split_whitespace()).arg("--config").arg(self.dir.path().join("config.yaml"));
        command.arg("--state-dir").arg(self.dir.path().join(state)).output().unwrap()
    }

    fn json(&self, words: &str) -> Value {
        parsed(&self.run(&format!("{words} -o json")))
    }
}

fn parsed(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"))
}

fn insist_on_root() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    assert!(status.contains("\nUid:\t0\t0\t0\t0\n"), "this test needs root");
}

/// A process that is gone when this is.
struct Planted(Child);

impl Planted {
    /// A process with this ID as every one of its user and group IDs.
    fn with_id(id: u64) -> Self {
        let id = id.to_string();
        let child = Command::new("setpriv")
            .args(["--reuid", &id, "--regid", &id, "--clear-groups", "sleep", "60"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let planted = Self(child);
        let deadline = Instant::now() + Duration::from_secs(10);
        while !planted.sleeps() {
            assert!(Instant::now() < deadline, "setpriv did not become sleep");
            std::thread::sleep(Duration::from_millis(10));
        }
        planted
    }

    fn sleeps(&self) -> bool {
        fs::read_to_string(format!("/proc/{}/comm", self.0.id())).is_ok_and(|comm| comm == "sleep\n")
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn an_audit_of_this_host_says_what_its_exit_code_says() {
    insist_on_root();
    let site = Site::new(3_014_656_000);
    let output = site.run("ids audit -o json");
    let audit: Value = serde_json::from_slice(&output.stdout).unwrap();
    let code = match audit["verdict"].as_str().unwrap() {
        "holds" => 0,
        "violated" => 1,
        _ => 2,
    };
    assert_eq!(output.status.code(), Some(code), "{audit:#}");
    assert!(!site.dir.path().join("state").exists());
}

#[test]
fn a_process_in_a_draining_block_keeps_it_until_it_is_gone() {
    insist_on_root();
    let site = Site::new(3_021_209_600);
    let lease = site.json("ids lease web");
    let base = lease["uidMappings"][0]["hostId"].as_u64().unwrap();
    let planted = Planted::with_id(base + 1000);
    let (pid, id) = (planted.0.id(), base + 1000);
    let user = format!("process {pid} (sleep)");

    let released = site.run("ids release web");
    let text = String::from_utf8(released.stdout).unwrap();
    assert_eq!(released.status.code(), Some(0));
    assert!(text.contains(&format!("draining: in use by {user}: ")), "{text}");

    let gc = site.json("ids gc");
    assert_eq!(gc["verdicts"][0]["outcome"], "draining");
    assert!(gc["verdicts"][0]["keptBy"][0].as_str().unwrap().starts_with(&user), "{gc}");

    let owner = site.json(&format!("ids owner {id}"));
    let names = |kind: &str| -> Vec<String> {
        owner[kind].as_array().unwrap().iter().map(|o| o["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("uid"), ["lease of web", &user]);
    assert_eq!(names("gid"), ["lease of web", &user]);

    let audit = site.run("ids audit -o json");
    let findings = String::from_utf8(audit.stdout).unwrap();
    assert_eq!(audit.status.code(), Some(1));
    assert!(findings.contains("foreignProcess") && findings.contains(&user), "{findings}");

    drop(planted);
    let gc = site.json("ids gc");
    assert_ne!(gc["verdicts"][0]["outcome"], "draining", "{gc}");
    assert!(!gc.to_string().contains(&user), "{gc}");
}

#[test]
fn a_block_that_somebody_lives_in_is_not_given_out() {
    insist_on_root();
    let site = Site::new(3_027_763_200);
    let lease_in = |state| {
        let lease = parsed(&site.run_in(state, "ids lease web -o json"));
        lease["uidMappings"][0]["hostId"].as_u64().unwrap()
    };
    let first = lease_in("one");
    let _planted = Planted::with_id(first + 7);
    let second = lease_in("two");
    assert_ne!(first, second);
}

/// The disk is a small tmpfs in a mount namespace of the shell's own, gone with it.
#[test]
fn a_full_disk_is_said_and_loses_nothing() {
    insist_on_root();
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        set -u
        mount -t tmpfs -o size=256k tmpfs "$DISK" || exit 99
        lease() { "$WARDLET" ids lease "$1" --state-dir "$DISK/state" -o json; }
        given=""
        for i in 1 2 3; do lease "pod-$i" >"$OUT/pod-$i" 2>"$OUT/err" && given="$given pod-$i"; done
        cat /dev/zero >"$DISK/filler" 2>/dev/null
        i=4
        while [ $i -lt 2000 ]; do
            lease "pod-$i" >"$OUT/pod-$i" 2>"$OUT/err"
            echo $? >"$OUT/code"
            [ "$(cat "$OUT/code")" = 0 ] || break
            given="$given pod-$i"; i=$((i + 1))
        done
        rm "$DISK/filler"
        echo $given >"$OUT/given"
        "$WARDLET" ids list --state-dir "$DISK/state" -o json >"$OUT/list" 2>"$OUT/list.err" || exit 97
        lease after >"$OUT/after" || exit 96
    "#;
    let (disk, out) = (dir.path().join("disk"), dir.path().join("out"));
    fs::create_dir(&disk).unwrap();
    fs::create_dir(&out).unwrap();
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", script])
        .env("WARDLET", env!("CARGO_BIN_EXE_wardlet"))
        .env("DISK", &disk)
        .env("OUT", &out)
        .output()
        .unwrap();
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?} {}", read("err"));

    let error = read("err");
    assert!(error.starts_with("error: no space left on the disk of "), "{error}");
    assert!(error.contains(": nothing was changed\n\nhint: free some space on the disk of "), "{error}");
    assert_eq!(read("code"), "2\n");
    assert_eq!(read("list.err"), "");
    let list: Value = serde_json::from_str(&read("list")).unwrap();
    let mut listed: Vec<_> = list.as_array().unwrap().iter().map(|l| l["holder"].as_str().unwrap()).collect();
    let given = read("given");
    let mut given: Vec<_> = given.split_whitespace().collect();
    listed.sort_unstable();
    given.sort_unstable();
    assert!(given.len() >= 3);
    assert_eq!(listed, given);
    for lease in list.as_array().unwrap() {
        let first: Value = serde_json::from_str(&read(lease["holder"].as_str().unwrap())).unwrap();
        assert_eq!(first["uidMappings"], lease["uidMappings"]);
    }
}

/// The files are made to say so in a mount namespace of the shell's own, gone with it.
#[test]
fn another_source_of_subids_without_getsubids_is_refused_and_subuid_is_not_used_instead() {
    insist_on_root();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("nsswitch.conf"), "passwd: files\nsubid: sss\n").unwrap();
    fs::write(dir.path().join("empty"), "").unwrap();
    fs::write(dir.path().join("subid"), "kubelet:65536:655360\n").unwrap();
    let script = r#"
        for file in nsswitch.conf:/etc/nsswitch.conf subid:/etc/subuid subid:/etc/subgid; do
            mount --bind "$DIR/${file%%:*}" "${file#*:}" || exit 99
        done
        [ ! -e /usr/bin/getsubids ] || mount --bind "$DIR/empty" /usr/bin/getsubids || exit 98
        "$WARDLET" ids lease web --state-dir "$DIR/state"
    "#;
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", script])
        .env("WARDLET", env!("CARGO_BIN_EXE_wardlet"))
        .env("DIR", dir.path())
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let cause = "error: /etc/nsswitch.conf takes subordinate IDs from \"sss\", and /usr/bin/getsubids kubelet gave no answer: ";
    assert!(stderr.starts_with(cause), "{stderr}");
    assert!(
        stderr.ends_with("or configure the pool explicitly; /etc/subuid is not used instead\n"),
        "{stderr}"
    );
    assert!(!dir.path().join("state").exists());
}
