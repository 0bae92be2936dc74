//! Batches into messages.

use std::sync::Arc;

use hub::{Origin, Parcel};
use mqtt::{PacketId, Publish, PublishProperties, QoS};

use super::deflate::Inflater;
use super::{
    DEFLATED, EPOCHS_MAX, EpochName, FIRST_NUMBER, HAS_PROPERTIES, NAME_BYTES_MAX, NEW, PARCEL_BYTES,
    PARCELS_BYTES_MAX, PLAIN, QOS_BITS, RETAIN, SAME_LEN, SAME_TOPIC, SKIPS, TELLS_AFTER, TOPIC_BYTES_MAX, UNNUMBERED,
    number_next,
};
use crate::wire::{Malformed, Reader};

/// Takes batches of one connection apart.
#[derive(Debug, Default)]
pub struct Decoder {
    epochs: Vec<EpochName>,
    numbered: Vec<Box<str>>,
    next_topic: usize,
    /// Of connections whose other end deflates: it takes some 40 KiB.
    inflater: Option<Inflater>,
}

/// Messages of one epoch in a batch.
#[derive(Debug, PartialEq, Eq)]
pub struct Section {
    /// Of which epoch.
    pub name: EpochName,
    /// No lower sequence is to be expected any more.
    pub floor: u64,
    /// Each as [`Parcel`] has it, with its origin.
    pub parcels: Vec<Vec<u8>>,
}

impl Decoder {
    /// The sections of a batch, which `edge` sent. What is malformed ends the connection: what is said from then on
    /// cannot be understood.
    ///
    /// # Errors
    /// The bytes are no batch of this connection, or would become more than 16 MiB.
    pub fn read(&mut self, edge: &str, batch: &[u8]) -> Result<Vec<Section>, Malformed> {
        match batch.split_first() {
            Some((&PLAIN, sections)) => self.sections(edge, sections),
            Some((&DEFLATED, deflated)) => {
                let inflater = self.inflater.get_or_insert_default();
                let sections = inflater.inflate(deflated)?;
                self.sections(edge, &sections)
            }
            Some(_) => Err(Malformed("it is neither plain nor deflated")),
            None => Err(Malformed("it ends early")),
        }
    }

    fn sections(&mut self, edge: &str, bytes: &[u8]) -> Result<Vec<Section>, Malformed> {
        let mut reader = Reader::new(bytes);
        let mut sections = Vec::new();
        let mut room = Room(PARCELS_BYTES_MAX);
        while !reader.is_empty() {
            room.take(size_of::<Section>())?;
            sections.push(self.section(edge, &mut reader, &mut room)?);
        }
        Ok(sections)
    }

    fn section(&mut self, edge: &str, reader: &mut Reader<'_>, room: &mut Room) -> Result<Section, Malformed> {
        let name = self.epoch(reader)?;
        let mut position = At {
            sequence: reader.u64()?,
            received_ms: reader.u64()?,
            topic: String::new(),
            len: None,
        };
        let (floor, count) = (reader.u64()?, reader.u64()?);
        let mut parcels = Vec::new();
        for _ in 0..count {
            parcels.push(self.record(edge, name.epoch, reader, &mut position, room)?);
        }
        Ok(Section { name, floor, parcels })
    }

    fn epoch(&mut self, reader: &mut Reader<'_>) -> Result<EpochName, Malformed> {
        let number = reader.u64()? as usize;
        if number == self.epochs.len() {
            if number == EPOCHS_MAX {
                return Err(Malformed("it speaks of more epochs than a connection may"));
            }
            self.epochs.push(EpochName {
                tenant: short_name(reader)?,
                route: short_name(reader)?,
                epoch: reader.u64()?,
            });
        }
        let name = self.epochs.get(number).cloned();
        name.ok_or(Malformed("it speaks of an epoch that was not told"))
    }

    fn record(
        &mut self,
        edge: &str,
        epoch: u64,
        reader: &mut Reader<'_>,
        at: &mut At,
        room: &mut Room,
    ) -> Result<Vec<u8>, Malformed> {
        let flags = reader.u8()?;
        let next = at.sequence;
        if flags & SKIPS != 0 {
            at.sequence = at.sequence.wrapping_add(reader.signed()? as u64);
        }
        let after = match flags & TELLS_AFTER != 0 {
            true => at.sequence.wrapping_sub(reader.signed()? as u64),
            false => next.min(at.sequence),
        };
        at.received_ms = at.received_ms.wrapping_add(reader.signed()? as u64);
        if flags & SAME_TOPIC == 0 {
            self.topic(reader, &mut at.topic)?;
        }
        let block = if flags & HAS_PROPERTIES != 0 {
            reader.bytes()?
        } else {
            &[0]
        };
        let properties = PublishProperties::read_block(block).map_err(|_| Malformed("properties of a message"))?;
        let len = match flags & SAME_LEN != 0 {
            true => at.len.ok_or(Malformed("a message is as long as none before it"))?,
            false => reader.u64()?,
        };
        at.len = Some(len);
        let payload = reader.take(len)?;
        room.take(payload.len() + at.topic.len() + block.len() + edge.len() + PARCEL_BYTES)?;
        let qos = QoS::from_bits(flags & QOS_BITS).ok_or(Malformed("a message has QoS 3"))?;
        mqtt::topic::check_name(&at.topic).map_err(|_| Malformed("a topic that none can have"))?;
        let origin = Origin {
            edge,
            epoch,
            sequence: at.sequence,
            after,
        };
        let publish = Publish {
            dup: false,
            qos,
            retain: flags & RETAIN != 0,
            topic: &at.topic,
            packet_id: (qos != QoS::AtMostOnce).then_some(PacketId::MIN),
            properties,
            payload,
        };
        let mut bytes = Vec::with_capacity(payload.len() + at.topic.len() + 48);
        Parcel {
            received_ms: at.received_ms,
            origin: Some(origin),
            publish,
        }
        .encode(&mut bytes);
        at.sequence = at.sequence.wrapping_add(1);
        Ok(bytes)
    }

    fn topic(&mut self, reader: &mut Reader<'_>, topic: &mut String) -> Result<(), Malformed> {
        topic.clear();
        match reader.u64()? {
            UNNUMBERED => topic.push_str(reader.str()?),
            NEW => {
                let new = reader.str()?;
                if new.len() > TOPIC_BYTES_MAX {
                    return Err(Malformed("a topic is too long to have a number"));
                }
                topic.push_str(new);
                number_next(&mut self.numbered, &mut self.next_topic, new.into(), |_| {});
            }
            number => {
                let at = usize::try_from(number - FIRST_NUMBER).ok();
                let known = at.and_then(|at| self.numbered.get(at));
                topic.push_str(known.ok_or(Malformed("it speaks of a topic that was not told"))?);
            }
        }
        Ok(())
    }
}

fn short_name(reader: &mut Reader<'_>) -> Result<Arc<str>, Malformed> {
    let name = reader.str()?;
    match name.len() <= NAME_BYTES_MAX {
        true => Ok(name.into()),
        false => Err(Malformed("the name of a tenant or a route is too long")),
    }
}

/// Bytes that messages may still take.
#[derive(Debug)]
struct Room(usize);

impl Room {
    fn take(&mut self, bytes: usize) -> Result<(), Malformed> {
        let left = self.0.checked_sub(bytes);
        self.0 = left.ok_or(Malformed("it becomes more than 16 MiB"))?;
        Ok(())
    }
}

/// Where a reader of a section is.
#[derive(Debug)]
struct At {
    sequence: u64,
    received_ms: u64,
    topic: String,
    len: Option<u64>,
}
