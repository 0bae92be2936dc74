//! Where a record stands in the log.

/// Bits that hold the size class, below those of the offset.
const SIZE_BITS: u32 = 12;
const SIZE_MASK: u64 = (1 << SIZE_BITS) - 1;
/// Bits of the size class that are its mantissa.
const MANTISSA_BITS: u32 = 7;

/// Records start at multiples of this many bytes.
pub(crate) const ALIGN: u64 = 8;

/// A place in the log. Positions grow with every record, over restarts too; zero is before all of them.
///
/// Opaque to the owner. Inside, it is the record's offset since the log began, in units of 8 bytes, and under it 12
/// bits with the record's rounded size, so that releasing a record needs no look-up of how long it was. 52 bits of
/// offset are 36 petabytes written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Position(pub u64);

impl Position {
    /// Before every record: always durable.
    pub const NONE: Position = Position(0);

    /// The record of `len` bytes at `offset`.
    #[inline]
    pub(crate) fn of(offset: u64, len: u64) -> Position {
        debug_assert!(offset.is_multiple_of(ALIGN));
        Position((offset / ALIGN) << SIZE_BITS | size_class(len))
    }

    /// The greatest position of a record that starts before `offset`.
    pub(crate) fn before(offset: u64) -> Position {
        Position(((offset / ALIGN) << SIZE_BITS).saturating_sub(1))
    }

    pub(crate) fn offset(self) -> u64 {
        (self.0 >> SIZE_BITS) * ALIGN
    }

    /// The record's size in bytes, rounded down by less than 2 %.
    pub(crate) fn rounded_len(self) -> u64 {
        size_of_class(self.0 & SIZE_MASK)
    }

    /// The greatest size that a record with this rounded one has.
    pub(crate) fn len_max(self) -> u64 {
        let exponent = (self.0 & SIZE_MASK) >> MANTISSA_BITS;
        self.rounded_len() + ((1 << exponent) - 1) * ALIGN
    }
}

/// A float of 5 bits of exponent and 7 of mantissa, in units of [`ALIGN`].
#[inline]
fn size_class(len: u64) -> u64 {
    let units = len.div_ceil(ALIGN);
    let bits = u64::BITS - units.leading_zeros();
    let exponent = bits.saturating_sub(MANTISSA_BITS);
    (u64::from(exponent) << MANTISSA_BITS) | (units >> exponent)
}

fn size_of_class(class: u64) -> u64 {
    let exponent = class >> MANTISSA_BITS;
    (class & ((1 << MANTISSA_BITS) - 1)) << exponent << ALIGN.trailing_zeros()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_grow_with_the_offset_whatever_the_size() {
        assert!(Position::of(8, 1 << 30) < Position::of(16, 8));
        assert!(Position::of(16, 8) <= Position::before(24));
        assert!(Position::of(24, 8) > Position::before(24));
        assert_eq!(Position::before(0), Position::NONE);
    }

    #[test]
    fn the_size_in_a_position_is_right_within_one_in_64() {
        for len in (8..5000).chain([1 << 20, (1 << 20) + 777, 1 << 27, (1 << 28) - 1]) {
            let rounded = Position::of(4096, len).rounded_len();
            let exact = len.div_ceil(ALIGN) * ALIGN;
            assert!(exact <= Position::of(4096, len).len_max());
            assert!(
                rounded <= exact && exact - rounded <= exact / 64,
                "{len} became {rounded}"
            );
            assert_eq!(Position::of(4096, len).offset(), 4096);
        }
    }
}
