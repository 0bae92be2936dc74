//! Throughput of a shaped line: more UDP than it carries, counted where it arrives.

use std::io;
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{HEADER_BYTES, LOOK, connect, udp_socket};
use crate::generator::clock::Clock;
use crate::generator::poller::Poller;
use crate::network::error::trying;
use crate::network::plan::MTU_BYTES;
use crate::network::{Bandwidth, Host, NetworkError, Settings};

/// Offered load in percent of the bandwidth.
const LOAD_PERCENT: u64 = 125;
/// A packet is about so much of the line's time, within what a packet may be.
const PACKET_MS: u64 = 10;
const LEAST_PACKET_BYTES: usize = 100;
const LEAST_TIME_NS: u64 = 2_000_000_000;
/// Packets that the line has to carry: each is a few percent of the figure at least.
const LEAST_PACKETS: u64 = 60;

pub(super) fn throughput_bit_per_s(from: &Host, to: &Host, settings: &Settings) -> Result<f64, NetworkError> {
    let (sender, receiver) = (udp_socket(from)?, udp_socket(to)?);
    let address = connect(&sender, &receiver)?;
    let bandwidth = settings.bandwidth_bit_per_s;
    let gap = LOOK.max(Duration::from_nanos(3 * bandwidth.sending_ns(packet_bytes(bandwidth))));
    let is_over = AtomicBool::new(false);
    let (sent, bit_per_s) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(&receiver, gap, &is_over));
        let sent = send(&sender, bandwidth);
        is_over.store(true, Ordering::Release);
        (
            sent,
            receiving
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    sent.map_err(trying("sending packets"))?;
    bit_per_s.ok_or_else(|| NetworkError::Silence(format!("fewer than two packets arrived at {address}")))
}

/// Sends at the load's rate for its time; what does not fit is the queue's to drop.
fn send(socket: &UdpSocket, bandwidth: Bandwidth) -> io::Result<()> {
    let packet = vec![0; packet_bytes(bandwidth) - HEADER_BYTES];
    let sending_ns = bandwidth.sending_ns(packet.len() + HEADER_BYTES);
    let interval_ns = sending_ns * 100 / LOAD_PERCENT;
    let (mut poller, clock) = (Poller::new(false)?, Clock::start());
    let mut due_ns = 0;
    while due_ns < LEAST_TIME_NS.max(LEAST_PACKETS * sending_ns) {
        poller.wait(&clock, Some(due_ns), None)?;
        if clock.now_ns() >= due_ns {
            socket.send(&packet)?;
            due_ns += interval_ns;
        }
    }
    Ok(())
}

fn packet_bytes(bandwidth: Bandwidth) -> usize {
    let of_time = bandwidth.bit_per_s.map(|rate| rate * PACKET_MS / 8_000);
    of_time.map_or(MTU_BYTES, |bytes| (bytes as usize).clamp(LEAST_PACKET_BYTES, MTU_BYTES))
}

/// From the first packet to the last, whose bits all arrived in between. The queue is emptied, so that no host has to
/// answer for a socket that is gone.
fn receive(socket: &UdpSocket, gap: Duration, is_over: &AtomicBool) -> Option<f64> {
    // Refused for a zero duration alone.
    let _ = socket.set_read_timeout(Some(gap));
    let mut packet = [0; MTU_BYTES];
    let (mut first, mut last, mut bytes) = (None, Duration::ZERO, 0);
    loop {
        let Ok(length) = socket.recv(&mut packet) else {
            if is_over.load(Ordering::Acquire) {
                break;
            }
            continue;
        };
        match first {
            None => first = Some(Instant::now()),
            Some(first) => {
                bytes += length + HEADER_BYTES;
                last = first.elapsed();
            }
        }
    }
    (bytes > 0).then(|| bytes as f64 * 8.0 / last.as_secs_f64())
}
