//! Stand-ins for the images that few of upstream's end-to-end specs ask for. The registry alone has them: a node pulls them.

use std::path::Path;

use super::critest::EFFECTIVE_UID_C;
use super::layer::{Entry, layer};
use super::oci::{Image, RunAs};
use super::standins::{compile, file};
use crate::Result;

/// A shell whose user is not root.
const NON_ROOT: &str = "registry.k8s.io/e2e-test-images/nonroot:1.5";
/// A set-user-ID program.
const NO_NEW_PRIVILEGES: &str = "registry.k8s.io/e2e-test-images/nonewprivs:1.4";
/// A shell with a `hostname` that asks glibc, as that of Debian's busybox does.
const GLIBC: &str = "registry.k8s.io/e2e-test-images/glibc-dns-testing:2.1.1";
/// Files to be mounted as a volume.
const KITTEN: &str = "registry.k8s.io/e2e-test-images/kitten:1.8";

/// What the spec of image volumes reads.
const KITTEN_DATA: &str = "{\"image\": \"kitten.jpg\"}\n";
const KITTEN_RELEASE: &str = "NAME=\"Alpine Linux\"\n";

/// Changes when an image does.
pub(super) fn fingerprint() -> String {
    [NON_ROOT, NO_NEW_PRIVILEGES, GLIBC, KITTEN, KITTEN_DATA, KITTEN_RELEASE].concat()
}

/// All of them; `busybox` is the root filesystem of that stand-in.
pub(super) fn images(work: &Path, busybox: &[Entry]) -> Result<Vec<Image>> {
    let shell = |user| RunAs { command: vec!["sh"], user, ..RunAs::default() };
    let program = "/effective-uid";
    let privileged = [file("effective-uid", 0o6755, compile(work, "effective-uid", EFFECTIVE_UID_C)?)];
    let kitten = [
        file("data.json", 0o644, KITTEN_DATA),
        Entry::Directory { path: "etc".into(), mode: 0o755 },
        file("etc/os-release", 0o644, KITTEN_RELEASE),
    ];
    Ok(vec![
        Image::new(&[NON_ROOT], layer(busybox)?, &shell("1234")),
        Image::new(&[GLIBC], layer(busybox)?, &shell("")),
        Image::new(
            &[NO_NEW_PRIVILEGES],
            layer(&privileged)?,
            &RunAs { command: vec![program], ..RunAs::default() },
        ),
        Image::new(&[KITTEN], layer(&kitten)?, &RunAs::default()),
    ])
}
