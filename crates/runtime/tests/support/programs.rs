use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The directory of our programs, built once as this test was: same target directory, same profile.
pub fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // target/<profile>/deps/<this test>
        let own = std::env::current_exe().unwrap();
        let dir = own.parent().unwrap().parent().unwrap().to_owned();
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        cargo.args(["build", "-q", "-p", "wardlet", "-p", "monitor", "-p", "wardlet-container"]);
        cargo.arg("--target-dir").arg(dir.parent().unwrap());
        if dir.ends_with("release") {
            cargo.arg("--release");
        }
        assert!(cargo.status().unwrap().success(), "our own programs cannot be built");
        dir
    })
}
