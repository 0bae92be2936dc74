//! Calls of programs of the host that are led past doors as they are made: a program of the kernel's (eBPF) gives
//! `connect(2)` the address of the container, or of the program, in place of the door's (decision 47). What is under
//! way is then a connection like any other, and none of its packets is changed; what calls otherwise, and all calls
//! where the kernel runs no such program, the rules lead.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, socket};
use rustix::time::{ClockId, clock_gettime};

use super::Redirect;
use super::connections;

/// Doors whose calls are led so, and those they lead to whose last calls are known. Doors beyond are led by rules
/// alone, and of calls the last remain.
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
        /// Of doors.
        map: OwnedFd,
        /// When somebody was called last, by his address: of the monotonic clock, in nanoseconds.
        last_calls: OwnedFd,
        /// While it is open, the program is run.
        _link: OwnedFd,
    },
}

/// Those of `redirects` that lead to one who `answers`, by his address: among several, rules take turns, and what they
/// lead to a door of the edge's own they may lead on.
pub(super) fn of_redirects(redirects: &[Redirect], answers: impl Fn(Ipv4Addr) -> bool) -> Led {
    let (all, one): (Vec<_>, Vec<_>) = redirects.iter().partition(|redirect| redirect.at.ip().is_unspecified());
    // Of all its addresses, a host calls itself at this one; those to others are led by rules.
    let of_all = all
        .into_iter()
        .map(|redirect| (SocketAddrV4::new(Ipv4Addr::LOCALHOST, redirect.at.port()), &redirect.to));
    let of_one = one.into_iter().map(|redirect| (redirect.at, &redirect.to));
    of_all
        .chain(of_one)
        .filter_map(|(door, to)| match to[..] {
            [to] if answers(*to.ip()) => Some((door, to)),
            _ => None,
        })
        .collect()
}

