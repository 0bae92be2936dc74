//! Records as bytes: a kind, then numbers and strings. What is in the meta alone suffices to rebuild queues.

use std::num::NonZeroU64;

use mqtt::{PacketId, QoS, RetainHandling, SubscriptionOptions};

use crate::deliveries::Deliveries;
use crate::record::{Damaged, Deadline, LoggedWill, Record, SessionId};
use crate::wire::{self, Reader};

pub(crate) const MESSAGE: u8 = 1;
const DONE: u8 = 2;
const RELEASED: u8 = 3;
const SESSION: u8 = 4;
const SESSION_GONE: u8 = 5;
const SUBSCRIPTION: u8 = 6;
const SUBSCRIPTION_GONE: u8 = 7;
const RETAINED: u8 = 8;
const RETAINED_GONE: u8 = 9;
const RECEIVED: u8 = 10;
const RECEIVED_GONE: u8 = 11;

/// The retain flag beside a QoS.
pub(crate) const RETAIN: u8 = 4;

impl<'a> Record<'a> {
    /// Appends what suffices to rebuild queues to `meta` and returns the body, which may be empty.
    pub fn encode(&self, meta: &mut Vec<u8>) -> &'a [u8] {
        match *self {
            Record::Message {
                deliveries,
                expires,
                body,
            } => {
                meta.push(MESSAGE);
                put_deadline(meta, expires);
                meta.extend_from_slice(deliveries.bytes);
                return body;
            }
            Record::Done { session, seq } => put_ids(meta, DONE, session, seq),
            Record::Released { session, seq } => put_ids(meta, RELEASED, session, seq),
            Record::Session { .. } => self.encode_session(meta),
            Record::SessionGone { session } => put_ids(meta, SESSION_GONE, session, 0),
            Record::Subscription {
                session,
                filter,
                options,
                subscription_id,
                group,
            } => {
                put_ids(meta, SUBSCRIPTION, session, subscription_id.unwrap_or(0).into());
                meta.push(options_byte(options));
                wire::put(meta, group.map_or(0, NonZeroU64::get));
                wire::put_str(meta, filter);
            }
            Record::SubscriptionGone { session, filter } => {
                put_ids(meta, SUBSCRIPTION_GONE, session, 0);
                wire::put_str(meta, filter);
            }
            Record::Retained {
                topic,
                qos,
                expires,
                body,
            } => {
                meta.extend([RETAINED, qos as u8]);
                put_deadline(meta, expires);
                wire::put_str(meta, topic);
                return body;
            }
            Record::RetainedGone { topic } => {
                meta.push(RETAINED_GONE);
                wire::put_str(meta, topic);
            }
            Record::Received { session, packet_id } => put_ids(meta, RECEIVED, session, packet_id.get().into()),
            Record::ReceivedGone { session, packet_id } => {
                put_ids(meta, RECEIVED_GONE, session, packet_id.get().into());
            }
        }
        &[]
    }

    fn encode_session(&self, meta: &mut Vec<u8>) {
        let Record::Session {
            session,
            owner,
            client_id,
            expiry_s,
            ended_unix_ms,
            sent_seq,
            next_seq,
            will,
        } = *self
        else {
            return;
        };
        put_ids(meta, SESSION, session, expiry_s.into());
        wire::put(meta, some_plus_one(ended_unix_ms));
        wire::put(meta, sent_seq);
        wire::put(meta, next_seq);
        wire::put_str(meta, owner);
        wire::put_str(meta, client_id);
        if let Some(will) = will {
            meta.push(will.qos as u8 | if will.retain { RETAIN } else { 0 });
            wire::put(meta, will.delay_s.into());
            wire::put_bytes(meta, will.body);
        }
    }

    /// The record of these bytes; at recovery `body` may be empty although one was written.
    ///
    /// # Errors
    /// [`Damaged`] if they are none.
    pub fn decode(meta: &'a [u8], body: &'a [u8]) -> Result<Record<'a>, Damaged> {
        let mut from = Reader { rest: meta };
        let record = match from.u8()? {
            MESSAGE => {
                let expires = deadline(&mut from)?;
                let deliveries = Deliveries::check(std::mem::take(&mut from.rest))?;
                Record::Message {
                    deliveries,
                    expires,
                    body,
                }
            }
            DONE => Record::Done {
                session: session(&mut from)?,
                seq: from.number()?,
            },
            RELEASED => Record::Released {
                session: session(&mut from)?,
                seq: from.number()?,
            },
            SESSION => Self::decode_session(&mut from)?,
            SESSION_GONE => Record::SessionGone {
                session: session_alone(&mut from)?,
            },
            SUBSCRIPTION => Self::decode_subscription(&mut from)?,
            SUBSCRIPTION_GONE => Record::SubscriptionGone {
                session: session_alone(&mut from)?,
                filter: from.str()?,
            },
            RETAINED => {
                let (qos, expires) = (qos(from.u8()?)?, deadline(&mut from)?);
                Record::Retained {
                    topic: from.str()?,
                    qos,
                    expires,
                    body,
                }
            }
            RETAINED_GONE => Record::RetainedGone { topic: from.str()? },
            RECEIVED => Record::Received {
                session: session(&mut from)?,
                packet_id: packet_id(&mut from)?,
            },
            RECEIVED_GONE => Record::ReceivedGone {
                session: session(&mut from)?,
                packet_id: packet_id(&mut from)?,
            },
            _ => return Err(Damaged),
        };
        from.end()?;
        Ok(record)
    }

    fn decode_session(from: &mut Reader<'a>) -> Result<Record<'a>, Damaged> {
        Ok(Record::Session {
            session: session(from)?,
            expiry_s: from.u32()?,
            ended_unix_ms: from.u64()?.checked_sub(1),
            sent_seq: from.u64()?,
            next_seq: from.number()?,
            owner: from.str()?,
            client_id: from.str()?,
            will: if from.rest.is_empty() {
                None
            } else {
                Some(Self::decode_will(from)?)
            },
        })
    }

    fn decode_will(from: &mut Reader<'a>) -> Result<LoggedWill<'a>, Damaged> {
        let flags = from.u8()?;
        Ok(LoggedWill {
            qos: qos(flags & !RETAIN)?,
            retain: flags & RETAIN != 0,
            delay_s: from.u32()?,
            body: from.bytes()?,
        })
    }

    fn decode_subscription(from: &mut Reader<'a>) -> Result<Record<'a>, Damaged> {
        Ok(Record::Subscription {
            session: session(from)?,
            subscription_id: Some(from.u32()?).filter(|id| *id != 0),
            options: options(from.u8()?)?,
            group: NonZeroU64::new(from.number()?),
            filter: from.str()?,
        })
    }
}

fn put_ids(meta: &mut Vec<u8>, kind: u8, session: SessionId, number: u64) {
    meta.push(kind);
    wire::put(meta, session.0);
    wire::put(meta, number);
}

fn session(from: &mut Reader<'_>) -> Result<SessionId, Damaged> {
    from.number().map(SessionId)
}

/// A session whose record has no number behind it: zero stands there.
fn session_alone(from: &mut Reader<'_>) -> Result<SessionId, Damaged> {
    let session = session(from)?;
    if from.u64()? == 0 { Ok(session) } else { Err(Damaged) }
}

fn packet_id(from: &mut Reader<'_>) -> Result<PacketId, Damaged> {
    u16::try_from(from.u64()?).ok().and_then(PacketId::new).ok_or(Damaged)
}

/// Zero for none; else the instant after one, and what was left.
fn put_deadline(meta: &mut Vec<u8>, deadline: Option<Deadline>) {
    wire::put(meta, some_plus_one(deadline.map(|deadline| deadline.unix_ms)));
    if let Some(Deadline { left_ms, .. }) = deadline {
        wire::put(meta, left_ms);
    }
}

fn deadline(from: &mut Reader<'_>) -> Result<Option<Deadline>, Damaged> {
    let Some(unix_ms) = from.u64()?.checked_sub(1) else {
        return Ok(None);
    };
    let left_ms = from.u64()?;
    Ok(Some(Deadline { unix_ms, left_ms }))
}

fn some_plus_one(value: Option<u64>) -> u64 {
    value.map_or(0, |value| value.saturating_add(1))
}

#[inline]
pub(crate) fn qos(byte: u8) -> Result<QoS, Damaged> {
    match byte {
        0 => Ok(QoS::AtMostOnce),
        1 => Ok(QoS::AtLeastOnce),
        2 => Ok(QoS::ExactlyOnce),
        _ => Err(Damaged),
    }
}

/// As in a SUBSCRIBE, section 3.8.3.1.
fn options_byte(options: SubscriptionOptions) -> u8 {
    options.qos as u8
        | u8::from(options.no_local) << 2
        | u8::from(options.retain_as_published) << 3
        | (options.retain_handling as u8) << 4
}

fn options(byte: u8) -> Result<SubscriptionOptions, Damaged> {
    let retain_handling = match byte >> 4 {
        0 => RetainHandling::Send,
        1 => RetainHandling::SendIfNew,
        2 => RetainHandling::DoNotSend,
        _ => return Err(Damaged),
    };
    Ok(SubscriptionOptions {
        qos: qos(byte & 3)?,
        no_local: byte & 4 != 0,
        retain_as_published: byte & 8 != 0,
        retain_handling,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records() -> Vec<Record<'static>> {
        let session = SessionId(300);
        let packet_id = PacketId::MAX;
        let options = SubscriptionOptions {
            qos: QoS::ExactlyOnce,
            retain_as_published: true,
            ..Default::default()
        };
        vec![
            Record::Message {
                deliveries: Deliveries::EMPTY,
                expires: Some(Deadline {
                    unix_ms: 1 << 40,
                    left_ms: 0,
                }),
                body: b"body",
            },
            Record::Message {
                deliveries: Deliveries::EMPTY,
                expires: None,
                body: b"",
            },
            Record::Done {
                session,
                seq: wire::NUMBER_MAX,
            },
            Record::Released { session, seq: 1 },
            Record::Session {
                session,
                owner: "plant",
                client_id: "press 1",
                expiry_s: u32::MAX,
                ended_unix_ms: Some(0),
                sent_seq: 7,
                next_seq: 9,
                will: None,
            },
            Record::Session {
                session,
                owner: "",
                client_id: "",
                expiry_s: 1,
                ended_unix_ms: None,
                sent_seq: 0,
                next_seq: 1,
                will: Some(LoggedWill {
                    delay_s: 1 << 20,
                    qos: QoS::ExactlyOnce,
                    retain: true,
                    body: b"will",
                }),
            },
            Record::SessionGone { session },
            Record::Subscription {
                session,
                filter: "$share/g/a/#",
                options,
                subscription_id: Some(268_435_455),
                group: NonZeroU64::new(1 << 40),
            },
            Record::Subscription {
                session,
                filter: "a",
                options,
                subscription_id: None,
                group: None,
            },
            Record::SubscriptionGone { session, filter: "a" },
            Record::Retained {
                topic: "a/b",
                qos: QoS::AtLeastOnce,
                expires: None,
                body: b"x",
            },
            Record::RetainedGone { topic: "a/b" },
            Record::Received { session, packet_id },
            Record::ReceivedGone { session, packet_id },
        ]
    }

    #[test]
    fn every_record_comes_back_as_it_went() {
        for record in records() {
            let mut meta = Vec::new();
            let body = record.encode(&mut meta);
            assert_eq!(Record::decode(&meta, body), Ok(record));
        }
    }

    #[test]
    fn a_number_that_none_could_follow_is_damaged() {
        let session = SessionId(wire::NUMBER_MAX + 1);
        for record in [
            Record::SessionGone { session },
            Record::Done {
                session: SessionId(1),
                seq: u64::MAX,
            },
        ] {
            let mut meta = Vec::new();
            record.encode(&mut meta);
            assert_eq!(Record::decode(&meta, &[]), Err(Damaged));
        }
    }

    #[test]
    fn a_record_cut_short_or_with_a_tail_is_damaged() {
        for record in records() {
            let mut meta = Vec::new();
            let body = record.encode(&mut meta);
            let is_message = matches!(record, Record::Message { .. });
            let without_will = match record {
                Record::Session { will: Some(will), .. } => meta.len() - will.body.len() - 5,
                _ => meta.len(),
            };
            for end in 0..meta.len() {
                let whole = is_message && end + 1 == meta.len() && meta[1] == 0 || end == without_will;
                assert!(
                    whole || Record::decode(&meta[..end], body).is_err(),
                    "{record:?} up to {end}"
                );
            }
            meta.push(0xFF);
            assert!(Record::decode(&meta, body).is_err(), "{record:?} with a tail");
        }
    }
}
