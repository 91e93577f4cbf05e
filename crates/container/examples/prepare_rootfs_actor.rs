//! Prepares a container's root filesystem and ends, for tests that kill it: `prepare_rootfs_actor START STAGE`.

use std::error::Error;
use std::fs;
use std::path::Path;

use container::ContainerSpec;
use container::prepare::{Stage, from_host, prepare_rootfs};
use kernel::{Live, PrivateMountNamespace};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [start, stage] = &*words else { return Err("prepare_rootfs_actor START STAGE".into()) };
    let start: ContainerSpec = serde_json::from_slice(&fs::read(start)?)?;
    let kernel = Live::default();
    let held = from_host(&kernel, &start)?;
    let namespace = PrivateMountNamespace::enter()?;
    prepare_rootfs(&kernel, &start, held, Stage { dir: Path::new(stage), namespace: &namespace })?;
    Ok(())
}
