//! A body whose beginning is kept, to be sent again where nobody has seen the request.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};

/// Of each body. What is longer is sent once.
const MAX_KEPT_BYTES: usize = 64 << 10;

/// One, of which the newest reading has all from the beginning, and earlier ones no more.
pub(super) struct Repeatable<B> {
    rest: B,
    /// What has been read of it, as it came.
    kept: Vec<Bytes>,
    kept_bytes: usize,
    /// Nothing of it is lost.
    pub(super) is_whole: bool,
    reading: u32,
    /// Which of those that are kept this reading has next.
    next: usize,
}

impl<B: Body<Data = Bytes> + Unpin> Repeatable<B> {
    pub(super) fn new(body: B) -> Self {
        Repeatable {
            rest: body,
            kept: Vec::new(),
            kept_bytes: 0,
            is_whole: true,
            reading: 0,
            next: 0,
        }
    }

    pub(super) fn poll_frame(
        &mut self,
        reading: u32,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if reading < self.reading {
            return Poll::Ready(None);
        }
        if reading > self.reading {
            (self.reading, self.next) = (reading, 0);
        }
        if let Some(kept) = self.kept.get(self.next) {
            self.next += 1;
            return Poll::Ready(Some(Ok(Frame::data(kept.clone()))));
        }
        let frame = Pin::new(&mut self.rest).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame {
            self.keep(frame);
        }
        frame
    }

    /// Whether that reading has had all of it.
    pub(super) fn is_over(&self, reading: u32) -> bool {
        let has_kept = match reading == self.reading {
            true => self.next < self.kept.len(),
            false => !self.kept.is_empty(),
        };
        reading < self.reading || !has_kept && self.rest.is_end_stream()
    }

    pub(super) fn size_hint(&self) -> SizeHint {
        match self.kept.is_empty() && self.is_whole {
            true => self.rest.size_hint(),
            false => SizeHint::default(),
        }
    }

    /// It is not read again.
    pub(super) fn forget(&mut self) {
        self.kept.drain(..self.next);
        self.next = 0;
        self.is_whole = false;
    }

    fn keep(&mut self, frame: &Frame<Bytes>) {
        if !self.is_whole {
            return;
        }
        match frame.data_ref() {
            Some(data) if self.kept_bytes + data.len() <= MAX_KEPT_BYTES => {
                self.kept_bytes += data.len();
                self.kept.push(data.clone());
                self.next = self.kept.len();
            }
            // Trailers end it, and few requests have any.
            Some(_) | None => self.forget(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use http_body_util::Full;

    use super::*;

    type Read = Poll<Option<Bytes>>;

    struct Frames(std::vec::IntoIter<&'static str>);

    impl Body for Frames {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _context: &mut Context<'_>,
        ) -> Poll<Option<std::io::Result<Frame<Bytes>>>> {
            Poll::Ready(self.0.next().map(|data| Ok(Frame::data(Bytes::from(data)))))
        }
    }

    fn read<B: Body<Data = Bytes> + Unpin>(body: &mut Repeatable<B>, reading: u32) -> Read {
        let frame = body.poll_frame(reading, &mut Context::from_waker(Waker::noop()));
        frame.map(|frame| frame.and_then(|frame| frame.ok()?.into_data().ok()))
    }

    fn ready(data: &'static str) -> Read {
        Poll::Ready(Some(Bytes::from(data)))
    }

    #[test]
    fn a_later_reading_has_all_of_it_and_an_earlier_one_no_more() {
        let mut body = Repeatable::new(Frames(vec!["a", "b", "c"].into_iter()));
        assert_eq!([read(&mut body, 0), read(&mut body, 0)], [ready("a"), ready("b")]);
        assert_eq!(read(&mut body, 1), ready("a"));
        assert_eq!(read(&mut body, 0), Poll::Ready(None));
        assert!(body.is_over(0) && !body.is_over(1));
        assert_eq!([read(&mut body, 1), read(&mut body, 1)], [ready("b"), ready("c")]);
        assert_eq!(read(&mut body, 1), Poll::Ready(None));
    }

    #[test]
    fn more_than_is_kept_and_what_is_forgotten_is_read_once() {
        let mut long = Repeatable::new(Full::new(Bytes::from(vec![0; MAX_KEPT_BYTES + 1])));
        assert!(matches!(read(&mut long, 0), Poll::Ready(Some(data)) if data.len() == MAX_KEPT_BYTES + 1));
        let mut forgotten = Repeatable::new(Full::new(Bytes::from("a")));
        assert_eq!(read(&mut forgotten, 0), ready("a"));
        assert!(!long.is_whole && forgotten.is_whole);
        forgotten.forget();
        assert!(!forgotten.is_whole && forgotten.kept.is_empty());
    }
}
