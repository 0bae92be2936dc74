//! To whom a logged message goes: the list in its record, read without allocating.

use mqtt::QoS;

use crate::record::{Damaged, SessionId};
use crate::record_bytes;
use crate::wire::{self, Reader};

/// The sessions that a message is for, as the log's bytes have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deliveries<'a> {
    pub(crate) bytes: &'a [u8],
}

/// One of [`Deliveries`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivered<'a> {
    /// To whom.
    pub session: SessionId,
    /// Its number in the session; packet identifiers follow from it.
    pub seq: u64,
    /// QoS of the delivery: 1 or 2.
    pub qos: QoS,
    /// Retain flag of the delivery.
    pub retain: bool,
    ids: Reader<'a>,
    ids_len: u32,
}

const RETAIN: u8 = 4;

impl<'a> Deliveries<'a> {
    #[cfg(test)]
    pub(crate) const EMPTY: Deliveries<'static> = Deliveries { bytes: &[] };

    /// The list in these bytes, if they are one.
    pub(crate) fn check(bytes: &'a [u8]) -> Result<Self, Damaged> {
        let mut from = Reader { rest: bytes };
        while !from.rest.is_empty() {
            Delivered::read(&mut from)?;
        }
        Ok(Deliveries { bytes })
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Delivered<'a>> + use<'a> {
        let mut from = Reader { rest: self.bytes };
        std::iter::from_fn(move || Delivered::read(&mut from).ok())
    }
}

impl<'a> Delivered<'a> {
    /// Appends one delivery to the bytes of a list.
    pub(crate) fn put(out: &mut Vec<u8>, session: SessionId, seq: u64, qos: QoS, retain: bool, ids: &[u32]) {
        wire::put(out, session.0);
        wire::put(out, seq);
        out.push(qos as u8 | if retain { RETAIN } else { 0 });
        wire::put(out, ids.len() as u64);
        ids.iter().for_each(|id| wire::put(out, u64::from(*id)));
    }

    fn read(from: &mut Reader<'a>) -> Result<Self, Damaged> {
        let (session, seq, flags) = (SessionId(from.u64()?), from.u64()?, from.u8()?);
        let ids_len = from.u32()?;
        let ids = *from;
        for _ in 0..ids_len {
            from.u32()?;
        }
        let qos = record_bytes::qos(flags & !RETAIN)?;
        Ok(Delivered {
            session,
            seq,
            qos,
            retain: flags & RETAIN != 0,
            ids,
            ids_len,
        })
    }

    /// Subscription Identifiers of the delivery.
    pub fn subscription_ids(&self) -> Box<[u32]> {
        if self.ids_len == 0 {
            return Box::default();
        }
        let mut from = self.ids;
        (0..self.ids_len).filter_map(|_| from.u32().ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_as_it_went() {
        let mut bytes = Vec::new();
        Delivered::put(&mut bytes, SessionId(1), 1 << 40, QoS::AtLeastOnce, true, &[]);
        Delivered::put(
            &mut bytes,
            SessionId(1 << 40),
            2,
            QoS::ExactlyOnce,
            false,
            &[1, 268_435_455],
        );
        let list = Deliveries::check(&bytes).expect("well-formed");
        let seen: Vec<_> = list
            .iter()
            .map(|one| (one.session.0, one.seq, one.qos, one.retain, one.subscription_ids()))
            .collect();
        let expected = [
            (1, 1 << 40, QoS::AtLeastOnce, true, Box::from([])),
            (1 << 40, 2, QoS::ExactlyOnce, false, Box::from([1, 268_435_455])),
        ];
        assert_eq!(seen, expected);
        assert!(
            (1..bytes.len())
                .filter(|end| *end != 9)
                .all(|end| Deliveries::check(&bytes[..end]).is_err())
        );
    }
}
