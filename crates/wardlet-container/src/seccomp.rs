//! A profile of system calls as the kernel reads it, compiled once and kept for every process to come.

use std::fs::File;
use std::io::{Read, Seek};

use libseccomp::{ScmpAction, ScmpArch, ScmpArgCompare, ScmpCompareOp, ScmpFilterContext, ScmpSyscall};
use rustix::fs::{MemfdFlags, memfd_create};
use serde::Deserialize;
use serde_json::Value;

use crate::failure::Failure;

/// What a forbidden call is answered with if the profile does not say.
const EPERM: i32 = 1;

/// The form of OCI.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Profile {
    default_action: String,
    default_errno_ret: Option<i32>,
    #[serde(default)]
    architectures: Vec<String>,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    syscalls: Vec<Rule>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rule {
    names: Vec<String>,
    action: String,
    errno_ret: Option<i32>,
    #[serde(default)]
    args: Vec<Condition>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    index: u32,
    value: u64,
    value_two: Option<u64>,
    op: String,
}

/// The program of a profile.
pub(crate) fn compile(profile: &Value) -> Result<Vec<u8>, Failure> {
    let profile = read(profile)?;
    let default = action(&profile.default_action, profile.default_errno_ret)?;
    let mut filter = ScmpFilterContext::new(default).map_err(refused("the default action"))?;
    filter.set_ctl_nnp(false).map_err(refused("privileges"))?;
    for name in &profile.architectures {
        let architecture: ScmpArch = name.parse().map_err(refused(name))?;
        filter.add_arch(architecture).map_err(refused(name))?;
    }
    for rule in &profile.syscalls {
        let wanted = action(&rule.action, rule.errno_ret)?;
        // One that changes nothing is refused by the library.
        if wanted == default {
            continue;
        }
        for name in &rule.names {
            add(&mut filter, wanted, name, &rule.args)?;
        }
    }
    exported(&filter)
}

/// Older releases of the library write to files only.
fn exported(filter: &ScmpFilterContext) -> Result<Vec<u8>, Failure> {
    let failed = |cause: std::io::Error| Failure::during("cannot keep the seccomp filter", cause);
    let memory = memfd_create("filter", MemfdFlags::CLOEXEC).map_err(|errno| failed(errno.into()))?;
    filter.export_bpf(&memory).map_err(refused("the whole"))?;
    let (mut file, mut program) = (File::from(memory), Vec::new());
    file.rewind().map_err(failed)?;
    file.read_to_end(&mut program).map_err(failed)?;
    Ok(program)
}

/// How the filter of a profile is set (`SECCOMP_FILTER_FLAG_*`).
pub(crate) fn flags(profile: &Value) -> Result<u32, Failure> {
    let flag = |name: &String| match name.as_str() {
        "SECCOMP_FILTER_FLAG_TSYNC" => Ok(1),
        "SECCOMP_FILTER_FLAG_LOG" => Ok(2),
        "SECCOMP_FILTER_FLAG_SPEC_ALLOW" => Ok(4),
        other => Err(Failure::of(format!("seccomp profile: {other} is not supported for an exec"))),
    };
    read(profile)?.flags.iter().try_fold(0, |flags, name| Ok(flags | flag(name)?))
}

fn read(profile: &Value) -> Result<Profile, Failure> {
    Profile::deserialize(profile).map_err(|cause| Failure::during("seccomp profile", cause))
}

fn action(name: &str, errno: Option<i32>) -> Result<ScmpAction, Failure> {
    if name == "SCMP_ACT_NOTIFY" {
        return Err(Failure::of("seccomp profile: SCMP_ACT_NOTIFY is not supported")
            .hinted("no agent would answer notifications of processes that are started later"));
    }
    let value = match name {
        "SCMP_ACT_ERRNO" | "SCMP_ACT_TRACE" => Some(errno.unwrap_or(EPERM)),
        _ => None,
    };
    ScmpAction::from_str(name, value).map_err(refused(name))
}

