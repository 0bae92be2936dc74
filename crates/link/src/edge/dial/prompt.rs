//! A stream whose writer need not flush.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use hub::Place;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::ReadWrite;
use super::tcp::UNSENT_BYTES_MAX;

/// Sends on what TLS and WebSocket keep back while the socket is full, as soon as it takes more: nothing lies in
/// between until somebody flushes. No more than one piece of [`UNSENT_BYTES_MAX`] is kept there.
///
/// It is sent on by whoever reads, so a reader must wait at all times, as that of a session does.
pub(super) struct Prompt<S> {
    inner: S,
    keeps: bool,
}

impl<S> Prompt<S> {
    pub(super) fn new(inner: S) -> Self {
        Self { inner, keeps: false }
    }
}

impl<S: AsyncWrite + Unpin> Prompt<S> {
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.keeps {
            ready!(Pin::new(&mut self.inner).poll_flush(cx))?;
            self.keeps = false;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Prompt<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if let Poll::Ready(Err(error)) = self.poll_send(cx) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut self.inner).poll_read(cx, out)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prompt<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_send(cx))?;
        let piece = &bytes[..bytes.len().min(UNSENT_BYTES_MAX)];
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, piece))?;
        self.keeps = true;
        match self.poll_send(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            _ => Poll::Ready(Ok(written)),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_send(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_send(cx))?;
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

impl<S: ReadWrite> ReadWrite for Prompt<S> {
    fn move_to(&mut self, place: &Place) -> io::Result<()> {
        self.inner.move_to(place)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, BufWriter, duplex, split};

    use super::*;

    #[tokio::test]
    async fn what_a_layer_below_keeps_back_leaves_without_a_flush() {
        // The far end takes 8 bytes at a time; the buffer in between keeps all it is given.
        let (near, mut far) = duplex(8);
        let (mut reader, mut writer) = split(Prompt::new(BufWriter::with_capacity(1 << 20, near)));
        let waits = tokio::spawn(async move { reader.read_u8().await });
        writer.write_all(&[7; 10_000]).await.unwrap();
        let mut got = vec![0; 10_000];
        far.read_exact(&mut got).await.unwrap();
        assert_eq!(got, [7; 10_000]);
        far.write_u8(1).await.unwrap();
        assert_eq!(waits.await.unwrap().unwrap(), 1);
    }

    #[tokio::test]
    async fn no_more_than_a_piece_is_kept_back() {
        let (near, _far) = duplex(8);
        let mut stream = Prompt::new(BufWriter::with_capacity(1 << 20, near));
        let bytes = vec![7; 10 * UNSENT_BYTES_MAX];
        assert_eq!(stream.write(&bytes).await.unwrap(), UNSENT_BYTES_MAX);
        let more = tokio::time::timeout(std::time::Duration::from_millis(50), stream.write(&bytes));
        assert!(more.await.is_err(), "it took more before the first piece had left");
    }
}
