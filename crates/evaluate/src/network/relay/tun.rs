//! A TUN device: what a namespace sends into it is read here, and what is written here arrives there, one IP packet
//! each.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

const DEVICE: &str = "/dev/net/tun";
/// `TUNSETIFF` of `linux/if_tun.h`, whose macro says `int` and means [`InterfaceRequest`].
const SET_INTERFACE: Opcode = opcode::write::<i32>(b'T', 202);
const NAME_BYTES: usize = 16;
/// IP packets without Ethernet's header (`IFF_TUN`), and nothing before them (`IFF_NO_PI`).
const FLAGS: u16 = 0x0001 | 0x1000;

/// `struct ifreq`, as far as this call reads it.
#[repr(C)]
#[derive(Debug)]
struct InterfaceRequest {
    name: [u8; NAME_BYTES],
    flags: u16,
    unused: [u8; 22],
}

/// Makes the device `name` in the calling thread's namespace; it ends with its descriptor, which does not block.
///
/// # Errors
/// There is no `/dev/net/tun`, or making interfaces is not allowed here.
pub(in crate::network) fn create(name: &str) -> io::Result<OwnedFd> {
    assert!(name.len() < NAME_BYTES, "an interface's name has at most 15 bytes");
    let device = File::options()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(DEVICE)
        .map_err(|error| io::Error::new(error.kind(), format!("{DEVICE}: {error}")))?;
    let mut request = InterfaceRequest {
        name: [0; NAME_BYTES],
        flags: FLAGS,
        unused: [0; 22],
    };
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF takes a `struct ifreq`, of which the request has the size and, this far, the layout.
    unsafe { ioctl(&device, Setter::<SET_INTERFACE, _>::new(request)) }?;
    Ok(device.into())
}