fn add(
    filter: &mut ScmpFilterContext,
    action: ScmpAction,
    name: &str,
    conditions: &[Condition],
) -> Result<(), Failure> {
    // A call that the library does not know is one that the profile's default holds for.
    let Ok(call) = ScmpSyscall::from_name(name) else { return Ok(()) };
    let compares = conditions.iter().map(compare).collect::<Result<Vec<_>, Failure>>()?;
    let mut seen: Vec<u32> = conditions.iter().map(|condition| condition.index).collect();
    seen.sort_unstable();
    seen.dedup();
    // The library takes one condition for each argument; more of them mean "or", as in other runtimes.
    if seen.len() < compares.len() {
        return compares
            .iter()
            .try_for_each(|one| filter.add_rule_conditional(action, call, &[*one]).map(drop))
            .map_err(refused(name));
    }
    filter.add_rule_conditional(action, call, &compares).map(drop).map_err(refused(name))
}

fn compare(condition: &Condition) -> Result<ScmpArgCompare, Failure> {
    let (operator, value) = match condition.op.as_str() {
        "SCMP_CMP_NE" => (ScmpCompareOp::NotEqual, condition.value),
        "SCMP_CMP_LT" => (ScmpCompareOp::Less, condition.value),
        "SCMP_CMP_LE" => (ScmpCompareOp::LessOrEqual, condition.value),
        "SCMP_CMP_EQ" => (ScmpCompareOp::Equal, condition.value),
        "SCMP_CMP_GE" => (ScmpCompareOp::GreaterEqual, condition.value),
        "SCMP_CMP_GT" => (ScmpCompareOp::Greater, condition.value),
        "SCMP_CMP_MASKED_EQ" => {
            (ScmpCompareOp::MaskedEqual(condition.value), condition.value_two.unwrap_or(0))
        }
        other => return Err(Failure::of(format!("seccomp profile: there is no comparison {other:?}"))),
    };
    Ok(ScmpArgCompare::new(condition.index, operator, value))
}

fn refused<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Failure + '_ {
    move |cause| Failure::during(&format!("seccomp profile: {what}"), cause)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_profile_becomes_instructions_of_eight_bytes() {
        let profile = json!({
            "defaultAction": "SCMP_ACT_ALLOW",
            "architectures": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
            "syscalls": [
                { "names": ["mkdirat", "no_such_call"], "action": "SCMP_ACT_ERRNO", "errnoRet": 7 },
                { "names": ["personality"], "action": "SCMP_ACT_ERRNO",
                  "args": [{ "index": 0, "value": 8, "op": "SCMP_CMP_EQ" }, { "index": 0, "value": 9, "op": "SCMP_CMP_EQ" }] },
                { "names": ["clone"], "action": "SCMP_ACT_ERRNO",
                  "args": [{ "index": 0, "value": 0x7e02_0000, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" }] },
            ],
        });
        let program = compile(&profile).unwrap();
        assert!(program.len() > 80 && program.len().is_multiple_of(8));
        assert_eq!(flags(&profile).unwrap(), 0);
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (profile, name) in [
            (json!({ "defaultAction": "SCMP_ACT_ALOW" }), "SCMP_ACT_ALOW"),
            (
                json!({ "defaultAction": "SCMP_ACT_ALLOW", "architectures": ["SCMP_ARCH_VAX"] }),
                "SCMP_ARCH_VAX",
            ),
            (
                json!({ "defaultAction": "SCMP_ACT_ALLOW",
                "syscalls": [{ "names": ["bpf"], "action": "SCMP_ACT_NOTIFY" }] }),
                "SCMP_ACT_NOTIFY",
            ),
        ] {
            let failure = compile(&profile).unwrap_err();
            assert!(failure.what.contains(name), "{failure:?}");
        }
    }

    #[test]
    fn the_runtimes_own_profile_can_be_compiled() {
        for sets in [
            container::capabilities::all(),
            container::capabilities::of(&container::capabilities::RequestedCapabilities::default()).unwrap(),
        ] {
            compile(&container::seccomp::runtime_default(&sets)).unwrap();
        }
    }
}
