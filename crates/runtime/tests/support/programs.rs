use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory of our programs: `WARDLET_PROGRAMS`, or built once as this test was, in the same target
/// directory and profile.
pub fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Some(given) = std::env::var_os("WARDLET_PROGRAMS") {
            return given.into();
        }
        // target/<profile>/deps/<this test>
        let own = std::env::current_exe().unwrap();
        let dir = own.parent().unwrap().parent().unwrap().to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.args(["build", "-q", "-p", "wardlet", "-p", "monitor", "-p", "wardlet-container"]);
        cargo.arg("--target-dir").arg(dir.parent().unwrap());
        // What cargo tells this test of its package, build scripts would take for a change of theirs: each run
        // would compile half of the dependencies again.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
                cargo.env_remove(&name);
            }
        }
        if dir.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "our own programs cannot be built");
        dir
    })
}
