//! The bytes of records: integers as LEB128, strings behind their length.

use crate::record::Damaged;

/// Sessions, their messages and groups of shared subscriptions have no larger numbers.
pub(crate) const NUMBER_MAX: u64 = 1 << 62;

/// Appends an integer in as few groups of seven bits as it takes.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a string behind its length.
pub(crate) fn put_str(out: &mut Vec<u8>, text: &str) {
    put_bytes(out, text.as_bytes());
}

/// Appends bytes behind their length.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads from the front of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reader<'a> {
    pub(crate) rest: &'a [u8],
}

impl<'a> Reader<'a> {
    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Damaged> {
        let (first, rest) = self.rest.split_first().ok_or(Damaged)?;
        self.rest = rest;
        Ok(*first)
    }

    #[inline]
    pub(crate) fn u64(&mut self) -> Result<u64, Damaged> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Damaged)
    }

    /// A number that was given out one by one: no log comes near the bound, above which it could not be counted on.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<u64, Damaged> {
        self.u64()
            .and_then(|number| if number <= NUMBER_MAX { Ok(number) } else { Err(Damaged) })
    }

    #[inline]
    pub(crate) fn u32(&mut self) -> Result<u32, Damaged> {
        u32::try_from(self.u64()?).map_err(|_| Damaged)
    }

    pub(crate) fn str(&mut self) -> Result<&'a str, Damaged> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Damaged)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], Damaged> {
        let len = usize::try_from(self.u64()?).map_err(|_| Damaged)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Damaged)?;
        self.rest = rest;
        Ok(bytes)
    }

    pub(crate) fn end(self) -> Result<(), Damaged> {
        if self.rest.is_empty() { Ok(()) } else { Err(Damaged) }
    }
}
