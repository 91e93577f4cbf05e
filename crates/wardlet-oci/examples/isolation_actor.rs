//! Does what the wrapper does for one container that is known to be of a pod with a user namespace, and nothing
//! else, for tests: `isolation_actor create ORDER RUNTIME [ARGUMENT…]`, `isolation_actor exec ORDER RUNTIME [ARGUMENT…]`.
//! ORDER is a file; where the runtime is to find the configuration, `@BUNDLE@` stands among the arguments.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use ids::{IdMapping, IdMappings};
use serde_json::Value;
use wardlet_oci::isolation::{
    self, ExecOrder, JoinOrder, MappingsWithPath, Order, Role, Rootfs, RuntimeKind, RuntimeTraits,
};

fn main() {
    let mut words = std::env::args_os().skip(1);
    let (what, order) = (words.next().unwrap(), words.next().unwrap());
    let order: Value = serde_json::from_slice(&fs::read(order).unwrap()).unwrap();
    let words: Vec<OsString> = words.collect();
    let failed = |error: isolation::Error| -> ! {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        eprintln!("{error}{cause}");
        std::process::exit(3)
    };
    if what == "exec" {
        let joined = isolation::join_for_exec(&exec_order(&order)).unwrap_or_else(|error| failed(error));
        run(&words, Path::new(""));
        drop(joined);
    } else {
        let order = create_order(&order);
        let made = isolation::make(&order).unwrap_or_else(|error| failed(error));
        fs::write(order.stage.join("config.json"), serde_json::to_vec_pretty(&made.spec).unwrap()).unwrap();
        run(&words, &order.stage);
        drop(made);
    }
}

fn run(words: &[OsString], bundle: &Path) {
    let replaced =
        |word: &OsString| if word == "@BUNDLE@" { bundle.as_os_str().to_owned() } else { word.clone() };
    let words: Vec<OsString> = words.iter().map(replaced).collect();
    let (runtime, arguments) = words.split_first().unwrap();
    panic!("{}", Command::new(runtime).args(arguments).exec());
}

fn create_order(order: &Value) -> Order {
    let bundle = path(&order["bundle"]);
    let spec = serde_json::from_slice(&fs::read(bundle.join("config.json")).unwrap()).unwrap();
    Order {
        rootfs: Rootfs::find(&bundle, &spec).unwrap(),
        bundle,
        container_id: order["id"].as_str().unwrap().to_owned(),
        spec,
        ids: ids(order),
        role: match order["joins"].as_u64() {
            Some(init) => Role::Inherit { init: u32::try_from(init).unwrap() },
            None => Role::Sandbox,
        },
        runtime: traits(order),
        on_refusal: plan::CannotIdmap::Refuse,
        stage: path(&order["stage"]),
    }
}

fn exec_order(order: &Value) -> ExecOrder {
    ExecOrder {
        init: u32::try_from(order["init"].as_u64().unwrap()).unwrap(),
        process: order["process"].clone(),
        ids: ids(order),
        runtime: traits(order),
    }
}

fn traits(order: &Value) -> RuntimeTraits {
    let (kind, joins, mappings_with_path) = match order["runtime"].as_str().unwrap() {
        "runc-1.1" => (RuntimeKind::Runc, JoinOrder::UsersFirst, MappingsWithPath::Wanted),
        "runc" => (RuntimeKind::Runc, JoinOrder::HostsFirst, MappingsWithPath::Unwanted),
        "runsc" => (RuntimeKind::Runsc, JoinOrder::HostsFirst, MappingsWithPath::Wanted),
        other => panic!("{other}"),
    };
    RuntimeTraits { kind, joins, mappings_with_path }
}

fn ids(order: &Value) -> IdMappings {
    let line = IdMapping::new(0, order["base"].as_u64().unwrap(), 65_536).unwrap();
    IdMappings { uids: vec![line], gids: vec![line] }
}

fn path(value: &Value) -> PathBuf {
    value.as_str().unwrap().into()
}
