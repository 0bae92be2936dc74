//! Calls of programs of the host that are led past doors as they are made: a program of the kernel's (eBPF) gives `connect(2)`
//! the address of the container in place of the door's (decision 47). What is under way is then a connection like any other,
//! and none of its packets is changed; what calls otherwise, and all calls where the kernel runs no such program, the rules lead.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

use rustix::net::{AddressFamily, SocketType, socket};

use super::Redirect;
use super::range::Range;

/// Doors whose calls are led so; those beyond are led by rules alone.
const DOORS_MAX: u32 = 4_096;
/// Where control groups of version 2 are mounted: beside those of version 1, or alone.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];

/// Where calls to doors go in their place.
pub(super) type Led = BTreeMap<SocketAddrV4, SocketAddrV4>;

/// Calls that are led by this edge: no longer than it runs.
#[derive(Debug, Default)]
pub(super) struct Calls {
    kernel: Kernel,
    led: Led,
}

#[derive(Debug, Default)]
enum Kernel {
    #[default]
    NotAsked,
    Refuses,
    Runs {
        map: OwnedFd,
        /// While it is open, the program is run.
        _link: OwnedFd,
    },
}

/// Those of `redirects` that lead to one container of a `range`: among several, rules take turns, and what they lead to a door of
/// the edge's own they may lead on.
pub(super) fn of_redirects(range: Range, redirects: &[Redirect]) -> Led {
    let (all, one): (Vec<_>, Vec<_>) = redirects.iter().partition(|redirect| redirect.at.ip().is_unspecified());
    // Of all its addresses, a host calls itself at this one; those to others are led by rules.
    let of_all = all
        .into_iter()
        .map(|redirect| (SocketAddrV4::new(Ipv4Addr::LOCALHOST, redirect.at.port()), &redirect.to));
    let of_one = one.into_iter().map(|redirect| (redirect.at, &redirect.to));
    of_all
        .chain(of_one)
        .filter_map(|(door, to)| match to[..] {
            [to] if range.is_of_pods(*to.ip()) => Some((door, to)),
            _ => None,
        })
        .collect()
}

impl Calls {
    /// From now on no calls are led but as these are.
    pub(super) fn keep(&mut self, wanted: &Led) {
        let Kernel::Runs { map, .. } = &self.kernel else {
            return;
        };
        self.led.retain(|door, to| {
            let stays = wanted.get(door) == Some(to);
            if !stays && let Err(error) = delete(map, *door) {
                // It is gone already, or the map is no map.
                tracing::error!(%door, %error, "calls are still led past it");
            }
            stays
        });
    }

    /// Has these be led, too.
    pub(super) fn lead(&mut self, wanted: Led) {
        if wanted.is_empty() {
            return;
        }
        if let Kernel::NotAsked = self.kernel {
            self.kernel = match run() {
                Ok((map, link)) => Kernel::Runs { map, _link: link },
                Err(error) => {
                    tracing::debug!(%error, "the kernel leads calls by rules alone");
                    Kernel::Refuses
                }
            };
        }
        let Kernel::Runs { map, .. } = &self.kernel else {
            return;
        };
        for (door, to) in wanted {
            if self.led.get(&door) == Some(&to) {
                continue;
            }
            match update(map, door, to) {
                Ok(()) => drop(self.led.insert(door, to)),
                Err(error) => tracing::debug!(%door, %error, "calls to it are led by rules alone"),
            }
        }
    }
}

