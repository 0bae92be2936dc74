//! Batches made smaller, where that pays: one stream of deflate (RFC 1951) for a connection, so that a few readings are
//! written in terms of those of the batches before.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use crate::wire::Malformed;

/// Bytes that a batch may inflate to.
const INFLATED_BYTES_MAX: usize = 4 << 20;
/// On a faster line, in bytes a second, the time of a small processor is worth more than that of the line: 5 Mbit/s. Of
/// 20,000 readings of 80 bytes 21 % remained in batches of 640 bytes, at 60 to 400 ns a byte on a server's core.
const RATE_MAX_BYTES_PER_S: f64 = 625_000.0;
const LEVEL: u32 = 3;
/// Where the line has shown no rate yet, a shorter batch goes as it is: it is a message that is awaited.
const UNKNOWN_LINE_BYTES: usize = 1 << 10;
/// Of a batch that is worth it no more than this remains.
const WORTH: f64 = 0.9;
/// Batches that go as they are after one that was not worth it: what cannot be made smaller costs 1/32 of the work.
const PAUSE_BATCHES: u32 = 31;
/// No smaller a part is expected to remain: a batch that disappoints must still fit into a packet.
const EXPECTED_LEAST: f64 = 0.25;
/// What each flush ends with, and is left out (as in RFC 7692, section 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xFF, 0xFF];
/// Room for output at first.
const ROOM_BYTES: usize = 4 << 10;

/// Makes batches smaller. The other end must see all that it made, in their order.
#[derive(Debug)]
pub(super) struct Deflater {
    stream: Compress,
    rate_bytes_per_s: Option<f64>,
    /// The part of a batch that is expected to remain.
    remains: f64,
    /// Batches that still go as they are.
    pause: u32,
}

impl Default for Deflater {
    fn default() -> Self {
        Self {
            stream: Compress::new(Compression::new(LEVEL), false),
            rate_bytes_per_s: None,
            remains: 1.0,
            pause: 0,
        }
    }
}

impl Deflater {
    /// The rate of the line in bytes a second, if it has shown one, decides whether the next batch is made smaller.
    pub(super) fn see_line(&mut self, rate_bytes_per_s: Option<f64>) {
        self.rate_bytes_per_s = rate_bytes_per_s;
    }

    /// Bytes that are expected to remain of a batch.
    pub(super) fn expected_len(&self, len: usize) -> usize {
        match self.is_on(len) {
            true => (len as f64 * self.remains.clamp(EXPECTED_LEAST, 1.0)) as usize,
            false => len,
        }
    }

    fn is_on(&self, len: usize) -> bool {
        let is_worth = match self.rate_bytes_per_s {
            Some(rate) => rate <= RATE_MAX_BYTES_PER_S,
            None => len >= UNKNOWN_LINE_BYTES,
        };
        is_worth && self.pause == 0 && len <= INFLATED_BYTES_MAX
    }

    /// Appends the batch made smaller; false: it is to go as it is.
    pub(super) fn deflate(&mut self, batch: &[u8], out: &mut Vec<u8>) -> bool {
        if !self.is_on(batch.len()) {
            self.pause = self.pause.saturating_sub(1);
            return false;
        }
        let before = out.len();
        self.run(batch, out);
        let remains = (out.len() - before) as f64 / batch.len().max(1) as f64;
        self.remains = (self.remains + remains) / 2.0;
        if remains > WORTH {
            self.pause = PAUSE_BATCHES;
        }
        true
    }

    fn run(&mut self, mut batch: &[u8], out: &mut Vec<u8>) {
        loop {
            out.reserve(ROOM_BYTES);
            let before = self.stream.total_in();
            let done = self.stream.compress_vec(batch, out, FlushCompress::Sync);
            done.expect("deflate takes any bytes");
            batch = &batch[(self.stream.total_in() - before) as usize..];
            // With room to spare the flush has ended.
            if batch.is_empty() && out.len() < out.capacity() {
                break;
            }
        }
        debug_assert!(out.ends_with(&TAIL));
        out.truncate(out.len() - TAIL.len());
    }
}

/// Takes what a [`Deflater`] made.
#[derive(Debug)]
pub(super) struct Inflater(Decompress);

impl Default for Inflater {
    fn default() -> Self {
        Self(Decompress::new(false))
    }
}

impl Inflater {
    /// The batch as it was.
    pub(super) fn inflate(&mut self, deflated: &[u8]) -> Result<Vec<u8>, Malformed> {
        let mut batch = Vec::new();
        self.take(deflated, &mut batch)?;
        self.take(&TAIL, &mut batch)?;
        Ok(batch)
    }

