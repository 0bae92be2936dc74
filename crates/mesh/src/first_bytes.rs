//! The beginning of a connection to a backend, until it is known that the backend's kernel has it.
//!
//! Where more call at once than a program has room for (`listen(2)`: `backlog`), its kernel lets a connection be made
//! and then forgets it: who called hears of it seconds later, by a reset. Nothing of it has come to the program; it can
//! be made anew.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::door::Beginning;

/// Of who calls, until it is known; what is more waits with him.
const BYTES_MAX: usize = 16 << 10;
/// Between two looks at what the backend's kernel has acknowledged; longer each time.
const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(50);

/// Who has said nothing for so long may be one who never does.
const SILENCE: Duration = Duration::from_millis(100);

/// What becomes of a connection that was made.
pub(crate) enum Begun {
    /// The backend's kernel has it, and all that was said.
    Taken,
    /// It has not, and it never will.
    Forgotten,
}

/// What who calls has said until it is known who has it.
#[derive(Default)]
pub(crate) struct FirstBytes {
    bytes: Vec<u8>,
    is_all: bool,
}

impl FirstBytes {
    /// Sends `backend` what `caller` has said and says, until it is known whether its kernel has it.
    /// A `beginning` is over then, or where nothing is said.
    pub(crate) async fn pass(
        &mut self,
        caller: &mut (impl AsyncRead + Unpin),
        backend: &TcpStream,
        beginning: Beginning,
    ) -> io::Result<Begun> {
        let (mut sent, mut pause, mut beginning) = (0, FIRST_LOOK, Some(beginning));
        loop {
            let mut first = [0];
            tokio::select! {
                biased;
                answer = backend.peek(&mut first) => return match answer {
                    Ok(_) => Ok(self.rest(backend, sent).await?),
                    Err(error) if is_forgotten(backend, sent, &error)? => Ok(Begun::Forgotten),
                    Err(error) => Err(error),
                },
                writable = backend.writable(), if sent < self.bytes.len() => {
                    writable?;
                    match backend.try_write(&self.bytes[sent..]) {
                        Ok(more) => sent += more,
                        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                        Err(error) if is_forgotten(backend, sent, &error)? => return Ok(Begun::Forgotten),
                        Err(error) => return Err(error),
                    }
                }
                more = caller.read_buf(&mut self.bytes), if !self.is_all && self.bytes.len() < BYTES_MAX => {
                    self.is_all = more? == 0;
                    if self.is_all && self.bytes.is_empty() {
                        return Ok(Begun::Taken);
                    }
                }
                () = sleep(SILENCE), if sent == 0 && beginning.is_some() => beginning = None,
                () = sleep(pause), if sent > 0 => {
                    pause = LONGEST_LOOK.min(2 * pause);
                    let known = known(backend)?;
                    if known.unacked == 0 && sent == self.bytes.len() {
                        return Ok(Begun::Taken);
                    }
                    if known.unacked > 0 && known.sent_again > 0 {
                        return Ok(Begun::Forgotten);
                    }
                }
            }
        }
    }

    /// All that who calls has said so far.
    pub(crate) fn said(self) -> Vec<u8> {
        self.bytes
    }

    /// It is heard: what is left is sent as to anybody.
    async fn rest(&self, backend: &TcpStream, mut sent: usize) -> io::Result<Begun> {
        while sent < self.bytes.len() {
            backend.writable().await?;
            match backend.try_write(&self.bytes[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Begun::Taken)
    }
}

/// Of one that is over, and of which so many bytes were sent. Who takes a connection and ends it has not forgotten it.
fn is_forgotten(backend: &TcpStream, sent: usize, error: &io::Error) -> io::Result<bool> {
    let is_unheard = error.kind() == io::ErrorKind::ConnectionReset && is_unheard(backend);
    Ok(sent == 0 || is_unheard || known(backend)?.sent_again > 0)
}

/// A second hold of the socket of a connection, which says what has become of it when it is over, too.
pub(crate) struct Witness(OwnedFd);

/// Where the kernel says how many bytes were acknowledged, of `tcp_info` (Linux 4.1).
const BYTES_ACKED_AT: usize = 120;

impl Witness {
    pub(crate) fn of(backend: &TcpStream) -> io::Result<Self> {
        backend.as_fd().try_clone_to_owned().map(Witness)
    }

    /// Whether nothing has come to the other end, not even to its kernel.
    pub(crate) fn is_unheard(&self) -> bool {
        is_unheard(&self.0)
    }
}

fn is_unheard(backend: &impl AsRawFd) -> bool {
    let mut info = [0_u8; BYTES_ACKED_AT + 8];
    let mut length = info.len() as libc::socklen_t;
    // SAFETY: both pointers are to what is there for as long as the call takes, of the length that is said.
    let done = unsafe {
        libc::getsockopt(
            backend.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let acked = info.last_chunk().copied().map(u64::from_ne_bytes);
    // The first is that of the SYN.
    done == 0 && length as usize == info.len() && acked.is_some_and(|acked| acked <= 1)
}

/// What is known of who was sent to. A kernel that has the connection says at once that it has the bytes: of one that
/// has not, they are sent again.
struct Known {
    /// Segments that are not acknowledged.
    unacked: u32,
    /// How often one was sent again.
    sent_again: u32,
}

/// `tcp(7)`: `TCP_INFO`.
fn known(backend: &TcpStream) -> io::Result<Known> {
    // SAFETY: all of it is numbers, of which 0 is one.
    let mut info: libc::tcp_info = unsafe { std::mem::zeroed() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: both pointers are to what is there for as long as the call takes, of the length that is said.
    let done = unsafe {
        libc::getsockopt(
            backend.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut info).cast(),
            &raw mut length,
        )
    };
    match done {
        0 => Ok(Known {
            unacked: info.tcpi_unacked,
            sent_again: info.tcpi_total_retrans,
        }),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_connection_of_which_nothing_has_come_is_known_from_one_of_which_something_has_also_when_it_is_over() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut backend = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let witness = Witness::of(&backend).unwrap();
        assert!(witness.is_unheard());
        backend.write_all(b"G").await.unwrap();
        let (taken, _) = listener.accept().await.unwrap();
        // What is not read is answered by a reset.
        drop(taken);
        let _ = backend.readable().await;
        drop(backend);
        assert!(!witness.is_unheard());
    }
}
