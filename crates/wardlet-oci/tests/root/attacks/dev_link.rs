//! An image whose `/dev` is a link to a directory of the host.
//!
//! runc 1.1 removed `ptmx` there and made its links, as the host's root.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use serde_json::{Value, json};

use crate::asking::{Emptied, RUNC, asking, held};
use crate::isolation::{Host, debians};
use crate::wrapped::{Wrapped, stderr};

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort_unstable();
    names
}

#[test]
fn an_image_whose_dev_is_a_link_makes_nothing_on_the_host() {
    Host::play(debians(), |host| {
        let wrapped = Wrapped::before(Path::new(RUNC));
        let _emptied = Emptied(&wrapped);
        let victim = wrapped.path("victim");
        fs::create_dir(&victim).unwrap();
        fs::set_permissions(&victim, fs::Permissions::from_mode(0o777)).unwrap();
        fs::write(victim.join("ptmx"), "a file of the host's").unwrap();
        let up = format!("../../../../../../../..{}", victim.display());
        let without_dev = |spec: &mut Value| {
            let mounts = spec["mounts"].as_array_mut().unwrap();
            mounts.retain(|mount| !mount["destination"].as_str().unwrap().starts_with("/dev"));
        };
        let with_dev = |spec: &mut Value| {
            without_dev(spec);
            let dev =
                json!({"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid"]});
            spec["mounts"].as_array_mut().unwrap().push(dev);
        };
        let changes: [&dyn Fn(&mut Value); 2] = [&with_dev, &without_dev];
        for to in [victim.to_str().unwrap(), &up] {
            for change in changes {
                let (id, bundle) = asking(host, &host.pod(0), None, change);
                let dev = bundle.join("rootfs/dev");
                fs::remove_dir_all(&dev).unwrap();
                symlink(to, &dev).unwrap();
                let output = wrapped.create(&bundle, &id);
                assert_eq!(names(&victim), ["ptmx"], "{to}: root has written there");
                assert_eq!(fs::read_to_string(victim.join("ptmx")).unwrap(), "a file of the host's");
                assert_eq!(output.status.code(), Some(1), "{to}");
                let said = stderr(&output);
                assert!(said.contains("/dev of the image is not a directory"), "{said}");
                assert!(said.contains("hint: use an image in which /dev is a directory"), "{said}");
            }
        }
        assert_eq!((held(&wrapped), wrapped.records().len()), (0, 0));
    });
}
