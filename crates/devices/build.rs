//! The Rust of the protocols in `proto/`, made without protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let protocols = [
        "device_plugin.proto",
        "plugin_registration.proto",
        "pod_resources.proto",
        "pod_resources_alpha.proto",
    ];
    let read = protox::compile(protocols, ["proto"])?;
    tonic_prost_build::configure()
        // A call that a server does not know is answered with Unimplemented, as upstream's does.
        .generate_default_stubs(true)
        // Equal messages are equal bytes, in the checkpoint too.
        .btree_map(".")
        .compile_fds(read)?;
    Ok(())
}
