//! Throughput of an unshaped line: one TCP connection with as much as it takes.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::network::error::trying;
use crate::network::{Host, NetworkError};

const TIME: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(20);
const CHUNK_BYTES: usize = 64 * 1024;

pub(super) fn throughput_bit_per_s(from: &Host, to: &Host) -> Result<f64, NetworkError> {
    let listener = to.enter(|| TcpListener::bind((to.address(), 0)))?;
    let listener = listener.map_err(trying("listening on a host"))?;
    let address = listener.local_addr().map_err(trying("asking for a socket's address"))?;
    let sender = from.enter(|| TcpStream::connect_timeout(&address, LIMIT))?;
    let sender = sender.map_err(trying("connecting two hosts"))?;
    let (receiver, _) = listener.accept().map_err(trying("accepting a connection"))?;
    let (sent, bit_per_s) = std::thread::scope(|scope| {
        let receiving = scope.spawn(|| receive(receiver));
        let sent = send(sender);
        (
            sent,
            receiving
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    sent.and(bit_per_s).map_err(trying("sending in bulk"))
}

fn send(mut stream: TcpStream) -> io::Result<()> {
    stream.set_write_timeout(Some(LIMIT))?;
    let (started, chunk) = (Instant::now(), vec![0; CHUNK_BYTES]);
    while started.elapsed() < TIME {
        stream.write_all(&chunk)?;
    }
    Ok(())
}

/// From the first bytes to the end.
fn receive(mut stream: TcpStream) -> io::Result<f64> {
    stream.set_read_timeout(Some(LIMIT))?;
    let mut chunk = vec![0; CHUNK_BYTES];
    stream.read_exact(&mut chunk[..1])?;
    let (started, mut bytes) = (Instant::now(), 0);
    loop {
        match stream.read(&mut chunk)? {
            0 => return Ok(bytes as f64 * 8.0 / started.elapsed().as_secs_f64()),
            length => bytes += length,
        }
    }
}
