//! Which system calls a container may make that asked for the runtime's own idea of it.
//!
//! Everything is forbidden that is not named: what is stands in `calls`, by what it is for. A call that
//! only helps with a capability is allowed with that capability. Nothing is allowed that containerd's
//! default forbids; a test holds the two side by side.

mod calls;

use serde_json::{Value, json};

use crate::capabilities::Sets;

/// `clone` with none of these makes no namespace.
const NAMESPACES: u64 = 0x7e02_0000;
/// Every `PER_` that differs from Linux's own only in what `uname` says, and the question for the present one.
const PERSONALITIES: [u64; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];
/// The last kind of socket that there is.
const LAST_SOCKETS: u64 = 45;
/// Socket families that no container may use: AF_ALG, the kernel's cryptography, which has had container escapes, and
/// AF_VSOCK, which knows no namespaces. 32-bit programs that use `socketcall` can have them: its arguments are in
/// memory, which no filter can read, and without it they would have no sockets.
const NO_SOCKETS: [u64; 2] = [38, 40];
/// "There is no such call": what makes libraries use an older one instead.
const ENOSYS: u32 = 38;

/// The profile of a container with these capabilities, in the form of OCI's `linux.seccomp`.
#[must_use]
pub fn runtime_default(capabilities: &Sets) -> Value {
    let has = |name: &str| capabilities.bounding.iter().any(|held| held == name);
    let mut rules = vec![allow(&calls::always())];
    rules.extend(PERSONALITIES.map(|value| allow_if("personality", &equal(value))));
    rules.extend(sockets());
    for (capability, names) in calls::WITH_CAPABILITY {
        if has(capability) {
            rules.push(allow(&names.split_whitespace().collect::<Vec<_>>()));
        }
    }
    if !has("CAP_SYS_ADMIN") {
        rules.push(allow_if("clone", &no_namespaces()));
        // Its flags lie in memory, where no filter can look.
        rules.push(json!({ "names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": ENOSYS }));
    }
    json!({
        "defaultAction": "SCMP_ACT_ERRNO",
        "architectures": calls::ARCHITECTURES,
        "syscalls": rules,
    })
}

fn allow(names: &[&str]) -> Value {
    json!({ "names": names, "action": "SCMP_ACT_ALLOW" })
}

fn allow_if(name: &str, argument: &Value) -> Value {
    json!({ "names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument] })
}

fn equal(value: u64) -> Value {
    json!({ "index": 0, "value": value, "op": "SCMP_CMP_EQ" })
}

/// One rule each but for the first: comparisons of one argument in one rule mean "or" to some runtimes.
fn sockets() -> impl Iterator<Item = Value> {
    let [first, ..] = NO_SOCKETS;
    let below = json!({ "index": 0, "value": first, "op": "SCMP_CMP_LT" });
    let others = (first..=LAST_SOCKETS).filter(|kind| !NO_SOCKETS.contains(kind)).map(equal);
    std::iter::once(below).chain(others).map(|argument| allow_if("socket", &argument))
}

/// On one architecture the flags are the second argument.
fn no_namespaces() -> Value {
    let index = if cfg!(target_arch = "s390x") { 1 } else { 0 };
    json!({ "index": index, "value": NAMESPACES, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ" })
}
