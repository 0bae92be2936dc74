//! Measures a network before anything is measured on it: what was set against what is got, with probes of our own.

mod bulk;
mod echo;
mod flood;

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::trying;
use super::{Host, Network, NetworkError, Place, Settings};

/// Bytes of the headers of IPv4 and UDP.
const HEADER_BYTES: usize = 28;
/// How often a thread that waits for packets looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// What was seen between two hosts, and nothing that was concluded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Bytes of a probe, IP header among them. Sending it takes its time at each end.
    pub probe_bytes: usize,
    /// Round trip of each probe in nanoseconds; none = lost.
    pub round_trips_ns: Vec<Option<u64>>,
    /// Towards the cloud.
    pub up: Way,
    /// Towards the device.
    pub down: Way,
}

/// What was seen of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Way {
    /// Probes that were sent this way.
    pub probes_sent: u64,
    /// Those of them that arrived.
    pub probes_arrived: u64,
    /// Bits that arrived in a second of a load beyond the bandwidth: of IP packets of UDP, or where the line is
    /// unshaped of the payload of one TCP connection.
    pub throughput_bit_per_s: f64,
}

/// Measures both directions between two hosts, `near` being the one on the device's side. It takes some 10 s; at
/// 8 kbit/s, a minute.
///
/// # Errors
/// Sockets are refused, or nothing comes through at all.
pub fn measure(network: &Network, (near, far): (Place, Place), settings: &Settings) -> Result<Measured, NetworkError> {
    let mut measured = round_trips(network, (near, far), settings)?;
    let (near, far) = (network.host(near), network.host(far));
    let throughput = |from: &Host, to: &Host| match settings.bandwidth_bit_per_s.bit_per_s {
        Some(_) => flood::throughput_bit_per_s(from, to, settings),
        None => bulk::throughput_bit_per_s(from, to, settings),
    };
    measured.up.throughput_bit_per_s = throughput(near, far)?;
    measured.down.throughput_bit_per_s = throughput(far, near)?;
    Ok(measured)
}

/// The round trips and losses of [`measure`] alone: some 2 s; at 8 kbit/s, 30 s.
///
/// # Errors
/// As [`measure`].
pub(crate) fn round_trips(
    network: &Network,
    (near, far): (Place, Place),
    settings: &Settings,
) -> Result<Measured, NetworkError> {
    echo::measure(network.host(near), network.host(far), settings)
}

/// A socket of the host at a port of the kernel's choice.
fn udp_socket(host: &Host) -> Result<UdpSocket, NetworkError> {
    let bound = host.enter(|| UdpSocket::bind((host.address(), 0)))?;
    bound.map_err(trying("opening a UDP socket on a host"))
}

/// Sends from one socket to the other alone; where that is.
fn connect(from: &UdpSocket, to: &UdpSocket) -> Result<SocketAddr, NetworkError> {
    let address = to.local_addr().map_err(trying("asking for a socket's address"))?;
    from.connect(address).map_err(trying("connecting a socket"))?;
    Ok(address)
}
