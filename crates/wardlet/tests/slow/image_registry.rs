//! `wardlet image pull` from a real registry: every way to log in, TLS, mirrors, faults on the way, and killed
//! at any system call.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use testbed::cluster::addresses::{FAULT_PROXY, REGISTRY, REGISTRY_BASIC, REGISTRY_TOKEN};
use testbed::registry::faults::{Fault, Rule, requests, set};
use testbed::registry::{PASSWORD, USER};
use testbed::{Part, Parts, Testbed};

/// An image of some size that the registry has.
const IMAGE: &str = "registry-only:1";
const TLS: &str = "127.0.0.1:5443";

struct Node {
    testbed: Testbed,
    dir: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let testbed = Testbed::start(Parts::of(&[Part::Registry])).expect("a registry");
        let node = Self { testbed, dir: tempfile::tempdir_in("/var/tmp").unwrap() };
        let plain = [REGISTRY, REGISTRY_BASIC, REGISTRY_TOKEN, FAULT_PROXY];
        let plain: String = plain.iter().map(|host| format!("  {host}: {{plainHttp: true}}\n")).collect();
        node.registries(&format!("registries:\n{plain}"));
        node
    }

    fn registries(&self, text: &str) {
        fs::write(self.path("registries.yaml"), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The program inside the testbed, behind another one if need be.
    fn command(&self, before: &[&str], state: &str, words: &[&str]) -> Command {
        let own = env!("CARGO_BIN_EXE_wardlet");
        let mut command = match before.split_first() {
            Some((first, rest)) => {
                let mut command = self.testbed.command(first);
                command.args(rest).arg(own);
                command
            }
            None => self.testbed.command(own),
        };
        command.args(["--host-root", self.dir.path().to_str().unwrap(), "--state-dir"]).arg(self.path(state));
        command.args(["-o", "json", "image", "--registries"]).arg(self.path("registries.yaml")).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, state: &str, words: &[&str]) -> Output {
        self.command(&[], state, words).output().unwrap()
    }

    fn pull(&self, state: &str, host: &str) -> Output {
        self.run(state, &["pull", &format!("{host}/{IMAGE}")])
    }

    /// The pulled image, or what was said instead.
    fn pulled(&self, state: &str, host: &str) -> Result<Value, String> {
        answer(&self.pull(state, host))
    }

    fn faults(&self, rules: &[Rule]) {
        set(self.testbed.record(), rules).expect("rules");
    }

    fn store(&self, state: &str) -> BTreeMap<String, String> {
        tree(&self.path(state).join("images"))
    }
}

fn answer(output: &Output) -> Result<Value, String> {
    if output.status.success() {
        let all: Value = serde_json::from_slice(&output.stdout).unwrap();
        Ok(all[0].clone())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Every path but locks, with what it is and, for files that are not layers', what it holds.
fn tree(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if name.starts_with("locks/") {
                continue;
            }
            let meta = path.symlink_metadata().unwrap();
            if meta.is_dir() {
                folders.push(path.clone());
            }
            let text = if meta.is_file() {
                fs::read(&path).map(|b| format!("{:x?}", &b[..b.len().min(4096)])).unwrap()
            } else {
                String::new()
            };
            found.insert(
                name,
                format!(
                    "{:o} {}:{} {} {text}",
                    meta.mode(),
                    meta.uid(),
                    meta.gid(),
                    if meta.is_dir() { 0 } else { meta.len() }
                ),
            );
        }
    }
    found
}

fn blobs(times: u32, fault: Fault) -> Rule {
    Rule { target: "/blobs/".into(), times, fault }
}

#[test]
fn every_way_to_log_in_leads_to_the_same_image() {
    let node = Node::new();
    let open = node.pulled("open", REGISTRY).unwrap();
    assert_eq!(open["names"][0], format!("{REGISTRY}/{IMAGE}"));
    for host in [REGISTRY_BASIC, REGISTRY_TOKEN] {
        let error = node.pulled("closed", host).unwrap_err();
        assert!(error.contains("not authorized") && error.contains("\nhint: "), "{error}");
        let with = |password: &str| {
            let mut command =
                node.command(&[], "closed", &["pull", &format!("{host}/{IMAGE}"), "--user", USER]);
            let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
            child.stdin.take().unwrap().write_all(format!("{password}\n").as_bytes()).unwrap();
            answer(&child.wait_with_output().unwrap())
        };
        let error = with("wrong").unwrap_err();
        assert!(error.contains("not authorized") && !error.contains("wrong"), "{error}");
        assert_eq!(with(PASSWORD).unwrap()["id"], open["id"], "{host}");
    }
    let secret = "dGVzdGJlZDp3YXJkcw==";
    fs::write(node.path("auth.json"), format!(r#"{{"auths":{{"{REGISTRY_TOKEN}":{{"auth":"{secret}"}}}}}}"#))
        .unwrap();
    let file = node.path("auth.json");
    let words = ["pull", &format!("{REGISTRY_TOKEN}/{IMAGE}"), "--auth-file", file.to_str().unwrap()];
    assert_eq!(answer(&node.run("file", &words)).unwrap()["id"], open["id"]);
}

/// A registry of ours is not asked in the clear unless somebody said so.
#[test]
fn plain_http_is_only_spoken_where_it_is_configured() {
    let node = Node::new();
    node.registries("");
    let error = node.pulled("state", REGISTRY).unwrap_err();
    assert!(error.contains(&format!("https://{REGISTRY}")), "{error}");
}

/// The testbed's registry over the same store, with a certificate of the testbed's own authority.
struct TlsRegistry(Child);

impl TlsRegistry {
    fn start(node: &Node) -> Self {
        let kubeconfig = node.testbed.kubeconfig();
        let pki = kubeconfig.parent().unwrap();
        let store = pki.ancestors().map(|dir| dir.join("registry")).find(|dir| dir.is_dir());
        let store = store.unwrap_or_else(|| panic!("no registry's store above {}", pki.display()));
        let config = format!(
            "version: 0.1\nlog: {{level: warn}}\nstorage:\n  filesystem: {{rootdirectory: {}}}\nhttp:\n  addr: {TLS}\n  \
             tls: {{certificate: {}, key: {}}}\n",
            store.display(),
            pki.join("apiserver.crt").display(),
            pki.join("apiserver.key").display()
        );
        let path = node.path("tls.yml");
        fs::write(&path, config).unwrap();
        let mut command = node.testbed.command("registry");
        let child = command
            .arg("serve")
            .arg(path)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the registry");
        Self(child)
    }
}

impl Drop for TlsRegistry {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn tls_is_trusted_by_the_authority_that_is_named_and_by_no_other() {
    let node = Node::new();
    let ca = node.testbed.kubeconfig().parent().unwrap().join("ca.crt");
    let _registry = TlsRegistry::start(&node);
    let trusted = format!("registries:\n  {TLS}: {{ca: [{}]}}\n", ca.display());
    node.registries(&trusted);
    // It needs a moment to listen.
    let mut found = node.pulled("tls", TLS);
    for _ in 0..50 {
        if found.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
        found = node.pulled("tls", TLS);
    }
    found.unwrap();
    node.registries("");
    let error = node.pulled("untrusted", TLS).unwrap_err();
    assert!(error.contains("certificate") && error.contains("hint: name the registry's own CA"), "{error}");
    node.registries(&format!("registries:\n  {TLS}: {{ca: [/nowhere.pem]}}\n"));
    let error = node.pulled("untrusted", TLS).unwrap_err();
    assert!(error.contains("/nowhere.pem"), "{error}");
}

#[test]
fn mirrors_are_asked_first_and_the_registry_has_the_last_word() {
    let node = Node::new();
    let through = |mirrors: &str| {
        node.registries(&format!(
            "registries:\n  {FAULT_PROXY}: {{plainHttp: true}}\n  {REGISTRY}: {{plainHttp: true, mirrors: [{mirrors}]}}\n  \
             127.0.0.1:1: {{plainHttp: true}}\n"
        ));
    };
    let asked = || requests(node.testbed.record()).unwrap().len();
    through(&format!("\"{FAULT_PROXY}\""));
    let image = node.pulled("mirror", REGISTRY).unwrap();
    assert_eq!(
        image["names"][0],
        format!("{REGISTRY}/{IMAGE}"),
        "the name is the registry's, not the mirror's"
    );
    assert!(asked() >= 3, "the mirror was asked");
    let log = requests(node.testbed.record()).unwrap().join("\n");
    assert!(log.contains("ns=127.0.0.1%3A5000") || log.contains("ns=127.0.0.1:5000"), "{log}");
    // One that nobody listens at, and one that lies.
    through("\"127.0.0.1:1\"");
    node.pulled("absent", REGISTRY).unwrap();
    node.faults(&[blobs(1000, Fault::Corrupt)]);
    through(&format!("\"{FAULT_PROXY}\""));
    node.pulled("lying", REGISTRY).unwrap();
}

#[test]
fn what_broke_off_is_gone_on_with_and_not_fetched_again() {
    let node = Node::new();
    // The small configuration is whole after so many bytes; the layer is cut.
    node.faults(&[blobs(2, Fault::Cut { after: 300_000 })]);
    node.pulled("cut", FAULT_PROXY).unwrap();
    let log = requests(node.testbed.record()).unwrap().join("\n");
    assert!(log.contains("bytes=300000-"), "{log}");
    assert_eq!(fs::read_dir(node.path("cut/images/partial")).unwrap().count(), 0);
    // Every piece is cut, so often that the pull gives up: the next goes on where it was.
    node.faults(&[
        blobs(1, Fault::Cut { after: 300_000 }),
        blobs(1, Fault::Cut { after: 200_000 }),
        blobs(100, Fault::Status { status: "503 Service Unavailable".into(), challenge: None }),
    ]);
    let error = node.pulled("later", FAULT_PROXY).unwrap_err();
    assert!(error.contains("503"), "{error}");
    let kept = fs::read_dir(node.path("later/images/partial")).unwrap().next().unwrap().unwrap();
    let length = kept.metadata().unwrap().len();
    assert!(length >= 200_000, "{length} bytes were kept");
    node.faults(&[]);
    node.pulled("later", FAULT_PROXY).unwrap();
    let log = requests(node.testbed.record()).unwrap().join("\n");
    assert!(log.contains(&format!("bytes={length}-")), "{log}");
    // A registry that sends everything although a part was asked for.
    node.faults(&[blobs(2, Fault::Cut { after: 250_000 }), blobs(1, Fault::IgnoreRange)]);
    node.pulled("whole", FAULT_PROXY).unwrap();
    assert_eq!(node.store("whole"), node.store("later"));
}

#[test]
fn what_is_not_what_it_says_is_refused_and_leaves_nothing() {
    let node = Node::new();
    node.pulled("state", REGISTRY).unwrap();
    answer(&node.run("state", &["rm", &format!("{REGISTRY}/{IMAGE}")])).unwrap_or_default();
    let before = node.store("state");
    for target in ["/blobs/", "/manifests/"] {
        node.faults(&[Rule { target: target.into(), times: 1000, fault: Fault::Corrupt }]);
        let error = node.pulled("state", FAULT_PROXY).unwrap_err();
        assert!(error.contains("has the digest sha256:"), "{target}: {error}");
        assert_eq!(node.store("state"), before, "{target}");
    }
    // Late and slow is not wrong.
    node.faults(&[blobs(1, Fault::Late { milliseconds: 1 }), blobs(1, Fault::Slow { milliseconds: 1 })]);
    node.pulled("state", FAULT_PROXY).unwrap();
    let error = answer(&node.run("state", &["pull", &format!("{REGISTRY}/not-there:1")])).unwrap_err();
    assert!(error.contains("does not have manifest 1 of"), "{error}");
}

/// Puts an index into the registry: another machine's image first, ours second.
const PUT_INDEX: &str = r#"
set -eu
base=http://$1/v2; ours=$2; theirs=$3
accept='Accept: application/vnd.oci.image.manifest.v1+json'
get() { curl -sf -H "$accept" "$base/$1/manifests/$2"; }
digest() { printf 'sha256:%s' "$(printf %s "$1" | sha256sum | cut -d' ' -f1)"; }
a=$(get "${ours%:*}" "${ours#*:}"; printf x); a=${a%x}
b=$(get "${theirs%:*}" "${theirs#*:}"; printf x); b=${b%x}
for d in $(printf %s "$b" | grep -o 'sha256:[0-9a-f]*' | sort -u); do
  curl -sf -X POST "$base/${ours%:*}/blobs/uploads/?mount=$d&from=${theirs%:*}" >/dev/null
done
put() { printf %s "$3" | curl -sf -X PUT -H "Content-Type: $2" --data-binary @- "$base/${ours%:*}/manifests/$1" >/dev/null; }
kind=application/vnd.oci.image.manifest.v1+json
put "$(digest "$b")" $kind "$b"
entry() { printf '{"mediaType":"%s","digest":"%s","size":%s,"platform":{"os":"linux","architecture":"%s"}}' $kind "$(digest "$1")" "$(printf %s "$1" | wc -c)" "$2"; }
index=$(printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s,%s]}' "$(entry "$b" mips)" "$(entry "$a" "$4")")
put multi application/vnd.oci.image.index.v1+json "$index"
printf '{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[%s]}' "$(entry "$b" mips)" |
  curl -sf -X PUT -H 'Content-Type: application/vnd.oci.image.index.v1+json' --data-binary @- "$base/${ours%:*}/manifests/other" >/dev/null
digest "$index"
"#;

#[test]
fn an_index_leads_to_this_machines_image_by_tag_and_by_digest() {
    let node = Node::new();
    let here = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
    let mut command = node.testbed.command("sh");
    let made =
        command.args(["-c", PUT_INDEX, "put", REGISTRY, IMAGE, "pause:3.10.2", here]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let digest = String::from_utf8(made.stdout).unwrap();
    let single = node.pulled("single", REGISTRY).unwrap();
    let pull = |name: &str| answer(&node.run("multi", &["pull", &format!("{REGISTRY}/registry-only{name}")]));
    let multi = pull(":multi").unwrap();
    assert_eq!(multi["id"], single["id"]);
    let by_digest = pull(&format!("@{digest}")).unwrap();
    assert_eq!(by_digest["digests"][0], format!("{REGISTRY}/registry-only@{digest}"));
    let error = pull(":other").unwrap_err();
    assert!(error.contains(&format!("is for linux/mips, not for linux/{here}")), "{error}");
}

/// How many system calls are tried in one round.
const KILLS: usize = 25;

#[test]
fn killed_at_any_call_of_a_pull() {
    let node = Node::new();
    let words = ["pull", &format!("{REGISTRY}/pause:3.10.2")];
    answer(&node.run("quiet", &words)).unwrap();
    answer(&node.run("quiet", &["gc"])).unwrap_or_default();
    let expected = node.store("quiet");
    let log = node.path("log");
    let done = node
        .command(&["strace", "-f", "-qq", "-o", log.to_str().unwrap()], "recorded", &words)
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let calls = testkit::calls_since(&fs::read_to_string(&log).unwrap(), &node.path("recorded"));
    assert!(calls.len() > 200, "the recording shows too little: {}", calls.len());
    let chosen: Vec<_> = calls.iter().step_by((calls.len() / (KILLS * testkit::rounds())).max(1)).collect();
    let mut killed = 0;
    for call in &chosen {
        let _ = fs::remove_dir_all(node.path("state"));
        let options = call.kill();
        let before: Vec<&str> =
            ["strace", "-f", "-qq"].into_iter().chain(options.iter().map(String::as_str)).collect();
        let done = node.command(&before, "state", &words).output().unwrap();
        killed += usize::from(!done.status.success());
        println!("killed at {call}: {}", !done.status.success());
        let listed = node.run("state", &["list"]);
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        answer(&node.run("state", &words)).unwrap();
        answer(&node.run("state", &["gc"])).unwrap_or_default();
        assert_eq!(node.store("state"), expected, "killed at {call}");
    }
    println!("{} system calls, killed at {killed} of {}", calls.len(), chosen.len());
    assert!(killed * 10 > chosen.len() * 8, "only {killed} of {} killed anything", chosen.len());
}
