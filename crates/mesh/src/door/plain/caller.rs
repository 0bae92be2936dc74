//! Who asks by plain requests: what he says, what is said for him, and what is passed on to him.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Sleep, sleep_until};
use tokio_util::either::Either;
use tokio_util::io::poll_read_buf;

use super::head::{self, Answered, Asked};
use crate::door::BUFFER_BYTES;
use crate::door::serving::{Closing, HEAD_PATIENCE, MAX_HEAD_BYTES};

/// For what a caller says, and an answer, there is room for so much at first.
const SAID_BYTES: usize = 4 << 10;
const ANSWER_BYTES: usize = 8 << 10;
/// A read has room for so much at least.
const READ_BYTES: usize = 1 << 10;

/// A connection to an endpoint, or a stream to another node.
pub(crate) type Asking = Either<TcpStream, site::Stream>;

/// Whether it takes a request, as far as is known: nothing has come that nobody has asked for, nor its end.
pub(crate) fn is_open(asking: &mut Asking) -> bool {
    let mut byte = [0];
    let context = &mut Context::from_waker(Waker::noop());
    Pin::new(asking)
        .poll_read(context, &mut ReadBuf::new(&mut byte))
        .is_pending()
}

/// One who asks.
pub(super) struct Caller<S> {
    stream: S,
    /// What he has said that is not answered.
    said: BytesMut,
    /// Of that his last request.
    asked_bytes: usize,
    /// That request as it is sent on, and an answer to it.
    out: Vec<u8>,
    back: Vec<u8>,
    patience: Patience,
}

/// What he says next.
pub(super) enum Heard {
    /// A plain request, which may be for a head alone.
    Plain { is_for_head: bool },
    /// Something else.
    Other,
    /// Nothing.
    Nothing,
}

/// An answer whose head is there, and what came with it.
pub(super) struct Answer {
    pub(super) head: Answered,
    said: BytesMut,
}

/// Why there is no answer.
pub(super) enum Silent {
    /// Who asks has gone.
    Gone,
    /// Whether somebody may have seen the request.
    Failed {
        why: String,
        is_seen: bool,
    },
    Late(String),
}

/// How long an answer is waited for.
#[derive(Clone, Copy)]
pub(super) struct Wait {
    pub(super) patience: Duration,
    /// Between two looks at whether who is asked is there.
    pub(super) look_pause: Duration,
}