impl Calls {
    /// How long ago the last call was led to one of these; `None`: none is known of.
    pub(super) fn last(&self, led: &connections::Led) -> Option<Duration> {
        let Kernel::Runs { last_calls, .. } = &self.kernel else {
            return None;
        };
        let now = clock_gettime(ClockId::Monotonic);
        let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let of_these = times(last_calls).into_iter().filter(|(to, _)| led.has_one_at(*to));
        let agos = of_these.map(|(_, at_ns)| Duration::from_nanos(now_ns.saturating_sub(at_ns)));
        agos.min()
    }

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
                Ok(runs) => runs,
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

/// Whom somebody has called since the program runs, and when: of the monotonic clock, in nanoseconds.
fn times(map: &OwnedFd) -> Vec<(SocketAddrV4, u64)> {
    let mut times = Vec::new();
    let (mut key, mut next, mut at_ns) = (None, Address::default(), 0_u64);
    // Where one goes meanwhile, the kernel may begin anew.
    for _ in 0..2 * DOORS_MAX {
        let of = key.as_ref().map_or(0, |key| std::ptr::from_ref::<Address>(key) as u64);
        if element(MAP_GET_NEXT_KEY, map, of, &raw mut next as u64).is_err() {
            break;
        }
        if element(MAP_LOOKUP_ELEM, map, &raw const next as u64, &raw mut at_ns as u64).is_ok() {
            times.push((next.into(), at_ns));
        }
        key = Some(next);
    }
    times
}

/// The program, at the root of all control groups, and its maps.
fn run() -> io::Result<Kernel> {
    let mounted = MOUNTS
        .iter()
        .map(Path::new)
        .find(|mount| mount.join("cgroup.controllers").exists());
    let mount = mounted.ok_or_else(|| io::Error::other("no control groups of version 2 are mounted"))?;
    let root = File::open(mount)?;
    // An element that is replaced is not read half.
    let map = map_of_addresses::<Address>(MAP_TYPE_HASH, MAP_NO_PREALLOC)?;
    let last_calls = map_of_addresses::<u64>(MAP_TYPE_LRU_HASH, 0)?;
    let code = program(cookie()?, &map, &last_calls);
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
    Ok(Kernel::Runs {
        map,
        last_calls,
        _link: link,
    })
}

/// A map of addresses, and what it has of each.
fn map_of_addresses<T>(kind: u32, flags: u32) -> io::Result<OwnedFd> {
    let described = MapCreate {
        kind,
        key_bytes: size_of::<Address>() as u32,
        value_bytes: size_of::<T>() as u32,
        entries_max: DOORS_MAX,
        flags,
    };
    make(MAP_CREATE, &described)
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

/// Before each `connect` of IPv4 by anybody on the host: where a call of TCP from this name space of networks is to a
/// door of the map, it is to what the map has instead, whose last call it is.
fn program(cookie: u64, map: &OwnedFd, last_calls: &OwnedFd) -> Vec<Instruction> {
    // Of `struct bpf_sock_addr`.
    const IP: i16 = 4;
    const PORT: i16 = 24;
    const PROTOCOL: i16 = 36;
    const FRAME: u8 = 10;
    const KEY: i16 = -8;
    const NOW: i16 = -16;
    vec![
        // r6: the call
        op(MOVE, 6, 1, 0, 0),
        op(LOAD_32, 2, 6, PROTOCOL, 0),
        op(JUMP_IF_NOT, 2, 0, 30, libc::IPPROTO_TCP),
        op(CALL, 0, 0, 0, GET_NETNS_COOKIE),
        op(LOAD_64, 1, 0, 0, cookie as i32),
        op(0, 0, 0, 0, (cookie >> 32) as i32),
        op(JUMP_IF_OTHER, 0, 1, 26, 0),
        op(LOAD_32, 1, 6, IP, 0),
        op(STORE_32, FRAME, 1, KEY, 0),
        op(LOAD_32, 1, 6, PORT, 0),
        op(STORE_32, FRAME, 1, KEY + 4, 0),
        op(LOAD_64, 1, OF_MAP, 0, map.as_raw_fd()),
        op(0, 0, 0, 0, 0),
        op(MOVE, 2, FRAME, 0, 0),
        op(ADD, 2, 0, 0, KEY.into()),
        op(CALL, 0, 0, 0, MAP_LOOKUP),
        op(JUMP_IF, 0, 0, 16, 0),
        op(LOAD_32, 1, 0, 0, 0),
        op(STORE_32, 6, 1, IP, 0),
        op(STORE_32, FRAME, 1, KEY, 0),
        op(LOAD_32, 1, 0, 4, 0),
        op(STORE_32, 6, 1, PORT, 0),
        op(STORE_32, FRAME, 1, KEY + 4, 0),
        op(CALL, 0, 0, 0, KTIME_GET_NS),
        op(STORE_64, FRAME, 0, NOW, 0),
        op(LOAD_64, 1, OF_MAP, 0, last_calls.as_raw_fd()),
        op(0, 0, 0, 0, 0),
        op(MOVE, 2, FRAME, 0, 0),
        op(ADD, 2, 0, 0, KEY.into()),
        op(MOVE, 3, FRAME, 0, 0),
        op(ADD, 3, 0, 0, NOW.into()),
        op(SET, 4, 0, 0, 0),
        op(CALL, 0, 0, 0, MAP_UPDATE),
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
    element(MAP_UPDATE_ELEM, map, &raw const key as u64, &raw const value as u64)
}

fn delete(map: &OwnedFd, door: SocketAddrV4) -> io::Result<()> {
    let key = Address::from(door);
    element(MAP_DELETE_ELEM, map, &raw const key as u64, 0)
}

/// `key` and `value` are addresses of what is as long as the map's are, or 0 where the command takes none.
fn element(command: libc::c_int, map: &OwnedFd, key: u64, value: u64) -> io::Result<()> {
    let element = MapElement {
        map: map.as_raw_fd(),
        key,
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
#[derive(Clone, Copy, Default)]
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

impl From<Address> for SocketAddrV4 {
    fn from(address: Address) -> Self {
        SocketAddrV4::new(address.ip.into(), u16::from_be(address.port as u16))
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
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const MAP_GET_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const LINK_CREATE: libc::c_int = 28;
const MAP_TYPE_HASH: u32 = 1;
const MAP_TYPE_LRU_HASH: u32 = 9;
const MAP_NO_PREALLOC: u32 = 1;
const PROG_TYPE_CGROUP_SOCK_ADDR: u32 = 18;
const CGROUP_INET4_CONNECT: u32 = 10;
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const KTIME_GET_NS: i32 = 5;
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
const STORE_64: u8 = 0x7b;
const JUMP_IF: u8 = 0x15;
const JUMP_IF_NOT: u8 = 0x55;
const JUMP_IF_OTHER: u8 = 0x5d;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    use super::super::range::Range;
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
        let redirects = [
            redirect("127.0.0.1:80", &["10.112.0.2:8080"]),
            redirect("0.0.0.0:80", &["10.112.0.3:8080"]),
            redirect("0.0.0.0:81", &["10.112.0.4:8080"]),
            redirect("10.112.8.1:80", &["10.112.0.5:8080", "10.112.0.6:8080"]),
            redirect("10.112.8.2:80", &["10.112.8.2:46000"]),
            redirect("10.112.8.3:80", &["10.112.4.2:8080"]),
        ];
        let led = of_redirects(&redirects, |ip| range.is_of_pods(ip));
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

    #[test]
    fn a_call_is_led_as_it_is_made_and_its_time_is_known_until_no_more_are_led() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let SocketAddr::V4(to) = server.local_addr().unwrap() else {
            panic!("it listens by IPv4");
        };
        let door: SocketAddrV4 = "127.0.0.77:1".parse().unwrap();
        let programs = |to| connections::Led {
            programs: BTreeSet::from([to]),
            ..connections::Led::default()
        };
        let mut calls = Calls::default();
        calls.lead(Led::from([(door, to)]));
        assert_eq!(calls.last(&programs(to)), None);
        let called = TcpStream::connect(door).unwrap();
        assert_eq!(called.peer_addr().unwrap(), to.into());
        assert!(calls.last(&programs(to)).unwrap() < Duration::from_secs(60));
        assert_eq!(calls.last(&programs(door)), None);

        calls.keep(&Led::new());
        assert_eq!(
            TcpStream::connect(door).unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        assert!(calls.last(&programs(to)).is_some());
    }
}
