//! To whom a logged message goes: the list in its record, read without allocating.

use std::num::NonZeroU64;

use mqtt::QoS;

use crate::ids::GroupId;
use crate::record::{Damaged, SessionId};
use crate::record_bytes::{self, MESSAGE, RETAIN};
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
    /// The group whose member the session is, where another one may get it instead.
    pub(crate) group: Option<GroupId>,
    ids: Reader<'a>,
    ids_len: u32,
}

/// Beside QoS and retain flag: the number of a group follows.
const GROUP: u8 = 8;

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
    pub(crate) fn put(
        out: &mut Vec<u8>,
        session: SessionId,
        seq: u64,
        (qos, retain): (QoS, bool),
        group: Option<GroupId>,
        ids: &[u32],
    ) {
        wire::put(out, session.0);
        wire::put(out, seq);
        let (retain, grouped) = (if retain { RETAIN } else { 0 }, group.map_or(0, |_| GROUP));
        out.push(qos as u8 | retain | grouped);
        if let Some(group) = group {
            wire::put(out, group.0.get());
        }
        wire::put(out, ids.len() as u64);
        ids.iter().for_each(|id| wire::put(out, u64::from(*id)));
    }

    fn read(from: &mut Reader<'a>) -> Result<Self, Damaged> {
        let (session, seq, flags) = (SessionId(from.number()?), from.number()?, from.u8()?);
        let group = match flags & GROUP {
            0 => None,
            _ => Some(GroupId(NonZeroU64::new(from.number()?).ok_or(Damaged)?)),
        };
        let ids_len = from.u32()?;
        let ids = *from;
        for _ in 0..ids_len {
            from.u32()?;
        }
        let qos = record_bytes::qos(flags & !(RETAIN | GROUP))?;
        Ok(Delivered {
            session,
            seq,
            qos,
            retain: flags & RETAIN != 0,
            group,
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

/// A message for one session that never expires, with nothing to know of it but QoS and retain flag: its whole meta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlainMessage {
    pub(crate) session: SessionId,
    pub(crate) seq: u64,
    pub(crate) qos: QoS,
    pub(crate) retain: bool,
}

impl PlainMessage {
    /// `None` if it is another record, or none.
    #[inline]
    pub(crate) fn decode(meta: &[u8]) -> Option<PlainMessage> {
        let rest = meta.strip_prefix(&[MESSAGE, 0])?;
        let mut from = Reader { rest };
        let (session, seq) = (SessionId(from.number().ok()?), from.number().ok()?);
        let [flags, 0] = *from.rest else { return None };
        Some(PlainMessage {
            session,
            seq,
            qos: record_bytes::qos(flags & !RETAIN).ok()?,
            retain: flags & RETAIN != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_comes_back_as_it_went() {
        let mut bytes = Vec::new();
        let group = NonZeroU64::new(1 << 40).map(GroupId);
        let (once, twice) = ((QoS::AtLeastOnce, true), (QoS::ExactlyOnce, false));
        Delivered::put(&mut bytes, SessionId(1), 1 << 40, once, None, &[]);
        let first_len = bytes.len();
        Delivered::put(&mut bytes, SessionId(1 << 40), 2, twice, group, &[1, 268_435_455]);
        let list = Deliveries::check(&bytes).expect("well-formed");
        let seen: Vec<_> = list
            .iter()
            .map(|one| {
                (
                    one.session.0,
                    one.seq,
                    (one.qos, one.retain),
                    one.group,
                    one.subscription_ids(),
                )
            })
            .collect();
        let expected = [
            (1, 1 << 40, once, None, Box::from([])),
            (1 << 40, 2, twice, group, Box::from([1, 268_435_455])),
        ];
        assert_eq!(seen, expected);
        assert!(
            (1..bytes.len())
                .filter(|end| *end != first_len)
                .all(|end| Deliveries::check(&bytes[..end]).is_err())
        );
    }

    #[test]
    fn a_message_with_anything_to_know_of_it_is_not_plain() {
        let meta = |expires, sessions, group, ids: &[u32]| {
            let mut meta = vec![MESSAGE, expires];
            for session in 0..sessions {
                let look = (QoS::ExactlyOnce, true);
                Delivered::put(&mut meta, SessionId(300 + session), 70_000, look, group, ids);
            }
            PlainMessage::decode(&meta)
        };
        let plain = PlainMessage {
            session: SessionId(300),
            seq: 70_000,
            qos: QoS::ExactlyOnce,
            retain: true,
        };
        assert_eq!(meta(0, 1, None, &[]), Some(plain));
        let group = NonZeroU64::new(1).map(GroupId);
        let others = [
            meta(9, 1, None, &[]),
            meta(0, 0, None, &[]),
            meta(0, 2, None, &[]),
            meta(0, 1, group, &[]),
            meta(0, 1, None, &[5]),
        ];
        assert!(others.iter().all(Option::is_none), "{others:?}");
    }
}
