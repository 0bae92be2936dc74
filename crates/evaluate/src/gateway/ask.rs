//! Requests of HTTP/1.0 as a client makes them that knows nothing of who answers.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use crate::interrupt::pause;

/// What is asked for: a line.
pub(super) const SMALL: &str = "/index.html";
/// And a file that takes its time.
pub(super) const LARGE: &str = "/large";
/// Bytes of that.
pub(super) const LARGE_BYTES: usize = 8 << 20;
/// How long an answer may take: an edge that cannot start what was asked for says so within this.
pub(super) const PATIENCE: Duration = Duration::from_secs(70);
/// Between two attempts to reach who has not begun to listen.
const STEP: Duration = Duration::from_micros(200);

/// Asks once and reads the answer to its end; its bytes, head and all.
///
/// # Errors
/// No connection, no answer in time, or one that is not 200.
pub(super) fn ask(address: SocketAddr, path: &str) -> io::Result<usize> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    send(&stream, path)?;
    read(&stream)
}

/// Sends a request.
pub(super) fn send(mut stream: &TcpStream, path: &str) -> io::Result<()> {
    // In one piece, as clients do.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: gateway\r\n\r\n").as_bytes())
}

/// Reads an answer to its end.
pub(super) fn read(mut stream: &TcpStream) -> io::Result<usize> {
    let mut buffer = [0; 64 << 10];
    let mut head = Vec::new();
    let mut all = 0;
    loop {
        let count = stream.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        all += count;
        head.extend_from_slice(&buffer[..count.min(HEAD_BYTES - head.len())]);
    }
    if is_good(&head) {
        return Ok(all);
    }
    let said = String::from_utf8_lossy(&head);
    let why = said.split("\r\n\r\n").nth(1).unwrap_or_default();
    let status = said.lines().next().unwrap_or_default();
    let message = format!("answered: {status} {}", why.trim());
    Err(io::Error::new(
        io::ErrorKind::InvalidData,
        message.trim_end().to_owned(),
    ))
}

/// Of an answer that is kept, to say what it was.
const HEAD_BYTES: usize = 1 << 10;
/// As far as the number of a status line.
const STATUS_BYTES: usize = 12;

fn is_good(head: &[u8]) -> bool {
    head.starts_with(b"HTTP/1.") && head.get(8..STATUS_BYTES) == Some(b" 200")
}

/// Asks until there is an answer, for as long as nobody listens; how long after `began` it was there, in ms.
///
/// # Errors
/// There is none in time.
pub(super) fn answered(address: SocketAddr, began: Instant) -> io::Result<f64> {
    loop {
        match ask(address, SMALL) {
            Ok(_) => return Ok(began.elapsed().as_secs_f64() * 1e3),
            Err(error) if began.elapsed() > PATIENCE => {
                return Err(error);
            }
            Err(_) => pause(STEP).map_err(|told| io::Error::new(io::ErrorKind::Interrupted, told.to_string()))?,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn answering(words: &'static str) -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(stream.read(&mut [0; 1024]).unwrap() > 0);
            stream.write_all(words.as_bytes()).unwrap();
        });
        address
    }

    #[test]
    fn only_a_whole_answer_with_200_counts() {
        let good = "HTTP/1.0 200 OK\r\n\r\nhere";
        assert_eq!(ask(answering(good), SMALL).unwrap(), good.len());
        assert!(ask(answering("HTTP/1.0 503 Service Unavailable\r\n\r\n"), SMALL).is_err());
        assert!(ask(answering(""), SMALL).is_err());
    }
}