/// The map of what is led, and the program that reads it, at the root of all control groups.
fn run() -> io::Result<(OwnedFd, OwnedFd)> {
    let mounted = MOUNTS
        .iter()
        .map(Path::new)
        .find(|mount| mount.join("cgroup.controllers").exists());
    let mount = mounted.ok_or_else(|| io::Error::other("no control groups of version 2 are mounted"))?;
    let root = File::open(mount)?;
    let map = make(
        MAP_CREATE,
        &MapCreate {
            kind: MAP_TYPE_HASH,
            key_bytes: size_of::<Address>() as u32,
            value_bytes: size_of::<Address>() as u32,
            entries_max: DOORS_MAX,
            // An element that is replaced is not read half.
            flags: MAP_NO_PREALLOC,
        },
    )?;
    let code = program(cookie()?, &map);
    let program = make(
        PROG_LOAD,
        &ProgLoad {
            kind: PROG_TYPE_CGROUP_SOCK_ADDR,
            count: code.len() as u32,
            code: code.as_ptr() as u64,
            license: c"MIT".as_ptr() as u64,
            expected: CGROUP_INET4_CONNECT,
            ..ProgLoad::default()
        },
    )?;
    let link = make(
        LINK_CREATE,
        &LinkCreate {
            program: program.as_raw_fd(),
            target: root.as_raw_fd(),
            attach: CGROUP_INET4_CONNECT,
            flags: 0,
        },
    )?;
    Ok((map, link))
}

/// The number of the name space of networks that this is in, of all that there were since the host was started.
fn cookie() -> io::Result<u64> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
    let (mut cookie, mut bytes) = (0_u64, size_of::<u64>() as libc::socklen_t);
    // SAFETY: both pointers are to what lives until it returns, and it writes no more than `bytes`.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut bytes,
        )
    };
    match done {
        0 => Ok(cookie),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Before each `connect` of IPv4 by anybody on the host: where a call of TCP from this name space of networks is to a door of
/// the map, it is to what the map has instead.
fn program(cookie: u64, map: &OwnedFd) -> Vec<Instruction> {
    // Of `struct bpf_sock_addr`.
    const IP: i16 = 4;
    const PORT: i16 = 24;
    const PROTOCOL: i16 = 36;
    const FRAME: u8 = 10;
    const KEY: i16 = -8;
    vec![
        // r6: the call
        op(MOVE, 6, 1, 0, 0),
        op(LOAD_32, 2, 6, PROTOCOL, 0),
        op(JUMP_IF_NOT, 2, 0, 18, libc::IPPROTO_TCP),
        op(CALL, 0, 0, 0, GET_NETNS_COOKIE),
        op(LOAD_64, 1, 0, 0, cookie as i32),
        op(0, 0, 0, 0, (cookie >> 32) as i32),
        op(JUMP_IF_OTHER, 0, 1, 14, 0),
        op(LOAD_32, 1, 6, IP, 0),
        op(STORE_32, FRAME, 1, KEY, 0),
        op(LOAD_32, 1, 6, PORT, 0),
        op(STORE_32, FRAME, 1, KEY + 4, 0),
        op(LOAD_64, 1, OF_MAP, 0, map.as_raw_fd()),
        op(0, 0, 0, 0, 0),
        op(MOVE, 2, FRAME, 0, 0),
        op(ADD, 2, 0, 0, KEY.into()),
        op(CALL, 0, 0, 0, MAP_LOOKUP_ELEM),
        op(JUMP_IF, 0, 0, 4, 0),
        op(LOAD_32, 1, 0, 0, 0),
        op(STORE_32, 6, 1, IP, 0),
        op(LOAD_32, 1, 0, 4, 0),
        op(STORE_32, 6, 1, PORT, 0),
        // It may go on.
        op(SET, 0, 0, 0, 1),
        op(EXIT, 0, 0, 0, 0),
    ]
}

fn op(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    Instruction {
        code,
        registers: from << 4 | to,
        offset,
        value,
    }
}

fn update(map: &OwnedFd, door: SocketAddrV4, to: SocketAddrV4) -> io::Result<()> {
    let (key, value) = (Address::from(door), Address::from(to));
    element(MAP_UPDATE_ELEM, map, &key, &raw const value as u64)
}

fn delete(map: &OwnedFd, door: SocketAddrV4) -> io::Result<()> {
    element(MAP_DELETE_ELEM, map, &Address::from(door), 0)
}

fn element(command: libc::c_int, map: &OwnedFd, key: &Address, value: u64) -> io::Result<()> {
    let element = MapElement {
        map: map.as_raw_fd(),
        key: std::ptr::from_ref(key) as u64,
        value,
        ..MapElement::default()
    };
    bpf(command, &element).map(|_| ())
}

/// Has `bpf(2)` make something.
fn make<T>(command: libc::c_int, of: &T) -> io::Result<OwnedFd> {
    let made = bpf(command, of)?;
    // SAFETY: the kernel has made it just now, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(made) })
}

fn bpf<T>(command: libc::c_int, of: &T) -> io::Result<i32> {
    // SAFETY: what it reads is as long as it is told, and all that is pointed to in it lives until it returns.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_ref(of), size_of::<T>()) };
    match done {
        -1 => Err(io::Error::last_os_error()),
        done => Ok(done as i32),
    }
}

/// An address as a call has it: both in network byte order, the port in a word of its own.
#[repr(C)]
struct Address {
    ip: [u8; 4],
    port: u32,
}

impl From<SocketAddrV4> for Address {
    fn from(address: SocketAddrV4) -> Self {
        Address {
            ip: address.ip().octets(),
            port: address.port().to_be().into(),
        }
    }
}

#[repr(C)]
struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    value: i32,
}