/// What becomes of both connections after an answer.
pub(super) struct Passed {
    /// All of it was passed on.
    pub(super) is_whole: bool,
    /// Who answered takes another request.
    pub(super) stays: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Caller<S> {
    pub(super) fn new(stream: S) -> Self {
        Caller {
            stream,
            said: BytesMut::new(),
            asked_bytes: 0,
            out: Vec::new(),
            back: Vec::new(),
            patience: Patience::new(Instant::now() + HEAD_PATIENCE),
        }
    }

    /// Its connection, and what was said by it that is not answered.
    pub(super) fn into_parts(self) -> (S, BytesMut) {
        (self.stream, self.said)
    }

    /// What is said next, unless the door closes first and nothing of it is there.
    pub(super) async fn hear(&mut self, closing: &mut Closing) -> Heard {
        self.patience.set(Instant::now() + HEAD_PATIENCE);
        let mut bytes = 0;
        std::future::poll_fn(|context| {
            loop {
                // A head that comes in pieces is read again where a line of it ends.
                let is_new = bytes == 0 || self.said[bytes..].contains(&b'\n');
                if is_new && !self.said.is_empty() {
                    match head::asked(&self.said, &mut self.out) {
                        Asked::Plain { bytes, is_for_head } => {
                            self.asked_bytes = bytes;
                            return Poll::Ready(Heard::Plain { is_for_head });
                        }
                        Asked::Other => return Poll::Ready(Heard::Other),
                        Asked::Unfinished => {}
                    }
                }
                bytes = self.said.len();
                if bytes >= MAX_HEAD_BYTES {
                    return Poll::Ready(Heard::Other);
                }
                if closing.poll_told(context) && bytes == 0 {
                    return Poll::Ready(Heard::Nothing);
                }
                match poll_read(&mut self.stream, &mut self.said, SAID_BYTES, context) {
                    Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(Heard::Nothing),
                    Poll::Ready(Ok(_)) => {}
                    Poll::Pending => return self.patience.poll_over(context).map(|()| Heard::Nothing),
                }
            }
        })
        .await
    }

    /// Sends the request that was heard to whom is `asking`, who `is_there` as far as is known, at each look.
    pub(super) async fn ask(
        &mut self,
        asking: &mut Asking,
        is_for_head: bool,
        began: Instant,
        Wait { patience, look_pause }: Wait,
        is_there: impl Fn() -> bool,
    ) -> Result<Answer, Silent> {
        let (mut said, mut sent) = (BytesMut::with_capacity(ANSWER_BYTES), 0);
        self.patience.set(began + look_pause);
        std::future::poll_fn(|context| {
            if self.poll_gone(context) {
                return Poll::Ready(Err(Silent::Gone));
            }
            match self.poll_answered(asking, is_for_head, &mut sent, &mut said, context) {
                Poll::Ready(Err(why)) => {
                    let is_seen = sent > 0;
                    return Poll::Ready(Err(Silent::Failed { why, is_seen }));
                }
                Poll::Ready(Ok(head)) => return Poll::Ready(Ok(head)),
                Poll::Pending => {}
            }
            while self.patience.poll_over(context).is_ready() {
                if began.elapsed() >= patience {
                    return Poll::Ready(Err(Silent::Late(format!("it did not answer in {patience:?}"))));
                }
                if !is_there() {
                    return Poll::Ready(Err(Silent::Late("it is gone".to_owned())));
                }
                self.patience.set(Instant::now() + look_pause);
            }
            Poll::Pending
        })
        .await
        .map(|mut head| {
            head.stays &= sent == self.out.len();
            Answer { head, said }
        })
    }

    fn poll_answered(
        &mut self,
        asking: &mut Asking,
        is_for_head: bool,
        sent: &mut usize,
        said: &mut BytesMut,
        context: &mut Context<'_>,
    ) -> Poll<Result<Answered, String>> {
        if let Poll::Ready(Err(error)) = poll_write(asking, &self.out, sent, context) {
            return Poll::Ready(Err(error.to_string()));
        }
        loop {
            let before = said.len();
            match ready!(poll_read(asking, said, ANSWER_BYTES, context)) {
                Ok(0) => return Poll::Ready(Err("the connection ended".to_owned())),
                Err(error) => return Poll::Ready(Err(error.to_string())),
                Ok(_) if !said[before..].contains(&b'\n') => {}
                Ok(_) => {
                    if let Some(head) = head::answered(said, is_for_head, &mut self.back)? {
                        return Poll::Ready(Ok(head));
                    }
                }
            }
            if said.len() >= MAX_HEAD_BYTES {
                return Poll::Ready(Err(format!("its head has more than {MAX_HEAD_BYTES} bytes")));
            }
        }
    }

    /// Passes an answer on as it comes from whom was asked, with more lines at the end of its head.
    pub(super) async fn pass(&mut self, answer: Answer, lines: &str, asking: &mut Asking) -> Passed {
        let Answer { mut head, mut said } = answer;
        self.said.advance(std::mem::take(&mut self.asked_bytes));
        said.advance(head.bytes);
        self.back.extend_from_slice(lines.as_bytes());
        self.back.extend_from_slice(b"\r\n");
        let (mut sent, mut is_ended) = (0, false);
        let is_whole = std::future::poll_fn(|context| {
            loop {
                match head.body.pass(&said, &mut self.back) {
                    Ok(bytes) => said.advance(bytes),
                    Err(_) => (is_ended, _) = (true, said.clear()),
                }
                match ready!(poll_write(&mut self.stream, &self.back, &mut sent, context)) {
                    Ok(()) => (sent, _) = (0, self.back.clear()),
                    Err(_) => return Poll::Ready(false),
                }
                let is_whole = head.body.is_over() || is_ended && head.body.has_no_end();
                if is_whole || is_ended {
                    return Poll::Ready(is_whole);
                }
                match poll_read(asking, &mut said, BUFFER_BYTES, context) {
                    Poll::Ready(read) => is_ended = matches!(read, Ok(0) | Err(_)),
                    Poll::Pending if self.poll_gone(context) => return Poll::Ready(false),
                    Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await;
        self.back.shrink_to(SAID_BYTES);
        Passed {
            is_whole,
            stays: is_whole && head.stays && said.is_empty(),
        }
    }

    /// Says to him what was not said by anybody else.
    pub(super) async fn tell(&mut self, answer: &[u8]) -> bool {
        self.said.advance(std::mem::take(&mut self.asked_bytes));
        let mut sent = 0;
        std::future::poll_fn(|context| poll_write(&mut self.stream, answer, &mut sent, context))
            .await
            .is_ok()
    }

    /// Whether he ends his connection. What he says meanwhile is for later.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> bool {
        while self.said.len() < MAX_HEAD_BYTES {
            match poll_read(&mut self.stream, &mut self.said, SAID_BYTES, context) {
                Poll::Ready(Ok(0) | Err(_)) => return true,
                Poll::Ready(Ok(_)) => {}
                Poll::Pending => return false,
            }
        }
        false
    }
}

/// Until when something is waited for. To move that on costs nothing, and it is asked for with every request.
struct Patience {
    sleep: Pin<Box<Sleep>>,
    until: Instant,
}

impl Patience {
    fn new(until: Instant) -> Self {
        Patience {
            sleep: Box::pin(sleep_until(until)),
            until,
        }
    }

    fn set(&mut self, until: Instant) {
        self.until = until;
        if self.sleep.deadline() > self.until {
            self.sleep.as_mut().reset(self.until);
        }
    }

    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.sleep.as_mut().poll(context).is_ready() {
            if Instant::now() >= self.until {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(self.until);
        }
        Poll::Pending
    }
}

/// Reads to the end of `said`, which has room for so much at first.
fn poll_read<S>(stream: &mut S, said: &mut BytesMut, first: usize, context: &mut Context<'_>) -> Poll<io::Result<usize>>
where
    S: AsyncRead + Unpin,
{
    if said.capacity() - said.len() < READ_BYTES {
        said.reserve(first);
    }
    poll_read_buf(Pin::new(stream), context, said)
}

/// Sends what is left of `bytes`.
fn poll_write<S>(stream: &mut S, bytes: &[u8], sent: &mut usize, context: &mut Context<'_>) -> Poll<io::Result<()>>
where
    S: AsyncWrite + Unpin,
{
    while *sent < bytes.len() {
        match ready!(Pin::new(&mut *stream).poll_write(context, &bytes[*sent..]))? {
            0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            more => *sent += more,
        }
    }
    Pin::new(stream).poll_flush(context)
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn what_came_before_a_chunk_that_is_none_is_passed_on_once_to_who_reads_slowly() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut asking = Either::Left(TcpStream::connect(listener.local_addr().unwrap()).await.unwrap());
        let (mut endpoint, _) = listener.accept().await.unwrap();
        let said = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n";
        endpoint.write_all(format!("{said}-1\r\n").as_bytes()).await.unwrap();
        let (near, mut far) = duplex(8);
        let mut caller = Caller::new(near);
        let wait = Wait {
            patience: HEAD_PATIENCE,
            look_pause: HEAD_PATIENCE,
        };
        let answer = caller.ask(&mut asking, false, Instant::now(), wait, || true).await;
        let Ok(answer) = answer else { panic!("no answer") };
        let passing = async {
            let passed = caller.pass(answer, "", &mut asking).await;
            drop(caller);
            passed.is_whole || passed.stays
        };
        let mut read = String::new();
        let both = async { tokio::join!(passing, far.read_to_string(&mut read)) };
        let (is_passed, done) = timeout(Duration::from_secs(10), both).await.expect("it ends");
        done.unwrap();
        assert_eq!((read.as_str(), is_passed), (said, false));
    }
}
