//! Connections of a small server: what came from each, what waits for it, and the loop around them.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, EventData, EventFlags};

const LISTENER: u64 = u64::MAX;
const EVENTS: usize = 256;
const READ_BYTES: usize = 256 << 10;
/// A peer that leaves this much unread is cut off.
const OUTBOX_LIMIT_BYTES: usize = 64 << 20;

struct Peer {
    stream: TcpStream,
    inbox: Vec<u8>,
    outbox: Vec<u8>,
    written: usize,
    watching_writable: bool,
}

/// All connections, by key. Keys of closed connections are not used again: a run makes a bounded number of them.
pub(super) struct Peers {
    epoll: OwnedFd,
    listener: TcpListener,
    peers: Vec<Option<Peer>>,
    /// Peers with something to write since the turn began.
    touched: Vec<usize>,
}

impl Peers {
    pub(super) fn new(listener: TcpListener) -> io::Result<Peers> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        Ok(Peers {
            epoll,
            listener,
            peers: Vec::new(),
            touched: Vec::new(),
        })
    }

    /// Serves for ever; `handle` is told the key of a peer that sent something.
    pub(super) fn serve(mut self, mut handle: impl FnMut(&mut Peers, usize) -> Result<(), String>) -> io::Result<()> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS);
        let mut scratch = vec![0; READ_BYTES];
        loop {
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept()?,
                    key => self.turn(key as usize, event.flags, &mut scratch, &mut handle),
                }
            }
            while let Some(key) = self.touched.pop() {
                self.write(key);
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => continue,
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            epoll::add(
                &self.epoll,
                &stream,
                EventData::new_u64(self.peers.len() as u64),
                EventFlags::IN,
            )?;
            let peer = Peer {
                stream,
                inbox: Vec::new(),
                outbox: Vec::new(),
                written: 0,
                watching_writable: false,
            };
            self.peers.push(Some(peer));
        }
    }

    fn turn(
        &mut self,
        key: usize,
        flags: EventFlags,
        scratch: &mut [u8],
        handle: &mut impl FnMut(&mut Peers, usize) -> Result<(), String>,
    ) {
        if flags.contains(EventFlags::OUT) {
            self.touched.push(key);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            let read = self.read(key, scratch).map_err(|error| error.to_string());
            if read.and_then(|()| handle(self, key)).is_err() {
                self.peers[key] = None;
            }
        }
    }

    fn read(&mut self, key: usize, scratch: &mut [u8]) -> io::Result<()> {
        let Some(peer) = &mut self.peers[key] else {
            return Ok(());
        };
        match peer.stream.read(scratch) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => peer.inbox.extend_from_slice(&scratch[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn write(&mut self, key: usize) {
        let Some(peer) = &mut self.peers[key] else { return };
        if peer.written < peer.outbox.len() {
            match peer.stream.write(&peer.outbox[peer.written..]) {
                Ok(count) => peer.written += count,
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(_) => return self.peers[key] = None,
            }
        }
        let waits = peer.written < peer.outbox.len();
        if !waits {
            peer.outbox.clear();
            peer.written = 0;
        }
        if waits != peer.watching_writable {
            peer.watching_writable = waits;
            let flags = if waits {
                EventFlags::IN | EventFlags::OUT
            } else {
                EventFlags::IN
            };
            if epoll::modify(&self.epoll, &peer.stream, EventData::new_u64(key as u64), flags).is_err() {
                self.peers[key] = None;
            }
        }
    }

    /// Takes all that came from a peer and was not taken yet.
    pub(super) fn take_inbox(&mut self, key: usize) -> Vec<u8> {
        self.peers[key]
            .as_mut()
            .map(|peer| std::mem::take(&mut peer.inbox))
            .unwrap_or_default()
    }

    /// Puts back what is not whole yet.
    pub(super) fn keep(&mut self, key: usize, rest: &[u8]) {
        if let Some(peer) = &mut self.peers[key] {
            peer.inbox.extend_from_slice(rest);
        }
    }

    /// Queues bytes for a peer; all of a turn are written at its end, at once.
    pub(super) fn send(&mut self, key: usize, bytes: &[u8]) {
        self.send_with(key, |out| out.extend_from_slice(bytes));
    }

    /// As [`Peers::send`], written in place.
    pub(super) fn send_with(&mut self, key: usize, encode: impl FnOnce(&mut Vec<u8>)) {
        let Some(peer) = &mut self.peers[key] else { return };
        if peer.outbox.len() > OUTBOX_LIMIT_BYTES {
            self.peers[key] = None;
            return;
        }
        encode(&mut peer.outbox);
        if self.touched.last() != Some(&key) {
            self.touched.push(key);
        }
    }
}
