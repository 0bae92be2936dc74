//! Readings of a device, and how an edge is filled with them.

use std::io;

use mqtt::Packet;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::client::{Client, packet_id};
use super::linked::PATIENCE;
use crate::generator::socket::Endpoint;

/// Size of a reading.
pub(super) const PAYLOAD_BYTES: u32 = 100;
/// Messages that are sent to the edge before their acknowledgements are waited for.
pub(super) const AT_ONCE: u64 = 500;

/// That of a reading.
pub(super) type Payload = [u8; PAYLOAD_BYTES as usize];

/// As gateways send them: names and marks that repeat, between numbers that do not. The same ones each time.
pub(super) fn typical() -> impl FnMut(&mut Payload) {
    let mut chance = ChaCha8Rng::seed_from_u64(0);
    move |payload| {
        payload.copy_from_slice(
            b"{\"time\":1764000000.000,\"temperature\":00.00,\"humidity\":00.00,\"pressure\":0000.00,\"co2\":000,\"ok\":true} ",
        );
        let zeros = payload.iter_mut().filter(|byte| **byte == b'0');
        zeros.for_each(|zero| *zero = chance.random_range(b'0'..=b'9'));
    }
}

/// Publishes so many readings, and waits until the edge has acknowledged all.
pub(super) fn fill(edge: &Endpoint, topic: &str, readings: u64, mut next: impl FnMut(&mut Payload)) -> io::Result<()> {
    let mut publisher = Client::connect(edge, "readings", true)?;
    let mut payload = [0; PAYLOAD_BYTES as usize];
    let (mut sent, mut acknowledged) = (0, 0);
    while acknowledged < readings {
        while sent < readings && sent - acknowledged < AT_ONCE {
            next(&mut payload);
            publisher.publish(packet_id(sent), topic, &payload);
            sent += 1;
        }
        publisher.flush()?;
        let came = publisher.receive(PATIENCE, |packet, _| {
            acknowledged += u64::from(matches!(packet, Packet::PubAck(_)));
        })?;
        if !came {
            return Err(io::Error::other("the edge acknowledges nothing"));
        }
    }
    Ok(())
}
