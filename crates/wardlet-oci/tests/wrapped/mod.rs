//! The wrapper, called as its callers do, with a configuration of the test's own.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// Directories of one wrapper, and its configuration.
pub struct Wrapped {
    pub dir: tempfile::TempDir,
}

impl Wrapped {
    /// With the gate open, before this runtime.
    pub fn before(runtime: &Path) -> Self {
        let dir = tempfile::Builder::new().prefix("wrapped").tempdir_in("/var/tmp").unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let wrapped = Self { dir };
        wrapped.configure(runtime, "enable_user_namespace_annotation: true", "");
        wrapped
    }

    /// With a runtime that only writes down how it was called, and ends as its file `code` says.
    pub fn before_a_witness() -> Self {
        let wrapped = Self::before(Path::new("/nowhere"));
        let (runtime, dir) = (wrapped.path("witness"), wrapped.dir.path().display());
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && echo runc version 1.3.0 && exit 0\n\
             echo $$ > {dir}/pid\nfor word in \"$0\" \"$@\"; do printf '%s\\0' \"$word\"; done > {dir}/called\n\
             exit $(cat {dir}/code 2>/dev/null || echo 0)\n"
        );
        fs::write(&runtime, text).unwrap();
        fs::set_permissions(&runtime, fs::Permissions::from_mode(0o755)).unwrap();
        wrapped.configure(&runtime, "enable_user_namespace_annotation: true", "");
        wrapped
    }

    pub fn configure(&self, runtime: &Path, gate: &str, policy: &str) {
        let dir = self.dir.path().display();
        let text = format!(
            "userNamespaces: {{pool: {{uids: [\"1310720000-1327497215\"]}}}}\n{policy}\n\
             wrapper:\n  runtime: {}\n  runDir: {dir}/run\n  user_namespace_state_dir: {dir}/state\n  {gate}\n",
            runtime.display()
        );
        fs::write(self.path("config.yaml"), text).unwrap();
    }

    /// Lets one pod have so many IDs.
    pub fn allow(&self, ids: u64) {
        let text = fs::read_to_string(self.path("config.yaml")).unwrap();
        let allowed = text.replace("userNamespaces: {", &format!("userNamespaces: {{maxIdsPerPod: {ids}, "));
        fs::write(self.path("config.yaml"), allowed).unwrap();
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A bundle that is nothing but this configuration.
    pub fn bundle(&self, name: &str, spec: &[u8]) -> PathBuf {
        let bundle = self.path(name);
        fs::create_dir_all(bundle.join("rootfs")).unwrap();
        fs::write(bundle.join("config.json"), spec).unwrap();
        bundle
    }

    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wardlet-oci"));
        command.env("WARDLET_CONFIG", self.path("config.yaml")).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn call(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// Creates what is in a bundle, as containerd's shim does.
    pub fn create(&self, bundle: &Path, id: &str) -> Output {
        let (log, root) = (bundle.join("log.json"), self.path("root"));
        let pid = bundle.join("init.pid");
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let (log, root, pid, bundle) = (text(&log), text(&root), text(&pid), text(bundle));
        let words = [
            "--root",
            &root,
            "--log",
            &log,
            "--log-format",
            "json",
            "create",
            "--bundle",
            &bundle,
            "--pid-file",
            &pid,
            id,
        ];
        // A container has its streams for as long as it runs: what it may keep open is nobody's to wait for.
        let said = self.path("said");
        let mut command = self.command(&words);
        command.stdout(Stdio::null()).stderr(fs::File::create(&said).unwrap());
        let status = command.status().unwrap();
        Output { status, stdout: Vec::new(), stderr: fs::read(&said).unwrap() }
    }

    /// How the witness was called, if it was.
    pub fn called(&self) -> Option<Vec<String>> {
        let text = fs::read_to_string(self.path("called")).ok()?;
        fs::remove_file(self.path("called")).unwrap();
        Some(text.split_terminator('\0').map(str::to_owned).collect())
    }

    /// Every record there is.
    pub fn records(&self) -> Vec<oci_records::Record> {
        oci_records::Records::new(&self.path("run")).all().unwrap().0
    }
}

/// All that a file is known by.
pub fn identity(file: &Path) -> (u64, i64, i64, u64, Vec<u8>) {
    let found = fs::metadata(file).unwrap();
    (found.ino(), found.mtime_nsec(), found.ctime_nsec(), found.size(), fs::read(file).unwrap())
}

/// A sandbox's configuration, with these annotations besides containerd's own.
pub fn sandbox(annotations: &[(&str, &str)]) -> Value {
    let mut all = json!({
        "io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": "s1",
        "io.kubernetes.cri.sandbox-namespace": "default", "io.kubernetes.cri.sandbox-name": "web",
    });
    for (key, value) in annotations {
        all[*key] = json!(value);
    }
    json!({
        "ociVersion": "1.0.2", "annotations": all, "root": {"path": "rootfs"},
        "process": {"user": {"uid": 0, "gid": 0}, "args": ["/pause"], "cwd": "/"},
        "linux": {"namespaces": [
            {"type": "pid"}, {"type": "ipc"}, {"type": "mount"}, {"type": "uts"}, {"type": "network", "path": "/no/such"},
        ]},
    })
}

pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}
