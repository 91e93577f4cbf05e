//! `wardlet image` on the real kernel, with the testbed's own images and with a hostile one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

struct Store(tempfile::TempDir);

impl Store {
    fn new() -> Self {
        Self(tempfile::tempdir_in("/var/tmp").unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Ran {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wardlet"));
        command.arg("image").args(words).arg("--state-dir").arg(self.path("state"));
        let output = command.arg("--host-root").arg(self.0.path()).output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    #[track_caller]
    fn json(&self, words: &[&str]) -> Value {
        let ran = self.run(&[words, &["-o", "json"]].concat());
        assert_eq!(ran.code, Some(0), "{words:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).unwrap()
    }
}

/// An archive of the testbed: an OCI layout with several names for one image.
fn busybox() -> PathBuf {
    testbed::images::made().unwrap().join("archives/busybox.tar")
}

#[test]
fn an_archive_is_imported_listed_and_removed() {
    let store = Store::new();
    assert_eq!(store.run(&["list"]).stdout, "NAME  ID  SIZE  HIGHEST-IDS  USED-BY\n");
    assert!(!store.path("state").exists(), "asking makes nothing");
    let imported = store.run(&["import", busybox().to_str().unwrap()]);
    assert_eq!(imported.code, Some(0), "{}", imported.stderr);
    assert!(
        imported.stderr.contains("unpacking layer ") && imported.stderr.contains("(1 of 1)"),
        "{}",
        imported.stderr
    );
    let listed = store.json(&["list"]);
    let names: Vec<&str> =
        listed[0]["names"].as_array().unwrap().iter().map(|n| n.as_str().unwrap()).collect();
    assert!(names.contains(&testbed::images::BUSYBOX), "{names:?}");
    assert_eq!(listed.as_array().unwrap().len(), 1);
    for field in ["id", "digests", "platform", "bytes", "layers", "highest", "created", "config", "users"] {
        assert!(listed[0].get(field).is_some(), "{field} is missing: {listed}");
    }
    let yaml = store.run(&["list", "-o", "yaml"]);
    let yaml: Value = serde_saphyr::from_str(&yaml.stdout).unwrap();
    assert_eq!(yaml, listed);
    // One name after the other; the image goes with the last.
    let (last, others) = names.split_last().unwrap();
    for name in others {
        assert_eq!(store.json(&["rm", name])["image"], Value::Null);
    }
    let removed = store.json(&["rm", last]);
    assert_eq!((&removed["image"], &removed["collected"]["layers"]), (&listed[0]["id"], &Value::from(1)));
    assert_eq!(store.json(&["list"]), serde_json::json!([]));
    let gone = store.run(&["rm", last]);
    assert_eq!(gone.code, Some(1));
    assert_eq!(
        gone.stderr,
        format!("error: there is no image {last}\n\nhint: `wardlet image list` shows what is there\n")
    );
}

#[test]
fn a_name_can_be_given_and_a_pipe_read() {
    let store = Store::new();
    let own = env!("CARGO_BIN_EXE_wardlet");
    let script = format!(
        "gzip -c {} | {own} image import /dev/stdin --name app:1 --state-dir {}",
        busybox().display(),
        store.path("state").display()
    );
    let ran = Command::new("sh").args(["-c", &script]).output().unwrap();
    // It has three names there for one image: one name cannot be given to three.
    assert_eq!(ran.status.code(), Some(1), "{}", String::from_utf8_lossy(&ran.stderr));
    let pause = testbed::images::made().unwrap().join("archives/pause.tar");
    let script = script.replace(busybox().to_str().unwrap(), pause.to_str().unwrap());
    let ran = Command::new("sh").args(["-c", &script]).output().unwrap();
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(store.json(&["list"])[0]["names"], serde_json::json!(["docker.io/library/app:1"]));
}

#[test]
fn a_hostile_image_is_refused_with_the_entrys_name_and_a_way_out() {
    let store = Store::new();
    store.json(&["import", busybox().to_str().unwrap()]);
    let before = store.json(&["list"]);
    let root = store.path("root");
    fs::create_dir_all(root.join("etc")).unwrap();
    fs::write(root.join("etc/x"), "x").unwrap();
    let layer = tarred(&root, &["--absolute-names", "--transform=s,^,/,"], "etc/x");
    let archive = docker_archive(&store, &layer);
    let ran = store.run(&["import", archive.to_str().unwrap()]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("error: layer layer.tar: entry \"/etc/x\": its name is absolute\n\nhint: set"),
        "{}",
        ran.stderr
    );
    assert_eq!(store.json(&["list"]), before);
    fs::create_dir_all(store.path("etc/wardlet")).unwrap();
    fs::write(store.path("etc/wardlet/registries.yaml"), "absoluteNames: inImage\n").unwrap();
    assert_eq!(store.run(&["import", archive.to_str().unwrap()]).code, Some(0));
    fs::write(store.path("etc/wardlet/registries.yaml"), "limits: {entries: 0}\n").unwrap();
    store.run(&["rm", "localhost/hostile:1"]);
    let ran = store.run(&["import", archive.to_str().unwrap()]);
    assert!(ran.stderr.contains("more than 0 entries"), "{}", ran.stderr);
}

fn tarred(root: &Path, options: &[&str], name: &str) -> Vec<u8> {
    let mut command = Command::new("tar");
    let made = command.args(options).args(["-C", root.to_str().unwrap(), "-cf", "-", name]).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    made.stdout
}

/// As `docker save` writes it, with one layer.
fn docker_archive(store: &Store, layer: &[u8]) -> PathBuf {
    let dir = store.path("saved");
    fs::create_dir_all(&dir).unwrap();
    let architecture = if cfg!(target_arch = "x86_64") { "amd64" } else { "arm64" };
    let diff_id = images::Digest::of(layer);
    let config = serde_json::json!({"architecture": architecture, "os": "linux", "config": {},
                                    "rootfs": {"type": "layers", "diff_ids": [diff_id]}});
    let manifest = serde_json::json!([{"Config": "c.json", "RepoTags": ["localhost/hostile:1"], "Layers": ["layer.tar"]}]);
    fs::write(dir.join("c.json"), config.to_string()).unwrap();
    fs::write(dir.join("manifest.json"), manifest.to_string()).unwrap();
    fs::write(dir.join("layer.tar"), layer).unwrap();
    let archive = store.path("saved.tar");
    fs::write(&archive, tarred(&dir, &[], ".")).unwrap();
    archive
}
