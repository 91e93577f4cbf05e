//! Which devices the processes of a cgroup may use, where the kernel has no controller for it (version 2): a BPF
//! program of type `BPF_PROG_TYPE_CGROUP_DEVICE` that the kernel asks at each mknod and open.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::Errno;

use crate::userns::last_errno;
use crate::{Error, Result};

/// `BPF_DEVCG_ACC_*` of linux/bpf.h.
const MKNOD: u8 = 1;
const READ: u8 = 2;
const WRITE: u8 = 4;
/// `BPF_DEVCG_DEV_*`.
const BLOCK: i32 = 1;
const CHAR: i32 = 2;

const PROG_LOAD: libc::c_int = 5;
const PROG_ATTACH: libc::c_int = 8;
const TYPE_CGROUP_DEVICE: u32 = 15;
const ATTACH_CGROUP_DEVICE: u32 = 6;
/// `BPF_F_ALLOW_MULTI`: programs of parent cgroups hold as well, and more can be attached below.
const ALLOW_MULTI: u32 = 2;

/// A rule on devices. Of all rules that match a device the last one counts, for each kind of access separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceAccess {
    /// Whether it allows.
    pub allow: bool,
    /// Character devices, block devices, or both.
    pub kind: Option<DeviceKind>,
    /// `None` is all.
    pub major: Option<u32>,
    /// `None` is all.
    pub minor: Option<u32>,
    /// The kinds of access.
    pub access: AccessKinds,
}

/// Kinds of access to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessKinds(u8);

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// A block device.
    Block,
    /// A character device.
    Char,
}

impl AccessKinds {
    /// From the letters `r`, `w` and `m`; others are ignored.
    #[must_use]
    pub fn of(letters: &str) -> Self {
        let bit = |letter: char| match letter {
            'r' => READ,
            'w' => WRITE,
            'm' => MKNOD,
            _ => 0,
        };
        Self(letters.chars().fold(0, |bits, letter| bits | bit(letter)))
    }
}

/// Lets the processes of the cgroup v2 at `group` use devices by these rules only; a device that no
/// rule is about is denied.
pub fn filter_devices(group: BorrowedFd<'_>, rules: &[DeviceAccess]) -> Result<()> {
    let program = load(&program(rules)).map_err(|errno| Error::DeviceFilter { step: "load", errno })?;
    attach(group, &program).map_err(|errno| Error::DeviceFilter { step: "attach", errno })
}

/// One BPF instruction.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Registers: the result, the context, and the values read from it.
const ANSWER: u8 = 0;
const CONTEXT: u8 = 1;
const KIND: u8 = 2;
/// The kinds of access that no rule has allowed yet.
const WANTED: u8 = 3;
const MAJOR: u8 = 4;
const MINOR: u8 = 5;

/// `BPF_LDX | BPF_MEM | BPF_W`, and `BPF_ALU64` or `BPF_JMP32` with an immediate operand unless it says otherwise.
const LOAD: u8 = 0x61;
const MOVE_REGISTER: u8 = 0xbf;
const MOVE: u8 = 0xb7;
const AND: u8 = 0x57;
const SHIFT_RIGHT: u8 = 0x77;
const JUMP_EQUAL: u8 = 0x16;
const JUMP_UNEQUAL: u8 = 0x56;
const EXIT: u8 = 0x95;

fn instruction(code: u8, register: u8, immediate: i32) -> Instruction {
    Instruction { code, registers: register, offset: 0, immediate }
}

fn from(code: u8, register: u8, source: u8, offset: i16) -> Instruction {
    Instruction { code, registers: register | (source << 4), offset, immediate: 0 }
}

fn program(rules: &[DeviceAccess]) -> Vec<Instruction> {
    let mut program = vec![
        from(LOAD, KIND, CONTEXT, 0),
        from(MOVE_REGISTER, WANTED, KIND, 0),
        instruction(AND, KIND, 0xffff),
        instruction(SHIFT_RIGHT, WANTED, 16),
        from(LOAD, MAJOR, CONTEXT, 4),
        from(LOAD, MINOR, CONTEXT, 8),
    ];
    for rule in rules.iter().rev() {
        program.extend(judge(rule));
    }
    program.extend(answer(0));
    program
}

fn answer(allowed: i32) -> [Instruction; 2] {
    [instruction(MOVE, ANSWER, allowed), instruction(EXIT, 0, 0)]
}

/// One rule: returns if it decides, and falls through if not.
fn judge(rule: &DeviceAccess) -> Vec<Instruction> {
    let kind = rule.kind.map(|kind| match kind {
        DeviceKind::Block => BLOCK,
        DeviceKind::Char => CHAR,
    });
    let number = |number: Option<u32>| number.map(u32::cast_signed);
    let tests = [(KIND, kind), (MAJOR, number(rule.major)), (MINOR, number(rule.minor))];
    let mut steps: Vec<Instruction> = tests
        .into_iter()
        .filter_map(|(register, wanted)| Some(instruction(JUMP_UNEQUAL, register, wanted?)))
        .collect();
    let access = i32::from(rule.access.0);
    if rule.allow {
        steps.extend([instruction(AND, WANTED, !access), instruction(JUMP_UNEQUAL, WANTED, 0)]);
        steps.extend(answer(1));
    } else {
        steps.extend([from(MOVE_REGISTER, ANSWER, WANTED, 0), instruction(AND, ANSWER, access)]);
        steps.push(instruction(JUMP_EQUAL, ANSWER, 0));
        steps.extend(answer(0));
    }
    // Every jump goes behind the rule's last instruction.
    let length = steps.len();
    for (at, step) in steps.iter_mut().enumerate() {
        if matches!(step.code, JUMP_EQUAL | JUMP_UNEQUAL) {
            step.offset = i16::try_from(length - at - 1).unwrap_or(i16::MAX);
        }
    }
    steps
}

