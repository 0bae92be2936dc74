//! What the programs of a container may ask of the kernel: what programs need, and nothing that changes the machine,
//! its clock or its namespaces, or that reads the memory of others.
//!
//! What is not known here does not exist for them, so that they do without it, or is refused.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use oci_spec::runtime::{
    Arch, Capabilities, Capability, LinuxSeccomp, LinuxSeccompAction, LinuxSeccompArg, LinuxSeccompArgBuilder,
    LinuxSeccompBuilder, LinuxSeccompOperator, LinuxSyscall, LinuxSyscallBuilder,
};

/// Names of the calls that are allowed whatever they are given, of all kinds of machines.
const ALLOWED: &str = include_str!("syscalls.txt");
/// `CLONE_NEW…` of `clone(2)`: namespaces are made by nobody in a container.
const NAMESPACES: u64 = 0x7e02_0000;
/// `personality(2)`: Linux as it is, and as 32-bit programs and those without random addresses have it; and the
/// question.
const PERSONALITIES: [u64; 5] = [0, 0x8, 0x2_0000, 0x2_0008, 0xffff_ffff];
/// Addresses of virtual machines and their host, which no network namespace keeps apart.
const AF_VSOCK: u64 = 40;
/// "No such call."
const ENOSYS: u32 = 38;

/// This machine, and the one of 32 bits that it can be.
#[cfg(target_arch = "x86_64")]
const MACHINES: [Arch; 2] = [Arch::ScmpArchX86_64, Arch::ScmpArchX86];
#[cfg(target_arch = "aarch64")]
const MACHINES: [Arch; 2] = [Arch::ScmpArchAarch64, Arch::ScmpArchArm];
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const MACHINES: [Arch; 1] = [Arch::ScmpArchNative];
/// What starts programs of 32 bits that are linked dynamically, where an image has it.
const LOADERS: [&str; 5] = [
    "lib/ld-linux.so.2",
    "lib/ld-linux-armhf.so.3",
    "lib/ld-linux.so.3",
    "lib/ld-musl-i386.so.1",
    "lib/ld-musl-armhf.so.1",
];

/// What is allowed beside them to whoever has a capability, which the kernel asks for these calls.
const ALLOWED_WITH: [(Capability, &[&str]); 5] = [
    (
        Capability::SysTime,
        &[
            "clock_adjtime",
            "clock_adjtime64",
            "clock_settime",
            "clock_settime64",
            "settimeofday",
            "stime",
        ],
    ),
    (Capability::SysBoot, &["reboot"]),
    (
        Capability::SysNice,
        &["get_mempolicy", "mbind", "set_mempolicy", "set_mempolicy_home_node"],
    ),
    (Capability::Syslog, &["syslog"]),
    (Capability::SysTtyConfig, &["vhangup"]),
];

/// Whether an image of these layers has programs of 32 bits, for all that is seen without following them: `program` is
/// what it is started with.
pub(super) fn has_32_bits(layers: &[PathBuf], program: &str) -> bool {
    let has = |layer: &PathBuf, path: &str| layer.join(path).symlink_metadata().is_ok();
    let has_loader = |layer: &PathBuf| {
        let usr = LOADERS.iter().any(|loader| has(layer, &format!("usr/{loader}")));
        usr || LOADERS.iter().any(|loader| has(layer, loader))
    };
    let program = layers
        .iter()
        .rev()
        .map(|layer| layer.join(program.trim_start_matches('/')));
    let mut files = program.filter(|path| path.symlink_metadata().is_ok_and(|about| about.is_file()));
    layers.iter().any(has_loader) || files.next().is_some_and(|path| is_of_32_bits(&path))
}

/// By its head (`elf(5)`: `EI_CLASS`).
fn is_of_32_bits(program: &Path) -> bool {
    let mut head = [0; 5];
    let read = File::open(program).and_then(|mut file| file.read_exact(&mut head));
    read.is_ok() && head == *b"\x7fELF\x01"
}

/// For a container with these capabilities. Without programs of 32 bits one that runs all the same is ended by the
/// first call it makes: their numbers of calls are others, and knowing them takes longer than all else of a start.
pub(super) fn filter(capabilities: &Capabilities, has_32_bits: bool) -> LinuxSeccomp {
    let with = ALLOWED_WITH
        .iter()
        .filter(|(capability, _)| capabilities.contains(capability));
    let allowed = ALLOWED.lines().chain(with.flat_map(|(_, calls)| calls.iter().copied()));
    let mut calls = vec![call(allowed, LinuxSeccompAction::ScmpActAllow).build()];
    calls.push(allowed_if(
        "clone",
        argument(0, LinuxSeccompOperator::ScmpCmpMaskedEq, NAMESPACES),
    ));
    calls.push(allowed_if(
        "socket",
        argument(0, LinuxSeccompOperator::ScmpCmpNe, AF_VSOCK),
    ));
    for personality in PERSONALITIES {
        let is_it = argument(0, LinuxSeccompOperator::ScmpCmpEq, personality);
        calls.push(allowed_if("personality", is_it));
    }
    // What it is given lies in memory, where no filter sees it: programs take `clone` instead.
    calls.push(
        call(["clone3"], LinuxSeccompAction::ScmpActErrno)
            .errno_ret(ENOSYS)
            .build(),
    );
    let calls: Result<Vec<LinuxSyscall>, _> = calls.into_iter().collect();
    LinuxSeccompBuilder::default()
        .default_action(LinuxSeccompAction::ScmpActErrno)
        .architectures(&MACHINES[..if has_32_bits { MACHINES.len() } else { 1 }])
        .syscalls(calls.expect("nothing is missing"))
        .build()
        .expect("nothing is missing")
}

fn call<'a>(names: impl IntoIterator<Item = &'a str>, action: LinuxSeccompAction) -> LinuxSyscallBuilder {
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    LinuxSyscallBuilder::default().names(names).action(action)
}

fn allowed_if(name: &str, argument: LinuxSeccompArg) -> Result<LinuxSyscall, oci_spec::OciSpecError> {
    call([name], LinuxSeccompAction::ScmpActAllow)
        .args(vec![argument])
        .build()
}

/// Masked: what is left of it is 0.
fn argument(index: usize, operator: LinuxSeccompOperator, value: u64) -> LinuxSeccompArg {
    let argument = LinuxSeccompArgBuilder::default().index(index).op(operator).value(value);
    let argument = match operator {
        LinuxSeccompOperator::ScmpCmpMaskedEq => argument.value_two(0_u64),
        _ => argument,
    };
    argument.build().expect("nothing is missing")
}
