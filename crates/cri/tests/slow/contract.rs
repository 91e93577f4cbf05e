//! Our contract against upstream's own file, field by field: every number, type and method that we have is
//! upstream's, and all that we leave out is listed here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use testbed::catalogue::{self, Source};

/// Messages, fields and methods of upstream that we do not have; a new one of upstream fails the test.
const LEFT_OUT: &[&str] = &[
    "CheckpointPodRequest",
    "CheckpointPodResponse",
    "RestorePodRequest",
    "RestorePodResponse",
    "RestoredContainer",
    "RuntimeService.CheckpointPod",
    "RuntimeService.RestorePod",
    "ContainerConfig.windows",
    "ContainerResources.windows",
    "PodSandboxConfig.windows",
    "PodSandboxStats.windows",
    "UpdateContainerResourcesRequest.windows",
];

/// What is on the wire: by name of the message, field or method, how it is encoded.
type Contract = BTreeMap<String, String>;

fn contract(set: &FileDescriptorSet) -> Contract {
    let mut contract = Contract::new();
    for file in set.file.iter().filter(|file| file.package() == "runtime.v1") {
        file.message_type.iter().for_each(|message| add_message(&mut contract, "", message));
        file.enum_type.iter().for_each(|of| add_enum(&mut contract, "", of));
        for service in &file.service {
            for method in &service.method {
                let how = format!(
                    "{} -> {} {}",
                    method.input_type(),
                    method.output_type(),
                    method.server_streaming()
                );
                contract.insert(format!("{}.{}", service.name(), method.name()), how);
            }
        }
    }
    contract
}

fn add_message(contract: &mut Contract, outer: &str, message: &DescriptorProto) {
    let name = format!("{outer}{}", message.name());
    contract.insert(name.clone(), "message".to_owned());
    for field in &message.field {
        contract.insert(format!("{name}.{}", plain(field.name())), encoding(field));
    }
    message.nested_type.iter().for_each(|nested| add_message(contract, &format!("{name}."), nested));
    message.enum_type.iter().for_each(|nested| add_enum(contract, &format!("{name}."), nested));
}

fn add_enum(contract: &mut Contract, outer: &str, of: &EnumDescriptorProto) {
    for value in &of.value {
        contract.insert(format!("{outer}{}.{}", of.name(), value.name()), value.number().to_string());
    }
}

/// Names of fields are not on the wire: upstream's `uidMappings` is our `uid_mappings`.
fn plain(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}

fn encoding(field: &FieldDescriptorProto) -> String {
    let many = if field.label() == Label::Repeated { "repeated " } else { "" };
    let of = match field.r#type() {
        Type::Message | Type::Enum => plain(field.type_name()),
        other => format!("{other:?}"),
    };
    format!("{} = {many}{of}", field.number())
}

/// Upstream's contract in the version that the testbed's Kubernetes is built with.
fn upstream() -> Contract {
    let proto = "pkg/apis/runtime/v1/api.proto";
    let module = module_directory("k8s.io/cri-api");
    contract(&protox::compile([proto], [&module]).expect("upstream's file compiles"))
}

/// Where the Go module is, in the version and with the checksums that the testbed pins.
fn module_directory(module: &str) -> PathBuf {
    let Source::Go(kubelet) = &catalogue::component("kubelet").unwrap().source else {
        panic!("the kubelet is built from Go modules")
    };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("go.mod"), kubelet.module.go_mod).unwrap();
    std::fs::write(dir.path().join("go.sum"), kubelet.module.go_sum).unwrap();
    let output = Command::new(go())
        .args(["mod", "download", "-json", module])
        .current_dir(dir.path())
        .envs([("GOTOOLCHAIN", "local"), ("GOFLAGS", "-mod=mod"), ("GOWORK", "off")])
        .output()
        .expect("go runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let line = said.lines().find_map(|line| line.trim().strip_prefix("\"Dir\": \"")).expect(&said);
    PathBuf::from(line.trim_end_matches(['"', ',']))
}

/// The toolchain that the testbed builds with: that on PATH, or its own.
fn go() -> PathBuf {
    let own = testbed::paths::cache_root().join("go-toolchain/bin/go");
    if own.is_file() { own } else { PathBuf::from("go") }
}

fn ours() -> Contract {
    let protos = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    contract(&protox::compile(["services.proto"], [protos]).unwrap())
}

fn is_left_out(name: &str) -> bool {
    let message = name.split('.').next().unwrap();
    message.starts_with("Windows") || LEFT_OUT.contains(&name) || LEFT_OUT.contains(&message)
}

#[test]
fn every_number_type_and_method_is_upstreams() {
    let (ours, upstream) = (ours(), upstream());
    assert!(ours.len() > 500, "only {} entries", ours.len());
    let wrong: Vec<String> = ours
        .iter()
        .filter(|(name, how)| upstream.get(*name) != Some(how))
        .map(|(name, how)| format!("{name}: {how}, upstream {:?}", upstream.get(name)))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}

#[test]
fn what_we_leave_out_is_what_we_say_we_leave_out() {
    let (ours, upstream) = (ours(), upstream());
    let missing: BTreeSet<&str> =
        upstream.keys().map(String::as_str).filter(|name| !ours.contains_key(*name)).collect();
    let unsaid: Vec<&&str> = missing.iter().filter(|name| !is_left_out(name)).collect();
    assert_eq!(unsaid, Vec::<&&str>::new());
    let untrue: Vec<&&str> = LEFT_OUT.iter().filter(|name| !missing.contains(**name)).collect();
    assert_eq!(untrue, Vec::<&&str>::new());
}
