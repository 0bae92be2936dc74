//! The byte stream of one connection: a TCP or Unix socket, below TLS and WebSocket framing where the door made them.
//! One system call a read, one a write; nothing here blocks.

use std::io::{self, BufRead as _, IoSlice, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

use super::websocket::{self, Answer, WebSocket};

/// How a read of a ready socket ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrived {
    /// Bytes were appended, perhaps none (a false alarm, or TLS and WebSocket talking among themselves).
    Bytes,
    /// As [`Arrived::Bytes`], and the socket may have more.
    BytesOfMore,
    /// The peer is gone, or broke the framing below MQTT.
    End,
}

/// A connection's socket with what lies between it and MQTT.
pub(crate) struct Link {
    socket: OwnedFd,
    tls: Option<Box<rustls::ServerConnection>>,
    websocket: Option<Box<WebSocket>>,
    /// Bytes ready for the socket (or, under TLS, for encryption) that it has not taken.
    unsent: Vec<u8>,
    closing: bool,
}

impl Link {
    /// Takes over a connected socket, set to non-blocking here, after the door's handshakes.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub(crate) fn new(
        socket: OwnedFd,
        tls: Option<Box<rustls::ServerConnection>>,
        websocket: Option<Box<WebSocket>>,
    ) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self {
            socket,
            tls,
            websocket,
            unsent: Vec::new(),
            closing: false,
        })
    }

    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Reads once from the socket and appends the MQTT bytes in what came to `buffer`, at most `room` of them at once.
    pub(crate) fn read(&mut self, buffer: &mut Vec<u8>, room: usize) -> Arrived {
        let from = buffer.len();
        buffer.reserve(room);
        let arrived = match &mut self.tls {
            None => receive(self.socket.as_fd(), buffer),
            Some(tls) => receive_tls(self.socket.as_fd(), tls, buffer),
        };
        self.unframe(buffer, from, arrived)
    }

    /// Appends what the door left behind: MQTT bytes it read beyond the CONNECT, and plain text inside the TLS state.
    pub(crate) fn take_early(&mut self, early: &[u8], buffer: &mut Vec<u8>) -> Arrived {
        buffer.extend_from_slice(early);
        let from = buffer.len();
        let arrived = match &mut self.tls {
            Some(tls) => drain_plain_text(tls, buffer),
            None => Arrived::Bytes,
        };
        self.unframe(buffer, from, arrived)
    }

    fn unframe(&mut self, buffer: &mut Vec<u8>, from: usize, arrived: Arrived) -> Arrived {
        let Some(websocket) = &mut self.websocket else {
            return arrived;
        };
        match websocket.unframe(buffer, from) {
            Ok(Answer::None) => arrived,
            Ok(Answer::Send(frames)) => {
                self.unsent.extend(frames);
                arrived
            }
            Ok(Answer::Close(frame)) => {
                self.unsent.extend(frame);
                self.closing = true;
                Arrived::Bytes
            }
            Err(_) => Arrived::End,
        }
    }

    /// Bytes accepted by [`Link::write`] or of the framing that the socket has not taken yet.
    pub(crate) fn unsent_bytes(&self) -> usize {
        self.unsent.len()
    }

    /// Whether something waits for the socket to take it.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.unsent.is_empty() || self.tls.as_ref().is_some_and(|tls| tls.wants_write())
    }

    /// Whether the peer asked, in the framing below MQTT, to end the connection.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing
    }

    /// Sends `first`, then `last`, in one write where nothing else waits; keeps what the socket does not take.
    pub(crate) fn write(&mut self, first: &[u8], last: &[u8]) -> io::Result<()> {
        if self.websocket.is_some() && first.len() + last.len() > 0 {
            websocket::append_binary_header(first.len() + last.len(), &mut self.unsent);
            self.unsent.extend_from_slice(first);
            self.unsent.extend_from_slice(last);
            return self.send(&[], &[]);
        }
        self.send(first, last)
    }

    fn send(&mut self, first: &[u8], last: &[u8]) -> io::Result<()> {
        let sent = match &mut self.tls {
            None => send_plain(self.socket.as_fd(), &self.unsent, first, last)?,
            Some(tls) => send_tls(self.socket.as_fd(), tls, &self.unsent, first, last)?,
        };
        self.keep_rest(sent, first, last);
        Ok(())
    }

    /// Keeps all but the first `sent` bytes of `unsent`, `first` and `last`, in that order.
    fn keep_rest(&mut self, sent: usize, first: &[u8], last: &[u8]) {
        let from_unsent = sent.min(self.unsent.len());
        self.unsent.drain(..from_unsent);
        let from_first = (sent - from_unsent).min(first.len());
        self.unsent.extend_from_slice(&first[from_first..]);
        let from_last = sent - from_unsent - from_first;
        self.unsent.extend_from_slice(&last[from_last..]);
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        }
    }

    /// Tells the peer that no more comes: the TLS close alert, if any, and the end of the stream.
    pub(crate) fn shut_down(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
            // Best effort: the connection ends either way.
            let _ = tls.write_tls(&mut Wire::of(self.socket.as_fd()));
        }
        let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Write);
    }
}