/// The beginning of `union bpf_attr`, for loading a program.
#[repr(C)]
struct Load {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
}

/// The same, for attaching one.
#[repr(C)]
struct Attach {
    target: u32,
    program: u32,
    kind: u32,
    flags: u32,
}

fn load(program: &[Instruction]) -> std::result::Result<OwnedFd, Errno> {
    let license = c"Apache-2.0";
    let attributes = Load {
        kind: TYPE_CGROUP_DEVICE,
        count: u32::try_from(program.len()).map_err(|_| Errno::TOOBIG)?,
        instructions: address(program.as_ptr()),
        license: address(license.as_ptr()),
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
    };
    let fd = bpf(PROG_LOAD, &attributes)?;
    // SAFETY: the kernel has just opened it for us, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn attach(group: BorrowedFd<'_>, program: &OwnedFd) -> std::result::Result<(), Errno> {
    let number = |fd: RawFd| u32::try_from(fd).map_err(|_| Errno::BADF);
    let attributes = Attach {
        target: number(group.as_raw_fd())?,
        program: number(program.as_raw_fd())?,
        kind: ATTACH_CGROUP_DEVICE,
        flags: ALLOW_MULTI,
    };
    bpf(PROG_ATTACH, &attributes).map(drop)
}

fn address<T>(pointer: *const T) -> u64 {
    pointer.addr() as u64
}

fn bpf<T>(command: libc::c_int, attributes: &T) -> std::result::Result<RawFd, Errno> {
    // SAFETY: `attributes` is a whole structure of the given size, and what it points to is alive and not written to:
    // the callers' program and license, which outlive the call.
    let answer = unsafe {
        libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(attributes), std::mem::size_of::<T>())
    };
    if answer < 0 { Err(last_errno()) } else { RawFd::try_from(answer).map_err(|_| Errno::BADF) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program answers, by a small machine that knows these instructions only.
    fn run(program: &[Instruction], kind: i32, major: i64, minor: i64, access: u8) -> i64 {
        let mut registers = [0i64; 6];
        let mut at = 0;
        loop {
            let Instruction { code, registers: names, offset, immediate } = program[at];
            let (to, source) = (usize::from(names & 15), usize::from(names >> 4));
            let value = i64::from(immediate);
            let mut jump = false;
            match code {
                LOAD => {
                    let context = [i64::from(kind) | (i64::from(access) << 16), major, minor];
                    registers[to] = context[usize::try_from(offset).unwrap() / 4];
                }
                MOVE_REGISTER => registers[to] = registers[source],
                MOVE => registers[to] = value,
                AND => registers[to] &= value,
                SHIFT_RIGHT => registers[to] >>= value,
                JUMP_EQUAL => jump = registers[to] == value,
                JUMP_UNEQUAL => jump = registers[to] != value,
                EXIT => return registers[0],
                other => panic!("{other:#x}"),
            }
            at += 1 + if jump { usize::try_from(offset).unwrap() } else { 0 };
        }
    }

    fn all(allow: bool, letters: &str) -> DeviceAccess {
        DeviceAccess { allow, kind: None, major: None, minor: None, access: AccessKinds::of(letters) }
    }

    fn rule(allow: bool, major: u32, minor: u32, letters: &str) -> DeviceAccess {
        let (major, minor) = (Some(major), Some(minor));
        DeviceAccess { kind: Some(DeviceKind::Char), major, minor, ..all(allow, letters) }
    }

    #[test]
    fn the_last_rule_counts_for_each_access_by_itself() {
        let rules = [
            all(false, "rwm"),
            all(true, "m"),
            rule(true, 1, 3, "rwm"),
            rule(true, 10, 200, "rwm"),
            rule(false, 10, 200, "w"),
        ];
        let program = program(&rules);
        let may = |kind, major, minor, access| run(&program, kind, major, minor, access) == 1;
        assert!(may(CHAR, 1, 3, READ | WRITE) && may(CHAR, 1, 3, MKNOD));
        assert!(!may(BLOCK, 1, 3, READ) && !may(CHAR, 1, 4, READ) && may(BLOCK, 8, 0, MKNOD));
        assert!(may(CHAR, 10, 200, READ) && !may(CHAR, 10, 200, READ | WRITE));
    }

    #[test]
    fn no_rule_is_no_device() {
        assert_eq!(run(&program(&[]), CHAR, 1, 3, READ), 0);
        assert_eq!(run(&program(&[all(true, "rwm")]), BLOCK, 8, 0, READ | WRITE), 1);
    }
}