// Of `union bpf_attr`, as far as each command reads it.

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries_max: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct MapElement {
    map: i32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgLoad {
    kind: u32,
    count: u32,
    code: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    version: u32,
    flags: u32,
    name: [u8; 16],
    link: u32,
    expected: u32,
}

#[repr(C)]
struct LinkCreate {
    program: i32,
    target: i32,
    attach: u32,
    flags: u32,
}

// `linux/bpf.h`, `linux/bpf_common.h`, `asm-generic/socket.h`.

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_TYPE_HASH: u32 = 1;
const MAP_NO_PREALLOC: u32 = 1;
const PROG_TYPE_CGROUP_SOCK_ADDR: u32 = 18;
const CGROUP_INET4_CONNECT: u32 = 10;
const MAP_LOOKUP_ELEM: i32 = 1;
const GET_NETNS_COOKIE: i32 = 122;
const SO_NETNS_COOKIE: libc::c_int = 71;
/// In place of a register, for the number of a map.
const OF_MAP: u8 = 1;
const MOVE: u8 = 0xbf;
const SET: u8 = 0xb7;
const ADD: u8 = 0x07;
const LOAD_32: u8 = 0x61;
const LOAD_64: u8 = 0x18;
const STORE_32: u8 = 0x63;
const JUMP_IF: u8 = 0x15;
const JUMP_IF_NOT: u8 = 0x55;
const JUMP_IF_OTHER: u8 = 0x5d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(at: &str, to: &[&str]) -> Redirect {
        Redirect {
            at: at.parse().unwrap(),
            tenant: None,
            to: to.iter().map(|to| to.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn who_leads_to_one_container_does_so_and_a_door_at_one_address_goes_before_that_at_all() {
        let range = Range::any(0);
        let led = of_redirects(
            range,
            &[
                redirect("127.0.0.1:80", &["10.112.0.2:8080"]),
                redirect("0.0.0.0:80", &["10.112.0.3:8080"]),
                redirect("0.0.0.0:81", &["10.112.0.4:8080"]),
                redirect("10.112.8.1:80", &["10.112.0.5:8080", "10.112.0.6:8080"]),
                redirect("10.112.8.2:80", &["10.112.8.2:46000"]),
                redirect("10.112.8.3:80", &["10.112.4.2:8080"]),
            ],
        );
        let led: Vec<String> = led.iter().map(|(door, to)| format!("{door} {to}")).collect();
        assert_eq!(
            led,
            [
                "10.112.8.3:80 10.112.4.2:8080",
                "127.0.0.1:80 10.112.0.2:8080",
                "127.0.0.1:81 10.112.0.4:8080"
            ]
        );
    }
}
