//! The data types of section 1.5, written. One description of a packet serves to measure and to write it.

/// Takes the bytes of a packet, or only counts them.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    /// A Variable Byte Integer, section 1.5.5.
    #[inline]
    fn put_varint(&mut self, value: usize) {
        assert!(
            value <= VARINT_MAX,
            "{value} is over the {VARINT_MAX} that a Variable Byte Integer holds"
        );
        let mut left = value;
        while left > 0x7F {
            self.put_u8(left as u8 | 0x80);
            left >>= 7;
        }
        self.put_u8(left as u8);
    }

    /// Binary Data, section 1.5.6.
    #[inline]
    fn put_binary(&mut self, bytes: &[u8]) {
        let len = u16::try_from(bytes.len()).expect("a string or binary field holds at most 65,535 bytes");
        self.put_u16(len);
        self.put(bytes);
    }

    #[inline]
    fn put_str(&mut self, text: &str) {
        self.put_binary(text.as_bytes());
    }
}

/// The largest Variable Byte Integer, section 1.5.5.
pub(crate) const VARINT_MAX: usize = 0x0FFF_FFFF;

/// A packet's first byte and the longest Remaining Length, section 2.1.1.
pub(crate) const FIXED_HEADER_MAX_LEN: usize = 5;

impl Sink for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Bytes that were put, without them.
#[derive(Default)]
pub(crate) struct Count(pub(crate) usize);

impl Sink for Count {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}
