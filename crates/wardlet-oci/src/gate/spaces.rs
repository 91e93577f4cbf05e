//! Refuses a pod with a user namespace that shares the host's network, PID, IPC or mount namespace.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use serde_json::Value;

use super::Refusal;
use super::rules::{list, text};

/// The type in OCI, the file in `/proc/PID/ns`, and the field of the pod that asks for the host's namespace.
const NEEDED: [(&str, &str, &str); 4] = [
    ("network", "net", "hostNetwork"),
    ("pid", "pid", "hostPID"),
    ("ipc", "ipc", "hostIPC"),
    ("mount", "mnt", "the host's mounts"),
];

/// `own` is the directory of this process's namespaces, which are the host's.
pub(super) fn check(spec: &Value, own: &Path) -> Result<(), Refusal> {
    for (kind, file, asked) in NEEDED {
        let found = list(spec, "/linux/namespaces").find(|space| text(space, "type") == kind);
        let hosts = match found.map(|space| text(space, "path")) {
            None => true,
            Some("") => false,
            Some(path) => same(Path::new(path), &own.join(file)),
        };
        if hosts {
            let cause =
                format!("{asked}: the pod asks for a user namespace and is in the host's {kind} namespace");
            let hint = "remove one of the two: a user namespace gives no access to the host's namespaces";
            return Err(Refusal::hinted("linux.namespaces", cause, hint));
        }
    }
    Ok(())
}

fn same(a: &Path, b: &Path) -> bool {
    let identity = |path: &Path| std::fs::metadata(path).map(|found| (found.dev(), found.ino()));
    matches!((identity(a), identity(b)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(spaces: &str) -> Option<String> {
        let spec = format!("{{\"linux\":{{\"namespaces\":{spaces}}}}}");
        check(&serde_json::from_str(&spec).unwrap(), Path::new("/proc/self/ns")).err().map(|e| e.cause)
    }

    #[test]
    fn each_namespace_of_the_hosts_is_refused_by_the_pods_word_for_it() {
        let all = r#"[{"type":"network","path":"/no/such"},{"type":"pid"},{"type":"ipc"},{"type":"mount"}]"#;
        assert_eq!(refused(all), None);
        for (kind, word) in
            [("network", "hostNetwork"), ("pid", "hostPID"), ("ipc", "hostIPC"), ("mount", "mounts")]
        {
            let without = all.replace(&format!("\"{kind}\""), "\"uts\"");
            assert!(refused(&without).unwrap().contains(word), "{kind}");
        }
        assert!(refused("[]").is_some());
    }

    #[test]
    fn the_hosts_namespace_by_path_is_the_hosts() {
        let all = r#"[{"type":"network","path":"/proc/self/ns/net"},{"type":"pid"},{"type":"ipc"},{"type":"mount"}]"#;
        assert!(refused(all).unwrap().contains("hostNetwork"));
    }
}
