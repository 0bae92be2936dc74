//! The socket of a task, for what speaks to streams of tokio.

use std::io::{self, IoSlice};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::tasks::{Place, Readiness};

/// A connected socket that the loop of a shard watches. It wakes the task at whose [`Place`] it is, and nobody else.
pub struct Socket {
    fd: OwnedFd,
    readiness: Arc<Readiness>,
}

impl Socket {
    /// Takes over a connected socket.
    ///
    /// # Errors
    /// The loop cannot watch it.
    pub fn new(fd: OwnedFd, place: &Place) -> io::Result<Self> {
        let readiness = place.watch(&fd)?;
        Ok(Self { fd, readiness })
    }

    fn poll_send(&self, send: impl FnMut() -> rustix::io::Result<usize>) -> Poll<io::Result<usize>> {
        if !self.readiness.may_write() {
            return Poll::Pending;
        }
        match retry_on_intr(send) {
            Err(Errno::AGAIN) => {
                self.readiness.is_full();
                Poll::Pending
            }
            sent => Poll::Ready(sent.map_err(Into::into)),
        }
    }
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.readiness.may_read() {
            return Poll::Pending;
        }
        let room = out.remaining();
        let received = retry_on_intr(|| {
            let (len, _) = rustix::net::recv(&self.fd, out.initialize_unfilled(), RecvFlags::empty())?;
            Ok(len)
        });
        match received {
            Ok(len) => {
                if len < room {
                    self.readiness.has_read_all();
                }
                out.advance(len);
                Poll::Ready(Ok(()))
            }
            Err(Errno::AGAIN) => {
                self.readiness.has_read_all();
                Poll::Pending
            }
            Err(error) => Poll::Ready(Err(error.into())),
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_send(|| rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_send(|| rustix::io::writev(&self.fd, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(rustix::net::shutdown(&self.fd, rustix::net::Shutdown::Write)?))
    }
}
