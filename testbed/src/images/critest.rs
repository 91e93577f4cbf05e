//! Stand-ins for the images that critest asks for. The registry alone has them: critest pulls.

use std::path::Path;

use super::layer::{Entry, layer};
use super::oci::{Image, RunAs};
use super::standins::{Applets, busybox_root, compile, file};
use crate::Result;

pub(super) const WEB_C: &str = include_str!("../../images/web.c");
pub(super) const EFFECTIVE_UID_C: &str = include_str!("../../images/effective-uid.c");

/// Two that Debian's busybox lacks, as far as critest uses them.
const PGREP: &str = "#!/bin/sh\nfor dir in /proc/[0-9]*; do\n\
    [ \"$(cat $dir/comm 2>/dev/null)\" = \"$1\" ] && found=y && echo ${dir#/proc/}\ndone\n[ \"$found\" ]\n";
const IPCS: &str = "#!/bin/sh\ncat /proc/sysvipc/shm\n";

const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33:www-data:/var/www:/bin/false\n\
    default-user:x:1000:1000:default-user:/home:/bin/sh\nnobody:x:65534:65534:nobody:/home:/bin/false\n";
const GROUPS: &str = "root:x:0:\nwww-data:x:33:\ndefault-user:x:1000:\n\
    group-defined-in-image:x:50000:default-user\nnobody:x:65534:\n";

/// Changes when an image does.
pub(super) fn fingerprint() -> String {
    [WEB_C, EFFECTIVE_UID_C, PGREP, IPCS, USERS, GROUPS, "1"].concat()
}

/// All of them.
pub(super) fn images(work: &Path, busybox: &Path) -> Result<Vec<Image>> {
    let mut root = busybox_root(busybox, Applets::HardLinks)?;
    root.retain(
        |entry| !matches!(entry, Entry::File { path, .. } if path == "etc/passwd" || path == "etc/group"),
    );
    root.extend([
        file("etc/passwd", 0o644, USERS),
        file("etc/group", 0o644, GROUPS),
        file("usr/bin/pgrep", 0o755, PGREP),
        file("usr/bin/ipcs", 0o755, IPCS),
    ]);
    let web = compile(work, "web", WEB_C)?;
    let mut served = root.clone();
    served.push(file("usr/sbin/nginx", 0o755, web));
    let mut privileged = root.clone();
    privileged.push(file("effective-uid", 0o4755, compile(work, "effective-uid", EFFECTIVE_UID_C)?));
    let serving = |port| RunAs { entrypoint: vec!["/usr/sbin/nginx", port], ..RunAs::default() };
    let pause =
        [file("pause", 0o755, compile(work, "pause", super::standins::PAUSE_C)?), file("3.9", 0o644, "")];
    let mut all = vec![
        Image::new(&["registry.k8s.io/e2e-test-images/busybox:1.29-2"], layer(&root)?, &shell("")),
        Image::new(
            &[
                "registry.k8s.io/e2e-test-images/nginx:1.14-2",
                "registry.k8s.io/e2e-test-images/httpd:2.4.39-4",
            ],
            layer(&served)?,
            &serving("80"),
        ),
        Image::new(
            &[
                "gcr.io/k8s-staging-cri-tools/hostnet-nginx-amd64:latest",
                "gcr.io/k8s-staging-cri-tools/hostnet-nginx-arm64:latest",
            ],
            layer(&served)?,
            &serving("12003"),
        ),
        Image::new(
            &["registry.k8s.io/e2e-test-images/nonewprivs:1.3"],
            layer(&privileged)?,
            &RunAs { entrypoint: vec!["/effective-uid"], ..RunAs::default() },
        ),
        Image::new(
            &["registry.k8s.io/pause:3.9", "k8s.gcr.io/pause:3.9"],
            layer(&pause)?,
            &RunAs { entrypoint: vec!["/pause"], ..RunAs::default() },
        ),
    ];
    for (name, user) in [
        ("user-uid", "1002"),
        ("user-username", "www-data"),
        ("user-uid-group", "1003:1004"),
        ("user-username-group", "www-data:1004"),
        ("predefined-group", "1000"),
    ] {
        let name = format!("gcr.io/k8s-staging-cri-tools/test-image-{name}:latest");
        all.push(Image::new(&[&name], layer(&root)?, &shell(user)));
    }
    for names in [
        &["latest:latest"] as &[&str],
        &["tag:test"],
        &["tag:all"],
        &["digest:test"],
        &["1:latest"],
        &["2:latest"],
        &["3:latest"],
        &["tags:1", "tags:2", "tags:3"],
    ] {
        let full: Vec<String> =
            names.iter().map(|name| format!("gcr.io/k8s-staging-cri-tools/test-image-{name}")).collect();
        let full: Vec<&str> = full.iter().map(String::as_str).collect();
        let mut own = root.clone();
        own.push(file("which", 0o644, names.concat()));
        all.push(Image::new(&full, layer(&own)?, &shell("")));
    }
    Ok(all)
}

fn shell(user: &'static str) -> RunAs {
    RunAs { command: vec!["sh"], user, ..RunAs::default() }
}