fn receive(socket: BorrowedFd<'_>, buffer: &mut Vec<u8>) -> Arrived {
    match rustix::net::recv(socket, rustix::buffer::spare_capacity(buffer), RecvFlags::empty()) {
        Ok((_, 0)) => Arrived::End,
        Ok(_) if buffer.len() == buffer.capacity() => Arrived::BytesOfMore,
        Ok(_) | Err(Errno::AGAIN) => Arrived::Bytes,
        Err(Errno::INTR) => Arrived::BytesOfMore,
        Err(_) => Arrived::End,
    }
}

fn receive_tls(socket: BorrowedFd<'_>, tls: &mut rustls::ServerConnection, buffer: &mut Vec<u8>) -> Arrived {
    let mut wire = Wire::of(socket);
    match tls.read_tls(&mut wire) {
        Ok(0) => return Arrived::End,
        Ok(_) => {}
        Err(error) if is_not_now(&error) => return Arrived::Bytes,
        Err(_) => return Arrived::End,
    }
    if tls.process_new_packets().is_err() {
        // The alert that says why is sent as far as the socket takes it.
        let _ = tls.write_tls(&mut wire);
        return Arrived::End;
    }
    match drain_plain_text(tls, buffer) {
        Arrived::Bytes if wire.may_have_more => Arrived::BytesOfMore,
        arrived => arrived,
    }
}

fn drain_plain_text(tls: &mut rustls::ServerConnection, buffer: &mut Vec<u8>) -> Arrived {
    // By pieces as they lie there: reading into the room of the buffer would fill that with zeros first.
    let mut plain_text = tls.reader();
    loop {
        let len = match plain_text.fill_buf() {
            Ok([]) => return Arrived::End,
            Ok(piece) => {
                buffer.extend_from_slice(piece);
                piece.len()
            }
            Err(error) if is_not_now(&error) => return Arrived::Bytes,
            Err(_) => return Arrived::End,
        };
        plain_text.consume(len);
    }
}

fn send_plain(socket: BorrowedFd<'_>, unsent: &[u8], first: &[u8], last: &[u8]) -> io::Result<usize> {
    let parts = [IoSlice::new(unsent), IoSlice::new(first), IoSlice::new(last)];
    let mut used = [IoSlice::new(&[]); 3];
    let mut count = 0;
    for part in parts.into_iter().filter(|part| !part.is_empty()) {
        used[count] = part;
        count += 1;
    }
    let sent = match &used[..count] {
        [] => return Ok(0),
        [one] => rustix::net::send(socket, one, SendFlags::NOSIGNAL),
        many => rustix::io::writev(socket, many),
    };
    match sent {
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        other => Ok(other?),
    }
}

/// Encrypts and sends. Nothing more is encrypted while the socket has not taken what was before: memory stays bounded
/// by what the caller keeps.
fn send_tls(
    socket: BorrowedFd<'_>,
    tls: &mut rustls::ServerConnection,
    unsent: &[u8],
    first: &[u8],
    last: &[u8],
) -> io::Result<usize> {
    let mut taken = 0;
    if flush_tls(socket, tls)? {
        let parts = [IoSlice::new(unsent), IoSlice::new(first), IoSlice::new(last)];
        taken = tls.writer().write_vectored(&parts)?;
        flush_tls(socket, tls)?;
    }
    Ok(taken)
}

/// Whether the socket took all that was encrypted.
fn flush_tls(socket: BorrowedFd<'_>, tls: &mut rustls::ServerConnection) -> io::Result<bool> {
    while tls.wants_write() {
        match tls.write_tls(&mut Wire::of(socket)) {
            Ok(_) => {}
            Err(error) if is_not_now(&error) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

fn is_not_now(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}

/// A borrowed socket as rustls wants to see it.
struct Wire<'a> {
    socket: BorrowedFd<'a>,
    /// The last read got as much as it had room for.
    may_have_more: bool,
}

impl<'a> Wire<'a> {
    fn of(socket: BorrowedFd<'a>) -> Self {
        Self {
            socket,
            may_have_more: false,
        }
    }
}

impl io::Read for Wire<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = buffer.len();
        let (_, len) = rustix::net::recv(self.socket, buffer, RecvFlags::empty())?;
        self.may_have_more = len == room;
        Ok(len)
    }
}

impl io::Write for Wire<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self.socket, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::io::writev(self.socket, parts)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