    fn take(&mut self, mut deflated: &[u8], batch: &mut Vec<u8>) -> Result<(), Malformed> {
        loop {
            if batch.len() > INFLATED_BYTES_MAX {
                return Err(Malformed("it inflates to more than 4 MiB"));
            }
            if batch.len() == batch.capacity() {
                // One byte more than it may have shows that it has too many.
                let most = INFLATED_BYTES_MAX + 1 - batch.len();
                batch.reserve_exact(batch.len().max(ROOM_BYTES).min(most));
            }
            let (taken, given) = (self.0.total_in(), batch.len());
            let status = self.0.decompress_vec(deflated, batch, FlushDecompress::Sync);
            deflated = &deflated[(self.0.total_in() - taken) as usize..];
            match status {
                Err(_) | Ok(Status::StreamEnd) => return Err(Malformed("it does not inflate")),
                // With room to spare all that can be made of these bytes has been made.
                Ok(_) if deflated.is_empty() && batch.len() < batch.capacity() => return Ok(()),
                Ok(_) if self.0.total_in() == taken && batch.len() == given => {
                    return Err(Malformed("it does not inflate"));
                }
                Ok(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THIN: Option<f64> = Some(1_000.0);

    fn deflated(deflater: &mut Deflater, batch: &[u8]) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        deflater.deflate(batch, &mut out).then_some(out)
    }

    fn readings(batch: u32) -> Vec<u8> {
        let reading = |n: u32| {
            format!(
                "{{\"temperature\": {}.{}, \"humidity\": {}}}",
                20 + n % 7,
                n % 10,
                40 + n % 3
            )
        };
        (0..6).map(|n| reading(batch * 6 + n)).collect::<String>().into_bytes()
    }

    fn noise(len: usize) -> Vec<u8> {
        (0..len).map(|_| rand::random()).collect()
    }

    proptest! {
        #[test]
        fn what_is_deflated_inflates_to_the_same(batches in prop::collection::vec(prop::collection::vec(0..4_u8, 0..3_000), 1..40)) {
            let (mut deflater, mut inflater) = (Deflater::default(), Inflater::default());
            deflater.see_line(THIN);
            for batch in batches {
                if let Some(small) = deflated(&mut deflater, &batch) {
                    prop_assert_eq!(inflater.inflate(&small).unwrap(), batch);
                }
            }
        }

        #[test]
        fn whatever_bytes_come_inflate_or_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = Inflater::default().inflate(&bytes);
        }
    }

    #[test]
    fn batches_of_six_readings_shrink_to_less_than_half() {
        let mut deflater = Deflater::default();
        deflater.see_line(THIN);
        let (mut before, mut after) = (0, 0);
        for number in 0..50 {
            let batch = readings(number);
            before += batch.len();
            after += deflated(&mut deflater, &batch).unwrap().len();
        }
        assert!(after * 2 < before, "{after} of {before} bytes remain");
        let expected = deflater.expected_len(1_000);
        assert!((250..500).contains(&expected), "{expected}");
    }

    #[test]
    fn a_fast_line_carries_batches_as_they_are_and_one_that_has_shown_no_rate_short_ones() {
        let mut deflater = Deflater::default();
        deflater.see_line(Some(2e6));
        assert_eq!(deflated(&mut deflater, &[0; 5_000]), None);
        assert_eq!(deflater.expected_len(5_000), 5_000);
        deflater.see_line(None);
        assert_eq!(deflated(&mut deflater, &readings(1)), None);
        assert!(deflated(&mut deflater, &[0; 5_000]).is_some());
    }

    #[test]
    fn what_cannot_be_made_smaller_is_tried_once_in_32_batches_and_grows_by_no_more_than_a_hundredth() {
        let (mut deflater, mut inflater) = (Deflater::default(), Inflater::default());
        deflater.see_line(THIN);
        let batch = noise(10_000);
        let tried: Vec<Vec<u8>> = (0..64)
            .filter_map(|_| {
                let batch = noise(10_000);
                let small = deflated(&mut deflater, &batch)?;
                assert_eq!(inflater.inflate(&small).unwrap(), batch);
                Some(small)
            })
            .collect();
        assert_eq!(tried.len(), 2);
        assert!(tried.iter().all(|tried| tried.len() <= batch.len() * 101 / 100));
    }

    #[test]
    fn a_batch_that_inflates_to_more_than_its_bound_is_refused_and_none_is_made() {
        let mut deflater = Deflater::default();
        deflater.see_line(THIN);
        assert_eq!(deflated(&mut deflater, &vec![0; INFLATED_BYTES_MAX + 1]), None);
        let most = deflated(&mut deflater, &vec![0; INFLATED_BYTES_MAX]).unwrap();
        assert_eq!(Inflater::default().inflate(&most).unwrap().len(), INFLATED_BYTES_MAX);
        let mut more = Vec::new();
        Deflater::default().run(&vec![0; INFLATED_BYTES_MAX + 1], &mut more);
        assert!(more.len() < 40_000);
        let refused = Err(Malformed("it inflates to more than 4 MiB"));
        assert_eq!(Inflater::default().inflate(&more), refused);
    }

    #[test]
    fn a_stream_that_says_that_it_ends_is_refused() {
        let mut ended = Vec::with_capacity(100);
        let mut stream = Compress::new(Compression::fast(), false);
        stream.compress_vec(b"abc", &mut ended, FlushCompress::Finish).unwrap();
        assert_eq!(
            Inflater::default().inflate(&ended),
            Err(Malformed("it does not inflate"))
        );
    }
}
