//! The engine looked up the home of a user for whom the environment had an empty one, by the C library, in the
//! container's files: `/etc/nsswitch.conf` of the image named a library of the image, which was loaded into a process that
//! had the host's files open.

use std::fs;
use std::process::Command;

use container::Engine;

use super::variants::{Processes, Variant};

/// Leaves a file when it is loaded.
const LIBRARY: &str = r#"
#include <fcntl.h>
__attribute__((constructor)) static void loaded(void) { creat("/tmp/loaded", 0666); }
"#;

#[test]
fn no_library_of_the_image_is_loaded_before_its_program() {
    for variant in Variant::all().into_iter().filter(|one| one.processes == Processes::Own) {
        let mut attacker = variant.container(&["/bin/sleep", "1000"]);
        let layer = attacker.container.layer();
        let libraries = layer.join("lib/x86_64-linux-gnu");
        fs::create_dir_all(&libraries).unwrap();
        let source = attacker.container.path("library.c");
        fs::write(&source, LIBRARY).unwrap();
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(libraries.join("libnss_image.so.2"))
            .arg(&source)
            .status()
            .unwrap();
        assert!(built.success());
        fs::write(layer.join("etc/nsswitch.conf"), "passwd: image\n").unwrap();
        attacker.container.job.start.process.env = vec!["PATH=/bin".into(), "HOME=".into()];
        let answer = attacker.run();
        let init = attacker.container.init.unwrap_or_else(|| panic!("{variant:?}: {answer}"));
        let loaded = format!("/proc/{init}/root/tmp/loaded");
        assert!(!fs::exists(&loaded).unwrap(), "{variant:?}");
        let env = fs::read(format!("/proc/{init}/environ")).unwrap();
        // Other engines fill it in.
        let empty = String::from_utf8_lossy(&env).split('\0').any(|entry| entry == "HOME=");
        assert!(empty || variant.engine != Engine::Libcontainer, "{variant:?}");
        attacker.container.delete_and_look();
    }
}
