//! The contract's Rust, made from `proto/` without protoc.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let contract = protox::compile(["services.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .client_mod_attribute(".", r#"#[cfg(feature = "client")]"#)
        .server_mod_attribute(".", r#"#[cfg(feature = "server")]"#)
        // A call that a server does not know is answered with Unimplemented, as upstream's does.
        .generate_default_stubs(true)
        // Labels and annotations come out in the same order whenever they are shown.
        .btree_map(".")
        // These hold secrets; `src/redacted.rs` says what is shown of them.
        .skip_debug([".runtime.v1.AuthConfig", ".runtime.v1.KeyValue"])
        .compile_fds(contract)?;
    Ok(())
}
