#![no_main]
//! A seccomp profile of the host's: any bytes are enforced as they say, or refused; never left out.

use container::Seccomp;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use wardlet_fuzz::{Kind, build_spec, options};
use cri::security_profile::ProfileType;
use cri::{ContainerConfig, LinuxContainerConfig, LinuxContainerSecurityContext, SecurityProfile};

fuzz_target!(|bytes: &[u8]| {
    let local = SecurityProfile {
        profile_type: ProfileType::Localhost.into(),
        localhost_ref: "/profiles/one.json".into(),
    };
    let security = LinuxContainerSecurityContext {
        namespace_options: Some(options(Kind::HostUsers)),
        seccomp: Some(local),
        ..Default::default()
    };
    let linux = LinuxContainerConfig { security_context: Some(security), ..Default::default() };
    let config = ContainerConfig { linux: Some(linux), ..Default::default() };
    let Ok(start) = build_spec(Kind::HostUsers, &config, bytes) else { return };
    let Seccomp::Profile(enforced) = start.process.seccomp else {
        panic!("a profile was read and is not enforced");
    };
    let written: Value = serde_json::from_slice(bytes).expect("only JSON is a profile");
    assert_eq!(enforced["defaultAction"], written["defaultAction"]);
    let rules = |of: &Value| of["syscalls"].as_array().cloned().unwrap_or_default();
    let (mine, theirs) = (rules(&enforced), rules(&written));
    assert_eq!(mine.len(), theirs.len());
    for (mine, theirs) in mine.iter().zip(&theirs) {
        assert_eq!((&mine["names"], &mine["action"]), (&theirs["names"], &theirs["action"]));
        assert_eq!(mine["errnoRet"], theirs["errnoRet"]);
        let conditions = |of: &Value| of["args"].as_array().map_or(0, Vec::len);
        assert_eq!(conditions(mine), conditions(theirs), "a rule without its condition says something else");
    }
});
