//! Readings of a device, and how an edge is filled with them.

use std::io;

use mqtt::Packet;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::client::{Client, packet_id};
use super::linked::PATIENCE;
use super::options::Values;
use crate::generator::socket::Endpoint;

/// Size of a reading.
pub(super) const PAYLOAD_BYTES: u32 = 100;
/// Messages that are sent to the edge before their acknowledgements are waited for.
pub(super) const AT_ONCE: u64 = 500;

/// That of a reading.
pub(super) type Payload = [u8; PAYLOAD_BYTES as usize];

/// With `ts`, when it was measured, and `q`, its quality.
const ONE_VALUE: &Payload =
    b"{\"ts\":1764NNNNNNNNN,\"temperature\":2N.NN,\"q\":\"sensor NNNNNN, calibrated 2026-0N-1N, battery 3.NN V\"} ";
const FIVE_VALUES: &Payload =
    b"{\"ts\":1764NNNNNNNNN,\"temperature\":2N.NN,\"humidity\":4N.NN,\"pressure\":10NN.NN,\"co2\":5NN,\"ok\":true}    ";

/// As gateways send them: names and marks that repeat, between digits (`N`) that do not. The same ones each time.
pub(super) fn typical(values: Values) -> impl FnMut(&mut Payload) {
    let mut chance = ChaCha8Rng::seed_from_u64(0);
    move |payload| {
        *payload = match values {
            Values::One => *ONE_VALUE,
            Values::Five => *FIVE_VALUES,
        };
        let digits = payload.iter_mut().filter(|byte| **byte == b'N');
        digits.for_each(|digit| *digit = chance.random_range(b'0'..=b'9'));
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
