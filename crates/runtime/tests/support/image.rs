use std::path::Path;

use images::{Digest, Images, Limits, Quiet};
use tar::{EntryType, Header};

/// What pods of the tests are made from: one program that is many.
pub const BUSYBOX: &str = "localhost/busybox:1";
/// The same, with a file of a user beyond any block.
pub const FAR: &str = "localhost/far:1";
/// The same, with a directory of its own user's that it wants to be a volume.
pub const VOLUME: &str = "localhost/volume:1";

const APPLETS: [&str; 24] = [
    "cat", "chown", "df", "echo", "env", "false", "grep", "head", "hostname", "id", "ip", "ls", "mkdir",
    "mount", "nc", "ps", "readlink", "sh", "sleep", "stat", "touch", "true", "wc", "yes",
];

/// Has the images in the store of this state.
pub fn import(state: &Path, scratch: &Path) {
    std::fs::create_dir_all(state).unwrap();
    let images = Images::open(&state.join("images"), Limits::default()).unwrap();
    let far = layer(&[("far", 1_000_000)]);
    let none = serde_json::json!({});
    let volume = serde_json::json!({"/data": {}});
    let with_data = layer(&[("data/seed", 1000)]);
    for (name, layer, volumes) in
        [(BUSYBOX, layer(&[]), &none), (FAR, far, &none), (VOLUME, with_data, &volume)]
    {
        let path = scratch.join("image.tar");
        std::fs::write(&path, archive(name, &layer, volumes)).unwrap();
        images.import(&path, None, &Quiet).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}

fn layer(extra: &[(&str, u64)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (dir, mode) in
        [("bin", 0o755), ("etc", 0o755), ("proc", 0o555), ("sys", 0o555), ("dev", 0o755), ("tmp", 0o1777)]
    {
        add(&mut tar, EntryType::Directory, (dir, mode, 0), b"");
    }
    let program = std::fs::read("/bin/busybox").expect("Debian's busybox-static");
    add(&mut tar, EntryType::Regular, ("bin/busybox", 0o755, 0), &program);
    for applet in APPLETS {
        let mut header = header(EntryType::Symlink, 0o777, 0);
        header.set_size(0);
        tar.append_link(&mut header, format!("bin/{applet}"), "busybox").unwrap();
    }
    let users = b"root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1000::/tmp:/bin/sh\n";
    add(&mut tar, EntryType::Regular, ("etc/passwd", 0o644, 0), users);
    add(&mut tar, EntryType::Regular, ("etc/group", 0o644, 0), b"root:x:0:\nweb:x:1000:\nmore:x:3000:web\n");
    for (name, uid) in extra {
        add(&mut tar, EntryType::Regular, (name, 0o644, *uid), b"");
    }
    tar.into_inner().unwrap()
}

fn header(kind: EntryType, mode: u32, uid: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(uid);
    header.set_gid(0);
    header.set_mtime(1_700_000_000);
    header
}

fn add(tar: &mut tar::Builder<Vec<u8>>, kind: EntryType, what: (&str, u32, u64), content: &[u8]) {
    let (name, mode, uid) = what;
    let mut header = header(kind, mode, uid);
    header.set_size(u64::try_from(content.len()).unwrap());
    tar.append_data(&mut header, name, content).unwrap();
}

/// As docker saves it.
fn archive(name: &str, layer: &[u8], volumes: &serde_json::Value) -> Vec<u8> {
    let architecture = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };
    let config = serde_json::json!({
        "architecture": architecture, "os": "linux", "config": {"Cmd": ["/bin/sh"], "Volumes": volumes},
        "rootfs": {"type": "layers", "diff_ids": [Digest::of(layer)]},
    });
    let config = serde_json::to_vec(&config).unwrap();
    let manifest =
        serde_json::json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]);
    let mut tar = tar::Builder::new(Vec::new());
    let file = EntryType::Regular;
    add(&mut tar, file, ("manifest.json", 0o644, 0), &serde_json::to_vec(&manifest).unwrap());
    add(&mut tar, file, ("config.json", 0o644, 0), &config);
    add(&mut tar, file, ("layer.tar", 0o644, 0), layer);
    tar.into_inner().unwrap()
}
