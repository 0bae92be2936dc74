//! Throughput of an unshaped line: one TCP connection with as much as it takes.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::network::error::trying;
use crate::network::{Host, NetworkError, Settings};

/// Counted after TCP found its speed, for which it takes so many round trips at most.
const TIME: Duration = Duration::from_secs(2);
const ROUND_TRIPS_BEFORE: u32 = 20;
const LIMIT: Duration = Duration::from_secs(20);
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) fn throughput_bit_per_s(from: &Host, to: &Host, settings: &Settings) -> Result<f64, NetworkError> {
    let before = ROUND_TRIPS_BEFORE * Duration::from_micros(settings.round_trip_us);
    let listener = to.enter(|| TcpListener::bind((to.address(), 0)))?;
    let listener = listener.map_err(trying("listening on a host"))?;
    let address = listener.local_addr().map_err(trying("asking for a socket's address"))?;
    let sender = from.enter(|| TcpStream::connect_timeout(&address, LIMIT))?;
    let sender = sender.map_err(trying("connecting two hosts"))?;
    let (receiver, _) = listener.accept().map_err(trying("accepting a connection"))?;
    let (sent, bit_per_s) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(receiver, before));
        let sent = send(sender, before + TIME);
        (
            sent,
            receiving
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    sent.and(bit_per_s).map_err(trying("sending in bulk"))
}

fn send(mut stream: TcpStream, time: Duration) -> io::Result<()> {
    stream.set_write_timeout(Some(LIMIT))?;
    let (started, chunk) = (Instant::now(), vec![0; CHUNK_BYTES]);
    while started.elapsed() < time {
        stream.write_all(&chunk)?;
    }
    Ok(())
}

/// From `before` after the first bytes to the end.
fn receive(mut stream: TcpStream, before: Duration) -> io::Result<f64> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    stream.read_exact(&mut chunk[..1])?;
    let (connected, mut counted_from, mut bytes) = (Instant::now(), None, 0);
    loop {
        let length = stream.read(&mut chunk)?;
        match counted_from {
            Some(start) if length == 0 => return Ok(bits_per_s(bytes, start)),
            None if length == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            Some(_) => bytes += length,
            None if connected.elapsed() >= before => counted_from = Some(Instant::now()),
            None => {}
        }
    }
}

fn bits_per_s(bytes: usize, since: Instant) -> f64 {
    bytes as f64 * 8.0 / since.elapsed().as_secs_f64()
}
